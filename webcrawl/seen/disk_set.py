"""Set of fingerprints on disk, exact at any size: cache, buffer T and sorted runs F.

The set of ``DiskEliminator`` (Mercator, section 3.2, figure 4). A fingerprint goes through the
cache and T; what neither knows may be new. When a stretch of the URL log ends, T becomes T', and a
worker thread sorts it, looks it up in every run of F and writes the new ones as one more run.

The invariant: a run counts as part of a snapshot only when all payloads of its stretch have been
taken by then. Merging a stretch again marks the same payloads.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from webcrawl.seen.compaction import Compactor
from webcrawl.seen.levels import Levels, find
from webcrawl.seen.runs import write_run
from webcrawl.seen.snapshots import EMPTY_LOG, VERSION, DiskSnapshot, LogState, decode_snapshot
from webcrawl.seen.table import REPEAT, SILENT, WITH_PAYLOAD, Buffer

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence
    from pathlib import Path

    from webcrawl.clock import TimeSource
    from webcrawl.seen.background import Background
    from webcrawl.seen.caches import UrlCache
    from webcrawl.seen.drain import Cursor, Stretch
    from webcrawl.seen.runs import Run
    from webcrawl.seen.url_log import Span

logger = logging.getLogger(__name__)

# Merges of fewer fingerprints are logged at DEBUG: while the front end is low there are many.
_LOGGED_MERGE = 1 << 16
# What is counted; the gauges are added when asked for.
_COUNTERS = (
    "seen/cache/hits",
    "seen/buffer/hits",
    "seen/new",
    "seen/merge/count",
    "seen/merge/entries",
    "seen/merge/seconds",
)


@dataclass(slots=True, frozen=True)
class Merged:
    """The result of a merge.

    *marks*: a byte per ordinal, 1 where a new payload stands; *run*: the new fingerprints, None if
    there were none; *seconds*: sorting, looking up, writing.
    """

    run: Run | None
    marks: bytes
    seconds: tuple[float, float, float]


@dataclass(slots=True)
class _Sealed:
    """A stretch with its T' before the merge, and the run that the merge made."""

    stretch: Stretch
    entries: int
    buffer: Buffer | None
    run: Run | None = None


class DiskSet:
    """The set of submitted fingerprints, exact: decides by merges which of a stretch are new.

    Called in the crawl's own thread.
    """

    #: Whether ``insert`` says what is new, so that no merge is needed.
    answers_at_once = False
    #: The oldest file of the URL log that ``open`` would read by itself.
    log_needed_from = None

    def __init__(
        self,
        *,
        path: Path,
        background: Background,
        cache: UrlCache,
        buffer_size: int,
        clock: TimeSource,
    ) -> None:
        #: How long the last merge took.
        self.last_merge_secs = 0.0
        self._path = path
        self._background = background
        self._cache = cache
        self._buffer_size = buffer_size
        self._clock = clock
        self._levels = Levels(path=path)
        #: Files to fsync before the last snapshot may be published, and to delete when it was.
        self.written, self.forget = self._levels.written, self._levels.forget
        self._compactor = Compactor(levels=self._levels, background=background, clock=clock)
        self._buffer = Buffer(size=0)
        self._sealed: deque[_Sealed] = deque()
        self._to_admit: list[int] = []
        self._counters: dict[str, float] = dict.fromkeys(_COUNTERS, 0)

    @property
    def is_full(self) -> bool:
        """Whether the stretch must end before more is inserted."""
        return len(self._buffer) >= self._buffer_size

    @property
    def is_behind(self) -> bool:
        """Whether so much waits for merges that feeders should pause."""
        held = sum([sealed.entries for sealed in self._sealed])
        return held + len(self._buffer) >= 2 * self._buffer_size

    def resize(self, *, buffer_size: int, cache_size: int) -> None:
        """Keep so many fingerprints in memory: of those to be decided from the next ones on."""
        self._buffer_size = buffer_size
        self._cache.resize(cache_size)

    # Submitting

    def insert(self, fps: Sequence[int]) -> list[int]:
        """The indexes of those *fps* that may be new, each fingerprint once: about 0.4 us a URL.

        The caller writes them to the URL log, then calls ``keep``, or ``take_back`` if that failed.
        """
        cache, buffer, counters = self._cache, self._buffer, self._counters
        missed = cache.misses(fps)
        counters["seen/cache/hits"] += len(fps) - len(missed)
        if not missed:
            return missed
        # While T holds less than the cache could, T is what remembers least: all go into the
        # cache. From then on only what is met again does: T knows the rest. Against admitting
        # all: 51 % hits instead of 49 %, and 0.1 us less per URL (crawl-like stream, 2026-11-20).
        admit_all = len(buffer) < cache.size
        new = buffer.insert(fps, missed)
        counters["seen/buffer/hits"] += len(missed) - len(new)
        admitted = missed if admit_all else set(missed).difference(new)
        self._to_admit = [fps[index] for index in admitted]
        if not new:
            cache.admit(self._to_admit)
        return new

    def keep(self, fps: array[int], *, with_payload: bool) -> None:
        """The inserted *fps* are in the URL log now."""
        self._buffer.append(fps, WITH_PAYLOAD if with_payload else SILENT)
        self._cache.admit(self._to_admit)

    def take_back(self, fps: array[int]) -> None:
        """Undo the last ``insert``, given its new fingerprints."""
        self._buffer.take_back(fps)

    def __contains__(self, fp: int) -> bool:
        """Whether *fp* is known without the disk: by the cache, T, or a T' not merged yet."""
        return (
            fp in self._cache
            or fp in self._buffer
            or any(sealed.buffer is not None and fp in sealed.buffer for sealed in self._sealed)
        )

    def find(self, fp: int) -> bool:
        """Whether *fp* is known, counted as a submission. May block for a few reads of 8 kB."""
        if fp in self:
            self._counters["seen/buffer/hits"] += 1
            return True
        if any(fp in run for run in reversed(self._runs)):
            self._cache.admit((fp,))
            return True
        return False

    def replay(self, fps: array[int], *, with_payload: bool) -> int:
        """Insert and keep a record read back from the URL log; how many payloads may be new."""
        return self._buffer.replay(fps, with_payload=with_payload)

    # Merging

    def seal(self, stretch: Stretch) -> None:
        """*stretch* holds what was kept since the last call: T becomes T', to be merged."""
        self._sealed.append(_Sealed(stretch, len(self._buffer), self._buffer))
        self._buffer = Buffer(size=self._buffer_size)

    def retire(self) -> None:
        """The oldest stretch was taken wholly: for snapshots, too, its run is part of F now."""
        run = self._sealed.popleft().run
        if run is not None:
            self._levels.add(run)

    def work(self) -> None:
        """Give the idle worker the next thing to do: merges and slices of a compaction in turn."""
        due = next((sealed for sealed in self._sealed if sealed.buffer is not None), None)
        if self._background.busy:
            if due is not None:
                self._compactor.give_way()
        elif not self._compactor.start(others_wait=due is not None) and due is not None:
            self._start_merge(due)

    def work_failed(self) -> None:
        """The worker raised: what it was doing is begun again by a later ``work``."""
        self._compactor.abandon()

    def _start_merge(self, sealed: _Sealed) -> None:
        buffer, runs = sealed.buffer, self._runs
        assert buffer is not None
        path, clock = self._levels.next_file(), self._clock
        self._background.start(
            lambda: merge(buffer, runs, path, clock),
            lambda merged: self._install(sealed, merged, runs),
        )

    @property
    def _runs(self) -> list[Run]:
        """F: the finished runs and those of stretches that are being taken."""
        return self._levels.runs + [s.run for s in self._sealed if s.run is not None]

    def _install(self, sealed: _Sealed, merged: Merged, runs: list[Run]) -> None:
        if sealed.buffer is not None:
            sealed.buffer.close()
            sealed.buffer = None
        sealed.run = merged.run
        sealed.stretch.decide(merged.marks)
        self.last_merge_secs = sum(merged.seconds)
        self._counters["seen/merge/count"] += 1
        self._counters["seen/merge/entries"] += sealed.entries
        self._counters["seen/merge/seconds"] += self.last_merge_secs
        new = 0 if merged.run is None else merged.run.count
        self._counters["seen/new"] += new
        logger.log(
            logging.INFO if sealed.entries >= _LOGGED_MERGE else logging.DEBUG,
            "Merged %d fingerprints with %d in %d runs: %d new; "
            "sorting %.3f s, looking up %.3f s, writing %.3f s",
            sealed.entries,
            sum(run.count for run in runs),
            len(runs),
            new,
            *merged.seconds,
        )

    # State on disk

    def open(self, snapshot: bytes | None) -> LogState:
        """Recover the set; what the URL log was at *snapshot*."""
        self._buffer = Buffer(size=self._buffer_size)
        if snapshot is None:
            self._levels.open([])
            return EMPTY_LOG
        state = decode_snapshot(snapshot, DiskSnapshot, path=self._path)
        self._levels.open(state.runs)
        first = (*state.pending, state.active)[0].number
        return LogState(state.pending, state.cursor, state.active, first)

    def snapshot(self, pending: list[Span], cursor: Cursor | None, active: Span) -> bytes:
        """The set without stretches that are not retired, and that state of the URL log."""
        runs = self._levels.snapshot()
        return msgspec.msgpack.encode(DiskSnapshot(VERSION, runs, pending, cursor, active))

    def stats(self) -> dict[str, float]:
        """Counters and gauges by their names in Scrapy's stats."""
        runs = self._runs
        return {
            **self._counters,
            "seen/compact/count": self._compactor.count,
            "seen/compact/seconds": self._compactor.seconds,
            "seen/buffer/entries": len(self._buffer),
            "seen/runs": len(runs),
            "seen/fingerprints": sum(run.count for run in runs),
            "seen/bytes": sum(run.size_bytes for run in runs),
        }

    def close(self) -> None:
        """Wait for the worker and close all files."""
        self._compactor.give_way()
        self._background.close("The last merge failed; resuming the crawl does it again")
        self._compactor.abandon()
        for sealed in self._sealed:
            for part in (sealed.buffer, sealed.run):
                if part is not None:
                    part.close()
        self._sealed.clear()
        self._buffer.close()
        self._levels.close()


# Mercator sorts T' by fingerprint, merges it linearly with F marking what was new, sorts it back by
# ordinal and scans U' for the marked ones. Here the marks lie in a byte per ordinal, which needs no
# second sort. All heavy steps are numpy calls that release the interpreter lock.
def merge(buffer: Buffer, runs: Sequence[Run], path: Path, clock: TimeSource) -> Merged:
    """Look *buffer*, which must not change, up in *runs* and write the new ones to *path*.

    Blocks for a pass over *runs* when the buffer is large. Raises OSError (disk full) and
    CorruptRecordError; then no file is left and the buffer is as it was.
    """
    started = clock()
    kinds = np.frombuffer(buffer.kinds, dtype=np.uint8)
    is_first = kinds != REPEAT
    keys = np.frombuffer(buffer.order, dtype=np.uint64)[is_first]
    by_value = np.argsort(keys)
    keys = keys[by_value]
    sorted_at = clock()
    is_new = ~find(runs, keys)
    found_at = clock()
    in_order = np.empty(len(keys), dtype=np.bool_)
    in_order[by_value] = is_new
    del by_value
    marks = np.zeros(len(kinds), dtype=np.bool_)
    marks[is_first] = in_order
    marks &= kinds == WITH_PAYLOAD
    keys = keys[is_new]
    run = write_run(path, [keys]) if len(keys) else None
    seconds = (sorted_at - started, found_at - sorted_at, clock() - found_at)
    return Merged(run, marks.tobytes(), seconds)
