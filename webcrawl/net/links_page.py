"""Pages of links, made of what is a list of links but no HTML: FTP listings and Gopher menus.

Called by their download handlers, so that what follows a fetch needs to know of HTML only.

Invariant: whatever names and titles are made of, they are text in the page, never markup, and a
page is no longer than its bound.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

CONTENT_TYPE = b"text/html; charset=utf-8"
#: Flags of a response whose page was cut at its bound, though what it was made of came whole.
PAGE_CUT = ("truncated", "body_cut")


class Row(NamedTuple):
    """One line of the page; *href* is a URL of ASCII characters, empty for mere text."""

    href: str
    text: str


def links_page(title: str, rows: Iterable[Row], *, limit: int) -> tuple[bytes, bool]:
    """Return a page of at most *limit* bytes, and whether rows were left out for that."""
    head = escape(title)
    parts = [
        f'<!DOCTYPE html>\n<html><head><meta charset="utf-8"><title>{head}</title></head>\n'
        f"<body><h1>{head}</h1>\n<ul>\n".encode()
    ]
    end = b"</ul>\n</body></html>\n"
    size = len(parts[0]) + len(end)
    for href, text in rows:
        words = escape(text, quote=False)
        if href:
            words = f'<a href="{escape(href)}">{words}</a>'
        # Lone surrogates, which no name decoded here has, would otherwise be an error.
        part = f"<li>{words}</li>\n".encode("utf-8", "replace")
        size += len(part)
        if size > limit:
            return b"".join([*parts, end]), True
        parts.append(part)
    return b"".join([*parts, end]), False
