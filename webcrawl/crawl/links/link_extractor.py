"""Link extractor: finds the links of a page, by its kind of document, and its robots directives.

Called by the spider for every document that was received completely enough to be read. Links are
found in response headers (``Link``, ``Refresh``) of any document, in HTML, and in documents that
LINK_EXTRACTORS has an extractor for; a redirect is not a document. The Content-Type says what a
document is. The root element decides if the Content-Type is missing or some XML, or if the URL was
named as a sitemap.

Invariant: whatever a server sends, or an extractor raises, this raises only the exception that cuts
a reading off. The number of links is limited (PAGE_MAX_LINKS, 50,000 for a sitemap), and so is the
time during which nothing else can run.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, NamedTuple, Self

from scrapy.utils.misc import load_object

from webcrawl.configuration.values import component, dictionary, whole
from webcrawl.errors import FatalError
from webcrawl.hosts.robots.rules import user_agent_token
from webcrawl.net.guard import followed_schemes
from webcrawl.net.limits import page_max_bytes
from webcrawl.urls.extraction.css import iter_css_links
from webcrawl.urls.extraction.document import MarkupDocument, resolved
from webcrawl.urls.extraction.feeds import iter_feed
from webcrawl.urls.extraction.header_links import extract_header_links
from webcrawl.urls.extraction.html import HTML_TYPES, extract
from webcrawl.urls.extraction.kinds import CSS_KINDS, FEED_KINDS, KINDS, SITEMAP_KINDS
from webcrawl.urls.extraction.markup import root_of
from webcrawl.urls.extraction.pdf import iter_pdf
from webcrawl.urls.extraction.robots_meta import ALL_ROBOTS, robots_directives
from webcrawl.urls.extraction.sitemap_reader import MAX_URLS, iter_sitemap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy.settings import BaseSettings

    from webcrawl.clock import TimeSource
    from webcrawl.items import Page
    from webcrawl.urls import Link
    from webcrawl.urls.extraction.document import Extractor

logger = logging.getLogger(__name__)


#: Maximum bytes of a sitemap, on the wire and again when decoded: the limit of the protocol.
SITEMAP_MAX_BYTES = 50 << 20
#: Extractors by content type, or by root element.
BUILT_IN: dict[str, Extractor] = {
    "text/css": iter_css_links,
    "feed": iter_feed,
    "sitemap": iter_sitemap,
    "application/pdf": iter_pdf,
}
_ALL_KINDS = KINDS | FEED_KINDS | SITEMAP_KINDS
_XML_TYPES = frozenset({"text/xml", "application/xml"})
# Types that say nothing, so that browsers look into the document (MIME Sniffing Standard, section
# 7).
_NO_TYPES = frozenset({"", "unknown/unknown", "application/unknown"})
_MARKUP = re.compile(rb"[\s\xef\xbb\xbf]*+<")
# What a document is by its root element, where that overrides its content type.
_DOCUMENTS = {
    "urlset": "sitemap", "sitemapindex": "sitemap", "rss": "feed", "rdf": "feed", "feed": "feed",
    "html": "text/html",
}  # fmt: skip
# The only kinds of links that these extractors can find.
_KINDS_OF: dict[Extractor, frozenset[str]] = {
    iter_css_links: CSS_KINDS, iter_feed: FEED_KINDS, iter_sitemap: SITEMAP_KINDS,
}  # fmt: skip


class Limits(NamedTuple):
    """Limits of *links* of a page, *bytes* of a document's text, and *sitemap_bytes*.

    The limit of links does not apply to sitemaps.
    """

    links: int
    bytes: int
    sitemap_bytes: int


class PageLinks:
    """Finds the links of pages; keeps nothing of them."""

    def __init__(
        self,
        *,
        kinds: frozenset[str],
        agent: str,
        limits: Limits,
        schemes: frozenset[str],
        extractors: dict[str, Extractor | None],
        reads_repeats: bool,
        count: Callable[[str], object],
    ) -> None:
        """Store the values.

        *kinds* of links are looked for, of *schemes*. Directives are read if they address every
        crawler or the product token *agent*. *extractors* are keyed by content type, or by
        "sitemap" or "feed" for these root elements. *reads_repeats* as in ``ProcessingModule``.
        *count* increments a figure.
        """
        self._kinds = kinds
        self._agent = agent.lower()
        self._meta_names = frozenset({ALL_ROBOTS, self._agent})
        self._max_links, self._max_bytes, self._sitemap_max_bytes = limits
        #: Schemes of the links that are looked for.
        self.schemes = schemes
        self._extractors = {
            kind: extractor if extractor and kinds & _KINDS_OF.get(extractor, kinds) else None
            for kind, extractor in extractors.items()
        }
        self._reads_repeats = reads_repeats
        self._count = count
        self._failed: set[Extractor] = set()

    @classmethod
    def from_settings(
        cls, settings: BaseSettings, *, count: Callable[[str], object] = lambda _: None
    ) -> Self:
        """Read LINK_KINDS, LINK_EXTRACTORS, PAGE_MAX_LINKS, PAGE_MAX_BYTES and the user agent.

        Raises FatalError with one sentence for an invalid value.
        """
        limits = Limits(
            links=whole(settings, "PAGE_MAX_LINKS", at_least=0),
            bytes=page_max_bytes(settings),
            sitemap_bytes=SITEMAP_MAX_BYTES,
        )
        return cls(
            kinds=link_kinds(settings),
            agent=user_agent_token(settings),
            limits=limits,
            schemes=followed_schemes(settings),
            extractors=link_extractors(settings),
            reads_repeats=_reads_repeats(settings),
            count=count,
        )

    def find(self, page: Page) -> Iterator[Link | None] | None:
        """Set ``links``, ``links_found``, ``repeats`` and ``robots`` of *page*.

        Links that LINK_EXTRACTORS find take time, so they are not in ``links``. They are returned
        in document order, for the caller to take in slices, with an occasional None in between.
        """
        tags: list[bytes] = []
        links: list[bytes] = []
        refresh: bytes | None = None
        for name, value in page.headers:
            match name.lower():
                case b"link":
                    links.append(value)
                case b"x-robots-tag":
                    tags.append(value)
                case b"refresh":
                    refresh = value
        if links or refresh is not None:
            page.links = extract_header_links(
                links,
                refresh,
                url=page.url,
                limit=self._max_links,
                schemes=self.schemes,
                kinds=self._kinds,
                repeats=page.repeats,
            )
            page.links_found = len(page.links) + len(page.repeats)
        metas: list[tuple[str, str]] = []
        kind = self._kind_of(page)
        if kind in HTML_TYPES:
            metas = self._read_html(page)
        if tags or metas:
            page.robots = robots_directives(agent=self._agent, headers=tags, metas=metas)
        extractor = self._extractors.get(kind)
        return None if extractor is None else self._found(page, kind, extractor)

    def _kind_of(self, page: Page) -> str:
        """Return the kind of document to read *page* as: its content type, "sitemap" or "feed"."""
        kind = page.content_type
        named = page.kind == "sitemap"
        if not named and (kind in HTML_TYPES or kind in self._extractors):
            return kind
        untyped = kind in _NO_TYPES
        if named or untyped or kind in _XML_TYPES or kind.endswith("+xml"):
            root = root_of(self._document(page, self._max_bytes))
            if root in _DOCUMENTS:
                return _DOCUMENTS[root]
            if named:
                # A server may answer with an error page instead of the sitemap.
                return kind if kind in HTML_TYPES else "sitemap"
            return "text/html" if untyped and _MARKUP.match(page.body) else ""
        return kind

    def _read_html(self, page: Page) -> list[tuple[str, str]]:
        """Add the links; return the ``<meta>`` elements that address crawlers."""
        found = extract(
            page.body,
            url=page.url,
            charset=page.charset,
            limit=self._max_links,
            schemes=self.schemes,
            kinds=self._kinds & KINDS,
            meta_names=self._meta_names,
            header_links=page.links,
            keeps_repeats=self._reads_repeats,
        )
        page.links = found.links
        page.links_found = len(page.repeats) + found.count
        page.repeats += found.repeats
        return found.metas

    def _document(self, page: Page, max_bytes: int) -> MarkupDocument:
        """Return *page* in the form that extractors read."""
        return MarkupDocument(
            page.body,
            url=page.url,
            charset=page.charset,
            max_bytes=max_bytes,
            cut=bool(page.truncated or page.body_cut or len(page.body) > max_bytes),
            schemes=self.schemes,
        )

    def _found(self, page: Page, kind: str, extractor: Extractor) -> Iterator[Link | None]:
        """Yield the links that *extractor* finds in *page*, up to the point where it raises."""
        is_sitemap = kind == "sitemap"
        max_bytes = self._sitemap_max_bytes if is_sitemap else self._max_bytes
        limit = MAX_URLS if is_sitemap else self._max_links
        try:
            found = extractor(self._document(page, max_bytes))
            yield from resolved(
                (link if link and link.kind in self._kinds else None for link in found),
                page.url,
                limit=limit,
                schemes=self.schemes,
                known=page.links,
                repeats=page.repeats if self._reads_repeats else None,
            )
        except Exception:
            self._count("links/extractor_errors")
            if extractor not in self._failed:
                self._failed.add(extractor)
                logger.exception(
                    "The link extractor for %s failed on %s; links found before are used. Its "
                    "further errors are only counted, in links/extractor_errors",
                    kind,
                    page.url,
                )


def in_slices(
    found: Iterator[Link | None], *, limit: int, secs: float, clock: TimeSource
) -> Iterator[list[Link]]:
    """Yield the links of *found* in slices of at most *limit*.

    A slice takes about *secs* seconds of search. A slice may be empty.
    """
    batch: list[Link] = []
    deadline = clock() + secs
    for link in found:
        if link is not None:
            batch.append(link)
        if len(batch) >= limit or clock() >= deadline:
            yield batch
            batch = []
            deadline = clock() + secs
    if batch:
        yield batch


def _reads_repeats(settings: BaseSettings) -> bool:
    """Return whether a processing module reads repeats.

    Raises FatalError for one that cannot be loaded.
    """
    modules = dictionary(settings, "ITEM_PIPELINES")
    kinds = [component("ITEM_PIPELINES", one) for one in modules if modules[one] is not None]
    return any(getattr(kind, "reads_repeats", False) for kind in kinds)


def link_kinds(settings: BaseSettings) -> frozenset[str]:
    """Return LINK_KINDS; raise FatalError for an unknown kind."""
    kinds = {word for one in settings.getlist("LINK_KINDS") if (word := str(one).strip())}
    unknown = ", ".join(sorted(kinds - _ALL_KINDS))
    if unknown:
        raise FatalError(
            f"LINK_KINDS has unknown kinds: {unknown}. Use {', '.join(sorted(_ALL_KINDS))}."
        )
    return frozenset(kinds)


def link_extractors(settings: BaseSettings) -> dict[str, Extractor | None]:
    """Return LINK_EXTRACTORS by content type; raise FatalError for one that cannot be loaded."""
    try:
        given = {**BUILT_IN, **settings.getdict("LINK_EXTRACTORS")}
        return {
            str(kind).lower(): load_object(path) if path else None for kind, path in given.items()
        }
    except (AttributeError, ImportError, NameError, TypeError, ValueError) as error:
        raise FatalError(f"LINK_EXTRACTORS cannot be used: {error}.") from error
