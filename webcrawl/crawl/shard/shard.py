"""Shard: everything known about some registered domains, in one directory.

A URL belongs to the shard of its host's registered domain (shards.py), because budgets, reputation
and the seeds' domains are kept by domain. These are the directories in ``shards/NN/``::

    frontier   waiting URLs, and pauses of hosts: see frontier/
    seen       fingerprints of URLs: see seen/
    content    fingerprints of documents: see seen/
    aliases    hosts with the same site, if ALIASES is set: see hosts/aliases.py
    ranks      ranks of the seeds' hosts: see seeds/ranks.py
    domains    registered domains of the seeds, in the same format
    hosts      host records with robots.txt, counters and traps, in SQLite: see hosts/records/

The host records are saved continuously, not with checkpoints. ``kill -9`` loses at most the facts
of the last two seconds, which can be learned again.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from webcrawl.clock import Clock, now
from webcrawl.configuration.memory_budget import part_of
from webcrawl.crawl.job.state_directory import Part, StateDirectory, shard_name
from webcrawl.crawl.links.link_intake import LinkBatch, LinkIntake
from webcrawl.crawl.seeds.domains import SeedDomains
from webcrawl.crawl.seeds.ranks import HostRanks
from webcrawl.crawl.shard.feeder import Feeder
from webcrawl.crawl.shard.live_settings import LiveSettings
from webcrawl.crawl.shard.merge_turns import MergeTurns
from webcrawl.errors import FatalError
from webcrawl.frontier import NOTHING, Entry, Frontier, Lease, Result, Supply
from webcrawl.frontier.admission import Admission, Gate
from webcrawl.hosts.aliases import Aliases
from webcrawl.hosts.budgets.quotas import Ledger
from webcrawl.hosts.budgets.traps.keeper import TrapKeeper
from webcrawl.hosts.host_rules import HostRules
from webcrawl.hosts.politeness.addresses import HostAddresses
from webcrawl.hosts.politeness.delays import Politeness
from webcrawl.hosts.politeness.origin_rests import OriginRests
from webcrawl.hosts.politeness.preconditions import Preconditions
from webcrawl.hosts.politeness.walls import Walls
from webcrawl.hosts.records import HostRecords
from webcrawl.hosts.robots.lookup import RobotsSearch
from webcrawl.revisit.hints import Hints
from webcrawl.revisit.visits import Visits
from webcrawl.rights.policy import TDM_PATH
from webcrawl.seen.content import ContentSeen
from webcrawl.seen.eliminator import Eliminator
from webcrawl.states import ShardState
from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError
from webcrawl.urls import host_of, origin_of
from webcrawl.urls.hash_seed import seed_in_use
from webcrawl.urls.registered_domain import POLITENESS_KEYS


class _Size(NamedTuple):
    """Size of a cache that is not a setting: for all shards of a process, and at least for one."""

    of_process: int
    minimum_of_shard: int


# Pauses of hosts without a queue, 0.5 kB each; counters of domains, 0.4 kB each.
_REMEMBERED_PAUSES = _Size(1 << 16, 1 << 10)
_DOMAIN_COUNTERS = _Size(1 << 14, 1 << 8)
# Fingerprints in the content-seen test that are not on disk yet, 0.1 kB each.
_UNWRITTEN_DOCUMENTS = _Size(1 << 16, 1 << 10)
# Hosts whose first pages are remembered to find aliases, 4 kB each.
_FIRST_PAGES = _Size(1 << 12, 1 << 7)
# Number and total size of the robots.txt files in use.
_ROBOTS_FILES = _Size(1 << 13, 1 << 6)
_ROBOTS_BYTES = _Size(1 << 26, 1 << 20)
# Seed hosts that are not in the sorted arrays of ranks yet, 0.1 kB each.
_UNSORTED_HOSTS = _Size(1 << 15, 1 << 10)
# KiB of the host records' file that SQLite caches. The filter of its keys takes twice as much. The
# log takes half as much, and its entries are in memory twice.
_DATABASE_KIB = _Size(1 << 13, 1 << 7)

# Note in the frontier's done log: the facts about the page of a finished URL that a restart needs.
# Empty if the page's content does not count as seen. Later versions may add fields, but must never
# have eight bytes, like the oldest one. Little-endian:
#   note := version u8 (1), content u64, fields of later versions
#   note := content u64                                            before version 1
_NOTE = struct.Struct("<BQ")
_NOTE_VERSION = 1
# Seconds between two writes of changed records.
_FLUSH_SECS = 1.0


class OwnedPart(Part, Protocol):
    """A part that another component adds to a shard; opened and closed along with the shard."""

    def open(self, saved: bytes | None) -> None:
        """Restore the snapshot *saved* and any newer data on disk. Blocks.

        *saved* is None for a new shard. Raises the same exceptions as ``Shard.open``.
        """
        ...

    def close(self) -> None:
        """Close the part's files. May be called again, and from any thread."""
        ...


class ShardTables(NamedTuple):
    """The tables of URLs and seeds of one shard, with the names of their directories.

    seen: the duplicate URL eliminator.
    content: the content-seen test.
    ranks: the ranks of the seeds' hosts.
    domains: the registered domains of the seeds.
    """

    seen: Eliminator
    content: ContentSeen
    ranks: HostRanks
    domains: HostRanks


@dataclass(frozen=True, kw_only=True)
class Budgets:
    """Limits of hosts and domains. ``gates`` are the rules that can park a URL, in order."""

    ledger: Ledger
    traps: TrapKeeper
    origins: OriginRests
    aliases: Aliases | None
    gates: Sequence[Gate]


@dataclass(frozen=True, kw_only=True)
class HostServices:
    """The per-host services of one shard: records, robots.txt, politeness, budgets, walls.

    ``robots`` finds the robots.txt of a URL, ``data_mining`` the file at TDM_PATH, in which owners
    say whether text and data mining is allowed; None unless the purpose of the crawl needs these
    files. ``addresses`` is None when a proxy looks up the names of hosts.
    """

    records: HostRecords
    addresses: HostAddresses | None
    robots: RobotsSearch
    politeness: Politeness
    preconditions: Preconditions
    budgets: Budgets
    walls: Walls
    data_mining: RobotsSearch | None

    def search_for(self, url: str, requested: str) -> RobotsSearch:
        """Return the search for *requested*: the robots.txt of *url*, or its tdmrep.json.

        The robots.txt may be redirected to a URL that looks like that of a tdmrep.json. They are
        told apart by order, because a tdmrep.json is requested only once the robots.txt is known.
        """
        is_for_data_mining = (
            requested.endswith(TDM_PATH) and self.robots.cache.get(origin_of(url)) is not None
        )
        return (
            self.data_mining if self.data_mining is not None and is_for_data_mining else self.robots
        )


@dataclass(frozen=True, kw_only=True)
class ShardSettings:
    """Settings of one shard.

    number: number of the shard, starting at 0.
    clock: epoch seconds that continue from one process to the next.
    key: POLITENESS_KEY.
    is_limited: whether the crawl stays within the domains of the seeds.
    sizes: the result of ``memory_budget.sizes``, for all shards of the process.
    turns: decides when the eliminators of the process merge.
    visits: schedules repeat visits of finished URLs; None if there are none.
    needs_all_seeds: whether no URL is fetched before all seeds are known. Otherwise a link to a
        domain whose seed is read later would be refused for good.
    """

    number: int
    clock: Clock
    key: str
    is_limited: bool
    live: LiveSettings
    visits: Visits | None
    turns: MergeTurns
    needs_all_seeds: bool
    sizes: Mapping[str, int]


class Shard:
    """A shard: all state of a set of registered domains, in one directory. A ``LinkSink``.

    Each lease of its frontier refers to the shard.

    number: number of the shard in the crawl, starting at 0.
    name: name of its directory in ``shards``.
    is_leaving: whether its URLs are no longer handed out; leases may still be completed.
    is_abandoned: whether it has left this process, so that further results are ignored.
    trusts_log: whether the done log may be trusted when the shard is opened. That is the case if
        everything found in the finished pages is in this directory, or in unchanged others.
    """

    def __init__(
        self,
        *,
        settings: ShardSettings,
        frontier: Frontier,
        tables: ShardTables,
        hosts: HostServices,
        may_pass: Callable[[str, Entry], bool] | None,
    ) -> None:
        """Build the shard; *may_pass* returns whether an entry passes the gate with a name.

        Those of pages that wait to be rendered do. None: only the user lets URLs pass.
        """
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
        #: Follows hints of sitemaps that pages have changed; None in a crawl without visits.
        self.hints: Hints | None = None
        self.admission = Admission(
            frontier=frontier,
            gates=hosts.budgets.gates,
            may_pass=partial(_may_pass, hosts.preconditions.rules, may_pass),
        )
        if settings.visits is not None:
            # A custom eliminator may not have ``knows``.
            knows = seen.knows if isinstance(seen, Eliminator) else seen.certainly_seen
            self.hints = Hints(
                records=hosts.records,
                frontier=frontier,
                visits=settings.visits,
                knows=knows,
                clock=settings.clock,
            )
            self.admission.select_visits = self.hints.select_visits
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
            on_linked=hosts.records.domains.link,
            on_hint=None if self.hints is None else self.hints.follow,
        )
        # Parts added with ``join``, by the names of their directories.
        self._added_parts: dict[str, OwnedPart] = {}
        self.aliases = hosts.budgets.aliases
        if self.aliases is not None:
            self.join("aliases", self.aliases)
        # When changed host records were last written, by the clock of the shard.
        self._flushed_at = 0.0
        self.is_leaving = False
        self.is_abandoned = False
        self.trusts_log = True
        frontier.leases.shard = self

    @property
    def parts(self) -> dict[str, Part]:
        """Return the parts that a checkpoint saves, by the names of their directories."""
        return {"frontier": self.frontier.parts, **self._tables._asdict(), **self._added_parts}

    def join(self, name: str, part: OwnedPart) -> None:
        """Add *part* to the shard, with a directory *name*. To be called before ``open``."""
        self._added_parts[name] = part

    def resize(self, shards: int) -> None:
        """Resize all caches for a process with *shards* shards, which share its memory.

        Excess entries are dropped when something is added, or with the next merge.
        """

        def share_of(name: str) -> int:
            """Return the share of the cache *name*, whose size depends on the memory budget."""
            return part_of(name, self.settings.sizes[name], shards=shards)

        def fixed_share(size: _Size) -> int:
            """Return the share of a cache whose size for the process is always the same."""
            return max(size.of_process // shards, size.minimum_of_shard)

        back = self.frontier.back
        back.resize(share_of("queues"))
        back.remembered.resize(fixed_share(_REMEMBERED_PAUSES))
        if isinstance(self.eliminator, Eliminator):  # a custom one has its own limits
            self.eliminator.resize(
                buffer_size=share_of("SEEN_BUFFER_SIZE"), cache_size=share_of("SEEN_CACHE_SIZE")
            )
        self.content.resize(fixed_share(_UNWRITTEN_DOCUMENTS))
        for table in (self.ranks, self._tables.domains):
            table.resize(fixed_share(_UNSORTED_HOSTS))
        self.hosts.records.resize(
            size=share_of("hosts"),
            robots_size=share_of("robots"),
            counters=fixed_share(_DOMAIN_COUNTERS),
            database_kib=fixed_share(_DATABASE_KIB),
        )
        if self.aliases is not None:
            self.aliases.resize(fixed_share(_FIRST_PAGES))
        for search in filter(None, (self.hosts.robots, self.hosts.data_mining)):
            search.cache.resize(
                size=fixed_share(_ROBOTS_FILES), max_bytes=fixed_share(_ROBOTS_BYTES)
            )

    def open(self, state: StateDirectory, *, forgets: bool = False) -> None:
        """Open all parts from the saved *state*, and attach them to it. Blocks.

        *forgets* tells that the records of the last contacts may be missing. Raises
        CorruptRecordError, NewerFormatError and OSError, and FatalError if a rules file is invalid
        or a setting such as POLITENESS_KEY differs from the saved one; then nothing stays open.
        """
        try:
            self._open(state, forgets=forgets)
        except BaseException:
            self.close(lambda _: None)
            raise

    def _open(self, state: StateDirectory, *, forgets: bool) -> None:
        """Check that *state* belongs to a crawl with these settings, then do as ``open`` says."""
        if state.resumed and state.facts.get("seed", 0) != seed_in_use():
            raise FatalError(
                f"{state.path} belongs to a job with another seed: move it into a new JOBDIR."
            )

        saved_key = state.facts.get("politeness_key", self.settings.key)
        if saved_key != self.settings.key:
            raise FatalError(
                f"JOBDIR {state.path.parent.parent} holds a crawl with POLITENESS_KEY {saved_key}, "
                f"not {self.settings.key}: continue with that, or choose another JOBDIR."
            )

        if self.settings.is_limited and state.resumed and not state.facts.get("knows_domains"):
            raise FatalError(
                "This crawl was started with URL_SCOPE open, so the domains of its seeds are not "
                "known: continue with that, or choose another JOBDIR."
            )

        if "clock_offset" in state.facts and not state.rebooted:
            self.clock.continue_from(state.facts["clock_offset"])

        self.hosts.records.open()
        for name, table in self._tables._asdict().items():
            table.open(state.saved_snapshot(name))
        for joined, owned in self._added_parts.items():
            owned.open(state.saved_snapshot(joined))
        # A power failure may have destroyed the records of contacts before the machine booted,
        # which it did at the clock's offset. Without a reboot no record is missing.
        booted_at = self.clock.offset if state.rebooted else 0.0
        unlogged_until = self.clock() if forgets else booted_at
        # Opened last, because the pages in its done log are passed to the content-seen test again.
        self.frontier.open(
            state.saved_snapshot("frontier"),
            trust_done=self.trusts_log and not state.rebooted,
            on_done=self._commit_again,
            unlogged_until=unlogged_until,
        )

        for name, part in self.parts.items():
            state.attach(name, part)
        state.facts = {
            "politeness_key": self.settings.key,
            "seed": seed_in_use(),
            "clock_offset": self.clock.offset,
            "knows_domains": self.settings.is_limited,
        }

    def _commit_again(self, note: bytes) -> None:
        """Mark a page's content as seen. *note* is from the done log since the last checkpoint."""
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
        """Finish the URL of *lease*.

        *content* is the fingerprint of its document, which now counts as seen; 0 if there is none.
        For *result* and *due* see ``LeaseTable.finish``.
        """
        self.frontier.leases.finish(lease, note=encode_note(content), result=result, due=due)
        if content:
            self.content.commit(content)

    def submit(self, batch: LinkBatch) -> None:
        """Submit *batch*, whose links lead to hosts of this shard, see ``LinkSink.submit``."""
        self.intake.submit(batch)

    def enqueue(self, entry: Entry, fingerprint: int | None) -> None:
        """Submit *entry*, made from an ordinary Request to a host of this shard.

        Without a *fingerprint* the entry bypasses the eliminator. Sets the politeness key and the
        rank of the entry, which is on disk when this returns. Raises OSError when the disk is full.
        """
        host = POLITENESS_KEYS[self.settings.key](host_of(entry.url))
        entry = replace(entry, host=host, rank=self.ranks.rank(host))
        if fingerprint is None:
            self.frontier.requeue(entry)
        else:
            self.intake.submit_entry(fingerprint, entry)

    @property
    def tells_own(self) -> bool:
        """Whether the eliminator ``tells_own``; a custom one may not have that."""
        return getattr(self.eliminator, "tells_own", False)

    @property
    def awaits_seeds(self) -> bool:
        """Return whether fetching must wait because more seeds for this shard may arrive."""
        return self.settings.needs_all_seeds and not self.feeder.has_all_seeds

    @property
    def state(self) -> ShardState:
        """Return the shard's state for reports: starting, running or leaving."""
        if self.is_leaving:
            return ShardState.LEAVING
        return ShardState.STARTING if self.awaits_seeds else ShardState.RUNNING

    @property
    def can_hand_out(self) -> bool:
        """Return whether ``acquire`` may return a URL."""
        return not (self.is_leaving or self.awaits_seeds)

    @property
    def is_idle(self) -> bool:
        """Return whether no URL is leased and no host is in process."""
        leases = self.frontier.leases
        return not (leases or leases.contacts)

    def acquire(self, host: str | None = None) -> Lease[Shard] | None:
        """Lease a URL of a ready host, or of *host*, see ``Frontier.acquire``."""
        return self.frontier.acquire(host) if self.can_hand_out else None

    def ready_at(self) -> float:
        """Return when to try ``acquire`` again, by the clock of the process; infinity if never."""
        time = self.frontier.ready_at() if self.can_hand_out else None
        # Converted from the clock of the shard to that of the process.
        return math.inf if time is None else time - self.clock.offset + now.offset

    @property
    def has_pending(self) -> bool:
        """Return whether any URL waits, is leased, or may still reach the frontier. O(1)."""
        return bool(len(self.frontier) or self.frontier.leases or self.feeder.has_pending)

    def work(self, supply: Callable[[], Supply]) -> None:
        """Do a slice of background work: move new URLs to the frontier, write host records.

        *supply* returns how soon any shard has a URL to fetch. Raises OSError.
        """
        self.feeder.work(supply)

        time = self.clock()
        if time - self._flushed_at >= _FLUSH_SECS:
            self._flushed_at = time
            if self.hosts.records.failure is not None:  # an earlier write, in a thread, has failed
                raise self.hosts.records.failure
            self.hosts.records.flush()

    def stats(self) -> dict[str, float]:
        """Return the stats of this shard, keyed by their names in the crawl's stats."""
        return {
            **self.frontier.stats(),
            **self.eliminator.stats(),
            **self.content.stats(),
            **self.hosts.records.stats(),
            **self.admission.stats(),
            **(self.hints.stats() if self.hints else {}),
            "seen/waiting": self.eliminator.waiting,
            "links/submitted": self.intake.submitted,
            **{f"urls/refused/{name}": count for name, count in self.intake.refused.items()},
        }

    def abandon(self) -> None:
        """Stop all look-ups, because the shard has left this process. Returns immediately.

        ``close`` must follow, in any thread.
        """
        self.is_leaving = True
        self.is_abandoned = True
        self._ignore_lookups()

    def _ignore_lookups(self) -> None:
        """Ignore the results of look-ups of addresses that are still under way."""
        if self.hosts.addresses is not None:  # else a proxy looks them up
            self.hosts.addresses.close()

    def close(self, on_error: Callable[[Exception], None]) -> None:
        """Close all parts, when no thread works for them any more. Blocks.

        Writes no checkpoint. May be called again. *on_error* is called with each error of a part.
        """
        self._ignore_lookups()
        # The records, which store the frontier's pauses, are closed last.
        closes = [self.frontier.close, *(table.close for table in self._tables)]
        closes += [part.close for part in self._added_parts.values()]
        for close in [*closes, self.hosts.records.close]:
            try:
                close()
            except (OSError, CorruptRecordError) as error:
                on_error(error)


def _may_pass(
    rules: HostRules, may_pass: Callable[[str, Entry], bool] | None, gate: str, entry: Entry
) -> bool:
    """Return whether *entry* passes *gate*: by a command, or because it was fetched already."""
    return rules.may_pass(gate, entry.url) or (may_pass is not None and may_pass(gate, entry))


def encode_note(content: int) -> bytes:
    """Encode the note about a page; *content* is its document's fingerprint, or 0 for no note."""
    return _NOTE.pack(_NOTE_VERSION, content) if content else b""


def content_of(note: bytes) -> int:
    """Return the document's fingerprint in *note*; 0 if there is none.

    Raises NewerFormatError, and struct.error if *note* is damaged.
    """
    if not note:
        return 0
    version, content = _NOTE.unpack_from(note)
    if version > _NOTE_VERSION:
        raise NewerFormatError("the done log's note", version, _NOTE_VERSION)
    return int(content)
