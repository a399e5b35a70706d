"""What the end of a contact or of a look-up means for the host and for the URL.

For the host: its rest, its record, its rules. For the URL: whether it is tried again. Called by the
downloader, by way of ``Fetch.release``, and by the dispatcher. While the network here is gone
(hosts/politeness/outage.py) it means nothing: neither the host's patience nor a try of its URL is
used up.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from typing import TYPE_CHECKING, Final

import msgspec
from scrapy.http import Response

from webcrawl.crawl.reading import ReadingTooLongError
from webcrawl.frontier import ERRAND, Entry
from webcrawl.hosts.retry_policy import BUG
from webcrawl.net.dns.resolver import NameNotFoundError
from webcrawl.net.http.retry_after import retry_after
from webcrawl.net.outcomes import outcome_of
from webcrawl.urls import host_of, origin_of

if TYPE_CHECKING:
    from scrapy.statscollectors import StatsCollector

    from webcrawl.crawl.fetch import Fetch
    from webcrawl.crawl.host_knowledge import HostKnowledge
    from webcrawl.crawl.reading import ReadingWatch
    from webcrawl.crawl.stop import CrawlStop
    from webcrawl.frontier import Frontier
    from webcrawl.hosts.politeness.preconditions import Decision
    from webcrawl.hosts.retry_policy import RetryPolicy

logger = logging.getLogger(__name__)

# URLs given up for a bug that the next run may try again.
_MOST_LOST: Final = 1000


class Aftermath:
    """*stop* is told of what must not happen: the crawl would go on with a host in process."""

    def __init__(
        self,
        *,
        frontier: Frontier,
        hosts: HostKnowledge,
        stats: StatsCollector,
        reading: ReadingWatch,
        stop: CrawlStop,
    ) -> None:
        self._frontier = frontier
        self._hosts = hosts
        self._stats = stats
        self._reading = reading
        self._stop = stop

    def contact_ended(self, fetch: Fetch) -> None:
        """The download of *fetch* is over: its host's pause begins."""
        if fetch.expired:
            return
        try:
            self._contact_ended(fetch)
        except Exception as error:  # noqa: BLE001  # the host would stay in process
            self._stop.fail(error)

    def _contact_ended(self, fetch: Fetch) -> None:
        entry, politeness = fetch.lease.entry, self._hosts.politeness
        outcome, response = fetch.outcome, fetch.response
        if response is None and fetch.on_wire is not None:
            # A middleware may have made something else of it, such as a Request to try again.
            outcome = outcome_of(fetch.on_wire)
            response = fetch.on_wire if isinstance(fetch.on_wire, Response) else None
        excused = fetch.reached_host and self._is_excused(fetch, outcome)
        if fetch.robots_url and fetch.outcome and not excused:
            origin = entry.via if entry.kind == ERRAND else entry.url
            self.learn(origin, fetch.outcome, fetch.response)
        if not fetch.reached_host:
            rest = 0.0
            if fetch.outcome == "dns_failed":
                rest = politeness.lookup_failed(entry.host, entry.url, at_least=0.0)
            self._frontier.release(entry.host, rest=rest, shared_rest=0.0)
            return
        self._stats.inc_value("contacts")
        after = politeness.after(
            entry.host,
            fetch.url,
            took=fetch.took,
            outcome=outcome,
            crawl_delay=self._hosts.robots.crawl_delay(entry.url),
            retry_after=retry_after(response, now=time.time()),
            hung_up=response is None or "truncated" in response.flags,
            excused=excused,
        )
        if after.origin:
            self._hosts.origins.rest(origin_of(fetch.url), after.origin)
        self._frontier.release(
            entry.host, rest=after.secs, least=after.least, shared_rest=after.shared
        )

    def _is_excused(self, fetch: Fetch, outcome: str) -> bool:
        """An ordinary Request comes to its end all the same: its errback has been called."""
        entry = fetch.lease.entry
        has_answered = self._hosts.records.get(entry.host).answered == origin_of(fetch.url)
        excused = self._hosts.outage.contact_ended(entry.host, outcome, has_answered=has_answered)
        if excused and not entry.extra:
            fetch.abandoned = True
        return excused

    def learn(self, url: str, outcome: str, response: Response | None) -> None:
        """The robots.txt for *url* was tried."""
        robots = self._hosts.robots
        try:
            with self._reading.of(robots.robots_url(url)):
                errand = robots.answered(url, outcome, response)
        except ReadingTooLongError:
            logger.exception("Nothing is fetched of %s for the time being", origin_of(url))
            outcome = "robots_unreachable"
            errand = robots.answered(url, outcome, None)
        self._stats.inc_value(f"robots/{outcome}")
        self._stats.set_value("robots/origins", self._hosts.robots.settled)
        delay = self._hosts.robots.crawl_delay(url)
        if outcome.startswith("http_2") and self._hosts.politeness.is_too_long(delay):
            self._stats.inc_value("robots/long_crawl_delays")
        if errand is not None:
            self._stats.inc_value("robots/errands")
            self._frontier.requeue(self.errand(url), ahead=True)

    def errand(self, url: str) -> Entry:
        """The errand that *url* waits for."""
        errand = self._hosts.robots.errand(url)
        return Entry(errand, self._hosts.key_of(errand), kind=ERRAND, via=origin_of(url))

    def looked_up(self, host: str) -> None:
        """The name servers were asked for *host*. If they could not say, the dispatcher finds that
        with the next turn of the host."""
        assert self._hosts.addresses is not None
        found = self._hosts.addresses.look(host)
        if isinstance(found, list):
            self._hosts.outage.lookup_worked(host)
        elif isinstance(found, NameNotFoundError):
            self._hosts.outage.name_not_found(host)

    def lookup_failed(self, entry: Entry, decision: Decision) -> float:
        """They could not say where *entry*'s host is, by *decision*: for how long it rests."""
        host = host_of(entry.url)
        is_doubted = decision.outcome == "dns_not_found"
        excused = is_doubted or self._hosts.outage.lookup_failed(host)
        return self._hosts.politeness.lookup_failed(
            entry.host, entry.url, at_least=decision.secs, excused=excused
        )


class Retries:
    """The URLs that are tried again after a fetch that failed, as often as *policy* says.

    A URL that is tried again stands behind the others of its host.
    """

    def __init__(self, *, frontier: Frontier, stats: StatsCollector, policy: RetryPolicy) -> None:
        self._frontier = frontier
        self._stats = stats
        self._policy = policy
        self._lost_to_bugs: deque[Entry] = deque(maxlen=_MOST_LOST)
        self._is_over = False

    def take(self, entry: Entry, outcome: str) -> bool:
        """Whether *entry*, whose fetch has ended with *outcome*, is tried again; it is in its queue
        then, on disk. OSError when that is full. Ordinary Requests have Scrapy's own retries."""
        if entry.extra:
            return False
        if outcome == BUG and self._is_over:
            self._frontier.requeue(msgspec.structs.replace(entry, attempts=0))
            return True
        if entry.attempts < self._policy.rule(outcome).tries:
            self._stats.inc_value(f"retry/{outcome}")
            self._frontier.requeue(msgspec.structs.replace(entry, attempts=entry.attempts + 1))
            return True
        if outcome == BUG:
            self._lost_to_bugs.append(entry)
        return False

    def of_bugs(self) -> None:
        """The crawl ends because of bugs: the last URLs that were given up for one are for the
        next run, in which they may be mended, and so is what meets one from now on. OSError when
        the disk is full."""
        self._is_over = True
        while self._lost_to_bugs:
            entry = self._lost_to_bugs.popleft()
            self._frontier.requeue(msgspec.structs.replace(entry, attempts=0))
