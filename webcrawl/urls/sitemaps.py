"""The URLs in sitemaps (sitemaps.org): ``urlset``, ``sitemapindex`` and plain lists of URLs.

Called by the spider for documents that robots.txt or a sitemap index names, or whose root element
says so (``markup.root_of``). They are inflated and searched piece by piece, and may be taken in
slices: a full one of 50,000 URLs takes 0.4 s. Whether a sitemap may speak for the URLs that it
lists is not decided here. Nothing is raised, whatever the bytes are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from webcrawl.urls.link import Link
from webcrawl.urls.markup import attributes_of, tags, texts
from webcrawl.urls.normalizer import HTTP_SCHEMES, normalize
from webcrawl.urls.resolver import Resolver

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_URLS: Final = 50_000
"""Of one sitemap: the limit of the protocol."""

MAX_URL_CHARS: Final = 8192

_NAMES: Final = frozenset({"url", "sitemap", "loc", "link"})


def extract_sitemap(
    body: bytes,
    *,
    url: str,
    charset: str | None = None,
    limit: int = MAX_URLS,
    schemes: frozenset[str] = HTTP_SCHEMES,
) -> list[Link]:
    """Links of the sitemap *body*, plain or compressed with gzip, that was fetched from *url*."""
    return list(iter_sitemap(body, url=url, charset=charset, limit=limit, schemes=schemes))


def iter_sitemap(
    body: bytes,
    *,
    url: str,
    charset: str | None = None,
    limit: int = MAX_URLS,
    schemes: frozenset[str] = HTTP_SCHEMES,
) -> Iterator[Link]:
    """The links of ``extract_sitemap`` one by one, each URL once.

    Of the kind ``loc`` for pages, ``alternate`` for their translations, ``sitemap`` for the
    sitemaps that an index names.
    """
    chunks = texts(body, charset=charset)
    beginning = next(chunks, "").lstrip("\ufeff \t\r\n")
    chunks = _followed(beginning, chunks)
    if beginning.startswith("<"):
        found = _elements(chunks, Resolver(url, schemes=schemes))
    else:
        found = _lines(chunks, schemes)
    seen: set[str] = set()
    for target, kind in found:
        if len(seen) >= limit:
            return
        if target is not None and target not in seen:
            seen.add(target)
            yield Link(target, "", kind)


def _elements(chunks: Iterable[str], resolver: Resolver) -> Iterator[tuple[str | None, str]]:
    kind = "loc"
    for name, attributes, text in tags(chunks, _NAMES):
        if name == "loc":
            reference = text.strip()
            if reference and len(reference) <= MAX_URL_CHARS:
                yield resolver.resolve(reference), kind
        elif name == "link":
            reference = attributes_of(attributes).get("href", "").strip()
            if reference and len(reference) <= MAX_URL_CHARS:
                yield resolver.resolve(reference), "alternate"
        else:
            kind = "sitemap" if name == "sitemap" else "loc"


def _lines(chunks: Iterable[str], schemes: frozenset[str]) -> Iterator[tuple[str | None, str]]:
    """A URL on each line; other lines have nothing that could be resolved."""
    rest = ""
    for chunk in chunks:
        lines = (rest + chunk).split("\n")
        rest = lines.pop()[: MAX_URL_CHARS + 1]
        for line in lines:
            if len(line) <= MAX_URL_CHARS:
                yield normalize(line.strip(), schemes=schemes), "loc"
    if len(rest) <= MAX_URL_CHARS:
        yield normalize(rest.strip(), schemes=schemes), "loc"


def _followed(first: str, others: Iterator[str]) -> Iterator[str]:
    yield first
    yield from others
