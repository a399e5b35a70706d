"""Parked URLs (over a budget, in a trap): one FIFO queue on disk for each reason.

The queues stand next to the front end. Entries are parked on their way to the front end, or when
they were handed out but not fetched. They move on to the front end in passes. A pass is for some of
the reasons, and checks each entry once that was parked for these when the pass began. Entries
parked meanwhile are appended to a queue, where this pass does not reach them. The invariant: an
entry is here or elsewhere in the frontier, never both.

Parked entries are durable with the next snapshot. After a crash, entries admitted since the last
snapshot are parked again, to be skipped or checked once more. Passes are not saved.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from webcrawl.frontier.finished import FinishedKeys
from webcrawl.frontier.front_end import FrontEnd
from webcrawl.frontier.snapshot import FrontierCounts
from webcrawl.storage.fifo import DiskFifo, FifoSnapshot

# Splits encoded entries into those to admit and, by reason, those to park.
Classify = Callable[[list[bytes]], tuple[list[bytes], Mapping[str, list[bytes]]]]

# Entries per frame. Two frames for each reason are in memory, about 60 kB.
CHUNK = 256
# A reason names a directory and a stat. There are few: one for each kind of rule that parks URLs.
_REASON = re.compile(r"[a-z][a-z0-9_]{0,31}")


class Parked:
    """The queues in ``<path>/<reason>/``. Not thread-safe; memory does not grow with their length.

    *size* is the number of all entries, *due* of those that the current pass has yet to check.
    Events are counted in *counts*, the counters of the frontier. Entries leave for *front*, except
    those that are *finished*. A queue is written in frames of *chunk* entries, or of 256 if that is
    0.
    """

    def __init__(
        self,
        *,
        path: Path,
        front: FrontEnd,
        finished: FinishedKeys,
        counts: FrontierCounts,
        chunk: int = 0,
    ) -> None:
        self.path = path
        self._chunk = chunk or CHUNK
        self._front = front
        self._finished = finished
        self._counts = counts
        self.size = 0
        self.due = 0
        # By reason: the queue, and how many of its first entries the current pass has yet to check.
        self._fifos: dict[str, DiskFifo] = {}
        self._due: dict[str, int] = {}

    def open(self, snapshots: Mapping[str, FifoSnapshot]) -> None:
        """Restore the queues from *snapshots*, and delete files that these do not name."""
        for reason in {path.name for path in self.path.glob("*/")} | snapshots.keys():
            self._queue(reason).open(snapshots.get(reason))
        self.size = sum(map(len, self._fifos.values()))

    @property
    def counts(self) -> dict[str, int]:
        """Number of entries by reason, including reasons whose queue is empty now."""
        return {reason: len(fifo) for reason, fifo in self._fifos.items()}

    def push(self, reason: str, entries: Sequence[bytes]) -> None:
        """Append encoded *entries* to the queue of *reason*, a short word.

        They are durable with the next published snapshot; until then the caller must be able to
        submit them again. OSError (disk full) is raised after all entries were added. Raises
        ValueError if *reason* is not a word.
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
        """Create and return the queue of *reason*, which is not open yet."""
        fifo = DiskFifo(path=self.path / reason, chunk_items=self._chunk)
        self._fifos[reason] = fifo
        return fifo

    def begin_pass(self, reasons: Iterable[str]) -> None:
        """Start a pass over all entries parked for *reasons*.

        A pass that is under way for other reasons continues as well.
        """
        for reason in reasons:
            if reason in self._fifos:
                self._due[reason] = len(self._fifos[reason])
        self.due = sum(self._due.values())

    def reconsider(self, limit: int, classify: Classify) -> int:
        """Continue the pass by up to *limit* entries; return how many, 0 at its end.

        *classify* receives the entries in order, except those that turn out to be finished. It
        decides which are parked again; the others are pushed to the front end. No entry is lost if
        it raises, or on OSError. Takes about 2 us per entry, plus the time of *classify*.
        """
        if not self.due:
            return 0

        reason = next(reason for reason, due in self._due.items() if due)
        return self.release(reason, min(self._due[reason], limit), classify)

    def release(self, reason: str, limit: int, classify: Classify) -> int:
        """Admit or park again up to *limit* entries of *reason*; return how many were checked.

        *classify* decides about them, as in ``reconsider``. No pass needs to be under way.
        """
        batch = self._take(reason, min(len(self._fifos[reason]), limit))
        # After a crash, the queue may have entries that were finished meanwhile.
        waiting = [data for data in batch if not self._finished.use_up(data)]
        try:
            admitted, held = classify(waiting)
        except BaseException:
            # Put them back at the head of the queue, in their order.
            for data in reversed(waiting):
                self._fifos[reason].push_front(data)
            self._count(reason, len(waiting))
            raise

        # The stack parks the held entries after the others were admitted, even if a push raises
        # OSError. So all entries are put somewhere.
        self._counts.admitted += len(admitted)
        with ExitStack() as stack:
            for new_reason, entries in held.items():
                stack.callback(self.push, new_reason, entries)
            self._front.push(admitted)
        return len(batch)

    def _take(self, reason: str, count: int) -> list[bytes]:
        """Remove and return the next *count* entries of *reason*.

        If OSError or CorruptRecordError is raised, no entry is removed.
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
        """Count *added* more entries at the head of the queue, which a pass has yet to check."""
        self.size += added
        if reason in self._due:
            self._due[reason] += added
            self.due += added

    def drop(self, reason: str) -> None:
        """Delete the files of *reason*, for which no entry is parked.

        There must not have been one in the last published snapshot, either.
        """
        del self._fifos[reason]
        # Files that cannot be deleted now are deleted at the next start.
        shutil.rmtree(self.path / reason, ignore_errors=True)

    def snapshot(self) -> dict[str, FifoSnapshot]:
        """Return the state of each non-empty queue, by reason. Only copies what is in memory."""
        snapshots = {reason: fifo.snapshot() for reason, fifo in self._fifos.items()}
        return {reason: kept for reason, kept in snapshots.items() if len(self._fifos[reason])}

    def written(self) -> list[Path]:
        """Return the files and directories to fsync before the last snapshot is published."""
        return [path for fifo in self._fifos.values() for path in fifo.written()]

    def forget(self) -> None:
        """Delete files that only older snapshots name, once the last snapshot is published."""
        for fifo in self._fifos.values():
            fifo.forget()
