"""Links in feeds: RSS 2.0, RSS 1.0 and Atom.

Used for documents whose root element is that of a feed (``markup.root_of``). The links are those of
the items, with their titles as text, and those between the pages of a feed (RFC 5005). The link to
the site that a feed belongs to is left out. No input makes these functions raise an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from webcrawl.urls.extraction.document import MAX_REFERENCE_CHARS, MAX_TEXT_CHARS, MarkupDocument
from webcrawl.urls.extraction.markup import attributes_of, tags
from webcrawl.urls.extraction.reference_resolver import MAX_BASE_CHARS, ReferenceResolver
from webcrawl.urls.extraction.sitemap_reader import time_of
from webcrawl.urls.link import Link

_ITEM_NAMES = frozenset({"item", "entry", "/item", "/entry"})
#: Root elements of feeds.
ROOTS = frozenset({"feed", "rss", "rdf"})
# Parts of an item whose links and titles are not its own: those of the feed that it was taken from,
# and those in XHTML.
_PARTS = frozenset({"source", "content", "summary", "/source", "/content", "/summary"})
_NAMES = _ITEM_NAMES | ROOTS | _PARTS | {"link", "guid", "title", "updated"}

# Relations between the pages and archives of a feed.
_PAGES = {"next": "next", "prev": "prev", "previous": "prev", "prev-archive": "prev",
                 "next-archive": "next"}  # fmt: skip


def iter_feed(feed: MarkupDocument) -> Iterator[Link | None]:
    """Extract the links of *feed*, which may be compressed with gzip; yield None for pauses.

    Kinds: ``item`` for entries, ``next`` and ``prev`` for other pages of the feed. ``modified`` is
    the time in ``updated``.
    """
    page = ReferenceResolver(feed.url, schemes=feed.schemes)

    def resolve_against(base: str, reference: str) -> str:
        """Resolve *reference* against *base*, which is a reference, too.

        Returns *reference* unchanged if that is not possible.
        """
        if not base or not reference or len(base) + len(reference) > MAX_REFERENCE_CHARS:
            return reference
        full_base = page.resolve(base)
        if full_base is None or len(full_base) > MAX_BASE_CHARS:
            return reference
        return ReferenceResolver(full_base, schemes=feed.schemes).resolve(reference) or ""

    return _references(feed, resolve_against)


def _references(
    feed: MarkupDocument, resolve_against: Callable[[str, str], str]
) -> Iterator[Link | None]:
    """Yield each link of *feed*, and None for pauses.

    The title of an item may come after its link. So an item is yielded when it ends, or when the
    next one begins.
    """

    def base_in(attributes: dict[str, str], outer: str) -> str:
        """Return the base of an element with *attributes* in one with the base *outer*."""
        return resolve_against(outer, attributes.get("xml:base", "")) or outer

    feed_base = ""
    base = ""  # of the item
    part = ""  # the element of _PARTS that is being skipped
    item: dict[str, str] | None = None  # values by element name; None outside items
    for name, raw_attributes, text in tags(feed, _NAMES):
        if not name:
            yield None
            continue
        attributes = attributes_of(raw_attributes)
        if name in _ITEM_NAMES:
            if item is not None:
                yield _link(item)
            item = None if name.startswith("/") else {}
            base = base_in(attributes, feed_base)
            part = ""
        elif part:
            part = "" if name == f"/{part}" else part
        elif name in _PARTS:
            # After a slash, the element is empty and has no end tag.
            part = "" if raw_attributes.endswith("/") else name
        elif item is not None:
            value = _value_of(name, attributes, text.strip())
            if name == "link":
                value = resolve_against(base_in(attributes, base), value)
            # The first element of each name counts.
            item[name] = item.get(name) or value
        elif name in ROOTS:
            feed_base = base_in(attributes, feed_base)
        else:  # an element of the feed itself, which may link to its other pages
            kind = _PAGES.get(attributes.get("rel", "").strip().lower())
            if name == "link" and kind is not None:
                link_base = base_in(attributes, feed_base)
                yield Link(resolve_against(link_base, attributes.get("href", "").strip()), "", kind)
    if item is not None:
        yield _link(item)


def _value_of(name: str, attributes: dict[str, str], text: str) -> str:
    """Return the value of the element *name* of an item: its title, time, or address.

    Returns "" if the element has neither.
    """
    if name == "title":
        return " ".join(text[: 2 * MAX_TEXT_CHARS].split())[:MAX_TEXT_CHARS]
    if name == "updated":
        return text
    if name == "guid":
        is_link = attributes.get("ispermalink", "true").strip().lower() == "true"
        return text if is_link and text.startswith(("http://", "https://")) else ""
    is_page = attributes.get("rel", "alternate").strip().lower() == "alternate"
    return (attributes.get("href", "").strip() or text) if is_page and name == "link" else ""


def _link(item: dict[str, str]) -> Link:
    """Return the link of *item*, which maps names of its elements to their values.

    If there is no link, the identifier is used if it is a URL.
    """
    url = item.get("link") or item.get("guid", "")
    modified = time_of(item.get("updated", ""))
    return Link(url, item.get("title", ""), "item", modified=modified)
