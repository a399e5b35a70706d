"""Warns about settings that have no effect in this crawl, and says what they need.

With the Mercator scheduler the frontier decides when a host is contacted, so Scrapy's settings for
that have no effect. With another scheduler (Scrapy's, or that of scrapy-redis), only Scrapy's own
downloader and robots.txt middleware respect delays and robots.txt, so they are restored.

It is an extension and not an add-on, for the reasons given in identification.py.
"""

from __future__ import annotations

import logging
from itertools import chain
from typing import TYPE_CHECKING, Self

from scrapy import Request, Spider, signals
from scrapy.exceptions import NotConfigured
from scrapy.utils.misc import load_object

from webcrawl.configuration.needs import is_set, without_needs
from webcrawl.configuration.scrapys import SCRAPYS, WITHOUT_EFFECT
from webcrawl.configuration.setting_check import is_read_by_user_code
from webcrawl.crawl.lease.downloader import MercatorDownloader
from webcrawl.errors import FatalError
from webcrawl.net.guard import warn_of_unguarded_handlers
from webcrawl.scheduler import is_mercator
from webcrawl.spiders.web import WebSpider

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

_ROBOTS = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"

# Settings and values without whose effect a crawl sends or stores what it should not.
_MUST_HAVE_EFFECT = {
    "CRAWLER_SIGNATURE_AGENT": "any", "RIGHTS_POLICY": "strict", "WEBSUB_PORT": "any"
}  # fmt: skip
# Scrapy's own middlewares change the priority of Requests that have one of these in their meta.
_PRIORITY_KEYS = frozenset({"retry_times", "redirect_times"})
# Keys of Request.meta without effect, and what to use instead.
_USELESS_META = {
    "download_slot": "POLITENESS_KEY, which groups URLs that share one pause",
    "dont_obey_robotstxt": "ROBOTSTXT_OBEY, for the whole spider",
}


class ScrapySettings:
    """Extension that warns about settings and Request attributes that have no effect."""

    def __init__(self, *, sentences: list[str]) -> None:
        self._sentences = sentences
        self._warned: set[str] = set()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Create the extension.

        With another scheduler, restore Scrapy's own parts and raise NotConfigured.
        """
        settings = crawler.settings
        warn_of_unguarded_handlers(settings)
        if not is_mercator(load_object(settings["SCHEDULER"])):
            _restore_scrapys_parts(settings)
            raise NotConfigured
        web = issubclass(crawler.spidercls, WebSpider)
        extension = cls(sentences=[*without_effect(settings, web=web)])
        crawler.signals.connect(extension.spider_opened, signal=signals.spider_opened)
        crawler.signals.connect(extension.request_scheduled, signal=signals.request_scheduled)
        if not web:  # the web spider's Pages say that they are truncated
            crawler.signals.connect(extension.response_received, signal=signals.response_received)
        return extension

    def spider_opened(self, spider: Spider) -> None:
        for sentence in self._sentences:
            self._warn(sentence, spider)
        if isinstance(spider, WebSpider) and getattr(spider, "allowed_domains", None):
            self._warn("allowed_domains has no effect on links; use URL_SCOPE instead", spider)

    def request_scheduled(self, request: Request, spider: Spider) -> None:
        """Warn about attributes of an ordinary Request that have no effect here."""
        for key in _USELESS_META.keys() & request.meta.keys():
            self._warn(
                f'meta["{key}"] has no effect in this crawl; instead: {_USELESS_META[key]}', spider
            )
        if request.priority and _PRIORITY_KEYS.isdisjoint(request.meta):
            sentence = "Request.priority has no effect in this crawl; instead: FRONTIER_PRIORITIZER"
            self._warn(sentence, spider)

    def response_received(self, response: Response, spider: Spider) -> None:
        """Warn, once, that the bodies of some responses are truncated."""
        if "truncated" in response.flags:
            self._warn(
                "Responses that exceed PAGE_MAX_BYTES, meta['download_maxsize'] or their time "
                "limit are cut, and have 'truncated' in response.flags",
                spider,
                example=response.url,
            )

    def _warn(self, sentence: str, spider: Spider, *, example: str = "") -> None:
        """Log *sentence*, with the URL *example* if given, unless it was logged before."""
        if sentence not in self._warned:
            self._warned.add(sentence)
            suffix = f"; for example {example}" if example else ""
            logger.warning("%s%s", sentence, suffix, extra={"spider": spider})


def without_effect(settings: BaseSettings, *, web: bool) -> Iterator[str]:
    """Yield a warning for each group of settings without effect that says what they need.

    *web* tells whether the crawl uses the web spider. Raises FatalError if the crawl would send or
    store what it should not.
    """
    # Each group has names of settings, separated by spaces, with what to use instead.
    groups = (WITHOUT_EFFECT["all"], WITHOUT_EFFECT["web"] if web else {})
    for names, replacement in chain.from_iterable(group.items() for group in groups):
        if present := [name for name in names.split() if _is_useless(settings, name)]:
            yield f"{_have_no_effect(present)} in this crawl; instead: {replacement}"
    by_need: dict[str, list[str]] = {}
    for name, need in without_needs(settings, web=web):
        if not is_read_by_user_code(name, settings):
            by_need.setdefault(need, []).append(name)
    for need, lacking in by_need.items():
        sentence = f"{_have_no_effect(lacking)} in this crawl without {need}"
        values = {name: settings[name] for name in _MUST_HAVE_EFFECT.keys() & set(lacking)}
        if any(_MUST_HAVE_EFFECT[name] in ("any", value) for name, value in values.items()):
            raise FatalError(f"{sentence}.")
        yield sentence


def _have_no_effect(names: list[str]) -> str:
    return f"{', '.join(names)} {'have' if len(names) > 1 else 'has'} no effect"


def _is_useless(settings: BaseSettings, name: str) -> bool:
    """Return whether *name*, a setting without effect here, was set."""
    if name == "CONCURRENT_REQUESTS_PER_DOMAIN" and settings.getint(name) == 1:
        return False  # this is how the frontier works anyway
    return is_set(settings, name)


def _restore_scrapys_parts(settings: BaseSettings) -> None:
    """Set Scrapy's own downloader and robots.txt middleware in *settings*."""
    if issubclass(load_object(settings["DOWNLOADER"]), MercatorDownloader):
        priority = settings.getpriority("DOWNLOADER") or 0
        settings.set("DOWNLOADER", SCRAPYS["DOWNLOADER"], priority=priority)
    name = "DOWNLOADER_MIDDLEWARES_BASE"
    with_robots = settings.getdict(name) | {_ROBOTS: SCRAPYS[name][_ROBOTS]}
    settings.set(name, with_robots, priority=settings.getpriority(name) or 0)
