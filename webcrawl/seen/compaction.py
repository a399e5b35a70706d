"""Compaction: merges many runs into a few, in slices between other work of the worker thread.

Used by the eliminator and the content-seen test, in addition to their merges. The invariant: the
old runs stay in use until the new one is finished, and their files until no snapshot names them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from webcrawl.clock import TimeSource
from webcrawl.seen.background import Background
from webcrawl.seen.levels import Levels, merge_runs
from webcrawl.seen.runs import Fingerprints, Run, RunWriter

logger = logging.getLogger(__name__)

# A compaction gives way to a merge only after this many seconds. Otherwise frequent merges could
# let the runs pile up, and each merge would be slower than the last.
_SLICE_SECS = 0.2
# Smaller compactions are logged at DEBUG, because a young crawl makes many.
_MIN_LOGGED = 1 << 16


class Compactor:
    """Compacts *levels* when one of them has too many runs, taking turns with other work.

    *background* runs that work, too. *clock* returns seconds.
    """

    def __init__(self, *, levels: Levels, background: Background, clock: TimeSource) -> None:
        #: Number of finished compactions, and the seconds that they took.
        self.count = 0
        self.seconds = 0.0
        self._levels = levels
        self._background = background
        self._clock = clock
        # Whether other work has had its turn, so that a slice of compaction is next.
        self._is_next_turn = False
        # The compaction in progress: the runs that are merged (none between compactions), their
        # remaining fingerprints, and the new run's file, whose writer is None before the first
        # slice.
        self._runs: list[Run] = []
        self._chunks: Iterator[Fingerprints] = iter(())
        self._path = Path()
        self._writer: RunWriter | None = None
        self._seconds_so_far = 0.0
        # Whether the slice should end because other work waits. The crawl's thread sets it, and the
        # worker reads it between chunks.
        self._pause = False

    def start(self, *, others_wait: bool) -> bool:
        """Start a slice of compaction in the idle worker; return whether it was started.

        It is not started if nothing needs to be compacted. With *others_wait*, it takes turns with
        that other work, so every second call does not start it either.
        """
        # Runs that are left from the last slice are compacted further before others.
        if not self._runs and (crowded := self._levels.crowded_runs()):
            self._runs = crowded
            self._chunks = merge_runs(crowded)
            self._path = self._levels.next_file()
            self._seconds_so_far = 0.0
        if not self._runs:
            return False

        if others_wait and not self._is_next_turn:
            self._is_next_turn = True
            return False

        self._is_next_turn = False
        self._pause = others_wait
        self._background.start(self._run_slice, self._install)
        return True

    def give_way(self) -> None:
        """End the running slice when its time is over, because other work is waiting."""
        self._pause = True

    def _run_slice(self) -> Run | None:
        """Continue the compaction for one slice; return the new run if that finished it.

        Runs in the worker.
        """
        started = self._clock()
        if self._writer is None:
            self._writer = RunWriter(path=self._path)
        for chunk in self._chunks:
            self._writer.append(chunk)
            if self._pause and self._clock() - started >= _SLICE_SECS:
                self._seconds_so_far += self._clock() - started
                return None
        run = self._writer.finish()
        self._seconds_so_far += self._clock() - started
        return run

    def _install(self, run: Run | None) -> None:
        """Replace the old runs with *run*; if it is None, the compaction needs more slices."""
        if run is None:
            return

        self._levels.replace(self._runs, run)
        logger.log(
            logging.INFO if run.count >= _MIN_LOGGED else logging.DEBUG,
            "Compacted %d sorted runs into one of %d fingerprints in %.3f s",
            len(self._runs),
            run.count,
            self._seconds_so_far,
        )
        self.count += 1
        self.seconds += self._seconds_so_far
        self._runs = []
        self._writer = None

    def abandon(self) -> None:
        """Stop a compaction that failed or is between slices, and delete its unfinished file.

        The old runs stay as they are.
        """
        if self._writer is not None:
            self._writer.abandon()
        self._runs = []
        self._writer = None
