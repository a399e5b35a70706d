"""Leaf table: kinds and types of the pages on which no other page depends.

The trunk pages of a host are sound HTML, so that all other pages can be reached. These others, the
*leaves*, get their kind from this table by 12 bits of their hash. The shares in the table are
chosen so that trunk and leaves together have the shares of the World.
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
    """Kinds of answers."""

    HTML = "html"
    DUPLICATE = "duplicate"  # HTML whose bytes are also found under other URLs
    DOCUMENT = "document"  # anything but HTML
    LARGE = "large"
    REDIRECT = "redirect"
    ERROR = "error"
    LISTING = "listing"  # an FTP directory or a Gopher menu


class Leaf(NamedTuple):
    """Kind, status and content type of a leaf."""

    kind: PageKind
    status: int
    content_type: str
    extension: str
    odd_charset: bool = False


TRUNK = Leaf(PageKind.HTML, 200, HTML, ".html")
# The crawler sees a listing as a page of links.
LISTING = Leaf(PageKind.LISTING, 200, HTML, "")
_LARGE = Leaf(PageKind.LARGE, 200, "application/octet-stream", ".iso")
GONE = Leaf(PageKind.ERROR, 404, HTML, ".html")


def leaf_table(world: World, types: dict[str, float], trunk: float) -> tuple[Leaf, ...]:
    """Return a table of TABLE_SIZE leaves.

    *types* are in percent of documents; *trunk* is the trunk's share of URLs.
    """
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
    # The remaining URLs are plain HTML, less the trunk pages, which are plain HTML anyway. The
    # share is never 0, even if all hosts have one page and so only trunk pages.
    plain = max(1e-9, 1.0 - sum(share for _, share in shares) - trunk)
    shares.append((TRUNK, plain))
    total = sum(share for _, share in shares)
    table: list[Leaf] = []
    edge = 0.0
    for leaf, share in shares:
        edge += share / total
        table += [leaf] * (round(edge * TABLE_SIZE) - len(table))
    return tuple(table)
