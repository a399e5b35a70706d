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
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag

from webcrawl.render.cdp import Connection, ConnectionLostError, Message
from webcrawl.render.engine import (
    Answer,
    Bounds,
    Ending,
    EngineError,
    Kind,
    LookUp,
    Pass,
    Refused,
    Rendering,
)
from webcrawl.render.isolation import Isolation
from webcrawl.render.process_tree import usage_of

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
    --js-flags=--max-old-space-size=512 --window-size=1280,2000
"""
# Features that would move pages to new processes, keep old pages, or change URLs.
_WITHOUT = """
    ProactivelySwapBrowsingInstance BackForwardCache IsolateOrigins site-per-process HttpsUpgrades
    Translate MediaRouter OptimizationHints SpareRendererForSitePerProcess
"""
_START_SECS = 30.0
# Time to give the DOM of a page that was stopped, and to clean up.
_LAST_SECS = 3.0
# Between two looks at what the engine uses; at least this many times as long as a look takes.
_POLL_SECS, _POLL_RATIO = 0.1, 20
# URLs named of each kind in a result, and their length.
_MAX_NAMED, _MAX_URL = 1000, 4000

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
# Not sent to the engine: the body is decoded, cookies are not kept, `_permission` has the last two.
_DROPPED = re.compile(
    "content-(encoding|length)|transfer-encoding|connection|set-cookie"
    "|access-control-allow-(origin|credentials)",
    re.IGNORECASE,
)

# In the page's own world, before its scripts: what never comes to `Fetch` is reported. The page can
# evade that, and gains nothing: it has no network.
_REPORTER = """
(report => {
  const wrap = (name, works) => { const Real = self[name]; if (Real) self[name] = new Proxy(Real, {
    construct(real, values) {
      report(name + " " + (typeof values[0] === "string" ? new URL(values[0], location.href) : ""));
      if (works) return Reflect.construct(real, values);
      throw new DOMException("refused", "NotSupportedError");
    }})};
  wrap("WebSocket", true); wrap("WebTransport", true);
  wrap("RTCPeerConnection", false); wrap("webkitRTCPeerConnection", false);
  wrap("SharedWorker", false);
  Object.defineProperty(Navigator.prototype, "onLine", {get: () => true});
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
# In a world of its own, where the page cannot have changed what functions do.
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
  return {nodes, html: html.length > maxLength ? "" : html};
})(%d, %d)
"""


class Chromium:
    """Engine that runs the Chromium at *path*, or the one found in PATH if that is "".

    ``warning`` is a sentence after ``start`` if namespaces are not allowed.
    """

    def __init__(self, path: str = "", *, clock: TimeSource) -> None:
        self._path, self._clock = path, clock
        self._process: subprocess.Popen[bytes] | None = None
        self._isolation: Isolation | None = None
        self._connection: Connection
        self._session = self._tab = ""
        self.warning = ""

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
        flags = [flag.replace("MAP*", "MAP * ") for flag in _FLAGS.split()]
        flags.append(f"--disable-features={','.join(_WITHOUT.split())}")
        flags.append(f"--user-data-dir={isolation.directory}/profile")
        log = isolation.directory.parent / "log"
        with log.open("wb") as errors:
            self._process = process = subprocess.Popen(  # noqa: S603  # the user's choice
                isolation.command([executable, *flags]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=isolation.environment(),
                start_new_session=True,  # killed as a group
            )
        assert process.stdin is not None
        assert process.stdout is not None
        reader, writer = process.stdout.fileno(), process.stdin.fileno()
        self._connection = Connection(reader, writer, clock=self._clock)
        try:
            self._open_tab()
        except ConnectionLostError as error:
            said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            self.stop()
            raise EngineError(
                f"{executable} does not start ({error}): {said[-1] if said else 'it says nothing'}"
            ) from error

    def _open_tab(self) -> None:
        whole = _Conversation(self._connection, clock=self._clock)
        whole.deadline = self._clock() + _START_SECS
        call = whole.call
        context = call("Target.createBrowserContext")["browserContextId"]
        call("Browser.setDownloadBehavior", behavior="deny", browserContextId=context)
        target = call("Target.createTarget", url="about:blank", browserContextId=context)
        self._tab = target["targetId"]
        attached = call("Target.attachToTarget", targetId=self._tab, flatten=True)
        self._session = whole.session = attached["sessionId"]
        for domain in ("Page", "Inspector", "Runtime"):
            call(f"{domain}.enable")
        call("Fetch.enable", patterns=[{"urlPattern": "*"}])
        call("Runtime.addBinding", name="webcrawlReport")
        call("Page.addScriptToEvaluateOnNewDocument", source=_REPORTER)
        call("Target.setAutoAttach", autoAttach=True, waitForDebuggerOnStart=True, flatten=True)

    def render(self, page: Pass, stored: LookUp) -> Rendering:
        """Render *page* in the tab."""
        assert self._process is not None
        run = _Run(
            page,
            stored,
            self._connection,
            clock=self._clock,
            session=self._session,
            tab=self._tab,
            pid=self._process.pid,
        )
        return run.result()

    def stop(self) -> None:
        """Kill Chromium with all its processes, and delete its directory."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        if self._isolation is not None:
            self._isolation.remove()
            self._isolation = None


def _permission(headers: dict[str, str]) -> list[tuple[str, str]]:
    """Return the header fields that let a page read the answer to a request with *headers*.

    The crawl sends no Origin, so the server has not said whether the page may.
    """
    fields = {
        "Origin": headers.get("Origin"),
        "Headers": headers.get("Access-Control-Request-Headers"),
        "Credentials": "true",
    }
    return [(f"Access-Control-Allow-{name}", value) for name, value in fields.items() if value]


class _StopError(Exception):
    """Raised within a pass to end it."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending)
        self.ending = ending


class _Conversation:
    """Calls whose answers are awaited; events that come in between go to ``on_event``."""

    def __init__(self, connection: Connection, *, clock: TimeSource, session: str = "") -> None:
        self._connection, self._clock, self.session = connection, clock, session
        #: No call is answered later.
        self.deadline = 0.0

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the result of *method*, {} if that has failed. Raises ConnectionLostError."""
        wanted = self._connection.send(method, self.session, **params)
        while True:
            message = self.next_message()
            if message is not None and message.id == wanted:
                return message.result
            if message is None and self._clock() > self.deadline:
                raise ConnectionLostError("the engine does not answer")

    def next_message(self) -> Message | None:
        """Handle the next message and return it; None if there is none for a short time."""
        message = self._connection.receive(_POLL_SECS)
        if message is not None and message.method:
            self.on_event(message)
        return message

    def on_event(self, message: Message) -> None:
        """Handle an event."""


class _Run(_Conversation):
    """One pass."""

    def __init__(
        self,
        page: Pass,
        stored: LookUp,
        connection: Connection,
        *,
        clock: TimeSource,
        session: str,
        tab: str,
        pid: int,
    ) -> None:
        super().__init__(connection, clock=clock, session=session)
        self._page, self._stored, self._tab, self._pid = page, stored, tab, pid
        self._bounds: Bounds = page.bounds
        self._url = urldefrag(page.url).url
        self._began = clock()
        self.deadline = self._began + page.bounds.wall_secs
        self._next_look = 0.0
        self._given = self._settled = self._closing = False
        self._cpu_before = usage_of(pid).cpu_secs
        self._rendering = Rendering("settled")
        self._named: set[tuple[str, str]] = set()

    def result(self) -> Rendering:
        rendering = self._rendering
        try:
            try:
                self._show()
                self._take_snapshot()
            except _StopError as stop:
                rendering.ended = stop.ending
                if stop.ending not in {"memory", "crashed"}:
                    self._stop_scripts()
                    self._take_snapshot()
            if rendering.ended == "settled":
                self._clean_up()
        except _StopError as stop:
            rendering.ended = stop.ending
        except ConnectionLostError:
            if rendering.ended == "settled":
                rendering.ended = "crashed"
        rendering.wall_secs = self._clock() - self._began
        self._look()
        return rendering

    def _show(self) -> None:
        """Load the page and let its timers run."""
        self.call("Emulation.setVirtualTimePolicy", policy="pause")
        self._send("Page.navigate", url=self._page.url)
        while not self._settled:
            self.next_message()

    def _stop_scripts(self) -> None:
        self._closing = True
        self.deadline = self._clock() + _LAST_SECS
        for method, params in [
            ("Runtime.terminateExecution", {}),
            ("Emulation.setScriptExecutionDisabled", {"value": True}),
        ]:
            self._connection.send(method, self.session, **params)

    def _take_snapshot(self) -> None:
        world = self.call("Page.createIsolatedWorld", frameId=self._tab)
        bounds = self._bounds
        result = self.call(
            "Runtime.evaluate",
            expression=_SNAPSHOT % (bounds.nodes, bounds.bytes),
            contextId=world.get("executionContextId", 0),
            returnByValue=True,
        )
        value = result.get("result", {}).get("value", {})
        rendering = self._rendering
        rendering.nodes, rendering.html = value.get("nodes", 0), value.get("html", "")
        if not rendering.html and rendering.ended == "settled":
            raise _StopError("nodes" if rendering.nodes else "crashed")

    def _clean_up(self) -> None:
        """Leave the page, and delete what it has stored."""
        self._closing = True
        self.deadline = self._clock() + _LAST_SECS
        origin = "/".join(self._url.split("/")[:3])
        erase = "self.name = ''; try { sessionStorage.clear(); } catch {}"
        self.call("Runtime.evaluate", expression=erase)
        self.call("Page.navigate", url="about:blank")
        self.call("Storage.clearDataForOrigin", origin=origin, storageTypes="all")
        self.call("Network.clearBrowserCookies")

    def next_message(self) -> Message | None:
        """As in _Conversation, and end the pass if it is over one of its bounds."""
        message = super().next_message()
        if self._clock() >= self._next_look and not self._closing:
            began = self._clock()
            self._look(raises=True)
            looked = self._clock()
            self._next_look = looked + max(_POLL_SECS, _POLL_RATIO * (looked - began))
        return message

    def _look(self, *, raises: bool = False) -> None:
        usage, rendering, bounds = usage_of(self._pid), self._rendering, self._bounds
        rendering.cpu_secs = max(rendering.cpu_secs, usage.cpu_secs - self._cpu_before)
        rendering.memory = max(rendering.memory, usage.memory)
        if not raises:
            return
        if usage.memory > bounds.memory:
            raise _StopError("memory")
        if rendering.cpu_secs > bounds.cpu_secs:
            raise _StopError("cpu")
        if self._clock() - self._began > bounds.wall_secs:
            raise _StopError("wall")

    def on_event(self, message: Message) -> None:
        """Answer requests, refuse the rest, note URLs, and see when the page has settled."""
        params = message.params
        match message.method:
            case "Fetch.requestPaused":
                self._on_request(params, message.session_id)
            case "Page.frameNavigated" if not self._closing and not params["frame"].get("parentId"):
                budget = 1000 * self._bounds.virtual_secs
                policy = "pauseIfNetworkFetchesPending"
                self._send("Emulation.setVirtualTimePolicy", policy=policy, budget=budget)
            case "Emulation.virtualTimeBudgetExpired":
                self._settled = True
            case "Page.navigatedWithinDocument":
                self._note_navigation(params.get("url", ""))
            case "Page.javascriptDialogOpening":
                self._send("Page.handleJavaScriptDialog", accept=False)
            case "Page.windowOpen":
                self._refuse(params.get("url", ""), "popup")
            case "Page.downloadWillBegin":
                self._refuse(params.get("url", ""), "download")
            case "Runtime.bindingCalled":
                name, _, url = params.get("payload", "").partition(" ")
                self._refuse(url or self._url, name)
            case "Target.attachedToTarget":
                self._on_target(params)
            case "Inspector.targetCrashed":
                raise _StopError("crashed")

    def _send(self, method: str, **params: Any) -> None:
        self._connection.send(method, self.session, **params)

    def _on_target(self, params: dict[str, Any]) -> None:
        """Let a worker begin, its requests paused like the page's; close everything else."""
        info, session = params.get("targetInfo", {}), params.get("sessionId", "")
        if info.get("type") == "worker":
            self._connection.send("Fetch.enable", session, patterns=[{"urlPattern": "*"}])
            self._connection.send("Runtime.runIfWaitingForDebugger", session)
        else:
            self._refuse(info.get("url", ""), info.get("type", "target"))
            self._connection.send("Target.closeTarget", targetId=info.get("targetId", ""))

    def _on_request(self, params: dict[str, Any], session: str) -> None:
        request = params["request"]
        url, kind = request["url"], params.get("resourceType", "")
        headers = request["headers"]
        if headers.get("Accept") == "text/event-stream":
            kind = "EventSource"
        elif kind == "Other" and "User-Agent" not in headers:
            kind = "Script"  # of a worker; hints and icons have that header
        answer: Answer | Refused | None = Answer(204, [], b"")
        if "Access-Control-Request-Method" not in headers:
            answer = self._find(url, kind, request["method"], params.get("frameId", ""))
        if isinstance(answer, Answer):
            kept = [field for field in answer.headers if not _DROPPED.fullmatch(field[0])]
            self._connection.send(
                "Fetch.fulfillRequest",
                session,
                requestId=params["requestId"],
                responseCode=answer.status,
                responseHeaders=[
                    {"name": name, "value": value} for name, value in [*kept, *_permission(headers)]
                ],
                body=base64.b64encode(answer.body).decode("ascii"),
            )
            return
        if isinstance(answer, Refused):
            self._refuse(url, answer.reason)
        elif self._is_new(url, kind):
            self._rendering.missing.append((url, _KINDS[kind]))
        # With "Aborted" the page stays when it tries to go elsewhere.
        reason = "Aborted" if kind == "Document" else "Failed"
        self._connection.send(
            "Fetch.failRequest", session, requestId=params["requestId"], errorReason=reason
        )

    def _find(self, url: str, kind: str, method: str, frame: str) -> Answer | Refused | None:
        """Return the answer to a request, None if it is missing."""
        rendering, bounds = self._rendering, self._bounds
        if self._closing:
            return Refused("the pass is over")
        if kind == "Document" and url == self._url and not self._given:
            self._given = True
            return self._page.answer
        if kind == "Document" and frame == self._tab:
            if method == "GET":
                self._note_navigation(url)
            return Refused("navigation" if method == "GET" else f"navigation by {method}")
        if kind not in _KINDS:
            return Refused(_REFUSED.get(kind, kind.lower()))
        if method != "GET":
            return Refused(f"method {method}")
        if not url.startswith(("http://", "https://")):
            return Refused("scheme")
        if rendering.requests >= bounds.requests:
            return Refused("too many requests")
        rendering.requests += 1
        if reason := self._page.refused.get(url):
            return Refused(reason)
        found = self._stored(url, _KINDS[kind])
        if isinstance(found, Answer):
            rendering.bytes += len(found.body)
            if rendering.bytes > bounds.bytes:
                return Refused("too many bytes")
        return found

    def _refuse(self, url: str, reason: str) -> None:
        refused = self._rendering.refused
        if len(refused) < _MAX_NAMED and not self._closing and self._is_new(url, reason):
            refused.append((url[:_MAX_URL], reason))

    def _note_navigation(self, url: str) -> None:
        navigations = self._rendering.navigations
        if len(navigations) < _MAX_NAMED and len(url) <= _MAX_URL and self._is_new(url, ""):
            navigations.append(url)

    def _is_new(self, url: str, what: str) -> bool:
        before = len(self._named)
        self._named.add((url[:_MAX_URL], what))
        return len(self._named) > before
