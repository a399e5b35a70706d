"""The front end: holds waiting URLs and decides which is next (Mercator, section 3.1, figure 3).

The frontier pushes entries here and refills the back end from here, one entry at a time. Entries
are sorted by host only in the back end, so a custom front end (FRONTIER_FRONT_END) cannot break
politeness. The invariant: the list of non-empty levels is exact, so the chosen queue always has an
entry.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from webcrawl.frontier.entry import Entry, decode, fields_after_url
from webcrawl.frontier.prioritizer import Prioritizer
from webcrawl.frontier.selector import Selector
from webcrawl.storage.fifo import DiskFifo, FifoSnapshot

# Entries per frame. Two frames of each level are in memory: about 1 MB with 16 levels.
CHUNK = 256


class FrontEnd(Protocol):
    """Interface of a front end.

    It is called in the reactor's thread, so each entry may take a few microseconds. Its constructor
    takes the keyword arguments ``path`` (a directory of its own), ``prioritizer`` and ``selector``,
    and does not touch the disk. Entries are pushed and popped as bytes (``entry.decode``), each
    exactly once, in any order in which no entry waits for ever. They wait in ``DiskFifo`` queues in
    ``path/01``, ``path/02``, ..., as in ``LevelQueues``. So other processes (why, job check) find
    them, memory is bounded, and the crawl can continue with another front end.
    """

    @property
    def size(self) -> int:
        """Number of waiting entries."""
        ...

    def open(self, snapshots: Sequence[FifoSnapshot]) -> None:
        """Restore the queues 01, 02, ... from *snapshots*, and delete files that they do not name.

        The snapshots may come from another front end. A new frontier has none.
        """
        ...

    def push(self, entries: Sequence[bytes]) -> None:
        """Add *entries*. OSError (disk full) is raised after all were added, at least in memory."""
        ...

    def pop(self) -> bytes:
        """Remove and return the next entry. Raises IndexError if there is none."""
        ...

    def snapshot(self) -> list[FifoSnapshot]:
        """Return the state of each queue, to be published. Only copies what is in memory."""
        ...

    def written(self) -> list[Path]:
        """Return files and directories written since the last call, to fsync before publishing."""
        ...

    def forget(self) -> None:
        """Delete files that only older snapshots name, once the last snapshot is published."""
        ...


class LevelQueues:
    """FIFO queues on disk, numbered from 1: the building block of front ends.

    They are stored in ``<path>/<level>/``. *size* is the number of entries; *filled* lists the
    numbers of the non-empty queues, ascending. Not thread-safe.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self.filled: list[int] = []
        # The queues, and the number of entries in each. Queue 1 has the index 0.
        self._fifos: list[DiskFifo] = []
        self._waiting: list[int] = []

    def open(self, snapshots: Sequence[FifoSnapshot], *, levels: int) -> None:
        """Restore the queues from *snapshots*, one for each; make at least *levels* queues.

        A new frontier has no snapshots. Files that no snapshot names are deleted.
        """
        # Queues of an earlier configuration are opened, too, even if there are more of them.
        levels_on_disk = [int(path.name) for path in self.path.glob("*/")]
        for index in range(max([levels, len(snapshots), *levels_on_disk])):
            fifo = DiskFifo(path=self.path / f"{index + 1:02d}", chunk_items=CHUNK)
            fifo.open(snapshots[index] if index < len(snapshots) else None)
            self._fifos.append(fifo)

        self._waiting = [len(fifo) for fifo in self._fifos]
        self.filled = [index + 1 for index, waiting in enumerate(self._waiting) if waiting]
        self.size = sum(self._waiting)

    def push(self, batches: Mapping[int, Sequence[bytes]]) -> None:
        """Append entries to the queues; *batches* maps a queue's number to its new entries.

        No batch may be empty. Raises ValueError if there is no such queue, and OSError like
        ``FrontEnd.push``.
        """
        failure: OSError | None = None
        for level, batch in batches.items():
            index = level - 1
            if not 0 <= index < len(self._fifos):
                raise ValueError(
                    f"an entry was given level {level}, not within 1 to {len(self._fifos)}"
                )
            if not self._waiting[index]:
                bisect.insort(self.filled, level)
            self._waiting[index] += len(batch)
            self.size += len(batch)
            # The other batches must be added even if the disk is full.
            try:
                self._fifos[index].push_many(batch)
            except OSError as error:
                failure = error
        if failure is not None:
            raise failure

    def pop(self, level: int) -> bytes:
        """Remove and return the oldest entry of the queue *level*, which must not be empty."""
        data = self._fifos[level - 1].pop()
        self.size -= 1
        waiting = self._waiting[level - 1] - 1
        self._waiting[level - 1] = waiting
        if not waiting:
            self.filled.remove(level)
        return data

    def snapshot(self) -> list[FifoSnapshot]:
        """Return the state of each queue, to be published. See ``FrontEnd.snapshot``."""
        return [fifo.snapshot() for fifo in self._fifos]

    def written(self) -> list[Path]:
        """Return files and directories to fsync before publishing. See ``FrontEnd.written``."""
        return [path for fifo in self._fifos for path in fifo.written()]

    def forget(self) -> None:
        """Delete files that only older snapshots name. See ``FrontEnd.forget``."""
        for fifo in self._fifos:
            fifo.forget()


class MercatorFrontEnd:
    """Front end with one queue per level of the prioritizer; the selector chooses the next queue.

    Levels that the prioritizer no longer uses are kept: nothing is pushed there, and the selector
    drains them. Visits of URLs that were finished before have a queue of their own, after all
    levels, and alternate with the other entries.
    """

    def __init__(self, *, path: Path, prioritizer: Prioritizer, selector: Selector) -> None:
        queues = LevelQueues(path)
        self._queues = queues
        self._prioritizer = prioritizer
        self._judges_groups = getattr(prioritizer, "judges_groups", False)
        self._selector = selector
        # The number of the queue of visits, and whether ``pop`` should take a visit next.
        self._visits = prioritizer.levels + 1
        self._is_visit_next = False
        # These methods of the interface are those of the queues.
        self.snapshot = queues.snapshot
        self.written = queues.written
        self.forget = queues.forget

    @property
    def size(self) -> int:
        """Number of waiting entries."""
        return self._queues.size

    def open(self, snapshots: Sequence[FifoSnapshot]) -> None:
        """Restore the queues from *snapshots*. See ``FrontEnd.open``."""
        self._queues.open(snapshots, levels=self._visits)

    def push(self, entries: Sequence[bytes]) -> None:
        """Append *entries* to the queues that the prioritizer chooses.

        Raises like ``LevelQueues.push``.
        """
        batches: dict[int, list[bytes]] = {}
        # By the fields after their URLs, the levels of the groups that begin in *entries*.
        levels: dict[bytes, int] = {}
        for data in entries:
            fields = fields_after_url(data) if self._judges_groups else data
            level = levels.get(fields)
            if level is None:
                level = self._level(decode(data))
                levels[fields] = level
            batches.setdefault(level, []).append(data)
        self._queues.push(batches)

    def _level(self, entry: Entry) -> int:
        """Return the number of the queue for *entry*. Raises ValueError if there is none."""
        if entry.history:
            return self._visits
        if entry.score < 0:  # the page with the link may be a soft error
            return self._visits - 1
        level = self._prioritizer.level(entry)
        # A custom prioritizer may return too large a level; ``LevelQueues`` notices others.
        if level >= self._visits:
            raise ValueError(
                f"an entry was given level {level}, not within 1 to {self._visits - 1}"
            )
        return level

    def pop(self) -> bytes:
        """Remove and return a visit, or the oldest entry of the level that the selector chooses.

        Raises IndexError when all queues are empty.
        """
        filled = self._queues.filled
        if not filled:
            raise IndexError("pop from an empty front end")

        # Visits alternate with the other entries, if there are any.
        if self._visits in filled:
            if self._is_visit_next or len(filled) == 1:
                self._is_visit_next = False
                return self._queues.pop(self._visits)
            self._is_visit_next = True
            filled = [level for level in filled if level != self._visits]

        return self._queues.pop(self._selector.choose(filled))


def check_entry_counts(front: FrontEnd) -> None:
    """Make *front*, a custom front end, raise RuntimeError if it loses or repeats an entry.

    The error ends the crawl before damage is done; the same command resumes it from the last
    checkpoint.
    """

    def wrap(call: Callable[..., Any], growth: Callable[..., int]) -> Callable[..., Any]:
        """Wrap *call* to check that it adds as many entries as *growth* predicts.

        *growth* gets the arguments of the call.
        """

        def call_and_check(*args: Any) -> Any:
            size = front.size + growth(*args)
            result = call(*args)
            if front.size != size:
                raise RuntimeError(
                    f"FRONTIER_FRONT_END lost or repeated an entry ({front.size:,}, not {size:,})"
                )
            return result

        return call_and_check

    # Once, at the start.
    front.push = wrap(front.push, len)  # type: ignore[method-assign]
    front.pop = wrap(front.pop, lambda: -1)  # type: ignore[method-assign]
