"""Connection to a browser by the Chrome DevTools Protocol, over two pipes.

Messages are JSON that ends with a NUL byte: ``--remote-debugging-pipe``. The protocol is described
at https://chromedevtools.github.io/devtools-protocol/.
"""

from __future__ import annotations

import os
import select
from typing import TYPE_CHECKING, Any

import msgspec

from webcrawl.configuration.decoding import UndecodableError, json_decoder

if TYPE_CHECKING:
    from webcrawl.clock import TimeSource

# The largest message accepted: the DOM of a page, with all characters escaped.
_MAX_MESSAGE = 256 << 20


class ConnectionLostError(Exception):
    """Raised when the browser has ended, or does not read or answer in time."""


class Message(msgspec.Struct, rename="camel"):
    """Answer to the call ``id``, or an event with the name ``method``."""

    id: int = 0
    method: str = ""
    session_id: str = ""
    params: dict[str, Any] = {}
    result: dict[str, Any] = {}
    error: dict[str, Any] = {}


_decode = json_decoder(Message)


class Connection:
    """Sends calls to a browser, and receives its answers and events. Never blocks for ever."""

    def __init__(self, reader: int, writer: int, *, clock: TimeSource) -> None:
        self._reader, self._writer, self._clock = reader, writer, clock
        self._last_id = 0
        self._received = bytearray()
        self._searched = 0
        os.set_blocking(writer, False)

    def send(self, method: str, session: str = "", **params: Any) -> int:
        """Send a call and return its id. Raises ConnectionLostError."""
        self._last_id += 1
        call = {"id": self._last_id, "method": method, "params": params}
        if session:
            call["sessionId"] = session
        left = memoryview(msgspec.json.encode(call) + b"\0")
        while left:
            _, writable, _ = select.select([], [self._writer], [], 10.0)
            try:
                if not writable:
                    raise ConnectionLostError("the engine does not read its calls")
                left = left[os.write(self._writer, left) :]
            except OSError as error:
                raise ConnectionLostError(str(error)) from error
        return self._last_id

    def receive(self, secs: float) -> Message | None:
        """Return the next message, or None if there is none in *secs*.

        Raises ConnectionLostError.
        """
        deadline = self._clock() + secs
        while (end := self._received.find(b"\0", self._searched)) < 0:
            self._searched = len(self._received)
            wait = max(0.0, deadline - self._clock())
            if not select.select([self._reader], [], [], wait)[0]:
                return None
            data = os.read(self._reader, 1 << 20)
            if not data or self._searched > _MAX_MESSAGE:
                raise ConnectionLostError("the engine has ended")
            self._received += data
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        self._searched = 0
        try:
            return _decode(line)
        except UndecodableError as error:
            raise ConnectionLostError(f"the engine sent no valid message: {error}") from error
