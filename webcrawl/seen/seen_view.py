"""Read-only view of an eliminator's files, for processes other than the one that owns them.

Used by commands that explain and export. It takes no lock and changes nothing on disk. It reads the
last published snapshot and the part of the URL log written since. The invariant: for a submitted
URL, ``has`` is true, or the URL is among the ``undecided_entries``, or both (if it was submitted
again).

All methods read the disk. They raise CorruptRecordError if a file is damaged. They raise it too if
a newer snapshot was published meanwhile and files were deleted; then start over with the newer one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from webcrawl.seen.bloom import filter_path
from webcrawl.seen.bloom_file import read_filter
from webcrawl.seen.drain import Cursor
from webcrawl.seen.fingerprint import finished_key, foreign_key, own_key
from webcrawl.seen.levels import find, run_path
from webcrawl.seen.runs import Run
from webcrawl.seen.snapshots import BloomSnapshot, DiskSnapshot, decode_snapshot, tag_of
from webcrawl.seen.url_log import Frame, UrlLog, has_payloads, read_frames
from webcrawl.storage.record_log import HEADER_SIZE, unpack


class Submitted(NamedTuple):
    """A URL that was submitted to the eliminator: its fingerprint and its payload.

    *taken* is true if it had left the eliminator before the snapshot, or will never leave it.
    """

    fp: int
    payload: bytes
    taken: bool = False


class SeenView:
    """State of the eliminator in the directory *path* at *snapshot*, plus URLs submitted since."""

    def __init__(self, *, path: Path, snapshot: bytes) -> None:
        self._path = path
        self._log = UrlLog(path=path, run_in_worker=lambda call: call())
        # What the snapshot says was seen, apart from the sections of the log in ``_spans``.
        self._store: _Runs | _Filter
        cursor: Cursor | None
        if tag_of(snapshot) == "Bloom":
            bloom = decode_snapshot(snapshot, BloomSnapshot, path=path)
            self._store = _Filter(path, bloom, self._log)
            self._tells_own = False
            number, cursor = bloom.consumed_until
            # The log from the file on that was not completely taken.
            self._spans = [span for span in bloom.files if span.number >= number]
        else:
            disk = decode_snapshot(snapshot, DiskSnapshot, path=path)
            self._store = _Runs(path, disk)
            self._tells_own = disk.tells_own
            cursor = disk.taken_until
            self._spans = [*disk.untaken, disk.open_section]
        # How far the first section had been taken: up to the record at this offset, and how many of
        # its payloads.
        self._cursor = cursor or Cursor(0, 0, 0)

    def close(self) -> None:
        """Close the files."""
        self._store.close()

    def has(self, fp: int) -> bool:
        """Return whether *fp* was submitted and is no longer undecided.

        With a Bloom filter, a positive answer may be wrong.
        """
        is_in_log = any(entry.taken for entry in self._log_entries({fp}))
        return is_in_log or any(map(self._store.has, self._keys({fp})))

    def _keys(self, fps: Collection[int]) -> set[int]:
        """Return the keys under which the URLs with the fingerprints *fps* may be stored."""
        if not self._tells_own:
            return {*fps}
        return {make_key(fp) for fp in fps for make_key in (own_key, foreign_key, finished_key)}

    def undecided_entries(self, wanted: Collection[int] | None = None) -> Iterator[Submitted]:
        """Return the entries that the eliminator will return after the snapshot, in order.

        Each key is returned once, so a URL may be returned twice if the set ``tells_own``. If
        *wanted* is given, only entries with these fingerprints are returned. Keeps all fingerprints
        in memory that it has read. The owner may already have handed some of the URLs to the
        frontier, after the snapshot.
        """
        return (entry for entry in self._log_entries(wanted) if not entry.taken)

    def _log_entries(self, wanted: Collection[int] | None) -> Iterator[Submitted]:
        """Yield the log entries whose URLs are not in any run of the snapshot, each URL once.

        They begin with the first section that was not completely taken, including the part of it
        that was taken. If *wanted* is given, only entries with these fingerprints are returned.
        """
        known: set[int] = set()
        if wanted is not None:
            wanted = self._keys(wanted)
        for frame, taken_count in self._frames():
            fps = frame.fps
            # How many of the record's new URLs had been taken and were not passed yet.
            left_to_take = taken_count
            if wanted is not None and not any(fp in fps for fp in wanted):
                continue

            # URLs without payloads were inserted by ``Eliminator.add``, which no take() returns.
            silent = not has_payloads(frame.packed)
            payloads = [b""] * len(fps) if silent else unpack(self._path, frame.end, frame.packed)

            known |= self._store.find_known(fps)
            # Only new URLs are taken, so known ones are not counted in *left_to_take*.
            for fp, payload in zip(fps, payloads, strict=True):
                if fp in known:
                    continue
                known.add(fp)
                if wanted is None or fp in wanted:
                    yield Submitted(fp, payload, taken=silent or left_to_take > 0)
                left_to_take -= 1

    def _frames(self) -> Iterator[tuple[Frame, int]]:
        """Yield the records of the URL log up to its current end.

        With each record comes the number of its payloads that had been taken at the time of the
        snapshot, or a higher one if that was all of them.
        """
        last = self._spans[-1]
        for span in self._spans:
            file = self._log.file(span.number)
            start = span.start  # of the next record
            # The last section may have grown since the snapshot, and may end in a torn record.
            frames = (
                self._log.recover(span.number, start=start, trusted_until=span.end)
                if span is last
                else read_frames(file, start=start, end=span.end)
            )
            for frame in frames:
                # Records before the cursor were taken, and a part of the record at the cursor.
                taken = 0
                if span is self._spans[0] and start <= self._cursor.offset:
                    is_partly_taken = start == self._cursor.offset
                    taken = self._cursor.done if is_partly_taken else len(frame.fps)
                yield frame, taken
                start = frame.end

        # Files that were begun after the snapshot.
        number = last.number + 1
        while self._log.file(number).exists():
            for frame in self._log.recover(number, start=HEADER_SIZE, trusted_until=HEADER_SIZE):
                yield frame, 0
            number += 1


class _Runs:
    """Runs of an exact eliminator that the snapshot names.

    They have an undecided URL only if it had been submitted before.
    """

    def __init__(self, path: Path, state: DiskSnapshot) -> None:
        self._runs: list[Run] = []
        try:
            for number, count in state.runs:
                self._runs.append(Run.open(run_path(path, number), count=count))
        except BaseException:
            self.close()
            raise

    def has(self, fp: int) -> bool:
        """Return whether any run has *fp*."""
        return any(fp in run for run in reversed(self._runs))

    def find_known(self, fps: Collection[int]) -> set[int]:
        """Return those of *fps* that any run has."""
        keys = np.array(sorted(fps), dtype=np.uint64)
        return set(keys[find(self._runs, keys)].tolist())

    def close(self) -> None:
        for run in self._runs:
            run.close()


class _Filter:
    """Saved Bloom filter, and the URL log written since it was saved.

    All URLs in the log were new when they were submitted.
    """

    def __init__(self, path: Path, state: BloomSnapshot, log: UrlLog) -> None:
        self._state = state
        self._log = log
        self._filters = read_filter(filter_path(path, state.saved)).filters if state.saved else []

    def has(self, fp: int) -> bool:
        """Return whether the filter or the log since then has *fp*."""
        if any(fp in bloom_filter for bloom_filter in self._filters):
            return True
        # The filter has the URLs before this position of the log.
        first_file, offset = self._state.since
        for span in self._state.files:
            if span.number >= first_file:
                start = offset if span.number == first_file else HEADER_SIZE
                frames = read_frames(self._log.file(span.number), start=start, end=span.end)
                if any(fp in frame.fps for frame in frames):
                    return True
        return False

    def find_known(self, fps: Collection[int]) -> set[int]:  # noqa: ARG002  # as in _Runs
        """Return an empty set, because all URLs in the log were new."""
        return set()

    def close(self) -> None:
        """Do nothing, because no file is open."""
