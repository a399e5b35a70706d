"""Chromium as an engine, driven by its debugging pipe; it has no port that a page could reach.

One tab renders page after page: a new renderer process for each would take five times the CPU
time. Each pass has its own session with the tab. It ends on about:blank, with the page's scripts,
workers, cookies and storage gone, or the tab is replaced. Timers run in virtual time, so that a
page that waits for five seconds does not take that long.

Tested with Chromium 156. It keeps its own sandbox.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag
from zlib import crc32

import msgspec

from webcrawl.render.cdp import Connection, ConnectionLostError, Message, UnansweredError
from webcrawl.render.engine import (
    Answer,
    Ending,
    EngineError,
    Kind,
    LookUp,
    Pass,
    Rendering,
    Subresource,
)
from webcrawl.render.isolation import Isolation
from webcrawl.render.process_tree import usage_of
from webcrawl.render.subresources import subresource_of

if TYPE_CHECKING:
    from webcrawl.clock import TimeSource

# The first two lines keep the network away where namespaces do not.
_FLAGS = """
    --host-resolver-rules=MAP*~NOTFOUND --proxy-server=http://nowhere.invalid:1
    --proxy-bypass-list=<-loopback> --webrtc-ip-handling-policy=disable_non_proxied_udp
    --headless --remote-debugging-pipe --no-first-run --mute-audio --disable-gpu --disable-sync
    --disable-background-networking --disable-breakpad --disable-component-update
    --disable-default-apps --disable-domain-reliability --disable-extensions --no-pings
    --disable-site-isolation-trials --block-new-web-contents --password-store=basic
    --js-flags=--max-old-space-size=512 --window-size=1280,2000 --no-startup-window
"""
# Features that would move pages to new processes or frames, keep old pages, change URLs, or show
# menus of the address bar.
_WITHOUT = """
    ProactivelySwapBrowsingInstance BackForwardCache IsolateOrigins site-per-process HttpsUpgrades
    Translate MediaRouter OptimizationHints SpareRendererForSitePerProcess RenderDocument
    WebUIOmniboxPopup WebUIOmniboxAimPopup
"""
_START_SECS = 30.0
# Seconds to draw a frame, and to return the DOM of a stopped page.
_LAST_SECS = 3.0
# Seconds between two measurements of the CPU time and memory of the engine; the second while it
# has more than half of the memory that it may have.
_POLL_SECS, _CLOSE_POLL_SECS = 0.1, 0.02
# Maximum number of frames to draw. A frame that leads to no requests is the last one.
_FRAMES = 4
_PIXEL = {"x": 0, "y": 0, "width": 1, "height": 1, "scale": 1}
# Maximum number of URLs of each kind in a result, and maximum length of a URL.
_MAX_NAMED, _MAX_URL = 1000, 4000
# Workers that may outlive their page.
_SHARED = [{"type": "shared_worker"}, {"type": "service_worker"}, {"exclude": True}]
_WORLD = "webcrawl"
_ATTACH: dict[str, Any] = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}

# Resource types that are looked up; others are refused under the name on the right.
_KINDS: dict[str, Kind] = {
    "Script": "script",
    "Fetch": "fetch",
    "XHR": "xhr",
    "Stylesheet": "style",
}
_REFUSED = {
    "Document": "frame",
    "Ping": "beacon",
    "TextTrack": "media",
    "EventSource": "EventSource",
}
# Header fields that are sent to the engine, with NUL between name and value. With an invalid one,
# Chromium would reject the answer. The body is decoded, cookies are not kept, and nothing is
# downloaded. Chromium itself decides by the others whether the page may read a foreign answer.
_SENT = re.compile(
    r"(?!(content-(encoding|length|disposition)|transfer-encoding|connection|set-cookie)\0)"
    r"[\w!#$%&'*+.^`|~-]+\0[^\0\r\n]*",
    re.IGNORECASE | re.ASCII,
)

# Runs in the page's own world and in workers, so that each pass asks for the same URLs. The clock
# goes in steps, because passes differ by a few hundredths of a second.
_STEADY = """
((seed, start) => {
  Math.random = () => (seed = seed * 48271 %% 2147483647) / 2147483647;
  const Real = Date, {now} = Date, begin = now();
  const elapsed = () => now() - begin - (now() - begin) %% 100, time = () => start + elapsed();
  const construct = (_, values, target) =>
    Reflect.construct(Real, values.length ? values : [time()], target);
  const apply = () => String(new Real(time()));
  Real.now = time;
  self.Date = Real.prototype.constructor = new Proxy(Real, {construct, apply});
  Performance.prototype.now = elapsed;
  Object.defineProperty(Performance.prototype, "timeOrigin", {get: () => start});
})(%d, %d);
"""
# Runs in the page's own world, before its scripts, and reports attempts that `Fetch` does not see.
# A page can evade this, but gains nothing by it, because it has no network. The first *allowed*
# calls of what is wrapped work. They are reported, too, unless *silent*. Thousands of workers would
# keep the browser busy beyond the bounds. A frame with an opaque origin can make the page go
# elsewhere without an event that the page gets. Observers of scrolling are called in animation
# frames.
_REPORTER = """
(report => {
  const wrap = (name, allowed, silent) => {
    const Real = self[name];
    const construct = (_, values, target) => {
      const works = allowed-- > 0, [url] = values;
      if (!works || !silent)
        report(name + " " + (typeof url === "string" ? new URL(url, location.href) : ""));
      if (works) return Reflect.construct(Real, values, target);
      throw new DOMException("refused", "NotSupportedError");
    };
    if (Real) self[name] = new Proxy(Real, {construct});
  };
  wrap("WebSocket", Infinity); wrap("WebTransport", Infinity);
  wrap("RTCPeerConnection", 0); wrap("webkitRTCPeerConnection", 0); wrap("SharedWorker", 0);
  wrap("Worker", 16, true);
  Object.defineProperty(Navigator.prototype, "onLine", {get: () => true});
  if (self !== top && origin === "null") { report("opaque-frame"); stop(); }
  if (self === top) {
    const frame = () => setTimeout(() => requestAnimationFrame(frame), 100);
    frame();
  }
})(self.webcrawlReport); delete self.webcrawlReport;
"""
# Both run in an isolated world, where the page cannot have changed any functions. The first one
# runs before the page's scripts. `Fetch` sees navigations by HTTP, but no others.
_GUARD = """
if (self === top) {
  name = "";
  try { localStorage.clear(); sessionStorage.clear(); } catch {}
  navigation.addEventListener("navigate", event => {
    const url = URL.parse(event.destination.url);
    if (!/^https?:/.test(url?.protocol) && event.downloadRequest === null) event.preventDefault();
  });
}
"""
# Names of elements hide properties of forms and documents, but not those of prototypes.
_SNAPSHOT = """
((maxNodes, maxLength) => {
  const get = (type, name, node) => Reflect.get(type.prototype, name, node);
  let nodes = 0, hasShadow = false;
  const count = [[Document, document]];
  while (count.length) {
    const [type, parent] = count.pop(), all = get(type, "querySelectorAll").call(parent, "*");
    nodes += all.length;
    if (nodes > maxNodes) return {nodes, html: ""};
    for (const one of all) {
      const root = get(Element, "shadowRoot", one);
      if (root) { hasShadow = true; count.push([ShadowRoot, root]); }
    }
  }
  let root = get(Document, "documentElement", document);
  if (!root) return {nodes, html: ""};
  if (hasShadow) {
    const other = new DOMParser().parseFromString("", "text/html");
    const todo = [[root, root = other.importNode(root)]];
    while (todo.length) {
      const [from, to] = todo.pop();
      for (const parent of [from instanceof Element && get(Element, "shadowRoot", from), from])
        if (parent) for (const child of get(Node, "childNodes", parent))
          todo.push([child, get(Node, "appendChild").call(to, other.importNode(child))]);
    }
  }
  const doctype = get(Document, "doctype", document) ? "<!DOCTYPE html>" : "";
  const html = doctype + get(Element, "outerHTML", root);
  return {nodes, html: html.length > maxLength ? "" : html};
})(%d, %d)
"""


class Chromium:
    """Engine that runs the Chromium at *path*, or the one found in PATH if that is "".

    ``warning`` is a sentence after ``start`` if namespaces are not allowed.
    """

    def __init__(self, path: str = "", *, clock: TimeSource) -> None:
        self._path, self.clock = path, clock
        self._process: subprocess.Popen[bytes] | None = None
        self._isolation: Isolation | None = None
        self.connection: Connection
        self.tab = ""
        self.warning = ""
        #: Parameter that names the browser context of the tab.
        self.context: dict[str, Any]
        #: Process whose descendants Chromium's are.
        self.pid = 0

    def start(self) -> None:
        """Start Chromium and open its tab. Takes about a second. Raises EngineError."""
        executable = shutil.which(self._path or "chromium")
        if executable is None:
            raise EngineError(
                f"RENDER needs Chromium, and {self._path or 'chromium'} is not a program: install "
                "the system's package chromium, or name the program with RENDER_ENGINE."
            )
        self._isolation = isolation = Isolation(executable)
        self.warning = isolation.warning
        flags = [
            *(flag.replace("MAP*", "MAP * ") for flag in _FLAGS.split()),
            f"--disable-features={','.join(_WITHOUT.split())}",
            f"--user-data-dir={isolation.directory}/profile",
        ]
        with tempfile.TemporaryFile() as log:
            self._process = process = subprocess.Popen(  # noqa: S603  # the user's choice
                isolation.command([executable, *flags]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=isolation.environment,
                start_new_session=True,  # killed as a group
            )
            assert process.stdin
            assert process.stdout
            self.pid = process.pid
            self.connection = Connection(process.stdout, process.stdin, clock=self.clock)
            try:
                self._open_tab()
            except ConnectionLostError as error:
                self.stop()
                log.seek(0)
                lines = log.read().decode(errors="replace").splitlines()
                reason = [line for line in lines if "FATAL" in line] or lines[-1:]
                raise EngineError(
                    f"{executable} does not start ({error}): {' '.join(reason)}"
                ) from error

    def _open_tab(self) -> None:
        call = partial(self.connection.call, secs=_START_SECS)
        self.context = call("Target.createBrowserContext")
        call("Browser.setDownloadBehavior", behavior="deny", **self.context)
        self.tab = call("Target.createTarget", url="about:blank", **self.context)["targetId"]
        call("Target.setAutoAttach", **_ATTACH, filter=_SHARED)

    def replace_tab(self) -> None:
        """Open another tab, without anything that pages have left in this one."""
        self.connection.call("Target.disposeBrowserContext", **self.context, secs=_START_SECS)
        self._open_tab()

    def _attach(self, steady: str) -> str:
        """Return a new session with the tab."""
        attached = self.connection.call(
            "Target.attachToTarget", targetId=self.tab, flatten=True, secs=_START_SECS
        )
        session: str = attached.get("sessionId", "")
        send = partial(self.connection.send, session=session)
        for domain in ("Page", "Inspector", "Runtime", "Fetch"):
            send(f"{domain}.enable")
        send("Runtime.addBinding", name="webcrawlReport")
        add_script = "Page.addScriptToEvaluateOnNewDocument"
        send(add_script, source=steady + _REPORTER)
        send(add_script, source=_GUARD, worldName=_WORLD)
        send("Target.setAutoAttach", **_ATTACH)
        return session

    def render(self, page: Pass, stored: LookUp) -> Rendering:
        """Render *page* in the tab."""
        seed = crc32(page.url.encode()) % 2147483646 + 1
        steady = _STEADY % (seed, 1000 * page.fetched_at)
        try:
            session = self._attach(steady)
        except ConnectionLostError:
            return Rendering("crashed")
        return _Run(self, session, steady, page, stored).result()

    def stop(self) -> None:
        """Kill Chromium with all its processes, and delete its directory."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None
        if self._isolation is not None:
            self._isolation.remove()
            self._isolation = None


class _Run:
    """One pass."""

    def __init__(
        self, engine: Chromium, session: str, steady: str, page: Pass, stored: LookUp
    ) -> None:
        self._engine, self._page, self._stored = engine, page, stored
        self._clock, self._connection = engine.clock, engine.connection
        self._steady = steady
        self._send = partial(self._connection.send, session=session)
        self._call_browser = partial(
            self._connection.call, secs=_START_SECS, on_event=self._on_event
        )
        self._call = partial(self._call_browser, session=session)
        self._url = urldefrag(page.url).url
        self._began = self._clock()
        self._cpu_before = usage_of(engine.pid)[0]
        self._is_given = self._is_settled = self._is_over = False
        #: Of the page, and of its workers.
        self._sessions = [session]
        #: Document that the tab shows.
        self._loader = ""
        self._result = Rendering("settled")
        # In the order of what came first; URLs with the reason.
        self._missing: dict[Subresource, None] = {}
        self._refused: dict[tuple[str, str], None] = {}

    def result(self) -> Rendering:
        result = self._result
        try:
            result.ended = self._shown()
            if result.ended in {"cpu", "wall"}:
                self._stop_scripts()
            if result.ended != "memory":
                self._take_snapshot()
            if result.ended == "settled" and not result.html:
                result.ended = "nodes"
            if result.ended == "settled":
                self._leave()
        except ConnectionLostError:
            if result.ended == "settled":
                result.ended = "crashed"
        result.missing, result.refused = [*self._missing], [*self._refused]
        result.wall_secs = self._clock() - self._began
        self._bound_passed()
        return result

    def _shown(self) -> Ending:
        """Load the page, let its timers run, and return why that ended."""
        self._send("Emulation.setVirtualTimePolicy", policy="pause")
        self._send("Page.navigate", url=self._page.url)
        # Virtual time may pass without a frame, and observers of scrolling are called in frames.
        for frame in range(_FRAMES):
            requests = self._result.requests
            if bound := self._until_settled():
                return bound
            if frame and requests == self._result.requests:
                break
            self._is_settled = False
            with suppress(UnansweredError):  # sometimes the frame is never drawn
                self._call("Page.captureScreenshot", secs=_LAST_SECS, clip=_PIXEL)
            self._grant_time()
        return self._until_settled() or "settled"

    def _until_settled(self) -> Ending | None:
        """Wait until the page's virtual time is over, or return the bound that it exceeds."""
        next_look, poll_secs = 0.0, _POLL_SECS
        while not self._is_settled:
            if message := self._connection.receive(poll_secs):
                self._on_event(message)
                if "errorText" in message.result:
                    raise ConnectionLostError("it does not show the page")
            if self._clock() >= next_look:
                if bound := self._bound_passed():
                    return bound
                is_close = self._result.memory > self._page.bounds.memory / 2
                poll_secs = _CLOSE_POLL_SECS if is_close else _POLL_SECS
                next_look = self._clock() + poll_secs
        return None

    def _grant_time(self) -> None:
        self._send(
            "Emulation.setVirtualTimePolicy",
            policy="pauseIfNetworkFetchesPending",
            budget=1000 * self._page.bounds.virtual_secs,
        )

    def _bound_passed(self) -> Ending | None:
        """Record the CPU time and memory of the engine; return the bound that it exceeds."""
        result, bounds = self._result, self._page.bounds
        cpu_secs, memory = usage_of(self._engine.pid)
        result.cpu_secs = max(result.cpu_secs, cpu_secs - self._cpu_before)
        result.memory = max(result.memory, memory)
        if memory > bounds.memory:
            return "memory"
        if result.cpu_secs > bounds.cpu_secs:
            return "cpu"
        return "wall" if self._clock() - self._began > bounds.wall_secs else None

    def _take_snapshot(self) -> None:
        # Without a name, each page would leave a world that is created again for all later ones.
        world = self._call(
            "Page.createIsolatedWorld", secs=_LAST_SECS, frameId=self._engine.tab, worldName=_WORLD
        )
        returned = self._call(
            "Runtime.evaluate",
            secs=_LAST_SECS,
            expression=_SNAPSHOT % (self._page.bounds.nodes, self._page.bounds.bytes),
            contextId=world.get("executionContextId"),
            returnByValue=True,
        )
        value = returned.get("result", {}).get("value")
        if not value:
            raise ConnectionLostError("it gives no DOM")
        self._result.nodes, self._result.html = value["nodes"], value["html"]

    def _stop_scripts(self) -> None:
        self._is_over = True
        for session in self._sessions:
            self._connection.send("Runtime.terminateExecution", session)
        self._send("Emulation.setScriptExecutionDisabled", value=True)

    def _leave(self) -> None:
        """Leave the page, so that nothing of it is there for the next one."""
        self._is_over = True
        self._call("Emulation.setScriptExecutionDisabled", value=True)
        left = self._call("Page.navigate", url="about:blank")
        while self._loader != left.get("loaderId"):
            message = self._connection.receive(_START_SECS)
            if message is None:
                raise UnansweredError("it does not leave the page")
            self._on_event(message)
        origin = "/".join(self._url.split("/")[:3])
        self._call("Storage.clearDataForOrigin", origin=origin, storageTypes="all")
        self._call("Network.clearBrowserCookies")
        self._call("Page.resetNavigationHistory")
        usage = self._call("Storage.getUsageAndQuota", origin=origin).get("usage")
        entries = self._call("Page.getNavigationHistory").get("entries", [])
        self._call_browser("Target.detachFromTarget", sessionId=self._sessions[0])
        if usage or len(entries) > 1 or not self._has_ended():
            self._engine.replace_tab()

    def _has_ended(self) -> bool:
        """Return whether neither cookies nor targets, such as workers, are left of the page."""
        context = self._engine.context
        cookies = self._call_browser("Storage.getCookies", **context)
        found = self._call_browser("Target.getTargets").get("targetInfos", [])
        targets = [
            one["targetId"]
            for one in found
            if one.items() >= context.items() and one["type"] != "browser_ui"  # not of pages
        ]
        return cookies == {"cookies": []} and targets == [self._engine.tab]

    def _on_event(self, event: Message) -> None:
        """Answer or refuse requests, record URLs, and notice when the page has settled."""
        params = event.params
        url = params.get("url", "")
        match event.method:
            case "Fetch.requestPaused":
                self._on_request(params, event.session_id)
            case "Page.frameNavigated" if "parentId" not in params["frame"]:
                self._on_document(params["frame"])
            case "Emulation.virtualTimeBudgetExpired":
                self._is_settled = True
            case "Page.javascriptDialogOpening":
                self._send("Page.handleJavaScriptDialog", accept=False)
            case "Page.windowOpen":
                self._refuse(url, "popup")
            case "Page.downloadWillBegin":
                self._refuse(url, "download")
            case "Runtime.bindingCalled":
                name, _, url = params["payload"].partition(" ")
                self._refuse(url or self._url, name)
            case "Target.attachedToTarget":
                self._on_target(params["targetInfo"], params["sessionId"], event.session_id)
            case "Inspector.targetCrashed" if event.session_id == self._sessions[0]:
                raise ConnectionLostError("the page has crashed")

    def _on_document(self, frame: dict[str, Any]) -> None:
        """Let time pass in the page. Any other document would be stored in its place."""
        self._loader = frame["loaderId"]
        if not self._is_over:
            if frame["url"] != self._url:
                raise ConnectionLostError("it shows another page")
            self._grant_time()

    def _on_target(self, target: dict[str, Any], session: str, parent: str) -> None:
        """Start a worker whose requests are intercepted like the page's; close other targets."""
        if target["type"] == "worker" and parent in self._sessions:
            self._sessions.append(session)
            send = partial(self._connection.send, session=session)
            send("Fetch.enable")
            send("Runtime.evaluate", expression=self._steady)
            send("Runtime.runIfWaitingForDebugger")
        else:
            self._refuse(target["url"], target["type"])
            self._connection.send("Target.closeTarget", targetId=target["targetId"])

    def _on_request(self, params: dict[str, Any], session: str) -> None:
        respond = partial(self._connection.send, session=session, requestId=params["requestId"])
        if self._is_over or session not in self._sessions:
            respond("Fetch.failRequest", errorReason="Aborted")
            return
        request, kind = params["request"], params["resourceType"]
        url, headers = request["url"], request["headers"]
        if headers.get("Accept") == "text/event-stream":
            kind = "EventSource"
        elif kind == "Other" and "User-Agent" not in headers:
            kind = "Script"  # of a worker; hints and icons have that header
        answer = self._find(url, kind, request, params.get("frameId"))
        if isinstance(answer, Answer):
            respond(
                "Fetch.fulfillRequest",
                responseCode=answer.status,
                responseHeaders=[
                    {"name": name, "value": value}
                    for name, value in answer.headers
                    if _SENT.fullmatch(f"{name}\0{value}")
                ],
                body=base64.b64encode(answer.body).decode("ascii"),
            )
            return
        # The icon is asked for without the page.
        if answer is not None and (kind != "Other" or not url.endswith("/favicon.ico")):
            self._refuse(url, answer)
        # With "Aborted" the page stays when it tries to go elsewhere.
        respond("Fetch.failRequest", errorReason="Aborted" if kind == "Document" else "Failed")

    def _find(
        self, url: str, kind: str, request: dict[str, Any], frame: str | None
    ) -> Answer | str | None:
        """Return the answer to a request or the reason to refuse it, None if it is missing."""
        method = request["method"]
        headers = request["headers"]
        if kind == "Document" and url == self._url and not self._is_given:
            self._is_given = True
            return msgspec.structs.replace(self._page.answer, status=200)  # others show no page
        if kind == "Document" and frame == self._engine.tab:
            return "navigation" if method == "GET" else f"navigation by {method}"
        if kind not in _KINDS:
            return _REFUSED.get(kind, kind.lower())
        method = headers.get("Access-Control-Request-Method", method)
        if method != "GET":
            return f"method {method}"
        if len(url) > _MAX_URL:
            return "too long"
        subresource = subresource_of(url, _KINDS[kind], headers)
        return subresource if isinstance(subresource, str) else self._look_up(subresource)

    def _look_up(self, subresource: Subresource) -> Answer | str | None:
        result, bounds = self._result, self._page.bounds
        if result.requests >= bounds.requests:
            return "too many requests"
        result.requests += 1
        found = self._stored(subresource)
        if found is None:
            self._note(self._missing, subresource)
        if isinstance(found, Answer):
            if not 200 <= found.status <= 599:
                return f"status {found.status}"
            if result.bytes + len(found.body) > bounds.bytes:
                return "too many bytes"
            result.bytes += len(found.body)
        return found

    def _refuse(self, url: str, reason: str) -> None:
        self._note(self._refused, (url[:_MAX_URL], reason))

    def _note(self, where: dict[Any, None], what: object) -> None:
        if len(where) < _MAX_NAMED and self._is_given and not self._is_over:
            where[what] = None
