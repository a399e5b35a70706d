"""The done log: what happened to hosts and leased entries since the last snapshot.

Written by the frontier, read only at recovery. The invariant: a contact is on record before the
entry is handed out, so that no crash can make a restart visit the host early; and an entry is on
record as finished when ``finish`` returns.

Format: record logs (storage/records.py) ``<path>/<number>.log`` with, little-endian::

    record   := contact | release | finish | requeue | distrust
    contact  := kind u8 (1) | at f64 | least f64 | host utf-8
    release  := kind u8 (2) | ready_at f64 | rest f64 | host utf-8
    finish   := kind u8 (3) | key u64 | note bytes (content fingerprint, or empty)
    requeue  := kind u8 (4) | encoded entry
    distrust := kind u8 (5)

Times are epoch seconds, *least* and *rest* seconds. *least* is the last rest that robots.txt or
the server asked for: what a contact without a release must at least be given. *distrust* makes
the finish records before it void: the pages behind them may have been lost in a power failure.

A snapshot names the segment that begins with it; older segments are disposable once it is
published, and recovery reads from there through all consecutive segments, because a crash may
come after a snapshot was made and before it was published.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from webcrawl.storage.atomic import make_directory
from webcrawl.storage.records import CorruptRecordError, RecordLog, read_records

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_CONTACT, _RELEASE, _FINISH, _REQUEUE, _DISTRUST = range(1, 6)
_TIMES = struct.Struct("<Bdd")
assert _TIMES.size == 17
_KEY = struct.Struct("<BQ")
assert _KEY.size == 9
_REQUEUE_BYTE = bytes([_REQUEUE])
_DISTRUST_RECORD = bytes([_DISTRUST])
# Releases wait in memory for the next write: one that a crash swallows only makes the host wait
# longer. More than this many are written by themselves.
_HELD_BACK = 64


class Contact(NamedTuple):
    """A host was about to be contacted."""

    host: str
    at: float
    least: float


class Release(NamedTuple):
    """A host was given back and rests *rest* seconds until *ready_at*."""

    host: str
    ready_at: float
    rest: float


class Finish(NamedTuple):
    """An entry was finished."""

    key: int
    note: bytes


class Requeue(NamedTuple):
    """An entry was pushed that nobody will submit again."""

    data: bytes


class Distrust(NamedTuple):
    """The finish records up to here are void."""


Record = Contact | Release | Finish | Requeue | Distrust


class DoneLog:
    """The log in its segments. Every method that writes makes one write call. Not thread-safe."""

    def __init__(self, *, path: Path) -> None:
        self.path = path
        self.number = 0
        self._log: RecordLog | None = None
        self._held: list[bytes] = []
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

    def records(self, first: int, *, trusted: bool) -> Iterator[Record]:
        """What was written from segment *first* on, before this process.

        Each segment is read up to its torn tail. *trusted* says that the machine has not gone
        down since: then a segment without even a header is damage (CorruptRecordError),
        otherwise it is one whose pages were never written.
        """
        for number in range(first, self.number):
            try:
                for _, payload in read_records(self._file(number)):
                    yield _record(payload)
            except CorruptRecordError:
                if trusted:
                    raise

    def contacts(self, contacts: list[tuple[str, float]], *, at: float) -> None:
        """All hosts in *contacts*, given with their *least*, may be contacted from now on."""
        pack = _TIMES.pack
        self._write_with_held(
            [pack(_CONTACT, at, least) + host.encode() for host, least in contacts]
        )

    def release(self, host: str, *, ready_at: float, rest: float, at_once: bool) -> None:
        """*host* was given back. On disk with the next record, or now with *at_once*."""
        self._held.append(_TIMES.pack(_RELEASE, ready_at, rest) + host.encode())
        if at_once or len(self._held) >= _HELD_BACK:
            self.flush()

    def finish(self, key: int, note: bytes) -> None:
        """The entry named *key* is done."""
        self._write_with_held([_KEY.pack(_FINISH, key) + note])

    def requeue(self, data: bytes) -> None:
        """The encoded entry was pushed outside the eliminator."""
        self._write_with_held([_REQUEUE_BYTE + data])

    def distrust(self) -> None:
        """Make all earlier finish records void."""
        self._write_with_held([_DISTRUST_RECORD])

    def flush(self) -> None:
        """Write the releases that wait in memory."""
        if self._held:
            self._write_with_held([])

    def rotate(self) -> int:
        """Begin the segment of a new snapshot and return its number."""
        self.flush()
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
                self.flush()
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

    def _write_with_held(self, payloads: list[bytes]) -> None:
        """One write: the held releases, then *payloads*. OSError leaves all as it was."""
        assert self._log is not None, "the done log is not open"
        if self._held:
            self._log.append_all(self._held + payloads)
            self._held.clear()
        elif len(payloads) == 1:
            self._log.append(payloads[0])
        else:
            self._log.append_all(payloads)

    def _file(self, number: int) -> Path:
        return self.path / f"{number:08d}.log"


def _record(payload: bytes) -> Record:
    """Decode one record. The frame's checksum has vouched for its bytes."""
    kind = payload[0]
    if kind == _CONTACT:
        _, at, least = _TIMES.unpack_from(payload)
        return Contact(payload[_TIMES.size :].decode(), at, least)
    if kind == _RELEASE:
        _, ready_at, rest = _TIMES.unpack_from(payload)
        return Release(payload[_TIMES.size :].decode(), ready_at, rest)
    if kind == _FINISH:
        _, key = _KEY.unpack_from(payload)
        return Finish(key, payload[_KEY.size :])
    if kind == _REQUEUE:
        return Requeue(payload[1:])
    assert kind == _DISTRUST, f"unknown record kind {kind}"
    return Distrust()
