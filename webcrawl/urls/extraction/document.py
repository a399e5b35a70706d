"""A document as its readers get it, and the way of its references to links.

Feeds, sitemaps, style sheets and PDF are read alike, by an ``Extractor``: it gives a ``Link`` for
each reference, whose ``url`` is as it was written, and None every few milliseconds when there is
nothing else, for callers that must not wait. ``resolved`` makes links of them that can be fetched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from webcrawl.urls.extraction.reference_resolver import ReferenceResolver
from webcrawl.urls.normalizer import HTTP_SCHEMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from webcrawl.urls.link import Link

MAX_REFERENCE_CHARS = 8192
"""Longer references are not parsed: they are inline data or junk, and filters refuse at 2 kB."""

MAX_TEXT_CHARS = 256
"""Of the text of a link: enough to describe it, little enough to keep a batch small."""

_REFERENCES_PER_LINK = 4


class MarkupDocument(NamedTuple):
    """The *body* that was fetched from *url*; *charset* is the label of its Content-Type header.

    No more than *max_bytes* of it are read, decompressed. Of one that was *cut* the last reference,
    most likely half a URL, is left out. Links are those of *schemes*.
    """

    body: bytes
    url: str
    charset: str | None = None
    max_bytes: int = 50 << 20
    cut: bool = False
    schemes: frozenset[str] = HTTP_SCHEMES


Extractor: TypeAlias = "Callable[[MarkupDocument], Iterable[Link | None]]"
"""Finds the links of a document, as they are written. Called in the event loop."""


def resolved(
    found: Iterable[Link | None],
    url: str,
    *,
    limit: int,
    schemes: frozenset[str] = HTTP_SCHEMES,
    known: Iterable[Link] = (),
    repeats: list[Link] | None = None,
) -> Iterator[Link | None]:
    """The links of *found* in the document *url* with absolute URLs of *schemes*, each URL once, at
    most *limit* with the links *known* before; None for all others, of which *repeats* gets those
    whose URL was met before.

    References to the document itself are none. No more than four times *limit* are looked at.
    """
    resolve = ReferenceResolver(url, schemes=schemes).resolve
    # Hashes: the URLs themselves may have 100 MB, in a sitemap of one.
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
