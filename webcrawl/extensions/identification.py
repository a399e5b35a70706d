"""Identification of the crawler: completes the user agent, or warns if it names no contact.

It changes settings, but is an extension and not an add-on. Scrapy makes extensions last before it
freezes settings, so this one sees the values that a spider or an add-on has set. And ADDONS, unlike
EXTENSIONS_BASE, is set by users, so their add-ons would replace this one.

The parts that read USER_AGENT are made later and see the new value: the downloader middlewares, the
robots.txt rules and the WARC files.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Self

from scrapy import Spider, signals
from scrapy.utils.misc import load_object

from webcrawl.configuration.values import flag
from webcrawl.identity.names import IN_AGENT, contact_of, is_page, user_agent_of
from webcrawl.identity.signatures import signer_of
from webcrawl.net.http.handler import HttpDownloadHandler
from webcrawl.net.http.request import SIGNERS
from webcrawl.rights.purposes import purpose_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)


class Identification:
    """Extension that sets the user agent, and warns if a crawl of the web names no contact."""

    def __init__(self, *, agent: str, purpose: str, live: bool) -> None:
        self._agent = agent
        self._purpose = purpose
        self._live = live

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Put purpose and contact into USER_AGENT, and an email address into the From header.

        With CRAWLER_KEY_FILE, also make what signs the requests of *crawler*.

        Raises FatalError if the contact is neither a URL nor an email address, or for a bad name or
        purpose.
        """
        settings = crawler.settings
        contact = contact_of(settings)
        agent = user_agent_of(settings)
        _replace(settings, "USER_AGENT", agent)
        if contact and not is_page(contact):
            _replace(settings, "DEFAULT_REQUEST_HEADERS", _headers_from(settings, contact))
        if (signer := signer_of(settings)) is not None:
            SIGNERS[crawler] = signer  # the download handlers look there
            _warn_of_unsigned(settings)
        # Only simulated and local webs have private addresses.
        live = not flag(settings, "ALLOW_PRIVATE_ADDRESSES")
        extension = cls(agent=agent, purpose=purpose_of(settings), live=live)
        crawler.signals.connect(extension.spider_opened, signal=signals.spider_opened)
        return extension

    def spider_opened(self, spider: Spider) -> None:
        """Warn if a live crawl names no contact, and say what CRAWL_PURPOSE would change."""
        if not self._purpose:
            logger.info(
                "CRAWL_PURPOSE is not set. With a purpose, such as search, the crawl states it in "
                "its User-Agent, and robots.txt files can address it as webcrawl-search.",
                extra={"spider": spider},
            )
        # Scrapy still reads this attribute of old spiders.
        agent = getattr(spider, "user_agent", None) or self._agent
        if self._live and not IN_AGENT.search(agent):
            logger.warning(
                "NO CONTACT: this crawl calls itself %r, which does not tell site operators whom "
                "to contact, and many block such crawlers. Set CRAWLER_CONTACT to the URL of a "
                "page about the crawl or to an email address, for example with "
                "-s CRAWLER_CONTACT=https://example.org/crawler.",
                agent,
                extra={"spider": spider},
            )


def _headers_from(settings: BaseSettings, contact: str) -> dict[str, object]:
    """Return the default headers, with From (RFC 9110, 10.1.2) unless the user has set it."""
    headers: dict[str, object] = settings.getdict("DEFAULT_REQUEST_HEADERS")
    if any(name.lower() == "from" for name in headers):
        return headers
    return headers | {"From": contact}


def _warn_of_unsigned(settings: BaseSettings) -> None:
    """Warn if another handler than webcrawl's sends https requests, as it does not sign them."""
    path = settings.getwithbase("DOWNLOAD_HANDLERS").get("https")
    handler = load_object(path or HttpDownloadHandler)
    if not issubclass(handler, HttpDownloadHandler):
        logger.warning(
            "NOT SIGNED: https requests are sent by %s, which does not sign them, although "
            "CRAWLER_KEY_FILE is set. Remove it from DOWNLOAD_HANDLERS to sign all requests.",
            handler.__qualname__,
        )


def _replace(settings: BaseSettings, name: str, value: object) -> None:
    """Set the setting *name* to *value*, but keep its priority."""
    settings.set(name, value, priority=settings.getpriority(name) or 0)
