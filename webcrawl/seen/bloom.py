"""Set of fingerprints as a Bloom filter in memory, which loses some URLs (Nielsen).

The set of ``BloomEliminator``, selected by ``SEEN_ELIMINATOR``. The invariant: ``take`` returns no
URL twice, and returns them in first-seen order, but a new URL whose bits happen to be set by others
is lost. The stats have the expected number of losses, and an estimate of the actual one.

It answers immediately, without merges, and needs 15 bits per URL at an error rate of 0.001. But
these are in memory, and it takes 5 us per URL. When it outgrows its capacity, a filter of twice the
size and half the error rate is added, so that the sum of all stays below the promised rate. That
stops the crawl for about 0.3 ms per megabyte, and each test then checks both.

    filter-NNNNNN.bloom      the filter as of some position in the URL log, see bloom_file.py
    discovered-NNNNNN.log    the URL log, see url_log.py

A snapshot names the last filter that a worker thread has finished saving, and the URL log since,
which recovery adds to it. The file may already have bits of URLs submitted while it was being
written; as the log has them too, they do no harm.
"""

from __future__ import annotations

import logging
from array import array
from typing import TYPE_CHECKING

import msgspec
from pybloom_live import ScalableBloomFilter

from webcrawl.clock import TimeSource, now
from webcrawl.seen.background import Background
from webcrawl.seen.bloom_file import SavedFilter, read_filter, write_filter
from webcrawl.seen.drain import Cursor
from webcrawl.seen.eliminator import Eliminator
from webcrawl.seen.snapshots import EMPTY_LOG, VERSION, BloomSnapshot, LogState, decode_snapshot
from webcrawl.seen.url_log import FILE_BYTES, Span, log_path, read_frames
from webcrawl.storage.record_log import HEADER_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    from pybloom_live import BloomFilter

    from webcrawl.seen.drain import Stretch

logger = logging.getLogger(__name__)

# The filter is saved when the URL log has grown by one part in this many of the filter's size, so
# that saving costs a bounded number of bytes per URL however large the filter is.
_SAVE_SHARE = 4
_SAVE_AT_LEAST = 1 << 20

# Error rate of a filter relative to the one before: the sum of all is below twice the first.
_RATIO = 0.5
# Fingerprints divisible by this are sampled: 8 bytes each on disk and 100 in memory.
SAMPLE = 1024
# The filter's error rate is computed again after this many new fingerprints.
_EVERY = 100


class LossMeter:
    """Counter of the new URLs that the filter hides.

    *sample* is the sampled fingerprints submitted so far; *expected* and *lost* are counts so far.
    """

    def __init__(self, *, sample: Iterable[int] = (), expected: float = 0.0, lost: int = 0) -> None:
        self.expected = expected
        self.lost = lost
        self._sample = set(sample)
        self._rate = 0.0
        self._until_next = 0

    def seen(self, fp: int) -> None:
        """Note that the filter called *fp* seen."""
        if not fp % SAMPLE and fp not in self._sample:
            self._sample.add(fp)
            self.lost += 1

    def new(self, fps: Sequence[int], filters: Sequence[BloomFilter]) -> None:
        """Note that the filter, which consists of *filters*, called *fps* new."""
        self._until_next -= len(fps)
        if self._until_next < 0:
            self._rate = error_rate(filters)
            self._until_next = _EVERY
        # A new URL is recognized with probability 1 - rate, so for each there were
        # rate / (1 - rate) that were not.
        self.expected += len(fps) * self._rate / (1.0 - self._rate)
        for fp in fps:
            if not fp % SAMPLE:
                self._sample.add(fp)

    @property
    def measured(self) -> int:
        """Estimated number of new URLs hidden so far, from the sample.

        Correct to about 1,024 times the square root of the number of sampled losses.
        """
        return self.lost * SAMPLE

    def sample(self) -> array[int]:
        """Return the sampled fingerprints."""
        return array("Q", self._sample)


class BloomSet:
    """Set of submitted fingerprints in a Bloom filter, with the methods of ``DiskSet``."""

    answers_at_once = True
    is_full = False
    is_behind = False
    last_merge_secs = 0.0

    def __init__(
        self,
        *,
        path: Path,
        background: Background,
        empty: ScalableBloomFilter,
        save_after: int,
        clock: TimeSource,
    ) -> None:
        self._path = path
        self._background = background
        self._filter = empty
        self._filter.ratio = _RATIO
        self._save_after = save_after
        self._clock = clock
        self._loss = LossMeter()
        self._new = 0
        self._saves = 0
        self._save_secs = 0.0
        self._saved = 0
        self._since = (1, HEADER_SIZE)
        self._ends: dict[int, int] = {}  # by log file, the end of its sealed stretches
        self._disposable: list[Path] = []
        self._deletable: list[Path] = []

    @property
    def log_needed_from(self) -> int:
        return self._since[0]

    # Submitting

    def resize(self, *, buffer_size: int, cache_size: int) -> None:
        pass  # the promised error rate depends on the size

    def insert(self, fps: Sequence[int]) -> list[int]:
        """Return the indexes of new *fps*. About 5 us per URL, with ``mark_seen``."""
        new: dict[int, int] = {}
        for index, fp in enumerate(fps):
            if fp not in new and not self.find(fp):
                new[fp] = index
        return list(new.values())

    def mark_seen(self, fps: array[int], *, with_payload: bool) -> None:  # noqa: ARG002  # the same for all
        """Set the bits of *fps*, which cannot be undone."""
        self._loss.new(fps, self._filter.filters)
        for fp in fps:
            self._filter.add(fp)
        self._new += len(fps)

    def undo(self, fps: array[int]) -> None:
        """Do nothing, as ``insert`` set no bits."""

    def __contains__(self, fp: int) -> bool:
        """Return whether the filter has *fp*; it may be wrong."""
        return fp in self._filter

    def find(self, fp: int) -> bool:
        """Return whether the filter has *fp*, and count it; it may be wrong."""
        if fp in self._filter:
            self._loss.seen(fp)
            return True
        return False

    def replay(self, fps: array[int], *, with_payload: bool) -> int:
        """Add *fps* from the log, which were new when submitted; the saved filter may have some."""
        fresh = [fp for fp in fps if fp not in self._filter]
        self._loss.new(fresh, self._filter.filters)
        for fp in fresh:
            self._filter.add(fp)
        return len(fps) if with_payload else 0

    def seal(self, stretch: Stretch) -> None:
        self._ends[stretch.span.number] = stretch.span.end
        stretch.decide(None)

    def retire(self) -> None:
        """Do nothing, as the filter has the stretch."""

    def work(self) -> None:
        """Do nothing, as ``snapshot`` begins to save the filter."""

    def work_failed(self) -> None:
        """Do nothing, as the next snapshot saves the filter."""

    # State on disk

    def open(self, snapshot: bytes | None) -> LogState:
        """Restore the saved filter and add the log since then: about 5 us per URL."""
        state = None
        if snapshot is not None:
            state = decode_snapshot(snapshot, BloomSnapshot, path=self._path)
        keep = filter_path(self._path, state.saved if state else 0)
        for path in self._path.glob("filter-*.bloom"):
            if path != keep:
                path.unlink()
        if state is None:
            return EMPTY_LOG
        if state.saved:
            saved = read_filter(keep)
            self._filter.filters.extend(saved.filters)
            error_rate = sum(part.error_rate for part in saved.filters)
            if error_rate > self._filter.error_rate:
                logger.warning(
                    "The Bloom filter may lose %.3g of the new URLs, more than "
                    "SEEN_BLOOM_ERROR_RATE: made with another rate, or grown by an earlier version",
                    error_rate,
                )
            self._loss = LossMeter(sample=saved.sample, expected=saved.expected, lost=saved.lost)
        self._saved, self._since = state.saved, state.since
        number, cursor = state.consumed_until
        self._ends = {span.number: span.end for span in state.files}
        for span in _between(state.files, state.since, (number, cursor.offset)):
            file = log_path(self._path, span.number)
            for frame in read_frames(file, start=span.start, end=span.end):
                self.replay(frame.fps, with_payload=False)
        last = state.files[-1]
        pending = _between(state.files, (number, cursor.offset), (last.number, last.end))
        return LogState(
            pending,
            Cursor(cursor.offset, 0, cursor.done) if pending else None,
            Span(last.number, last.end, last.end),
            state.files[0].number,
        )

    def snapshot(self, pending: list[Span], cursor: Cursor | None, active: Span) -> bytes:
        """Return the state. If it is time, begin to save the filter for a later snapshot."""
        consumed_until = (active.number, Cursor(active.start, 0, 0))
        if cursor is not None:
            consumed_until = (pending[0].number, cursor)
        first = min(self._since[0], consumed_until[0])
        self._ends[active.number] = active.end
        self._ends = {number: end for number, end in self._ends.items() if number >= first}
        self._deletable += self._disposable
        self._disposable = []
        files = [Span(number, HEADER_SIZE, end) for number, end in self._ends.items()]
        state = BloomSnapshot(VERSION, self._saved, self._since, consumed_until, files)
        self._save_if_due(active)
        return msgspec.msgpack.encode(state)

    def _save_if_due(self, active: Span) -> None:
        number, offset = self._since
        tail = sum(end for n, end in self._ends.items() if n >= number) - offset
        if self._background.busy or tail < max(self._save_after, self._size_bytes // _SAVE_SHARE):
            return
        saved = SavedFilter(
            list(self._filter.filters),
            self._loss.sample(),
            self._loss.lost,
            self._loss.expected,
        )
        target = self._saved + 1
        path, clock = filter_path(self._path, target), self._clock
        since = (active.number, active.end)

        def save() -> float:
            started = clock()
            write_filter(path, saved)
            return clock() - started

        def install(seconds: float) -> None:
            if self._saved:
                self._disposable.append(filter_path(self._path, self._saved))
            self._saved, self._since = target, since
            self._saves += 1
            self._save_secs += seconds
            logger.info("Saved a Bloom filter of %d URLs in %.3f s", len(self._filter), seconds)

        self._background.start(save, install)

    def written(self) -> list[Path]:
        return [filter_path(self._path, self._saved)] if self._saved else []

    def forget(self) -> list[Path]:
        paths, self._deletable = self._deletable, []
        return paths

    @property
    def _size_bytes(self) -> int:
        return int(sum(held.num_bits for held in self._filter.filters)) // 8

    def stats(self) -> dict[str, float]:
        return {
            "seen/new": self._new,
            "seen/fingerprints": len(self._filter),
            "seen/bytes": self._size_bytes,
            "seen/bloom/filters": len(self._filter.filters),
            "seen/bloom/capacity": self._filter.capacity,
            "seen/bloom/error_rate": error_rate(self._filter.filters),
            "seen/bloom/expected_loss": self._loss.expected,
            "seen/bloom/measured_loss": self._loss.measured,
            "seen/bloom/saves": self._saves,
            "seen/bloom/save_seconds": self._save_secs,
        }

    def close(self) -> None:
        self._background.close("Saving the Bloom filter failed; the URL log has what it lacks")


class BloomEliminator(Eliminator):
    """Duplicate URL eliminator with a Bloom filter: fast, but loses a few URLs; see ``BloomSet``.

    *capacity* is the number of fingerprints before the filter grows; *error_rate* is that of the
    first filter, between 0 and 1. *executor* saves the filter.
    """

    def __init__(
        self,
        *,
        path: Path,
        executor: Executor,
        capacity: int,
        error_rate: float,
        log_file_bytes: int = FILE_BYTES,
        save_after: int = _SAVE_AT_LEAST,
    ) -> None:
        background = Background(executor=executor)
        seen = BloomSet(
            path=path,
            background=background,
            empty=ScalableBloomFilter(
                initial_capacity=capacity,
                error_rate=error_rate,
                mode=ScalableBloomFilter.SMALL_SET_GROWTH,
            ),
            save_after=save_after,
            clock=now,
        )
        super().__init__(path=path, background=background, seen=seen, log_file_bytes=log_file_bytes)


def filter_path(path: Path, number: int) -> Path:
    """Return the file of saved filter *number* in the directory *path*."""
    return path / f"filter-{number:06d}.bloom"


def _between(files: list[Span], start: tuple[int, int], end: tuple[int, int]) -> list[Span]:
    """Return the non-empty stretches of the log *files* between two positions (file, offset)."""
    spans = []
    for number, first, last in files:
        low = max(first, start[1]) if number == start[0] else first
        high = min(last, end[1]) if number == end[0] else last
        if start[0] <= number <= end[0] and low < high:
            spans.append(Span(number, low, high))
    return spans


def error_rate(filters: Sequence[BloomFilter]) -> float:
    """Return the probability that one of *filters*, as full as they are, calls a new URL seen."""
    right = 1.0
    for held in filters:
        # In each slice of bits_per_slice bits, count bits were set at random.
        filled = 1.0 - (1.0 - 1.0 / held.bits_per_slice) ** held.count
        right *= 1.0 - filled**held.num_slices
    return 1.0 - right
