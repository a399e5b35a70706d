"""Links that are followed even if the body is a duplicate: where a page leads, and root pages.

Two hosts may have the same frameset, the same refresh to ``home.html``, or the same shell of a
shop, with different pages behind it. So for a document seen before, the targets of refreshes and
frames are followed. On a host's root page, all links are followed if there are few, or else the
first ones to its own host, which are mostly relative. This happens once for each host, top
directory and document, and for a root page with many links on 16 hosts at most; otherwise mirrors
and endless directories would be crawled this way. The targets are tested like any document, so only
these few pages of a mirror are fetched.
"""

from __future__ import annotations

from collections.abc import Sequence

from webcrawl.items import Page
from webcrawl.seen.fingerprint import document_fingerprint
from webcrawl.urls import Link, host_of

_MAX_BYTES = 1 << 14
_MAX_LINKS = 10
_MAX_COPIES = 16
_FORWARDS = frozenset({"refresh", "frame"})


def may_forward(page: Page) -> bool:
    """Return whether *page*, a duplicate, may have links to follow. Takes 5 us for 16 kB."""
    if _is_root(page.url):
        return True
    body, _ = page.shown
    if len(body) > _MAX_BYTES:
        return False
    body = body.lower()
    return (
        b"refresh" in body
        or b"<frame" in body
        or any(name.lower() == b"refresh" for name, _ in page.headers)
    )


def forwarding_links(page: Page) -> Sequence[Link]:
    """Return the links of *page*, a duplicate, that are followed in spite of that."""
    if _is_root(page.url) and len(page.links) <= _MAX_LINKS:
        return page.links
    links = [link for link in page.links if link.kind in _FORWARDS]
    if _is_root(page.url):
        host = host_of(page.url)
        links += [link for link in page.links if host_of(link.url) == host]
    return links[:_MAX_LINKS]


def place_fingerprint(page: Page) -> int:
    """Return a fingerprint of the body of *page*, and of its place; never 0.

    The place is the host and top directory. Root pages with many links have one of 16 places, by
    their host.
    """
    host = host_of(page.url)
    top, slash, _ = page.url.partition("://")[2].partition("/")[2].partition("/")
    place = f"{host}/{top if slash else ''}\n"
    if _is_root(page.url) and len(page.links) > _MAX_LINKS:
        place = f"{document_fingerprint(host.encode()) % _MAX_COPIES}\n"
    body, _ = page.shown
    return document_fingerprint(place.encode() + body)


def _is_root(url: str) -> bool:
    return url.endswith("/") and url.count("/") == 3
