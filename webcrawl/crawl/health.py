"""Health of a running crawl: what it is doing. An add-on finds out what limits it.

The doctor, the monitor, the metrics, the display and a hive's reports use it. Takes O(shards) and
no disk access.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from webcrawl.clock import now
from webcrawl.crawl.completion import Completion
from webcrawl.crawl.engine._engine import scraper_is_full
from webcrawl.crawl.figures.activity import CrawlActivity
from webcrawl.crawl.figures.counts import with_prefix
from webcrawl.crawl.job.totals import Totals, sum_counts
from webcrawl.crawl.job_state import JobState
from webcrawl.crawl.lease.services import ProcessServices
from webcrawl.net.latencies import latencies_of
from webcrawl.states import CrawlState, State

# How often the doctor examines a crawl that runs, and one that waits for visits or seeds.
_EXAMINE_SECS = 1.0
_IDLE_EXAMINE_SECS = 10.0
# A contact that takes longer than this counts as slow.
_SLOW_SECS = 3.0
# If the event loop is this late, time-outs may be the crawler's own fault.
_LATE_SECS = 0.5
# Stats of the time that a module's thread waited. Modules that write files have the first one.
_DISK_WAIT = "disk_wait_seconds"
_WAIT_STATS = (_DISK_WAIT, "wait_seconds")


class HasStats(Protocol):
    """A part that reports statistics of the crawl, by name."""

    def stats(self) -> Mapping[str, float | str]: ...


class Examiner(HasStats, Protocol):
    """Part that finds out what limits the crawl (DOCTOR_CLASS)."""

    def look(self, activity: CrawlActivity, lag: float) -> None:
        """Examine the crawl. Called about once a second; the event loop was *lag* seconds late."""

    def watch(self, process: Any) -> Any:
        """Wrap *process*, the ``process_item`` of a module, to measure its time."""

    def diagnosis(self) -> Any:
        """Return what limits the crawl now, as ``webcrawl.doctor.diagnosis.Diagnosis``."""

    def record(self) -> Any:
        """Return the current findings, which msgspec can encode."""

    def update_projection(self) -> str:
        """Take a sample of the crawl, and return when it will end in words, or ""."""


class Health:
    """Describes the health of one process of a crawl."""

    #: The part that finds out what limits the crawl; None without one.
    doctor: Examiner | None = None
    _next_examination: asyncio.TimerHandle | None = None

    def __init__(
        self,
        *,
        state: JobState,
        services: ProcessServices,
        completion: Completion,
        may_end: Callable[[], bool],
        awaits: Callable[[], str],
        reported: list[HasStats],
        totals: Totals,
    ) -> None:
        """Create it; *totals* add up the stats of all runs of the job.

        *may_end* says whether the crawl may end when nothing is left here, and *awaits* what it
        waits for otherwise. ``publish`` puts the statistics of the parts in *reported*, and the
        totals, into the stats.
        """
        self._state = state
        self._services = services
        self._completion = completion
        self._may_end = may_end
        self._awaits = awaits
        self._totals = totals
        self._latencies = latencies_of(services.crawler)
        self.reported = [*reported, self._latencies]

    def open(self) -> None:
        """Start examining the crawl at intervals."""
        loop = asyncio.get_running_loop()
        self._next_examination = loop.call_later(
            _EXAMINE_SECS, self._examine, now() + _EXAMINE_SECS
        )

    def close(self) -> None:
        """Stop examining the crawl."""
        if self._next_examination is not None:
            self._next_examination.cancel()

    def _examine(self, due: float) -> None:
        """Let the doctor examine the crawl, and schedule the next call.

        *due* is the time for which this call was scheduled.
        """
        lag = max(now() - due, 0.0)  # a timer may be early by a millisecond
        if lag > _LATE_SECS:  # time-outs may be the crawler's own fault then
            self._state.rules.outage.note_late_loop()
        if not self._services.stop.is_ending:
            self._latencies.lag.add(lag)
            if self.doctor is not None:
                self.doctor.look(self.activity(), lag)
        secs = _IDLE_EXAMINE_SECS if self.waits_for else _EXAMINE_SECS
        loop = asyncio.get_running_loop()
        self._next_examination = loop.call_later(secs, self._examine, now() + secs)

    def publish(self, *, always: bool = False) -> None:
        """Put the statistics of all parts into the stats if the crawl is open, or *always*."""
        if not (always or self._services.stop.is_open):
            return

        set_stat = self._services.crawler.stats.set_value
        links = self._state.links
        for part in self.reported:
            for name, value in part.stats().items():
                set_stat(name, value)

        for prefix, file in self._state.rules_files.items():
            for name, value in file.stats().items():
                set_stat(f"{prefix}{name}", value)

        set_stat("links/sitemaps", links.sitemaps)
        for name, value in links.refused.items():
            set_stat(f"urls/refused/{name}", value)
        for name, value in links.seeds_refused.items():
            set_stat(f"seeds/refused/{name}", value)
        self._totals.publish()

    def state(self) -> State:
        """Return what the process is doing now."""
        pauses = self._state.rules.pauses
        shards = self._state.shards
        if self._services.stop.is_ending:
            return State(CrawlState.STOPPING)
        if pauses:
            return State(CrawlState.PAUSED, " ".join(pauses.sentences))
        if any(shard.awaits_seeds for shard in shards):
            return State(CrawlState.STARTING, "reading all seeds first")
        if waits_for := self.waits_for:
            return State(CrawlState.WAITING, waits_for, self.next_visit_at or 0.0)
        return State(CrawlState.RUNNING)

    @property
    def waits_for(self) -> str:
        """Return what the process waits for because no URLs are left; "" if it is not waiting."""
        shards = self._state.shards
        if shards.has_pending or self._may_end():
            return ""
        if (at := self.next_visit_at) is not None:
            return f"visits from {datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"
        return self._awaits()

    @property
    def next_visit_at(self) -> float | None:
        """Return when the next repeat visit is due, in epoch seconds; None if none. O(shards)."""
        times = [shard.frontier.due.next_at for shard in self._state.shards]
        return min((at for at in times if at is not None), default=None)

    def activity(self) -> CrawlActivity:
        """Return the numbers that describe what the crawl is doing now."""
        shards = self._state.shards
        rules = self._state.rules
        under_way = self._completion.under_way.values()
        on_wire = [fetch for fetch in under_way if not fetch.is_released]
        stats = shards.stats()
        # URLs that the eliminator has not compared with the URLs seen before yet.
        undecided = int(stats.get("seen/waiting", 0))
        workers = self._services.live.workers
        # After their download, pages stay under way while modules process them.
        pages_in_processing = len(under_way) - len(on_wire)
        module, disk_wait_share = self._busiest_module()

        return CrawlActivity(
            waiting=int(stats.get("frontier/waiting", 0)) + undecided,
            queued=int(stats.get("frontier/front", 0)),
            postponed=sum_counts(*[shard.admission.postponed for shard in shards]),
            parked=with_prefix("frontier/parked/", stats),
            in_process=len(under_way),
            on_wire=len(on_wire),
            slow=sum(
                fetch.sent_at is not None and now() - fetch.sent_at > _SLOW_SECS
                for fetch in on_wire
            ),
            looking_up=self._completion.host_release.looking_up,
            ready=int(stats.get("frontier/hosts/ready", 0)),
            # Ready hosts of domains that have their share of the workers already.
            held=int(stats.get("frontier/hosts/held", 0)),
            resting=int(stats.get("frontier/hosts/snoozed", 0)),
            workers=workers,
            # No request starts while as many pages as there are workers are in processing, or while
            # Scrapy's limit of the bytes in processing is reached.
            is_backed_up=pages_in_processing >= workers
            or scraper_is_full(self._services.crawler.engine),
            module=module,
            module_waits=disk_wait_share,
            limit=rules.rates.limit,
            refusing=sum(
                [
                    shard.hosts.politeness.refusals.count_resting(shard.frontier.back.table)
                    for shard in shards
                ],
                Counter(),
            ),
            pauses=dict(zip(rules.pauses.names, rules.pauses.sentences, strict=True)),
            next_ready_in=self._next_ready_in(),
            awaits_seeds=any(shard.awaits_seeds for shard in shards),
            reads_seeds=not all(shard.feeder.has_all_seeds for shard in shards),
            waits_for=self.waits_for,
            # URLs that wait for their next visit, and those that were visited within a week.
            due=int(stats.get("frontier/due", 0)),
            fresh=int(stats.get("frontier/fresh", 0)),
        )

    def _next_ready_in(self) -> float | None:
        """Return the seconds until the next host is ready, if workers are idle until then.

        None if some hosts are not paused between requests, or if all workers are busy.
        """
        shards = self._state.shards
        ready_at = shards.ready.ready_at()
        frontiers = [shard.frontier for shard in shards]
        busy = [frontier for frontier in frontiers if len(frontier)]
        leased = sum([len(frontier.leases) for frontier in frontiers])
        are_paused = busy and all(frontier.all_rest for frontier in busy)
        if ready_at is None or not are_paused or leased >= self._services.live.workers:
            return None
        return max(0.0, ready_at - now())

    def _busiest_module(self) -> tuple[str, float]:
        """Return the module whose thread worked most, and the share of that spent on disk waits.

        The name is "" if no processing module has a thread.
        """
        stats = self._services.crawler.stats.get_stats()
        # Module -> (seconds that its thread waited or computed, seconds that it waited for disk).
        times: dict[str, tuple[float, float]] = {}
        for key, waited in list(stats.items()):  # a copy: threads of modules add stats
            name, _, stat = key.removeprefix("modules/").rpartition("/")
            if stat in _WAIT_STATS and key.startswith("modules/"):
                secs = waited + stats.get(f"modules/{name}/cpu_seconds", 0)
                times[name] = secs, waited if stat == _DISK_WAIT else 0.0
        busiest = max(times, key=times.__getitem__, default="")
        secs, disk_secs = times.get(busiest, (0.0, 0.0))
        return busiest, disk_secs / secs if secs else 0.0
