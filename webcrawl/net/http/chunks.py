"""Decodes chunked bodies that the parser cannot read, as leniently as browsers do.

The rules are those of RFC 9112, section 7.1, and where servers deviate from these, those of
Chromium's decoder (net/http/http_chunked_decoder.cc). A line of the framing ends in LF, and white
space before that is ignored, as are extensions and trailers.
"""

from __future__ import annotations

import re
from collections.abc import Callable

# As in Chromium, but tabs are accepted, too, as in curl.
_SIZE = re.compile(rb"0*([0-9A-Fa-f]{1,16})[ \t]*(?:;.*)?", re.DOTALL)
# The states of the decoder: in a line with a size, in a chunk, in the line end after a chunk, in
# the trailers, or at the end of the body.
_IN_SIZE, _IN_CHUNK, _AFTER_CHUNK, _IN_TRAILERS, _ENDED = range(5)


class ChunkedBody:
    """Decoder of one chunked body; it calls *give* with each decoded piece."""

    def __init__(self, give: Callable[[bytes], object]) -> None:
        self._give = give
        self._state = _IN_SIZE
        self._left = 0  # bytes of the chunk
        self._line = b""  # the beginning of a line whose end has not come yet

    @property
    def has_last_chunk(self) -> bool:
        """Return whether the last chunk, of size 0, was read: the body is complete (section 8)."""
        return self._state >= _IN_TRAILERS

    @property
    def has_ended(self) -> bool:
        """Return whether the trailers were read, too: another answer may follow."""
        return self._state == _ENDED

    def feed(self, data: bytes) -> bytes:
        """Decode *data*, the next part of the body; return the bytes after the end of the body.

        Raises ValueError for broken framing.
        """
        position = 0
        while position < len(data) and self._state != _ENDED:
            if self._state == _IN_CHUNK:
                piece = data[position : position + self._left]
                self._give(piece)
                position += len(piece)
                self._left -= len(piece)
                if not self._left:
                    self._state = _AFTER_CHUNK
                continue

            line_end = data.find(b"\n", position)
            if line_end < 0:
                self._line += data[position:]
                break
            line = self._line + data[position:line_end]
            self._line = b""
            position = line_end + 1
            self._process_line(line.rstrip(b"\r"))
        return data[position:] if self._state == _ENDED else b""

    def _process_line(self, line: bytes) -> None:
        """Process a *line* of the framing; raise ValueError if it is broken."""
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
