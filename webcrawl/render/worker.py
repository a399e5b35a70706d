"""Process that drives an engine, so that no page can hold up the crawl.

``RenderWorker`` starts this module as a program and writes messages to its standard input: a
``RenderOrder``, then passes. Each is answered on standard output, by a ``RenderReady`` or a
``Rendering``. A message is its length in four bytes, big-endian, and msgpack.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from importlib import import_module
from typing import IO, TYPE_CHECKING, Any

import msgspec

from webcrawl.clock import now
from webcrawl.configuration.decoding import UndecodableError, msgpack_decoder
from webcrawl.errors import FatalError
from webcrawl.render.chromium import Chromium
from webcrawl.render.engine import Engine, EngineError, LookUp, Pass, Rendering
from webcrawl.render.hostile_check import reached_by

if TYPE_CHECKING:
    from webcrawl.clock import TimeSource

# Pages that an engine renders before it is replaced.
_PAGES = 200
# A start, with the hostile page; and what a pass may take longer than its bound.
_START_SECS, _MORE_SECS = 60.0, 45.0


class RenderOrder(msgspec.Struct, frozen=True):
    """Input of the process: the engine, and where the stored answers are.

    ``path`` is Chromium's, "" for the one in PATH. ``store`` is ``module:function``; the function
    is called with ``argument`` in the worker process and returns a LookUp. With ``check`` a hostile
    page is rendered first.
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
    """A worker process with its engine. The methods block: call them in a thread of its own."""

    def __init__(self, order: RenderOrder, *, clock: TimeSource = now) -> None:
        self._order, self._clock = order, clock
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> str:
        """Start both and return a warning for the user, or "". Takes about a second.

        Raises FatalError if the engine is missing or does not start, or if a page got out of it.
        """
        self._process = subprocess.Popen(
            [sys.executable, "-m", "webcrawl.render.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            start_new_session=True,  # Ctrl-C is for the crawl
        )
        try:
            ready = _decode_ready(self._exchange(self._process, self._order, _START_SECS))
        except (OSError, UndecodableError) as error:
            self.stop()
            raise FatalError(f"The process that renders pages does not start: {error}.") from error
        if ready.error:
            self.stop()
            raise FatalError(ready.error)
        return ready.warning

    def render(self, page: Pass) -> Rendering:
        """Render *page*. If the process hangs or ends, the pass counts as crashed."""
        try:
            if self._process is None:
                self.start()
            assert self._process is not None
            secs = page.bounds.wall_secs + _MORE_SECS
            return _decode_rendering(self._exchange(self._process, page, secs))
        except (OSError, UndecodableError, FatalError):
            self.stop()
            return Rendering("crashed")

    def stop(self) -> None:
        """Kill the process; the engine ends with it."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def _exchange(self, process: subprocess.Popen[bytes], message: Any, secs: float) -> bytes:
        assert process.stdin is not None
        assert process.stdout is not None
        _write(process.stdin, message)
        deadline = self._clock() + secs
        size = int.from_bytes(self._read(process.stdout, 4, deadline), "big")
        return self._read(process.stdout, size, deadline)

    def _read(self, pipe: IO[bytes], size: int, deadline: float) -> bytes:
        data = bytearray()
        while len(data) < size:
            wait = max(0.0, deadline - self._clock())
            if not select.select([pipe], [], [], wait)[0]:
                raise TimeoutError("it does not answer")
            part = pipe.read(size - len(data))
            if not part:
                raise BrokenPipeError("it has ended")
            data += part
        return bytes(data)


def _write(pipe: IO[bytes], message: Any) -> None:
    data = memoryview(msgspec.msgpack.encode(message))
    for part in (len(data).to_bytes(4, "big"), data):
        left = memoryview(part)
        while left:
            left = left[pipe.write(left) :]


class _Server:
    """Loop of the worker process: one engine after another renders the passes that come in."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._pages: int | None = None

    def start(self, *, check: bool) -> str:
        """Start the engine. Returns a sentence if it did not start, or if a page got out of it."""
        try:
            self._engine.start()
            self._pages = 0
            reached = reached_by(self._engine) if check else []
        except EngineError as error:
            return str(error)
        if check:
            self.end()
        if not reached:
            return ""
        return (
            f"A page in the rendering engine reached the network by {', '.join(reached)}: allow "
            "namespaces on this machine, or set RENDER=0."
        )

    def render(self, page: Pass, stored: LookUp) -> Rendering:
        """Render *page*, and end the engine if it has to be replaced."""
        if self._pages is None and self.start(check=False):
            return Rendering("crashed")
        assert self._pages is not None
        rendering = self._engine.render(page, stored)
        self._pages += 1
        is_large = rendering.memory > page.bounds.memory // 2
        if rendering.ended != "settled" or self._pages >= _PAGES or is_large:
            self.end()
        return rendering

    def end(self) -> None:
        """End the engine."""
        self._engine.stop()
        self._pages = None


def _named(path: str) -> Any:
    """Return what *path* names, as ``module:name``."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def serve(stdin: IO[bytes], stdout: IO[bytes]) -> None:
    """Answer the messages of *stdin* on *stdout* until it ends."""

    def read() -> bytes:
        size = int.from_bytes(stdin.read(4), "big")
        return stdin.read(size)

    order = _decode_order(read())
    # The class of another engine is named like the store.
    engine: Any = _named(order.path)() if ":" in order.path else Chromium(order.path, clock=now)
    server = _Server(engine)
    stored: LookUp = _named(order.store)(order.argument)
    try:
        error = server.start(check=order.check)
        _write(stdout, RenderReady(engine.warning, error))
        while data := read():
            _write(stdout, server.render(_decode_pass(data), stored))
    except BrokenPipeError:
        pass  # the crawl has ended
    finally:
        server.end()


if __name__ == "__main__":
    with open(0, "rb") as stdin, open(1, "wb", buffering=0) as stdout:
        serve(stdin, stdout)
