"""Line log: lines of text in files of limited size, which can be read while they are written.

Line logs are for what the crawl reports about itself; the crawl's state is in record logs.
Invariant: every line in a file is complete, including its line end, except for a torn last one,
which the next ``open`` cuts off.

    <name>.jsonl             the file that is appended to
    <name>-NNNNNN.jsonl      full files, the oldest first. The crawl never reads them, so they may
                             be compressed (``.jsonl.gz``). Only ``remove_before`` deletes them.
"""

from __future__ import annotations

import gzip
import math
import os
import re
import zlib
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from webcrawl.clock import TimeSource, wall_time
from webcrawl.storage.append_file import AppendFile
from webcrawl.storage.atomic import make_directory, sync_path

# Number of bytes searched in one step for the end of the last complete line.
_STEP_BYTES = 1 << 16
# Number of bytes at the beginning of a file in which the time of a line is searched. Quotes in
# strings are escaped, so they do not match.
_HEAD_BYTES = 1 << 17
_TIME_FIELD = re.compile(rb'"at":(\d{1,15}(?:\.\d+)?)')


@dataclass(kw_only=True, eq=False)
class LineLog:
    """Writer of a line log, which appends to the file *path* until it is full.

    The file is full when it has *max_bytes* or, if its lines have times, *max_secs* after its first
    line, by *clock*. ``append`` and ``sync`` may run in two threads at the same time; all other
    methods must be called in one thread.
    """

    path: Path
    max_bytes: int
    max_secs: float = math.inf
    clock: TimeSource = wall_time

    def __post_init__(self) -> None:
        # When the file is full because of the age of its first line.
        self._full_at = math.inf
        # None while the log is closed.
        self._file: AppendFile | None = None
        # Renamed files and changed directories, which the next ``sync`` also syncs.
        self._unsynced: list[Path] = []

    def open(self) -> None:
        """Make the directory if necessary, cut off a torn last line, and open the file to append.

        Full files may end in a torn line as well: a power failure loses what was not synced.
        """
        self._unsynced += [*make_directory(self.path.parent), self.path.parent]
        for path in [*numbered_files(self.path), self.path]:
            cut_torn_line(path)
        self._full_at = start_time(self.path) + self.max_secs
        self._file = AppendFile(self.path)

    def append(self, line: bytes) -> None:
        """Append *line* and a line end with a single write, so that it survives ``kill -9``.

        On an OSError (disk full) nothing was appended, and the log stays usable.
        """
        file: Any = self._file
        now = self.clock()
        if file.size >= self.max_bytes or (file.size and now >= self._full_at):
            file = self._rotate(file)
            self._file = file
        if not file.size:  # this is the first line of the file
            self._full_at = now + self.max_secs
        file.append(line + b"\n")

    def append_once(self, line: bytes) -> None:
        """Open the log, append *line* and close the log, without syncing it."""
        with closing(self):
            self.open()
            self.append(line)
        self._unsynced.clear()

    def _rotate(self, old: AppendFile) -> AppendFile:
        """Rename the full file *old* to its final name, and return a new file to append to."""
        # Compressed files are included, as their numbers are taken, too.
        full_files = numbered_files(self.path, packed=True)
        final_path = numbered_path(self.path, number_of(full_files[-1]) + 1 if full_files else 1)
        self.path.rename(final_path)
        try:
            new = AppendFile(self.path)
        except BaseException:
            final_path.rename(self.path)  # so that the next line can be appended
            raise
        self._unsynced += [final_path, self.path.parent]
        old.close()
        return new

    def sync(self) -> None:
        """fsync everything that was appended; blocks.

        After an OSError the next call tries everything again.
        """
        has_more = True
        while has_more:
            paths = self._unsynced
            self._unsynced = []
            try:
                sync_path(self.path)
                # A file that was compressed or deleted meanwhile is skipped.
                for path in dict.fromkeys(paths):
                    sync_path(path)
            except OSError:
                self._unsynced += paths
                raise
            has_more = bool(self._unsynced)  # another file became full meanwhile

    def close(self) -> None:
        """Close the file without fsync. Idempotent."""
        if self._file is not None:
            self._file.close()
            self._file = None


def cut_torn_line(path: Path) -> int:
    """Truncate the file *path* after its last line end, and return its new length in bytes.

    Creates the file if it does not exist.
    """
    with path.open("ab+") as file:
        size = _end_of_lines(file)
        if size < file.tell():
            os.ftruncate(file.fileno(), size)
    return size


def complete_lines_size(path: Path) -> int:
    """Return the length of the file *path* in bytes, without a torn last line."""
    with path.open("rb") as file:
        return _end_of_lines(file)


def numbered_files(path: Path, *, packed: bool = False) -> list[Path]:
    """Return the full files of the log whose current file is *path*, the oldest first.

    With *packed*, files that exist only in compressed form (``.gz``) are included.
    """
    packed_suffix = r"(?:\.gz)?" if packed else ""
    pattern = re.compile(
        rf"{re.escape(path.stem)}-(\d{{6,}}){re.escape(path.suffix)}{packed_suffix}"
    )
    # In this order, an uncompressed file comes after its compressed form, and replaces it.
    names = sorted((file.name for file in path.parent.glob(f"{path.stem}-*")), reverse=True)
    files = {int(found[1]): name for name in names if (found := pattern.fullmatch(name))}
    return [path.with_name(files[number]) for number in sorted(files)]


def numbered_path(path: Path, number: int) -> Path:
    """Return the path of full file *number* of the log whose current file is *path*."""
    return path.with_name(f"{path.stem}-{number:06d}{path.suffix}")


def number_of(path: Path) -> int:
    """Return the number in the name of *path*, a full file of a log."""
    return int(path.name.partition(".")[0].rpartition("-")[2])


def start_time(path: Path) -> float:
    """Return the time of the first line of the file *path*, in epoch seconds.

    It is read from the field ``at``; the file may be compressed. Returns infinity if no line at the
    beginning of the file has this field, or if the file cannot be read.
    """
    with suppress(OSError, EOFError, zlib.error):
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
            match = _TIME_FIELD.search(file.read(_HEAD_BYTES))
        return float(match[1]) if match else math.inf
    return math.inf


def remove_before(path: Path, at: float) -> int:
    """Delete the full files that have only lines older than *at*, and return their number.

    *path* is the current file of the log, and *at* is in epoch seconds. The last full file is
    always kept, because its number is needed to name the next one. Raises OSError.
    """
    files = numbered_files(path, packed=True)
    # A file has only older lines if the file after it begins before that time. So the index of the
    # last such file is the number of files before it.
    count = max((index for index, file in enumerate(files) if start_time(file) < at), default=0)
    for file in files[:count]:
        file.unlink(missing_ok=True)
    return count


def _end_of_lines(file: BinaryIO) -> int:
    """Return the offset after the last complete line in *file*."""
    end = os.fstat(file.fileno()).st_size
    while end:
        start = max(0, end - _STEP_BYTES)
        line_end = os.pread(file.fileno(), end - start, start).rfind(b"\n")
        if line_end >= 0:
            return start + line_end + 1
        end = start
    return 0
