"""The input of link extractors, and the way from references to links.

Feeds, sitemaps, style sheets and PDF are all read by an ``Extractor``. It yields a ``Link`` for
each reference, whose ``url`` is still as written. It also yields None every few milliseconds if
there is nothing else, for callers that must not block. ``resolved`` turns the references into links
that can be fetched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from webcrawl.urls.extraction.reference_resolver import ReferenceResolver
from webcrawl.urls.normalizer import HTTP_SCHEMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from webcrawl.urls.link import Link

MAX_REFERENCE_CHARS = 8192
"""Longer references are not parsed: they are inline data or junk. Filters refuse URLs over 2 kB."""

MAX_TEXT_CHARS = 256
"""Limit of the text of a link: enough to describe it, and short enough to keep a batch small."""

_REFERENCES_PER_LINK = 4


class MarkupDocument(NamedTuple):
    """The *body* that was fetched from *url*, with the *charset* in its Content-Type header.

    At most *max_bytes* of it are read, after decompression. If it was *cut*, the last reference is
    left out, as it is probably half a URL. Only links with *schemes* are returned.
    """

    body: bytes
    url: str
    charset: str | None = None
    max_bytes: int = 50 << 20
    cut: bool = False
    schemes: frozenset[str] = HTTP_SCHEMES


Extractor: TypeAlias = "Callable[[MarkupDocument], Iterable[Link | None]]"
"""Finds the links of a document, as written. Called in the event loop."""


def resolved(
    found: Iterable[Link | None],
    url: str,
    *,
    limit: int,
    schemes: frozenset[str] = HTTP_SCHEMES,
    known: Iterable[Link] = (),
    repeats: list[Link] | None = None,
) -> Iterator[Link | None]:
    """Yield the links of *found* in the document *url* with absolute URLs, and None for all others.

    Each URL comes once. Only *schemes* are included. There are at most *limit* links, including
    *known* ones that were found before. *repeats* gets links whose URL came before. References to
    the document itself are left out. At most four times *limit* references are processed.
    """
    resolve = ReferenceResolver(url, schemes=schemes).resolve
    # Hashes, as the URLs of a sitemap may take 100 MB.
    seen = {hash(link.url) for link in known}
    left = _REFERENCES_PER_LINK * limit
    for link in found:
        if link is None:
            yield None
            continue
        if left <= 0 or len(seen) >= limit:
            return
        left -= 1
        reference = link.url
        target = None
        if reference and len(reference) <= MAX_REFERENCE_CHARS and reference[0] != "#":
            target = resolve(reference)
        if target is None:
            yield None
            continue
        link.url = target
        if hash(target) not in seen:
            seen.add(hash(target))
            yield link
        else:
            if repeats is not None:
                repeats.append(link)
            yield None
