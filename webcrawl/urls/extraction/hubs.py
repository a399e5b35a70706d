"""Hub of a feed: where subscribers learn that it has changed (WebSub, section 4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from webcrawl.urls.extraction.document import MarkupDocument
from webcrawl.urls.extraction.feeds import ROOTS
from webcrawl.urls.extraction.header_links import header_references
from webcrawl.urls.extraction.markup import attributes_of, root_of, tags
from webcrawl.urls.host import host_of
from webcrawl.urls.link import Link
from webcrawl.urls.normalizer import normalize

_MAX_URL_CHARS = 2000
_ITEMS = frozenset({"item", "entry"})


class Hub(NamedTuple):
    """Hub of a feed: its *url*, and the URL of the feed, normalized and as its publisher wrote it.

    *url* is "" if the document is not a feed, or names no hub, or as its own URL one of another
    host. Hubs compare URLs letter by letter, so they must be sent the *topic*.
    """

    url: str
    feed_url: str
    topic: str


def hub_of(body: bytes, url: str, charset: str, headers: Iterable[tuple[bytes, bytes]]) -> Hub:
    """Return the first hub that the document at *url* names, in its *headers* or its *body*."""
    feed = MarkupDocument(body, url, charset)
    found: dict[str, str] = {}
    if root_of(feed) in ROOTS:
        link_headers = [value for name, value in headers if name.lower() == b"link"]
        for link in chain(header_references(link_headers), _links_of(feed)):
            for relation in link.rel.split():
                found.setdefault(relation, link.url)
    topic = found.get("self", "")
    own_url = normalize(topic, url) or url
    is_own = host_of(own_url) == host_of(url) and len(topic) <= _MAX_URL_CHARS
    hub = normalize(found["hub"], url) if is_own and "hub" in found else ""
    return Hub(hub or "", own_url, topic if "://" in topic else own_url)


def _links_of(feed: MarkupDocument) -> Iterator[Link]:
    """Yield the ``link`` elements of *feed* before its first item."""
    for name, raw_attributes, _ in tags(feed, _ITEMS | {"link"}):
        if name in _ITEMS:
            return
        attributes = attributes_of(raw_attributes)
        yield Link(attributes.get("href", "").strip(), rel=attributes.get("rel", "").lower())
