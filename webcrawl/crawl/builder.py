"""From settings to parts: the one place that reads the scheduler's settings and builds its rooms.

Every part that a user may replace is named by a setting. A class with ``from_crawler`` is built
by it; one without gets the keyword arguments that the default class gets.
"""

from __future__ import annotations

import random
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from scrapy.utils.misc import load_object

from webcrawl.clock import Clock, wall_time
from webcrawl.configuration.memory_budget import size_of
from webcrawl.configuration.values import flag, number, positive, whole
from webcrawl.crawl._engine import wake
from webcrawl.crawl.downloader import MercatorDownloader
from webcrawl.crawl.host_knowledge import HostKnowledge
from webcrawl.crawl.jobdir import Job, shard_path
from webcrawl.crawl.kept_checkpoints import KeptCheckpoints
from webcrawl.crawl.link_extractor import link_kinds, sitemap_max_bytes
from webcrawl.crawl.outcome_log import OutcomeLog
from webcrawl.crawl.reading import ReadingWatch
from webcrawl.crawl.seeds.domains import SeedDomains
from webcrawl.crawl.seeds.ranks import HostRanks
from webcrawl.crawl.sitemaps import Sitemaps
from webcrawl.crawl.submission import SITEMAP, LinkSubmitter
from webcrawl.crawl.suffix_lists import suffix_list_of
from webcrawl.crawl.url_rules import (
    OPEN,
    SEEDS,
    equivalence_of,
    filters_of,
    redirect_filters_of,
    scope_of,
)
from webcrawl.dupefilter import MercatorDupeFilter
from webcrawl.errors import FatalError
from webcrawl.frontier import Frontier
from webcrawl.frontier.admission import Admission
from webcrawl.frontier.domain_share import DomainShares
from webcrawl.hosts.budgets.depths import DepthBudgets
from webcrawl.hosts.budgets.quotas import Ledger, budgets_of
from webcrawl.hosts.budgets.reputation import ReputationGate
from webcrawl.hosts.budgets.traps.keeper import TrapKeeper
from webcrawl.hosts.politeness.addresses import HostAddresses
from webcrawl.hosts.politeness.delays import Politeness, longest_crawl_delay, profile_of
from webcrawl.hosts.politeness.exclusions import Exclusions
from webcrawl.hosts.politeness.origin_rests import OriginRests
from webcrawl.hosts.politeness.outage import Outage
from webcrawl.hosts.politeness.pauses import Pauses
from webcrawl.hosts.politeness.preconditions import HostPrelude
from webcrawl.hosts.records import HostRecords
from webcrawl.hosts.retry_policy import RetryPolicy
from webcrawl.hosts.robots.cache import RobotsCache
from webcrawl.hosts.robots.lookup import RobotsSearch
from webcrawl.net.dns.shared import resolver_of
from webcrawl.net.gopher.handler import gopher_ports
from webcrawl.net.guard import AddressGuard
from webcrawl.net.limits import FetchLimits, page_max_bytes
from webcrawl.net.schemes import followed_schemes
from webcrawl.seen.content import ContentSeen
from webcrawl.urls.registered_domain import registered_domain

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from webcrawl.frontier import DelayPolicy
    from webcrawl.frontier.admission import Gate

# Hosts of seeds whose ranks, and sites of seeds that, are remembered.
_SEEDS = 1 << 20
# Reputation budgets are doubled at most so often: more pages than there are.
_MAX_ROUNDS = 40


def scheduler_parts(crawler: Crawler) -> dict[str, Any]:
    """The keyword arguments of MercatorScheduler but *crawler*. Touches no disk, but that it makes
    a temporary directory for a crawl without JOBDIR, of which nothing is to stay.

    Raises FatalError with one sentence for a setting that cannot be.
    """
    settings = crawler.settings
    _check_downloader(settings)
    # Scrapy logs what a handler raises and goes on without it: a wrong value must be told now.
    FetchLimits.from_settings(settings)
    flag(settings, "DOWNLOAD_FAIL_ON_DATALOSS")
    gopher_ports(settings)
    resolver_of(crawler)
    temporary = None
    if not settings["JOBDIR"]:
        temporary = TemporaryDirectory(prefix="webcrawl-job-", ignore_cleanup_errors=True)
    jobdir = Path(settings["JOBDIR"] if temporary is None else temporary.name)
    shard = shard_path(jobdir, "00")
    executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="merge")
    eliminator = MercatorDupeFilter.build_eliminator(
        settings, path=shard / "seen", executor=executor
    )
    tables = {name: HostRanks(path=shard / name, capacity=_SEEDS) for name in ("ranks", "domains")}
    domains = SeedDomains(table=tables["domains"], capacity=_SEEDS)
    profile = profile_of(settings)
    delay = _build(
        crawler,
        "POLITENESS_POLICY",
        factor=profile.factor,
        floor=profile.floor,
        ceiling=profile.ceiling,
        unmeasured=profile.unmeasured,
        backoff=number(settings, "POLITENESS_BACKOFF_SECS", at_least=0),
        backoff_max=number(settings, "POLITENESS_BACKOFF_MAX_SECS", at_least=0),
    )
    records = HostRecords(
        path=shard / "hosts",
        size=size_of(settings, "HOSTS_CACHE_SIZE"),
        robots_size=size_of(settings, "ROBOTS_CACHE_SIZE"),
        executor=(writer := ThreadPoolExecutor(max_workers=1, thread_name_prefix="hosts")),
    )
    form = equivalence_of(settings).form
    clock = Clock()
    frontier = _frontier(crawler, shard, delay, records, clock)
    ledger, budgets = budgets_of(settings, records)
    hosts = _hosts(
        crawler,
        delay,
        records,
        frontier,
        clock,
        jobdir=jobdir,
        executor=writer,
        key=profile.key,
        ledger=ledger,
    )
    links = LinkSubmitter(
        eliminator=eliminator,
        filters=filters_of(
            settings,
            schemes=followed_schemes(settings),
            domains=domains,
            this_year=time.gmtime(wall_time()).tm_year,
        ),
        form=form,
        domains=None if scope_of(settings) == OPEN else domains,
        ranks=tables["ranks"],
        key_of=hosts.key_of,
        max_redirects=whole(settings, "REDIRECT_MAX_TIMES", at_least=0),
        awaits_seeds=scope_of(settings) == SEEDS and getattr(crawler.spider, "reads_seeds", False),
        obeys_nofollow=flag(settings, "NOFOLLOW_OBEY", True),
        depth_budgets=DepthBudgets.from_settings(settings),
        linked=records.domains.link,
        clock=wall_time,
    )
    return {
        "job": Job(
            path=jobdir,
            kept=_kept(settings, jobdir, records),
            beside={Path(settings["LOG_FILE"] or "").name},
        ),
        "temporary": temporary,
        "frontier": frontier,
        "eliminator": eliminator,
        "content": ContentSeen(path=shard / "content", executor=executor),
        "tables": tables,
        "links": links,
        "hosts": hosts,
        "outcome_log": OutcomeLog.from_crawler(crawler, jobdir=jobdir, form=form),
        "sitemaps": Sitemaps(
            robots=hosts.robots,
            links=links,
            max_bytes=sitemap_max_bytes(settings),
            page_max_bytes=page_max_bytes(settings),
            named=SITEMAP in link_kinds(settings),
        ),
        "admission": Admission(
            frontier=frontier,
            gates=[
                *budgets,
                *hosts.traps.gates(),
                *_reputation(settings, records, frontier, clock),
                hosts.origins,
            ],
        ),
        "suffixes": suffix_list_of(settings),
        "executor": executor,
        "lease_secs": _lease_secs(settings),
        "grace_secs": number(settings, "SHUTDOWN_GRACE_SECS", at_least=0),
        "item_secs": positive(settings, "ITEM_TIMEOUT_SECS"),
        "reading": ReadingWatch(
            jobdir=Path(jobdir), max_secs=positive(settings, "READING_MAX_SECS")
        ),
        "workers": _workers(settings),
    }


def _hosts(
    crawler: Crawler,
    delay: DelayPolicy,
    records: HostRecords,
    frontier: Frontier,
    clock: Clock,
    *,
    jobdir: Path,
    executor: ThreadPoolExecutor,
    key: str,
    ledger: Ledger,
) -> HostKnowledge:
    settings = crawler.settings
    exclusions = Exclusions.from_settings(settings)
    retries = RetryPolicy.from_settings(settings)
    politeness = Politeness.from_settings(
        settings,
        policy=delay,
        records=records,
        retries=retries,
        clock=clock,
        rng=random.Random(),
    )
    addresses = HostAddresses(
        resolver=resolver_of(crawler),
        guard=AddressGuard.from_settings(settings),
        records=records,
        clock=clock,
    )
    redirects = redirect_filters_of(settings, schemes=followed_schemes(settings))
    robots = RobotsSearch(
        robots=RobotsCache.from_settings(settings, store=records, clock=clock),
        refusal=lambda url: redirects.refusal(url, 0),
        obey=flag(settings, "ROBOTSTXT_OBEY"),
        retries=retries,
        clock=clock,
    )
    proxied = _is_proxied(settings)
    pauses = Pauses(clock=clock, wake=lambda: wake(crawler.engine))

    def count(name: str) -> None:
        crawler.stats.inc_value(name)  # there are no stats before the crawl begins

    outage = Outage.from_settings(
        settings,
        pauses=pauses,
        count=count,
        requeue=frontier.requeue,
        check=addresses.check,
        forget=addresses.forget_failures,
        clock=clock,
    )

    return HostKnowledge(
        records=records,
        clock=clock,
        executor=executor,
        exclusions=exclusions,
        addresses=None if proxied else addresses,
        robots=robots,
        politeness=politeness,
        retries=retries,
        ledger=ledger,
        prelude=HostPrelude(
            exclusions=exclusions,
            politeness=politeness,
            addresses=None if proxied else addresses,
            robots=robots,
            longest_crawl_delay=longest_crawl_delay(settings),
            doubts_names=lambda: outage.doubts_names(others=addresses.under_way),
        ),
        traps=TrapKeeper.from_settings(settings, jobdir=jobdir, records=records, clock=clock),
        pauses=pauses,
        outage=outage,
        origins=OriginRests(records=records, clock=clock),
        key=key,
    )


def _is_proxied(settings: BaseSettings) -> bool:
    """Whether a proxy looks up the hosts: one may be named by any Request where the user has set
    HTTPPROXY_ENABLED; where it is on because Scrapy has it so, if the environment names one."""
    enabled = flag(settings, "HTTPPROXY_ENABLED")
    return enabled and bool(
        settings.getpriority("HTTPPROXY_ENABLED") or urllib.request.getproxies()
    )


def _reputation(
    settings: BaseSettings, records: HostRecords, frontier: Frontier, clock: Clock
) -> list[Gate]:
    """None where the domains of the crawl were chosen by who began it."""
    base = whole(settings, "REPUTATION_BASE_PAGES", at_least=0)
    rounds = whole(settings, "REPUTATION_ROUNDS", at_least=0)
    if not base or scope_of(settings) != OPEN:
        return []
    return [
        ReputationGate(
            domains=records.domains,
            base=base,
            rounds=min(rounds, _MAX_ROUNDS),
            is_far=frontier.is_far,
            clock=clock,
        )
    ]


def _frontier(
    crawler: Crawler,
    shard: Path,
    delay: DelayPolicy,
    records: HostRecords,
    clock: Clock,
) -> Frontier:
    settings = crawler.settings
    workers = _workers(settings)
    queues = whole(settings, "FRONTIER_BACK_QUEUES", at_least=0) or 3 * workers
    share = positive(settings, "FRONTIER_DOMAIN_SHARE")
    if share > 1:
        raise FatalError(f"FRONTIER_DOMAIN_SHARE must be at most 1, not {share:g}.")
    return Frontier(
        path=shard / "frontier",
        clock=clock,
        prioritizer=_build(
            crawler,
            "FRONTIER_PRIORITIZER",
            levels=whole(settings, "FRONTIER_LEVELS", at_least=1),
        ),
        selector=_build(crawler, "FRONTIER_SELECTOR", rng=random.Random()),
        delay=delay,
        queues=queues,
        shares=DomainShares(
            domain_of=registered_domain, workers=workers, most=max(1, int(share * workers))
        ),
        max_queues=max(queues, size_of(settings, "FRONTIER_BACK_QUEUES_MAX")),
        rests=records.rests,
    )


def _kept(settings: BaseSettings, jobdir: Path, records: HostRecords) -> KeptCheckpoints:
    return KeptCheckpoints(
        path=jobdir,
        count=whole(settings, "CHECKPOINTS_KEPT", at_least=0),
        every=number(settings, "CHECKPOINTS_KEPT_INTERVAL_SECS", at_least=0),
        copied={"shards/00/hosts": records.copy_to},
    )


def _check_downloader(settings: BaseSettings) -> None:
    kind = load_object(settings["DOWNLOADER"])
    if not (isinstance(kind, type) and issubclass(kind, MercatorDownloader)):
        raise FatalError(
            "DOWNLOADER must be webcrawl.crawl.downloader.MercatorDownloader, or made of it: no "
            "other one gives hosts back to the frontier."
        )


def _lease_secs(settings: BaseSettings) -> float:
    lease = number(settings, "FRONTIER_LEASE_SECS", at_least=1)
    timeout = number(settings, "DOWNLOAD_TIMEOUT", at_least=0)
    if lease <= timeout:
        raise FatalError(
            f"FRONTIER_LEASE_SECS is {lease:g}, which is not above DOWNLOAD_TIMEOUT, {timeout:g}: "
            "hosts would be asked twice at once."
        )
    return lease


def _build(crawler: Crawler, setting: str, **values: Any) -> Any:
    """The part that *setting* names."""
    path = crawler.settings[setting]
    try:
        part = load_object(path)
    except (ImportError, NameError, ValueError, TypeError) as error:
        raise FatalError(f"{setting} is {path!r}, which cannot be loaded: {error}.") from error
    if hasattr(part, "from_crawler"):
        return part.from_crawler(crawler)
    try:
        return part(**values)
    except TypeError as error:
        raise FatalError(f"{setting} is {path!r}, which does not fit: {error}.") from error


def _workers(settings: BaseSettings) -> int:
    return whole(settings, "CONCURRENT_REQUESTS", at_least=1)
