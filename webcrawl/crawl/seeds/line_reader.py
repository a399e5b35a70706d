"""Line reader: the lines of one seed file from a cursor on, in chunks, decompressed if gzip.

Invariant: the cursor always stands before the first line that ``take`` has not returned.
"""

from __future__ import annotations

import gzip
import zlib
from typing import TYPE_CHECKING

import msgspec

from webcrawl.crawl.seeds.seed_line import MAX_LINE_BYTES

if TYPE_CHECKING:
    from io import BufferedReader
    from pathlib import Path

CHUNK_BYTES = 1 << 18  # held in memory at a time: 12,000 lines of a domain list
SKIP_BYTES = 1 << 21  # at a time, on the way to a saved cursor in gzip: about 20 ms
GZIP_MAGIC = b"\x1f\x8b"


class SourceCursor(msgspec.Struct):
    """Progress in one source."""

    key: str  # "-" or the absolute path: a resumed crawl may start in another directory
    size: int
    mtime_ns: int
    offset: int = 0  # of the next line, counted after decompression
    line: int = 0  # lines before it
    seeds: int = 0
    bad: int = 0
    done: bool = False


class BrokenGzip(Exception):  # noqa: N818 - it names the file's state
    """The error of compressed data that ends early or is damaged; *line* is the cut last line."""

    def __init__(self, why: str, line: bytes) -> None:
        super().__init__(why)
        self.line = line


class LineReader:
    """The lines of one file from its cursor on; moves the cursor as lines are taken."""

    def __init__(self, path: Path, cursor: SourceCursor) -> None:
        self._path = path
        self.cursor = cursor
        self._file: BufferedReader | gzip.GzipFile | None = None
        self._ready: list[bytes] = []
        self._next = 0  # in _ready
        self._tail = b""  # the line after those, as far as it was read and is kept
        self._dropped = 0  # bytes of it that are not kept
        self._first_dropped = 0  # likewise, of the first line in _ready
        self._at_end = False

    @property
    def ended(self) -> bool:
        return self._at_end and self._next == len(self._ready)

    def take(self, limit: int) -> list[bytes]:
        """At most *limit* lines without their ends, from at most one chunk; may be none.

        An overlong line is cut, yet stays longer than MAX_LINE_BYTES.
        """
        if self._next == len(self._ready):
            self._fill()
        lines = self._ready[self._next : self._next + limit]
        self._next += len(lines)
        self.cursor.line += len(lines)
        self.cursor.offset += sum(map(len, lines)) + len(lines) + self._first_dropped
        self._first_dropped = 0
        return lines

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _fill(self) -> None:
        try:
            if self._file is None:
                self._file = _open(self._path)
            if self._is_short_of(self.cursor.offset, self._file):
                return
            chunk = self._file.read1(CHUNK_BYTES)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise BrokenGzip(str(error), self._tail) from error
        if chunk:
            *self._ready, self._tail = (self._tail + chunk).split(b"\n")
        else:
            self._at_end = True
            self._ready, self._tail = [self._tail] if self._tail else [], b""
        self._next = 0
        if self._ready:
            self._first_dropped, self._dropped = self._dropped, 0
        excess = len(self._tail) - (MAX_LINE_BYTES + 1)
        if excess > 0:
            self._tail = self._tail[:-excess]
            self._dropped += excess

    @staticmethod
    def _is_short_of(offset: int, file: BufferedReader | gzip.GzipFile) -> bool:
        """One step of *file* towards *offset*, and whether another is needed.

        Compressed data is decompressed again up to the offset, about 12 ms a megabyte.
        """
        step = min(offset, file.tell() + SKIP_BYTES)
        return file.tell() < offset and file.seek(step) == step < offset


def _open(path: Path) -> BufferedReader | gzip.GzipFile:
    with path.open("rb") as file:
        zipped = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    return gzip.open(path) if zipped else path.open("rb")
