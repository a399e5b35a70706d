"""The entries of feeds: RSS 2.0, RSS 1.0 and Atom.

Called for documents whose root element is one of a feed (``markup.root_of``). Links
are those of the items, with their titles as text, and those of a feed that is served in pages (RFC
5005); the site that a feed belongs to is not one of its entries. Nothing is raised, whatever the
bytes are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from webcrawl.urls.extraction.markup import attributes_of, tags, texts
from webcrawl.urls.extraction.reference_resolver import MAX_BASE_CHARS, ReferenceResolver
from webcrawl.urls.link import Link
from webcrawl.urls.normalizer import HTTP_SCHEMES

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_REFERENCE_CHARS: Final = 8192
MAX_TEXT_CHARS: Final = 256

_ITEM_NAMES: Final = frozenset({"item", "entry", "/item", "/entry"})
_NAMES: Final = _ITEM_NAMES | {"feed", "rss", "rdf", "link", "guid", "title"}

# Relations between the pages and archives of a feed.
_PAGES: Final = {"next": "next", "prev": "prev", "previous": "prev", "prev-archive": "prev",
                 "next-archive": "next"}  # fmt: skip


def iter_feed(
    body: bytes,
    *,
    url: str,
    charset: str | None = None,
    limit: int,
    max_bytes: int,
    cut: bool = False,
    schemes: frozenset[str] = HTTP_SCHEMES,
) -> Iterator[Link | None]:
    """Links of the feed *body* that was fetched from *url*, each URL once, in document order.

    Of the kind ``item`` for entries, ``next`` and ``prev`` for other pages of the feed. Plain or
    compressed with gzip; *max_bytes* of it are read, decompressed. What a feed that was *cut* ends
    with, most likely half a URL, is left out. None comes at least every few milliseconds when there
    is nothing else, for callers that must not wait.
    """
    seen: set[int] = set()  # hashes: the URLs themselves may be long
    page = ReferenceResolver(url, schemes=schemes)
    for found in _references(texts(body, charset=charset, max_bytes=max_bytes), cut):
        if len(seen) >= limit:
            return
        target = None
        if found is not None and len(found[1]) <= MAX_REFERENCE_CHARS:
            base, reference, title, kind = found
            within = page.resolve(base) if base and len(base) <= MAX_REFERENCE_CHARS else None
            if within is None or len(within) > MAX_BASE_CHARS:
                target = page.resolve(reference)
            else:
                target = ReferenceResolver(within, schemes=schemes).resolve(reference)
        if target is None or hash(target) in seen:
            yield None
        else:
            seen.add(hash(target))
            yield Link(target, title, kind)


def _references(chunks: Iterator[str], cut: bool) -> Iterator[tuple[str, str, str, str] | None]:
    """Base, reference, title and kind of each link; None for a pause. An item's title may follow
    its link, so an item is given when it ends, if only because the next one begins."""
    feed_base = ""
    item: _Item | None = None
    for name, written, text in tags(chunks, _NAMES, cut=cut):
        if not name:
            yield None
        elif name in _ITEM_NAMES:
            if item is not None:
                yield item.reference()
            base = attributes_of(written).get("xml:base", feed_base)
            item = _Item(base) if not name.startswith("/") else None
        elif item is not None:
            item.add(name, attributes_of(written), text.strip())
        else:
            attributes = attributes_of(written)
            page = _PAGES.get(attributes.get("rel", "").strip().lower())
            if name == "link" and page is not None:
                yield feed_base, attributes.get("href", "").strip(), "", page
            feed_base = attributes.get("xml:base", feed_base)
    if item is not None:
        yield item.reference()


class _Item:
    """An entry as far as it has been read."""

    __slots__ = ("_base", "_guid", "_link", "_title")

    def __init__(self, base: str) -> None:
        self._base = base
        self._link = ""
        self._guid = ""
        self._title = ""

    def add(self, name: str, attributes: dict[str, str], text: str) -> None:
        """Take one element into account; of each kind the first counts."""
        if name == "title":
            self._title = self._title or " ".join(text[: 2 * MAX_TEXT_CHARS].split())
        elif name == "guid":
            if attributes.get("ispermalink", "true").strip().lower() == "true":
                self._guid = self._guid or text
        elif name == "link" and attributes.get("rel", "alternate").strip().lower() == "alternate":
            self._link = self._link or attributes.get("href", "").strip() or text

    def reference(self) -> tuple[str, str, str, str] | None:
        """The link of the item, if it has one. An identifier serves where there is no link, if it
        is a URL."""
        guid = self._guid if self._guid.startswith(("http://", "https://")) else ""
        reference = self._link or guid
        return (self._base, reference, self._title[:MAX_TEXT_CHARS], "item") if reference else None
