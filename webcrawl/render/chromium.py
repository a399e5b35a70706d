"""Chromium as an engine, driven by its debugging pipe; it has no port that a page could reach.

One tab renders page after page: a new renderer process for each would take five times the CPU
time. Each pass has its own session with the tab. It ends on about:blank, with the page's scripts,
workers, cookies and storage gone, or the tab is replaced. Timers run in virtual time, so that a
page that waits for five seconds does not take that long.

Tested with Chromium 156. It keeps its own sandbox.
"""

from __future__ import annotations

import base64
import html
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import urldefrag
from zlib import crc32

import msgspec

from webcrawl.clock import now
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
from webcrawl.render.scripts import read_script
from webcrawl.render.subresources import subresource_of

# The first two lines keep the network away where namespaces do not.
_FLAGS = """
    --host-resolver-rules=MAP*~NOTFOUND --proxy-server=http://nowhere.invalid:1
    --proxy-bypass-list=<-loopback> --webrtc-ip-handling-policy=disable_non_proxied_udp
    --headless --remote-debugging-pipe --no-first-run --mute-audio --disable-gpu --disable-sync
    --disable-background-networking --disable-breakpad --disable-component-update
    --disable-default-apps --disable-domain-reliability --disable-extensions --no-pings
    --disable-site-isolation-trials --block-new-web-contents --password-store=basic
    --js-flags=--max-old-space-size=512 --no-startup-window
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
_POLL_SECS = 0.1
_CLOSE_POLL_SECS = 0.02
# Maximum number of frames to draw. A frame that leads to no requests is the last one.
_FRAMES = 4
# In how many slices virtual time passes.
_SLICES = 10
# Tasks that a page may have one after another before virtual time passes nevertheless.
_TASKS = 1000
# Width of the window, and its height at first and at most, in pixels.
_WIDTH = 1280
_HEIGHT = 2000
_MAX_HEIGHT = 20_000
# How often the page itself is given to the engine: once more if it reloads itself.
_DOCUMENTS = 2
# Reasons of refusals that are links for a reader of the page.
_NAVIGATIONS = frozenset({"navigation", "popup"})
_PIXEL = {"x": 0, "y": 0, "width": 1, "height": 1, "scale": 1}
# Maximum number of URLs of each kind in a result, and maximum length of a URL.
_MAX_NAMED = 1000
_MAX_URL = 4000
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

_STEADY = read_script("steady.js")
_REPORTER = read_script("reporter.js")
_GUARD = read_script("guard.js")
_SNAPSHOT = read_script("snapshot.js")


class Chromium:
    """Engine that runs the Chromium at *path*, or the one found in PATH if that is "".

    ``warning`` is a sentence after ``start`` if namespaces are not allowed.
    """

    def __init__(self, path: str = "") -> None:
        self._path = path
        # ``start`` sets all of the following. The first two are None while nothing runs.
        self._process: subprocess.Popen[bytes] | None = None
        self._isolation: Isolation | None = None
        self.connection: Connection
        #: Id of the tab, as a target and as its main frame.
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
        isolation = Isolation(executable)
        self._isolation = isolation
        self.warning = isolation.warning
        flags = [
            # This flag has spaces, at which the others are split.
            *(flag.replace("MAP*", "MAP * ") for flag in _FLAGS.split()),
            f"--disable-features={','.join(_WITHOUT.split())}",
            f"--window-size={_WIDTH},{_HEIGHT}",
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
            self.connection = Connection(process.stdout, process.stdin)
            try:
                self._open_tab()
            except ConnectionLostError as error:
                self.stop()
                log.seek(0)
                lines = log.read().decode(errors="replace").splitlines()
                fatal = [line for line in lines if "FATAL" in line]
                reason = fatal or lines[-1:] or ["name another program with RENDER_ENGINE."]
                if "No usable sandbox" in reason[0]:  # Chromium would advise --no-sandbox
                    reason = ["allow user namespaces, or install the package chromium-sandbox."]
                raise EngineError(
                    f"{executable} does not start ({error}): {' '.join(reason)}"
                ) from error

    def _open_tab(self) -> None:
        """Open a tab with cookies and storage of its own. Raises ConnectionLostError."""
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
        """Return a new session with the tab; the script *steady* runs first in each document."""
        attached = self.connection.call(
            "Target.attachToTarget", targetId=self.tab, flatten=True, secs=_START_SECS
        )
        session: str = attached.get("sessionId", "")
        send = partial(self.connection.send, session=session)
        for domain in ("Page", "Inspector", "Runtime", "Fetch"):
            send(f"{domain}.enable")
        # The reporter calls this binding for what only the page sees.
        send("Runtime.addBinding", name="webcrawlReport")
        add_script = "Page.addScriptToEvaluateOnNewDocument"
        send(add_script, source=steady + _REPORTER)
        send(add_script, source=_GUARD, worldName=_WORLD)
        send("Target.setAutoAttach", **_ATTACH)
        return session

    def render(self, page: Pass, stored: LookUp) -> Rendering:
        """Render *page* in the tab."""
        # The page gets the same random numbers and the same time in each pass.
        seed = crc32(page.url.encode()) % 2147483646 + 1
        steady = f"({_STEADY})({seed}, {int(1000 * page.fetched_at)});"
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
        """Prepare the pass over *page* in the *session* with the tab of *engine*.

        *stored* answers its requests. *steady* is the script for its workers, as in the page.
        """
        self._engine = engine
        self._page = page
        self._stored = stored
        self._connection = engine.connection
        self._steady = steady
        # Calls go to the page, or to the browser as a whole.
        self._send = partial(self._connection.send, session=session)
        self._call_browser = partial(
            self._connection.call, secs=_START_SECS, on_event=self._on_event
        )
        self._call = partial(self._call_browser, session=session)
        self._url = urldefrag(page.url).url
        self._began = now()
        self._cpu_before = usage_of(engine.pid)[0]
        # How often the document was given to the engine.
        self._documents = 0
        # How many subresources were missing before the window became taller; None if it did not.
        self._early: int | None = None
        # Slices of virtual time that are left, and whether all are over.
        self._slices = 0
        self._is_settled = False
        # Whether the page may do nothing more: requests fail, and nothing is recorded.
        self._is_over = False
        # The session of the page, followed by those of its workers.
        self._sessions = [session]
        # Id of the document that the tab shows.
        self._loader = ""
        self._result = Rendering("settled")
        # Missing subresources, and refused URLs with the reason, each once in order.
        self._missing: dict[Subresource, Subresource] = {}
        self._refused: dict[tuple[str, str], None] = {}

    def result(self) -> Rendering:
        """Render the page and return the result."""
        result = self._result
        try:
            result.ended = self._load()
            # Scripts that still run would delay the snapshot.
            if result.ended in {"cpu", "wall"}:
                self._stop_scripts()
            if result.ended != "memory":
                self._take_snapshot()
            # The snapshot is empty if the page has too many nodes, or its HTML is too long.
            if result.ended == "settled" and not result.html:
                result.ended = "nodes"
            # After any other end the engine is replaced.
            if result.ended == "settled":
                self._leave()
        except ConnectionLostError:
            # A bound that was exceeded before says more.
            if result.ended == "settled":
                result.ended = "crashed"
        result.missing = [*self._missing.values()]
        result.late = 0 if self._early is None else len(result.missing) - self._early
        result.refused = [*self._refused]
        if result.html:
            result.html += _refreshes(result.refused)
        result.wall_secs = now() - self._began
        self._measure()
        return result

    def _load(self) -> Ending:
        """Load the page, let its timers run, and return why that ended."""
        self._send("Emulation.setVirtualTimePolicy", policy="pause")
        self._send("Page.navigate", url=self._page.url)
        # Virtual time may pass without a frame, and observers of scrolling are called in frames.
        for frame in range(_FRAMES):
            requests = self._result.requests
            if bound := self._until_settled():
                return bound
            # A window that has changed before its first frame draws none.
            is_taller = frame == 1 and self._make_tall()
            # The last frame has led to no requests.
            if frame and not is_taller and requests == self._result.requests:
                break
            self._is_settled = False
            with suppress(UnansweredError):  # sometimes the frame is never drawn
                self._call("Page.captureScreenshot", secs=_LAST_SECS, clip=_PIXEL)
            self._grant_time()
        return self._until_settled() or "settled"

    def _make_tall(self) -> bool:
        """Make the window as tall as the document, so that the page shows what is below.

        Returns False if it was. Raises UnansweredError.
        """
        metrics = self._call("Page.getLayoutMetrics", secs=_LAST_SECS)
        height = int(metrics.get("cssContentSize", {}).get("height", 0))
        if height <= _HEIGHT:
            return False
        self._early = len(self._missing)
        self._call(
            "Emulation.setDeviceMetricsOverride",
            secs=_LAST_SECS,
            width=_WIDTH,
            height=min(height, _MAX_HEIGHT),
            # To draw all of it in its size would take as long as the whole pass.
            scale=0.05,
            deviceScaleFactor=1,
            mobile=False,
        )
        return True

    def _until_settled(self) -> Ending | None:
        """Wait until the page's virtual time is over; return the bound that it exceeds, or None."""
        next_look = 0.0  # when to measure again; first immediately
        poll_secs = _POLL_SECS
        while not self._is_settled:
            if message := self._connection.receive(poll_secs):
                self._on_event(message)
                if "errorText" in message.result:  # of Page.navigate
                    raise ConnectionLostError("it does not show the page")
            if now() >= next_look:
                if bound := self._measure():
                    return bound
                is_close = self._result.memory > self._page.bounds.memory / 2
                poll_secs = _CLOSE_POLL_SECS if is_close else _POLL_SECS
                next_look = now() + poll_secs
        return None

    def _grant_time(self) -> None:
        """Let virtual time pass in the page, except while it waits for answers.

        It passes in slices, because databases and other processes answer in real time.
        """
        self._slices = _SLICES
        self._grant_slice()

    def _grant_slice(self) -> None:
        self._slices -= 1
        self._send(
            "Emulation.setVirtualTimePolicy",
            policy="pauseIfNetworkFetchesPending",
            maxVirtualTimeTaskStarvationCount=_TASKS,
            budget=1000 * self._page.bounds.virtual_secs / _SLICES,
        )

    def _measure(self) -> Ending | None:
        """Record the CPU time and memory of the engine; return the bound that the pass exceeds."""
        result = self._result
        bounds = self._page.bounds
        cpu_secs, memory = usage_of(self._engine.pid)
        result.cpu_secs = max(result.cpu_secs, cpu_secs - self._cpu_before)
        result.memory = max(result.memory, memory)
        if memory > bounds.memory:
            return "memory"
        if result.cpu_secs > bounds.cpu_secs:
            return "cpu"
        return "wall" if now() - self._began > bounds.wall_secs else None

    def _take_snapshot(self) -> None:
        """Store the DOM in the result; "" if it exceeds a bound. Raises ConnectionLostError."""
        bounds = self._page.bounds
        # Without a name, each page would leave a world that is created again for all later ones.
        world = self._call(
            "Page.createIsolatedWorld", secs=_LAST_SECS, frameId=self._engine.tab, worldName=_WORLD
        )
        returned = self._call(
            "Runtime.evaluate",
            secs=_LAST_SECS,
            expression=f"({_SNAPSHOT})({json.dumps(self._url)}, {bounds.nodes}, {bounds.bytes})",
            contextId=world.get("executionContextId"),
            returnByValue=True,
        )
        value = returned.get("result", {}).get("value")
        if not value:
            raise ConnectionLostError("it gives no DOM")
        self._result.html = value["html"]

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
        # Wait until the tab shows the empty page. Its document is noted by ``_on_document``.
        while self._loader != left.get("loaderId"):
            message = self._connection.receive(_START_SECS)
            if message is None:
                raise UnansweredError("it does not leave the page")
            self._on_event(message)
        origin = "/".join(self._url.split("/")[:3])
        self._call("Storage.clearDataForOrigin", origin=origin, storageTypes="all")
        self._call("Network.clearBrowserCookies")
        self._call("Page.resetNavigationHistory")
        # Check that it worked: no storage, no earlier pages, no cookies, no workers.
        usage = self._call("Storage.getUsageAndQuota", origin=origin).get("usage")
        entries = self._call("Page.getNavigationHistory").get("entries", [])
        self._call_browser("Target.detachFromTarget", sessionId=self._sessions[0])
        if usage or len(entries) > 1 or not self._is_clean():
            self._engine.replace_tab()

    def _is_clean(self) -> bool:
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
            case "Emulation.virtualTimeBudgetExpired" if self._slices:
                self._grant_slice()
            case "Emulation.virtualTimeBudgetExpired":
                self._is_settled = True
            case "Page.javascriptDialogOpening":
                self._send("Page.handleJavaScriptDialog", accept=False)
            case "Page.windowOpen":
                self._refuse(url, "popup")
            case "Page.downloadWillBegin":
                self._refuse(url, "download")
            case "Runtime.bindingCalled":  # by the reporter: "NAME URL", or NAME for the page
                name, _, url = params["payload"].partition(" ")
                self._refuse(url or self._url, name)
            case "Target.attachedToTarget":
                self._on_target(params["targetInfo"], params["sessionId"], event.session_id)
            case "Inspector.targetCrashed" if event.session_id == self._sessions[0]:
                raise ConnectionLostError("the page has crashed")

    def _on_document(self, frame: dict[str, Any]) -> None:
        """Let time pass in the page. Any other document would be stored in its place.

        *frame* describes the document that the tab now shows.
        """
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
            # Until now it has waited for the debugger.
            send("Runtime.runIfWaitingForDebugger")
        else:
            self._refuse(target["url"], target["type"])
            self._connection.send("Target.closeTarget", targetId=target["targetId"])

    def _on_request(self, params: dict[str, Any], session: str) -> None:
        """Answer a request with a stored answer, or let it fail and record why."""
        respond = partial(self._connection.send, session=session, requestId=params["requestId"])
        if self._is_over or session not in self._sessions:
            respond("Fetch.failRequest", errorReason="Aborted")
            return
        request = params["request"]
        kind = params["resourceType"]
        url = request["url"]
        headers = request["headers"]
        accept = headers.get("Accept", "")
        if accept == "text/event-stream":
            kind = "EventSource"
        elif kind == "Other" and not accept.startswith("image/"):
            kind = "Script"  # of a worker, a module of JSON, or a hint; the others are icons
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
        # Otherwise *answer* is the reason of a refusal, or None. Chromium itself asks for the icon,
        # so that is not recorded.
        if answer is not None and kind != "Other":
            self._refuse(url, answer)
        # With "Aborted" the page stays when it tries to go elsewhere.
        respond("Fetch.failRequest", errorReason="Aborted" if kind == "Document" else "Failed")

    def _find(
        self, url: str, kind: str, request: dict[str, Any], frame: str | None
    ) -> Answer | str | None:
        """Return the answer to a request or the reason to refuse it, None if it is missing."""
        method = request["method"]
        headers = request["headers"]
        if kind == "Document" and frame == self._engine.tab:
            return self._find_document(url, method)
        if kind not in _KINDS:
            return _REFUSED.get(kind, kind.lower())
        # A preflight is sent only for a request that would be sent itself.
        method = headers.get("Access-Control-Request-Method", method)
        if method != "GET":
            return f"method {method}"
        if len(url) > _MAX_URL:
            return "too long"
        subresource = subresource_of(url, _KINDS[kind], headers)
        return subresource if isinstance(subresource, str) else self._look_up(subresource)

    def _find_document(self, url: str, method: str) -> Answer | str:
        """Return the page that was fetched, or the reason why the tab does not show *url*."""
        if method != "GET":
            return f"navigation by {method}"
        if url != self._url or self._documents >= _DOCUMENTS:
            return "navigation"
        self._documents += 1
        # With other statuses, such as 204, Chromium may show no page.
        return msgspec.structs.replace(self._page.answer, status=200)

    def _look_up(self, subresource: Subresource) -> Answer | str | None:
        """Return the stored answer within the bounds, or a reason to refuse it; None if missing."""
        result = self._result
        bounds = self._page.bounds
        if result.requests >= bounds.requests:
            return "too many requests"
        result.requests += 1
        found = self._stored(subresource)
        if found is None:
            # What two scripts need is one request, though with another Referer.
            same = msgspec.structs.replace(subresource, referer="")
            self._note(self._missing, same, subresource)
        if isinstance(found, Answer):
            # An answer with another status would stop the pass.
            if not 200 <= found.status <= 599:
                return f"status {found.status}"
            if result.bytes + len(found.body) > bounds.bytes:
                return "too many bytes"
            result.bytes += len(found.body)
            result.answers += 1
        return found

    def _refuse(self, url: str, reason: str) -> None:
        self._note(self._refused, (url[:_MAX_URL], reason))

    def _note(self, where: dict[Any, Any], what: object, value: object = None) -> None:
        """Add *value* for *what*, the page's, to *where*, unless there are too many."""
        if len(where) < _MAX_NAMED and self._documents and not self._is_over:
            where.setdefault(what, value)


def _refreshes(refused: list[tuple[str, str]]) -> str:
    """Return elements that lead where a page tried to go, from what was *refused* to it."""
    urls = {url: None for url, reason in refused if reason in _NAVIGATIONS}
    return "".join(
        f'<meta http-equiv="refresh" content="0; url={html.escape(url)}">' for url in urls
    )
