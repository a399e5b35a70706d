"""Leaf table: kinds and sizes of the pages on which no other page depends.

The trunk pages of a host are sound HTML, so that the rest can be reached. All other pages, the
*leaves*, draw their kind from this table with 12 bits of their hash. The shares in the table are
such that trunk and leaves together have the shares of the World.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from webcrawl.simweb.distributions import EXTENSIONS, HTML

if TYPE_CHECKING:
    from webcrawl.simweb.world import World

TABLE_SIZE = 4096

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


TRUNK = Leaf(PageKind.HTML, 200, HTML, ".html")
# As the crawler sees it: a page of links.
LISTING = Leaf(PageKind.LISTING, 200, HTML, "")
_LARGE = Leaf(PageKind.LARGE, 200, "application/octet-stream", ".iso")
GONE = Leaf(PageKind.ERROR, 404, HTML, ".html")


def leaf_table(world: World, types: dict[str, float], trunk: float) -> tuple[Leaf, ...]:
    """TABLE_SIZE leaves. *types* in per cent of documents, *trunk* the trunk's share of URLs."""
    documents = 1.0 - world.errors - world.redirects
    shares = [
        *(
            (Leaf(PageKind.ERROR, status, HTML, ".html"), world.errors / len(_ERROR_STATUSES))
            for status in _ERROR_STATUSES
        ),
        (Leaf(PageKind.REDIRECT, 302, HTML, ""), world.redirects),
        (_LARGE, world.large_files),
        *(
            (
                Leaf(PageKind.DOCUMENT, 200, name, EXTENSIONS.get(name, ".dat")),
                documents * percent / 100,
            )
            for name, percent in types.items()
            if name != HTML
        ),
        (TRUNK._replace(kind=PageKind.DUPLICATE), documents * world.duplicates),
        (TRUNK._replace(odd_charset=True), documents * world.odd_charsets),
    ]
    # What is left of the URLs is plain HTML, less the trunk pages, which are plain HTML anyway.
    # Never nothing: where all hosts have a page there are only trunk pages.
    plain = max(1e-9, 1.0 - sum(share for _, share in shares) - trunk)
    shares.append((TRUNK, plain))
    total = sum(share for _, share in shares)
    table: list[Leaf] = []
    edge = 0.0
    for leaf, share in shares:
        edge += share / total
        table += [leaf] * (round(edge * TABLE_SIZE) - len(table))
    return tuple(table)
