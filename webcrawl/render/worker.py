"""Process that drives an engine, so that no page can hold up the crawl.

``RenderWorker`` starts this module as a program, with a socket to talk to it. It sends a
``RenderOrder``, then passes; each is answered by a ``RenderReady`` or a ``Rendering``, in msgpack.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from multiprocessing.connection import Connection as Pipes
from multiprocessing.connection import Pipe
from pkgutil import resolve_name

import msgspec

from webcrawl.configuration.decoding import UndecodableError, msgpack_decoder
from webcrawl.errors import FatalError
from webcrawl.render.chromium import Chromium
from webcrawl.render.engine import EngineError, Pass, Rendering
from webcrawl.render.hostile_check import reached_by
from webcrawl.render.isolation import ENDS_WITH_PARENT

# Pages that an engine renders before it is replaced.
_PAGES = 200
# Seconds for a start with the hostile page, and for a pass in addition to its bound.
_START_SECS = 60.0
_MORE_SECS = 45.0


class RenderOrder(msgspec.Struct, frozen=True):
    """Input of the process: the engine, and where the stored answers are.

    ``path`` is Chromium's, "" for the one in PATH. ``store`` is ``module:function``; the function
    is called with ``argument`` in the worker process. It returns another function, which is called
    with the URL of each page and returns its LookUp. With ``check`` a hostile page is rendered
    first.
    """

    store: str
    argument: str
    path: str = ""
    check: bool = False


class RenderReady(msgspec.Struct):
    """Output of the process when it has started: a warning and an error, "" for none."""

    warning: str = ""
    error: str = ""


_decode_order = msgpack_decoder(RenderOrder)
_decode_ready = msgpack_decoder(RenderReady)
_decode_pass = msgpack_decoder(Pass)
_decode_rendering = msgpack_decoder(Rendering)


class RenderWorker:
    """A worker process with its engine. The methods block: call them in a separate thread."""

    def __init__(self, order: RenderOrder) -> None:
        self._order = order
        # None while it does not run: before the first start, and after a failure.
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> str:
        """Start both and return a warning for the user, or "". Takes about a second.

        Raises FatalError if the engine is missing or does not start, or if a page got out of it.
        """
        self._pipe, theirs = Pipe()
        # Only the process keeps its end open, so that reading ends when the process does.
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603  # all words are ours
                [*ENDS_WITH_PARENT, sys.executable, "-m", __name__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
                start_new_session=True,  # Ctrl-C is for the crawl
            )
        try:
            ready = _decode_ready(self._exchange(self._order, _START_SECS))
        except (OSError, EOFError, UndecodableError) as error:
            ready = RenderReady(error=f"The process that renders pages does not start: {error}.")
        if ready.error:
            self.stop()
            raise FatalError(ready.error)
        return ready.warning

    def render(self, page: Pass) -> Rendering:
        """Render *page*. If the process hangs or ends, the pass counts as crashed."""
        try:
            if self._process is None:
                self.start()
            return _decode_rendering(self._exchange(page, page.bounds.wall_secs + _MORE_SECS))
        except (OSError, EOFError, UndecodableError, FatalError):
            self.stop()
            return Rendering("crashed")

    def stop(self) -> None:
        """Kill the process and its engine. The next start deletes files that they have left."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._pipe.close()
            self._process = None

    def _exchange(self, message: RenderOrder | Pass, secs: float) -> bytes:
        self._pipe.send_bytes(msgspec.msgpack.encode(message))
        if not self._pipe.poll(secs):
            raise TimeoutError("it does not answer")
        return self._pipe.recv_bytes()


def _start(engine: Chromium, *, check: bool) -> str:
    """Start *engine*; return why it cannot start or must not be used, or ""."""
    try:
        engine.start()
    except EngineError as error:
        return str(error)
    if check and (reached := reached_by(engine)):
        return (
            f"A page in the rendering engine reached the network by {', '.join(reached)}: allow "
            "namespaces on this machine, or set RENDER=0."
        )
    return ""


def serve(pipe: Pipes) -> None:
    """Answer the messages of *pipe* until it is closed.

    Raises EOFError or OSError then.
    """
    order = _decode_order(pipe.recv_bytes())
    # The class of another engine is named like the store.
    engine = resolve_name(order.path)() if ":" in order.path else Chromium(order.path)
    stored = resolve_name(order.store)(order.argument)
    try:
        error = _start(engine, check=order.check)
        pipe.send_bytes(msgspec.msgpack.encode(RenderReady(engine.warning, error)))
        # Number of pages that this engine has rendered. With _PAGES it is replaced before the next
        # page, such as after the hostile page.
        pages = _PAGES if order.check else 0
        while True:
            page = _decode_pass(pipe.recv_bytes())
            rendering = Rendering("crashed")
            if pages >= _PAGES:
                engine.stop()
                error = _start(engine, check=False)
                pages = 0
            if not error:
                rendering = engine.render(page, stored(page.url))
            # The next page must not exceed the bound because of what this one has left.
            is_large = rendering.memory > 0.75 * page.bounds.memory
            pages = _PAGES if rendering.ended != "settled" or is_large else pages + 1
            pipe.send_bytes(msgspec.msgpack.encode(rendering))
    finally:
        engine.stop()


if __name__ == "__main__":
    with suppress(OSError, EOFError):  # the crawl has ended
        serve(Pipes(int(sys.argv[1])))
