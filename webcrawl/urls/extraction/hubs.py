"""Hub of a feed: where subscribers learn that it has changed (WebSub, section 4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from webcrawl.urls.extraction.document import MarkupDocument
from webcrawl.urls.extraction.feeds import ROOTS
from webcrawl.urls.extraction.header_links import header_references
from webcrawl.urls.extraction.markup import attributes_of, root_of, tags
from webcrawl.urls.link import Link

_ITEMS = frozenset({"item", "entry"})


def hub_of(feed: MarkupDocument, link_headers: Iterable[bytes]) -> tuple[str, str]:
    """Return the first hub of *feed*, and its own URL, as its publisher has written them.

    *link_headers* are the ``Link`` headers of its response, which come first. Both are "" if the
    document is not a feed, and each is "" if the feed does not name it.
    """
    found: dict[str, str] = {}
    if root_of(feed) in ROOTS:
        for link in chain(header_references(link_headers), _links_of(feed)):
            for relation in link.rel.split():
                found.setdefault(relation, link.url)
    return found.get("hub", ""), found.get("self", "")


def _links_of(feed: MarkupDocument) -> Iterator[Link]:
    """Yield the ``link`` elements of *feed* before its first item."""
    for name, raw_attributes, _ in tags(feed, _ITEMS | {"link"}):
        if name in _ITEMS:
            return
        attributes = attributes_of(raw_attributes)
        yield Link(attributes.get("href", "").strip(), rel=attributes.get("rel", "").lower())
