"""The content-seen test: finds documents with exactly the same bytes as an earlier one.

The scheduler calls it for each fetched document, before any processing module sees the document.
The invariant: a fingerprint counts as seen permanently only when its document has been processed.
Until then it is in process, and a crash forgets it. Otherwise, after a crash during processing, the
page would be fetched again and be taken for a duplicate of itself.

Committed fingerprints are collected in memory and spilled, in a worker thread, to sorted runs like
those of the eliminator. There is no log: the frontier's done log has the fingerprint of each
finished document, and replaying that log commits them again. The snapshot itself contains the
fingerprints that are not in a run yet: at most about 100,000, however large the crawl is.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path

import msgspec
import numpy as np

from webcrawl.clock import now
from webcrawl.seen.background import Background
from webcrawl.seen.compaction import Compactor
from webcrawl.seen.levels import Levels, find
from webcrawl.seen.runs import Run, write_run
from webcrawl.seen.snapshots import VERSION, decode_snapshot
from webcrawl.storage.atomic import make_directory
from webcrawl.storage.record_log import CorruptRecordError

logger = logging.getLogger(__name__)

#: Committed fingerprints kept in memory before they are spilled to a run; they take 6 MB.
BUFFER_SIZE = 1 << 16


class ContentSnapshot(msgspec.Struct, array_like=True, frozen=True, tag="content"):
    """Snapshot of the content-seen test.

    *runs* lists the runs as (file number, count of fingerprints). *committed* contains the
    fingerprints that are not in a run, as little-endian u64.
    """

    version: int
    runs: list[tuple[int, int]]
    committed: bytes


class ContentSeen:
    """Content-seen test: the fingerprints of all documents seen so far.

    All methods run in the crawl's own thread.
    """

    def __init__(
        self,
        *,
        path: Path,
        executor: Executor,
        buffer_size: int = BUFFER_SIZE,
    ) -> None:
        """Create the test with its files in *path*; see BUFFER_SIZE for *buffer_size*.

        *executor* needs only one worker thread and may be shared.
        """
        self._path = path
        self._buffer_size = buffer_size
        self._levels = Levels(path=path)
        self._background = Background(executor=executor)
        self._compactor = Compactor(levels=self._levels, background=self._background, clock=now)
        # A fingerprint is in process until ``commit``, committed until a spill begins, and being
        # spilled until the worker has written it to a run.
        self._in_process: set[int] = set()
        self._committed: set[int] = set()
        self._spilling: set[int] = set()
        # The number of committed fingerprints at which they are spilled. It is larger than the
        # buffer size after a spill failed.
        self._spill_at = buffer_size
        # Directories that ``open`` created and whose names must be synced with the next snapshot.
        self._new_directories: list[Path] = []
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
        """Keep at most *buffer_size* committed fingerprints in memory, from the next commit on."""
        self._buffer_size = buffer_size
        self._spill_at = buffer_size

    def test(self, fp: int) -> bool:
        """Return whether a document with fingerprint *fp* was committed or is in process.

        If not, *fp* is in process from now on, until ``commit`` or ``discard`` is called. Blocks to
        read 8 kB of each large run: about 10 us each, mostly from the page cache. Raises
        CorruptRecordError if such a block is damaged, OSError if it cannot be read.
        """
        self._settle()
        self._counters["content/tested"] += 1
        if self.claim(fp):
            return False
        self._counters["content/duplicates"] += 1
        return True

    def claim(self, fp: int) -> bool:
        """Return whether *fp* is new; if so, it is in process from now on.

        For fingerprints that are not those of documents: the stats do not count them.
        """
        if self._is_known(fp):
            return False
        self._in_process.add(fp)
        return True

    def _is_known(self, fp: int) -> bool:
        """Return whether *fp* is in process or was committed; may read 8 kB of each run."""
        return (
            fp in self._in_process
            or fp in self._committed
            or fp in self._spilling
            or any(fp in run for run in reversed(self._levels.runs))
        )

    def commit(self, fp: int) -> None:
        """Mark *fp* as seen permanently, because its document was processed.

        This survives a restart once the caller has written *fp* to its own log. When that log is
        replayed, *fp* need not be in process.
        """
        self._in_process.discard(fp)
        self._committed.add(fp)
        self._settle()

    def discard(self, fp: int) -> None:
        """Forget *fp*, because processing its document failed."""
        self._in_process.discard(fp)

    # Work in the background

    def _settle(self) -> None:
        """Install the result of finished background work, and start the next piece of work."""
        has_ended = self._background.ended
        if has_ended:
            try:
                self._background.settle()
            except (OSError, CorruptRecordError) as error:
                self._spill_failed(error)

        spill_due = len(self._committed) >= self._spill_at
        if self._background.busy:
            # The spill starts when the slice of compaction that may be running has ended.
            if spill_due:
                self._compactor.give_way()
            return

        # Without finished work the levels have not changed, so nothing new needs compaction.
        # A spill and a slice of compaction that are both due take turns.
        compaction_started = (has_ended or spill_due) and self._compactor.start(
            others_wait=spill_due
        )
        if spill_due and not compaction_started:
            self._start_spill()

    def _start_spill(self) -> None:
        """Write the committed fingerprints to a new run, in the worker."""
        self._spilling = self._committed
        self._committed = set()
        fps = list(self._spilling)
        runs = list(self._levels.runs)
        path = self._levels.next_file()
        self._background.start(lambda: _spill(fps, runs, path), self._install_spilled)

    def _install_spilled(self, spilled: tuple[Run | None, float]) -> None:
        """Add the new run, if any; *spilled* is the result of ``_spill``."""
        run, seconds = spilled
        self._spilling = set()
        self._spill_at = self._buffer_size
        if run is not None:
            self._levels.add(run)
        self._counters["content/spill/count"] += 1
        self._counters["content/spill/seconds"] += seconds

    def _spill_failed(self, error: Exception) -> None:
        """Keep all fingerprints in memory and in snapshots; retry after another full buffer."""
        # The work that failed may have been a compaction instead; then nothing was being spilled.
        self._compactor.abandon()
        self._committed |= self._spilling
        self._spilling = set()
        self._spill_at = len(self._committed) + self._buffer_size
        self._counters["content/spill/failed"] += 1
        if self._counters["content/spill/failed"] == 1:
            logger.error(
                "Could not move content fingerprints to disk: %s; they stay in memory. "
                "Further failures are only counted in content/spill/failed",
                error,
            )

    # State on disk

    def open(self, snapshot: bytes | None) -> None:
        """Restore *snapshot*; the caller then commits again what was committed after it.

        Raises CorruptRecordError if a file that the snapshot names is damaged, NewerFormatError if
        a later webcrawl wrote one.
        """
        self._new_directories = make_directory(self._path)
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
        """Return the state, encoded for ``open``; takes a few ms."""
        self._settle()
        # Runs that are still being written are not in the snapshot, so their fingerprints are.
        committed = array("Q", self._committed)
        committed.extend(self._spilling)
        return msgspec.msgpack.encode(
            ContentSnapshot(VERSION, self._levels.snapshot(), committed.tobytes())
        )

    def written(self) -> list[Path]:
        """Return files and directories to fsync before the last snapshot may be published."""
        return [*self._levels.written(), self._path, *self._new_directories]

    def forget(self) -> None:
        """Delete, in the worker, files not named by the last snapshot, which is now published."""
        self._new_directories = []
        self._background.delete(self._levels.forget())

    def stats(self) -> dict[str, float]:
        """Return counters and gauges since ``open``, by their names in Scrapy's stats."""
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
        """Wait for the worker and close all files. The directory can still be recovered."""
        self._compactor.give_way()
        self._background.close("Moving content to disk failed; the next checkpoint includes it")
        self._compactor.abandon()
        self._levels.close()


def _spill(fps: Sequence[int], runs: Sequence[Run], path: Path) -> tuple[Run | None, float]:
    """Write those *fps* that are not in any of *runs* to a new run at *path*.

    Returns the run, or None if there are no such fingerprints, and the seconds it took. Blocks: to
    be called in a worker thread.
    """
    started = now()
    keys = np.array(fps, dtype=np.uint64)
    keys.sort()
    # A replayed commit may have been spilled before, and no fingerprint may be in two runs.
    keys = keys[~find(runs, keys)]
    run = write_run(path, [keys]) if len(keys) else None
    return run, now() - started
