"""Builds the process and its shards from settings.

No other module reads the scheduler's settings. Every part that a user may replace is named by a
setting. If its class has ``from_crawler``, that builds the part; otherwise the class is called with
the keyword arguments of the default class.
"""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from webcrawl.clock import Clock, now, wall_time
from webcrawl.configuration import values
from webcrawl.configuration.equivalences import equivalence_of
from webcrawl.configuration.memory_budget import sizes
from webcrawl.configuration.values import component, flag, part_of, port_numbers, whole_number
from webcrawl.configuration.values import number as finite
from webcrawl.crawl.engine._engine import wake
from webcrawl.crawl.engine.stop import CrawlStop
from webcrawl.crawl.health import Examiner
from webcrawl.crawl.job.jobdir import Job
from webcrawl.crawl.job.kept_checkpoints import KeptCheckpoints
from webcrawl.crawl.job.state_directory import shard_name, shard_path
from webcrawl.crawl.job.suffix_lists import suffix_list_of
from webcrawl.crawl.job_state import JobResources, JobState
from webcrawl.crawl.lease.downloader import MercatorDownloader
from webcrawl.crawl.lease.item_limit import ItemLimit
from webcrawl.crawl.lease.outcome_log import INFO_LOG, OutcomeLog
from webcrawl.crawl.lease.services import ContactRules, ProcessServices
from webcrawl.crawl.links import url_rules
from webcrawl.crawl.links.link_extractor import PageLinks, link_kinds
from webcrawl.crawl.links.page_intake import PageIntake
from webcrawl.crawl.links.reading import ReadingWatch
from webcrawl.crawl.links.refused_log import RefusedLog
from webcrawl.crawl.links.remote_shards import RemoteShards
from webcrawl.crawl.links.submission import SITEMAP, LinkRules, LinkSubmitter
from webcrawl.crawl.links.url_rules import OPEN, SEEDS, filters_of, redirect_filters_of, scope_of
from webcrawl.crawl.process import Process, ProcessHooks
from webcrawl.crawl.seeds.ranks import HostRanks
from webcrawl.crawl.shard.live_settings import LiveSettings
from webcrawl.crawl.shard.ranks_file import RankedPrioritizer, RanksFile
from webcrawl.crawl.shard.shard import Budgets, HostServices, Shard, ShardSettings, ShardTables
from webcrawl.crawl.shard.shards import Shards
from webcrawl.crawl.task.page_reader import PageReader
from webcrawl.crawl.task.renderer import Rendering, RenderSettings
from webcrawl.dupefilter import eliminator_factory
from webcrawl.errors import FatalError
from webcrawl.frontier import (
    DelayPolicy,
    Entry,
    Frontier,
    FrontierParts,
    FrontierPolicies,
    FrontierSizes,
)
from webcrawl.frontier.admission import Gate
from webcrawl.frontier.domain_share import DomainShares
from webcrawl.frontier.front_end import FrontEnd, MercatorFrontEnd, check_entry_counts
from webcrawl.frontier.prioritizer import DepthPrioritizer, DepthRankPrioritizer
from webcrawl.frontier.selector import FirstSelector, GeometricSelector
from webcrawl.hosts.aliases import Aliases
from webcrawl.hosts.budgets.depths import DepthOrder
from webcrawl.hosts.budgets.quotas import budgets_of
from webcrawl.hosts.budgets.reputation import ReputationGate
from webcrawl.hosts.budgets.traps.keeper import TrapKeeper, exceptions_in
from webcrawl.hosts.host_rules import HostRules
from webcrawl.hosts.politeness.addresses import HostAddresses
from webcrawl.hosts.politeness.delays import Politeness, is_unproven, may_be_closed, profile_of
from webcrawl.hosts.politeness.host_policies import CredentialGate, HostDelays
from webcrawl.hosts.politeness.origin_rests import OriginRests
from webcrawl.hosts.politeness.outage import Outage
from webcrawl.hosts.politeness.pauses import Pauses
from webcrawl.hosts.politeness.preconditions import Preconditions
from webcrawl.hosts.politeness.walls import Walls
from webcrawl.hosts.records import HostRecords
from webcrawl.hosts.retry_policy import RetryPolicy
from webcrawl.hosts.robots.lookup import ON_REMOTE_HOST, RobotsSearch
from webcrawl.hosts.robots.rules_cache import RobotsCache
from webcrawl.net.dns.resolver import resolver_of
from webcrawl.net.guard import AddressGuard, followed_schemes
from webcrawl.net.limits import FetchLimits
from webcrawl.net.rates import Rates
from webcrawl.randomness import generator
from webcrawl.revisit.change import text_fingerprint_of
from webcrawl.revisit.visits import Visits
from webcrawl.rights.policy import STRICT, TDM_PATH, TDM_PURPOSES, RightsPolicy
from webcrawl.seen import Eliminator
from webcrawl.seen.caches import trace_seed
from webcrawl.seen.content import ContentSeen
from webcrawl.storage.line_log import LineLog
from webcrawl.urls.hash_seed import new_seed
from webcrawl.urls.registered_domain import registered_domain

# Maximum number of seed hosts whose ranks a shard stores, and of seed domains.
_MAX_SEED_HOSTS = 1 << 20
# Maximum number of front-end queues with URL_MAX_DEPTH: deeper URLs share the last one.
_DEPTH_LEVELS = 64
_NO_HOOKS = ProcessHooks()


def should_keep_open(crawler: Crawler) -> bool:
    """Return whether the crawl stays open when no URLs are left (KEEP_OPEN, REVISIT).

    Raises FatalError if no more URLs could ever reach it.
    """
    settings = crawler.settings
    if flag(settings, "REVISIT"):
        return True

    keep_open = flag(settings, "KEEP_OPEN")
    # URLs can also come from other processes, from live seeds, and from control commands.
    has_control = settings["JOBDIR"] and flag(settings, "CONTROL_ENABLED")
    can_get_urls = settings["HIVE"] or flag(settings, "LIVE_SEEDS") or has_control
    if keep_open and getattr(crawler.spider, "reads_seeds", False) and not can_get_urls:
        raise FatalError(
            "KEEP_OPEN needs LIVE_SEEDS=1, a HIVE, or CONTROL_ENABLED=1 with a JOBDIR: otherwise "
            "the web spider would wait for seeds that cannot come."
        )
    return keep_open


class ProcessBuilder:
    """Builds one process of the crawl of *crawler*: first what its shards share, then the shards.

    Touches no disk, except that a crawl without JOBDIR gets a temporary directory. The crawl has
    *number* shards; the process starts with those whose numbers are in *held*. *remote* as in
    ``Shards``. POLITENESS_KEY "address" works with a single shard only, because hosts of several
    shards may have the same address.

    Raises FatalError with one sentence for an invalid setting.
    """

    def __init__(
        self,
        crawler: Crawler,
        *,
        number: int = 1,
        held: Sequence[int] = (0,),
        remote: Callable[[Shards], RemoteShards] | None = None,
    ) -> None:
        settings = crawler.settings
        _check_downloader(settings)
        # Scrapy logs what a handler raises and continues without it, so check its settings now.
        FetchLimits.from_settings(settings)
        flag(settings, "DOWNLOAD_FAIL_ON_DATALOSS")
        port_numbers(settings, "GOPHER_PORTS")
        resolver_of(crawler)

        self._crawler = crawler
        self._settings = settings
        # Only seeds are fetched if the spider has a queue that was built in advance.
        self._follows = getattr(crawler.spider, "segment_queue", None) is None
        profile = profile_of(settings)
        delay: DelayPolicy = _build_part(
            crawler,
            "POLITENESS_POLICY",
            **{name: value for name, value in profile._asdict().items() if name != "key"},
            backoff=finite(settings, "POLITENESS_BACKOFF_SECS", at_least=0),
            backoff_max=finite(settings, "POLITENESS_BACKOFF_MAX_SECS", at_least=0),
        )
        self._live = LiveSettings(settings, delay=delay)

        temporary = None
        if not settings["JOBDIR"]:
            temporary = TemporaryDirectory(prefix="webcrawl-job-", ignore_cleanup_errors=True)
        self._jobdir = Path(settings["JOBDIR"] if temporary is None else temporary.name)
        self.stop = CrawlStop(crawler=crawler, jobdir=self._jobdir)
        # The only shards to open, None for all that are there. Shards left by an earlier process of
        # a hive may belong to other processes by now.
        only = None if remote is None else [shard_name(shard_number) for shard_number in held]
        self._resources = JobResources(
            job=Job(
                path=self._jobdir,
                only=only,
                kept=KeptCheckpoints(
                    path=self._jobdir,
                    count=whole_number(settings, "CHECKPOINTS_KEPT", at_least=0),
                    every=finite(settings, "CHECKPOINTS_KEPT_INTERVAL_SECS", at_least=0),
                ),
                allowed_names={Path(settings["LOG_FILE"] or "").name},
                draw_seed=lambda: _seed_of_new_job(settings),
            ),
            temporary=temporary,
            merging=ThreadPoolExecutor(max_workers=1, thread_name_prefix="merge"),
            writing=ThreadPoolExecutor(max_workers=1, thread_name_prefix="hosts"),
            closing=ThreadPoolExecutor(max_workers=1, thread_name_prefix="shards"),
            suffixes=suffix_list_of(settings),
        )

        self._equivalence = equivalence_of(settings)
        self._guard = AddressGuard.from_settings(settings)
        self._is_proxied = _is_proxied(settings)
        # All shards use these, because to build them takes 4 ms.
        self._redirect_filters = redirect_filters_of(settings, schemes=followed_schemes(settings))
        self._rules = self._build_contact_rules(profile.key)
        self._ranks = RanksFile(path=settings["RANKS_FILE"], clock=now)
        self._trap_exceptions = exceptions_in(settings["TRAP_EXCEPTIONS_FILE"], clock=now)
        # Built in any case, because this checks its settings.
        visits = Visits.from_crawler(crawler, importance=self._ranks.importance)
        self._visits = visits if flag(settings, "REVISIT") else None
        self._back_queue_count = (
            whole_number(settings, "FRONTIER_BACK_QUEUES", at_least=0) or 3 * self._live.workers
        )
        self._sizes = sizes(settings)
        self._sizes["queues"] = max(self._back_queue_count, self._sizes["queues"])

        self.shards = Shards(number=number, remote=remote)
        self._rendering = self._build_rendering()
        for shard_number in held:
            self.shards.add(self.shard(shard_number))
        self.shards.resize()

    def state(self) -> JobState:
        """Build the state of the job: shards, rules and link submitter. No crawl needs to run."""
        links = self._build_link_submitter()
        self._links = links
        lists = self._rules.hosts.blocklists
        # The keys of rules_files are the prefixes of the stats of each file.
        return JobState(
            resources=self._resources,
            rules=self._rules,
            rules_files={
                "exclusions/": self._rules.hosts.exclusions,
                **{f"blocklists/{name}/": file for name, file in lists.items()},
                "hosts_policy/": self._rules.hosts.policies,
                "ranks/": self._ranks,
                "traps/exceptions/": self._trap_exceptions,
            },
            shards=self.shards,
            links=links,
        )

    def process(self, hooks: ProcessHooks = _NO_HOOKS) -> Process:
        """Build the whole process; *hooks* connect it to the other processes of its crawl."""
        crawler = self._crawler
        settings = self._settings
        jobdir = self._jobdir
        log_bytes = whole_number(settings, "INFO_LOG_MAX_FILE_BYTES", at_least=1)
        info_log = LineLog(
            path=jobdir / INFO_LOG, max_bytes=log_bytes, max_secs=values.log_file_secs(settings)
        )
        state = self.state()
        reading = ReadingWatch(jobdir=jobdir)
        reader = PageReader(
            pages=PageIntake(
                links=state.links,
                fail=self.stop.fail,
                text_fingerprint_of=text_fingerprint_of(settings),
            ),
            page_links=PageLinks(settings, count=self._count),
            reading=reading,
            items=ItemLimit(clock=now, crawler=crawler),
            stop=self.stop,
            choice=None if self._rendering is None else self._rendering.choice,
            follows=self._follows,
            is_full=lambda: process.intake.is_full,
        )
        process = Process(
            state=state,
            services=ProcessServices(
                crawler=crawler,
                shards=self.shards,
                rules=self._rules,
                outcome_log=OutcomeLog(
                    crawler=crawler, log=info_log, comparison_form=self._equivalence.comparison_form
                ),
                reading=reading,
                stop=self.stop,
                visits=self._visits,
                live=self._live,
                renderer=None if self._rendering is None else self._rendering.renderer,
            ),
            hooks=hooks,
            reader=reader,
        )
        # The doctor examines the whole process, so it can be built only now.
        if path := settings["DOCTOR_CLASS"]:
            doctor = part_of(crawler, "DOCTOR_CLASS", path, like=Examiner, process=process)
            process.health.doctor = doctor
            process.health.reported.append(doctor)
        return process

    # --- parts of the process

    def _count(self, name: str) -> None:
        """Add one to the stat *name*. To be called while crawling: before, there are no stats."""
        self._crawler.stats.inc_value(name)

    def _build_rendering(self) -> Rendering | None:
        """Build the renderer; None in a crawl that renders no pages."""
        settings = self._settings
        options = RenderSettings.from_settings(settings)
        if options.mode == "0":
            return None
        build = component("RENDER", settings["RENDER_BUILDER"], verb="needs")
        rendering: Rendering = build(
            self._crawler,
            rules=self._rules,
            shards=self.shards,
            filters=self._redirect_filters,
            jobdir=self._jobdir,
            options=options,
        )
        return rendering

    def _build_contact_rules(self, key: str) -> ContactRules:
        """Build the rules for contacts; *key* is POLITENESS_KEY."""
        crawler = self._crawler
        settings = self._settings
        # The engine does not exist yet, so it is looked up when a pause ends.
        pauses = Pauses(clock=now, wake=lambda: wake(crawler.engine))
        return ContactRules(
            key=key,
            hosts=HostRules.from_settings(settings),
            pauses=pauses,
            outage=Outage.from_settings(
                settings,
                pauses=pauses,
                count=self._count,
                check=resolver_of(crawler).probe,
                forget=resolver_of(crawler).forget,
                end=partial(self.stop.ask, "no_answer"),
                clock=now,
            ),
            retries=RetryPolicy.from_settings(settings),
            rates=Rates.from_settings(settings),
        )

    def _build_link_submitter(self) -> LinkSubmitter:
        """Build the part that filters links and submits them to this or another process.

        In a hive all links go through the connection to the other processes, which also submits
        those for the shards of this process.
        """
        settings = self._settings
        build_filters = partial(
            filters_of,
            settings,
            schemes=followed_schemes(settings),
            this_year=time.gmtime(wall_time()).tm_year,
            own=url_rules.own_filters(self._crawler),
            sampled=RefusedLog(jobdir=self._jobdir, clock=wall_time).append,
        )
        return LinkSubmitter(
            sink=self.shards.remote or self.shards,
            rules=LinkRules(
                filters=build_filters(),
                seed_filters=build_filters(for_seeds=True),
                equivalence=self._equivalence,
                max_redirects=whole_number(settings, "REDIRECT_MAX_TIMES", at_least=0),
                obeys_nofollow=flag(settings, "NOFOLLOW_OBEY"),
                takes_robots_sitemaps=SITEMAP in link_kinds(settings),
                follows=self._follows,
                keeps_cookies=flag(settings, "COOKIES_ENABLED"),
                kinds_of=lambda url: self._rules.hosts.url_policy(url).link_kinds,
            ),
            clock=wall_time,
        )

    # --- parts of each shard

    def shard(self, number: int) -> Shard:
        """Build shard *number* without opening it, or adding it to the shards of this process."""
        settings = self._settings
        path = shard_path(self._jobdir, shard_name(number))
        merging = self._resources.merging
        records = HostRecords(
            path=path / "hosts",
            size=self._sizes["hosts"],
            robots_size=self._sizes["robots"],
            executor=self._resources.writing,
        )
        clock = Clock()
        frontier = self._build_frontier(path / "frontier", records, clock)
        build_eliminator = eliminator_factory(settings, shards=self.shards.number)
        seen = build_eliminator(path / "seen", merging)
        shard = Shard(
            # All shards of the process share the live settings, the visits and the turns.
            settings=ShardSettings(
                number=number,
                clock=clock,
                key=self._rules.key,
                is_limited=scope_of(settings) != OPEN,
                live=self._live,  # settings that can change during the crawl
                visits=self._visits,  # when finished URLs are visited again
                sizes=self._sizes,
                turns=self.shards.turns,  # which shard may merge its eliminator
                needs_all_seeds=scope_of(settings) == SEEDS and self._follows,
            ),
            frontier=frontier,
            tables=ShardTables(
                seen=seen,
                content=ContentSeen(path=path / "content", executor=merging),
                ranks=HostRanks(path=path / "ranks", capacity=_MAX_SEED_HOSTS),
                domains=HostRanks(path=path / "domains", capacity=_MAX_SEED_HOSTS),
            ),
            hosts=self._build_host_services(
                records, self._build_budgets(records, frontier, seen, clock), clock
            ),
            # Pages that wait to be rendered passed the gates before they were fetched.
            may_pass=None if self._rendering is None else self._rendering.renderer.may_pass,
        )
        # Its share of the memory, once it is added to the other shards of this process.
        shard.resize(len(self.shards) + 1)
        return shard

    def _build_frontier(self, path: Path, records: HostRecords, clock: Clock) -> Frontier:
        """Build the frontier of a shard in *path*; *records* and *clock* are the shard's own."""
        crawler = self._crawler
        settings = self._settings
        live = self._live
        profile = profile_of(settings)
        timeout = finite(settings, "DOWNLOAD_TIMEOUT", at_least=0)
        # The pause of a host whose contact was cut off: its server may still be answering, for as
        # long as the timeout, before the shortest pause begins.
        cut_off_rest = profile.floor + min(timeout, profile.ceiling)

        levels = whole_number(settings, "FRONTIER_LEVELS", at_least=1)
        prioritizer = _build_part(crawler, "FRONTIER_PRIORITIZER", levels=levels)
        selector = _build_part(crawler, "FRONTIER_SELECTOR", rng=generator("selector"))
        # With a maximum depth, URLs are fetched strictly in the order of their depth. There is one
        # level for each depth, and the first level that is not empty comes next.
        if self._max_depth:
            prioritizer = DepthPrioritizer(levels=min(1 + self._max_depth, _DEPTH_LEVELS))
            if type(selector) is GeometricSelector:
                selector = FirstSelector()
        if settings["RANKS_FILE"]:
            prioritizer = RankedPrioritizer(prioritizer, self._ranks)

        return Frontier(
            FrontierParts(
                path=path,
                clock=clock,
                policies=FrontierPolicies(
                    prioritizer=prioritizer,
                    selector=selector,
                    delay=self._live.delay,
                    cut_off_rest=cut_off_rest,
                    # A contact that is missing from the log may also have been cut off.
                    unlogged_rest=max(profile.ceiling, cut_off_rest),
                    front_end=partial(_build_front_end, crawler),
                    parts_of=self._rules.hosts.parts_of,
                    should_go_last=partial(may_be_closed, records),
                ),
                sizes=FrontierSizes(
                    # The shard's part of all back-end queues of the crawl, rounded up.
                    queues=-(-self._back_queue_count // self.shards.number),
                    max_queues=self._sizes["queues"],
                ),
                shares=DomainShares(
                    domain_of=registered_domain, workers=live.workers, max_busy=live.hosts_of_domain
                ),
                rests=records.rests,
            )
        )

    @property
    def _max_depth(self) -> int:
        """Return URL_MAX_DEPTH if URLs are fetched in the order of their depth; 0 if they are not.

        They are not if there is no maximum, or if the user replaced the prioritizer or the front
        end, which then decides about the order.
        """
        settings = self._settings
        is_default = load_object(settings["FRONTIER_PRIORITIZER"]) is DepthRankPrioritizer
        front_end = component("FRONTIER_FRONT_END", settings["FRONTIER_FRONT_END"])
        is_default &= front_end is MercatorFrontEnd
        return whole_number(settings, "URL_MAX_DEPTH", at_least=0) if is_default else 0

    def _build_budgets(
        self, records: HostRecords, frontier: Frontier, seen: Eliminator, clock: Clock
    ) -> Budgets:
        """Build the budgets of a shard and the gates that park URLs over a budget.

        A URL is parked by the first gate that holds it, so the order of the gates matters.
        """
        ledger, quotas = budgets_of(
            records,
            **self._live.quotas,
            pages_of=lambda url: self._rules.hosts.url_policy(url).budget,
        )
        traps = TrapKeeper.from_settings(
            self._settings, exceptions=self._trap_exceptions, records=records, clock=clock
        )
        origins = OriginRests(records=records, clock=clock)

        gates: list[Gate] = [*quotas, *traps.gates()]
        # The gates inserted first hold URLs before they use any budget.
        if self._rendering is not None:
            gates.insert(0, self._rendering.renderer.gate())
        if self._max_depth:
            # A depth is over when almost no hosts have URLs. Each page in process counts as a host,
            # because it may still lead to some.
            depth_order = DepthOrder(
                hosts=lambda: len(frontier.back.table) + len(frontier.leases),
                count_coming=lambda: seen.waiting,
                clock=clock,
            )
            gates.insert(0, depth_order)
        aliases = None
        if flag(self._settings, "ALIASES") or self._settings["HOSTS_POLICY_FILE"]:
            aliases = Aliases(
                learns=flag(self._settings, "ALIASES"),
                rules=self._rules.hosts,
                submit=self._submit_alias,
                clock=clock,
            )
            gates.insert(0, aliases)
        # Not used if URL_SCOPE limits the crawl to the seeds' domains.
        if self._live.reputation.base and scope_of(self._settings) == OPEN:
            gates.append(
                ReputationGate(
                    domains=records.domains,
                    budget=self._live.reputation,
                    is_far=frontier.back.is_far,
                    is_unproven=partial(is_unproven, records),
                    clock=clock,
                )
            )
        if self._settings["HOSTS_POLICY_FILE"]:
            gates.append(CredentialGate(self._rules.hosts.policies))
        # This gate gives one port of a host the turn to be tried. It is the last one, because no
        # other gate may then hold the URL that has the turn.
        gates.append(origins)
        return Budgets(ledger=ledger, traps=traps, origins=origins, aliases=aliases, gates=gates)

    def _submit_alias(self, url: str, entry: Entry) -> None:
        """Submit *url*, an alias of *entry*. The shards are built before the link submitter."""
        self._links.submit_alias(url, entry)

    def _build_host_services(
        self, records: HostRecords, budgets: Budgets, clock: Clock
    ) -> HostServices:
        """Build what a shard needs to contact its hosts politely."""
        settings = self._settings
        rules = self._rules
        politeness = Politeness(
            limits=self._live.politeness,
            policy=HostDelays(policy=self._live.delay, rules=rules.hosts),
            records=records,
            retries=rules.retries,
            clock=clock,
            rng=generator("delays"),
        )
        addresses = HostAddresses(
            resolver=resolver_of(self._crawler), guard=self._guard, records=records, clock=clock
        )
        redirects = self._redirect_filters

        def refusal(url: str) -> str | None:
            """Return why robots.txt may not be redirected to *url*; None if it may."""
            reason = redirects.refusal(url, 0)
            shard = self.shards.find(url)
            # The host of the target belongs to another process of the hive, or soon will.
            if reason is None and (shard is None or shard.is_leaving):
                self._count("robots/redirects_remote")
                return ON_REMOTE_HOST
            return reason

        robots = RobotsSearch(
            cache=RobotsCache.from_settings(settings, store=records, clock=clock),
            refusal=refusal,
            obey=flag(settings, "ROBOTSTXT_OBEY"),
            retries=rules.retries,
            clock=clock,
            owner_allows=lambda url: rules.hosts.url_policy(url).owner_allows,
        )
        rights = RightsPolicy.from_settings(settings)
        # Only some purposes need the owners' files about text and data mining.
        data_mining = None
        if rights.purpose in TDM_PURPOSES:
            data_mining = RobotsSearch(
                cache=RobotsCache.from_settings(
                    settings, store=records, clock=clock, is_for_data_mining=True
                ),
                refusal=lambda _: "redirect",  # no redirect of this file is followed
                obey=True,
                retries=rules.retries,
                clock=clock,
                path=TDM_PATH,
            )
        if budgets.aliases is not None:
            budgets.aliases.searches = [*filter(None, (robots, data_mining))]
        # A proxy looks up the addresses itself, so the crawler does not.
        used_addresses = None if self._is_proxied else addresses
        return HostServices(
            records=records,
            addresses=used_addresses,
            robots=robots,
            politeness=politeness,
            preconditions=Preconditions(
                rules=rules.hosts,
                politeness=politeness,
                addresses=used_addresses,
                robots=robots,
                outage=rules.outage,
                data_mining=data_mining,
                is_strict=rights.policy == STRICT,
            ),
            data_mining=data_mining,
            budgets=budgets,
            walls=Walls(
                records=records,
                count=self._count,
            ),
        )


def _is_proxied(settings: BaseSettings) -> bool:
    """Return whether requests may go through a proxy, which then looks up the hosts.

    If the user has set HTTPPROXY_ENABLED, any Request may name a proxy. With Scrapy's default, only
    the environment can.
    """
    enabled = flag(settings, "HTTPPROXY_ENABLED")
    # Scrapy's own defaults have the priority 0.
    return enabled and bool(
        settings.getpriority("HTTPPROXY_ENABLED") or urllib.request.getproxies()
    )


def _seed_of_new_job(settings: BaseSettings) -> int:
    """Return the hash seed for a new job: that of a recorded trace, if a cache replays one.

    Otherwise the seed is random.
    """
    trace_seeds = [trace_seed(str(settings[name])) for name in ("SEEN_CACHE", "HIVE_CACHE")]
    return next((seed for seed in trace_seeds if seed is not None), new_seed())


def _check_downloader(settings: BaseSettings) -> None:
    """Raise FatalError if DOWNLOADER would not return hosts to the frontier."""
    downloader_class = load_object(settings["DOWNLOADER"])
    if not (
        isinstance(downloader_class, type) and issubclass(downloader_class, MercatorDownloader)
    ):
        raise FatalError(
            "DOWNLOADER must be webcrawl.crawl.lease.downloader.MercatorDownloader, or a subclass: "
            "no other downloader returns hosts to the frontier."
        )


def _build_part(crawler: Crawler, setting: str, **values: Any) -> Any:
    """Build the part whose class *setting* names.

    *values* are its arguments, unless it has ``from_crawler``.
    """
    path = crawler.settings[setting]
    has_from_crawler = hasattr(component(setting, path), "from_crawler")
    return part_of(crawler, setting, path, **({} if has_from_crawler else values))


def _build_front_end(crawler: Crawler, **values: Any) -> FrontEnd:
    """Build the front end that FRONTIER_FRONT_END names."""
    name = "FRONTIER_FRONT_END"
    front_end: FrontEnd = part_of(crawler, name, crawler.settings[name], like=FrontEnd, **values)
    if type(front_end) is not MercatorFrontEnd:
        check_entry_counts(front_end)
    return front_end
