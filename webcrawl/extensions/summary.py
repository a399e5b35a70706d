"""Prints the summary of a crawl (crawl/figures/summary.py) at its end."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.utils.misc import load_object

from webcrawl.configuration.values import flag
from webcrawl.crawl.engine.user_messages import print_and_log
from webcrawl.crawl.figures.summary import summary
from webcrawl.crawl.seeds.few_hosts import HAS_FEW_HOSTS, REMAINDER
from webcrawl.scheduler import is_mercator

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

# Where modules store their files: (setting that names it, else the directory in JOBDIR).
_PLACES = {
    "WARC": ("WARC_DIR", "warc"),
    "LARM": ("LARM_DIR", "larm"),
    "text": ("TEXT_DIR", "text"),
    "search": ("SEARCH_DIR", "search"),
    "graph": ("", "graph"),
}


class Summary:
    """Extension that prints the summary when the engine has stopped."""

    def __init__(self, *, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not flag(crawler.settings, "SUMMARY_ENABLED"):
            raise NotConfigured("SUMMARY_ENABLED is off")
        if not is_mercator(load_object(crawler.settings["SCHEDULER"])):
            raise NotConfigured  # nothing is counted
        extension = cls(crawler=crawler)
        crawler.signals.connect(extension.engine_stopped, signal=signals.engine_stopped)
        return extension

    def engine_stopped(self) -> None:
        """Print and log the summary, unless the crawl ended with an error."""
        stats = self._crawler.stats.get_stats()
        if "finish/error" in stats:
            return  # the command prints the error, which should not be lost among numbers

        settings = self._crawler.settings
        jobdir = str(settings["JOBDIR"] or "")
        # Where the modules store their files: the setting's directory, or a folder of the job.
        places = {
            name: settings.get(setting) or f"{jobdir}/{folder}"
            for name, (setting, folder) in _PLACES.items()
        }
        # Output is mentioned if its directory has files. For WARC, ``summary`` decides by the bytes
        # that were written.
        places = {
            name: place for name, place in places.items() if name == "WARC" or _has_files(place)
        }

        # When few hosts are left, the command ``crawl`` writes the other URLs to a file. In a crawl
        # with a queue of segments, that file is in the queue, and the command reports it.
        queue = getattr(self._crawler.spider, "segment_queue", None)
        if stats.get("finish_reason") == HAS_FEW_HOSTS and queue is None:
            places["left"] = f"{jobdir}/{REMAINDER}: the URLs that are left, as a seed list"
        may_resume = not settings.get("REHEARSAL")
        is_drone = bool(settings.get("HIVE"))
        text = summary(
            stats,
            jobdir=jobdir,
            places=places,
            files=jobdir if is_drone else "",
            may_resume=may_resume,
            is_drone=is_drone,
        )
        print_and_log(text, level=logging.INFO)


def _has_files(place: str) -> bool:
    """Return whether *place* is a directory that is not empty."""
    with suppress(OSError):
        return any(Path(place).iterdir())
    return False
