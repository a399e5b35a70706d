"""Names of the crawler: User-Agent, product tokens, contact.

They follow from CRAWL_PURPOSE, CRAWLER_NAME, CRAWLER_CONTACT and USER_AGENT.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from scrapy.settings import BaseSettings

from webcrawl import __version__
from webcrawl.errors import FatalError
from webcrawl.rights.purposes import purpose_of

# Used if USER_AGENT is empty.
_PRODUCT = f"webcrawl/{__version__}"
# Matches a contact: "+https://example.org/bot" or "bot@example.org" anywhere in a user agent.
IN_AGENT = re.compile(r"https?://[^\s/]|[\w.+-]@[\w-]+\.\w", re.IGNORECASE)
# Other characters would end the comment of a user agent, or need quoting (RFC 9110, 5.6.5).
_ALLOWED = re.compile(r"[!#-'*-;=?-\[\]-~]+")
_MAIL = re.compile(r"[^@\s]+@[^@\s:/?]+\.[^@\s:/?.]+")
# The name of a crawler in robots.txt (RFC 9309, 2.2.1).
_TOKEN = re.compile(r"[A-Za-z][A-Za-z_-]*")
_COMPATIBLE = re.compile(rf"\(compatible;\s*({_TOKEN.pattern})", re.IGNORECASE)


def contact_of(settings: BaseSettings) -> str:
    """Return CRAWLER_CONTACT, or "". Raises FatalError unless it is a URL or an email address."""
    contact = str(settings.get("CRAWLER_CONTACT") or "")
    is_valid = is_mail(contact) or (is_page(contact) and _ALLOWED.fullmatch(contact))
    if contact and not is_valid:
        raise FatalError(
            "CRAWLER_CONTACT must be the http(s) URL of a page about the crawl or an email "
            f"address, not {contact!r}."
        )
    return contact


def user_agent_of(settings: BaseSettings) -> str:
    """Return the User-Agent to send: name and version, then purpose and contact in a comment.

    An agent that the user has set is kept, and gets only what it lacks. Applied to its own result
    it changes nothing. Raises FatalError if the agent cannot be sent in a header.

    >>> user_agent_of({"CRAWL_PURPOSE": "search", "CRAWLER_CONTACT": "bot@a.test"})
    'webcrawl-search/0.5 (search; +bot@a.test)'
    """
    contact = contact_of(settings)
    purpose = purpose_of(settings)
    agent = str(settings.get("USER_AGENT") or "")
    if not (agent.isascii() and agent.isprintable()):
        raise FatalError(f"USER_AGENT must be printable ASCII, not {agent!r}.")

    name = _name_of(settings)
    if agent in {"", _PRODUCT} and (name or purpose):
        agent = f"{name or f'webcrawl-{purpose}'}/{__version__}"
    if name.lower() not in agent.lower():
        raise FatalError(f"USER_AGENT must contain CRAWLER_NAME, {name}, but is {agent!r}.")

    comment = []
    if purpose and not re.search(rf"[(; ]{purpose}[); ]", agent, re.IGNORECASE):
        comment.append(purpose)
    if contact and contact not in agent and not IN_AGENT.search(agent):
        comment.append(f"+{contact}")
    return f"{agent.strip() or _PRODUCT} ({'; '.join(comment)})" if comment else agent


def product_tokens(settings: BaseSettings) -> tuple[str, ...]:
    """Return the names of this crawler in robots.txt files, the most specific first.

    With CRAWL_PURPOSE these are a name with the purpose in it and one without. The name is
    ROBOTSTXT_USER_AGENT if that is set, as in Scrapy, or CRAWLER_NAME. Otherwise it is the first
    product in the User-Agent, or the one after "compatible", as in "Mozilla/5.0 (compatible;
    webcrawl/1.0; ...)". Raises FatalError if there is none, as no host could address this crawler.

    >>> product_tokens({"CRAWL_PURPOSE": "search"})
    ('webcrawl-search', 'webcrawl')
    """
    name = settings.get("ROBOTSTXT_USER_AGENT") or _name_of(settings)
    text = str(name or user_agent_of(settings))
    match = _COMPATIBLE.search(text) or _TOKEN.match(text.strip())
    if match is None:
        raise FatalError(f"USER_AGENT must begin with a product name, not {text!r}.")

    # Only the first of the two expressions has a group.
    name = match[match.lastindex or 0]
    if not (purpose := purpose_of(settings)):
        return (name,)
    general = re.sub(f"-{purpose}$", "", name, flags=re.IGNORECASE)
    return f"{general}-{purpose}", general


def is_mail(contact: str) -> bool:
    """Return whether *contact* is an email address that can be in a User-Agent."""
    return bool(_ALLOWED.fullmatch(contact) and _MAIL.fullmatch(contact))


def is_page(contact: str) -> bool:
    """Return whether *contact* is an http(s) URL."""
    try:
        parts = urlsplit(contact)
        return parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        return False


def _name_of(settings: BaseSettings) -> str:
    """Return CRAWLER_NAME, or "". Raises FatalError unless robots.txt files can name it."""
    name = str(settings.get("CRAWLER_NAME") or "")
    if name and not _TOKEN.fullmatch(name):
        raise FatalError(
            "CRAWLER_NAME must consist of letters, hyphens and underscores, because it is the "
            f"crawler's name in robots.txt (RFC 9309), not {name!r}."
        )
    return name
