"""Input of link extractors, and the conversion of the references they find to absolute URLs.

Feeds, sitemaps, style sheets and PDFs are all read by an ``Extractor``. It yields a ``Link`` for
each reference, with its ``url`` as written in the document. If it finds no link for a few
milliseconds, it yields None, for callers that must not block. ``resolve_links`` turns the
references into links that can be fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from webcrawl.urls.extraction.reference_resolver import ReferenceResolver
from webcrawl.urls.link import Link
from webcrawl.urls.normalizer import HTTP_SCHEMES

#: Longer references are skipped: they are inline data or junk. Filters refuse URLs over 2 kB.
MAX_REFERENCE_CHARS = 8192

#: Limit of a link's text: enough to describe the link, but small for a batch of links.
MAX_TEXT_CHARS = 256

_REFERENCES_PER_LINK = 4


class MarkupDocument(NamedTuple):
    """A document: the *body* fetched from *url*, and the *charset* in its Content-Type header.

    At most *max_bytes* of the body are read, after decompression. If the body was *cut*, the last
    reference is left out, because it is probably incomplete. Only links with *schemes* are
    returned.
    """

    body: bytes
    url: str
    charset: str | None = None
    max_bytes: int = 50 << 20
    cut: bool = False
    schemes: frozenset[str] = HTTP_SCHEMES


#: Function that finds the links of a document, as written. Called in the event loop.
Extractor = Callable[[MarkupDocument], Iterable[Link | None]]


def resolve_links(
    links: Iterable[Link | None],
    url: str,
    *,
    limit: int,
    schemes: frozenset[str] = HTTP_SCHEMES,
    known: Iterable[Link] = (),
    repeats: list[Link] | None = None,
) -> Iterator[Link | None]:
    """Yield *links*, found in the document *url*, with absolute URLs; None for all left out.

    Each URL is returned once. Only *schemes* are included. There are at most *limit* links,
    including *known* links, which were found before. Links to a URL that was returned before are
    appended to *repeats*. References to the document itself are left out. At most four times
    *limit* references are processed.
    """
    resolve = ReferenceResolver(url, schemes=schemes).resolve
    # Hashes are stored, because the URLs of a sitemap could take 100 MB.
    seen = {hash(link.url) for link in known}
    references_left = _REFERENCES_PER_LINK * limit
    for link in links:
        if link is None:
            yield None
            continue
        if references_left <= 0 or len(seen) >= limit:
            return

        references_left -= 1
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
