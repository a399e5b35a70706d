"""Hub of a feed: where subscribers learn that it has changed (WebSub, section 4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from webcrawl.urls.extraction.document import MarkupDocument
from webcrawl.urls.extraction.feeds import ROOTS
from webcrawl.urls.extraction.header_links import header_references
from webcrawl.urls.extraction.markup import attributes_of, root_of, tags
from webcrawl.urls.link import Link
from webcrawl.urls.normalizer import normalize

_MAX_URL_CHARS = 2000
_ITEMS = frozenset({"item", "entry"})


def hub_of(
    body: bytes, url: str, charset: str, headers: Iterable[tuple[bytes, bytes]]
) -> tuple[str, str]:
    """Return the first hub of the feed at *url*, and this URL as the feed has written it.

    Hubs compare URLs letter by letter. The *headers* of the response come before the *body*. The
    hub is "" if the document is not a feed, names no hub, or says that its URL is another one: no
    page may speak for another one of its host.
    """
    feed = MarkupDocument(body, url, charset)
    found: dict[str, str] = {}
    if root_of(feed) in ROOTS:
        link_headers = [value for name, value in headers if name.lower() == b"link"]
        for link in chain(header_references(link_headers), _links_of(feed)):
            for relation in link.rel.split():
                found.setdefault(relation, link.url)
    topic = found.get("self", url)
    is_own = normalize(topic, url) == url and len(topic) <= _MAX_URL_CHARS
    hub = normalize(found["hub"], url) if is_own and "hub" in found else ""
    return hub or "", topic if "://" in topic else url


def _links_of(feed: MarkupDocument) -> Iterator[Link]:
    """Yield the ``link`` elements of *feed* before its first item."""
    for name, raw_attributes, _ in tags(feed, _ITEMS | {"link"}):
        if name in _ITEMS:
            return
        attributes = attributes_of(raw_attributes)
        yield Link(attributes.get("href", "").strip(), rel=attributes.get("rel", "").lower())
