"""Read-only view of an eliminator's files, for other processes than the one that owns them.

Used by commands that explain and export. It takes no lock and changes nothing on disk: it reads the
last published snapshot and the URL log since. The invariant: for a submitted URL, ``holds`` is
true, or it is among the ``undecided``, or both (if it was submitted again).

All methods read the disk. They raise CorruptRecordError for damage, and also when a newer snapshot
was published meanwhile and files are gone: the reader then starts over with that one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from webcrawl.seen.bloom import filter_path
from webcrawl.seen.bloom_file import read_filter
from webcrawl.seen.levels import find, run_path
from webcrawl.seen.runs import Run
from webcrawl.seen.snapshots import BloomSnapshot, DiskSnapshot, decode_snapshot, tag_of
from webcrawl.seen.url_log import UrlLog, has_payloads, read_frames
from webcrawl.storage.record_log import HEADER_SIZE, unpacked

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from webcrawl.seen.drain import Cursor
    from webcrawl.seen.url_log import Frame


class Submitted(NamedTuple):
    """A URL on its way through the eliminator: its fingerprint and its payload."""

    fp: int
    payload: bytes


class _LogEntry(NamedTuple):
    """A URL in the log.

    *taken* says that it left the eliminator before the snapshot, or never will.
    """

    fp: int
    payload: bytes
    taken: bool


# State of a record of which only a part had been taken.
_PARTLY = None


class SeenView:
    """The eliminator in the directory *path* as of *snapshot*, plus URLs submitted since."""

    def __init__(self, *, path: Path, snapshot: bytes) -> None:
        self._path = path
        self._log = UrlLog(path=path, aside=lambda call: call())
        self._store: _Runs | _Filter
        cursor: Cursor | None
        if tag_of(snapshot) == "Bloom":
            bloom = decode_snapshot(snapshot, BloomSnapshot, path=path)
            self._store = _Filter(path, bloom, self._log)
            number, cursor = bloom.consumed_until
            self._spans = [span for span in bloom.files if span.number >= number]
        else:
            disk = decode_snapshot(snapshot, DiskSnapshot, path=path)
            self._store = _Runs(path, disk)
            cursor = disk.cursor
            self._spans = [*disk.pending, disk.active]
        # How far the first stretch had been taken: this offset, and how much of the record there.
        self._consumed, self._done = (0, 0) if cursor is None else (cursor.offset, cursor.done)

    def close(self) -> None:
        """Close the files."""
        self._store.close()

    def holds(self, fp: int) -> bool:
        """Return whether *fp* was submitted and decided. With a Bloom filter this may be wrong."""
        return self._store.holds(fp) or any(one.taken for one in self._log_entries({fp}))

    def undecided(self, wanted: Collection[int] | None = None) -> Iterator[Submitted]:
        """Yield the entries that the eliminator will return after the snapshot, in order.

        Each fingerprint comes once; only those *wanted*, if given. Remembers all fingerprints that
        it has seen. Since the snapshot the owner may have handed some of them to the frontier.
        """
        for one in self._log_entries(wanted):
            if not one.taken:
                yield Submitted(one.fp, one.payload)

    def _log_entries(self, wanted: Collection[int] | None) -> Iterator[_LogEntry]:
        """Yield the log entries that are in none of the named runs.

        They begin with the first stretch that was not completely taken, and include what was taken
        of it.
        """
        known: set[int] = set()
        for frame, taken in self._frames():
            fps = frame.fps
            if wanted is not None and taken is not _PARTLY and not any(fp in fps for fp in wanted):
                continue
            left_to_take = self._done if taken is _PARTLY else len(fps) if taken else 0
            silent = not has_payloads(frame.packed)
            payloads = [b""] * len(fps) if silent else unpacked(self._path, frame.end, frame.packed)
            asked = fps if wanted is None or taken is _PARTLY else wanted
            known |= self._store.known(asked)
            for fp, payload in zip(fps, payloads, strict=True):
                if fp in known:
                    continue
                known.add(fp)
                if wanted is None or fp in wanted:
                    yield _LogEntry(fp, payload, taken=silent or left_to_take > 0)
                left_to_take -= 1

    def _frames(self) -> Iterator[tuple[Frame, bool | None]]:
        """Yield the records of the URL log up to its current end, and whether each had been taken.

        At the snapshot a record was taken, not taken, or taken in part.
        """
        last = self._spans[-1]
        for span in self._spans:
            file, start = self._log.file(span.number), span.start
            frames = (
                self._log.recovered(span.number, start=start, trusted_until=span.end)
                if span is last
                else read_frames(file, start=start, end=span.end)
            )
            for frame in frames:
                taken = span is self._spans[0] and start <= self._consumed
                yield frame, _PARTLY if taken and start == self._consumed else taken
                start = frame.end
        number = last.number + 1
        while self._log.file(number).exists():
            for frame in self._log.recovered(number, start=HEADER_SIZE, trusted_until=HEADER_SIZE):
                yield frame, False
            number += 1


class _Runs:
    """The runs that the snapshot names.

    Of the undecided URLs they have only those that had been submitted before.
    """

    def __init__(self, path: Path, state: DiskSnapshot) -> None:
        self._runs: list[Run] = []
        try:
            for number, count in state.runs:
                self._runs.append(Run.open(run_path(path, number), count=count))
        except BaseException:
            self.close()
            raise

    def holds(self, fp: int) -> bool:
        return any(fp in run for run in reversed(self._runs))

    def known(self, fps: Collection[int]) -> set[int]:
        keys = np.array(sorted(fps), dtype=np.uint64)
        return set(keys[find(self._runs, keys)].tolist())

    def close(self) -> None:
        for run in self._runs:
            run.close()


class _Filter:
    """The saved filter and the log since; all URLs in the log were new when submitted."""

    def __init__(self, path: Path, state: BloomSnapshot, log: UrlLog) -> None:
        self._state = state
        self._log = log
        self._filters = read_filter(filter_path(path, state.saved)).filters if state.saved else []

    def holds(self, fp: int) -> bool:
        if any(fp in one for one in self._filters):
            return True
        first, offset = self._state.since
        for span in self._state.files:
            if span.number >= first:
                start = offset if span.number == first else HEADER_SIZE
                frames = read_frames(self._log.file(span.number), start=start, end=span.end)
                if any(fp in frame.fps for frame in frames):
                    return True
        return False

    def known(self, fps: Collection[int]) -> set[int]:  # noqa: ARG002  # see the class
        return set()

    def close(self) -> None:
        """Do nothing, as no file is open."""
