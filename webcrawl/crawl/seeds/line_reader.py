"""Reader of the lines of one seed list, from a cursor on, in chunks, decompressed if gzip.

Invariant: the cursor always stands before the first line that ``take`` has not returned.
"""

from __future__ import annotations

import gzip
import io
import zlib
from typing import TYPE_CHECKING

import msgspec

from webcrawl.crawl.seeds.seed_line import MAX_LINE_BYTES

if TYPE_CHECKING:
    from pathlib import Path

CHUNK_BYTES = 1 << 18  # read at a time: 12,000 lines of a domain list
SKIP_BYTES = 1 << 21  # skipped at a time up to a saved cursor in gzip: about 20 ms
GZIP_MAGIC = b"\x1f\x8b"
CHECKED_BYTES = 1 << 30  # checked when a list is opened: at most a few seconds
_DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error)
_File = io.BufferedReader | io.BytesIO | gzip.GzipFile


class SourceCursor(msgspec.Struct):
    """Progress in one source."""

    key: str  # "-", a URL, or the absolute path: a resumed crawl may start in another directory
    size: int
    mtime_ns: int
    offset: int = 0  # of the next line, counted after decompression
    line: int = 0  # lines before it
    seeds: int = 0
    bad: int = 0
    done: bool = False
    damage: str = ""  # why it cannot be decompressed to its end; the seeds after that are missing


class BrokenGzip(Exception):  # noqa: N818 - it names the file's state
    """Error of compressed data that ends early or is damaged; *line* is the cut last line."""

    def __init__(self, why: str, line: bytes) -> None:
        super().__init__(why)
        self.line = line


class LineReader:
    """Reader of the lines of *source* from its cursor on; it advances the cursor.

    *source* is a file, or the only line itself; *name* is what the user wrote.
    """

    def __init__(self, name: str, source: Path | bytes, cursor: SourceCursor) -> None:
        self.name = name
        self.source = source
        self.cursor = cursor
        self.ended = False
        self._file: _File | None = None
        self._broken: BrokenGzip | None = None
        self._line = b""  # the part of the line at the cursor that was read, cut if too long
        self._line_bytes = 0  # bytes read of that line

    def take(self, limit: int) -> list[bytes]:
        """Return up to *limit* lines without line ends, from at most one chunk.

        The list may be empty. An overlong line is cut, but stays longer than MAX_LINE_BYTES. Raises
        BrokenGzip, after the lines before the damage, and OSError.
        """
        lines: list[bytes] = []
        try:
            if self._file is None:
                source = self.source
                self._file = io.BytesIO(source) if isinstance(source, bytes) else opened(source)
            if self._broken is None and not self._is_short_of(self.cursor.offset, self._file):
                self._read(self._file, limit, lines)
        except _DAMAGE as error:
            self._broken = BrokenGzip(str(error), self._line)
        if self._broken is not None and not lines:
            raise self._broken
        return lines

    def _read(self, file: _File, limit: int, lines: list[bytes]) -> None:
        left = CHUNK_BYTES
        while left > 0 and len(lines) < limit and not self.ended:
            piece = file.readline(left)
            left -= len(piece)
            self._line = (self._line + piece)[: MAX_LINE_BYTES + 1]
            self._line_bytes += len(piece)
            if piece and piece[-1:] != b"\n":
                continue
            self.ended = not piece
            if self._line_bytes:
                lines.append(self._line.removesuffix(b"\n"))
                self.cursor.line += 1
                self.cursor.offset += self._line_bytes
                self._line, self._line_bytes = b"", 0

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    @staticmethod
    def _is_short_of(offset: int, file: _File) -> bool:
        """Move *file* one step towards *offset*, and return whether another step is needed.

        Compressed data is decompressed again up to the offset, about 12 ms a megabyte.
        """
        step = min(offset, file.tell() + SKIP_BYTES)
        return file.tell() < offset and file.seek(step) == step < offset


def damage_of(path: Path) -> str:
    """Return why the first CHECKED_BYTES of the list *path* cannot be read; empty if they can."""
    with opened(path) as file:
        is_packed = isinstance(file, gzip.GzipFile)
        try:
            while is_packed and file.tell() < CHECKED_BYTES and file.read(SKIP_BYTES):
                pass
        except _DAMAGE as error:
            return str(error)
    return ""


def opened(path: Path) -> io.BufferedReader | gzip.GzipFile:
    """Open the file *path*, plain or gzip."""
    with path.open("rb") as file:
        zipped = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    return gzip.open(path) if zipped else path.open("rb")
