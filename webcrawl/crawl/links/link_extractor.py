"""Link extractor: finds the links and the robots directives of a page, depending on its type.

Called by the spider for every document that was received completely enough to be parsed. Links are
found in response headers (``Link``, ``Refresh``) of any document, in HTML, and in documents of the
types in LINK_EXTRACTORS; a redirect is not a document. The Content-Type tells the type of document.
If it is missing or a kind of XML, or if the URL was named as a sitemap, the root element decides.

Invariant: for any answer, and any error in an extractor, the only exception raised here is the one
that aborts parsing after its time limit. The number of links is limited (PAGE_MAX_LINKS, 50,000 for
a sitemap), and so is the time during which nothing else can run.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence

from scrapy.settings import BaseSettings

from webcrawl.clock import TimeSource
from webcrawl.configuration.values import component, dictionary, whole_number, words
from webcrawl.errors import FatalError
from webcrawl.identity.names import product_tokens
from webcrawl.items import Page
from webcrawl.net.guard import followed_schemes
from webcrawl.net.limits import page_max_bytes
from webcrawl.rights.policy import RightsPolicy
from webcrawl.rights.statements import Rights, Statement, page_statements
from webcrawl.urls import Link
from webcrawl.urls.extraction.css import iter_css_links
from webcrawl.urls.extraction.document import Extractor, MarkupDocument, resolve_links
from webcrawl.urls.extraction.feeds import iter_feed
from webcrawl.urls.extraction.header_links import extract_header_links
from webcrawl.urls.extraction.html import HTML_TYPES, Extracted, extract
from webcrawl.urls.extraction.kinds import CSS_KINDS, FEED_KINDS, KINDS, SITEMAP_KINDS
from webcrawl.urls.extraction.markup import root_of
from webcrawl.urls.extraction.pdf import iter_pdf
from webcrawl.urls.extraction.robots_meta import ALL_ROBOTS, robots_directives
from webcrawl.urls.extraction.sitemap_reader import MAX_URLS, iter_sitemap

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
# Content types that do not tell what a document is, so that browsers inspect the document (MIME
# Sniffing Standard, section 7).
_UNKNOWN_TYPES = frozenset({"", "unknown/unknown", "application/unknown"})
_MARKUP = re.compile(rb"[\s\xef\xbb\xbf]*+<")
# The type of document by its root element, where that overrides the content type.
_TYPE_OF_ROOT = {
    "urlset": "sitemap", "sitemapindex": "sitemap", "rss": "feed", "rdf": "feed", "feed": "feed",
    "html": "text/html",
}  # fmt: skip
# Extractors that can find only some kinds of links, and these kinds.
_KINDS_OF: dict[Extractor, frozenset[str]] = {
    iter_css_links: CSS_KINDS, iter_feed: FEED_KINDS, iter_sitemap: SITEMAP_KINDS,
}  # fmt: skip


class PageLinks:
    """Finds the links of pages. Remembers nothing about a page."""

    def __init__(
        self, settings: BaseSettings, *, count: Callable[[str], object] = lambda _: None
    ) -> None:
        """Find the links that LINK_KINDS and LINK_EXTRACTORS name, within the limits of PAGE_MAX_*.

        *count* increments the stat with the given name. Raises FatalError for an invalid setting.
        """
        kinds = link_kinds(settings)
        self._kinds = kinds
        self._html_kinds = kinds & KINDS
        # Robots directives are read if they address these product tokens or every crawler.
        self._tokens = tuple(map(str.lower, product_tokens(settings)))
        self._meta_names = frozenset({ALL_ROBOTS, *self._tokens})
        # Limits of a page; a sitemap has limits of its own.
        self._max_links = whole_number(settings, "PAGE_MAX_LINKS", at_least=0)
        self._max_bytes = page_max_bytes(settings)
        #: The schemes of the links to find.
        self.schemes = followed_schemes(settings)
        # Keyed by content type, or by "sitemap" or "feed" for these root elements. None for an
        # extractor that finds only kinds of links that are not wanted.
        self._extractors = {
            kind: extractor if extractor and kinds & _KINDS_OF.get(extractor, kinds) else None
            for kind, extractor in link_extractors(settings).items()
        }
        # Whether repeated links are also collected, see ``ProcessingModule``.
        self._reads_repeats = _should_read_repeats(settings)
        #: What becomes of pages whose owner refuses the purpose of the crawl.
        self.rights = RightsPolicy.from_settings(settings)
        self._count = count
        # Extractors that have raised an exception; only the first one of each is logged.
        self._failed: set[Extractor] = set()

    def fill_in_links(self, page: Page) -> Iterator[Link | None] | None:
        """Find the links of *page*; set its ``links``, ``links_found``, ``repeats`` and ``robots``.

        The extractors of LINK_EXTRACTORS may take long, so their links are not in ``links``.
        Returns an iterator over them, in document order, or None if there is no extractor for the
        page. Read it in slices; it yields None from time to time so that a slice can end.
        """
        robots_headers: list[bytes] = []
        link_headers: list[bytes] = []
        refresh_header: bytes | None = None
        for name, value in page.headers:
            match name.lower():
                case b"link":
                    link_headers.append(value)
                case b"x-robots-tag":
                    robots_headers.append(value)
                case b"refresh":
                    refresh_header = value

        if link_headers or refresh_header is not None:
            page.links = extract_header_links(
                link_headers,
                refresh_header,
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
        if robots_headers or metas:
            page.robots = robots_directives(
                tokens=self._tokens, headers=robots_headers, metas=metas
            )

        extractor = self._extractors.get(kind)
        return None if extractor is None else self._extract(page, kind, extractor)

    def rights_of(self, page: Page, known: Sequence[Statement]) -> Rights:
        """Return the rights of *page*: what was *known* before it was fetched, and what it says."""
        found = page_statements(
            page.headers,
            page.body,
            page.content_type,
            tokens=self._tokens,
            purpose=self.rights.purpose,
            at=page.fetched_at,
        )
        agents = (value for name, value in page.request_headers if name.lower() == b"user-agent")
        return self.rights.rights((*known, *found), agent=next(agents, b"").decode("latin-1"))

    def _kind_of(self, page: Page) -> str:
        """Return the type as which *page* is parsed: a content type, "sitemap", "feed", or ""."""
        kind = page.content_type
        # ``page.kind`` is another thing: how the URL was found.
        is_named_sitemap = page.kind == "sitemap"
        if not is_named_sitemap and (kind in HTML_TYPES or kind in self._extractors):
            return kind

        # For these types, the root element decides.
        is_untyped = kind in _UNKNOWN_TYPES
        if is_named_sitemap or is_untyped or kind in _XML_TYPES or kind.endswith("+xml"):
            root = root_of(self._document(page, self._max_bytes))
            if root in _TYPE_OF_ROOT:
                return _TYPE_OF_ROOT[root]
            if is_named_sitemap:
                # A server may answer with an error page instead of the sitemap.
                return kind if kind in HTML_TYPES else "sitemap"
            return "text/html" if is_untyped and _MARKUP.match(page.body) else ""
        return kind

    def _read_html(self, page: Page) -> list[tuple[str, str]]:
        """Add the links of the HTML of *page* to it; return its ``<meta>`` tags for robots.

        Scripts may add links, and may take away links or all of the page: both documents count.
        """
        shown, *others = page.documents
        result = self._extract_html(page, *shown, keeps_repeats=self._reads_repeats)
        page.links = result.links
        # Until here ``page.repeats`` has those of the header; ``result.count`` includes its links.
        page.links_found = len(page.repeats) + result.count
        page.repeats += result.repeats
        metas = result.metas
        for other in others:
            result = self._extract_html(page, *other)
            # What both have is no repeat.
            page.links_found += len(result.links) - len(page.links)
            page.links = result.links
            metas += result.metas
        return metas

    def _extract_html(
        self, page: Page, body: bytes, declared: str, *, keeps_repeats: bool = False
    ) -> Extracted:
        """Return the links of *page* so far and those of *body*, a document of it."""
        return extract(
            body,
            url=page.url,
            charset=declared,
            limit=self._max_links,
            schemes=self.schemes,
            kinds=self._html_kinds,
            meta_names=self._meta_names,
            header_links=page.links,
            keeps_repeats=keeps_repeats,
            # Queries are encoded like the document that was received.
            query_codec=page.codec if page.rendered else "",
        )

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

    def _extract(self, page: Page, kind: str, extractor: Extractor) -> Iterator[Link | None]:
        """Yield the links that *extractor* finds in *page*, until it raises an exception."""
        is_sitemap = kind == "sitemap"
        max_bytes = SITEMAP_MAX_BYTES if is_sitemap else self._max_bytes
        limit = MAX_URLS if is_sitemap else self._max_links
        try:
            links = extractor(self._document(page, max_bytes))
            yield from resolve_links(
                (link if link and link.kind in self._kinds else None for link in links),
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
    links: Iterator[Link | None], *, limit: int, secs: float, clock: TimeSource
) -> Iterator[list[Link]]:
    """Yield *links* in slices: lists of at most *limit* links, which may be empty.

    Finding the links of a slice takes about *secs* seconds.
    """
    batch: list[Link] = []
    deadline = clock() + secs
    for link in links:
        if link is not None:
            batch.append(link)
        if len(batch) >= limit or clock() >= deadline:
            yield batch
            batch = []
            deadline = clock() + secs
    if batch:
        yield batch


def _should_read_repeats(settings: BaseSettings) -> bool:
    """Return whether a processing module uses the repeated links of a page.

    Raises FatalError for a module that cannot be loaded.
    """
    modules = dictionary(settings, "ITEM_PIPELINES")
    classes = [component("ITEM_PIPELINES", key) for key in modules if modules[key] is not None]
    return any(getattr(cls, "reads_repeats", False) for cls in classes)


def link_kinds(settings: BaseSettings) -> frozenset[str]:
    """Return the kinds in LINK_KINDS; raise FatalError for an unknown kind."""
    kinds = frozenset(words(settings, "LINK_KINDS"))
    unknown = ", ".join(sorted(kinds - _ALL_KINDS))
    if unknown:
        raise FatalError(
            f"LINK_KINDS has unknown kinds: {unknown}. Use {', '.join(sorted(_ALL_KINDS))}."
        )
    return kinds


def link_extractors(settings: BaseSettings) -> dict[str, Extractor | None]:
    """Return the extractors in LINK_EXTRACTORS, and the built-in ones, by content type.

    None switches off the extractor of a type. Raises FatalError for one that cannot be loaded.
    """
    name = "LINK_EXTRACTORS"
    paths = {**BUILT_IN, **dictionary(settings, name)}
    return {
        str(kind).lower(): component(name, path) if path else None for kind, path in paths.items()
    }
