"""The truth about the simulated web: the URLs that a crawl from the seeds can find.

This module walks over the World without a network. Protego parses the robots.txt that the server
would send, even for FTP; Gopher has none. Endless URL spaces, the spam farm, and hosts that do not
answer are left out.

The rules are those of this crawler, without signatures. The target of a redirect is a link like any
other. Links are extracted only from HTML pages with status 200; FTP directories and Gopher menus
are converted to HTML. A page that robots.txt forbids is not fetched, so its links remain unknown.
Links of duplicates count once, because duplicates have the same bytes and absolute links.

Functions with the argument *browser* take the pages of sites that need a browser as a browser shows
them, without scrolling, if it may load their scripts and data. Without it, these pages have no
links.
"""

from __future__ import annotations

import functools
import math
import re
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from protego import Protego

from webcrawl.simweb.distributions import HTML
from webcrawl.simweb.farm import DOMAINS
from webcrawl.simweb.host_spec import CLIENT_RENDERED, Behaviour, Rendering
from webcrawl.simweb.leaves import PageKind
from webcrawl.simweb.pages import (
    ENDLESS_NUMBER,
    content_of,
    key_of,
    links_of,
    page,
    redirect_target,
    url_of,
)
from webcrawl.simweb.rendering import script_of
from webcrawl.simweb.robots import MOVED_PATH, robots_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from webcrawl.simweb.host_spec import HostSpec
    from webcrawl.simweb.pages import PageSpec
    from webcrawl.simweb.world import World

#: Behaviours of hosts that send no document.
REFUSING = {Behaviour.GUARDED, Behaviour.SERVER_ERROR}
#: Behaviours of hosts that send valid answers, including 5xx.
ANSWERING = {Behaviour.SOUND, Behaviour.SLOW, Behaviour.THROTTLE, *REFUSING}
_FARM = "|".join(map(re.escape, DOMAINS))
_ENDLESS = re.compile(rf"https?://(?:[^/]+/(?:calendar|maze)/|[^/:]+\.(?:{_FARM})(?:[:/]|$))")


class InBrowser(NamedTuple):
    """A page, and what a browser with a network finds on it."""

    page: PageSpec
    links: frozenset[str]  # URLs
    gains: bool  # whether its text and links, if any, are there only after rendering


def has_links(found_page: PageSpec) -> bool:
    """Return whether the answer is a 200 with HTML, so that links can be extracted."""
    return found_page.leaf.status == 200 and found_page.leaf.content_type == HTML


def reachable_urls(world: World, *, browser: bool = False) -> set[str]:
    """Return every URL reachable from the seeds on hosts that answer, ignoring robots.txt."""
    return {url_of(world, key) for key, _ in _walk(world, None, browser=browser)}


def allowed_urls(
    world: World, user_agent: str, *, max_depth: float = math.inf, browser: bool = False
) -> set[str]:
    """Return every URL that a polite crawler called *user_agent* finds and may fetch.

    These URLs are at most *max_depth* links from a seed, not counting redirects. A complete crawl
    requests each of them once, and no other URLs except robots.txt and those of endless spaces,
    and with a *browser* the scripts and their data.
    """
    return {url_of(world, key) for key, _ in _walk(world, user_agent, max_depth, browser=browser)}


def fetchable_urls(world: World, user_agent: str, *, browser: bool = False) -> set[str]:
    """Return the ``allowed_urls`` that answer 200, at least to a later request if throttled."""
    return {
        url_of(world, key)
        for key, found_page in _walk(world, user_agent, browser=browser)
        if found_page.leaf.status == 200 and found_page.host.behaviour not in REFUSING
    }


def browser_truth(world: World, user_agent: str | None) -> dict[str, InBrowser]:
    """Return what a browser finds on each HTML page that a crawl with a browser finds, by URL.

    If *user_agent* is None, robots.txt is ignored. Otherwise, a page whose script is forbidden to
    *user_agent* has no links and does not gain.
    """
    may_fetch = _rules(world, user_agent)
    found = {}
    for key, found_page in _walk(world, user_agent, browser=True):
        if has_links(found_page) and found_page.host.behaviour not in REFUSING:
            is_complete = _is_complete(world, found_page, may_fetch)
            keys = links_of(world, found_page) if is_complete else []
            found[url_of(world, key)] = InBrowser(
                found_page,
                frozenset(url_of(world, link) for link in keys),
                is_complete and not _is_complete(world, found_page, None),
            )
    return found


def is_endless_url(url: str) -> bool:
    """Return whether *url* belongs to an endless URL space or to the spam farm."""
    return _ENDLESS.match(url) is not None


def subresources_of(world: World, page: PageSpec) -> list[tuple[HostSpec, str]]:
    """Return the hosts and targets that a browser requests for *page*, in order.

    The page must be one that ``is_scripted``. The requests of hostile scripts are left out.
    """
    kind = page.host.rendering
    owner, target = script_of(world, page)
    found = [(owner, target)]
    if kind is Rendering.MODULES:
        found.append((owner, "/scripts/library.js"))
    if kind is not Rendering.HOSTILE:
        batches = 2 if kind is Rendering.SCROLL else 1
        found += [(page.host, f"/api/{batch}{page.path}") for batch in range(batches)]
    return found


def _is_endless(key: int) -> bool:
    """Return whether *key* is that of an entry page to an endless URL space."""
    return key >> 8 & 0xFFFFFF == ENDLESS_NUMBER


def _walk(
    world: World, user_agent: str | None, max_depth: float = math.inf, *, browser: bool = False
) -> Iterator[tuple[int, PageSpec]]:
    """Yield the keys and pages that a crawl called *user_agent* fetches, the nearest first.

    If *user_agent* is None, robots.txt is ignored. With a *browser*, scripts run.
    """
    may_fetch = _rules(world, user_agent)
    waiting = deque((key_of(world.index_of(rank0)), 0) for rank0 in range(world.seed_hosts))
    seen: set[int] = set()
    seen_contents: set[tuple[int, int]] = set()
    while waiting:
        key, depth = waiting.popleft()
        host = world.host(key >> 32)
        if key in seen or host.behaviour not in ANSWERING or host.farm or _is_endless(key):
            continue

        seen.add(key)
        found_page = page(world, host, key >> 8 & 0xFFFFFF, key & 0xFF)
        if not may_fetch(host, found_page.path):
            continue

        yield key, found_page
        if host.behaviour in REFUSING:
            continue
        if found_page.kind is PageKind.REDIRECT:
            waiting.appendleft((redirect_target(world, found_page), depth))
        elif has_links(found_page) and depth < max_depth:
            if found_page.kind is PageKind.DUPLICATE:
                content = content_of(world, found_page)
                if content in seen_contents:
                    continue
                seen_contents.add(content)
            if not _is_complete(world, found_page, may_fetch if browser else None):
                continue
            waiting.extend((link, depth + 1) for link in {*links_of(world, found_page)} - seen)


def _is_complete(
    world: World, found_page: PageSpec, may_fetch: Callable[[HostSpec, str], bool] | None
) -> bool:
    """Return whether the content of *found_page* can be seen: if need be, by its script.

    The script runs if *may_fetch* allows all that it needs; None means without a browser.
    """
    if not (found_page.is_scripted and found_page.host.rendering in CLIENT_RENDERED):
        return True
    return may_fetch is not None and all(
        may_fetch(*one) for one in subresources_of(world, found_page)
    )


def _rules(world: World, user_agent: str | None) -> Callable[[HostSpec, str], bool]:
    """Return a function that says whether *user_agent* may request a target of a host."""
    if user_agent is None:
        return lambda _host, _target: True
    rules_of = functools.cache(lambda index: _rules_of(world, world.host(index), user_agent))
    return lambda host, target: rules_of(host.index)(host.origin + target)


def _rules_of(world: World, host: HostSpec, user_agent: str) -> Callable[[str], bool]:
    """Return a function that says whether the robots.txt of *host* allows a URL (RFC 9309, 2.3)."""
    robots = robots_of(world, host)
    if robots.location:
        robots = robots_of(world, host, MOVED_PATH)
    if robots.status >= 400:
        return lambda _: robots.status < 500
    rules = Protego.parse(robots.body.decode("utf-8-sig", "replace"))
    return lambda url: rules.can_fetch(url, user_agent)
