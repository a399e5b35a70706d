"""The crawl in figures: for the stats, for the progress line, for the manifest of a checkpoint."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

from webcrawl.crawl.saved_settings import given

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scrapy.crawler import Crawler
    from scrapy.statscollectors import StatsCollector

    from webcrawl.crawl.completion import Completion
    from webcrawl.crawl.host_knowledge import HostKnowledge
    from webcrawl.crawl.jobdir import Job
    from webcrawl.crawl.submission import LinkSubmitter
    from webcrawl.crawl.totals import Totals
    from webcrawl.frontier import Frontier
    from webcrawl.frontier.admission import Admission
    from webcrawl.hosts.politeness.pauses import Pauses
    from webcrawl.seen.content import ContentSeen
    from webcrawl.seen.interface import Eliminator


class State(NamedTuple):
    """What a crawl is doing at one moment.

    *waiting* are URLs; *in_process* contacts and pages, of which *robots* are of robots.txt files
    and *slow* have had no answer for some seconds; *looking_up*, *ready* and *resting* are hosts.
    *pauses* are the reasons for which nothing is contacted, *bound_for* the seconds until the next
    host is ready if all that have URLs rest, and *awaits_seeds* says that all seeds are read first.
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


class PolitenessBound:
    """Whether politeness is what the crawl waits for, and for how many seconds it was.

    When few hosts remain, workers are idle because every host that has URLs rests. The crawl must
    say that this is the reason: "after weeks on one site" a slow crawl looks like a broken one.
    *workers* is how many there are, *clock* the frontier's.
    """

    def __init__(self, *, frontier: Frontier, workers: int, clock: Callable[[], float]) -> None:
        self._frontier = frontier
        self.workers = workers
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
        self.holds = self._frontier.all_rest and self._frontier.leased < self.workers

    @property
    def secs_left(self) -> float | None:
        """Seconds until the next host is ready; None while politeness is not the reason."""
        ready_at = self._frontier.ready_at()
        if not self.holds or ready_at is None:
            return None
        return max(0.0, ready_at - self._clock())


@dataclasses.dataclass(slots=True, kw_only=True)
class Figures:
    """Reads them off the parts of the crawl. O(1), no disk."""

    spider: str
    crawler: Crawler
    frontier: Frontier
    eliminator: Eliminator
    content: ContentSeen
    links: LinkSubmitter
    hosts: HostKnowledge
    admission: Admission
    bound: PolitenessBound
    pauses: Pauses
    completion: Completion
    totals: Totals

    @property
    def stats(self) -> StatsCollector:
        assert self.crawler.stats is not None
        return self.crawler.stats

    def facts(self) -> Mapping[str, Any]:
        """What a checkpoint says of the crawl, for people and for whoever resumes it. The stats are
        brought up to date, as the totals are saved with it."""
        self.publish()
        return {
            "spider": self.spider,
            "politeness_key": self.hosts.key,
            "clock_offset": self.hosts.clock.offset,
            "knows_domains": self.links.knows_domains,
            "waiting": len(self.frontier),
            "parked": self.frontier.parked.size,
            "in_eliminator": self.eliminator.waiting,
            "known_names": self.hosts.outage.known_names,
            "finished": self.frontier.stats()["frontier/finished"],
            "settings": given(self.crawler.settings),
        }

    def publish(self) -> None:
        """Put all of them into the stats."""
        parts = (self.frontier, self.eliminator, self.content, self.hosts)
        for part in (*parts, self.admission, self.pauses):
            for name, value in part.stats().items():
                self.stats.set_value(name, value)
        self.stats.set_value("politeness/bound_secs", round(self.bound.secs, 1))
        self.stats.set_value("seen/waiting", self.eliminator.waiting)
        self.stats.set_value("links/submitted", self.links.submitted)
        self.stats.set_value("links/sitemaps", self.links.sitemaps)
        for name, value in self.links.refused.items():
            self.stats.set_value(f"urls/refused/{name}", value)
        for name, value in self.links.seeds_refused.items():
            self.stats.set_value(f"seeds/refused/{name}", value)
        self.totals.publish()

    def beginning(self, job: Job) -> str:
        """Whether the crawl in *job* is new, or goes on and from where."""
        if not job.resumed:
            return f"A new crawl in {job.path}"
        again = "; after a reboot, pages since the last checkpoint are fetched again"
        return (
            f"Resuming the crawl in {job.path}: {len(self.frontier)} URLs waiting, "
            f"{self.eliminator.waiting} to be checked for duplicates{again if job.rebooted else ''}"
        )

    def state(self) -> State:
        """What the crawl is doing now."""
        stats = self.frontier.stats()
        return State(
            waiting=len(self.frontier) + self.eliminator.waiting,
            in_process=self.completion.in_process,
            robots=self.completion.fetching_robots,
            slow=self.completion.slow,
            looking_up=self.completion.host_release.looking_up,
            ready=stats["frontier/hosts/ready"],
            resting=stats["frontier/hosts/snoozed"],
            workers=self.bound.workers,
            pauses=self.pauses.names,
            bound_for=self.bound.secs_left,
            awaits_seeds=self.links.awaits_seeds,
        )
