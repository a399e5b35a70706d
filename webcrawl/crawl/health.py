"""Health of a running crawl: what it is doing, what limits it, and when it will end.

The doctor, the monitor, the metrics, the display and a hive's reports use it. Takes O(shards) and
no disk access.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from webcrawl.clock import now
from webcrawl.crawl.engine._engine import scraper_is_full
from webcrawl.crawl.figures.counts import with_prefix
from webcrawl.crawl.figures.outlook import sample_of
from webcrawl.crawl.job.totals import summed
from webcrawl.doctor.activity import CrawlActivity
from webcrawl.doctor.doctor import Doctor
from webcrawl.doctor.histogram import latencies_of
from webcrawl.doctor.record import Record
from webcrawl.doctor.states import CrawlState, State

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from webcrawl.crawl.job.totals import Totals
    from webcrawl.crawl.job_state import JobState
    from webcrawl.crawl.lease.completion import Completion
    from webcrawl.crawl.lease.services import ProcessServices
    from webcrawl.doctor.diagnosis import Diagnosis

# How often the doctor examines a crawl that runs, and one that waits for visits or seeds.
_EXAMINE_SECS = 1.0
_IDLE_EXAMINE_SECS = 10.0
# A contact that takes longer than this counts as slow.
_SLOW_SECS = 3.0
# If the event loop is this late, time-outs may be the crawler's own fault.
_LATE_SECS = 0.5
# Stats of the time that a module's thread waited; the first one is for modules that write files.
_WAIT_STATS = ("disk_wait_seconds", "wait_seconds")


class HasStats(Protocol):
    """A part that reports statistics of the crawl, by name."""

    def stats(self) -> Mapping[str, float | str]: ...


class Health:
    """Describes the health of one process of a crawl.

    *may_end* says whether the crawl may end when nothing is left here, and *awaits* what it waits
    for otherwise. ``publish`` puts the statistics of the parts in *reported* into the stats. The
    attribute module_times has the doctor's measurements of processing modules.
    """

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
        self._state = state
        self._services = services
        self._completion = completion
        self._may_end = may_end
        self._awaits = awaits
        self._totals = totals
        self._doctor = Doctor(clock=now, latencies=latencies_of(services.crawler))
        self.reported = [*reported, self._doctor]
        self.module_times = self._doctor.module_times

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
        lag = now() - due
        if lag > _LATE_SECS:
            self._state.rules.outage.note_late_loop()
        if not self._services.stop.is_ending:
            self._doctor.look(self.activity(), lag)
        secs = _IDLE_EXAMINE_SECS if self.waits_for else _EXAMINE_SECS
        loop = asyncio.get_running_loop()
        self._next_examination = loop.call_later(secs, self._examine, now() + secs)

    def publish(self, *, always: bool = False) -> None:
        """Put the statistics of all parts into the stats if the crawl is open, or *always*."""
        if not (always or self._services.stop.is_open):
            return

        set_stat, links = self._services.crawler.stats.set_value, self._state.links
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

    def diagnosis(self) -> Diagnosis:
        """Return the doctor's diagnosis: what limits the crawl now."""
        if self._doctor.sees_nothing_left and self._state.shards.has_pending:
            self._doctor.look(self.activity(), 0.0)  # rarely examined while it waits
        return self._doctor.diagnosis()

    def state(self) -> State:
        """Return what the process is doing now."""
        pauses, shards = self._state.rules.pauses, self._state.shards
        if self._services.stop.is_ending:
            return State(CrawlState.STOPPING)
        if pauses:
            return State(CrawlState.PAUSED, " ".join(pauses.sentences))
        if shards.awaits_seeds:
            return State(CrawlState.STARTING, "reading all seeds first")
        if waits_for := self.waits_for:
            return State(CrawlState.WAITING, waits_for, shards.next_due or 0.0)
        return State(CrawlState.RUNNING)

    @property
    def waits_for(self) -> str:
        """Return what the process waits for because no URLs are left; "" if it is not waiting."""
        shards = self._state.shards
        if shards.has_pending or self._may_end():
            return ""
        if shards.next_due is not None:
            next_visit = datetime.fromtimestamp(shards.next_due, UTC)
            return f"visits from {next_visit:%Y-%m-%d %H:%M} UTC"
        return self._awaits()

    def record(self) -> Record:
        """Return the doctor's current findings as a record that can be stored."""
        return Record.of(
            self.activity(),
            state=self.state(),
            diagnosis=self.diagnosis(),
            projection=self.projection(),
            shards=Counter(str(shard.state) for shard in self._state.shards),
        )

    def update_projection(self) -> str:
        """Take a sample of the crawl and return its projection as text; "" while there is none.

        The text says when the crawl will end or, for a crawl with revisits, how fresh it can be
        kept.
        """
        projection = self._doctor.projection
        if self._services.stop.is_open and not self._state.rules.pauses:
            projection.add(sample_of(self._state.shards, self._services.live.quotas))
        return projection.words()

    def projection(self) -> str:
        """Return the projection that ``update_projection`` returned last."""
        return self._doctor.projection.words()

    def activity(self) -> CrawlActivity:
        """Return the numbers that describe what the crawl is doing now."""
        shards, rules = self._state.shards, self._state.rules
        under_way = self._completion.under_way.values()
        on_wire = [fetch for fetch in under_way if not fetch.is_released]
        stats = shards.stats()
        undecided, workers = int(stats.get("seen/waiting", 0)), self._services.live.workers
        pages = len(under_way) - len(on_wire)
        module, disk_wait_share = self._busiest_module()

        return CrawlActivity(
            waiting=int(stats.get("frontier/waiting", 0)) + undecided,
            queued=int(stats.get("frontier/front", 0)),
            postponed=summed(*[shard.admission.postponed for shard in shards]),
            parked=with_prefix("frontier/parked/", stats),
            in_process=len(under_way),
            on_wire=len(on_wire),
            slow=sum(
                fetch.sent_at is not None and now() - fetch.sent_at > _SLOW_SECS
                for fetch in on_wire
            ),
            looking_up=self._completion.host_release.looking_up,
            ready=int(stats.get("frontier/hosts/ready", 0)),
            held=int(stats.get("frontier/hosts/held", 0)),
            resting=int(stats.get("frontier/hosts/snoozed", 0)),
            workers=workers,
            is_backed_up=pages >= workers or scraper_is_full(self._services.crawler.engine),
            module=module,
            module_waits=disk_wait_share,
            limit=rules.rates.limit,
            refusing=sum([shard.refusing() for shard in shards], Counter()),
            pauses=dict(zip(rules.pauses.names, rules.pauses.sentences, strict=True)),
            next_ready_in=self._next_ready_in(),
            awaits_seeds=shards.awaits_seeds,
            reads_seeds=not all(shard.feeder.has_all_seeds for shard in shards),
            waits_for=self.waits_for,
            due=int(stats.get("frontier/due", 0)),
            fresh=int(stats.get("frontier/fresh", 0)),
        )

    def _next_ready_in(self) -> float | None:
        """Return the seconds until the next host is ready, if workers are idle until then.

        None if they are not: not all hosts are paused between requests, or all workers are busy.
        """
        shards = self._state.shards
        ready_at = shards.ready_at()
        if ready_at is None or not shards.all_rest or shards.leased >= self._services.live.workers:
            return None
        return max(0.0, ready_at - now())

    def _busiest_module(self) -> tuple[str, float]:
        """Return the module whose thread worked most, and the share of that spent on disk waits.

        The name is "" if no processing module has a thread.
        """
        stats = self._services.crawler.stats.get_stats()
        times: dict[str, tuple[float, float]] = {}
        for key, waited in list(stats.items()):  # a copy: threads of modules add stats
            name, _, stat = key.removeprefix("modules/").rpartition("/")
            if stat in _WAIT_STATS and key.startswith("modules/"):
                secs = waited + stats.get(f"modules/{name}/cpu_seconds", 0)
                times[name] = secs, waited if stat == _WAIT_STATS[0] else 0.0
        name = max(times, key=times.__getitem__, default="")
        secs, waited = times.get(name, (0.0, 0.0))
        return name, waited / secs if secs else 0.0
