"""The crawl in figures: for the stats, for the progress line, for the manifest of a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from webcrawl.clock import now
from webcrawl.crawl.figures.counts import short
from webcrawl.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from webcrawl.crawl.agent import Agent
    from webcrawl.crawl.lease.fetch import Fetch
    from webcrawl.crawl.shard.live_settings import LiveSettings
    from webcrawl.crawl.shard.shards import Shards
    from webcrawl.frontier import Frontier

# A contact that has been on the wire for so long keeps its worker from others.
_SLOW_SECS: Final = 3.0
# With fewer contacts a second for each worker little happens, and the progress line says why.
_LITTLE: Final = 0.1


class CrawlActivity(NamedTuple):
    """Activity of a crawl at one moment.

    *waiting* are URLs; *in_process* contacts and pages, of which *robots* are of robots.txt files
    and *slow* have had no answer for some seconds; *looking_up*, *ready* and *resting* are hosts.
    *pauses* are the reasons for which nothing is contacted, *bound_for* the seconds until the next
    host is ready if all that have URLs rest, and *awaits_seeds* says that all seeds are read first.
    *waits_for* is what a crawl or drone waits for that has nothing left. *due* and *fresh* are URLs
    that wait for their next visit, and that were answered within a week.
    """

    waiting: int
    in_process: int
    robots: int
    slow: int
    looking_up: int
    ready: int
    resting: int
    workers: int
    pauses: Sequence[str] = ()
    bound_for: float | None = None
    awaits_seeds: bool = False
    waits_for: str = ""
    due: int = 0
    fresh: int = 0

    def hindrances(self, contact_rate: float) -> Iterator[str]:
        """Reasons for so few contacts a second, the most important first; none if they are many."""
        if self.pauses:
            yield f"paused: {', '.join(name.replace('_', ' ') for name in self.pauses)}"
        if self.awaits_seeds:
            yield "reading all seeds first"
        if self.waits_for:
            yield f"nothing left: waiting for {self.waits_for}"
        if self.bound_for is not None and self.bound_for >= 1:
            yield f"politeness-bound for {self.bound_for:,.0f} s"
        elif self.bound_for is not None:
            hosts = counted(self.resting, "host", short(self.resting))
            yield f"politeness-bound: {hosts} rest{'s' * (self.resting == 1)}"
        if contact_rate < _LITTLE * self.workers:
            if self.looking_up > max(self.slow, self.robots):
                yield f"name servers asked for {counted(self.looking_up, 'host')}"
            if self.slow and 2 * self.slow >= self.in_process:
                yield f"waiting for {counted(self.slow, 'slow host')}"
        if self.robots and 2 * self.robots >= self.in_process:
            yield f"{self.robots:,} of them robots.txt"


class PolitenessBound:
    """Whether politeness is what the crawl waits for, and for how many seconds it was.

    When few hosts remain, workers are idle because every host that has URLs rests. The crawl must
    say that this is the reason: "after weeks on one site" a slow crawl looks like a broken one.
    *clock* is the frontier's.
    """

    def __init__(
        self, *, frontier: Frontier | Shards, live: LiveSettings, clock: Callable[[], float]
    ) -> None:
        self._frontier = frontier
        self._live = live
        self._clock = clock
        self._looked_at = clock()
        self.holds = False
        self.secs = 0.0

    def look(self) -> None:
        """Judge the present and count the time since the last look by what held then."""
        now = self._clock()
        if self.holds:
            self.secs += now - self._looked_at
        self._looked_at = now
        self.holds = self._frontier.all_rest and self._frontier.leased < self._live.workers

    @property
    def secs_left(self) -> float | None:
        """Seconds until the next host is ready; None while politeness is not the reason."""
        ready_at = self._frontier.ready_at()
        if not self.holds or ready_at is None:
            return None
        return max(0.0, ready_at - self._clock())


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
        put("politeness/bound_secs", round(agent.bound.secs, 1))
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
        stats = agent.shards.stats()
        return CrawlActivity(
            waiting=int(stats.get("frontier/waiting", 0) + stats.get("seen/waiting", 0)),
            in_process=len(under_way),
            robots=sum(bool(fetch.robots_url) for fetch in under_way),
            slow=sum(_is_slow(fetch) for fetch in under_way),
            looking_up=completion.host_release.looking_up,
            ready=int(stats.get("frontier/hosts/ready", 0)),
            resting=int(stats.get("frontier/hosts/snoozed", 0)),
            workers=agent.live.workers,
            pauses=agent.pauses.names,
            bound_for=agent.bound.secs_left,
            awaits_seeds=agent.shards.awaits_seeds,
            waits_for=agent.waits_for,
            due=int(stats.get("frontier/due", 0)),
            fresh=int(stats.get("frontier/fresh", 0)),
        )


def _is_slow(fetch: Fetch) -> bool:
    sent_at = fetch.sent_at
    return not fetch.is_released and sent_at is not None and now() - sent_at > _SLOW_SECS
