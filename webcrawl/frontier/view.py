"""Read-only view of a frontier's files, for processes other than the one that owns them.

Used by commands that explain and export. It takes no lock and changes nothing on disk: it reads the
last published snapshot, and the done log written since. An entry that the owner has since moved
only in memory is shown where it was at the time of the snapshot. The invariant: an entry that was
waiting then, or was requeued since, and is not recorded as finished, is found exactly once.

All methods read the disk. They raise CorruptRecordError for damage, and also when a newer snapshot
was published in the meantime, so that files are gone: the caller then starts over with that one.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from webcrawl.frontier.done_log import read_done_log
from webcrawl.frontier.due import due_name
from webcrawl.frontier.entry import SUBRESOURCE, Entry, decode
from webcrawl.frontier.finished import FinishedKeys
from webcrawl.frontier.overflow import overflow_path
from webcrawl.frontier.recovery import replay
from webcrawl.frontier.snapshot import QueueSnapshot, decode_snapshot
from webcrawl.storage.fifo import FifoSnapshot, length_of, read_fifo
from webcrawl.storage.record_log import CorruptRecordError, count_packed, pack_many, unpack


class Where(enum.Enum):
    """The kinds of places where an entry may wait."""

    LEASED = "leased"
    HOST_QUEUE = "host queue"
    LEVEL = "level"
    PARKED = "parked"
    DUE = "due"
    REQUEUED = "requeued"  # since the snapshot; after a restart it is in its level


class Queue(NamedTuple):
    """A queue in which entries wait, and its length.

    *name* is the level, host, reason or due queue; it is empty for other kinds. *pieces* yields the
    packed entries.
    """

    where: Where
    name: str
    length: int
    pieces: Callable[[], Iterator[bytes]]


class Found(NamedTuple):
    """An entry found in *queue*, at *position*, counted from 1.

    *gone* is the number of entries before it that were finished since the snapshot; they are not
    counted in *position*. Only entries that were decoded are counted in *gone*.
    """

    queue: Queue
    position: int
    gone: int
    entry: Entry


class HostTimes(NamedTuple):
    """The clock of a host, in epoch seconds.

    *ready_at* is when the host may be contacted, 0.0 if that is not known. *min_rest* is the rest
    in seconds that robots.txt or the host last asked for. *contact* is when the current contact
    began, 0.0 if the host is not in process. *length* is the number of entries in the host's
    back-end queue.
    """

    ready_at: float
    min_rest: float
    contact: float
    length: int


class FrontierView:
    """View of the frontier in the directory *path*: its *snapshot*, plus the events since then.

    With *trust_done* false the machine has gone down since the snapshot, and finished entries will
    be fetched again.
    """

    def __init__(self, *, path: Path, snapshot: bytes, trust_done: bool) -> None:
        self._path = path
        self._state = decode_snapshot(snapshot)
        self._since = replay(read_done_log(path / "done", self._state.segment), since=self._state)
        self._since.add_to(self._state.counts, trust_done=trust_done)
        self._trust_done = trust_done
        self.counts = self._state.counts
        #: Time until which all hosts rest, including unknown ones, epoch seconds.
        self.quiet = self._state.quiet
        #: If set, it is called for damage in a queue, and reading continues at the next segment.
        self.on_damage: Callable[[CorruptRecordError], object] | None = None
        # Number of entries in the further parts of each host's queue.
        self._further_entries = Counter[str]()
        for queue in self._state.queues:
            # *visits* is true for these parts.
            self._further_entries[queue.host] += queue.visits * _length(queue)

    @property
    def finished_since(self) -> int:
        """Number of entries that were finished since the snapshot."""
        return len(self._since.finished)

    # --- queues

    def queues(self) -> Iterator[Queue]:
        """Yield all queues, including empty ones, beginning with those handed out soonest."""
        state = self._state
        yield _in_memory(Where.LEASED, "", state.leased)
        yield from map(self._host_queue, state.queues)

        for number, fifo in enumerate(state.levels, start=1):
            path = self._path / "front" / f"{number:02d}"
            pieces = self._reader(path, fifo)
            yield Queue(Where.LEVEL, str(number), length_of(fifo), pieces)
        for reason, fifo in state.parked.items():
            pieces = self._reader(self._path / "parked" / reason, fifo)
            yield Queue(Where.PARKED, reason, length_of(fifo), pieces)
        for name, fifo in state.due.items():
            pieces = self._reader(self._path / "due" / name, fifo)
            yield Queue(Where.DUE, name, length_of(fifo), pieces)

        # Entries that a restart would read from the done log.
        requeues = self._since.requeues_to_apply(trust_done=self._trust_done)
        yield _in_memory(Where.REQUEUED, "", [requeue.data for requeue in requeues])
        if self._trust_done:
            for due in self._since.due:
                yield _in_memory(Where.DUE, due_name(due.at), [due.data])

    def _reader(self, path: Path, fifo: FifoSnapshot) -> Callable[[], Iterator[bytes]]:
        """Return a function that reads the queue *fifo* in the directory *path*, piece by piece."""
        return lambda: read_fifo(path, fifo, self.on_damage)

    def _host_queue(self, saved: QueueSnapshot) -> Queue:
        """Return the back-end queue that was saved as *saved*."""

        def pieces() -> Iterator[bytes]:
            if saved.items:
                yield pack_many(saved.items)
            if saved.overflow is not None:
                path = overflow_path(self._path / "back", saved.number)
                yield from read_fifo(path, saved.overflow, self.on_damage)

        return Queue(Where.HOST_QUEUE, saved.host, _length(saved), pieces)

    def entries(self, finished: FinishedKeys) -> Iterator[Found]:
        """Yield every entry that waits or is leased, in the order of ``queues``. About 1 us each.

        *finished* comes from ``finished_keys`` and hides the entries that were finished. Keys that
        are left in it afterwards belong to entries that have not left the eliminator yet.
        """
        return self.find(lambda _: True, finished, containing=b"")

    def find(
        self, is_match: Callable[[Entry], bool], finished: FinishedKeys, *, containing: bytes
    ) -> Iterator[Found]:
        """Yield those entries of ``entries`` for which *is_match* returns True.

        Subresources are left out: most of those that wait are in no file.

        Only entries whose encoding contains the bytes *containing*, such as a host's name, are
        decoded and passed to *is_match*; *finished* as in ``entries``. A million entries take a
        fifth of a second, and 2 us more for each entry that is decoded.
        """
        for queue in self.queues():
            position = 0  # number of entries in earlier pieces
            gone = 0
            for piece in queue.pieces():
                # Most pieces do not contain the bytes, and need not be unpacked.
                if containing in piece:
                    for number, data in enumerate(unpack(self._path, 0, piece), start=1):
                        if containing not in data:
                            continue
                        entry = decode(data)
                        if finished.use_up_entry(entry):
                            gone += 1
                        elif entry.kind != SUBRESOURCE and is_match(entry):
                            yield Found(queue, position + number - gone, gone, entry)
                position += count_packed(piece)

    def finished_keys(self) -> FinishedKeys:
        """Return the keys of entries that were finished and are still in a queue or will return."""
        keys = FinishedKeys()
        keys.add_bytes(self._state.finished)
        if self._trust_done:
            keys.add_all(record.key for record in self._since.finished)
        return keys

    # --- hosts

    def hosts(self) -> Iterator[tuple[str, HostTimes]]:
        """Yield the hosts with a back-end queue, and their clocks."""
        for saved in self._state.queues:
            if not saved.visits:
                yield saved.host, self._times(saved)

    def times(self, host: str) -> HostTimes:
        """Return the clock of *host*, as far as it is in the frontier's own files."""
        for saved in self._state.queues:
            if saved.host == host:
                return self._times(saved)

        times = HostTimes(0.0, 0.0, 0.0, 0)
        for name, at, min_rest in self._state.remembered:
            if name == host:
                times = HostTimes(at, min_rest, 0.0, 0)
        return self._as_logged(host, times)

    def _times(self, saved: QueueSnapshot) -> HostTimes:
        """Return the clock of the host whose queue was saved as *saved*."""
        length = _length(saved) + self._further_entries[saved.host]
        times = HostTimes(saved.ready_at, saved.min_rest, saved.contact, length)
        return self._as_logged(saved.host, times)

    def _as_logged(self, host: str, times: HostTimes) -> HostTimes:
        """Return *times* of *host*, updated by the releases and contacts since the snapshot."""
        # The last release replaces the snapshot. A contact in the log was cut off after it.
        release = self._since.releases.get(host)
        if release is not None:
            times = times._replace(
                ready_at=release.ready_at, min_rest=release.min_rest, contact=0.0
            )
        times = times._replace(ready_at=max(times.ready_at, self.quiet))
        contact = self._since.contacts.get(host)
        return times if contact is None else times._replace(contact=contact.at)


def _length(saved: QueueSnapshot) -> int:
    """Return the number of entries in *saved*, in memory and on disk."""
    return len(saved.items) + (0 if saved.overflow is None else length_of(saved.overflow))


def _in_memory(where: Where, name: str, items: list[bytes]) -> Queue:
    """Return a queue of *items*, which need not be read from the disk."""
    return Queue(where, name, len(items), lambda: iter([pack_many(items)] if items else []))
