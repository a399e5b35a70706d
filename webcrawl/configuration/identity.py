"""Identity of the crawler: CRAWLER_CONTACT and USER_AGENT."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from webcrawl import __version__
from webcrawl.errors import FatalError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

# Used if USER_AGENT is empty.
_PRODUCT = f"webcrawl/{__version__}"
# Matches a contact: "+https://example.org/bot" or "bot@example.org" anywhere in a user agent.
IN_AGENT = re.compile(r"https?://[^\s/]|[\w.+-]@[\w-]+\.\w", re.IGNORECASE)
# Other characters would end the comment of a user agent, or need quoting (RFC 9110, 5.6.5).
_ALLOWED = re.compile(r"[!#-'*-;=?-\[\]-~]+")
_MAIL = re.compile(r"[^@\s]+@[^@\s:/?]+\.[^@\s:/?.]+")


def contact_of(settings: BaseSettings) -> str:
    """Return CRAWLER_CONTACT, or "". Raises FatalError unless it is a URL or an email address."""
    contact = str(settings.get("CRAWLER_CONTACT") or "")
    is_valid = _ALLOWED.fullmatch(contact) and (is_page(contact) or _MAIL.fullmatch(contact))
    if contact and not is_valid:
        raise FatalError(
            "CRAWLER_CONTACT must be the http(s) URL of a page about the crawl or an email "
            f"address, not {contact!r}."
        )
    return contact


def user_agent_with(agent: str, contact: str) -> str:
    """Return *agent* with *contact* as a comment, unless it already names a page or an address.

    Raises FatalError if *agent* cannot be sent in a header.
    """
    if not (agent.isascii() and agent.isprintable()):
        raise FatalError(f"USER_AGENT must be printable ASCII, not {agent!r}.")
    if not contact or contact in agent or IN_AGENT.search(agent):
        return agent
    return f"{agent.strip() or _PRODUCT} (+{contact})"


def is_page(contact: str) -> bool:
    """Return whether *contact* is an http(s) URL."""
    try:
        parts = urlsplit(contact)
        return parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        return False
