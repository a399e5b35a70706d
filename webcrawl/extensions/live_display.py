"""Live display: how the crawl is, at the bottom of the terminal, anew each second.

Log lines and what is printed scroll above it, and it takes itself away at the end. The progress
line is left out of a log on the terminal meanwhile. Where there is no terminal there is nothing of
all this, and it costs nothing.
"""

from __future__ import annotations

import logging
import os
import resource
import shutil
import sys
import textwrap
from collections import Counter, deque
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.utils.log import get_scrapy_root_handler

from webcrawl.clock import now
from webcrawl.configuration.values import flag
from webcrawl.crawl.figures.counts import Counts, behind, elapsed, module_failures, short, size
from webcrawl.crawl.figures.screen import Screen
from webcrawl.extensions.periodic import while_crawling
from webcrawl.scheduler import process_of
from webcrawl.wording import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from scrapy.crawler import Crawler

    from webcrawl.crawl.health import Health

_EVERY_SECS: Final = 1.0
# Over so many draws a rate is taken, and what is said of the last minute.
_RATE_DRAWS: Final = 10
_MINUTE_DRAWS: Final = 60
# The figures that take a millisecond are as old as that.
_PUBLISH_DRAWS: Final = 10
_FEWEST_COLUMNS: Final = 80
_MOST_COLUMNS: Final = 120
# What stands before a sparkline, which has a bar for each draw.
_BEFORE_BARS: Final = 43
_BARS: Final = "▁▂▃▄▅▆▇█"
_NAME_COLUMNS: Final = 9
_FAILURES: Final = 5
# Bold, green, yellow, cyan (ECMA-48, SGR).
_STYLES: Final = {
    "doctor": "\x1b[1m",
    "pages": "\x1b[32m",
    "bytes": "\x1b[32m",
    "errors": "\x1b[33m",
}
_NAME_STYLE: Final = "\x1b[36m"
_PLAIN: Final = "\x1b[0m"
_MEMORY_UNIT: Final = 1 if sys.platform == "darwin" else 1024


class _Sample(NamedTuple):
    """What was counted until a moment: *failures* are of URLs, and of tries to be repeated."""

    at: float
    pages: int
    received: int
    failures: Counter[str]


class LiveDisplay:
    """Extension: draws on *screen*; *jobdir* is on the disk that it looks at."""

    def __init__(self, *, crawler: Crawler, screen: Screen, jobdir: str) -> None:
        self._crawler = crawler
        self._screen = screen
        self._jobdir = jobdir
        self._began = now()
        nothing = _Sample(self._began, 0, 0, Counter())
        self._samples = deque([nothing], maxlen=_MOST_COLUMNS)
        self._draws = 0
        # How many were made, and when that was seen.
        self._checkpoints = (0, 0.0)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        screen = Screen(sys.stderr)
        wanted = screen.size.columns >= _FEWEST_COLUMNS - 1 and not flag(settings, "LOG_JSON")
        if settings["LIVE_DISPLAY"] is not None:
            wanted = flag(settings, "LIVE_DISPLAY")
        if not (wanted and screen.draws):
            raise NotConfigured
        display = cls(crawler=crawler, screen=screen, jobdir=settings["JOBDIR"] or ".")
        crawler.signals.connect(display.spider_opened, signal=signals.spider_opened)
        crawler.signals.connect(display.engine_stopped, signal=signals.engine_stopped)
        while_crawling(crawler, display._draw, every=_EVERY_SECS)
        return display

    def spider_opened(self) -> None:
        self._screen.take_over()
        handler = get_scrapy_root_handler()
        if handler is not None and not isinstance(handler, logging.FileHandler):
            handler.addFilter(self._is_logged)

    def engine_stopped(self) -> None:
        self._screen.end()

    def _is_logged(self, record: logging.LogRecord) -> bool:
        """Whether *record* is no progress line while there is a display. What strangers have sent
        is made visible in its traceback, too."""
        if record.exc_info and not record.exc_text:
            record.exc_text = visible(logging.Formatter().formatException(record.exc_info))
        return not (self._screen.draws and hasattr(record, "is_progress"))

    def _draw(self) -> None:
        process = process_of(self._crawler)
        if process is not None and process.stop.is_open and self._screen.draws:
            if self._draws % _PUBLISH_DRAWS == 0:
                process.health.publish()
            self._draws += 1
            columns = min(self._screen.size.columns, _MOST_COLUMNS)
            rows = self._rows(
                process.health, self._crawler.stats.get_stats(), columns - _BEFORE_BARS
            )
            self._screen.show(["", *rendered(rows, columns)])

    def _rows(
        self, health: Health, stats: Mapping[str, Any], bars: int
    ) -> Iterator[tuple[str, str]]:
        """The rows with their names, with sparklines of so many *bars*."""
        at, counts, state = now(), Counts.of(stats), health.activity()
        failures = Counter(counts.given_up) + Counter(behind("retry/", stats))
        received = int(stats.get("fetch/bytes", 0))
        self._samples.append(_Sample(at, counts.pages, received, failures))
        pages = [(one.at, one.pages) for one in self._samples]
        traffic = [(one.at, one.received) for one in self._samples]
        if (made := int(stats.get("checkpoint/count", 0))) != self._checkpoints[0]:
            self._checkpoints = (made, at)
        disk = shutil.disk_usage(self._jobdir).free
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MEMORY_UNIT
        yield "doctor", str(health.diagnosis())
        done = f"{short(counts.pages)} in {elapsed(at - self._began)}"
        yield "pages", paced(done, pages, "{:,.0f}".format, bars)
        yield "bytes", paced(size(received), traffic, size, bars)
        hosts = f"{short(state.ready)} ready, {short(state.resting)} resting"
        yield "hosts", f"{hosts}, {state.on_wire:,} in process by {state.workers:,} workers"
        seen = int(stats.get("seen/fingerprints", 0) + stats.get("seen/buffer/entries", 0))
        parked, given_up = sum(state.parked.values()), sum(counts.given_up.values())
        urls = f"{short(state.waiting)} waiting, {short(seen)} seen, {short(parked)} parked"
        yield "URLs", f"{urls}, {short(state.due)} due, {short(given_up)} given up"
        minute = self._samples[max(0, len(self._samples) - 1 - _MINUTE_DRAWS)]
        most = (failures - minute.failures).most_common(_FAILURES)
        yield "errors", _listed(dict(most)) or "none in the last minute"
        if failed := module_failures(stats):
            yield "modules", _listed(failed)
        saved = f"checkpoint {elapsed(at - self._checkpoints[1])} ago" if made else "no checkpoint"
        yield "job", f"{size(disk)} of disk free, {size(memory)} of memory at most, {saved}"
        if projection := health.projection():
            yield "outlook", projection


def _listed(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in numbers.items())


def paced(
    done: str, counts: Iterable[tuple[float, int]], shown: Callable[[float], str], bars: int
) -> str:
    """What is *done*, how much a second of late, as it is *shown*, and a sparkline of so many
    *bars*, from *counts* and when they were taken.

    >>> paced("12 pages", [(1, 0), (2, 4), (3, 4), (5, 12)], "{:.0f}".format, 30)
    '12 pages                    3/s  █▁█'
    """
    rates = [(b - a) / max(to - at, 0.001) for (at, a), (to, b) in pairwise(counts)]
    recent = rates[-_RATE_DRAWS:]
    shown_bars = rates[-bars:]
    highest = max(shown_bars, default=0) or 1
    sparkline = "".join(_BARS[round(7 * rate / highest)] for rate in shown_bars)
    return f"{done:<20}{shown(sum(recent) / max(len(recent), 1)):>9}/s  {sparkline}"


def rendered(rows: Iterable[tuple[str, str]], columns: int) -> list[str]:
    """Lines of a terminal, with colours unless NO_COLOR forbids them."""
    plain = bool(os.environ.get("NO_COLOR"))
    lines = []
    for name, value in rows:
        style = "" if plain else _STYLES.get(name, "")
        for number, line in enumerate(textwrap.wrap(visible(value), columns - _NAME_COLUMNS)):
            head = f"{'' if number else name:<{_NAME_COLUMNS}}"
            head = head if plain else f"{_NAME_STYLE}{head}{_PLAIN}"
            lines.append(f"{head}{style}{line}{_PLAIN if style else ''}")
    return lines
