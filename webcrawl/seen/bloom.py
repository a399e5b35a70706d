"""Nielsen's way: a duplicate URL eliminator on a Bloom filter in memory, at the price of some URLs.

Selected by ``SEEN_ELIMINATOR``; same interface as the disk eliminator. The invariant: no URL
comes out of ``take`` twice and what comes out is in first-seen order, but a new URL whose bits
happen to be set by others is lost. How many that are expected to be, and an estimate of how many
there were, stand in the stats, see loss.py.

It answers at once and needs no merge, and 15 bits a URL at an error rate of 0.001; but those are
memory, and it takes 5 us a URL. When it outgrows its capacity a filter of twice the size is
added, which stops the crawl for some 0.3 ms per megabyte of it and lets each test ask both.

    filter-NNNNNN.bloom      the filter as of some place in the URL log, see bloom_file.py
    discovered-NNNNNN.log    the URL log, see url_log.py

A snapshot names the last filter that a worker thread has finished saving, and the URL log from
there on, which recovery adds to it. Bits of URLs submitted while the filter was being saved may be
in the file already; the log says the same, so they do no harm.
"""

from __future__ import annotations

import logging
from array import array
from typing import TYPE_CHECKING

import msgspec
from pybloom_live import ScalableBloomFilter

from webcrawl.clock import now
from webcrawl.seen.background import Background
from webcrawl.seen.bloom_file import SavedFilter, read_filter, write_filter
from webcrawl.seen.drain import Cursor, Drain
from webcrawl.seen.loss import LossMeter, error_rate
from webcrawl.seen.snapshot import VERSION, decode_snapshot
from webcrawl.seen.url_log import FILE_BYTES, Span, UrlLog, has_payloads, read_frames
from webcrawl.storage.atomic import make_directory
from webcrawl.storage.record_log import HEADER_SIZE, CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor
    from pathlib import Path


logger = logging.getLogger(__name__)

# The filter is saved when the URL log has grown by this part of its size since, so that saving
# costs a bounded number of bytes for each URL however large the filter is.
_SAVE_SHARE = 4
_SAVE_AT_LEAST = 1 << 20


class BloomSnapshot(msgspec.Struct, array_like=True, frozen=True, tag="Bloom"):
    """saved: number of the filter's file, 0 for none; since: the place in the log that it covers,
    (file, offset); taken: the file and the cursor in it up to which all was taken; files: the log
    from the first file needed on, the last one being written."""

    version: int
    saved: int
    since: tuple[int, int]
    taken: tuple[int, Cursor]
    files: list[Span]


_START = Cursor(HEADER_SIZE, 0, 0)
_NOTHING_YET = BloomSnapshot(
    VERSION, 0, (1, HEADER_SIZE), (1, _START), [Span(1, HEADER_SIZE, HEADER_SIZE)]
)


class BloomEliminator:
    """See ``webcrawl.seen.interface.Eliminator`` for the methods without a docstring.

    *capacity*: fingerprints before the filter grows; *error_rate*: of the first filter, between 0
    and 1. *executor*: saves the filter.
    """

    def __init__(
        self,
        *,
        path: Path,
        executor: Executor,
        capacity: int,
        error_rate: float,
        clock: Callable[[], float] = now,
        log_file_bytes: int = FILE_BYTES,
        save_after: int = _SAVE_AT_LEAST,
    ) -> None:
        self.on_merged: Callable[[], object] = _nobody
        self.last_merge_secs = 0.0
        self._path = path
        self._capacity = capacity
        self._error_rate = error_rate
        self._clock = clock
        self._save_after = save_after
        self._background = Background(executor=executor, on_done=_nobody)
        self._log = UrlLog(path=path, aside=self._background.aside, file_bytes=log_file_bytes)
        self._filter = self._new_filter()
        self._loss = LossMeter()
        self._waiting = 0
        self._submitted = 0
        self._new = 0
        self._saves = 0
        self._save_secs = 0.0
        self._saved = 0
        self._since = (1, HEADER_SIZE)
        self._taken: tuple[int, Cursor] = (1, _START)
        self._drain: Drain | None = None
        self._closed: dict[int, int] = {}  # number and size of the log files before the last
        self._disposable: list[Path] = []
        self._deletable: list[Path] = []
        self._made: list[Path] = []

    def _new_filter(self) -> ScalableBloomFilter:
        return ScalableBloomFilter(
            initial_capacity=self._capacity,
            error_rate=self._error_rate,
            mode=ScalableBloomFilter.SMALL_SET_GROWTH,
        )

    # Submitting

    def submit(self, fps: Sequence[int], encode: Callable[[int], bytes]) -> int:
        """See Eliminator. About 5 us per URL."""
        self._cut()
        self._submitted += len(fps)
        new: list[int] = []
        fresh: dict[int, None] = {}
        for index, fp in enumerate(fps):
            if fp in fresh:
                continue
            if fp in self._filter:
                self._loss.seen(fp)
            else:
                fresh[fp] = None
                new.append(index)
        if new:
            self._log.append(array("Q", fresh), [encode(index) for index in new])
            self._remember(list(fresh))
            self._waiting += len(new)
        return len(new)

    def add(self, fp: int) -> bool:
        """See Eliminator. Exact but for the filter's errors."""
        self._cut()
        self._submitted += 1
        if fp in self._filter:
            self._loss.seen(fp)
            return False
        self._log.append(array("Q", (fp,)), ())
        self._remember((fp,))
        return True

    def _remember(self, fps: Sequence[int]) -> None:
        """Set the bits of *fps*, after they went into the log: bits cannot be taken back."""
        self._loss.new(fps, self._filter.filters)
        for fp in fps:
            self._filter.add(fp)
        self._new += len(fps)

    def certainly_seen(self, fp: int) -> bool:
        """See Eliminator: as certain as the filter is."""
        return fp in self._filter

    def _cut(self) -> None:
        span = self._log.cut()
        if self._log.span.number != span.number:
            self._closed[span.number] = span.end

    # Taking

    @property
    def waiting(self) -> int:
        return self._waiting

    @property
    def merging(self) -> bool:
        return False

    @property
    def is_full(self) -> bool:
        return False

    def merge(self) -> None:
        """See Eliminator. Nothing to do: what is new is known at once."""

    def take(self, limit: int) -> list[bytes]:
        """See Eliminator."""
        self._settle()
        taken: list[bytes] = []
        while self._waiting and not taken:
            number, cursor = self._taken
            end = self._closed.get(number, self._log.end)
            if cursor.offset == end:
                self._close_drain()
                self._taken = (number + 1, _START)
                continue
            if self._drain is not None and cursor.offset == self._drain.end:
                self._close_drain()  # the log has grown since
            if self._drain is None:
                file = self._log.file(number)
                self._drain = Drain(path=file, end=end, cursor=cursor, marks=None)
            taken = self._drain.take(limit)
            self._taken = (number, self._drain.cursor)
        self._waiting -= len(taken)
        return taken

    def _close_drain(self) -> None:
        if self._drain is not None:
            self._drain.close()
            self._drain = None

    # State on disk

    def open(self, snapshot: bytes | None) -> None:
        """See Eliminator. Adds the log since the saved filter: about 5 us a URL.

        Raises CorruptRecordError for damage in what the snapshot vouches for, NewerFormatError.
        """
        self._made = make_directory(self._path)
        state = _NOTHING_YET
        if snapshot is not None:
            state = decode_snapshot(snapshot, BloomSnapshot, path=self._path)
        try:
            self._load(state)
            self._recover(state)
        except BaseException:
            self.close()
            raise

    def _load(self, state: BloomSnapshot) -> None:
        keep = self._file(state.saved)
        for path in self._path.glob("filter-*.bloom"):
            if path != keep:
                path.unlink()
        if state.saved:
            saved = read_filter(keep)
            self._filter.filters.extend(saved.filters)
            self._loss = LossMeter(sample=saved.sample, expected=saved.expected, lost=saved.lost)
        self._saved, self._since, self._taken = state.saved, state.since, state.taken

    def _recover(self, state: BloomSnapshot) -> None:
        """Add what the log holds since the saved filter, count what was not taken."""
        first = state.files[0].number
        vouched = {span.number: span.end for span in state.files}
        untaken = (state.taken[0], state.taken[1].offset)
        number = first
        while True:
            end = HEADER_SIZE
            for offset, fps, packed in self._log.recovered(
                number, start=end, vouched=vouched.get(number, HEADER_SIZE)
            ):
                if (number, end) >= self._since:
                    self._remember(fps)
                if (number, end) >= untaken and has_payloads(packed):
                    self._waiting += len(fps)
                end = offset
            if number >= state.files[-1].number and not self._log.file(number + 1).exists():
                break
            self._closed[number] = end
            number += 1
        self._waiting -= state.taken[1].done
        self._new = 0
        self._log.open(number=number, start=end, end=end, first=first)

    def _file(self, number: int) -> Path:
        return filter_path(self._path, number)

    def snapshot(self) -> bytes:
        """See Eliminator. Begins to save the filter, if it is time, for a later snapshot."""
        self._settle()
        active = self._log.span
        if not self._waiting:
            self._close_drain()
            self._taken = (active.number, Cursor(active.end, 0, 0))
        first = min(self._since[0], self._taken[0])
        self._closed = {n: end for n, end in self._closed.items() if n >= first}
        self._log.snapshot(first)
        self._deletable += self._disposable
        self._disposable = []
        files = [Span(number, HEADER_SIZE, end) for number, end in self._closed.items()]
        files.append(Span(active.number, HEADER_SIZE, active.end))
        state = BloomSnapshot(VERSION, self._saved, self._since, self._taken, files)
        self._save_if_due()
        return msgspec.msgpack.encode(state)

    def _save_if_due(self) -> None:
        active = self._log.span
        sizes = {**self._closed, active.number: active.end}
        number, offset = self._since
        tail = sum(size for n, size in sizes.items() if n >= number) - offset
        if self._background.busy or tail < max(self._save_after, self._size_bytes // _SAVE_SHARE):
            return
        saved = SavedFilter(
            list(self._filter.filters),
            self._loss.sample(),
            self._loss.lost,
            self._loss.expected,
        )
        target = self._saved + 1
        path, clock, since = self._file(target), self._clock, (active.number, active.end)

        def save() -> float:
            started = clock()
            write_filter(path, saved)
            return clock() - started

        def install(seconds: float) -> None:
            if self._saved:
                self._disposable.append(self._file(self._saved))
            self._saved, self._since = target, since
            self._saves += 1
            self._save_secs += seconds
            logger.info(
                "Saved a Bloom filter of %d fingerprints in %.3f s", len(self._filter), seconds
            )

        self._background.start(save, install)

    def _settle(self) -> None:
        """Take up a finished save. Raises what stopped it; the next snapshot tries again."""
        if self._background.ended:
            self._background.settle()

    def written(self) -> list[Path]:
        """See Eliminator."""
        saved = [self._file(self._saved)] if self._saved else []
        return [*saved, *self._log.written(), self._path, *self._made]

    def forget(self) -> None:
        """See Eliminator."""
        self._made = []
        paths, self._deletable = self._deletable, []
        self._background.delete([*paths, *self._log.forget()])

    @property
    def _size_bytes(self) -> int:
        return int(sum(held.num_bits for held in self._filter.filters)) // 8

    def stats(self) -> dict[str, int | float]:
        """See Eliminator; docs/stats.md lists them."""
        return {
            "seen/submitted": self._submitted,
            "seen/new": self._new,
            "seen/waiting": self._waiting,
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

    def check(self) -> list[str]:
        """See Eliminator: the saved filter, and that all of the log is in the filter."""
        self._background.settle(wait=True)
        sizes = {**self._closed, self._log.span.number: self._log.end}
        try:
            if self._saved:
                read_filter(self._file(self._saved))
            for number, end in sizes.items():
                file = self._log.file(number)
                if end == HEADER_SIZE:  # a power loss may have left less than that
                    continue
                for frame in read_frames(file, start=HEADER_SIZE, end=end):
                    if not all(fp in self._filter for fp in frame.fps):
                        return [f"{file}: the filter lacks a fingerprint before byte {frame.end}"]
        except CorruptRecordError as error:
            return [str(error)]
        return []

    def close(self) -> None:
        """See Eliminator."""
        try:
            self._background.close()
        except Exception:
            logger.exception("Saving the Bloom filter failed; the log has what it lacks")
        self._close_drain()
        self._log.close()


def filter_path(path: Path, number: int) -> Path:
    """The file of saved filter *number* in the directory *path*."""
    return path / f"filter-{number:06d}.bloom"


def _nobody() -> None:
    """``on_merged`` until somebody wants to know."""
