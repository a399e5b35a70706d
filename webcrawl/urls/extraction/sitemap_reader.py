"""URLs in sitemaps (sitemaps.org): ``urlset``, ``sitemapindex`` and plain lists of URLs.

Used for documents that robots.txt or a sitemap index lists, or whose root element is that of a
sitemap (``markup.root_of``). A sitemap is decompressed and searched piece by piece, so that callers
can pause while they read it: a full one of 50,000 URLs takes 0.4 s. Callers decide whether a
sitemap may list a URL. No input makes it raise an exception.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain

from webcrawl.urls.extraction.document import MAX_REFERENCE_CHARS, MarkupDocument
from webcrawl.urls.extraction.markup import attributes_of, tags, texts
from webcrawl.urls.link import Link

#: Maximum number of URLs in one sitemap, according to the protocol.
MAX_URLS = 50_000

# A plain list may only have absolute URLs.
_URL = re.compile(r"[a-z][a-z0-9+.-]{0,63}://", re.ASCII | re.IGNORECASE)
_NAMES = frozenset({"url", "sitemap", "loc", "link", "lastmod"})
_MAX_TIME_CHARS = 40
_LAST_SECOND = 86_399


def iter_sitemap(sitemap: MarkupDocument) -> Iterator[Link | None]:
    """Extract the links of *sitemap*, which may be compressed with gzip; yield None for pauses.

    Kinds: ``loc`` for pages, ``alternate`` for their translations, ``sitemap`` for the sitemaps in
    an index. ``modified`` is the time in ``lastmod``.
    """
    beginning = next(texts(sitemap), "").lstrip("\ufeff \t\r\n")
    return _elements(sitemap) if beginning.startswith("<") else _lines(sitemap)


def _elements(sitemap: MarkupDocument) -> Iterator[Link | None]:
    """Yield the links of a sitemap in XML, and None for pauses."""
    kind = "loc"
    in_entry = False
    entry: Link | None = None  # not yielded yet, because its time may follow
    for name, attributes, text in tags(sitemap, _NAMES):
        if name == "lastmod":
            if entry is not None:
                entry.modified = time_of(text.strip())
        elif name == "loc":
            if entry is not None:
                yield entry
            entry = Link(text.strip(), "", kind)
        elif name == "link":
            # Outside a sitemap's elements, a ``<link>`` is ignored: this is perhaps an error page.
            if in_entry:
                yield Link(attributes_of(attributes).get("href", "").strip(), "", "alternate")
        elif name:  # <url> or <sitemap>: an entry begins
            if entry is not None:
                yield entry
                entry = None
            kind = "sitemap" if name == "sitemap" else "loc"
            in_entry = True
        else:  # a pause
            yield None
    if entry is not None:
        yield entry


def time_of(text: str) -> float:
    """Return the epoch seconds of the W3C date *text*, or 0.0 if it is not valid.

    For a date without a time, returns the last second of the day.
    """
    try:
        date = datetime.fromisoformat(text[:_MAX_TIME_CHARS])
        seconds = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return 0.0
    return max(seconds + (0 if ":" in text else _LAST_SECOND), 0.0)


def _lines(sitemap: MarkupDocument) -> Iterator[Link | None]:
    """Yield a link for each line of a plain list, with an empty URL if the line is not a URL.

    Yields None for pauses.
    """
    remainder = ""
    # The added line end completes the last line, which is left out if the sitemap was cut.
    for chunk in chain(texts(sitemap), [""] if sitemap.cut else ["\n"]):
        lines = (remainder + chunk).split("\n")
        remainder = lines.pop()[: MAX_REFERENCE_CHARS + 1]
        for line in lines:
            stripped = line.strip("\ufeff \t\r")
            yield Link(stripped if _URL.match(stripped) else "", "", "loc")
        yield None
