"""Set of fingerprints on disk, exact at any size: cache, buffer T and sorted runs F.

This is the set of ``DiskEliminator`` (Mercator, section 3.2, figure 4). A fingerprint is looked up
in the cache and T; if neither has it, it may be new. When a section of the URL log ends, T becomes
T'. A worker thread sorts it, looks it up in every run of F and writes the new ones to another run.

The invariant: a snapshot includes a run only if all payloads of the run's section had been taken by
then. Merging a section again marks the same payloads.
"""

from __future__ import annotations

import logging
from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from webcrawl.clock import TimeSource
from webcrawl.seen.background import Background
from webcrawl.seen.caches import UrlCache
from webcrawl.seen.compaction import Compactor
from webcrawl.seen.drain import Cursor, LogSection
from webcrawl.seen.levels import Levels, find
from webcrawl.seen.runs import Fingerprints, Run, write_run
from webcrawl.seen.snapshots import EMPTY_LOG, VERSION, DiskSnapshot, LogState, decode_snapshot
from webcrawl.seen.table import REPEAT, SILENT, WITH_PAYLOAD, Buffer
from webcrawl.seen.url_log import Span

logger = logging.getLogger(__name__)

# Smaller merges are logged at DEBUG, because there are many while the front end has few URLs.
_MIN_LOGGED = 1 << 16
# Keys that a merge compares at a time with other keys of the same URLs, in 3 MB of memory.
_SLICE_KEYS = 1 << 16
# Names of the counters; ``stats`` adds the gauges.
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
    """Result of a merge.

    *run* contains the new fingerprints; it is None if there were none. *marks* has one byte per
    ordinal, which is 1 if the payload is new. *seconds* are the times for sorting, looking up and
    writing.
    """

    run: Run | None
    marks: bytes
    seconds: tuple[float, float, float]


@dataclass(slots=True)
class _Sealed:
    """A section that has ended: with its buffer T' before the merge, with the new run after it."""

    section: LogSection
    entries: int
    buffer: Buffer | None
    run: Run | None = None


class DiskSet:
    """Exact set of submitted fingerprints; a merge decides which ones of a section are new.

    The runs are in the directory *path*; *background* makes the merges. *buffer_size* is the number
    of entries of T, and *cache* is in front of it.

    With ``tells_own``, fingerprints are keys, whose lowest two bits say who has named the URL: its
    own domain or another one, or that it is a foreign one that is finished (fingerprint.py). A
    foreign key is new if the set has no own key of the URL, an own key if the set does not have the
    URL as finished. Sets of webcrawl 0.4 and older have fingerprints of 64 bits instead.

    All methods are called in the crawl's own thread.
    """

    #: Whether ``insert`` already knows which URLs are new, so that no merge is needed.
    answers_at_once = False
    #: The oldest file of the URL log that ``open`` would read itself.
    log_needed_from = None

    def __init__(
        self,
        *,
        path: Path,
        background: Background,
        cache: UrlCache,
        buffer_size: int,
        clock: TimeSource,
        tells_own: bool,
    ) -> None:
        #: Whether fingerprints are keys. For a set that is restored, its snapshot says so.
        self.tells_own = tells_own
        #: Duration of the last merge, in seconds.
        self.last_merge_secs = 0.0
        self._path = path
        self._background = background
        self._cache = cache
        self._buffer_size = buffer_size
        self._clock = clock
        self._levels = Levels(path=path)
        #: Files to fsync before the last snapshot may be published, and to delete afterwards.
        self.written = self._levels.written
        self.forget = self._levels.forget
        self._compactor = Compactor(levels=self._levels, background=background, clock=clock)
        # The buffer T. ``open`` replaces this one, which is never filled.
        self._buffer = Buffer(size=0)
        # The sections that have ended and have not been taken completely, oldest first.
        self._sealed: deque[_Sealed] = deque()
        # Fingerprints from the last ``insert`` that enter the cache once they are in the URL log.
        self._to_admit: list[int] = []
        self._counters: dict[str, float] = dict.fromkeys(_COUNTERS, 0)

    @property
    def is_full(self) -> bool:
        """Whether the current section must end before more fingerprints are inserted."""
        return len(self._buffer) >= self._buffer_size

    @property
    def is_behind(self) -> bool:
        """Whether so many fingerprints are waiting for merges that feeders should pause."""
        waiting = sum([sealed.entries for sealed in self._sealed])
        return waiting + len(self._buffer) >= 2 * self._buffer_size

    def resize(self, *, buffer_size: int, cache_size: int) -> None:
        """Set how many fingerprints are kept in memory; the buffer changes gradually."""
        self._buffer_size = buffer_size
        self._cache.resize(cache_size)

    # Submitting

    def insert(self, fps: Sequence[int]) -> list[int]:
        """Return the indexes of those *fps* that may be new, once per fingerprint.

        The caller writes them to the URL log, then calls ``mark_seen``, or ``undo`` if writing
        failed. Takes about 0.4 us per URL.
        """
        cache = self._cache
        buffer = self._buffer
        counters = self._counters
        missed = cache.misses(fps)
        counters["seen/cache/hits"] += len(fps) - len(missed)
        if not missed:
            return missed

        # While T has fewer entries than the cache could hold, all URLs go into the cache. Later,
        # only repeated URLs do, because T knows the others. Compared with admitting all URLs, this
        # gives 51 % hits instead of 49 %, and takes 0.1 us less per URL (crawl-like stream,
        # 2026-11-20).
        admit_all = len(buffer) < cache.size
        new = buffer.insert(fps, missed)
        counters["seen/buffer/hits"] += len(missed) - len(new)
        admitted = missed if admit_all else set(missed).difference(new)
        self._to_admit = [fps[index] for index in admitted]
        # Nothing has to be written to the log then, and ``mark_seen`` is not called.
        if not new:
            cache.admit(self._to_admit)
        return new

    def mark_seen(self, fps: array[int], *, with_payload: bool) -> None:
        """Record that the inserted *fps* are now in the URL log."""
        self._buffer.append(fps, WITH_PAYLOAD if with_payload else SILENT)
        self._cache.admit(self._to_admit)

    def undo(self, fps: array[int]) -> None:
        """Undo the last ``insert``, which returned the indexes of *fps*."""
        self._buffer.undo(fps)

    def __contains__(self, fp: int) -> bool:
        """Return whether the cache, T or an unmerged T' has *fp*; does not read the disk."""
        return (
            fp in self._cache
            or fp in self._buffer
            or any(sealed.buffer is not None and fp in sealed.buffer for sealed in self._sealed)
        )

    def find(self, fp: int) -> bool:
        """Return whether *fp* was inserted before. May block for a few reads of 8 kB."""
        if fp in self:
            self._counters["seen/buffer/hits"] += 1
            return True
        if any(fp in run for run in reversed(self._runs)):
            self._cache.admit((fp,))
            return True
        return False

    def replay(self, fps: array[int], *, with_payload: bool) -> int:
        """Insert *fps*, read back from the URL log; return how many payloads may be new."""
        return self._buffer.replay(fps, with_payload=with_payload)

    # Merging

    def seal(self, section: LogSection) -> None:
        """Turn T into T', to be merged later.

        *section* contains the URLs that were marked seen since the last call.
        """
        self._sealed.append(_Sealed(section, len(self._buffer), self._buffer))
        self._buffer = Buffer(size=self._buffer_size)

    def retire(self) -> None:
        """Add the run of the oldest section to F, because all of its payloads were taken."""
        run = self._sealed.popleft().run
        if run is not None:
            self._levels.add(run)

    def work(self) -> None:
        """Start a merge or a slice of compaction, in turn, if the worker is idle and one is due."""
        # The oldest section that still has its buffer T' is merged next.
        due = next((sealed for sealed in self._sealed if sealed.buffer is not None), None)
        if self._background.busy:
            # A merge waits, so a slice of compaction that is running should end soon.
            if due is not None:
                self._compactor.give_way()
        elif not self._compactor.start(others_wait=due is not None) and due is not None:
            # No compaction was started: there is none to do, or it is the merge's turn.
            self._start_merge(due)

    def work_failed(self) -> None:
        """Reset after an error in the worker; a later ``work`` starts the same work again."""
        self._compactor.abandon()

    def _start_merge(self, sealed: _Sealed) -> None:
        """Merge the buffer of *sealed* with all runs, in the worker."""
        buffer: Any = sealed.buffer
        runs = self._runs
        path = self._levels.next_file()
        clock = self._clock
        tells_own = self.tells_own
        self._background.start(
            lambda: merge(buffer, runs, path, clock, tells_own=tells_own),
            lambda merged: self._install(sealed, merged, runs),
        )

    @property
    def _runs(self) -> list[Run]:
        """All runs of F: the finished ones and those of sections that are being taken."""
        return self._levels.runs + [s.run for s in self._sealed if s.run is not None]

    def _install(self, sealed: _Sealed, merged: Merged, runs: list[Run]) -> None:
        """Store the result of merging *sealed* with *runs*, count it and log it."""
        # From now on, look-ups find the section's fingerprints in the runs.
        if sealed.buffer is not None:
            sealed.buffer.close()
            sealed.buffer = None
        sealed.run = merged.run
        sealed.section.decide(merged.marks)

        self.last_merge_secs = sum(merged.seconds)
        self._counters["seen/merge/count"] += 1
        self._counters["seen/merge/entries"] += sealed.entries
        self._counters["seen/merge/seconds"] += self.last_merge_secs
        new_count = 0 if merged.run is None else merged.run.count
        self._counters["seen/new"] += new_count
        logger.log(
            logging.INFO if sealed.entries >= _MIN_LOGGED else logging.DEBUG,
            "Merged %d recent URLs with %d known ones (sorted runs: %d), %d new; "
            "sorting %.3f s, looking up %.3f s, writing %.3f s",
            sealed.entries,
            sum(run.count for run in runs),
            len(runs),
            new_count,
            *merged.seconds,
        )

    # State on disk

    def open(self, snapshot: bytes | None) -> LogState:
        """Restore the set, without the URLs in the log; return the log's state at *snapshot*.

        *snapshot* is None for a new set. The caller reads the sections of the log that the state
        names, and passes their fingerprints to ``replay``.
        """
        self._buffer = Buffer(size=self._buffer_size)
        if snapshot is None:
            self._levels.open([])
            return EMPTY_LOG
        state = decode_snapshot(snapshot, DiskSnapshot, path=self._path)
        self.tells_own = state.tells_own
        self._levels.open(state.runs)
        # The log is needed from its oldest section on. A section lies in one file of the log.
        oldest_section = (*state.untaken, state.open_section)[0]
        first_file = oldest_section.number
        return LogState(state.untaken, state.taken_until, state.open_section, first_file)

    def snapshot(
        self, untaken: list[Span], taken_until: Cursor | None, open_section: Span
    ) -> bytes:
        """Encode the set and the state of the URL log.

        Runs of sections that have not been retired are left out. *untaken* are these sections,
        *taken_until* is the position in the first of them, and *open_section* is the section being
        written.
        """
        runs = self._levels.snapshot()
        return msgspec.msgpack.encode(
            DiskSnapshot(VERSION, runs, untaken, taken_until, open_section, self.tells_own)
        )

    def stats(self) -> dict[str, float]:
        """Return counters and gauges, by their names in Scrapy's stats."""
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
        # Do not wait until a long compaction is finished; its old runs are still valid.
        self._compactor.give_way()
        self._background.close("The last merge failed; it is repeated when the crawl resumes")
        self._compactor.abandon()
        for sealed in self._sealed:
            for part in (sealed.buffer, sealed.run):
                if part is not None:
                    part.close()
        self._sealed.clear()
        self._buffer.close()
        self._levels.close()


# Mercator sorts T' by fingerprint, merges it linearly with F while marking new ones, sorts it back
# by ordinal and scans U' for the marked ones. Here an array has one byte, the mark, for each
# ordinal, so no second sort is needed. All heavy steps are numpy calls that release the interpreter
# lock.
def merge(
    buffer: Buffer, runs: Sequence[Run], path: Path, clock: TimeSource, *, tells_own: bool
) -> Merged:
    """Look up the fingerprints of *buffer* in *runs*, and write the new ones to a run at *path*.

    With *tells_own*, foreign URLs are not new if their own keys are there, see ``DiskSet``. The
    buffer must not change meanwhile. Blocks for a pass over *runs* if the buffer is large. Raises
    OSError (disk full) and CorruptRecordError; then no file is left and the buffer is unchanged.
    """
    started = clock()
    kinds = np.frombuffer(buffer.kinds, dtype=np.uint8)
    # Repeats are left out: their fingerprints occur earlier in the same buffer.
    is_first = kinds != REPEAT
    keys = np.frombuffer(buffer.order, dtype=np.uint64)[is_first]
    sorting_order = np.argsort(keys)
    keys = keys[sorting_order]
    sorted_at = clock()

    is_new = ~find(runs, keys)
    if tells_own:
        _exclude_named(keys, is_new, runs)
    looked_up_at = clock()

    # Undo the sorting, and spread the answers over all ordinals, including repeats.
    is_new_by_arrival = np.empty(len(keys), dtype=np.bool_)
    is_new_by_arrival[sorting_order] = is_new
    del sorting_order
    marks = np.zeros(len(kinds), dtype=np.bool_)
    marks[is_first] = is_new_by_arrival
    marks &= kinds == WITH_PAYLOAD

    keys = keys[is_new]
    run = write_run(path, [keys]) if len(keys) else None
    seconds = (sorted_at - started, looked_up_at - sorted_at, clock() - looked_up_at)
    return Merged(run, marks.tobytes(), seconds)


def _exclude_named(keys: Fingerprints, is_new: NDArray[np.bool_], runs: Sequence[Run]) -> None:
    """Clear *is_new* for foreign *keys* of own URLs, and own keys of finished ones; see DiskSet.

    The keys that exclude them are in *runs*, or follow them in *keys*.
    """
    for start in range(0, len(keys), _SLICE_KEYS):
        part = keys[start : start + _SLICE_KEYS]
        may_be_named = is_new[start : start + _SLICE_KEYS] & (part & 3 < 2)
        candidates = np.flatnonzero(may_be_named) + start
        part = keys[candidates]
        own_or_finished = np.where(part & 3 == 0, part + np.uint64(1), part ^ np.uint64(3))
        following = keys[np.minimum(candidates + 1, len(keys) - 1)]
        is_excluded = find(runs, own_or_finished) | (following == own_or_finished)
        is_new[candidates[is_excluded]] = False
