"""The crawl in figures: for the stats, for the progress line, for the manifest of a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from webcrawl.clock import now
from webcrawl.crawl.engine._engine import scraper_is_full
from webcrawl.crawl.figures.counts import behind
from webcrawl.crawl.job.totals import added
from webcrawl.doctor.activity import CrawlActivity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webcrawl.crawl.agent import Agent
    from webcrawl.crawl.lease.fetch import Fetch
    from webcrawl.doctor.diagnosis import Diagnosis

# A contact that has been on the wire for so long keeps its worker from others.
_SLOW_SECS: Final = 3.0
# Stats of a module: what its thread waited, for the disk if it writes files.
_WAITS: Final = ("disk_wait_seconds", "wait_seconds")


class HasStats(Protocol):
    """Part with figures under their names in the crawl's statistics."""

    def stats(self) -> Mapping[str, int | float | str]: ...


class CrawlStatistics:
    """Reads the figures off the parts of *agent*. O(1), no disk."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def publish(self) -> None:
        """Put all of them into the stats."""
        agent, put = self._agent, self._agent.crawler.stats.set_value
        for part in agent.reported:
            for name, value in part.stats().items():
                put(name, value)
        for prefix, file in agent.rules_files.items():
            for name, value in file.stats().items():
                put(f"{prefix}{name}", value)
        put("links/sitemaps", agent.links.sitemaps)
        for name, value in agent.links.refused.items():
            put(f"urls/refused/{name}", value)
        for name, value in agent.links.seeds_refused.items():
            put(f"seeds/refused/{name}", value)
        agent.totals.publish()

    def beginning(self) -> str:
        """Whether the crawl is new, or goes on and from where."""
        job, stats = self._agent.job, self._agent.shards.stats()
        if self._agent.is_temporary:
            return "A new crawl; nothing of it is kept, as it has no JOBDIR"
        if not job.own.resumed:
            return f"A new crawl in {job.path}"
        again = ""
        if job.own.rebooted:
            again = "; after a reboot, pages since the last checkpoint are fetched again"
        return (
            f"Resuming the crawl in {job.path}; URLs waiting: {stats.get('frontier/waiting', 0)}, "
            f"to be checked for duplicates: {stats.get('seen/waiting', 0)}{again}"
        )

    def state(self) -> CrawlActivity:
        """The crawl's present activity."""
        agent, completion = self._agent, self._agent.completion
        under_way = completion.under_way.values()
        on_wire = [fetch for fetch in under_way if not fetch.is_released]
        stats = agent.shards.stats()
        undecided, workers = int(stats.get("seen/waiting", 0)), agent.live.workers
        pages = len(under_way) - len(on_wire)
        module, waits = self._module()
        return CrawlActivity(
            waiting=int(stats.get("frontier/waiting", 0)) + undecided,
            queued=int(stats.get("frontier/front", 0)),
            postponed=added(*[shard.admission.postponed for shard in agent.shards]),
            parked=behind("frontier/parked/", stats),
            in_process=len(under_way),
            on_wire=len(on_wire),
            slow=sum(map(_is_slow, on_wire)),
            looking_up=completion.host_release.looking_up,
            ready=int(stats.get("frontier/hosts/ready", 0)),
            held=int(stats.get("frontier/hosts/held", 0)),
            resting=int(stats.get("frontier/hosts/snoozed", 0)),
            workers=workers,
            is_backed_up=pages >= workers or scraper_is_full(agent.crawler.engine),
            module=module,
            module_waits=waits,
            limit=agent.rates.limit,
            pauses=agent.pauses.names,
            bound_for=self._bound_for(),
            awaits_seeds=agent.shards.awaits_seeds,
            waits_for=agent.waits_for,
            due=int(stats.get("frontier/due", 0)),
            fresh=int(stats.get("frontier/fresh", 0)),
        )

    def diagnosis(self) -> Diagnosis:
        """What binds the crawl now."""
        return self._agent.diagnosis()

    def _bound_for(self) -> float | None:
        """Seconds until the next host is ready, if workers are idle because all with URLs rest."""
        shards = self._agent.shards
        ready_at = shards.ready_at()
        if ready_at is None or not shards.all_rest or shards.leased >= self._agent.live.workers:
            return None
        return max(0.0, ready_at - now())

    def _module(self) -> tuple[str, float]:
        """The processing module whose thread has worked longest, and for which share of that time
        it waited for the disk; "" if none has a thread."""
        stats = self._agent.crawler.stats.get_stats()
        took: dict[str, tuple[float, float]] = {}
        for key, waited in list(stats.items()):  # modules count in threads
            name, _, what = key.removeprefix("modules/").rpartition("/")
            if what in _WAITS and key.startswith("modules/"):
                secs = waited + stats.get(f"modules/{name}/cpu_seconds", 0)
                took[name] = secs, waited if what == _WAITS[0] else 0.0
        name = max(took, key=took.__getitem__, default="")
        secs, waited = took.get(name, (0.0, 0.0))
        return name, waited / secs if secs else 0.0


def _is_slow(fetch: Fetch) -> bool:
    return fetch.sent_at is not None and now() - fetch.sent_at > _SLOW_SECS
