"""Set of fingerprints as a Bloom filter in memory, which loses some URLs (Nielsen).

This is the set of ``BloomEliminator``, selected by ``SEEN_ELIMINATOR``. The invariant: ``take``
returns no URL twice, and returns URLs in first-seen order. But a new URL is lost if other URLs
happen to have set all of its bits. The stats contain the expected number of losses, and an estimate
of the actual number.

The filter answers immediately, without merges, and needs 15 bits per URL at an error rate of 0.001.
But these bits are in memory, and a look-up takes 5 us per URL. When the filter outgrows its
capacity, another filter of twice the size and half the error rate is added, so that the sum of all
error rates stays bounded. That stops the crawl for about 0.3 ms per megabyte, and each look-up then
checks both filters.

    filter-NNNNNN.bloom      the filter as of some position in the URL log, see bloom_file.py
    discovered-NNNNNN.log    the URL log, see url_log.py

A snapshot names the last filter that a worker thread has finished saving, and the part of the URL
log written since then, whose URLs recovery adds to the filter. The file may already have bits of
URLs submitted while it was being written. These do no harm, because the log has those URLs too.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from pathlib import Path

import msgspec
from pybloom_live import BloomFilter, ScalableBloomFilter

from webcrawl.clock import TimeSource, now
from webcrawl.seen.background import Background
from webcrawl.seen.bloom_file import SavedFilter, read_filter, write_filter
from webcrawl.seen.drain import Cursor, LogSection
from webcrawl.seen.eliminator import Eliminator
from webcrawl.seen.snapshots import EMPTY_LOG, VERSION, BloomSnapshot, LogState, decode_snapshot
from webcrawl.seen.url_log import FILE_BYTES, Span, log_path, read_frames
from webcrawl.storage.record_log import HEADER_SIZE

logger = logging.getLogger(__name__)

# The filter is saved when the URL log has grown by 1/_SAVE_SHARE of the filter's size, so that
# saving costs a bounded number of bytes per URL however large the filter is.
_SAVE_SHARE = 16
_SAVE_AT_LEAST = 1 << 18

# Error rate of each filter relative to the previous one: the sum of all rates is less than twice
# the first.
_RATIO = 0.5
# Fingerprints divisible by this are sampled: 8 bytes each on disk and 100 in memory.
SAMPLE = 1024
# The filter's error rate is computed again after this many new fingerprints.
_RATE_INTERVAL = 100


class LossMeter:
    """Counts the new URLs that are lost because the filter wrongly reports them as seen.

    *sample* holds the sampled fingerprints submitted so far. *expected* is the expected number of
    losses so far, *lost* the number of sampled fingerprints that were lost.
    """

    def __init__(self, *, sample: Iterable[int] = (), expected: float = 0.0, lost: int = 0) -> None:
        self.expected = expected
        self.lost = lost
        self._sample = set(sample)
        # The filter's error rate when it was last computed, and the number of new fingerprints
        # until it is computed again.
        self._rate = 0.0
        self._until_rate_update = 0

    def record_seen(self, fp: int) -> None:
        """Record that the filter reported *fp* as seen."""
        # A sampled fingerprint that was submitted before is in the sample, so this one is new.
        if not fp % SAMPLE and fp not in self._sample:
            self._sample.add(fp)
            self.lost += 1

    def record_new(self, fps: Sequence[int], filters: Sequence[BloomFilter]) -> None:
        """Record that the filter, which consists of *filters*, reported *fps* as new."""
        self._until_rate_update -= len(fps)
        if self._until_rate_update < 0:
            self._rate = error_rate(filters)
            self._until_rate_update = _RATE_INTERVAL
        # A new URL is recognized as new with probability 1 - rate. So for each URL recognized,
        # rate / (1 - rate) others are expected to have been lost.
        self.expected += len(fps) * self._rate / (1.0 - self._rate)
        for fp in fps:
            if not fp % SAMPLE:
                self._sample.add(fp)

    @property
    def measured(self) -> int:
        """Number of new URLs lost so far, estimated from the sample.

        It is correct to about 1,024 times the square root of the number of sampled losses.
        """
        return self.lost * SAMPLE

    def sample(self) -> array[int]:
        """Return the sampled fingerprints."""
        return array("Q", self._sample)


class BloomSet:
    """Set of submitted fingerprints in a Bloom filter, with the methods of ``DiskSet``.

    Its files are in the directory *path*. *background* saves the filter when the URL log has grown
    by *save_after* bytes or more. *empty* is the filter without any fingerprints.
    """

    # These tell the eliminator that no merges are needed; see DiskSet.
    answers_at_once = True
    #: See ``DiskSet``.
    tells_own = False
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
        # ``open`` fills it.
        self._filter = empty
        self._filter.ratio = _RATIO
        # The minimum; it is more if the filter is large.
        self._save_after = save_after
        self._clock = clock
        self._loss = LossMeter()
        self._new_count = 0
        self._save_count = 0
        self._save_secs = 0.0
        # Number of the file with the filter that was saved last; 0 if there is none.
        self._saved_number = 0
        # The position in the log (file, offset) up to which the saved filter has all URLs.
        self._saved_until = (1, HEADER_SIZE)
        self._ends: dict[int, int] = {}  # for each log file, the end of its last sealed section
        # Filter files that are no longer used, but may be named by the last snapshot.
        self._disposable: list[Path] = []
        # Filter files to delete once the last snapshot, which does not name them, is published.
        self._deletable: list[Path] = []

    @property
    def log_needed_from(self) -> int:
        """Number of the oldest log file that the saved filter does not cover completely."""
        return self._saved_until[0]

    # Submitting

    def resize(self, *, buffer_size: int, cache_size: int) -> None:
        """Do nothing: the promised error rate depends on the size of the filter."""

    def insert(self, fps: Sequence[int]) -> list[int]:
        """Return the indexes of those *fps* that are new: 5 us per URL, including ``mark_seen``."""
        new: dict[int, int] = {}
        for index, fp in enumerate(fps):
            # A page may link to a URL twice. The filter gets new fingerprints only in mark_seen.
            if fp not in new and not self.find(fp):
                new[fp] = index
        return list(new.values())

    def mark_seen(self, fps: array[int], *, with_payload: bool) -> None:  # noqa: ARG002  # as in DiskSet
        """Set the bits of *fps*, which cannot be undone."""
        self._loss.record_new(fps, self._filter.filters)
        for fp in fps:
            self._filter.add(fp)
        self._new_count += len(fps)

    def undo(self, fps: array[int]) -> None:
        """Do nothing, because ``insert`` set no bits."""

    def __contains__(self, fp: int) -> bool:
        """Return whether the filter contains *fp*; a positive answer may be wrong."""
        return fp in self._filter

    def find(self, fp: int) -> bool:
        """Return whether the filter contains *fp*, like ``in``, and count the answer."""
        if fp in self._filter:
            self._loss.record_seen(fp)
            return True
        return False

    def replay(self, fps: array[int], *, with_payload: bool) -> int:
        """Add *fps*, read back from the log, to the filter; return how many payloads may be new.

        They were new when they were submitted, but the saved filter may already contain some.
        """
        missing = [fp for fp in fps if fp not in self._filter]
        self._loss.record_new(missing, self._filter.filters)
        for fp in missing:
            self._filter.add(fp)
        return len(fps) if with_payload else 0

    def seal(self, section: LogSection) -> None:
        """Mark all payloads of *section* as new, because ``insert`` has sorted out the others."""
        self._ends[section.span.number] = section.span.end
        section.decide(None)

    def retire(self) -> None:
        """Do nothing, because the filter already contains the URLs of the section."""

    def work(self) -> None:
        """Do nothing, because ``snapshot`` starts saving the filter."""

    def work_failed(self) -> None:
        """Do nothing, because the next snapshot saves the filter."""

    # State on disk

    def open(self, snapshot: bytes | None) -> LogState:
        """Restore the filter that *snapshot* names, and return the state of the URL log.

        URLs logged since the filter was saved are added to it, which takes about 5 us each. Blocks.
        """
        state = None
        if snapshot is not None:
            state = decode_snapshot(snapshot, BloomSnapshot, path=self._path)
        filter_file = filter_path(self._path, state.saved if state else 0)
        for path in self._path.glob("filter-*.bloom"):
            if path != filter_file:
                path.unlink()
        if state is None:
            return EMPTY_LOG

        if state.saved:
            saved = read_filter(filter_file)
            self._filter.filters.extend(saved.filters)
            error_rate = sum(bloom_filter.error_rate for bloom_filter in saved.filters)
            if error_rate > self._filter.error_rate:
                logger.warning(
                    "The Bloom filter may lose %.3g of the new URLs, more than "
                    "SEEN_BLOOM_ERROR_RATE: made with another rate, or grown by an earlier version",
                    error_rate,
                )
            self._loss = LossMeter(sample=saved.sample, expected=saved.expected, lost=saved.lost)

        self._saved_number = state.saved
        self._saved_until = state.since
        number, cursor = state.consumed_until
        self._ends = {span.number: span.end for span in state.files}
        # The filter lacks the URLs logged after it was saved. Those whose payloads were taken are
        # added here, the others when the eliminator replays the untaken sections.
        for span in _spans(state.files, state.since, (number, cursor.offset)):
            file = log_path(self._path, span.number)
            for frame in read_frames(file, start=span.start, end=span.end):
                self.replay(frame.fps, with_payload=False)

        last = state.files[-1]
        # The first untaken section begins at the cursor's record, so that record has ordinal 0.
        untaken = _spans(state.files, (number, cursor.offset), (last.number, last.end))
        return LogState(
            untaken,
            Cursor(cursor.offset, 0, cursor.done) if untaken else None,
            Span(last.number, last.end, last.end),
            state.files[0].number,
        )

    def snapshot(
        self, untaken: list[Span], taken_until: Cursor | None, open_section: Span
    ) -> bytes:
        """Return the encoded state; if it is due, start saving the filter for a later snapshot.

        *untaken* are the sections of the log that were not completely taken, *taken_until* is the
        position in the first of them (None if there are none), and *open_section* is the section
        being written.
        """
        # Without untaken sections, everything before the section being written was taken.
        consumed_until = (open_section.number, Cursor(open_section.start, 0, 0))
        if taken_until is not None:
            consumed_until = (untaken[0].number, taken_until)

        # A restart reads the log from where the filter was saved, or from where it was consumed.
        first_file = min(self._saved_until[0], consumed_until[0])
        self._ends[open_section.number] = open_section.end
        self._ends = {number: end for number, end in self._ends.items() if number >= first_file}

        # This snapshot does not name the disposable files.
        self._deletable += self._disposable
        self._disposable = []

        files = [Span(number, HEADER_SIZE, end) for number, end in self._ends.items()]
        state = BloomSnapshot(VERSION, self._saved_number, self._saved_until, consumed_until, files)
        self._save_if_due(open_section)
        return msgspec.msgpack.encode(state)

    def _save_if_due(self, open_section: Span) -> None:
        """Start saving the filter if the log has grown enough since it was last saved."""
        number, offset = self._saved_until
        # The bytes of all files from *number* on, without those before *offset*.
        unsaved_bytes = sum(end for n, end in self._ends.items() if n >= number) - offset
        min_bytes = max(self._save_after, self._size_bytes // _SAVE_SHARE)
        if self._background.busy or unsaved_bytes < min_bytes:
            return

        # The worker gets copies of everything but the filters: bits that are set in these while
        # they are written do no harm.
        saved = SavedFilter(
            list(self._filter.filters),
            self._loss.sample(),
            self._loss.lost,
            self._loss.expected,
        )
        saved_number = self._saved_number + 1
        path = filter_path(self._path, saved_number)
        clock = self._clock
        saved_until = (open_section.number, open_section.end)

        def save() -> float:
            """Write the filter to its file, in the worker; return how long it took."""
            started = clock()
            write_filter(path, saved)
            return clock() - started

        def install(seconds: float) -> None:
            """Use the saved file from now on; *seconds* is how long saving took."""
            if self._saved_number:
                self._disposable.append(filter_path(self._path, self._saved_number))
            self._saved_number = saved_number
            self._saved_until = saved_until
            self._save_count += 1
            self._save_secs += seconds
            logger.info("Saved a Bloom filter of %d URLs in %.3f s", len(self._filter), seconds)

        self._background.start(save, install)

    def written(self) -> list[Path]:
        """Return files to fsync before the last snapshot may be published."""
        return [filter_path(self._path, self._saved_number)] if self._saved_number else []

    def forget(self) -> list[Path]:
        """Return files to delete, because the last snapshot was published."""
        paths = self._deletable
        self._deletable = []
        return paths

    @property
    def _size_bytes(self) -> int:
        """Memory that the filters take."""
        return int(sum(bloom_filter.num_bits for bloom_filter in self._filter.filters)) // 8

    def stats(self) -> dict[str, float]:
        """Return counters and gauges, by their names in Scrapy's stats."""
        return {
            "seen/new": self._new_count,
            "seen/fingerprints": len(self._filter),
            "seen/bytes": self._size_bytes,
            "seen/bloom/filters": len(self._filter.filters),
            "seen/bloom/capacity": self._filter.capacity,
            "seen/bloom/error_rate": error_rate(self._filter.filters),
            "seen/bloom/expected_loss": self._loss.expected,
            "seen/bloom/measured_loss": self._loss.measured,
            "seen/bloom/saves": self._save_count,
            "seen/bloom/save_seconds": self._save_secs,
        }

    def close(self) -> None:
        """Wait until the filter has been saved."""
        self._background.close(
            "Saving the Bloom filter failed; its missing URLs are still in the URL log"
        )


class BloomEliminator(Eliminator):
    """Duplicate URL eliminator with a Bloom filter: fast, but loses a few URLs; see ``BloomSet``.

    *capacity* is the number of fingerprints after which the filter grows. *error_rate*, between 0
    and 1, is the error rate of the first filter. *executor* provides the thread that saves it. See
    ``BloomSet`` for *save_after*, and ``UrlLog`` for *log_file_bytes*.
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


def _spans(files: list[Span], start: tuple[int, int], end: tuple[int, int]) -> list[Span]:
    """Return the non-empty sections of the log *files* between the positions *start* and *end*.

    A position is the number of a file and an offset in it.
    """
    first, first_offset = start
    last, last_offset = end
    spans = []
    for number, file_start, file_end in files:
        span_start = max(file_start, first_offset) if number == first else file_start
        span_end = min(file_end, last_offset) if number == last else file_end
        if first <= number <= last and span_start < span_end:
            spans.append(Span(number, span_start, span_end))
    return spans


def error_rate(filters: Sequence[BloomFilter]) -> float:
    """Return the probability that any of *filters* now reports a new URL as seen."""
    all_correct = 1.0
    for bloom_filter in filters:
        # Each of the num_slices slices has bits_per_slice bits, and count of them were set at
        # random, some more than once.
        fill_ratio = 1.0 - (1.0 - 1.0 / bloom_filter.bits_per_slice) ** bloom_filter.count
        # A filter reports a URL as seen if the URL's bit is set in each slice.
        all_correct *= 1.0 - fill_ratio**bloom_filter.num_slices
    return 1.0 - all_correct
