"""Chunked bodies that the parser cannot read, decoded as leniently as browsers do.

The rules are RFC 9112, section 7.1, and where servers deviate from it, Chromium's decoder
(net/http/http_chunked_decoder.cc). A line of the framing ends in LF, whatever white space is before
it; extensions and trailers are ignored.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# As in Chromium, and with tabs, which curl accepts.
_SIZE = re.compile(rb"0*([0-9A-Fa-f]{1,16})[ \t]*(?:;.*)?", re.DOTALL)
# The state of the decoder: in a line with a size, in a chunk, in the line end after it, in the
# trailers, or at the end of the body.
_IN_SIZE, _IN_CHUNK, _AFTER_CHUNK, _IN_TRAILERS, _ENDED = range(5)


class ChunkedBody:
    """Decoder of one chunked body, which calls *give* with each piece of it."""

    def __init__(self, give: Callable[[bytes], object]) -> None:
        self._give = give
        self._state = _IN_SIZE
        self._left = 0  # bytes of the chunk
        self._line = b""  # the beginning of a line whose end has not come yet

    @property
    def has_last_chunk(self) -> bool:
        """Return whether the last chunk, of size 0, has come: the body is complete (section 8)."""
        return self._state >= _IN_TRAILERS

    @property
    def has_ended(self) -> bool:
        """Return whether the trailers have come, too: another answer may follow."""
        return self._state == _ENDED

    def feed(self, data: bytes) -> bytes:
        """Decode *data*, and return the part after the end of the body.

        Raises ValueError for broken framing.
        """
        at = 0
        while at < len(data) and self._state != _ENDED:
            if self._state == _IN_CHUNK:
                piece = data[at : at + self._left]
                self._give(piece)
                at += len(piece)
                self._left -= len(piece)
                if not self._left:
                    self._state = _AFTER_CHUNK
                continue
            end = data.find(b"\n", at)
            if end < 0:
                self._line += data[at:]
                break
            line = self._line + data[at:end]
            self._line = b""
            at = end + 1
            self._read(line.rstrip(b"\r"))
        return data[at:] if self._state == _ENDED else b""

    def _read(self, line: bytes) -> None:
        """Process a *line* of the framing."""
        if self._state == _IN_TRAILERS:
            if not line:
                self._state = _ENDED
        elif self._state == _AFTER_CHUNK:
            if line:
                raise ValueError("a chunk is longer than its size")
            self._state = _IN_SIZE
        else:
            size = _SIZE.fullmatch(line)
            if size is None:
                raise ValueError(f"{line[:20]!r} is not the size of a chunk")
            self._left = int(size[1], 16)
            self._state = _IN_CHUNK if self._left else _IN_TRAILERS
