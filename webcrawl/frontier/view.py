"""Read-only view of a frontier's files, for readers beside the process that owns them.

Used by the commands that explain and export. Takes no lock and changes nothing on disk: the last
published snapshot, and the done log since. What the owner has moved since then only in its memory
is seen where it was at the snapshot. The invariant: an entry that was waiting at the snapshot, or
was requeued since, and is not on record as finished, is found exactly once.

All methods read the disk and raise CorruptRecordError for damage, and when a newer snapshot was
published meanwhile and files are gone: then the reader begins anew with that one.
"""

from __future__ import annotations

import enum
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from webcrawl.frontier.done_log import read_done_log
from webcrawl.frontier.due import due_name
from webcrawl.frontier.entry import Entry, decode
from webcrawl.frontier.finished import FinishedKeys
from webcrawl.frontier.overflow import overflow_path
from webcrawl.frontier.recovery import replay
from webcrawl.frontier.snapshot import decode_snapshot
from webcrawl.storage.fifo import length_of, read_fifo
from webcrawl.storage.record_log import count_packed, pack_many, unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from webcrawl.frontier.snapshot import QueueSnapshot
    from webcrawl.storage.fifo import FifoSnapshot
    from webcrawl.storage.record_log import CorruptRecordError


class Where(enum.Enum):
    """The places in which an entry may be."""

    LEASED = "leased"
    HOST_QUEUE = "host queue"
    LEVEL = "level"
    PARKED = "parked"
    DUE = "due"
    REQUEUED = "requeued"  # since the snapshot, to be found in its level after a restart


class Queue(NamedTuple):
    """A place with its *name* (level, host, reason; empty for the others) and its length."""

    where: Where
    name: str
    length: int
    pieces: Callable[[], Iterator[bytes]]


class Found(NamedTuple):
    """An entry found in a queue.

    It is the *position*-th, 1 being the first. *gone* of those before it at the snapshot are on
    record as finished since, and not counted in *position*; only such as are decoded.
    """

    queue: Queue
    position: int
    gone: int
    entry: Entry


class HostTimes(NamedTuple):
    """The clock of a host, in epoch seconds.

    *ready_at* is 0.0 when nothing is known, *min_rest* the rest in seconds that robots.txt or the
    host asked for last. *contact* is since when the host is in process, 0.0 if it is not; *length*
    counts the entries in its back-end queue.
    """

    ready_at: float
    min_rest: float
    contact: float
    length: int


class FrontierView:
    """The frontier in the directory *path* as of *snapshot*, and what happened since.

    With *trust_done* false the machine went down since, and finished entries will be fetched again.
    """

    def __init__(self, *, path: Path, snapshot: bytes, trust_done: bool) -> None:
        self._path = path
        self._state = decode_snapshot(snapshot)
        self._since = replay(read_done_log(path / "done", self._state.segment), since=self._state)
        self._since.add_to(self._state.counts, trust_done=trust_done)
        self._trust_done = trust_done
        #: If set it is called with damage in a queue, and the next segment of that is read.
        self.on_damage: Callable[[CorruptRecordError], object] | None = None
        # By host, what is in further parts of its queue.
        self._more = Counter[str]()
        for one in self._state.queues:
            self._more[one.host] += one.visits * _length(one)

    @property
    def finished_since(self) -> int:
        """Entries that have come to their end since the snapshot."""
        return len(self._since.finished)

    @property
    def finished(self) -> int:
        """Entries that have come to their end since the crawl began."""
        return self._state.counts.finished

    @property
    def crawl_counts(self) -> Mapping[str, int]:
        """As ``Frontier.crawl_counts``."""
        return self._state.counts.crawl

    @property
    def quiet(self) -> float:
        """Until then all hosts rest, also those of which nothing else is known."""
        return self._state.quiet

    # --- queues

    def queues(self) -> Iterator[Queue]:
        """All of them, also empty ones; what is handed out soonest comes first."""
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
        again = self._since.again(trust_done=self._trust_done)
        yield _in_memory(Where.REQUEUED, "", [one.data for one in again])
        if self._trust_done:
            for due in self._since.due:
                yield _in_memory(Where.DUE, due_name(due.at), [due.data])

    def _reader(self, path: Path, fifo: FifoSnapshot) -> Callable[[], Iterator[bytes]]:
        return lambda: read_fifo(path, fifo, self.on_damage)

    def _host_queue(self, kept: QueueSnapshot) -> Queue:
        def pieces() -> Iterator[bytes]:
            if kept.items:
                yield pack_many(kept.items)
            if kept.overflow is not None:
                path = overflow_path(self._path / "back", kept.number)
                yield from read_fifo(path, kept.overflow, self.on_damage)

        return Queue(Where.HOST_QUEUE, kept.host, _length(kept), pieces)

    def entries(self, finished: FinishedKeys) -> Iterator[Found]:
        """Every entry that waits or is leased, in the order of ``queues``; about 1 us each.

        *finished*, from ``finished_keys``, hides some of them; what is left there afterwards hides
        entries that have not come out of the eliminator yet.
        """
        return self.find(lambda _: True, finished, containing=b"")

    def find(
        self, wanted: Callable[[Entry], bool], finished: FinishedKeys, *, containing: bytes
    ) -> Iterator[Found]:
        """The entries among ``entries`` that are *wanted*; only those whose encoding contains the
        bytes *containing*, such as a host's name, are decoded and given to it.

        A million entries take a fifth of a second, and 2 us more for each that is decoded.
        """
        for queue in self.queues():
            position = gone = 0
            for piece in queue.pieces():
                if containing in piece:
                    for number, data in enumerate(unpacked(self._path, 0, piece), start=1):
                        if containing not in data:
                            continue
                        entry = decode(data)
                        if finished.hides_entry(entry):
                            gone += 1
                        elif wanted(entry):
                            yield Found(queue, position + number - gone, gone, entry)
                position += count_packed(piece)

    def finished_keys(self) -> FinishedKeys:
        """Names the entries that have come to their end and will be met again."""
        keys = FinishedKeys()
        keys.add_bytes(self._state.finished)
        if self._trust_done:
            keys.add_all(one.key for one in self._since.finished)
        return keys

    # --- hosts

    def hosts(self) -> Iterator[tuple[str, HostTimes]]:
        """The hosts with a back-end queue."""
        for kept in self._state.queues:
            if not kept.visits:
                yield kept.host, self._times(kept)

    def times(self, host: str) -> HostTimes:
        """The clock of *host*, as far as it is in the frontier's own files."""
        for kept in self._state.queues:
            if kept.host == host:
                return self._times(kept)
        times = HostTimes(0.0, 0.0, 0.0, 0)
        for name, at, min_rest in self._state.remembered:
            if name == host:
                times = HostTimes(at, min_rest, 0.0, 0)
        return self._as_logged(host, times)

    def _times(self, kept: QueueSnapshot) -> HostTimes:
        length = _length(kept) + self._more[kept.host]
        times = HostTimes(kept.ready_at, kept.min_rest, kept.contact, length)
        return self._as_logged(kept.host, times)

    def _as_logged(self, host: str, times: HostTimes) -> HostTimes:
        release = self._since.releases.get(host)
        if release is not None:
            times = times._replace(
                ready_at=release.ready_at, min_rest=release.min_rest, contact=0.0
            )
        times = times._replace(ready_at=max(times.ready_at, self.quiet))
        contact = self._since.contacts.get(host)
        return times if contact is None else times._replace(contact=contact.at)


def _length(kept: QueueSnapshot) -> int:
    return len(kept.items) + (0 if kept.overflow is None else length_of(kept.overflow))


def _in_memory(where: Where, name: str, items: list[bytes]) -> Queue:
    return Queue(where, name, len(items), lambda: iter([pack_many(items)] if items else []))
