"""Leaf table: kinds and content types of pages that no other page depends on.

The trunk pages of a host are sound HTML, so that all other pages can be reached. The other pages
are the *leaves*: 12 bits of their hash select an entry of this table. The shares in the table are
chosen so that trunk pages and leaves together have the shares of the World.
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
    """Kinds of answers that pages give."""

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
# The crawler converts a listing to an HTML page of links.
LISTING = Leaf(PageKind.LISTING, 200, HTML, "")
_LARGE = Leaf(PageKind.LARGE, 200, "application/octet-stream", ".iso")
GONE = Leaf(PageKind.ERROR, 404, HTML, ".html")


def leaf_table(world: World, types: dict[str, float], trunk: float) -> tuple[Leaf, ...]:
    """Return a table of TABLE_SIZE leaves.

    *types* are the shares of content types, in percent of documents. *trunk* is the share of trunk
    pages among all URLs.
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
    # The remaining URLs are plain HTML. The trunk pages, which are plain HTML too, are subtracted.
    # The share is never 0, even if all hosts have only one page, which is a trunk page.
    plain_share = max(1e-9, 1.0 - sum(share for _, share in shares) - trunk)
    shares.append((TRUNK, plain_share))

    total = sum(share for _, share in shares)
    table: list[Leaf] = []
    cumulative_share = 0.0
    for leaf, share in shares:
        cumulative_share += share / total
        table += [leaf] * (round(cumulative_share * TABLE_SIZE) - len(table))
    return tuple(table)
