"""URL log (U): every URL that was not in the cache or buffer, in the order of submission.

The eliminators write to it at each submit. It is also the crawl's log of discovered URLs, so
nothing needs to be written twice. The invariant: once ``append`` has returned, its record is read
back after ``kill -9``, in order, and the n-th fingerprint of a section is the n-th of its buffer.

    discovered-NNNNNN.log   numbered from 1 without gaps; the highest is appended to
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import NamedTuple

from webcrawl.storage.record_log import (
    HEADER_SIZE,
    CorruptRecordError,
    RecordLog,
    compress,
    count_packed,
    decompress,
    pack_many,
    read_records,
)

# log    := a record log (see webcrawl.storage.record_log), one record per submit
# record := count u32 | fingerprint u64 * count | packed payloads       little-endian
# There are count packed payloads (pack_many), or none if the fingerprints were added without
# anything to return later. If the highest bit of count is set, they are compressed: the entries of
# a page's links repeat most of each other.
COUNT = struct.Struct("<I")
_COMPRESSED = 1 << 31
_LEVEL = 0

# A section of the log begins a new file when the old one has this many bytes. So old
# files can be deleted during the crawl, and frequent small merges do not create many files.
FILE_BYTES = 64 << 20


class Span(NamedTuple):
    """A section of log file *number*, from byte *start* to byte *end*."""

    number: int
    start: int
    end: int


class Frame(NamedTuple):
    """A record of the log: the offset after it, its fingerprints and its packed payloads."""

    end: int
    fps: array[int]
    packed: bytes


class UrlLog:
    """The files of the URL log in the directory *path*. Used only in the crawl's own thread.

    A section begins a new file when the old one has *file_bytes* or more.

    *run_in_worker* runs calls that may block, in another thread. Closing a file of 200 MB would
    stop the caller for 70 ms if ext4 decides to allocate its blocks then (2026-11-20).
    """

    def __init__(
        self,
        *,
        path: Path,
        run_in_worker: Callable[[Callable[[], None]], None],
        file_bytes: int = FILE_BYTES,
    ) -> None:
        self._path = path
        self._run_in_worker = run_in_worker
        self._file_bytes = file_bytes
        # The file being written, its number, and where in it the current section began. ``open``
        # sets them; the file is None before ``open`` and after ``close``.
        self._log: RecordLog | None = None
        self._number = 0
        self._start = 0
        # The first and the last file that the last snapshot needs.
        self._files_in_snapshot = (1, 1)
        # The first file that was not deleted yet.
        self._published_first = 1

    def open(self, *, number: int, start: int, end: int, first: int) -> None:
        """Continue writing file *number* at *end*; the current section began at *start*.

        The file is cut off at *end*.

        Files with numbers below *first* or above *number* are deleted.
        """
        for path in self._path.glob("discovered-*.log"):
            if not first <= int(path.stem.rpartition("-")[2]) <= number:
                path.unlink()
        self._log = RecordLog.open(self.file(number), size=end)
        self._number = number
        self._start = start
        self._published_first = first
        self._files_in_snapshot = (first, number)

    @property
    def _active(self) -> RecordLog:
        return self._log  # type: ignore[return-value]  # only used while it is open

    def file(self, number: int) -> Path:
        """Return the path of log file *number*."""
        return log_path(self._path, number)

    @property
    def is_large(self) -> bool:
        """Whether the next section will begin a new file."""
        return self._active.size >= self._file_bytes

    @property
    def span(self) -> Span:
        """The section being written."""
        return Span(self._number, self._start, self._active.size)

    def append(self, fps: array[int], payloads: Sequence[bytes]) -> None:
        """Append *fps* and their *payloads*, which may be empty, as one record with one write.

        Raises OSError if the disk is full; then nothing was appended.
        """
        count = len(fps)
        packed = pack_many(payloads)
        compressed = compress(packed, _LEVEL)
        if len(compressed) < len(packed):
            count |= _COMPRESSED
            packed = compressed
        self._active.append(COUNT.pack(count) + fps.tobytes() + packed)

    def recover(
        self, number: int, *, start: int, trusted_until: int
    ) -> Generator[Frame, None, None]:
        """Yield the records of file *number* from *start* on.

        Damage before *trusted_until* raises CorruptRecordError; damage after it ends the log.
        """
        path = self.file(number)
        if trusted_until > start:
            yield from read_frames(path, start=start, end=trusted_until)
        if path.exists():
            yield from read_frames(path, start=max(start, trusted_until), end=None)

    def cut(self) -> Span:
        """End the section being written and begin the next, in a new file if this one is large."""
        span = self.span
        if self.is_large:
            # Opened first, so that the old file stays in use if that fails.
            log = RecordLog.open(self.file(self._number + 1), size=HEADER_SIZE)
            self._run_in_worker(self._active.close)
            self._log = log
            self._number += 1
        self._start = self._active.size
        return span

    def snapshot(self, first: int | None) -> Span:
        """Return the section of the log being written, and record which files the snapshot needs.

        *first* is the oldest file that contains another section of the snapshot, or None.
        """
        self._files_in_snapshot = (self._number if first is None else first, self._number)
        return self.span

    def written(self) -> list[Path]:
        """Return files to fsync before the last snapshot may be published."""
        return [
            self.file(number)
            for number in range(self._files_in_snapshot[0], self._files_in_snapshot[1] + 1)
        ]

    def forget(self) -> list[Path]:
        """Return files to delete, because the last snapshot was published."""
        old = range(self._published_first, self._files_in_snapshot[0])
        self._published_first = self._files_in_snapshot[0]
        return [self.file(number) for number in old]

    def close(self) -> None:
        """Close the log without fsync."""
        if self._log is not None:
            self._log.close()
            self._log = None


def read_frames(path: Path, *, start: int, end: int | None) -> Generator[Frame, None, None]:
    """Yield the records of *path* from byte *start* on, up to *end* or, if None, the first damage.

    Raises CorruptRecordError for damage before *end*, like ``read_records``.
    """
    for offset, record in read_records(path, start=start, end=end):
        try:
            fps, packed = parse_record(record)
        except ValueError as error:
            raise CorruptRecordError(path, offset, str(error)) from error
        yield Frame(offset, fps, packed)


def parse_record(record: bytes) -> tuple[array[int], bytes]:
    """Return the fingerprints and packed payloads of *record*, decompressed.

    Raises ValueError if the record is too short, or its payloads cannot be decompressed.
    """
    if len(record) < COUNT.size:
        raise ValueError("not a record of a URL log: no count")
    (flagged_count,) = COUNT.unpack_from(record)
    end = COUNT.size + 8 * (flagged_count & ~_COMPRESSED)
    if len(record) < end + COUNT.size:  # payloads begin with a count
        raise ValueError("not a record of a URL log: it ends early")
    fps = array("Q")
    fps.frombytes(record[COUNT.size : end])
    packed = record[end:]
    return fps, decompress(packed) if flagged_count & _COMPRESSED else packed


def log_path(path: Path, number: int) -> Path:
    """Return the path of log file *number* in the directory *path*."""
    return path / f"discovered-{number:06d}.log"


def has_payloads(packed: bytes) -> bool:
    """Return whether *packed* contains any payloads."""
    return count_packed(packed) > 0
