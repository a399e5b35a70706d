"""Identification of the crawler: a contact in the user agent, or a warning without one.

It is an extension and not an add-on, although it changes settings. Extensions are made last before
Scrapy freezes settings, so this one sees what a spider or an add-on has set. And ADDONS, unlike
EXTENSIONS_BASE, belongs to the user, whose own add-ons would replace this one.

Everything that reads USER_AGENT is made later and sees the same: the downloader's middlewares, the
robots.txt rules, the WARC files.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import urlsplit

from scrapy import signals

from webcrawl import __version__
from webcrawl.configuration.values import flag
from webcrawl.errors import FatalError

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

# What stands in for an empty USER_AGENT.
_PRODUCT: Final = f"webcrawl/{__version__}"
# A contact: "+https://example.org/bot" or "bot@example.org" anywhere in a user agent.
_IN_AGENT: Final = re.compile(r"https?://[^\s/]|[\w.+-]@[\w-]+\.\w", re.IGNORECASE)
# The rest ends the comment of a user agent, or would have to be quoted there (RFC 9110, 5.6.5).
_ALLOWED: Final = re.compile(r"[!#-'*-;=?-\[\]-~]+")
_MAIL: Final = re.compile(r"[^@\s]+@[^@\s:/?]+\.[^@\s:/?.]+")


class Identification:
    """Extension: warns at the start of a crawl of the web that names no contact."""

    def __init__(self, *, agent: str, live: bool) -> None:
        self._agent = agent
        self._live = live

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Put CRAWLER_CONTACT into USER_AGENT, and into the From header if it is a mail address.

        FatalError with one sentence for a contact that cannot be one.
        """
        settings = crawler.settings
        contact = contact_of(settings)
        agent = user_agent_with(settings.get("USER_AGENT") or "", contact)
        _replace(settings, "USER_AGENT", agent)
        if contact and not _is_page(contact):
            _replace(settings, "DEFAULT_REQUEST_HEADERS", _headers_from(settings, contact))
        live = not flag(settings, "ALLOW_PRIVATE_ADDRESSES")
        extension = cls(agent=agent, live=live)
        crawler.signals.connect(extension.spider_opened, signal=signals.spider_opened)
        return extension

    def spider_opened(self, spider: Spider) -> None:
        # Scrapy still heeds this attribute of old spiders.
        agent = getattr(spider, "user_agent", None) or self._agent
        if self._live and not _IN_AGENT.search(agent):
            logger.warning(
                "NOBODY TO ASK: this crawl calls itself %r, which names nobody whom site operators "
                "could ask about it, and many block such crawlers. Set CRAWLER_CONTACT to the URL "
                "of a page about the crawl or to a mail address, for example with "
                "-s CRAWLER_CONTACT=https://example.org/crawler.",
                agent,
                extra={"spider": spider},
            )


def contact_of(settings: BaseSettings) -> str:
    """CRAWLER_CONTACT, "" if there is none; FatalError if it is no page and no mail address."""
    contact = str(settings.get("CRAWLER_CONTACT") or "")
    sound = _ALLOWED.fullmatch(contact) and (_is_page(contact) or _MAIL.fullmatch(contact))
    if contact and not sound:
        raise FatalError(
            "CRAWLER_CONTACT must be the http(s) URL of a page about the crawl or a mail address, "
            f"not {contact!r}."
        )
    return contact


def user_agent_with(agent: str, contact: str) -> str:
    """*agent* with *contact* as a comment, unless it names a page or an address already.

    FatalError if *agent* cannot be sent in a header.
    """
    if not (agent.isascii() and agent.isprintable()):
        raise FatalError(f"USER_AGENT must be printable ASCII, {agent!r} is not.")
    if not contact or contact in agent or _IN_AGENT.search(agent):
        return agent
    return f"{agent.strip() or _PRODUCT} (+{contact})"


def _is_page(contact: str) -> bool:
    try:
        parts = urlsplit(contact)
        return parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        return False


def _headers_from(settings: BaseSettings, contact: str) -> dict[str, object]:
    """The default headers with From (RFC 9110, 10.1.2), unless the user has set it."""
    headers: dict[str, object] = settings.getdict("DEFAULT_REQUEST_HEADERS")
    if any(name.lower() == "from" for name in headers):
        return headers
    return headers | {"From": contact}


def _replace(settings: BaseSettings, name: str, value: object) -> None:
    """Set *name* wherever its value came from: the settings, the spider, the command line."""
    settings.set(name, value, priority=settings.getpriority(name) or 0)
