"""Leaf table: kinds and sizes of the pages on which no other page depends.

The trunk pages of a host are sound HTML, so that the rest can be reached. All other pages, the
*leaves*, draw their kind from this table with 12 bits of their hash. The shares in the table are
such that trunk and leaves together have the shares of the World.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from webcrawl.simweb.distributions import EXTENSIONS, HTML

TABLE_SIZE: Final = 4096

_ERROR_STATUSES = (404,) * 12 + (403, 410, 500, 503)


class PageKind(StrEnum):
    """The kind of answer of a URL."""

    HTML = "html"
    DUPLICATE = "duplicate"  # HTML whose bytes are found under other URLs as well
    DOCUMENT = "document"  # anything but HTML
    LARGE = "large"
    REDIRECT = "redirect"
    ERROR = "error"
    LISTING = "listing"  # an FTP directory or a Gopher menu


class Leaf(NamedTuple):
    """The kind, type and size of one leaf."""

    kind: PageKind
    status: int
    content_type: str
    extension: str
    odd_charset: bool = False


TRUNK: Final = Leaf(PageKind.HTML, 200, HTML, ".html")
# As the crawler sees it: a page of links.
LISTING: Final = Leaf(PageKind.LISTING, 200, HTML, "")
GONE: Final = Leaf(PageKind.ERROR, 404, HTML, ".html")


def leaf_table(
    *,
    types: dict[str, float],
    trunk: float,
    errors: float,
    redirects: float,
    duplicates: float,
    odd_charsets: float,
    large_files: float,
) -> tuple[Leaf, ...]:
    """TABLE_SIZE leaves. *types* in per cent of documents, *trunk* the trunk's share of URLs."""
    documents = 1.0 - errors - redirects
    shares: list[tuple[Leaf, float]] = [
        (Leaf(PageKind.ERROR, status, HTML, ".html"), errors / len(_ERROR_STATUSES))
        for status in _ERROR_STATUSES
    ]
    shares.append((Leaf(PageKind.REDIRECT, 302, HTML, ""), redirects))
    shares.append((Leaf(PageKind.LARGE, 200, "application/octet-stream", ".iso"), large_files))
    shares += [
        (
            Leaf(PageKind.DOCUMENT, 200, name, EXTENSIONS.get(name, ".dat")),
            documents * percent / 100,
        )
        for name, percent in types.items()
        if name != HTML
    ]
    shares.append((Leaf(PageKind.DUPLICATE, 200, HTML, ".html"), documents * duplicates))
    shares.append(
        (Leaf(PageKind.HTML, 200, HTML, ".html", odd_charset=True), documents * odd_charsets)
    )
    # What is left of the URLs is plain HTML, less the trunk pages, which are plain HTML anyway.
    plain = max(0.0, 1.0 - sum(share for _, share in shares) - trunk)
    shares.append((TRUNK, plain))
    total = sum(share for _, share in shares)
    table: list[Leaf] = []
    edge = 0.0
    for leaf, share in shares:
        edge += share / total
        table += [leaf] * (round(edge * TABLE_SIZE) - len(table))
    return tuple(table)
