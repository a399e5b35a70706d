"""Chromium as an engine, driven by its debugging pipe; it has no port that a page could reach.

One tab of one profile renders page after page: a new renderer process for each would take five
times the CPU time. After a page, cookies and the storage of its origin are deleted. Timers run in
virtual time, so that a page that waits for five seconds does not take that long.

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
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urldefrag

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

T = TypeVar("T")

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
# Features that would move pages to new processes, keep old pages, or change URLs.
_WITHOUT = """
    ProactivelySwapBrowsingInstance BackForwardCache IsolateOrigins site-per-process HttpsUpgrades
    Translate MediaRouter OptimizationHints SpareRendererForSitePerProcess
"""
_START_SECS = 30.0
# Seconds to return the DOM of a stopped page, and to clean up.
_LAST_SECS = 3.0
# Seconds between two measurements of the CPU time and memory of the engine; the second while it
# has more than half of the memory that it may have.
_POLL_SECS, _CLOSE_POLL_SECS = 0.1, 0.02
# Maximum number of frames to draw. A frame that leads to no requests is the last one.
_FRAMES = 4
_PIXEL = {"x": 0, "y": 0, "width": 1, "height": 1, "scale": 1}
# Maximum number of URLs of each kind in a result, and maximum length of a URL.
_MAX_NAMED, _MAX_URL = 1000, 4000
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

# Runs in the page's own world, before its scripts, and reports attempts that `Fetch` does not see.
# A page can evade this, but gains nothing by it, because it has no network.
_REPORTER = """
(report => {
  // The first *allowed* calls work. They are reported, too, unless *silent*.
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
  wrap("Worker", 16, true);  // thousands would keep the browser busy beyond the bounds
  Object.defineProperty(Navigator.prototype, "onLine", {get: () => true});
  // A page that is left sends nothing.
  for (const name of ["beforeunload", "pagehide", "unload", "visibilitychange"])
    addEventListener(name, event => event.stopImmediatePropagation(), true);
  if (location.protocol === "data:") { report("data-document"); stop(); }
  if (self === top) {  // frames, in which observers of scrolling are called
    const frame = () => setTimeout(() => requestAnimationFrame(frame), 100);
    frame();
  }
  if (self.ServiceWorkerContainer) ServiceWorkerContainer.prototype.register = url => {
    report("service-worker " + new URL(url, location.href));
    return Promise.reject(new DOMException("refused", "SecurityError"));
  };
})(self.webcrawlReport); delete self.webcrawlReport;
"""
# Runs in an isolated world, where the page cannot have changed any functions.
_SNAPSHOT = """
((maxNodes, maxLength) => {
  let nodes = 0, hasShadow = false;
  const count = [document];
  while (count.length) {
    const all = count.pop().querySelectorAll("*");
    nodes += all.length;
    if (nodes > maxNodes) return {nodes, html: ""};
    for (const one of all) if (one.shadowRoot) { hasShadow = true; count.push(one.shadowRoot); }
  }
  let root = document.documentElement;
  if (!root) return {nodes, html: ""};
  if (hasShadow) {
    const other = document.implementation.createHTMLDocument();
    const todo = [[root, root = other.importNode(root)]];
    while (todo.length) {
      const [from, to] = todo.pop();
      for (const parent of [from.shadowRoot, from]) if (parent)
        for (const child of parent.childNodes)
          todo.push([child, to.appendChild(other.importNode(child))]);
    }
  }
  const html = (document.doctype ? "<!DOCTYPE html>" : "") + root.outerHTML;
  self.name = "";
  try { sessionStorage.clear(); } catch {}
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
        self.session = self.tab = self.warning = ""
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
        context = call("Target.createBrowserContext")
        call("Browser.setDownloadBehavior", behavior="deny", **context)
        self.tab = call("Target.createTarget", url="about:blank", **context)["targetId"]
        attached = call("Target.attachToTarget", targetId=self.tab, flatten=True)
        self.session = session = attached["sessionId"]
        for domain in ("Page", "Inspector", "Runtime", "Fetch"):
            call(f"{domain}.enable", session)
        call("Runtime.addBinding", session, name="webcrawlReport")
        call("Page.addScriptToEvaluateOnNewDocument", session, source=_REPORTER)
        call("Target.setAutoAttach", session, **_ATTACH)

    def render(self, page: Pass, stored: LookUp) -> Rendering:
        """Render *page* in the tab."""
        return _Run(self, page, stored).result()

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

    def __init__(self, engine: Chromium, page: Pass, stored: LookUp) -> None:
        self._engine, self._page, self._stored = engine, page, stored
        self._clock, self._connection = engine.clock, engine.connection
        self._send = partial(self._connection.send, session=engine.session)
        self._call = partial(
            self._connection.call, session=engine.session, secs=_LAST_SECS, on_event=self._on_event
        )
        self._url = urldefrag(page.url).url
        self._began = self._clock()
        self._cpu_before = usage_of(engine.pid)[0]
        self._is_given = self._is_settled = self._is_over = False
        #: Sessions of workers.
        self._workers: list[str] = []
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
                self._clean_up()
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
                self._call("Page.captureScreenshot", clip=_PIXEL)
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
        budget = 1000 * self._page.bounds.virtual_secs
        policy = "pauseIfNetworkFetchesPending"
        self._send("Emulation.setVirtualTimePolicy", policy=policy, budget=budget)

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
            "Page.createIsolatedWorld", frameId=self._engine.tab, worldName="snapshot"
        )
        returned = self._call(
            "Runtime.evaluate",
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
        for session in [self._engine.session, *self._workers]:
            self._connection.send("Runtime.terminateExecution", session)
        self._send("Emulation.setScriptExecutionDisabled", value=True)

    def _clean_up(self) -> None:
        """Delete what the page has stored. Its timers stand still until the next page comes."""
        self._is_over = True
        if self._workers:
            self._call("Page.navigate", url="about:blank")
        origin = "/".join(self._url.split("/")[:3])
        self._call("Storage.clearDataForOrigin", origin=origin, storageTypes="all")
        self._call("Network.clearBrowserCookies")

    def _on_event(self, event: Message) -> None:
        """Answer or refuse requests, record URLs, and notice when the page has settled."""
        params = event.params
        url = params.get("url", "")
        match event.method:
            case "Fetch.requestPaused":
                self._on_request(params, event.session_id)
            case "Page.frameNavigated" if "parentId" not in params["frame"]:
                self._grant_time()
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
                self._on_target(params["targetInfo"], params["sessionId"])
            case "Inspector.targetCrashed":
                raise ConnectionLostError("the page has crashed")

    def _on_target(self, target: dict[str, Any], session: str) -> None:
        """Start a worker whose requests are intercepted like the page's; close other targets."""
        if target["type"] == "worker":
            self._workers.append(session)
            self._connection.send("Fetch.enable", session)
            self._connection.send("Runtime.runIfWaitingForDebugger", session)
        else:
            self._refuse(target["url"], target["type"])
            self._connection.send("Target.closeTarget", targetId=target["targetId"])

    def _on_request(self, params: dict[str, Any], session: str) -> None:
        request, kind = params["request"], params["resourceType"]
        url, headers = request["url"], request["headers"]
        if headers.get("Accept") == "text/event-stream":
            kind = "EventSource"
        elif kind == "Other" and "User-Agent" not in headers:
            kind = "Script"  # of a worker; hints and icons have that header
        answer = self._find(url, kind, request, params.get("frameId"))
        respond = partial(self._connection.send, session=session, requestId=params["requestId"])
        if isinstance(answer, Answer):
            kept = [field for field in answer.headers if _SENT.fullmatch("\0".join(field))]
            respond(
                "Fetch.fulfillRequest",
                responseCode=answer.status,
                responseHeaders=[{"name": name, "value": value} for name, value in kept],
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
        method, headers = request["method"], request["headers"]
        if kind == "Document" and url == self._url and not self._is_given:
            self._is_given = True
            return msgspec.structs.replace(self._page.answer, status=200)  # others show no page
        if kind == "Document" and frame == self._engine.tab:
            return "navigation" if method == "GET" else f"navigation by {method}"
        if kind not in _KINDS:
            return _REFUSED.get(kind, kind.lower())
        is_preflight = "Access-Control-Request-Method" in headers
        method = headers.get("Access-Control-Request-Method", method)
        if method != "GET":
            return f"method {method}"
        if len(url) > _MAX_URL:
            return "too long"
        subresource = subresource_of(url, _KINDS[kind], headers, is_preflight=is_preflight)
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

    def _note(self, where: dict[T, None], what: T) -> None:
        if len(where) < _MAX_NAMED and self._is_given and not self._is_over:
            where[what] = None
