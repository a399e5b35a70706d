"""Ends a crawl that cannot continue, and gives the reason in one sentence.

The scheduler and its parts report errors of logs, checkpoints and background work here. The
invariant: nothing is lost. From the first error on, no URL is finished and no checkpoint is made.
So the last checkpoint and the logs after it contain everything that is left to do, and the same
command continues from there.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from scrapy import signals
from scrapy.crawler import Crawler

from webcrawl.crawl.engine._engine import is_closing
from webcrawl.errors import FatalError, UnreachableError, disk_message, is_disk_full
from webcrawl.storage.record_log import CorruptRecordError

logger = logging.getLogger(__name__)


class CrawlStop:
    """Ends the crawl of *crawler* in *jobdir*.

    The attribute has_begun says that an error is ending it: no more URLs are finished then.
    """

    #: Whether the crawl is open.
    is_open = False
    #: Whether nothing is in process any more, and only the last checkpoint is still to be made.
    is_over = False

    def __init__(self, *, crawler: Crawler, jobdir: Path) -> None:
        self._crawler = crawler
        self._jobdir = jobdir
        self._closing: asyncio.Task[None] | None = None
        self._reason = ""
        self._is_opened = False
        self.has_begun = False

    @property
    def is_ending(self) -> bool:
        """Return whether the crawl is closing: sources of URLs must stop, without losing any."""
        return not self.is_open or self.has_begun or is_closing(self._crawler.engine)

    def listen(self) -> None:
        """Have the crawl closed as soon as the spider is open, if it has failed by then.

        To be called while the spider is being opened.
        """
        self._crawler.signals.connect(self._spider_opened, signal=signals.spider_opened)

    def fail(self, error: Exception) -> None:
        """End the crawl because of *error*; only the first error counts. Returns immediately."""
        if self.has_begun:
            return

        self.has_begun = True
        cause, sentence = _cause_and_sentence(error, self._jobdir)
        stats = self._crawler.stats
        spider = self._crawler.spider
        stats.set_value("finish/cause", cause)
        stats.set_value("finish/error", sentence)
        trace = error if cause == "program_error" else None
        logger.error(sentence, exc_info=trace, extra={"spider": spider})
        self._reason = cause
        if self._is_opened:
            self._close()

    def ask(self, reason: str) -> None:
        """End the crawl with a checkpoint, for *reason*, although it could continue.

        Returns immediately.
        """
        self._reason = reason
        if self._is_opened and not self.has_begun:
            self._close()

    def _spider_opened(self) -> None:
        """Close the crawl if it has failed while the spider was being opened.

        It could not be closed before: Scrapy was still opening the processing modules.
        """
        self._is_opened = True
        if self.has_begun:
            self._close()

    def _close(self) -> None:
        engine = self._crawler.engine
        if not is_closing(engine):
            self._closing = asyncio.ensure_future(engine.close_spider_async(reason=self._reason))


def _cause_and_sentence(error: Exception, jobdir: Path) -> tuple[str, str]:
    """Return the finish reason for *error* and a sentence for the user; *jobdir* is named in it."""
    if isinstance(error, UnreachableError):
        return "unreachable", str(error)
    if isinstance(error, FatalError):
        return "unusable_settings", str(error)
    if isinstance(error, CorruptRecordError):
        return "disk_error", (
            f"JOBDIR {jobdir} is damaged ({error}): repair the disk, restore a copy of JOBDIR, or "
            "start over in another one."
        )
    if isinstance(error, OSError):
        return "disk_full" if is_disk_full(error) else "disk_error", disk_message(error, jobdir)
    return "program_error", (
        f"A bug in the program ended the crawl ({type(error).__name__}: {error}): the log has "
        "the traceback. Run the same command again to continue; nothing is lost."
    )
