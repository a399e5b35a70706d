"""Truth about the simulated web: the URLs that a crawl from the seeds can find.

This module walks over the World without a network. Protego parses the robots.txt that the server
would send, even for FTP; Gopher has none. Endless URL spaces, the spam farm, and hosts that do not
answer are left out.

The rules are those of this crawler, without signatures. The target of a redirect is a link like any
other. Links are extracted only from HTML pages with status 200; FTP directories and Gopher menus
are converted to HTML. A page that robots.txt forbids is not fetched, so its links remain unknown.
Links of duplicates count once, because duplicates have the same bytes and absolute links.
"""

from __future__ import annotations

import math
import re
from collections import deque
from typing import TYPE_CHECKING

from protego import Protego

from webcrawl.simweb.farm import DOMAINS
from webcrawl.simweb.host_spec import REFUSING
from webcrawl.simweb.leaves import PageKind
from webcrawl.simweb.pages import (
    content_of,
    is_endless,
    key_of,
    links_of,
    page,
    redirect_target,
    url_of,
)
from webcrawl.simweb.robots import MOVED_PATH, robots_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from webcrawl.simweb.host_spec import HostSpec
    from webcrawl.simweb.pages import PageSpec
    from webcrawl.simweb.world import World

_FARM = "|".join(map(re.escape, DOMAINS))
_ENDLESS = re.compile(rf"https?://(?:[^/]+/(?:calendar|maze)/|[^/:]+\.(?:{_FARM})(?:[:/]|$))")


def reachable_urls(world: World) -> set[str]:
    """Return every URL reachable from the seeds on hosts that answer, ignoring robots.txt."""
    return {url_of(world, key) for key, _ in _walk(world, None)}


def allowed_urls(world: World, user_agent: str, *, max_depth: float = math.inf) -> set[str]:
    """Return every URL that a polite crawler called *user_agent* finds and may fetch.

    These URLs are at most *max_depth* links from a seed, not counting redirects. A complete crawl
    requests each of them once, and no other URLs except robots.txt and those of endless spaces.
    """
    return {url_of(world, key) for key, _ in _walk(world, user_agent, max_depth)}


def fetchable_urls(world: World, user_agent: str) -> set[str]:
    """Return the ``allowed_urls`` that answer 200, at least to a later request if throttled."""
    return {
        url_of(world, key)
        for key, found_page in _walk(world, user_agent)
        if found_page.leaf.status == 200 and found_page.host.behaviour not in REFUSING
    }


def is_endless_url(url: str) -> bool:
    """Return whether *url* belongs to an endless URL space or to the spam farm."""
    return _ENDLESS.match(url) is not None


def write_truth(world: World, user_agent: str, path: Path) -> None:
    """Write the reachable URLs to *path*, sorted, one line each: a word, a tab, the URL.

    The word is "fetchable", "allowed" (but not answered with 200) or "reachable" (but forbidden).
    """
    # Each set is a subset of the previous one.
    lines = dict.fromkeys(reachable_urls(world), "reachable")
    lines |= dict.fromkeys(allowed_urls(world, user_agent), "allowed")
    lines |= dict.fromkeys(fetchable_urls(world, user_agent), "fetchable")
    with path.open("w", encoding="ascii") as file:
        file.writelines(f"{word}\t{url}\n" for url, word in sorted(lines.items()))


def _walk(
    world: World, user_agent: str | None, max_depth: float = math.inf
) -> Iterator[tuple[int, PageSpec]]:
    """Yield the keys and pages that a crawl called *user_agent* fetches, the nearest first.

    If *user_agent* is None, robots.txt is ignored.
    """
    waiting = deque((key_of(world.index_of(rank0)), 0) for rank0 in range(world.seed_hosts))
    seen: set[int] = set()
    seen_contents: set[tuple[int, int]] = set()
    may_fetch: dict[int, Callable[[str], bool]] = {}
    while waiting:
        key, depth = waiting.popleft()
        host = world.host(key >> 32)
        if key in seen or not host.answers or host.farm or is_endless(key):
            continue

        seen.add(key)
        found_page = page(world, host, key >> 8 & 0xFFFFFF, key & 0xFF)
        if user_agent is not None:
            if host.index not in may_fetch:
                may_fetch[host.index] = _rules_of(world, host, user_agent)
            if not may_fetch[host.index](host.origin + found_page.path):
                continue

        yield key, found_page
        if host.behaviour in REFUSING:
            continue
        if found_page.kind is PageKind.REDIRECT:
            waiting.appendleft((redirect_target(world, found_page), depth))
        elif found_page.has_links and depth < max_depth:
            if found_page.kind is PageKind.DUPLICATE:
                content = content_of(world, found_page)
                if content in seen_contents:
                    continue
                seen_contents.add(content)
            waiting.extend((link, depth + 1) for link in {*links_of(world, found_page)} - seen)


def _rules_of(world: World, host: HostSpec, user_agent: str) -> Callable[[str], bool]:
    """Return a function that says whether the robots.txt of *host* allows a URL (RFC 9309, 2.3)."""
    robots = robots_of(world, host)
    if robots.location:
        robots = robots_of(world, host, MOVED_PATH)
    if robots.status >= 400:
        return lambda _: robots.status < 500
    rules = Protego.parse(robots.body.decode("utf-8-sig", "replace"))
    return lambda url: rules.can_fetch(url, user_agent)
