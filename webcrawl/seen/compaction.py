"""Compaction: few runs made of many, in slices between the other work of the worker thread.

Used by the eliminator and the content-seen test beside their merges. The invariant: the old runs
stay in use until the new one is finished, and their files until no snapshot names them.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from webcrawl.seen.levels import merged
from webcrawl.seen.runs import RunWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from webcrawl.seen.background import Background
    from webcrawl.seen.levels import Levels
    from webcrawl.seen.runs import Run

logger = logging.getLogger(__name__)

# A compaction gives way to a merge only after this long, so that merges without end cannot let
# the runs pile up, which would make each merge slower than the last.
_SLICE_SECS = 0.2
# Compactions of fewer fingerprints are logged at DEBUG: a young crawl makes many.
_LOGGED = 1 << 16


class Compaction:
    """One merge of some runs into one, in slices. The work of one worker at a time.

    ``pause`` is set by the crawl's thread and read by the worker between chunks. ``seconds`` is
    the time it has taken.
    """

    def __init__(self, *, runs: Sequence[Run], path: Path, clock: Callable[[], float]) -> None:
        self.runs = list(runs)
        self.pause = False
        self.seconds = 0.0
        self._path = path
        self._clock = clock
        self._chunks = merged(self.runs)
        self._writer: RunWriter | None = None

    def advance(self) -> Run | None:
        """Go on until done, or until ``pause`` is set and a slice is over; a finished run, or None.

        After an exception the half-written file is gone and the compaction is void.
        """
        started = self._clock()
        try:
            if self._writer is None:
                self._writer = RunWriter(path=self._path)
            for chunk in self._chunks:
                self._writer.append(chunk)
                if self.pause and self._clock() - started >= _SLICE_SECS:
                    return None
            return self._writer.finish()
        except BaseException:
            self.abandon()
            raise
        finally:
            self.seconds += self._clock() - started

    def abandon(self) -> None:
        """Give up and delete the half-written file; the old runs stay as they are."""
        if self._writer is not None:
            self._writer.abandon()


class Compactor:
    """Compacts *levels* when they are crowded, taking turns with the other work."""

    def __init__(
        self, *, levels: Levels, background: Background, clock: Callable[[], float]
    ) -> None:
        self.count = 0
        self.seconds = 0.0
        self._levels = levels
        self._background = background
        self._clock = clock
        self._compaction: Compaction | None = None
        self._is_next = False

    def start(self, *, others_wait: bool) -> bool:
        """Give the idle worker a slice of compaction to do; False when the others go first."""
        if self._compaction is None and (crowded := self._levels.crowded()):
            path = self._levels.next_file()
            self._compaction = Compaction(runs=crowded, path=path, clock=self._clock)
        compaction = self._compaction
        if compaction is None:
            return False
        if others_wait and not self._is_next:
            self._is_next = True
            return False
        self._is_next = False
        compaction.pause = others_wait
        self._background.start(compaction.advance, self._install)
        return True

    def give_way(self) -> None:
        """Other work has come: end the running slice when its time is over."""
        if self._compaction is not None:
            self._compaction.pause = True

    def _install(self, run: Run | None) -> None:
        compaction = self._compaction
        if run is None or compaction is None:  # a pause
            return
        self._compaction = None
        self._levels.replace(compaction.runs, run)
        self._background.delete(self._levels.disposable())
        self.count += 1
        self.seconds += compaction.seconds
        logger.log(
            logging.INFO if run.count >= _LOGGED else logging.DEBUG,
            "Compacted %d runs into one of %d fingerprints in %.3f s",
            len(compaction.runs),
            run.count,
            compaction.seconds,
        )

    def abandon(self) -> None:
        """Give up what is under way, in the worker or between slices; nothing is lost."""
        if self._compaction is not None:
            self._compaction.abandon()
            self._compaction = None
