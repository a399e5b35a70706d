"""Sitemaps that robots.txt files name, and permits for large bodies, of sitemaps and of pages.

Called by dispatcher.py and lease_requests.py; what is in a sitemap is read as in any document, see
link_extractor.py.

A robots.txt names its sitemaps when it is parsed, after its fetch and when a later run of the crawl
takes it from the host's record: so no crash can lose them. The eliminator knows those that were
named before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from webcrawl.crawl.submission import SITEMAP
from webcrawl.frontier import NO_URLS
from webcrawl.net.http.large_bodies import LARGE_BODY, LargeBodies
from webcrawl.urls import origin_of

if TYPE_CHECKING:
    from scrapy import Request

    from webcrawl.crawl.submission import LinkSubmitter
    from webcrawl.frontier import Entry
    from webcrawl.hosts.robots.lookup import RobotsSearch

#: Sitemaps and pages of more than 1 MiB at once: each may be held as received, decoded and stored.
SITEMAPS_AT_ONCE: Final = 4
PAGES_AT_ONCE: Final = 16
# Shorter than the time in which a server that sends nothing is given up (NET_MIN_RATE_SECS).
_PATIENCE_SECS: Final = 10.0


class Sitemaps:
    """*max_bytes* is the bound of a sitemap on the wire, and once more decoded, *page_max_bytes*
    that of anything else. Sitemaps that robots.txt names are followed if *named* is set."""

    def __init__(
        self,
        *,
        links: LinkSubmitter,
        max_bytes: int,
        page_max_bytes: int,
        named: bool,
    ) -> None:
        self._links = links
        self._named = named
        self._bodies = LargeBodies(
            max_bytes=max_bytes, at_once=SITEMAPS_AT_ONCE, patience=_PATIENCE_SECS
        )
        self._pages = LargeBodies(
            max_bytes=page_max_bytes, at_once=PAGES_AT_ONCE, patience=_PATIENCE_SECS
        )

    def submit_named(self, entry: Entry, robots: RobotsSearch) -> None:
        """Submit the sitemaps that the robots.txt for *entry* names, if it was read by *robots*
        since the last call. OSError when the disk is full."""
        if self._named and entry.kind not in NO_URLS:
            urls = robots.take_sitemaps(entry.url)
            if urls:
                via = f"{origin_of(entry.url)}/robots.txt"
                self._links.submit_sitemaps(urls, via=via, depth=entry.depth)

    def meta(self, entry: Entry) -> dict[str, Any]:
        """What the request for *entry* needs besides."""
        bodies = self._bodies if entry.kind == SITEMAP else self._pages
        return {LARGE_BODY: bodies.permit()}

    def done(self, request: Request) -> None:
        """The engine is through with *request*."""
        permit = request.meta.get(LARGE_BODY)
        if permit is not None:
            permit.give_back()
