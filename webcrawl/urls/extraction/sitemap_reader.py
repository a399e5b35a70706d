"""The URLs in sitemaps (sitemaps.org): ``urlset``, ``sitemapindex`` and plain lists of URLs.

Called for documents that robots.txt or a sitemap index names, or whose root element says so
(``markup.root_of``). They are inflated and searched piece by piece, and may be taken in slices: a
full one of 50,000 URLs takes 0.4 s. Whether a sitemap may speak for the URLs that it lists is not
decided here. Nothing is raised, whatever the bytes are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from webcrawl.urls.extraction.markup import attributes_of, tags, texts
from webcrawl.urls.extraction.reference_resolver import ReferenceResolver
from webcrawl.urls.link import Link
from webcrawl.urls.normalizer import HTTP_SCHEMES, normalize

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_URLS: Final = 50_000
"""Of one sitemap: the limit of the protocol."""

MAX_REFERENCES: Final = 4 * MAX_URLS
"""Of one sitemap that are looked at, URLs or not, different or not."""

MAX_URL_CHARS: Final = 8192

_NAMES: Final = frozenset({"url", "sitemap", "loc", "link"})


def iter_sitemap(
    body: bytes,
    *,
    url: str,
    charset: str | None = None,
    cut: bool = False,
    limit: int = MAX_URLS,
    max_bytes: int | None = None,
    schemes: frozenset[str] = HTTP_SCHEMES,
) -> Iterator[Link | None]:
    """The links of the sitemap *body*, plain or compressed with gzip, that was fetched from *url*,
    each URL once, and None now and then.

    Of the kind ``loc`` for pages, ``alternate`` for their translations, ``sitemap`` for the
    sitemaps that an index names. None comes at least every few milliseconds when there is nothing
    else, for callers that must not wait. What a sitemap that was *cut* ends with, most likely
    half a URL, is left out. *max_bytes*, or 50 MiB, are read of it, decompressed.
    """
    chunks = texts(body, charset=charset, max_bytes=max_bytes)
    beginning = next(chunks, "").lstrip("\ufeff \t\r\n")
    chunks = _followed(beginning, chunks)
    if beginning.startswith("<"):
        found = _elements(chunks, ReferenceResolver(url, schemes=schemes), cut=cut)
    else:
        found = _lines(chunks, schemes, cut=cut)
    seen: set[int] = set()  # hashes: 50,000 URLs may have 100 MB, in a sitemap of one
    left = MAX_REFERENCES
    for target, kind in found:
        if len(seen) >= limit or left <= 0:
            return
        if target is None or hash(target) in seen:
            yield None
        else:
            seen.add(hash(target))
            yield Link(target, "", kind)
        left -= bool(kind)


def _elements(
    chunks: Iterable[str], resolver: ReferenceResolver, *, cut: bool
) -> Iterator[tuple[str | None, str]]:
    """URL and kind of each reference; no kind where there is none, for a pause."""
    kind = "loc"
    within = False
    for name, attributes, text in tags(chunks, _NAMES, cut=cut):
        if name == "loc":
            reference = text.strip()
            if reference and len(reference) <= MAX_URL_CHARS:
                yield resolver.resolve(reference), kind
        elif name == "link":
            # What has none of a sitemap's elements around it is no sitemap: an error page.
            reference = attributes_of(attributes).get("href", "").strip() if within else ""
            if reference and len(reference) <= MAX_URL_CHARS:
                yield resolver.resolve(reference), "alternate"
        elif name:
            kind = "sitemap" if name == "sitemap" else "loc"
            within = True
        else:
            yield None, ""


def _lines(
    chunks: Iterable[str], schemes: frozenset[str], *, cut: bool
) -> Iterator[tuple[str | None, str]]:
    """A URL on each line; other lines have nothing that could be resolved."""
    rest = ""
    for chunk in chunks:
        lines = (rest + chunk).split("\n")
        rest = lines.pop()[: MAX_URL_CHARS + 1]
        for line in lines:
            if len(line) <= MAX_URL_CHARS:
                yield normalize(line.strip(), schemes=schemes), "loc"
        yield None, ""
    if len(rest) <= MAX_URL_CHARS and not cut:
        yield normalize(rest.strip(), schemes=schemes), "loc"


def _followed(first: str, others: Iterator[str]) -> Iterator[str]:
    yield first
    yield from others
