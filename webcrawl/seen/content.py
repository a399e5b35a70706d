"""The content-seen test: whether a document with the same bytes was processed before, exactly.

The scheduler calls it for each fetched document, before any processing module sees it. The
invariant: a fingerprint counts as seen for good only when its document's processing has ended;
until then it is in process, and a crash forgets it. Otherwise a crash between test and end would
make the page, fetched again, a duplicate of itself.

Committed fingerprints gather in memory and are spilled to sorted runs like those of the
eliminator, in a worker thread. There is no log:
the frontier's done log carries the fingerprint of each finished document, and its replay
commits them again. What is in no run yet stands in the snapshot itself, at most some 100,000
fingerprints whatever the size of the crawl.
"""

from __future__ import annotations

import logging
from array import array
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from webcrawl.clock import now
from webcrawl.seen.background import Background
from webcrawl.seen.compaction import Compactor
from webcrawl.seen.levels import Levels, find
from webcrawl.seen.runs import write_run
from webcrawl.seen.snapshots import VERSION, decode_snapshot
from webcrawl.storage.atomic import make_directory
from webcrawl.storage.record_log import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    from webcrawl.seen.runs import Run

logger = logging.getLogger(__name__)

#: Committed fingerprints in memory before they are spilled to a run; a set of them takes 6 MB.
BUFFER_SIZE = 1 << 16


class ContentSnapshot(msgspec.Struct, array_like=True, frozen=True, tag="content"):
    """Snapshot of the content-seen test.

    runs: (number, count).
    committed: the fingerprints in none of them, u64 little-endian.
    """

    version: int
    runs: list[tuple[int, int]]
    committed: bytes


class ContentSeen:
    """The documents seen, by fingerprint. Everything is called in the crawl's own thread."""

    def __init__(
        self,
        *,
        path: Path,
        executor: Executor,
        buffer_size: int = BUFFER_SIZE,
    ) -> None:
        self._path = path
        self._buffer_size = buffer_size
        self._levels = Levels(path=path)
        self._background = Background(executor=executor)
        self._compactor = Compactor(levels=self._levels, background=self._background, clock=now)
        self._in_process: set[int] = set()
        self._committed: set[int] = set()  # and not being spilled
        self._spilling: set[int] = set()
        self._spill_at = buffer_size
        self._made: list[Path] = []
        self._counters: dict[str, float] = dict.fromkeys(
            (
                "content/tested",
                "content/duplicates",
                "content/spill/count",
                "content/spill/failed",
                "content/spill/seconds",
            ),
            0,
        )

    def resize(self, buffer_size: int) -> None:
        """Keep at most *buffer_size* committed fingerprints in memory, from the next one on."""
        self._buffer_size = self._spill_at = buffer_size

    def test(self, fp: int) -> bool:
        """Whether a document with fingerprint *fp* was committed or is in process.

        If not it is in process from now on, until ``commit`` or ``discard``. Reads 8 kB of each
        large run, blocking: mostly from the page cache, some 10 us each. Raises
        CorruptRecordError when such a block is damaged, OSError when it cannot be read.
        """
        self._settle()
        self._counters["content/tested"] += 1
        if self.claim(fp):
            return False
        self._counters["content/duplicates"] += 1
        return True

    def claim(self, fp: int) -> bool:
        """The opposite of ``test``, for a fingerprint that is no document's: it is not counted."""
        if self._is_known(fp):
            return False
        self._in_process.add(fp)
        return True

    def _is_known(self, fp: int) -> bool:
        return (
            fp in self._in_process
            or fp in self._committed
            or fp in self._spilling
            or any(fp in run for run in reversed(self._levels.runs))
        )

    def commit(self, fp: int) -> None:
        """The document's processing has ended: *fp* is seen for good once the caller's own log
        says so. Also for a replay of that log, so *fp* need not be in process."""
        self._in_process.discard(fp)
        self._committed.add(fp)
        self._settle()

    def discard(self, fp: int) -> None:
        """The document's processing failed: *fp* counts as never seen."""
        self._in_process.discard(fp)

    # Work in the background

    def _settle(self) -> None:
        """Take up what the worker has done and give it the next thing to do."""
        has_ended = self._background.ended
        if has_ended:
            try:
                self._background.settle()
            except (OSError, CorruptRecordError) as error:
                self._spill_failed(error)
        spill_due = len(self._committed) >= self._spill_at
        if self._background.busy:
            if spill_due:
                self._compactor.give_way()
            return
        # Without either of the two the levels are as they were.
        has_begun = (has_ended or spill_due) and self._compactor.start(others_wait=spill_due)
        if spill_due and not has_begun:
            self._start_spill()

    def _start_spill(self) -> None:
        self._spilling, self._committed = self._committed, set()
        fps, runs = list(self._spilling), list(self._levels.runs)
        path = self._levels.next_file()
        self._background.start(lambda: _spill(fps, runs, path), self._install_spilled)

    def _install_spilled(self, spilled: tuple[Run | None, float]) -> None:
        run, seconds = spilled
        self._spilling = set()
        self._spill_at = self._buffer_size
        if run is not None:
            self._levels.add(run)
        self._counters["content/spill/count"] += 1
        self._counters["content/spill/seconds"] += seconds

    def _spill_failed(self, error: Exception) -> None:
        """Keep everything in memory and in the snapshots, and try again after as much more."""
        self._compactor.abandon()
        self._committed |= self._spilling
        self._spilling = set()
        self._spill_at = len(self._committed) + self._buffer_size
        self._counters["content/spill/failed"] += 1
        if self._counters["content/spill/failed"] == 1:
            logger.error(
                "Content fingerprints stay in memory, as moving them to disk failed: %s; "
                "further failures are only counted in content/spill/failed",
                error,
            )

    # State on disk

    def open(self, snapshot: bytes | None) -> None:
        """Recover what *snapshot* says; the caller then commits what was committed since.

        Raises CorruptRecordError for damage in what it names, NewerFormatError.
        """
        self._made = make_directory(self._path)
        try:
            if snapshot is None:
                self._levels.open([])
                return
            state = decode_snapshot(snapshot, ContentSnapshot, path=self._path)
            self._levels.open(state.runs)
            self._committed = set(np.frombuffer(state.committed, dtype="<u8").tolist())
        except BaseException:
            self.close()
            raise

    def snapshot(self) -> bytes:
        """The committed ones now, as bytes for ``open``; a few ms."""
        self._settle()
        committed = array("Q", self._committed)
        committed.extend(self._spilling)
        return msgspec.msgpack.encode(
            ContentSnapshot(VERSION, self._levels.snapshot(), committed.tobytes())
        )

    def written(self) -> list[Path]:
        """Files and directories to fsync before the last snapshot may be published."""
        return [*self._levels.written(), self._path, *self._made]

    def forget(self) -> None:
        """The last snapshot was published: delete the files it does not name, in the worker."""
        self._made = []
        self._background.delete(self._levels.forget())

    def stats(self) -> dict[str, float]:
        """Counters and gauges since ``open``, by their names in Scrapy's stats."""
        runs = self._levels.runs
        stored = sum(run.count for run in runs)
        return {
            **self._counters,
            "content/compact/count": self._compactor.count,
            "content/compact/seconds": self._compactor.seconds,
            "content/in_process": len(self._in_process),
            "content/fingerprints": stored + len(self._committed) + len(self._spilling),
            "content/runs": len(runs),
            "content/bytes": sum(run.size_bytes for run in runs),
        }

    def close(self) -> None:
        """Wait for the worker and close all files. The directory stays recoverable."""
        self._compactor.give_way()
        self._background.close("The last spill failed; the next snapshot holds it")
        self._compactor.abandon()
        self._levels.close()


def _spill(fps: Sequence[int], runs: Sequence[Run], path: Path) -> tuple[Run | None, float]:
    """*fps* but those in *runs* as a run; None if there are none. For a worker thread."""
    started = now()
    keys = np.array(fps, dtype=np.uint64)
    keys.sort()
    keys = keys[~find(runs, keys)]
    run = write_run(path, [keys]) if len(keys) else None
    return run, now() - started
