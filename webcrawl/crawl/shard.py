"""Shard: everything known of some registered domains, in one directory; and Shards, all of a job.

A URL belongs to the shard of its host's registered domain, as budgets, reputation and the seeds'
domains are kept by domain: a stable hash of it, modulo the number of shards. On disk, below
``shards/NN/``::

    frontier   URLs that wait, and rests of hosts: see frontier/
    seen       fingerprints of URLs, content those of documents: see seen/
    ranks      of the seeds' hosts, domains of the seeds: see seeds/ranks.py
    hosts      host records with robots.txt, counters and traps, in SQLite: see hosts/records/

The host records are durable by themselves and no part of checkpoints: what ``kill -9`` takes of
them is at most two seconds old and can be found out again.
"""

from __future__ import annotations

import dataclasses
import gc
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from webcrawl.clock import now
from webcrawl.crawl.feeder import Feeder
from webcrawl.crawl.link_intake import LinkIntake
from webcrawl.crawl.seeds.domains import SeedDomains
from webcrawl.errors import FatalError
from webcrawl.frontier.admission import Admission
from webcrawl.seen.fingerprint import fingerprint
from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError
from webcrawl.urls import host_of
from webcrawl.urls.registered_domain import POLITENESS_KEYS, registered_domain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from webcrawl.clock import Clock
    from webcrawl.crawl.link_intake import LinkBatch
    from webcrawl.crawl.live_settings import LiveSettings
    from webcrawl.crawl.seeds.ranks import HostRanks
    from webcrawl.crawl.state_directory import Part, StateDirectory
    from webcrawl.frontier import Entry, Frontier, Lease, Supply
    from webcrawl.frontier.admission import Gate
    from webcrawl.hosts.budgets.quotas import Ledger
    from webcrawl.hosts.budgets.traps.keeper import TrapKeeper
    from webcrawl.hosts.politeness.addresses import HostAddresses
    from webcrawl.hosts.politeness.delays import Politeness
    from webcrawl.hosts.politeness.origin_rests import OriginRests
    from webcrawl.hosts.politeness.preconditions import Preconditions
    from webcrawl.hosts.records import HostRecords
    from webcrawl.hosts.robots.lookup import RobotsSearch
    from webcrawl.seen.content import ContentSeen
    from webcrawl.seen.eliminator import Eliminator

# Of all shards the same.
_NOT_SUMMED = frozenset({"reputation/round"})
# What a restart has to know of the page of a finished URL, in the frontier's done log; none for one
# without content that counts. Later versions add fields, and are never eight bytes. Little-endian:
#   note := version u8 (1), content u64, fields of later versions
#   note := content u64                                            before version 1
_NOTE: Final = struct.Struct("<BQ")
_NOTE_VERSION: Final = 1
_OLD_NOTE_SIZE: Final = 8
# Seconds between two writes of what is new in the records.
_FLUSH_SECS = 1.0


class ShardTables(NamedTuple):
    """The tables of URLs and seeds of one shard, by the names of their directories.

    Duplicate URL eliminator, content-seen test, ranks of the seeds' hosts, registered domains of
    the seeds.
    """

    seen: Eliminator
    content: ContentSeen
    ranks: HostRanks
    domains: HostRanks


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """What bounds hosts and domains; *gates* are the rules by which URLs wait, in their order."""

    ledger: Ledger
    traps: TrapKeeper
    origins: OriginRests
    gates: Sequence[Gate]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostServices:
    """The per-host services of one shard: records, robots.txt, politeness, budgets.

    *addresses* is None when a proxy looks names up.
    """

    records: HostRecords
    addresses: HostAddresses | None
    robots: RobotsSearch
    politeness: Politeness
    preconditions: Preconditions
    budgets: Budgets


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ShardSettings:
    """What holds for all of one shard.

    name: two digits, its directory below ``shards``.
    clock: epoch seconds, whose reckoning goes on from one process to the next.
    key: POLITENESS_KEY.
    is_limited: the crawl does not leave the domains of the seeds.
    """

    name: str
    clock: Clock
    key: str
    is_limited: bool
    live: LiveSettings


class Shard:
    """All of some registered domains. The leases of its frontier carry it. A ``LinkSink``."""

    def __init__(
        self,
        *,
        settings: ShardSettings,
        frontier: Frontier,
        tables: ShardTables,
        hosts: HostServices,
    ) -> None:
        self.settings = settings
        self.name = settings.name
        self.clock = settings.clock
        self.frontier = frontier
        self._tables = tables
        self.eliminator, self.content, self.ranks, _ = tables
        self.hosts = hosts
        self.admission = Admission(frontier=frontier, gates=hosts.budgets.gates)
        self.feeder = Feeder(
            eliminator=tables.seen,
            admission=self.admission,
            frontier=frontier,
            live=settings.live,
            clock=settings.clock,
        )
        self.intake = LinkIntake(
            eliminator=tables.seen,
            ranks=tables.ranks,
            domains=SeedDomains(tables.domains) if settings.is_limited else None,
            key_of=POLITENESS_KEYS[settings.key],
            linked=hosts.records.domains.link,
        )
        self._flushed_at = 0.0
        frontier.shard = self

    @property
    def parts(self) -> dict[str, Part]:
        """What a checkpoint saves of it, by the names of their directories."""
        return {"frontier": self.frontier, **self._tables._asdict()}

    def open(self, state: StateDirectory) -> None:
        """Open all of it as *state* has saved it, and attach the parts to that. Blocks.

        Raises CorruptRecordError, NewerFormatError, OSError, and FatalError for a file of rules.
        """
        if self.settings.is_limited and state.resumed and not state.facts.get("knows_domains"):
            raise FatalError(
                "This crawl was begun with URL_SCOPE open, and the domains of its seeds are not "
                "known: go on with that, or choose another JOBDIR."
            )
        if "clock_offset" in state.facts and not state.rebooted:
            self.clock.go_on(state.facts["clock_offset"])
        with _no_garbage():
            self.hosts.records.open()
            self.hosts.budgets.traps.open()
            for name, table in self._tables._asdict().items():
                table.open(state.saved(name))
            # The last: its log tells of pages that the content-seen test must know again.
            self.frontier.open(
                state.saved("frontier"), trust_done=not state.rebooted, on_done=self._commit_again
            )
        for name, part in self.parts.items():
            state.attach(name, part)
        state.facts = {
            "politeness_key": self.settings.key,
            "clock_offset": self.clock.offset,
            "knows_domains": self.settings.is_limited,
        }

    def _commit_again(self, note: bytes) -> None:
        """A page finished since the last checkpoint."""
        if content := content_of(note):
            self.content.commit(content)

    def finish(self, lease: Lease, *, content: int) -> None:
        """The URL of *lease* has come to its end; *content* is the fingerprint of a document of
        it that counts as seen from now on, 0 for none."""
        self.frontier.finish(lease, note=encode_note(content))
        if content:
            self.content.commit(content)

    def submit(self, batch: LinkBatch) -> None:
        """As ``LinkSink.submit``, for links to hosts of this shard."""
        self.intake.submit(batch)

    @property
    def may_bring(self) -> bool:
        """Whether anything waits, is leased, or may come to the frontier yet. O(1)."""
        return bool(len(self.frontier) or self.frontier.leased or self.feeder.may_bring)

    def drain(self, supply: Callable[[], Supply]) -> None:
        """A slice of background work: new URLs on their way to the frontier, host records to
        disk. *supply* is how soon there is something to fetch in any shard. OSError."""
        self.feeder.work(supply)
        self.hosts.budgets.traps.work()
        at = self.clock()
        if at - self._flushed_at >= _FLUSH_SECS:
            self._flushed_at = at
            if self.hosts.records.failure is not None:
                raise self.hosts.records.failure
            self.hosts.records.flush()

    def stats(self) -> dict[str, int | float]:
        """Under their names in the crawl's statistics."""
        return {
            **self.frontier.stats(),
            **self.eliminator.stats(),
            **self.content.stats(),
            **self.hosts.records.stats(),
            **self.admission.stats(),
            "seen/waiting": self.eliminator.waiting,
            "links/submitted": self.intake.submitted,
            "robots/origins": self.hosts.robots.settled,
            **{f"urls/refused/{name}": count for name, count in self.intake.refused.items()},
        }

    def close(self, on_error: Callable[[Exception], None]) -> None:
        """Close all of it, when no thread works for it any more. Blocks; *on_error* is called with
        what a part raised. Idempotent."""
        if self.hosts.addresses is not None:
            self.hosts.addresses.close()
        self.hosts.budgets.traps.close()
        # The frontier's rests are with the records, the last.
        for part in (self.frontier, *self._tables, self.hosts.records):
            try:
                part.close()
            except (OSError, CorruptRecordError) as error:
                on_error(error)


def encode_note(content: int) -> bytes:
    """The note of a page whose document has the fingerprint *content*, 0 for none that counts."""
    return _NOTE.pack(_NOTE_VERSION, content) if content else b""


def content_of(note: bytes) -> int:
    """The fingerprint in *note*, 0 without. Raises NewerFormatError, struct.error."""
    if len(note) in {0, _OLD_NOTE_SIZE}:
        return int.from_bytes(note, "little")
    version, content = _NOTE.unpack_from(note)
    if version > _NOTE_VERSION:
        raise NewerFormatError("the done log's note", version, _NOTE_VERSION)
    return int(content)


class Shards:
    """The shards of one process, by their numbers. A ``LinkSink``, which divides batches."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._shards = shards
        self._only = shards[0] if len(shards) == 1 else None

    def __iter__(self) -> Iterator[Shard]:
        return iter(self._shards)

    def of(self, url: str) -> Shard:
        """The shard of *url*: 0.1 us if it is the only one."""
        if self._only is not None:
            return self._only
        return self._shards[self._number_of(host_of(url))]

    def _number_of(self, host: str) -> int:
        return fingerprint(registered_domain(host)) % len(self._shards)

    def submit(self, batch: LinkBatch) -> None:
        """As ``LinkSink.submit``."""
        if self._only is not None:
            self._only.submit(batch)
            return
        for number, part in batch.split(self._number_of):
            self._shards[number].submit(part)

    def requeue(self, entry: Entry, *, ahead: bool = False) -> None:
        """As ``Frontier.requeue``, of the shard that *entry* belongs to."""
        self.of(entry.url).frontier.requeue(entry, ahead=ahead)

    def acquire(self) -> Lease | None:
        """A URL of the host that has been ready the longest; None when none is. As
        ``Frontier.acquire``."""
        if self._only is not None:
            return self._only.frontier.acquire()
        for _, number in sorted(self._ready()):
            lease = self._shards[number].frontier.acquire()
            if lease is not None:
                return lease
        return None

    def ready_at(self) -> float | None:
        """When ``acquire`` should be tried again, by the clock of the process: as
        ``Frontier.ready_at``."""
        secs, _ = min(self._ready(), default=(None, 0))
        return None if secs is None else now() + secs

    def _ready(self) -> list[tuple[float, int]]:
        """In how many seconds each shard has something ready, if ever, with its number."""
        return [
            (at - shard.clock(), number)
            for number, shard in enumerate(self._shards)
            if (at := shard.frontier.ready_at()) is not None
        ]

    def drain(self) -> None:
        """A slice of background work for each shard. Reputation rounds are for all: one begins when
        there is nothing else to fetch in any shard."""
        for shard in self._shards:
            shard.drain(lambda: min(one.feeder.supply() for one in self._shards))
        domains = [shard.hosts.records.domains for shard in self._shards]
        latest = max(one.current_round for one in domains)
        for one in domains:
            if one.current_round < latest:
                one.begin_round(latest, counted_since=one.counted_since)

    def expire(self, older_than: float, *, except_if: Callable[[Lease], bool]) -> list[Lease]:
        """As ``Frontier.expire``, of all of them."""
        found = (shard.frontier.expire(older_than, except_if=except_if) for shard in self._shards)
        return [lease for leases in found for lease in leases]

    def starve(self) -> None:
        """A worker found nothing to do."""
        for shard in self._shards:
            shard.feeder.is_starving = True

    @property
    def all_rest(self) -> bool:
        """Whether URLs wait, all of them for hosts that rest or are in process."""
        busy = [shard.frontier for shard in self._shards if len(shard.frontier)]
        return bool(busy) and all(frontier.all_rest for frontier in busy)

    @property
    def leased(self) -> int:
        """URLs handed out and not finished."""
        return sum(shard.frontier.leased for shard in self._shards)

    @property
    def is_full(self) -> bool:
        """Whether an eliminator wants the sources of URLs to pause."""
        return any(shard.eliminator.is_full for shard in self._shards)

    @property
    def may_bring(self) -> bool:
        """Whether anything waits, is leased, or may come to a frontier yet. O(1)."""
        return any(shard.may_bring for shard in self._shards)

    def stats(self) -> dict[str, int | float]:
        """Sums over the shards, under their names in the crawl's statistics."""
        stats = [shard.stats() for shard in self._shards]
        rounds = {name: number for name, number in stats[0].items() if name in _NOT_SUMMED}
        return _sums(stats) | rounds


def _sums(counts: Iterable[dict[str, int | float]]) -> dict[str, int | float]:
    sums: dict[str, int | float] = {}
    for names in counts:
        for name, number in names.items():
            sums[name] = sums.get(name, 0) + number
    return sums


@contextmanager
def _no_garbage() -> Iterator[None]:
    """What is taken up stays: without looking through it for garbage again and again a million URLs
    in back-end queues are open in 0.7 s instead of 1.0 (2026-11-20)."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
