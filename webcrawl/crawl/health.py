"""Health of a running crawl: what it does, what limits it, and when it will end.

Read by the doctor, the monitor, the metrics, the display and a hive's reports. O(shards), no disk.
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

# How often the doctor looks at the crawl: while it runs, and while it waits for visits or seeds.
_LOOK_SECS = 1.0
_IDLE_LOOK_SECS = 10.0
# A contact that takes longer than this keeps its worker from others.
_SLOW_SECS = 3.0
# With the event loop this late, time-outs may be our own fault.
_LATE_SECS = 0.5
# Stats of the time that a module's thread waited, for the disk if it writes files.
_WAITS = ("disk_wait_seconds", "wait_seconds")


class HasStats(Protocol):
    """A part that reports figures for the crawl's statistics, by name."""

    def stats(self) -> Mapping[str, float | str]: ...


class Health:
    """Health of one process. *may_end* says whether the crawl may end when nothing is left here.

    *awaits* says what may still come then. *reported* are the parts whose figures ``publish`` puts
    into the stats. module_times: those of the doctor.
    """

    _next_look: asyncio.TimerHandle | None = None

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
        """Start looking at the crawl."""
        loop = asyncio.get_running_loop()
        self._next_look = loop.call_later(_LOOK_SECS, self._look, now() + _LOOK_SECS)

    def close(self) -> None:
        """Stop looking at the crawl."""
        if self._next_look is not None:
            self._next_look.cancel()

    def _look(self, due: float) -> None:
        """Let the doctor look at the crawl, and schedule the next look; this one was *due* then."""
        lag = now() - due
        if lag > _LATE_SECS:
            self._state.rules.outage.note_late_loop()
        if not self._services.stop.is_ending:
            self._doctor.look(self.activity(), lag)
        secs = _IDLE_LOOK_SECS if self.waits_for else _LOOK_SECS
        loop = asyncio.get_running_loop()
        self._next_look = loop.call_later(secs, self._look, now() + secs)

    def publish(self, *, always: bool = False) -> None:
        """Put the figures of all parts into the stats, while the crawl is open or *always*."""
        if not (always or self._services.stop.is_open):
            return
        put, links = self._services.crawler.stats.set_value, self._state.links
        for part in self.reported:
            for name, value in part.stats().items():
                put(name, value)
        for prefix, file in self._state.rules_files.items():
            for name, value in file.stats().items():
                put(f"{prefix}{name}", value)
        put("links/sitemaps", links.sitemaps)
        for name, value in links.refused.items():
            put(f"urls/refused/{name}", value)
        for name, value in links.seeds_refused.items():
            put(f"seeds/refused/{name}", value)
        self._totals.publish()

    def diagnosis(self) -> Diagnosis:
        """Return what limits the crawl now."""
        if self._doctor.sees_nothing_left and self._state.shards.has_pending:
            self._doctor.look(self.activity(), 0.0)  # it looks rarely while it waits for visits
        return self._doctor.diagnosis()

    def state(self) -> State:
        """Return what the process does now."""
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
        """Return what the process waits for when nothing is left; "" if it does not wait."""
        shards = self._state.shards
        if shards.has_pending or self._may_end():
            return ""
        if shards.next_due is not None:
            at = datetime.fromtimestamp(shards.next_due, UTC)
            return f"visits from {at:%Y-%m-%d %H:%M} UTC"
        return self._awaits()

    def record(self) -> Record:
        """Return the doctor's present findings, as a record to keep."""
        return Record.of(
            self.activity(),
            state=self.state(),
            diagnosis=self.diagnosis(),
            projection=self.projection(),
            shards=Counter(str(shard.state) for shard in self._state.shards),
        )

    def update_projection(self) -> str:
        """Take a sample of the crawl and return its projected end, or how fresh it can be kept.

        "" while there is no projection.
        """
        projection = self._doctor.projection
        if self._services.stop.is_open and not self._state.rules.pauses:
            projection.add(sample_of(self._state.shards, self._services.live.quotas))
        return projection.words()

    def projection(self) -> str:
        """Return the last result of ``update_projection``."""
        return self._doctor.projection.words()

    def activity(self) -> CrawlActivity:
        """Return the crawl's present activity."""
        shards, rules = self._state.shards, self._state.rules
        under_way = self._completion.under_way.values()
        on_wire = [fetch for fetch in under_way if not fetch.is_released]
        stats = shards.stats()
        undecided, workers = int(stats.get("seen/waiting", 0)), self._services.live.workers
        pages = len(under_way) - len(on_wire)
        module, waits = self._module()
        return CrawlActivity(
            waiting=int(stats.get("frontier/waiting", 0)) + undecided,
            queued=int(stats.get("frontier/front", 0)),
            postponed=summed(*[shard.admission.postponed for shard in shards]),
            parked=with_prefix("frontier/parked/", stats),
            in_process=len(under_way),
            on_wire=len(on_wire),
            slow=sum(
                one.sent_at is not None and now() - one.sent_at > _SLOW_SECS for one in on_wire
            ),
            looking_up=self._completion.host_release.looking_up,
            ready=int(stats.get("frontier/hosts/ready", 0)),
            held=int(stats.get("frontier/hosts/held", 0)),
            resting=int(stats.get("frontier/hosts/snoozed", 0)),
            workers=workers,
            is_backed_up=pages >= workers or scraper_is_full(self._services.crawler.engine),
            module=module,
            module_waits=waits,
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
        """Return the seconds until the next host is ready, if all hosts pause.

        None if workers are not idle for that reason.
        """
        shards = self._state.shards
        ready_at = shards.ready_at()
        if ready_at is None or not shards.all_rest or shards.leased >= self._services.live.workers:
            return None
        return max(0.0, ready_at - now())

    def _module(self) -> tuple[str, float]:
        """Return the processing module with most work, and its share of waiting for the disk.

        The name is "" if no module has a thread.
        """
        stats = self._services.crawler.stats.get_stats()
        took: dict[str, tuple[float, float]] = {}
        for key, waited in list(stats.items()):  # modules count in threads
            name, _, what = key.removeprefix("modules/").rpartition("/")
            if what in _WAITS and key.startswith("modules/"):
                secs = waited + stats.get(f"modules/{name}/cpu_seconds", 0)
                took[name] = secs, waited if what == _WAITS[0] else 0.0
        name = max(took, key=took.__getitem__, default="")
        secs, waited = took.get(name, (0.0, 0.0))
        return name, waited / secs if secs else 0.0
