"""The done log: what happened to hosts and leased entries since the last snapshot.

Written by the frontier, read only at recovery. The invariant: a contact is on record before the
entry is handed out, so that no crash can make a restart visit the host early; and an entry is on
record as finished when ``finish`` returns.

Format: record logs (storage/record_log.py) ``<path>/<number>.log``; the payload of each frame is a
msgpack array of the records of one write::

    record   := contact | release | finish | requeue | distrust | due
    contact  := [1, host, at, min_rest]
    release  := [6, host, ready_at, min_rest, is_contact]
    finish   := [3, key, note, outcome, received, is_duplicate, visit]
    requeue  := [4, encoded entry, "", is_retry]
    distrust := [5]
    due      := [7, encoded entry, at]                   beside the finish of the entry before

In webcrawl 0.1 a release ended after *min_rest*, a finish after *note*, a requeue after the entry:
they count nothing. Until 2026-11-26 no requeue was a retry.
A *host* is a shared clock when it has the name of one (shared.py).

A snapshot names the segment that begins with it; older segments are disposable once it is
published, and recovery reads from there through all consecutive segments, because a crash may
come after a snapshot was made and before it was published.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from webcrawl.configuration.decoding import Count, Seconds, msgpack_decoder
from webcrawl.storage.atomic import make_directory
from webcrawl.storage.record_log import RecordLog, read_records

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Releases wait in memory for the next write: one that a crash swallows only makes the host wait
# longer. More than this many are written by themselves.
_HELD_BACK = 64


class Contact(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """A host was about to be contacted, *at* epoch seconds.

    *min_rest* is in seconds what a contact that is cut off must at least be followed by; of several
    records of one contact the last one counts.
    """

    host: str
    at: Seconds
    min_rest: Seconds


class Release(msgspec.Struct, frozen=True, array_like=True, tag=6, gc=False):
    """A host was given back and rests until *ready_at*, epoch seconds.

    *is_contact*: something was sent to it.
    """

    host: str
    ready_at: Seconds
    min_rest: Seconds
    is_contact: bool = False


class Result(NamedTuple):
    """Outcome of an entry, for the counts of the crawl.

    *outcome* is its URL's, empty if that has not come to its end, was visited again, or is none of
    the crawl; *received* are the bytes of the last answer; *is_duplicate*: another URL's document
    had the same bytes; *visit* is what a visit has found, empty for no visit.
    """

    outcome: str = ""
    received: int = 0
    is_duplicate: bool = False
    visit: str = ""


NOTHING = Result()


class Finish(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """The entry named *key* is done; *note* is the caller's, or empty. The rest is its Result."""

    key: int
    note: bytes
    outcome: str = ""
    received: Count = 0
    is_duplicate: bool = False
    visit: str = ""


class Requeue(msgspec.Struct, frozen=True, array_like=True, tag=4, gc=False):
    """An encoded entry was pushed that the caller will not submit again.

    *is_retry*: it has the place of one whose finish record is behind this, and is void with that.
    """

    data: bytes
    unused: str = ""  # until 2026-11-27 an outcome that did not count any more
    is_retry: bool = False


class Distrust(msgspec.Struct, frozen=True, array_like=True, tag=5, gc=False):
    """The finish records before are void: what was found on the pages may have been lost."""


class Due(msgspec.Struct, frozen=True, array_like=True, tag=7, gc=False):
    """An encoded entry was put aside that is due *at* epoch seconds."""

    data: bytes
    at: Seconds


Record = Contact | Release | Finish | Requeue | Distrust | Due
_encode = msgspec.msgpack.Encoder().encode
#: The records of one write. UndecodableError.
records_in = msgpack_decoder(list[Record])


class DoneLog:
    """The log in its segments. Every method that writes makes one write call. Not thread-safe."""

    def __init__(self, *, path: Path) -> None:
        self.path = path
        self.number = 0
        self._log: RecordLog | None = None
        self._held: list[Record] = []
        self._new_names: set[Path] = set()
        self._kept_from = 0
        self._snapshot_from = 0

    def open(self, first: int) -> None:
        """Begin a new segment after those that follow *first*, and delete all that do not.

        *first* is the number that the snapshot names, 1 for a new frontier.
        """
        self._new_names.update(make_directory(self.path))
        number = first
        while self._file(number).exists():
            number += 1
        for path in self.path.glob("*.log"):
            if not first <= int(path.stem) < number:
                path.unlink()
        self._kept_from = self._snapshot_from = first
        self._begin(number)

    def write(self, *records: Record) -> None:
        """Write the records that wait in memory, then *records*. OSError leaves all as it was."""
        assert self._log is not None, "the done log is not open"
        if batch := [*self._held, *records]:
            self._log.append(_encode(batch))
            self._held.clear()

    def release(self, release: Release, *, at_once: bool) -> None:
        """A host was given back. On disk with the next write, or now with *at_once*."""
        if at_once or len(self._held) >= _HELD_BACK:
            self.write(release)
        else:
            self._held.append(release)

    def rotate(self) -> int:
        """Begin the segment of a new snapshot and return its number."""
        self.write()
        self._begin(self.number + 1)
        self._snapshot_from = self.number
        return self.number

    def written(self) -> list[Path]:
        """The present segment and the directories with new names."""
        paths = [*self._new_names, self._file(self.number)]
        self._new_names.clear()
        return paths

    def forget(self) -> None:
        """The last snapshot is published: delete the segments before it."""
        for number in range(self._kept_from, self._snapshot_from):
            self._file(number).unlink(missing_ok=True)
        self._kept_from = self._snapshot_from

    def close(self) -> None:
        """Write what waits in memory and close. Calling it again does nothing."""
        if self._log is not None:
            try:
                self.write()
            finally:
                self._log.close()
                self._log = None

    def _begin(self, number: int) -> None:
        log = RecordLog.open(self._file(number))
        if self._log is not None:
            self._log.close()
        self._log = log
        self.number = number
        self._new_names.add(self.path)

    def _file(self, number: int) -> Path:
        return _file(self.path, number)


def read_done_log(path: Path, first: int) -> Iterator[Record]:
    """The records at *path* from segment *first* on. Each segment is read up to its torn tail,
    which may be all of it. CorruptRecordError when one is not a record log at all."""
    for file in done_log_files(path, first):
        for _, payload in read_records(file):
            yield from records_in(payload)


def done_log_files(path: Path, first: int) -> list[Path]:
    """The segments at *path* from *first* on, as far as they follow each other."""
    files: list[Path] = []
    while (file := _file(path, first + len(files))).exists():
        files.append(file)
    return files


def _file(path: Path, number: int) -> Path:
    return path / f"{number:08d}.log"
