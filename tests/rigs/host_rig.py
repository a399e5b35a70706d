"""What the crawl knows of hosts, in the hands of a test: real parts over records in memory."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple

from scrapy.statscollectors import StatsCollector
from scrapy.utils.test import get_crawler

from webcrawl.clock import Clock
from webcrawl.crawl.lease.services import ContactRules
from webcrawl.crawl.shard.shard import Budgets, HostServices, Shard, ShardSettings
from webcrawl.hosts.budgets.quotas import Ledger
from webcrawl.hosts.budgets.traps import LearnedTraps, UrlSpace
from webcrawl.hosts.budgets.traps.keeper import TrapKeeper, exceptions_in
from webcrawl.hosts.budgets.traps.trap_files import Notes
from webcrawl.hosts.politeness.delays import Politeness, PolitenessLimits
from webcrawl.hosts.politeness.exclusions import Exclusions
from webcrawl.hosts.politeness.origin_rests import OriginRests
from webcrawl.hosts.politeness.outage import Outage, OutageActions
from webcrawl.hosts.politeness.pauses import Pauses
from webcrawl.hosts.politeness.preconditions import Preconditions
from webcrawl.hosts.records import HostRecord
from webcrawl.hosts.records.host_counters import HostCounter
from webcrawl.hosts.retry_policy import RetryPolicy
from webcrawl.hosts.robots.lookup import RobotsSearch
from webcrawl.hosts.robots.rules_cache import AnswerTimes, RobotsCache

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from webcrawl.crawl.shard.live_settings import LiveSettings
    from webcrawl.crawl.shard.shard import ShardTables
    from webcrawl.frontier import DelayPolicy, Entry, Frontier
    from webcrawl.frontier.admission import Gate
    from webcrawl.hosts.politeness.addresses import HostAddresses


class Records:
    """Host records in a dictionary; with *forgetful* each host is always met for the first time."""

    def __init__(self, *, forgetful: bool = False) -> None:
        self.hosts: dict[str, HostRecord] = {}
        self.packed: dict[str, bytes] = {}
        self._forgetful = forgetful
        self.domains = SimpleNamespace(
            link=lambda *_: None, find=lambda _: HostCounter(), put=lambda *_: None
        )

        self.traps = MemoryStore()
        self.rests = self.failure = None

    def open(self) -> None:
        """Nothing is on disk."""

    copy_to = resize = close = lambda *_, **__: None

    def get(self, host: str) -> HostRecord:
        return self.hosts.get(host) or HostRecord(host)

    def put(self, record: HostRecord) -> None:
        if not self._forgetful:
            self.hosts[record.host] = record

    def robots(self, origin: str) -> bytes | None:
        return self.packed.get(origin)

    def put_robots(self, origin: str, data: bytes) -> None:
        self.packed[origin] = data


class MemoryStore(dict[str, bytes]):
    """What is put is what is got."""

    file = Path("memory")

    def put(self, key: str, data: bytes) -> None:
        self[key] = data

    waiting = dict.get


def robots_cache(
    records: Records, *, clock: Callable[[], float], expire: float = 86_400.0
) -> RobotsCache:
    return RobotsCache(
        store=records,
        user_agent="webcrawl",
        size=100,
        max_bytes=1 << 20,
        times=AnswerTimes(expire, 600.0),
        clock=clock,
    )


def live_settings(*, workers: int = 1) -> LiveSettings:
    """As much of them as a shard reads by itself."""
    return SimpleNamespace(workers=workers)  # type: ignore[return-value]  # as said


class HostRig(NamedTuple):
    """What a shard has for its hosts, and what holds for all of them."""

    services: HostServices
    rules: ContactRules

    def shard(self, frontier: Frontier, tables: ShardTables) -> Shard:
        """A shard with them."""
        return Shard(
            settings=ShardSettings(
                number=0,
                clock=Clock(),
                key=self.rules.key,
                is_limited=False,
                live=live_settings(),
            ),
            frontier=frontier,
            tables=tables,
            hosts=self.services,
        )


def host_rig(
    *,
    policy: DelayPolicy,
    clock: Callable[[], float],
    obey: bool = True,
    records: Records | None = None,
    addresses: HostAddresses | None = None,
    exclusion_file: Path | None = None,
    crawl_delay_cap: float = float("inf"),
    long_crawl_delay: str = "cap",
    longest_retry_after: float = 86_400.0,
    max_failures: int = 1000,
    key: str = "host",
    retry_times: int = 2,
    outage_hosts: int = 0,
    requeue: Callable[[Entry], None] = lambda _: None,
    ledger: Ledger | None = None,
    gates: Sequence[Gate] = (),
) -> HostRig:
    """Without *addresses* names are nobody's business here, and nothing is an outage without
    *outage_hosts*."""
    records = records or Records()
    exclusions = Exclusions(path=exclusion_file, clock=clock)
    exclusions.open()
    # Waits are the policy's alone.
    retries = RetryPolicy(times=retry_times, backoff=0.0, most=max_failures)
    politeness = Politeness(
        policy=policy,
        records=records,
        clock=clock,
        rng=random.Random(1),
        retries=retries,
        limits=PolitenessLimits(
            0.0, crawl_delay_cap, long_crawl_delay, longest_retry_after, 3600.0
        ),
    )
    robots = RobotsSearch(
        robots=robots_cache(records, clock=clock),
        refusal=lambda _: None,
        obey=obey,
        retries=retries,
        clock=clock,
    )
    pauses = Pauses(clock=clock, wake=lambda: None)
    exceptions = exceptions_in(None, clock=clock)
    return HostRig(
        HostServices(
            records=records,  # type: ignore[arg-type]  # as much of it as is needed
            addresses=addresses,
            robots=robots,
            politeness=politeness,
            preconditions=Preconditions(
                exclusions=exclusions,
                politeness=politeness,
                addresses=addresses,
                robots=robots,
                doubts_names=lambda: False,
            ),
            budgets=Budgets(
                ledger=ledger or Ledger(records),  # type: ignore[arg-type]  # as above
                traps=TrapKeeper(
                    learned=LearnedTraps(
                        store=MemoryStore(),
                        exceptions=exceptions,
                        notes=Notes(Path("/nowhere/traps.txt")),
                        min_duplicates=30,
                        clock=clock,
                    ),
                    space=UrlSpace(records=records, exceptions=exceptions, base=1000, clock=clock),
                ),
                origins=OriginRests(records=records, clock=clock),
                gates=gates,
            ),
        ),
        ContactRules(
            key=key,
            exclusions=exclusions,
            pauses=pauses,
            outage=Outage(
                hosts=outage_hosts,
                probe_secs=5.0,
                pauses=pauses,
                actions=OutageActions(
                    count=StatsCollector(get_crawler()).inc_value,
                    requeue=requeue,
                    check=lambda _, then: then(True),
                    forget=lambda: None,
                ),
                clock=clock,
            ),
            retries=retries,
        ),
    )
