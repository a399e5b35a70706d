"""Progress line: a log line on the crawl every ten seconds (Mercator's background thread).

It has at most 160 characters with the time and the name before it. Therefore large numbers are
rounded, and the numbers of hosts are left out when there is a reason for waiting to report.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from scrapy import signals
from scrapy.exceptions import NotConfigured

from webcrawl.clock import now
from webcrawl.configuration.values import number
from webcrawl.crawl.counts import Counts
from webcrawl.extensions.periodic import while_crawling
from webcrawl.scheduler import agent_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.crawler import Crawler

    from webcrawl.crawl.statistics import CrawlActivity

# A short name: the line is read on a terminal.
logger = logging.getLogger("webcrawl")

# With fewer contacts a second for each worker little happens, and the line says why.
_LITTLE: Final = 0.1
_EXACT: Final = 100_000


class Statistics:
    """Extension: logs one INFO line per interval."""

    def __init__(self, *, crawler: Crawler, every: float) -> None:
        self._crawler = crawler
        self._every = every
        self._pages = self._contacts = 0
        self._at = self._began = 0.0

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        every = number(crawler.settings, "STATISTICS_INTERVAL_SECS", at_least=0)
        if not every:
            raise NotConfigured("STATISTICS_INTERVAL_SECS is 0")
        extension = cls(crawler=crawler, every=every)
        crawler.signals.connect(extension.spider_opened, signal=signals.spider_opened)
        while_crawling(crawler, extension._log, every=every)
        return extension

    def spider_opened(self) -> None:
        self._at = self._began = now()

    def _log(self) -> None:
        agent = agent_of(self._crawler)
        if agent is None:
            return
        at = now()
        if at - self._at < self._every / 2:
            return  # the loop was late, and this call is its next one
        counts = Counts.of(self._crawler.stats.get_stats())
        contacts = self._crawler.stats.get_value("contacts", 0)
        secs = max(at - self._at, 0.001)
        rates = Rates((counts.pages - self._pages) / secs, (contacts - self._contacts) / secs)
        self._pages, self._contacts, self._at = counts.pages, contacts, at
        line = progress_line(
            agent.statistics.state(),
            rates,
            secs=at - self._began,
            pages=counts.pages,
            given_up=sum(counts.given_up.values()),
        )
        logger.info("%s", line, extra={"spider": self._crawler.spider})


class Rates(NamedTuple):
    """Pages and contacts per second since the last line."""

    pages: float
    contacts: float


def progress_line(
    state: CrawlActivity, rates: Rates, *, secs: float, pages: int, given_up: int
) -> str:
    """The line without the prefix of the log. *secs*, *pages* and *given_up* URLs are those of this
    run."""
    minutes, seconds = divmod(int(secs), 60)
    return (
        f"{minutes // 60}:{minutes % 60:02}:{seconds:02} {_short(pages)} pages "
        f"({rates.pages:,.0f}/s), {_short(given_up)} given up; {_short(state.waiting)} waiting, "
        f"{state.in_process:,} in process; {next(_reasons(state, rates), _hosts(state))}"
    )


def _reasons(state: CrawlActivity, rates: Rates) -> Iterator[str]:
    """Reasons for a low rate, the most important first; none if the rate is high."""
    if state.pauses:
        yield f"paused: {', '.join(name.replace('_', ' ') for name in state.pauses)}"
    if state.awaits_seeds:
        yield "reading all seeds first"
    if state.bound_for is not None and state.bound_for >= 1:
        yield f"politeness-bound for {state.bound_for:,.0f} s"
    elif state.bound_for is not None:
        yield f"politeness-bound: {_short(state.resting)} hosts rest"
    if rates.contacts < _LITTLE * state.workers:
        if state.looking_up > max(state.slow, state.robots):
            yield f"name servers asked for {state.looking_up:,} hosts"
        if state.slow and 2 * state.slow >= state.in_process:
            yield f"waiting for {state.slow:,} slow hosts"
    if state.robots and 2 * state.robots >= state.in_process:
        yield f"{state.robots:,} of them robots.txt"


def _hosts(state: CrawlActivity) -> str:
    return f"{_short(state.ready)} hosts ready, {_short(state.resting)} resting"


def _short(number: int) -> str:
    """
    >>> [_short(number) for number in (99_999, 123_456, 12_345_678)]
    ['99,999', '123k', '12.3M']
    """
    if number < _EXACT:
        return f"{number:,}"
    return f"{number // 1000}k" if number < 1_000_000 else f"{number / 1e6:,.1f}M"
