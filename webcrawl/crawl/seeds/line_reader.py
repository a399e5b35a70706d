"""Reads the lines of one seed list in chunks, starting at a cursor; decompresses gzip.

Invariant: the cursor always points to the first line that ``take`` has not returned.
"""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path

import msgspec

from webcrawl.crawl.seeds.seed_line import MAX_LINE_BYTES

#: Bytes read at a time: 12,000 lines of a domain list.
CHUNK_BYTES = 1 << 18
#: Bytes of gzip skipped at a time on the way to a saved cursor: about 20 ms.
SKIP_BYTES = 1 << 21
GZIP_MAGIC = b"\x1f\x8b"
#: Bytes checked for damage when a list is opened: at most a few seconds.
CHECKED_BYTES = 1 << 30
_DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error)
_File = io.BufferedReader | io.BytesIO | gzip.GzipFile


class SourceCursor(msgspec.Struct):
    """Progress in one source."""

    key: str  # "-", a URL, or the absolute path: a resumed crawl may start in another directory
    size: int
    mtime_ns: int
    offset: int = 0  # of the next line, in the decompressed data
    line: int = 0  # number of lines before the next one
    seeds: int = 0
    bad: int = 0
    done: bool = False
    damage: str = ""  # why the data cannot be decompressed to the end; later seeds are missing


class BrokenGzip(Exception):  # noqa: N818 - it names the file's state
    """Raised for gzip data that ends early or is damaged; *line* is its last, incomplete line."""

    def __init__(self, why: str, line: bytes) -> None:
        super().__init__(why)
        self.line = line


class LineReader:
    """Reads the lines of one source, starting at a cursor, which it advances."""

    def __init__(self, name: str, source: Path | bytes, cursor: SourceCursor) -> None:
        """Create a reader of *source*: a file, or the only line itself.

        *name* is the source as the user wrote it.
        """
        self.name = name
        self.source = source
        self.cursor = cursor
        #: Whether the end of the source was reached.
        self.ended = False
        # The open source; None before the first ``take``.
        self._file: _File | None = None
        # The error to raise once all lines before the damage were returned; None without damage.
        self._broken: BrokenGzip | None = None
        # The part read of the line at the cursor, cut if it is too long.
        self._line = b""
        # The number of bytes read of that line.
        self._line_bytes = 0

    def take(self, limit: int) -> list[bytes]:
        """Return up to *limit* lines without line ends, from at most one chunk.

        The list may be empty before the end. An overlong line is cut, but stays longer than
        MAX_LINE_BYTES. Raises BrokenGzip, once the lines before the damage were returned, and
        OSError.
        """
        lines: list[bytes] = []
        try:
            if self._file is None:
                source = self.source
                self._file = io.BytesIO(source) if isinstance(source, bytes) else open_list(source)
            # After a restart, several calls only move the file towards the cursor.
            if self._broken is None and not self._move_towards(self.cursor.offset, self._file):
                self._read(self._file, limit, lines)
        except _DAMAGE as error:
            self._broken = BrokenGzip(str(error), self._line)
        if self._broken is not None and not lines:
            raise self._broken
        return lines

    def _read(self, file: _File, limit: int, lines: list[bytes]) -> None:
        """Append up to *limit* lines of *file* to *lines*, and advance the cursor."""
        bytes_left = CHUNK_BYTES
        while bytes_left > 0 and len(lines) < limit and not self.ended:
            data = file.readline(bytes_left)
            bytes_left -= len(data)
            self._line = (self._line + data)[: MAX_LINE_BYTES + 1]
            self._line_bytes += len(data)
            if data and data[-1:] != b"\n":  # the rest of the line is read later
                continue
            self.ended = not data
            if self._line_bytes:
                lines.append(self._line.removesuffix(b"\n"))
                self.cursor.line += 1
                self.cursor.offset += self._line_bytes
                self._line = b""
                self._line_bytes = 0

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    @staticmethod
    def _move_towards(offset: int, file: _File) -> bool:
        """Move *file* one step towards *offset*, and return whether more steps are needed.

        Compressed data must be decompressed up to the offset, which takes 12 ms per megabyte.
        """
        target = min(offset, file.tell() + SKIP_BYTES)
        return file.tell() < offset and file.seek(target) == target < offset


def damage_of(path: Path) -> str:
    """Return why the list *path* cannot be read; "" if it can. Checks only CHECKED_BYTES of it."""
    with open_list(path) as file:
        is_compressed = isinstance(file, gzip.GzipFile)
        # Decompressing damaged data raises one of these errors.
        try:
            while is_compressed and file.tell() < CHECKED_BYTES and file.read(SKIP_BYTES):
                pass
        except _DAMAGE as error:
            return str(error)
    return ""


def open_list(path: Path) -> io.BufferedReader | gzip.GzipFile:
    """Open the seed list *path*, decompressing it if it is gzip."""
    with path.open("rb") as file:
        is_gzip = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    return gzip.open(path) if is_gzip else path.open("rb")
