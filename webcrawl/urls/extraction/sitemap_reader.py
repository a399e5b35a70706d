"""The URLs in sitemaps (sitemaps.org): ``urlset``, ``sitemapindex`` and plain lists of URLs.

Called for documents that robots.txt or a sitemap index lists, or whose root element is that of a
sitemap (``markup.root_of``). They are decompressed and searched piece by piece, so a caller can
read them in slices: a full one of 50,000 URLs takes 0.4 s. Whether a sitemap may list a URL is not
decided here. Nothing is raised, whatever the bytes are.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING

from webcrawl.urls.extraction.document import MAX_REFERENCE_CHARS
from webcrawl.urls.extraction.markup import attributes_of, tags, texts
from webcrawl.urls.link import Link

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webcrawl.urls.extraction.document import MarkupDocument

MAX_URLS = 50_000
"""URLs of one sitemap: the limit in the protocol."""

# A plain list may only have absolute URLs.
_URL = re.compile(r"[a-z][a-z0-9+.-]{0,63}://", re.ASCII | re.IGNORECASE)
_NAMES = frozenset({"url", "sitemap", "loc", "link", "lastmod"})
_MAX_TIME_CHARS = 40
_LAST_SECOND = 86_399


def iter_sitemap(sitemap: MarkupDocument) -> Iterator[Link | None]:
    """Extract the links of a sitemap, which may be compressed with gzip.

    Kinds: ``loc`` for pages, ``alternate`` for their translations, ``sitemap`` for the sitemaps in
    an index. ``modified`` is that of ``lastmod``.
    """
    beginning = next(texts(sitemap), "").lstrip("\ufeff \t\r\n")
    return _elements(sitemap) if beginning.startswith("<") else _lines(sitemap)


def _elements(sitemap: MarkupDocument) -> Iterator[Link | None]:
    """Yield each reference, and None for pauses."""
    kind = "loc"
    within = False
    found: Link | None = None  # its time may follow
    for name, attributes, text in tags(sitemap, _NAMES):
        if name == "lastmod":
            if found is not None:
                found.modified = _time(text.strip())
        elif name == "loc":
            if found is not None:
                yield found
            found = Link(text.strip(), "", kind)
        elif name == "link":
            # Without a sitemap's elements around it, this is not a sitemap but perhaps an error
            # page.
            if within:
                yield Link(attributes_of(attributes).get("href", "").strip(), "", "alternate")
        elif name:
            if found is not None:
                yield found
                found = None
            kind = "sitemap" if name == "sitemap" else "loc"
            within = True
        else:
            yield None
    if found is not None:
        yield found


def _time(text: str) -> float:
    """Return the epoch seconds of a W3C date, for a day its last second; 0.0 if it is not valid."""
    try:
        at = datetime.fromisoformat(text[:_MAX_TIME_CHARS])
        seconds = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return 0.0
    return max(seconds + (0 if ":" in text else _LAST_SECOND), 0.0)


def _lines(sitemap: MarkupDocument) -> Iterator[Link | None]:
    """Yield each line, empty if it is not a URL."""
    rest = ""
    for chunk in chain(texts(sitemap), [""] if sitemap.cut else ["\n"]):
        lines = (rest + chunk).split("\n")
        rest = lines.pop()[: MAX_REFERENCE_CHARS + 1]
        for line in lines:
            found = line.strip("\ufeff \t\r")
            yield Link(found if _URL.match(found) else "", "", "loc")
        yield None
