"""Connection to a browser by the Chrome DevTools Protocol, over two pipes.

Messages are JSON that ends with a NUL byte: ``--remote-debugging-pipe``. The protocol is described
at https://chromedevtools.github.io/devtools-protocol/.
"""

from __future__ import annotations

import os
import re
import select
from collections.abc import Callable
from typing import IO, Any

import msgspec

from webcrawl.clock import now
from webcrawl.configuration.decoding import UndecodableError, json_decoder

# The largest message accepted: the DOM of a page, with all characters escaped.
_MAX_MESSAGE = 256 << 20

# The escape of one half of a surrogate pair, without the other half.
_HALF = re.compile(
    rb"\\ud[89ab]..(?!\\ud[c-f])|(?<!\\ud[89ab]..)\\ud[c-f]..",
    re.IGNORECASE,
)


class ConnectionLostError(Exception):
    """Raised when the browser has ended, or does not answer in time."""


class UnansweredError(ConnectionLostError):
    """Raised when the browser has not answered a call in time; it may answer others."""


class Message(msgspec.Struct, rename="camel"):
    """Answer to the call ``id``, or an event with the name ``method``."""

    id: int = 0
    method: str = ""
    session_id: str = ""
    params: dict[str, Any] = {}
    result: dict[str, Any] = {}


_decode = json_decoder(Message)


class Connection:
    """Sends calls to a browser, and receives its answers and events.

    Sending blocks while the browser does not read.
    """

    def __init__(self, reader: IO[bytes], writer: IO[bytes]) -> None:
        self._reader = reader.fileno()
        self._writer = writer
        self._last_id = 0
        self._received = bytearray()

    def send(self, method: str, session: str = "", **params: Any) -> int:
        """Send a call and return its id. Raises ConnectionLostError."""
        self._last_id += 1
        call = {"id": self._last_id, "method": method, "params": params}
        if session:
            call["sessionId"] = session
        try:
            self._writer.write(msgspec.json.encode(call) + b"\0")
            self._writer.flush()
        except OSError as error:
            raise ConnectionLostError(str(error)) from error
        return self._last_id

    def receive(self, secs: float) -> Message | None:
        """Return the next message, or None if there is none in *secs*.

        Raises ConnectionLostError.
        """
        deadline = now() + secs
        searched = 0  # number of received bytes among which the end was not found
        while (end := self._received.find(b"\0", searched)) < 0:
            searched = len(self._received)
            wait = max(0.0, deadline - now())
            if not select.select([self._reader], [], [], wait)[0]:
                return None
            data = os.read(self._reader, 1 << 20)
            # An empty read: the browser has ended. A message that is too large counts as that, too.
            if not data or searched > _MAX_MESSAGE:
                raise ConnectionLostError("it has ended")
            self._received += data
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        try:
            # JavaScript's strings may have halves of characters, which JSON must not have.
            return _decode(_HALF.sub(rb"\\ufffd", line) if b"\\ud" in line else line)
        except UndecodableError as error:
            raise ConnectionLostError(f"it sent no valid message: {error}") from error

    def call(
        self,
        method: str,
        session: str = "",
        *,
        secs: float,
        on_event: Callable[[Message], None] | None = None,
        **params: Any,
    ) -> dict[str, Any]:
        """Return the result of *method*, {} if that has failed; events go to *on_event*.

        Raises ConnectionLostError, and UnansweredError if there is no result in *secs*.
        """
        wanted = self.send(method, session, **params)
        deadline = now() + secs
        while message := self.receive(max(0.0, deadline - now())):
            if message.id == wanted:
                return message.result
            if on_event:
                on_event(message)
        raise UnansweredError("it does not answer")
