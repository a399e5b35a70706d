"""Filters repeated warnings and errors out of the log.

A processing module that fails on every page, or drops every page, logs a message or a traceback for
each. So warnings and errors from the same line of code, with the same type of exception, are
limited: the first five are logged, then one per minute. Once a minute, a message says how many were
left out; the stat ``log/left_out`` has the total. LOG_LEVEL=DEBUG logs all of them. Other handlers
of the root logger, such as a user's, get all messages.

They are also in ``JOBDIR/logs/warnings.jsonl``, for the monitor and the report, which has at most
half a megabyte. Each line has: at (epoch seconds), level, where (the line of code and the type of
exception), text, count (of messages).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec
from scrapy import signals
from scrapy.utils.log import get_scrapy_root_handler

from webcrawl.crawl.job.state_directory import WARNINGS
from webcrawl.extensions.periodic import while_crawling

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

_FIRST = 5
_SECS = 60.0
_SHOWN_CHARACTERS = 200
_FILE_BYTES = 1 << 18
# Loggers that are never filtered. Python's own warnings all come from one line of code, but each is
# logged only once anyway.
_PASSED = {__name__, "py.warnings"}


@dataclass(slots=True)
class _Kind:
    """Counts of the messages from one line of code with one type of exception."""

    level: str
    where: str
    allowance: int = _FIRST
    left_out: int = 0
    sample: str = ""


class Messages(msgspec.Struct, frozen=True):
    """*count* messages of one kind, with an example."""

    count: int
    text: str
    level: str
    where: str


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
        # Several handlers ask about a record.
        facts = vars(record)
        if "is_admitted" not in facts:
            facts["is_admitted"] = self._use_up(record)
        return bool(facts["is_admitted"])

    def _use_up(self, record: logging.LogRecord) -> bool:
        """Use up the allowance of the kind of *record*; return False if there was none."""
        error = record.exc_info[0] if record.exc_info else None
        key = record.pathname, record.lineno, error
        kind = self._kinds.setdefault(key, _Kind(record.levelname, _place(record)))
        # The number of messages that may still be logged: a few first, then one more each minute.
        if kind.allowance:
            kind.allowance -= 1
            return True
        if not kind.left_out:
            kind.sample = _shorten(record)
        kind.left_out += 1
        return False

    def next_minute(self) -> list[Messages]:
        """Start a new minute; return what was left out of each kind of message."""
        left_out = []
        for key, kind in list(self._kinds.items()):
            if kind.left_out:
                left_out.append(Messages(kind.left_out, kind.sample, kind.level, kind.where))
                kind.left_out = 0
            kind.allowance += 1
            if kind.allowance > _FIRST:  # it is as if the kind had never occurred
                del self._kinds[key]
        return left_out


class _WarningFile(RotatingFileHandler):
    """Handler that writes warnings and errors to the file *path* as lines of JSON."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        super().__init__(path, maxBytes=_FILE_BYTES, backupCount=1, encoding="utf-8", delay=True)
        self.setLevel(logging.WARNING)

    def format(self, record: logging.LogRecord) -> str:
        messages = Messages(1, _shorten(record), record.levelname, _place(record))
        messages = getattr(record, "left_out", messages)
        line = {"at": round(record.created, 3), **msgspec.structs.asdict(messages)}
        return msgspec.json.encode(line).decode()


def _place(record: logging.LogRecord) -> str:
    """Return the line of code of *record*, and the type of its exception."""
    error = record.exc_info[0] if record.exc_info else None
    return f"{record.name}:{record.lineno}{f' {error.__name__}' if error else ''}"


def _shorten(record: logging.LogRecord) -> str:
    """Return the first line of the message of *record*, with the type of its exception."""
    error = record.exc_info[0] if record.exc_info else None
    text = record.getMessage().partition("\n")[0][:_SHOWN_CHARACTERS]
    return text + (f" ({error.__name__})" if error else "")


class RepeatedLines:
    """Extension that filters the messages of Scrapy's log handler while the crawl runs."""

    def __init__(self, *, crawler: Crawler) -> None:
        self._crawler = crawler
        self._repeats = Repeats()
        self._file: _WarningFile | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        extension = cls(crawler=crawler)
        crawler.signals.connect(extension.spider_opened, signal=signals.spider_opened)
        crawler.signals.connect(extension._engine_stopped, signal=signals.engine_stopped)
        while_crawling(crawler, extension._log_left_out, every=_SECS)
        return extension

    def spider_opened(self) -> None:
        # The filter cannot be added earlier, because Scrapy may still replace its handler.
        scrapy_handler = get_scrapy_root_handler()
        handlers = [scrapy_handler] if scrapy_handler is not None else []
        if jobdir := self._crawler.settings["JOBDIR"]:
            self._file = _WarningFile(Path(jobdir, WARNINGS))
            logging.getLogger().addHandler(self._file)
            handlers.append(self._file)
        if scrapy_handler is None or scrapy_handler.level > logging.DEBUG:
            for handler in handlers:
                handler.addFilter(self._repeats.admit)

    def _engine_stopped(self) -> None:
        self._log_left_out()
        if self._file is not None:
            logging.getLogger().removeHandler(self._file)
            self._file.close()

    def _log_left_out(self) -> None:
        """Log how many messages of each kind were left out in the last minute."""
        for left_out in self._repeats.next_minute():
            self._crawler.stats.inc_value("log/left_out", left_out.count)
            logger.warning(
                "%s more messages like this were left out (LOG_LEVEL=DEBUG logs all): %s",
                f"{left_out.count:,}",
                left_out.text,
                extra={"spider": self._crawler.spider, "left_out": left_out},
            )
