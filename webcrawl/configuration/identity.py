"""CRAWLER_CONTACT and USER_AGENT: how the crawler calls itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from webcrawl import __version__
from webcrawl.errors import FatalError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

# What stands in for an empty USER_AGENT.
_PRODUCT = f"webcrawl/{__version__}"
# A contact: "+https://example.org/bot" or "bot@example.org" anywhere in a user agent.
IN_AGENT = re.compile(r"https?://[^\s/]|[\w.+-]@[\w-]+\.\w", re.IGNORECASE)
# The rest ends the comment of a user agent, or would have to be quoted there (RFC 9110, 5.6.5).
_ALLOWED = re.compile(r"[!#-'*-;=?-\[\]-~]+")
_MAIL = re.compile(r"[^@\s]+@[^@\s:/?]+\.[^@\s:/?.]+")


def contact_of(settings: BaseSettings) -> str:
    """CRAWLER_CONTACT, "" if there is none; FatalError if it is no page and no mail address."""
    contact = str(settings.get("CRAWLER_CONTACT") or "")
    sound = _ALLOWED.fullmatch(contact) and (is_page(contact) or _MAIL.fullmatch(contact))
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
    if not contact or contact in agent or IN_AGENT.search(agent):
        return agent
    return f"{agent.strip() or _PRODUCT} (+{contact})"


def is_page(contact: str) -> bool:
    """Whether *contact* is the URL of a page."""
    try:
        parts = urlsplit(contact)
        return parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        return False
