"""Parked URLs (beyond a budget, in a trap): one FIFO queue on disk for each reason.

Beside the front end: entries are put here on their way to it, or when they were handed out and
not fetched, and go on to it in passes. A pass looks once at each entry that was parked for its
reasons when it began; those that are parked again meanwhile join the end, where this pass does not
come. The invariant: an entry is here or elsewhere in the frontier, never both.

What is parked is durable with the next snapshot, and what was let in since the last one is parked
again after a crash, to be skipped or judged once more. Passes are not saved.
"""

from __future__ import annotations

import re
import shutil
from contextlib import ExitStack
from typing import TYPE_CHECKING

from webcrawl.frontier.snapshot import FrontierCounts
from webcrawl.storage.fifo import DiskFifo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from webcrawl.frontier.finished import FinishedKeys
    from webcrawl.frontier.front_end import FrontEnd
    from webcrawl.storage.fifo import FifoSnapshot

    # Encoded entries to those that nothing holds and, by reason, those that are to be parked.
    Sort = Callable[[list[bytes]], tuple[list[bytes], Mapping[str, list[bytes]]]]

# Entries per frame, and so twice as many for each reason in memory (about 60 kB).
CHUNK = 256
# A reason names a directory and a stat. There are few: one for each kind of rule that parks.
_REASON = re.compile(r"[a-z][a-z0-9_]{0,31}")


class Parked:
    """The queues in ``<path>/<reason>/``. Not thread-safe; memory does not grow with their length.

    *size* counts the entries, *due* those that the pass under way has still to look at.
    """

    def __init__(
        self, *, path: Path, front: FrontEnd, finished: FinishedKeys, chunk: int = 0
    ) -> None:
        self.path = path
        self._chunk = chunk or CHUNK
        self._front = front
        self._finished = finished
        self._counts = FrontierCounts()
        self.size = 0
        self.due = 0
        self._fifos: dict[str, DiskFifo] = {}
        self._due: dict[str, int] = {}

    def open(self, snapshots: Mapping[str, FifoSnapshot], *, counts: FrontierCounts) -> None:
        """Take up *snapshots*, and delete what a process left that did not come to its own.

        From now on *counts* are the frontier's.
        """
        self._counts = counts
        for reason in {path.name for path in self.path.glob("*/")} | snapshots.keys():
            self._queue(reason).open(snapshots.get(reason))
        self.size = sum(map(len, self._fifos.values()))

    @property
    def counts(self) -> dict[str, int]:
        """How many entries wait for each reason that there is or was."""
        return {reason: len(fifo) for reason, fifo in self._fifos.items()}

    def push(self, reason: str, entries: Sequence[bytes]) -> None:
        """Append encoded *entries* to those that wait for *reason*, a short word.

        They are durable with the next published snapshot; until then the caller must be able to
        submit them again. OSError (disk full) comes after all of them were taken over. ValueError
        for a reason that is no word.
        """
        fifo = self._fifos.get(reason)
        if fifo is None:
            if not _REASON.fullmatch(reason):
                raise ValueError(f"{reason!r} is no reason: a word in lower case, of 32 at most")
            fifo = self._queue(reason)
            fifo.open(None)
        self._counts.held += len(entries)
        self.size += len(entries)
        fifo.push_many(entries)

    def _queue(self, reason: str) -> DiskFifo:
        fifo = self._fifos[reason] = DiskFifo(path=self.path / reason, chunk=self._chunk)
        return fifo

    def begin_pass(self, reasons: Iterable[str]) -> None:
        """All that is parked now for one of *reasons* is to be looked at; what a pass under way
        has yet to look at besides stays so."""
        for reason in reasons:
            if reason in self._fifos:
                self._due[reason] = len(self._fifos[reason])
        self.due = sum(self._due.values())

    def reconsider(self, limit: int, sort: Sort) -> int:
        """Go on with the pass by up to *limit* entries; returns how many, 0 at its end.

        *sort* gets them in their order, without those that turned out to be finished, and says
        which are parked again; the others are pushed to the front end. None is lost when it raises,
        nor by OSError. About 2 us for each, and what *sort* takes.
        """
        if not self.due:
            return 0
        reason = next(reason for reason, due in self._due.items() if due)
        return self.release(reason, min(self._due[reason], limit), sort)

    def release(self, reason: str, limit: int, sort: Sort) -> int:
        """As ``reconsider``, of what is parked for *reason*, in or out of a pass."""
        batch = self._take(reason, min(len(self._fifos[reason]), limit))
        waiting = [data for data in batch if not self._finished.hides(data)]
        try:
            free, held = sort(waiting)
        except BaseException:
            for data in reversed(waiting):
                self._fifos[reason].push_front(data)
            self._count(reason, len(waiting))
            raise
        self._counts.admitted += len(free)
        with ExitStack() as stack:
            for again, entries in held.items():
                stack.callback(self.push, again, entries)
            self._front.push(free)
        return len(batch)

    def _take(self, reason: str, count: int) -> list[bytes]:
        """The next *count* entries of *reason*. On OSError, CorruptRecordError none was taken."""
        fifo = self._fifos[reason]
        batch: list[bytes] = []
        try:
            while len(batch) < count:
                batch.append(fifo.pop())
        except BaseException:
            for data in reversed(batch):
                fifo.push_front(data)
            raise
        self._count(reason, -count)
        return batch

    def _count(self, reason: str, change: int) -> None:
        """So many more entries are at the head of the queue, where a pass has yet to look."""
        self.size += change
        if reason in self._due:
            self._due[reason] += change
            self.due += change

    def drop(self, reason: str) -> None:
        """Nothing will be parked for *reason* any more, nothing is, and nothing was in the last
        snapshot that was published: its files go."""
        del self._fifos[reason]
        shutil.rmtree(
            self.path / reason, ignore_errors=True
        )  # what is left is cut at the next start

    def snapshot(self) -> dict[str, FifoSnapshot]:
        """The state of each queue that is not empty; costs what is in memory."""
        snapshots = {reason: fifo.snapshot() for reason, fifo in self._fifos.items()}
        return {reason: kept for reason, kept in snapshots.items() if len(self._fifos[reason])}

    def written(self) -> list[Path]:
        return [path for fifo in self._fifos.values() for path in fifo.written()]

    def forget(self) -> None:
        for fifo in self._fifos.values():
            fifo.forget()
