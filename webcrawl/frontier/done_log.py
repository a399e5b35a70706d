"""The done log: contacts of hosts and finished entries since the last snapshot.

Written by the frontier, read only during recovery. The invariants: a contact is recorded before the
entry is handed out, and an entry is recorded as finished when ``finish`` returns. So a restart
never contacts a host too early.

Format: record logs (storage/record_log.py) ``<path>/<number>.log``; the payload of each frame is a
msgpack array of the records of one write::

    record   := contact | release | finish | requeue | distrust | due
    contact  := [1, host, at, min_rest]
    release  := [6, host, ready_at, min_rest, is_contact]
    finish   := [3, key, note, outcome, received, is_duplicate, visit]
    requeue  := [4, encoded entry, "", is_retry]         a retry with the finish of the try before
    distrust := [5]
    due      := [7, encoded entry, at]                   with the finish of the visit before

In webcrawl 0.1 a release ended after *min_rest*, a finish after *note* and a requeue after the
entry; such records are not counted. Logs written before 2026-11-26 have no *is_retry*.
A *host* may be the name of a shared clock (shared.py).

A snapshot names the segment that begins with it, and older segments can be deleted once it is
published. Recovery reads from that segment through all consecutive ones, because a crash may come
after a snapshot was made and before it was published.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from webcrawl.configuration.decoding import Count, Seconds, msgpack_decoder
from webcrawl.storage.atomic import make_directory
from webcrawl.storage.record_log import RecordLog, read_records

# Releases wait in memory for the next write, as losing one in a crash only makes the host wait
# longer. This many may wait; then they are written.
_MAX_WAITING = 64


class Contact(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """Record of a host that is about to be contacted, *at* epoch seconds.

    If the contact is cut off, the host rests for *min_rest* seconds at least. When a contact has
    several records, the last one counts.
    """

    host: str
    at: Seconds
    min_rest: Seconds


class Release(msgspec.Struct, frozen=True, array_like=True, tag=6, gc=False):
    """Record of a host that was released and rests until *ready_at*, epoch seconds.

    *min_rest* is the rest in seconds after its next contact if that is cut off. *is_contact* tells
    whether a request was sent to the host.
    """

    host: str
    ready_at: Seconds
    min_rest: Seconds
    is_contact: bool = False


class Result(NamedTuple):
    """The result of an entry, for the crawl's counters.

    *outcome* is empty if the URL is not finished yet, was visited again, or does not belong to the
    crawl. *received* is the number of bytes of the last answer. *is_duplicate* means that a
    document with the same bytes was seen at another URL. *visit* is the result of a repeated visit,
    empty if this was none.
    """

    outcome: str = ""
    received: int = 0
    is_duplicate: bool = False
    visit: str = ""


NOTHING = Result()


class Finish(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """Record that the entry with the key *key* is finished, with the fields of its Result.

    *note* belongs to the caller, and may be empty.
    """

    key: int
    note: bytes
    outcome: str = ""
    received: Count = 0
    is_duplicate: bool = False
    visit: str = ""


class Requeue(msgspec.Struct, frozen=True, array_like=True, tag=4, gc=False):
    """Record of an encoded entry that was pushed and will not be submitted again.

    With *is_retry* the entry replaces another one, whose finish record is in the same write. If
    that record is void, so is this one.
    """

    data: bytes
    unused: str = ""  # logs written before 2026-11-27 may have an outcome here
    is_retry: bool = False


class Distrust(msgspec.Struct, frozen=True, array_like=True, tag=5, gc=False):
    """Marker that makes earlier finish records void: links found on their pages may be lost."""


class Due(msgspec.Struct, frozen=True, array_like=True, tag=7, gc=False):
    """Record of an encoded entry that was set aside until *at*, epoch seconds."""

    data: bytes
    at: Seconds


Record = Contact | Release | Finish | Requeue | Distrust | Due
_encode = msgspec.msgpack.Encoder().encode
#: Decodes the records of one write. Raises UndecodableError for other bytes.
records_in = msgpack_decoder(list[Record])


class DoneLog:
    """The segments of the log. Each method that writes makes one write call. Not thread-safe."""

    def __init__(self, *, path: Path) -> None:
        self.path = path
        #: The number of the segment being written. ``open`` sets it and the log.
        self.number = 0
        self._log: RecordLog | None = None
        # Releases to be written with the next records.
        self._waiting: list[Record] = []
        # Directories whose new entries were not synced yet.
        self._new_names: set[Path] = set()
        # The oldest segment on disk, and the one that begins with the last snapshot.
        self._kept_from = 0
        self._snapshot_from = 0

    def open(self, first: int) -> None:
        """Keep the consecutive segments from *first* on, delete all others, and begin a new one.

        *first* is the segment's number in the snapshot, or 1 for a new frontier.
        """
        self._new_names.update(make_directory(self.path))
        number = first
        while self._file(number).exists():
            number += 1

        # Segments before the snapshot, or after a gap, can only be left over.
        for path in self.path.glob("*.log"):
            if not first <= int(path.stem) < number:
                path.unlink()
        self._kept_from = first
        self._snapshot_from = first
        self._begin(number)

    def write(self, *records: Record) -> None:
        """Write the waiting records, then *records*. If OSError is raised, the log is unchanged."""
        log: Any = self._log
        if batch := [*self._waiting, *records]:
            log.append(_encode(batch))
            self._waiting.clear()

    def release(self, release: Release, *, at_once: bool) -> None:
        """Record *release*: immediately on disk if *at_once*, otherwise with the next write."""
        if at_once or len(self._waiting) >= _MAX_WAITING:
            self.write(release)
        else:
            self._waiting.append(release)

    def rotate(self) -> int:
        """Begin the segment that belongs to a new snapshot, and return its number."""
        self.write()
        self._begin(self.number + 1)
        self._snapshot_from = self.number
        return self.number

    def written(self) -> list[Path]:
        """Return the paths to fsync: the current segment, and directories with new entries."""
        paths = [*self._new_names, self._file(self.number)]
        self._new_names.clear()
        return paths

    def forget(self) -> None:
        """Delete the segments before the last snapshot, once that is published."""
        for number in range(self._kept_from, self._snapshot_from):
            self._file(number).unlink(missing_ok=True)
        self._kept_from = self._snapshot_from

    def close(self) -> None:
        """Write the records that wait in memory and close. Calling it again does nothing."""
        if self._log is not None:
            try:
                self.write()
            finally:
                self._log.close()
                self._log = None

    def _begin(self, number: int) -> None:
        """Open segment *number* for writing, and close the previous one."""
        log = RecordLog.open(self._file(number))
        if self._log is not None:
            self._log.close()
        self._log = log
        self.number = number
        self._new_names.add(self.path)

    def _file(self, number: int) -> Path:
        return _file(self.path, number)


def read_done_log(path: Path, first: int) -> Iterator[Record]:
    """Yield the records of the done log in the directory *path*, from segment *first* on.

    Each segment is read up to the first incomplete frame, which may be its start. Raises
    CorruptRecordError if a segment is not a record log.
    """
    for file in done_log_files(path, first):
        for _, payload in read_records(file):
            yield from records_in(payload)


def done_log_files(path: Path, first: int) -> list[Path]:
    """Return the files of the consecutive segments in the directory *path*, from *first* on."""
    files: list[Path] = []
    while (file := _file(path, first + len(files))).exists():
        files.append(file)
    return files


def _file(path: Path, number: int) -> Path:
    return path / f"{number:08d}.log"
