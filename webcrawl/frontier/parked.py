"""Parked URLs (over a budget, in a trap): one FIFO queue on disk for each reason.

The queues stand next to the front end. Entries are put here on their way to it, or after they were
handed out and not fetched, and move on to it in passes. A pass looks once at each entry that was
parked for its reasons when it began; entries parked meanwhile join the end, which this pass does
not reach. The invariant: an entry is here or elsewhere in the frontier, never both.

Parked entries are durable with the next snapshot. After a crash, entries admitted since the last
one are parked again, to be skipped or checked once more. Passes are not saved.
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

    # Splits encoded entries into those to admit and, by reason, those to park.
    Classify = Callable[[list[bytes]], tuple[list[bytes], Mapping[str, list[bytes]]]]

# Entries per frame. Two frames for each reason are in memory, about 60 kB.
CHUNK = 256
# A reason names a directory and a stat. There are few: one for each kind of rule that parks URLs.
_REASON = re.compile(r"[a-z][a-z0-9_]{0,31}")


class Parked:
    """The queues in ``<path>/<reason>/``. Not thread-safe; memory does not grow with their length.

    *size* counts the entries, *due* those that the current pass has yet to look at.
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
        """Restore the queues from *snapshots*, and delete files that these do not name.

        From now on events are counted in *counts*, the frontier's.
        """
        self._counts = counts
        for reason in {path.name for path in self.path.glob("*/")} | snapshots.keys():
            self._queue(reason).open(snapshots.get(reason))
        self.size = sum(map(len, self._fifos.values()))

    @property
    def counts(self) -> dict[str, int]:
        """Number of entries by reason, including reasons for which nothing waits any more."""
        return {reason: len(fifo) for reason, fifo in self._fifos.items()}

    def push(self, reason: str, entries: Sequence[bytes]) -> None:
        """Append encoded *entries* to those that wait for *reason*, a short word.

        They are durable with the next published snapshot; until then the caller must be able to
        submit them again. OSError (disk full) is raised after all were added. Raises ValueError if
        *reason* is not a word.
        """
        fifo = self._fifos.get(reason)
        if fifo is None:
            if not _REASON.fullmatch(reason):
                raise ValueError(f"{reason!r} must be a lower-case word of at most 32 characters")
            fifo = self._queue(reason)
            fifo.open(None)
        self._counts.held += len(entries)
        self.size += len(entries)
        fifo.push_many(entries)

    def _queue(self, reason: str) -> DiskFifo:
        fifo = self._fifos[reason] = DiskFifo(path=self.path / reason, chunk_items=self._chunk)
        return fifo

    def begin_pass(self, reasons: Iterable[str]) -> None:
        """Start a pass over everything parked for *reasons*; a pass under way continues as well."""
        for reason in reasons:
            if reason in self._fifos:
                self._due[reason] = len(self._fifos[reason])
        self.due = sum(self._due.values())

    def reconsider(self, limit: int, classify: Classify) -> int:
        """Continue the pass by up to *limit* entries; return how many, 0 at its end.

        *classify* receives entries in order, without those that turn out to be finished, and says
        which are parked again; the others are pushed to the front end. None is lost if it raises,
        or on OSError. About 2 us per entry, plus the time of *classify*.
        """
        if not self.due:
            return 0
        reason = next(reason for reason, due in self._due.items() if due)
        return self.release(reason, min(self._due[reason], limit), classify)

    def release(self, reason: str, limit: int, classify: Classify) -> int:
        """Reconsider up to *limit* entries of *reason*, in or out of a pass; return how many."""
        batch = self._take(reason, min(len(self._fifos[reason]), limit))
        waiting = [data for data in batch if not self._finished.hides(data)]
        try:
            admitted, held = classify(waiting)
        except BaseException:
            for data in reversed(waiting):
                self._fifos[reason].push_front(data)
            self._count(reason, len(waiting))
            raise
        self._counts.admitted += len(admitted)
        with ExitStack() as stack:
            for new_reason, entries in held.items():
                stack.callback(self.push, new_reason, entries)
            self._front.push(admitted)
        return len(batch)

    def _take(self, reason: str, count: int) -> list[bytes]:
        """Remove and return the next *count* entries of *reason*.

        On OSError or CorruptRecordError none is removed.
        """
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

    def _count(self, reason: str, added: int) -> None:
        """Count *added* entries at the head of the queue, where a pass has yet to look."""
        self.size += added
        if reason in self._due:
            self._due[reason] += added
            self.due += added

    def drop(self, reason: str) -> None:
        """Delete the files of *reason*.

        Nothing may be parked for it any more, nor have been in the last published snapshot.
        """
        del self._fifos[reason]
        shutil.rmtree(
            self.path / reason, ignore_errors=True
        )  # leftover files are deleted at the next start

    def snapshot(self) -> dict[str, FifoSnapshot]:
        """Return the state of each queue that is not empty; costs what is in memory."""
        snapshots = {reason: fifo.snapshot() for reason, fifo in self._fifos.items()}
        return {reason: kept for reason, kept in snapshots.items() if len(self._fifos[reason])}

    def written(self) -> list[Path]:
        return [path for fifo in self._fifos.values() for path in fifo.written()]

    def forget(self) -> None:
        for fifo in self._fifos.values():
            fifo.forget()
