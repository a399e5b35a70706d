"""Shard: everything known of some registered domains, in one directory.

A URL belongs to the shard of its host's registered domain, as budgets, reputation and the seeds'
domains are kept by domain: shards.py. On disk, below ``shards/NN/``::

    frontier   URLs that wait, and rests of hosts: see frontier/
    seen       fingerprints of URLs, content those of documents: see seen/
    ranks      of the seeds' hosts, domains of the seeds: see seeds/ranks.py
    hosts      host records with robots.txt, counters and traps, in SQLite: see hosts/records/

The host records are durable by themselves and no part of checkpoints: what ``kill -9`` takes of
them is at most two seconds old and can be found out again.
"""

from __future__ import annotations

import dataclasses
import struct
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec.structs import replace

from webcrawl.clock import now
from webcrawl.configuration.memory_budget import part_of
from webcrawl.crawl.job.state_directory import Part, shard_name
from webcrawl.crawl.links.link_intake import LinkIntake
from webcrawl.crawl.seeds.domains import SeedDomains
from webcrawl.crawl.shard.feeder import Feeder
from webcrawl.crawl.shard.merge_turns import MergeTurns
from webcrawl.doctor.states import ShardState
from webcrawl.errors import FatalError
from webcrawl.frontier import NOTHING, encode
from webcrawl.frontier.admission import Admission
from webcrawl.revisit.hints import Hints
from webcrawl.seen.eliminator import Eliminator
from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError
from webcrawl.urls import host_of
from webcrawl.urls.hash_seed import seed_in_use
from webcrawl.urls.registered_domain import POLITENESS_KEYS

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Mapping, Sequence

    from webcrawl.clock import Clock
    from webcrawl.crawl.job.state_directory import StateDirectory
    from webcrawl.crawl.links.link_intake import LinkBatch
    from webcrawl.crawl.seeds.ranks import HostRanks
    from webcrawl.crawl.shard.live_settings import LiveSettings
    from webcrawl.frontier import Entry, Frontier, Lease, Result, Supply
    from webcrawl.frontier.admission import Gate
    from webcrawl.hosts.budgets.quotas import Ledger
    from webcrawl.hosts.budgets.traps.keeper import TrapKeeper
    from webcrawl.hosts.politeness.addresses import HostAddresses
    from webcrawl.hosts.politeness.delays import Politeness
    from webcrawl.hosts.politeness.origin_rests import OriginRests
    from webcrawl.hosts.politeness.preconditions import Preconditions
    from webcrawl.hosts.politeness.walls import Walls
    from webcrawl.hosts.records import HostRecords
    from webcrawl.hosts.robots.lookup import RobotsSearch
    from webcrawl.revisit.visits import Visits
    from webcrawl.seen.content import ContentSeen

# Sizes that are no settings: for all shards of a process, and the least that one of them has.
# Rests of hosts without a queue, 0.5 kB each; counters of domains, 0.4 kB.
_RESTS = (1 << 16, 1 << 10)
_COUNTERS = (1 << 14, 1 << 8)
# Fingerprints that the content-seen test has not moved to disk, 0.1 kB each.
_DOCUMENTS = (1 << 16, 1 << 10)
# Files robots.txt in use.
_RULES = (1 << 13, 1 << 6)
_RULES_BYTES = (1 << 26, 1 << 20)
# Hosts of seeds that are not in the sorted table yet, 0.1 kB each.
_NEW_RANKS = (1 << 15, 1 << 10)
# Pages of the host records' file that SQLite keeps; the filter of its keys has twice as much, the
# log half as much, and what is logged twice in memory.
_DATABASE_KIB = (1 << 13, 1 << 7)

# What a restart has to know of the page of a finished URL, in the frontier's done log; none for one
# without content that counts. Later versions add fields, and are never eight bytes. Little-endian:
#   note := version u8 (1), content u64, fields of later versions
#   note := content u64                                            before version 1
_NOTE = struct.Struct("<BQ")
_NOTE_VERSION = 1
# Seconds between two writes of what is new in the records.
_FLUSH_SECS = 1.0


class OwnedPart(Part, Protocol):
    """A part of a shard that something else brings along; opened and closed with the tables."""

    def open(self, saved: bytes | None) -> None:
        """Take up the snapshot *saved*, None for a new shard, and what is newer on disk. Blocks.
        Raises as ``Shard.open``."""
        ...

    def close(self) -> None:
        """Close its files. Idempotent, from any thread."""
        ...


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
    """Bounds of hosts and domains; *gates* are the rules by which URLs wait, in their order."""

    ledger: Ledger
    traps: TrapKeeper
    origins: OriginRests
    gates: Sequence[Gate]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostServices:
    """The per-host services of one shard: records, robots.txt, politeness, budgets, walls.

    *addresses* is None when a proxy looks names up.
    """

    records: HostRecords
    addresses: HostAddresses | None
    robots: RobotsSearch
    politeness: Politeness
    preconditions: Preconditions
    budgets: Budgets
    walls: Walls


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ShardSettings:
    """Settings of one shard.

    number: from 0 on.
    clock: epoch seconds, whose reckoning goes on from one process to the next.
    key: POLITENESS_KEY.
    is_limited: the crawl does not leave the domains of the seeds.
    sizes: as ``memory_budget.sizes`` has them, for all shards of the process.
    turns: in which the eliminators of the process merge.
    visits: the next ones of finished URLs; None if there are none.
    needs_all_seeds: no URL is fetched before all seeds are known; a link to a domain whose seed
        comes later would be refused for good.
    """

    number: int
    clock: Clock
    key: str
    is_limited: bool
    live: LiveSettings
    visits: Visits | None = None
    turns: MergeTurns = dataclasses.field(default_factory=MergeTurns)
    needs_all_seeds: bool = False
    sizes: Mapping[str, int] = dataclasses.field(default_factory=dict)


class Shard:
    """All state of a set of registered domains, in one directory.

    The leases of its frontier carry it. A ``LinkSink``.

    number: which one of the crawl, from 0 on; *name* is its directory below ``shards``.
    is_leaving: no URL of it is handed out any more; leases may come back.
    is_abandoned: it is not of this process any more, and what comes back of it is ignored.
    trusts_log: its done log may be trusted when it is opened: all that its pages have led to is in
        this directory, or in others that are as they were.
    """

    def __init__(
        self,
        *,
        settings: ShardSettings,
        frontier: Frontier,
        tables: ShardTables,
        hosts: HostServices,
    ) -> None:
        self.settings = settings
        self.number = settings.number
        self.name = shard_name(settings.number)
        self.clock = settings.clock
        self.live = settings.live
        self.frontier = frontier
        self._tables = tables
        self.eliminator, self.content, self.ranks, _ = tables
        self.hosts = hosts
        seen = tables.seen
        self.hints: Hints | None = None
        self.admission = Admission(
            frontier=frontier,
            gates=hosts.budgets.gates,
            lets_pass=hosts.preconditions.rules.lets_pass,
        )
        if settings.visits is not None:
            # A user's own may not have the one.
            knows = seen.knows if isinstance(seen, Eliminator) else seen.certainly_seen
            self.hints = Hints(
                records=hosts.records,
                frontier=frontier,
                visits=settings.visits,
                knows=knows,
                clock=settings.clock,
            )
            self.admission.take_over = self.hints.take_over
        self.feeder = Feeder(
            eliminator=tables.seen,
            admission=self.admission,
            frontier=frontier,
            clock=settings.clock,
            turns=settings.turns,
        )
        self.intake = LinkIntake(
            eliminator=tables.seen,
            ranks=tables.ranks,
            domains=SeedDomains(tables.domains) if settings.is_limited else None,
            key_of=POLITENESS_KEYS[settings.key],
            linked=hosts.records.domains.link,
            hinted=None if self.hints is None else self.hints.follow,
        )
        self._joined: dict[str, OwnedPart] = {}
        self._flushed_at = 0.0
        self.is_leaving = False
        self.is_abandoned = False
        self.trusts_log = True
        frontier.shard = self

    @property
    def parts(self) -> dict[str, Part]:
        """The parts that a checkpoint saves, by the names of their directories."""
        return {"frontier": self.frontier, **self._tables._asdict(), **self._joined}

    def join(self, name: str, part: OwnedPart) -> None:
        """*part* is one of the shard's from now on. To be called before ``open``."""
        self._joined[name] = part

    def resize(self, shards: int) -> None:
        """It is one of *shards* that share the memory of the process from now on. What is too much
        goes when something is added, or with the next merge."""

        def part(name: str) -> int:
            return part_of(name, self.settings.sizes[name], shards=shards)

        def even(sizes: tuple[int, int]) -> int:
            return max(sizes[0] // shards, sizes[1])

        self.frontier.resize(queues=part("queues"), rests=even(_RESTS))
        if isinstance(self.eliminator, Eliminator):  # a user's own has its own bounds
            self.eliminator.resize(
                buffer_size=part("SEEN_BUFFER_SIZE"), cache_size=part("SEEN_CACHE_SIZE")
            )
        self.content.resize(even(_DOCUMENTS))
        for table in (self.ranks, self._tables.domains):
            table.resize(even(_NEW_RANKS))
        self.hosts.records.resize(
            size=part("hosts"),
            robots_size=part("robots"),
            counters=even(_COUNTERS),
            database_kib=even(_DATABASE_KIB),
        )
        self.hosts.robots.robots.resize(size=even(_RULES), max_bytes=even(_RULES_BYTES))

    def open(self, state: StateDirectory, *, forgets: bool = False) -> None:
        """Open all of it as *state* has saved it, and attach the parts to that. Blocks.

        It *forgets* when contacts until now may be on no record. Raises
        CorruptRecordError, NewerFormatError, OSError, and FatalError for a file of rules or another
        POLITENESS_KEY; then nothing of it stays open.
        """
        try:
            self._open(state, forgets=forgets)
        except BaseException:
            self.close(lambda _: None)
            raise

    def _open(self, state: StateDirectory, *, forgets: bool) -> None:
        if state.resumed and state.facts.get("seed", 0) != seed_in_use():
            raise FatalError(
                f"{state.path} is of a job with another seed: move it into a new JOBDIR."
            )
        saved_key = state.facts.get("politeness_key", self.settings.key)
        if saved_key != self.settings.key:
            raise FatalError(
                f"JOBDIR {state.path.parent.parent} holds a crawl with POLITENESS_KEY {saved_key}, "
                f"not {self.settings.key}: go on with that, or choose another JOBDIR."
            )
        if self.settings.is_limited and state.resumed and not state.facts.get("knows_domains"):
            raise FatalError(
                "This crawl was begun with URL_SCOPE open, and the domains of its seeds are not "
                "known: go on with that, or choose another JOBDIR."
            )
        if "clock_offset" in state.facts and not state.rebooted:
            self.clock.go_on(state.facts["clock_offset"])
        self.hosts.records.open()
        for name, table in self._tables._asdict().items():
            table.open(state.saved(name))
        for joined, owned in self._joined.items():
            owned.open(state.saved(joined))
        # The last: its log tells of pages that the content-seen test must know again.
        self.frontier.open(
            state.saved("frontier"),
            trust_done=self.trusts_log and not state.rebooted,
            on_done=self._commit_again,
            # What went down with the machine was before it was started.
            forgotten=self.clock() if forgets else self.clock.offset * state.rebooted,
        )
        for name, part in self.parts.items():
            state.attach(name, part)
        state.facts = {
            "politeness_key": self.settings.key,
            "seed": seed_in_use(),
            "clock_offset": self.clock.offset,
            "knows_domains": self.settings.is_limited,
        }

    @property
    def ahead_secs(self) -> float:
        """By how much its clock is ahead of that of the process."""
        return self.clock.offset - now.offset

    def _commit_again(self, note: bytes) -> None:
        """A page finished since the last checkpoint."""
        if content := content_of(note):
            self.content.commit(content)

    def finish(
        self,
        lease: Lease[Shard],
        *,
        content: int,
        result: Result = NOTHING,
        due: tuple[Entry, float] | None = None,
    ) -> None:
        """The URL of *lease* has come to its end; *content* is the fingerprint of a document of
        it that counts as seen from now on, 0 for none. *result* and *due* as
        ``Frontier.finish``."""
        self.frontier.finish(lease, note=encode_note(content), result=result, due=due)
        if content:
            self.content.commit(content)

    def submit(self, batch: LinkBatch) -> None:
        """As ``LinkSink.submit``, for links to hosts of this shard."""
        self.intake.submit(batch)

    def enqueue(self, entry: Entry, name: int | None) -> None:
        """Submit *entry*, of an ordinary Request to a host of this shard, under the fingerprint
        *name*; None: past the eliminator. Its politeness key and its rank are found here. Durable
        when it returns. OSError when the disk is full."""
        host = POLITENESS_KEYS[self.settings.key](host_of(entry.url))
        entry = replace(entry, host=host, rank=self.ranks.rank(host))
        if name is None:
            self.frontier.requeue(entry)
        else:
            self.eliminator.submit([name], lambda _: encode(entry))

    @property
    def awaits_seeds(self) -> bool:
        """Whether no URL may be fetched because there may be more seeds of it."""
        return self.settings.needs_all_seeds and not self.feeder.is_fed

    def seeds_are_known(self) -> None:
        """There are no more seeds of it."""
        self.feeder.is_fed = True

    def refusing(self) -> Counter[str]:
        """Count, by outcome, the hosts with URLs that rest because they refused. O(such hosts)."""
        return self.hosts.politeness.refusals.resting(self.frontier.has_more)

    @property
    def state(self) -> ShardState:
        """Whether it hands out URLs, in a word."""
        if self.is_leaving:
            return ShardState.LEAVING
        return ShardState.STARTING if self.awaits_seeds else ShardState.RUNNING

    @property
    def hands_out(self) -> bool:
        """Whether ``acquire`` may have a URL."""
        return not (self.is_leaving or self.awaits_seeds)

    @property
    def is_idle(self) -> bool:
        """Whether nothing of it is under way: no URL is leased, no host is in process."""
        return not (self.frontier.leased or self.frontier.in_process)

    def acquire(self, host: str | None = None) -> Lease[Shard] | None:
        """As ``Frontier.acquire``."""
        return self.frontier.acquire(host) if self.hands_out else None

    @property
    def may_bring(self) -> bool:
        """Whether anything waits, is leased, or may come to the frontier yet. O(1)."""
        return bool(len(self.frontier) or self.frontier.leased or self.feeder.may_bring)

    def drain(self, supply: Callable[[], Supply]) -> None:
        """A slice of background work: new URLs on their way to the frontier, host records to
        disk. *supply* is how soon there is something to fetch in any shard. OSError."""
        self.feeder.work(supply)
        at = self.clock()
        if at - self._flushed_at >= _FLUSH_SECS:
            self._flushed_at = at
            if self.hosts.records.failure is not None:
                raise self.hosts.records.failure
            self.hosts.records.flush()

    def stats(self) -> dict[str, float]:
        """Under their names in the crawl's statistics."""
        return {
            **self.frontier.stats(),
            **self.eliminator.stats(),
            **self.content.stats(),
            **self.hosts.records.stats(),
            **self.admission.stats(),
            **(self.hints.stats() if self.hints else {}),
            "seen/waiting": self.eliminator.waiting,
            "links/submitted": self.intake.submitted,
            "robots/origins": self.hosts.robots.settled,
            **{f"urls/refused/{name}": count for name, count in self.intake.refused.items()},
        }

    def abandon(self) -> None:
        """It is not of this process any more: no look-up goes on. What is left is ``close``, in any
        thread. Returns at once."""
        self.is_leaving = self.is_abandoned = True
        if self.hosts.addresses is not None:
            self.hosts.addresses.close()

    def close(self, on_error: Callable[[Exception], None]) -> None:
        """Close all of it, when no thread works for it any more. Blocks; *on_error* is called with
        what a part raised. Writes no checkpoint. Idempotent."""
        if not self.is_abandoned and self.hosts.addresses is not None:
            self.hosts.addresses.close()
        # The frontier's rests are with the records, the last.
        closes = [self.frontier.close, *(table.close for table in self._tables)]
        closes += [part.close for part in self._joined.values()]
        for close in [*closes, self.hosts.records.close]:
            try:
                close()
            except (OSError, CorruptRecordError) as error:
                on_error(error)


def encode_note(content: int) -> bytes:
    """The note of a page whose document has the fingerprint *content*, 0 for none that counts."""
    return _NOTE.pack(_NOTE_VERSION, content) if content else b""


def content_of(note: bytes) -> int:
    """The fingerprint in *note*, 0 without. Raises NewerFormatError, struct.error."""
    if not note:
        return 0
    version, content = _NOTE.unpack_from(note)
    if version > _NOTE_VERSION:
        raise NewerFormatError("the done log's note", version, _NOTE_VERSION)
    return int(content)
