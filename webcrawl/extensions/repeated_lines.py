"""Filters repeated warnings and errors out of the log.

A processing module that fails on every page, or drops every page, logs a message or a traceback for
each. So warnings and errors from the same line of code, with the same type of exception, are
limited: the first five are logged, then one per minute. Once a minute, a message says how many were
left out; the stat ``log/left_out`` has the total. LOG_LEVEL=DEBUG logs all of them. Other handlers
of the root logger, such as a user's, get all messages.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from scrapy import signals
from scrapy.utils.log import get_scrapy_root_handler

from webcrawl.extensions.periodic import while_crawling

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

_FIRST = 5
_SECS = 60.0
_SHOWN_CHARACTERS = 200
# Loggers that are never filtered. Python's own warnings all come from one line of code, but each is
# logged only once anyway.
_PASSED = {__name__, "py.warnings"}


@dataclass(slots=True)
class _Kind:
    """Counts of the messages from one line of code with one type of exception."""

    allowance: int = _FIRST
    left_out: int = 0
    sample: str = ""


class Repeats:
    """Decides whether a message is logged or left out, from counts of similar messages."""

    def __init__(self) -> None:
        # By file, line number and type of exception. A kind that has not occurred for some minutes
        # is forgotten.
        self._kinds: dict[tuple[Any, ...], _Kind] = {}

    def admit(self, record: logging.LogRecord) -> bool:
        """Let *record* be logged, or count it as left out; return whether it is logged."""
        if record.levelno < logging.WARNING or record.name in _PASSED:
            return True
        error = record.exc_info[0] if record.exc_info else None
        kind = self._kinds.setdefault((record.pathname, record.lineno, error), _Kind())
        # The number of messages that may still be logged: a few first, then one more each minute.
        if kind.allowance:
            kind.allowance -= 1
            return True
        if not kind.left_out:
            error_name = f" ({error.__name__})" if error else ""
            kind.sample = record.getMessage().partition("\n")[0][:_SHOWN_CHARACTERS] + error_name
        kind.left_out += 1
        return False

    def next_minute(self) -> list[tuple[int, str]]:
        """Start a new minute; return (messages left out, an example) for each kind of message."""
        left_out = []
        for key, kind in list(self._kinds.items()):
            if kind.left_out:
                left_out.append((kind.left_out, kind.sample))
                kind.left_out = 0
            kind.allowance += 1
            if kind.allowance > _FIRST:  # it is as if the kind had never occurred
                del self._kinds[key]
        return left_out


class RepeatedLines:
    """Extension that filters the messages of Scrapy's log handler while the crawl runs."""

    def __init__(self, *, crawler: Crawler) -> None:
        self._crawler = crawler
        self._repeats = Repeats()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        extension = cls(crawler=crawler)
        crawler.signals.connect(extension.spider_opened, signal=signals.spider_opened)
        crawler.signals.connect(extension._log_left_out, signal=signals.engine_stopped)
        while_crawling(crawler, extension._log_left_out, every=_SECS)
        return extension

    def spider_opened(self) -> None:
        # The filter cannot be added earlier, because Scrapy may still replace its handler.
        handler = get_scrapy_root_handler()
        if handler is not None and handler.level > logging.DEBUG:
            handler.addFilter(self._repeats.admit)

    def _log_left_out(self) -> None:
        """Log how many messages of each kind were left out in the last minute."""
        for count, sample in self._repeats.next_minute():
            self._crawler.stats.inc_value("log/left_out", count)
            logger.warning(
                "%s more messages like this were left out (LOG_LEVEL=DEBUG logs all): %s",
                f"{count:,}",
                sample,
                extra={"spider": self._crawler.spider},
            )
