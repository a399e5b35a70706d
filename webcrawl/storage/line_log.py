"""Line log: lines of text in files of bounded size, readable while they are written.

For what the crawl reports about itself; its state is in record logs. Invariant: a line is in a file
whole, with its end, or it is the torn last one, which the next ``open`` cuts.

    <name>.jsonl             appended to
    <name>-NNNNNN.jsonl      full files, the oldest first; never read by the crawl, so they may be
                             compressed (``.jsonl.gz``), and deleted by ``remove_before`` alone
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

# How much of a file is looked at in one step for the end of its last whole line.
_STEP_BYTES = 1 << 16
# Of the beginning of a file, in which a line has its time. Within strings quotes are escaped.
_HEAD_BYTES = 1 << 17
_AT = re.compile(rb'"at":(\d{1,15}(?:\.\d+)?)')


class LineLog:
    """The writer of a line log. *path* is the file that is appended to, *max_bytes* its full size.

    It is full *max_secs* after its first line by *clock*, too, if the lines have their times.

    ``append`` and ``sync`` may run in two threads at once, all else belongs to one.
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
        """Make the directory if need be, cut a torn last line, go on behind the last whole one.

        Full files may have a torn line, too: a power failure takes what was not synced.
        """
        self._unsynced += [*make_directory(self.path.parent), self.path.parent]
        for path in [*numbered(self.path), self.path]:
            cut_torn_line(path)
        self._full_at = begins_at(self.path) + self._max_secs
        self._file = AppendFile(self.path)

    def append(self, line: bytes) -> None:
        """Append *line*, which has no end of line in it, with one write: it survives ``kill -9``.

        On OSError (disk full) nothing was appended, and the log stays usable.
        """
        assert self._file is not None
        now = self._clock()
        if self._file.size >= self._max_bytes or (self._file.size and now >= self._full_at):
            self._file = self._turned_over(self._file)
        if not self._file.size:
            self._full_at = now + self._max_secs
        self._file.append(line + b"\n")

    def append_once(self, line: bytes) -> None:
        """Open the log, append *line* and close it, for logs that are never synced."""
        with closing(self):
            self.open()
            self.append(line)
        self._unsynced.clear()

    def _turned_over(self, old: AppendFile) -> AppendFile:
        """Give the full file its final name; a new one."""
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
        """fsync what was appended; blocks. After an OSError the next call tries all of it again."""
        more = True
        while more:
            paths, self._unsynced = self._unsynced, []
            try:
                sync_path(self.path)
                for path in dict.fromkeys(paths):
                    with suppress(FileNotFoundError):  # compressed or deleted meanwhile
                        sync_path(path)
            except OSError:
                self._unsynced += paths
                raise
            more = bool(self._unsynced)  # a file was turned over meanwhile

    def close(self) -> None:
        """Close without fsync. Calling it again does nothing."""
        if self._file is not None:
            self._file.close()
            self._file = None


def cut_torn_line(path: Path) -> int:
    """Cut what follows the last end of a line in the file *path*, which is made if it is not there;
    returns its length then."""
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
    """The length of the file *path* without a torn last line."""
    with path.open("rb") as file:
        return _end_of_lines(file.fileno(), os.fstat(file.fileno()).st_size)


def numbered(path: Path, *, packed: bool = False) -> list[Path]:
    """The full files of the log that is appended to at *path*, the oldest first; with *packed*
    also those that are there as ``.gz`` only."""
    end = r"(?:\.gz)?" if packed else ""
    pattern = re.compile(rf"{re.escape(path.stem)}-(\d{{6,}}){re.escape(path.suffix)}{end}")
    names = sorted((one.name for one in path.parent.glob(f"{path.stem}-*")), reverse=True)
    files = {int(found[1]): name for name in names if (found := pattern.fullmatch(name))}
    return [path.with_name(files[number]) for number in sorted(files)]


def numbered_path(path: Path, number: int) -> Path:
    """The full file with that *number* of the log that is appended to at *path*."""
    return path.with_name(f"{path.stem}-{number:06d}{path.suffix}")


def number_of(path: Path) -> int:
    """The number of a full file."""
    return int(path.name.partition(".")[0].rpartition("-")[2])


def begins_at(path: Path) -> float:
    """The time of the first line of the file *path*, which may be compressed: the field ``at``,
    epoch seconds; infinite if none at its beginning has one, or it cannot be read."""
    with suppress(OSError, EOFError, zlib.error):
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
            found = _AT.search(file.read(_HEAD_BYTES))
        return float(found[1]) if found else math.inf
    return math.inf


def remove_before(path: Path, at: float) -> int:
    """Delete the full files of the log at *path* all of whose lines are from before *at*, epoch
    seconds, but never the last full one, whose number says how many there were; returns how many.
    OSError."""
    files = numbered(path, packed=True)
    last = max((number for number, one in enumerate(files) if begins_at(one) < at), default=0)
    for one in files[:last]:
        one.unlink(missing_ok=True)
    return last


def _end_of_lines(fd: int, length: int) -> int:
    """The offset after the last whole line of the file *fd*, which has *length* bytes."""
    end = length
    while end:
        start = max(0, end - _STEP_BYTES)
        found = os.pread(fd, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0
