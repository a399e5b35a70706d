"""The front end: k FIFO queues on disk, one for each priority level (Mercator, figure 3).

The frontier pushes here and refills the back end from here. The invariant: the list of non-empty
levels that the selector chooses from is exact, so a chosen queue always has an entry.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING

from webcrawl.frontier.entry import decode
from webcrawl.frontier.recount import differing
from webcrawl.storage.fifo import DiskFifo

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from webcrawl.frontier.prioritizer import Prioritizer
    from webcrawl.frontier.selector import Selector
    from webcrawl.storage.fifo import FifoSnapshot

# Entries per frame, and so twice as many of each level in memory (with 16 levels about 1 MB).
CHUNK = 256


class FrontEnd:
    """The level queues in ``<path>/<level>/``. Not thread-safe."""

    def __init__(self, *, path: Path, prioritizer: Prioritizer, selector: Selector) -> None:
        self.path = path
        self.size = 0
        self._prioritizer = prioritizer
        self._selector = selector
        self._fifos: list[DiskFifo] = []
        self._waiting: list[int] = []
        self._filled: list[int] = []

    def open(self, snapshots: Sequence[FifoSnapshot]) -> None:
        """Take up *snapshots*, one for each level, none for a new frontier.

        Levels that the prioritizer has no more are kept: nothing is pushed there, the selector
        drains them, and what a process left there that did not come to its snapshot is deleted.
        """
        found = [int(path.name) for path in self.path.glob("*/")]
        levels = max([self._prioritizer.levels, len(snapshots), *found])
        for index in range(levels):
            fifo = DiskFifo(path=self.path / f"{index + 1:02d}", chunk=CHUNK)
            fifo.open(snapshots[index] if index < len(snapshots) else None)
            self._fifos.append(fifo)
        self._waiting = [len(fifo) for fifo in self._fifos]
        self._filled = [index + 1 for index, waiting in enumerate(self._waiting) if waiting]
        self.size = sum(self._waiting)

    def push(self, entries: Sequence[bytes]) -> None:
        """Append encoded *entries* to the queues that the prioritizer names.

        OSError (disk full) comes after all of them were taken over, in memory where the disk
        refused: none is lost, and the caller can still make a snapshot and stop.
        """
        level_of = self._prioritizer.level
        batches: dict[int, list[bytes]] = {}
        for data in entries:
            level = level_of(decode(data))
            batch = batches.get(level)
            if batch is None:
                batch = batches[level] = []
            batch.append(data)
        for level in batches:
            if not 1 <= level <= self._prioritizer.levels:
                raise ValueError(
                    f"{type(self._prioritizer).__name__} gave level {level}, "
                    f"outside 1..{self._prioritizer.levels}"
                )
        failure: OSError | None = None
        for level, batch in batches.items():
            index = level - 1
            if not self._waiting[index]:
                bisect.insort(self._filled, level)
            self._waiting[index] += len(batch)
            self.size += len(batch)
            try:
                self._fifos[index].push_many(batch)
            except OSError as error:
                failure = error
        if failure is not None:
            raise failure

    def pop(self) -> bytes:
        """Remove and return the oldest entry of the level that the selector chooses.

        Raises IndexError when the front end is empty.
        """
        if not self._filled:
            raise IndexError("pop from an empty front end")
        level = self._selector.choose(self._filled)
        data = self._fifos[level - 1].pop()
        self.size -= 1
        waiting = self._waiting[level - 1] = self._waiting[level - 1] - 1
        if not waiting:
            self._filled.remove(level)
        return data

    def snapshot(self) -> list[FifoSnapshot]:
        """The state of each level; costs what is in memory."""
        return [fifo.snapshot() for fifo in self._fifos]

    def written(self) -> list[Path]:
        return [path for fifo in self._fifos for path in fifo.written()]

    def forget(self) -> None:
        for fifo in self._fifos:
            fifo.forget()

    def check(self) -> list[str]:
        """Count again; empty means sound. Reads every waiting entry from disk."""
        lengths = [len(fifo) for fifo in self._fifos]
        filled = [level for level, size in enumerate(lengths, 1) if size]
        found = differing(
            ("entries of the levels", self._waiting, lengths),
            ("entries of the front end", self.size, sum(lengths)),
            ("levels with entries", self._filled, filled),
        )
        return found + [problem for fifo in self._fifos for problem in fifo.check()]
