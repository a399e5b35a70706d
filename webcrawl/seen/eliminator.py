"""Mercator's disk-based duplicate URL eliminator (section 3.2, figure 4), exact at any size.

The scheduler submits each page's links to it and takes the new ones out for the frontier. The
invariant: every submitted URL comes out of ``take`` exactly once, in first-seen order, and a run
counts as part of a snapshot only when all payloads of its merge have been taken by then.

A submitted fingerprint goes through the cache and the buffer T; what neither knows is appended to
the URL log U and to T. When T is full, or ``merge`` is called, T and its stretch of U become T'
and U', and a worker thread sorts T', looks it up in every run of F and writes the new ones as one
more run. ``take`` then reads the marked payloads from U'. More than one T' may wait, for their
merge or to be taken, so a submit never blocks and drops nothing; ``is_full`` tells the feeders.

What a look-up costs: each merge reads the blocks of F that T' falls into, all of them when T' is
large, at the speed of a sequential read; levels keep the rewriting of F logarithmic.

If the process dies on any line: a payload is in U before ``submit`` returns; stretches of U are
kept until a published snapshot holds what was made of them. Recovery takes up the runs, the
stretches not yet taken and the cursor that the snapshot names, and submits all that U holds after
them. Merging a stretch again marks the same payloads, so the cursor stays good.
"""

from __future__ import annotations

import logging
from array import array
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from webcrawl.clock import now
from webcrawl.seen.background import Background
from webcrawl.seen.batch import Batch
from webcrawl.seen.compaction import Compactor
from webcrawl.seen.drain import Cursor  # noqa: TC001  # msgspec reads the annotation
from webcrawl.seen.levels import Levels, check_runs
from webcrawl.seen.merge import merge
from webcrawl.seen.snapshot import VERSION, decode_snapshot
from webcrawl.seen.table import SILENT, WITH_PAYLOAD, Buffer
from webcrawl.seen.url_log import FILE_BYTES, Span, UrlLog, has_payloads, read_frames
from webcrawl.storage.atomic import make_directory
from webcrawl.storage.record_log import HEADER_SIZE, CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    from webcrawl.seen.cache import FingerprintCache
    from webcrawl.seen.merge import Merged
    from webcrawl.seen.runs import Run
    from webcrawl.seen.url_log import Frame

logger = logging.getLogger(__name__)

# Merges of fewer fingerprints are logged at DEBUG: while the front end is low there are many.
_LOGGED_MERGE = 1 << 16


# What is counted; the gauges are added when asked for.
_COUNTERS = (
    "seen/submitted",
    "seen/cache/hits",
    "seen/buffer/hits",
    "seen/new",
    "seen/merge/count",
    "seen/merge/entries",
    "seen/merge/seconds",
)


class DiskSnapshot(msgspec.Struct, array_like=True, frozen=True, tag="disk"):
    """runs: (number, count); pending: stretches of U not wholly taken, oldest first; cursor: in
    the first of them; active: the stretch being written."""

    version: int
    runs: list[tuple[int, int]]
    pending: list[Span]
    cursor: Cursor | None
    active: Span


_NOTHING_YET = DiskSnapshot(VERSION, [], [], None, Span(1, HEADER_SIZE, HEADER_SIZE))


class DiskEliminator:
    """See ``webcrawl.seen.interface.Eliminator`` for the methods without a docstring.

    *buffer_size*: entries of T, 16 bytes each for the table and 9 for the order; as much again
    while T' is merged. *executor*: one worker thread is enough, it may be shared.
    """

    def __init__(
        self,
        *,
        path: Path,
        executor: Executor,
        cache: FingerprintCache,
        buffer_size: int,
        clock: Callable[[], float] = now,
        log_file_bytes: int = FILE_BYTES,
    ) -> None:
        self.on_merged: Callable[[], object] = _nobody
        self.last_merge_secs = 0.0
        self._path = path
        self._cache = cache
        self._buffer_size = buffer_size
        self._clock = clock
        self._levels = Levels(path=path)
        self._background = Background(executor=executor, on_done=self._tell)
        self._log = UrlLog(path=path, aside=self._background.aside, file_bytes=log_file_bytes)
        self._buffer = Buffer(size=0)
        self._batches: deque[Batch] = deque()
        self._compactor = Compactor(levels=self._levels, background=self._background, clock=clock)
        self._failure: Exception | None = None
        self._waiting = 0
        self._counters: dict[str, int | float] = dict.fromkeys(_COUNTERS, 0)
        self._made: list[Path] = []

    def _tell(self) -> None:
        self.on_merged()

    # Submitting

    def submit(self, fps: Sequence[int], encode: Callable[[int], bytes]) -> int:
        """See Eliminator. About 0.5 us per URL, and never more than a few ms."""
        if self._background.ended:
            self._settle()
        if len(self._buffer) >= self._buffer_size:
            self._seal()
        missed = self._cache.misses(fps)
        counters = self._counters
        counters["seen/submitted"] += len(fps)
        counters["seen/cache/hits"] += len(fps) - len(missed)
        if not missed:
            return 0
        buffer = self._buffer
        # While T holds less than the cache could, T is what remembers least: all go into the
        # cache. From then on only what is met again does: T knows the rest. Against admitting
        # all: 51 % hits instead of 49 %, and 0.1 us less per URL (crawl-like stream, 2026-11-20).
        admit_all = len(buffer) < self._cache.size
        new = buffer.insert(fps, missed)
        counters["seen/buffer/hits"] += len(missed) - len(new)
        if new:
            fresh = array("Q", [fps[index] for index in new])
            try:
                self._log.append(fresh, [encode(index) for index in new])
            except BaseException:
                buffer.take_back(fresh)
                raise
            buffer.append(fresh, WITH_PAYLOAD)
            self._waiting += len(new)
        if admit_all:
            self._cache.admit([fps[index] for index in missed])
        elif len(new) < len(missed):
            again = set(missed).difference(new)
            self._cache.admit([fps[index] for index in again])
        return len(new)

    def add(self, fp: int) -> bool:
        """See Eliminator. Exact."""
        if self._background.ended:
            self._settle()
        self._counters["seen/submitted"] += 1
        if self.certainly_seen(fp):
            self._counters["seen/buffer/hits"] += 1
            return False
        if self._is_stored(fp):
            self._cache.admit((fp,))
            return False
        if len(self._buffer) >= self._buffer_size:
            self._seal()
        fresh = array("Q", (fp,))
        self._buffer.insert(fresh, (0,))
        try:
            self._log.append(fresh, ())
        except BaseException:
            self._buffer.take_back(fresh)
            raise
        self._buffer.append(fresh, SILENT)
        self._cache.admit(fresh)
        return True

    def certainly_seen(self, fp: int) -> bool:
        """See Eliminator: the cache, T and every T' not merged yet."""
        return (
            fp in self._cache
            or fp in self._buffer
            or any(batch.buffer is not None and fp in batch.buffer for batch in self._batches)
        )

    def _is_stored(self, fp: int) -> bool:
        return any(fp in run for run in reversed(self._runs))

    def _seal(self) -> None:
        """T and U become T' and U'."""
        fresh = Buffer(size=self._buffer_size)
        span = self._log.cut()
        self._batches.append(Batch(span=span, buffer=self._buffer))
        self._buffer = fresh
        self._advance()

    # Taking

    @property
    def waiting(self) -> int:
        return self._waiting

    @property
    def merging(self) -> bool:
        return any(batch.drain is None for batch in self._batches)

    @property
    def is_full(self) -> bool:
        held = sum(batch.entries for batch in self._batches)
        return held + len(self._buffer) >= 2 * self._buffer_size

    def take(self, limit: int) -> list[bytes]:
        """See Eliminator. Never reads more than a few megabytes of the log."""
        self._settle()
        self._raise_failure()
        batch = self._batches[0] if self._batches else None
        if batch is None or batch.drain is None:
            return []
        taken = batch.drain.take(limit)
        batch.left -= len(taken)
        self._waiting -= len(taken)
        self._retire()
        return taken

    def merge(self) -> None:
        """See Eliminator. Does nothing while a merge is running or due."""
        self._settle()
        self._raise_failure()
        if len(self._buffer) and not self.merging:
            self._seal()

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    # Work in the background

    def _settle(self) -> None:
        """Take up what the worker has done and give it the next thing to do."""
        try:
            self._background.settle()
        except Exception as error:  # noqa: BLE001  # whatever it is, take() raises it
            self._failure = error
            self._compactor.abandon()
        self._advance()

    def _advance(self) -> None:
        """Give an idle worker something to do: merges and slices of a compaction take turns."""
        if self._failure is not None:
            return
        batch = next((batch for batch in self._batches if batch.drain is None), None)
        if batch is None and len(self._buffer) >= self._buffer_size:
            # Who feeds T pauses while the last T' is being taken; the worker need not.
            self._seal()
            return
        if self._background.busy:
            if batch is not None:
                self._compactor.give_way()
        elif not self._compactor.start(others_wait=batch is not None) and batch is not None:
            self._start_merge(batch)

    def _start_merge(self, batch: Batch) -> None:
        buffer = batch.buffer
        assert buffer is not None
        runs = self._runs
        path, clock = self._levels.next_file(), self._clock
        self._background.start(
            lambda: merge(buffer, runs, path, clock),
            lambda merged: self._install_merged(batch, merged, runs),
        )

    @property
    def _runs(self) -> list[Run]:
        """F: the finished runs and those of batches that are being taken."""
        return self._levels.runs + [batch.run for batch in self._batches if batch.run is not None]

    def _install_merged(self, batch: Batch, merged: Merged, runs: list[Run]) -> None:
        before = batch.left
        batch.install(merged, path=self._log.file(batch.span.number))
        self._waiting += batch.left - before
        self._retire()
        self.last_merge_secs = sum(merged.seconds)
        self._counters["seen/merge/count"] += 1
        self._counters["seen/merge/entries"] += batch.entries
        self._counters["seen/merge/seconds"] += self.last_merge_secs
        self._counters["seen/new"] += merged.new
        logger.log(
            logging.INFO if batch.entries >= _LOGGED_MERGE else logging.DEBUG,
            "Merged %d fingerprints with %d in %d runs: %d new; "
            "sorting %.3f s, looking up %.3f s, writing %.3f s",
            batch.entries,
            sum(run.count for run in runs),
            len(runs),
            merged.new,
            *merged.seconds,
        )

    def _retire(self) -> None:
        """Batches that are wholly taken become part of F as far as snapshots go."""
        while self._batches and self._batches[0].is_done:
            batch = self._batches.popleft()
            batch.close()
            if batch.run is not None:
                self._levels.add(batch.run)

    # State on disk

    def open(self, snapshot: bytes | None) -> None:
        """See Eliminator. Reads what U holds since the snapshot: about 1 s for a full T.

        Raises CorruptRecordError for damage in what the snapshot vouches for, NewerFormatError
        for files of a later version; nothing is changed then but that disposable files are gone.
        """
        self._made = make_directory(self._path)
        state = (
            _NOTHING_YET
            if snapshot is None
            else decode_snapshot(snapshot, DiskSnapshot, path=self._path)
        )
        try:
            self._levels.open(state.runs)
            cursor = state.cursor
            for span in state.pending:
                # An entry takes at least 12 bytes of the log.
                most = (span.end - span.start) // 12
                buffer = Buffer(size=min(most, self._buffer_size))
                for _, fps, packed in self._frames(span):
                    buffer.replay(fps, with_payload=has_payloads(packed))
                self._batches.append(Batch(span=span, buffer=buffer, cursor=cursor))
                cursor = None
            self._recover(state.active)
        except BaseException:
            self.close()
            raise
        self._waiting = self._buffer.payloads + sum(batch.left for batch in self._batches)
        self._advance()

    def _frames(self, span: Span) -> Iterator[Frame]:
        return read_frames(self._log.file(span.number), start=span.start, end=span.end)

    def _recover(self, active: Span) -> None:
        """Submit again what U holds from the start of *active* on, then go on writing there."""
        number, start, end = active.number, active.start, active.start
        vouched = active.end
        buffer = Buffer(size=self._buffer_size)
        first = self._batches[0].span.number if self._batches else number
        while True:
            for offset, fps, packed in self._log.recovered(number, start=start, vouched=vouched):
                if len(buffer) >= self._buffer_size:
                    self._batches.append(Batch(span=Span(number, start, end), buffer=buffer))
                    buffer, start = Buffer(size=self._buffer_size), end
                buffer.replay(fps, with_payload=has_payloads(packed))
                end = offset
            if not self._log.file(number + 1).exists():
                break
            if len(buffer):
                self._batches.append(Batch(span=Span(number, start, end), buffer=buffer))
                buffer = Buffer(size=self._buffer_size)
            number += 1
            start = end = vouched = HEADER_SIZE
        self._buffer = buffer
        self._log.open(number=number, start=start, end=end, first=first)

    def snapshot(self) -> bytes:
        """See Eliminator. Its size does not grow with the crawl."""
        self._settle()
        pending = [batch.span for batch in self._batches]
        return msgspec.msgpack.encode(
            DiskSnapshot(
                version=VERSION,
                runs=self._levels.snapshot(),
                pending=pending,
                cursor=self._batches[0].cursor if pending else None,
                active=self._log.snapshot(pending[0].number if pending else None),
            )
        )

    def written(self) -> list[Path]:
        """See Eliminator."""
        return [*self._levels.written(), *self._log.written(), self._path, *self._made]

    def forget(self) -> None:
        """See Eliminator."""
        self._made = []
        self._background.delete([*self._levels.forget(), *self._log.forget()])

    def stats(self) -> dict[str, int | float]:
        """See Eliminator; docs/stats.md lists them."""
        runs = self._runs
        return {
            **self._counters,
            "seen/compact/count": self._compactor.count,
            "seen/compact/seconds": self._compactor.seconds,
            "seen/waiting": self._waiting,
            "seen/buffer/entries": len(self._buffer),
            "seen/runs": len(runs),
            "seen/fingerprints": sum(run.count for run in runs),
            "seen/bytes": sum(run.size_bytes for run in runs),
        }

    def check(self) -> list[str]:
        """See Eliminator: order, sums and counts of all runs, no fingerprint in two of them,
        every record of U that may still be needed. Waits for the worker."""
        while self._background.busy:
            self._background.settle(wait=True)
            self._advance()
        wrong = check_runs(self._runs)
        try:
            for span in [*(batch.span for batch in self._batches), self._log.span]:
                for _ in self._frames(span):
                    pass
        except CorruptRecordError as error:
            wrong.append(str(error))
        return wrong

    def close(self) -> None:
        """See Eliminator."""
        self._compactor.give_way()
        try:
            self._background.close()
        except Exception:
            logger.exception("The last merge failed; resuming the crawl does it again")
        self._compactor.abandon()
        for batch in self._batches:
            batch.close()
            if batch.run is not None:
                batch.run.close()
        self._batches.clear()
        self._buffer.close()
        self._levels.close()
        self._log.close()


def _nobody() -> None:
    """``on_merged`` until somebody wants to know."""
