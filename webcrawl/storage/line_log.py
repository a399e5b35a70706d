"""Line log: lines of text in files of limited size, readable while they are written.

It is for what the crawl reports about itself; the crawl's state is in record logs. Invariant: a
line is in a file completely, including its end, or it is the torn last one, which the next ``open``
cuts off.

    <name>.jsonl             the file that is appended to
    <name>-NNNNNN.jsonl      full files, the oldest first. The crawl never reads them, so they may
    be
                             compressed (``.jsonl.gz``). Only ``remove_before`` deletes them.
"""

from __future__ import annotations

import gzip
import math
import os
import re
import zlib
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from webcrawl.clock import TimeSource, wall_time
from webcrawl.storage.append_file import AppendFile
from webcrawl.storage.atomic import make_directory, sync_path

if TYPE_CHECKING:
    from pathlib import Path

# Bytes of a file that are searched in one step for the end of its last complete line.
_STEP_BYTES = 1 << 16
# Bytes at the beginning of a file that are searched for the time of a line. Quotes in strings are
# escaped, so they do not match.
_HEAD_BYTES = 1 << 17
_AT = re.compile(rb'"at":(\d{1,15}(?:\.\d+)?)')


class LineLog:
    """The writer of a line log. *path* is the file that is appended to, *max_bytes* its full size.

    If the lines have times, it is also full *max_secs* after its first line, by *clock*. ``append``
    and ``sync`` may run in two threads at the same time; everything else belongs to one thread.
    """

    def __init__(
        self,
        *,
        path: Path,
        max_bytes: int,
        max_secs: float = math.inf,
        clock: TimeSource = wall_time,
    ) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._max_secs = max_secs
        self._clock = clock
        self._full_at = math.inf
        self._file: AppendFile | None = None
        self._unsynced: list[Path] = []

    def open(self) -> None:
        """Make the directory if necessary, cut off a torn last line, and continue after it.

        Full files may have a torn line, too: a power failure loses what was not synced.
        """
        self._unsynced += [*make_directory(self.path.parent), self.path.parent]
        for path in [*numbered(self.path), self.path]:
            cut_torn_line(path)
        self._full_at = begins_at(self.path) + self._max_secs
        self._file = AppendFile(self.path)

    def append(self, line: bytes) -> None:
        """Append *line*, without a line end, with one write, so that it survives ``kill -9``.

        On an OSError (disk full) nothing was appended, and the log stays usable.
        """
        assert self._file is not None
        now = self._clock()
        if self._file.size >= self._max_bytes or (self._file.size and now >= self._full_at):
            self._file = self._rotated(self._file)
        if not self._file.size:
            self._full_at = now + self._max_secs
        self._file.append(line + b"\n")

    def append_once(self, line: bytes) -> None:
        """Open the log, append *line* and close it, for logs that are never synced."""
        with closing(self):
            self.open()
            self.append(line)
        self._unsynced.clear()

    def _rotated(self, old: AppendFile) -> AppendFile:
        """Give the full file its final name, and return a new one."""
        full = numbered(self.path, packed=True)
        final = numbered_path(self.path, number_of(full[-1]) + 1 if full else 1)
        self.path.rename(final)
        try:
            new = AppendFile(self.path)
        except BaseException:
            final.rename(self.path)
            raise
        self._unsynced += [final, self.path.parent]
        old.close()
        return new

    def sync(self) -> None:
        """fsync what was appended; blocks.

        After an OSError the next call tries everything again.
        """
        more = True
        while more:
            paths, self._unsynced = self._unsynced, []
            try:
                sync_path(self.path)
                for path in dict.fromkeys(paths):
                    with suppress(FileNotFoundError):  # it was compressed or deleted meanwhile
                        sync_path(path)
            except OSError:
                self._unsynced += paths
                raise
            more = bool(self._unsynced)  # a file became full meanwhile

    def close(self) -> None:
        """Close without fsync. Idempotent."""
        if self._file is not None:
            self._file.close()
            self._file = None


def cut_torn_line(path: Path) -> int:
    """Cut what follows the last line end in the file *path*; return its length then.

    Creates the file if it does not exist.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        length = os.fstat(fd).st_size
        size = _end_of_lines(fd, length)
        if size < length:
            os.ftruncate(fd, size)
    finally:
        os.close(fd)
    return size


def whole_bytes(path: Path) -> int:
    """Return the length of the file *path* without a torn last line."""
    with path.open("rb") as file:
        return _end_of_lines(file.fileno(), os.fstat(file.fileno()).st_size)


def numbered(path: Path, *, packed: bool = False) -> list[Path]:
    """Return the full files of the log that is appended to at *path*, the oldest first.

    With *packed* also those that exist only as ``.gz``.
    """
    end = r"(?:\.gz)?" if packed else ""
    pattern = re.compile(rf"{re.escape(path.stem)}-(\d{{6,}}){re.escape(path.suffix)}{end}")
    names = sorted((file.name for file in path.parent.glob(f"{path.stem}-*")), reverse=True)
    files = {int(found[1]): name for name in names if (found := pattern.fullmatch(name))}
    return [path.with_name(files[number]) for number in sorted(files)]


def numbered_path(path: Path, number: int) -> Path:
    """Return the path of the full file *number* of the log that is appended to at *path*."""
    return path.with_name(f"{path.stem}-{number:06d}{path.suffix}")


def number_of(path: Path) -> int:
    """Return the number of a full file."""
    return int(path.name.partition(".")[0].rpartition("-")[2])


def begins_at(path: Path) -> float:
    """Return the time of the first line of the file *path*, which may be compressed.

    It is the field ``at``, in epoch seconds. Infinite if no line at its beginning has one, or the
    file cannot be read.
    """
    with suppress(OSError, EOFError, zlib.error):
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
            match = _AT.search(file.read(_HEAD_BYTES))
        return float(match[1]) if match else math.inf
    return math.inf


def remove_before(path: Path, at: float) -> int:
    """Delete the full files of the log at *path* with only lines from before *at*; return how many.

    *at* is in epoch seconds. The last full file always stays, as its number says how many there
    were. Raises OSError.
    """
    files = numbered(path, packed=True)
    last = max((number for number, file in enumerate(files) if begins_at(file) < at), default=0)
    for file in files[:last]:
        file.unlink(missing_ok=True)
    return last


def _end_of_lines(fd: int, length: int) -> int:
    """Return the offset after the last complete line of the file *fd* of *length* bytes."""
    end = length
    while end:
        start = max(0, end - _STEP_BYTES)
        found = os.pread(fd, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0
