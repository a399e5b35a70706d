"""View of an eliminator's files, for readers beside the process that owns it.

Used by the commands that explain and export. Takes no lock and changes nothing on disk: the last
published snapshot, and the URL log since. The invariant: a URL that was submitted is ``holds``,
or among the ``undecided``, or both (submitted again).

All methods read the disk and raise CorruptRecordError for damage, and when a newer snapshot was
published meanwhile and files are gone: then the reader begins anew with that one.
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


class _Logged(NamedTuple):
    """A URL in the log.

    *taken* says that it left the eliminator before the snapshot, or never will.
    """

    fp: int
    payload: bytes
    taken: bool


# Of a record: not all of it had been taken.
_SOME = None


class SeenView:
    """The eliminator in the directory *path* as of *snapshot*, and what was submitted since."""

    def __init__(self, *, path: Path, snapshot: bytes) -> None:
        self._path = path
        self._log = UrlLog(path=path, aside=lambda call: call())
        self._store: _Runs | _Filter
        cursor: Cursor | None
        if tag_of(snapshot) == "Bloom":
            bloom = decode_snapshot(snapshot, BloomSnapshot, path=path)
            self._store = _Filter(path, bloom, self._log)
            number, cursor = bloom.taken
            self._spans = [span for span in bloom.files if span.number >= number]
        else:
            disk = decode_snapshot(snapshot, DiskSnapshot, path=path)
            self._store = _Runs(path, disk)
            cursor = disk.cursor
            self._spans = [*disk.pending, disk.active]
        # How far the first stretch had been taken: up to this offset, and some of the record there.
        self._taken_to, self._done = (0, 0) if cursor is None else (cursor.offset, cursor.done)

    def close(self) -> None:
        """Close the files."""
        self._store.close()

    def holds(self, fp: int) -> bool:
        """Whether *fp* was submitted and decided. With a Bloom filter: perhaps."""
        return self._store.holds(fp) or any(one.taken for one in self._logged({fp}))

    def undecided(self, wanted: Collection[int] | None = None) -> Iterator[Submitted]:
        """The entries that will come out of the eliminator after the snapshot, each fingerprint
        once, in order; of those *wanted*, if given. Remembers all fingerprints that it has met.

        Since the snapshot the owner may have handed some of it to the frontier.
        """
        for one in self._logged(wanted):
            if not one.taken:
                yield Submitted(one.fp, one.payload)

    def _logged(self, wanted: Collection[int] | None) -> Iterator[_Logged]:
        """The entries in the log from the first stretch on that was not wholly taken, and is in
        none of the named runs: what had been taken of it by then, and what is still to come."""
        met: set[int] = set()
        for frame, taken in self._frames():
            fps = frame.fps
            if wanted is not None and taken is not _SOME and not any(fp in fps for fp in wanted):
                continue
            left = self._done if taken is _SOME else len(fps) if taken else 0
            silent = not has_payloads(frame.packed)
            payloads = [b""] * len(fps) if silent else unpacked(self._path, frame.end, frame.packed)
            asked = fps if wanted is None or taken is _SOME else wanted
            met |= self._store.known(asked)
            for fp, payload in zip(fps, payloads, strict=True):
                if fp in met:
                    continue
                met.add(fp)
                if wanted is None or fp in wanted:
                    yield _Logged(fp, payload, taken=silent or left > 0)
                left -= 1

    def _frames(self) -> Iterator[tuple[Frame, bool | None]]:
        """The records of the URL log up to its present end, and whether each had been taken at the
        snapshot: yes, no, or the first so many of its new ones."""
        last = self._spans[-1]
        for span in self._spans:
            file, start = self._log.file(span.number), span.start
            frames = (
                self._log.recovered(span.number, start=start, vouched=span.end)
                if span is last
                else read_frames(file, start=start, end=span.end)
            )
            for frame in frames:
                taken = span is self._spans[0] and start <= self._taken_to
                yield frame, _SOME if taken and start == self._taken_to else taken
                start = frame.end
        number = last.number + 1
        while self._log.file(number).exists():
            for frame in self._log.recovered(number, start=HEADER_SIZE, vouched=HEADER_SIZE):
                yield frame, False
            number += 1


class _Runs:
    """The runs that the snapshot names.

    They hold nothing of what is undecided but what had been submitted before.
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
    """The saved filter and the log since; what is in the log was new when it was submitted."""

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

    def known(self, fps: Collection[int]) -> set[int]:  # noqa: ARG002  # as said
        return set()

    def close(self) -> None:
        """Nothing is open."""
