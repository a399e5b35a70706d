"""Line log: lines of text in files of bounded size, readable while they are written.

For what the crawl reports about itself; its state is in record logs. Invariant: a line is in a file
whole, with its end, or it is the torn last one, which the next ``open`` cuts.

    <name>.jsonl             appended to
    <name>-NNNNNN.jsonl      full files, the oldest first; never read or deleted by the crawl, so
                             they may be compressed (``.jsonl.gz``)
"""

from __future__ import annotations

import os
import re
from contextlib import closing
from typing import TYPE_CHECKING

from webcrawl.storage.append_file import AppendFile
from webcrawl.storage.atomic import make_directory, sync_path

if TYPE_CHECKING:
    from pathlib import Path

# How much of a file is looked at in one step for the end of its last whole line.
_STEP_BYTES = 1 << 16


class LineLog:
    """The writer of a line log. *path* is the file that is appended to, *max_bytes* its full size.

    ``append`` and ``sync`` may run in two threads at once, all else belongs to one.
    """

    def __init__(self, *, path: Path, max_bytes: int) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._file: AppendFile | None = None
        self._unsynced: list[Path] = []

    def open(self) -> None:
        """Make the directory if need be, cut a torn last line, go on behind the last whole one.

        Full files may have a torn line, too: a power failure takes what was not synced.
        """
        self._unsynced += [*make_directory(self.path.parent), self.path.parent]
        for path in [*numbered(self.path), self.path]:
            cut_torn_line(path)
        self._file = AppendFile(self.path)

    def append(self, line: bytes) -> None:
        """Append *line*, which has no end of line in it, with one write: it survives ``kill -9``.

        On OSError (disk full) nothing was appended, and the log stays usable.
        """
        assert self._file is not None
        if self._file.size >= self._max_bytes:
            self._file = self._turned_over(self._file)
        self._file.append(line + b"\n")

    def append_once(self, line: bytes) -> None:
        """Open the log, append *line* and close it."""
        with closing(self):
            self.open()
            self.append(line)

    def _turned_over(self, old: AppendFile) -> AppendFile:
        """Give the full file its final name; a new one."""
        full = numbered(self.path, packed=True)
        number = number_of(full[-1]) + 1 if full else 1
        final = self.path.with_name(f"{self.path.stem}-{number:06d}{self.path.suffix}")
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
                for path in [self.path, *dict.fromkeys(paths)]:
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


def number_of(path: Path) -> int:
    """The number of a full file."""
    return int(path.name.partition(".")[0].rpartition("-")[2])


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
