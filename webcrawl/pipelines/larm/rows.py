r"""Writes and parses the lines of LARM's logs, links.log and store.log.

Both are UTF-8 with one record per line, whose fields are separated by tabs (LARM, "Output files")::

    links.log   from-page, to-page, to-page-normalized, link-type, anchor-text
    store.log   from-page, url, url-normalized, link-type, HTTP-response-code, MIME type, file size,
                HTML-title, page file nr., offset in page file

link-type is 0 for an ordinary link, 1 for a frame, 2 for a redirect. The normalized form is the one
in which URLs are compared. Control characters and line ends in a field are written as a space, so a
field never contains a tab. Other characters that affect a terminal, such as text direction marks,
are written as Python escapes: ``\\u202e``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from webcrawl.pipelines.warc.messages import LINE_BREAKS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from webcrawl.items import Page

ORDINARY = 0
FRAME = 1
REDIRECT = 2

_TYPES = {"frame": FRAME, "iframe": FRAME, "redirect": REDIRECT, "refresh": REDIRECT}
# The C1 control characters and the direction marks, for which Python has no character class.
_TERMINAL_CODES = re.compile("[\x80-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class LarmError(Exception):
    """A LARM directory cannot be read.

    The text is a clause for a longer message.
    """


class StoredFile(NamedTuple):
    """A line of store.log: a page, and where its body is stored.

    *number* is that of the page file, and *offset* the position of the body in it.
    """

    via: str
    url: str
    normalized: str
    link_type: int
    status: int
    media_type: str
    size: int
    title: str
    number: int
    offset: int


# Positions of the numeric fields of ``StoredFile``.
_NUMERIC_FIELDS = (3, 4, 6, 8, 9)


def page_file(directory: Path, number: int) -> Path:
    """Return the path of page file *number*, counted from 1, in *directory*."""
    return directory / f"pagefile_{number}.pfl"


def store_line(page: Page, form: Callable[[str], str], *, number: int, offset: int) -> bytes:
    """Return the line of *page* for store.log.

    *form* returns the normalized form of a URL. The body is in page file *number* at *offset*.
    """
    # In the order of the fields of ``StoredFile``.
    return _line(
        page.via,
        page.url,
        form(page.url),
        str(_TYPES.get(page.kind, ORDINARY)),
        str(page.status),
        page.content_type,
        str(len(page.body)),
        page.title,
        str(number),
        str(offset),
    )


def link_lines(page: Page, form: Callable[[str], str]) -> bytes:
    """Return the lines of the links of *page* for links.log.

    *form* returns the normalized form of a URL.
    """
    return b"".join(
        [
            _line(
                page.url,
                link.url,
                form(link.url),
                str(_TYPES.get(link.kind, ORDINARY)),
                link.text,
            )
            for link in page.links
        ]
    )


def parse_store_line(line: bytes) -> StoredFile:
    """Parse a line of store.log. Raises LarmError if it is not valid."""
    fields = line.decode("utf-8", "replace").removesuffix("\n").split("\t")
    if len(fields) != len(StoredFile._fields):
        raise LarmError(f"a line has {len(fields)} fields, not {len(StoredFile._fields)}")
    for position in _NUMERIC_FIELDS:
        text = fields[position]
        # Offsets have fewer digits, and Python refuses to convert thousands of them.
        if not (text.isascii() and text.isdigit() and len(text) < 16):
            raise LarmError("a line has text where a number must be")
    values = [
        int(text) if position in _NUMERIC_FIELDS else text for position, text in enumerate(fields)
    ]
    return StoredFile._make(values)


def _line(*fields: str) -> bytes:
    """Join *fields* to a line, replacing or escaping control characters in them."""
    line = "\t".join(fields)
    # Such characters are rare, and checking the whole line costs less than checking each field.
    if not line.replace("\t", "").isprintable() or line.count("\t") != len(fields) - 1:
        line = "\t".join([LINE_BREAKS.sub(" ", field) for field in fields])
        line = _TERMINAL_CODES.sub(lambda match: match[0].encode("unicode_escape").decode(), line)
    return line.encode("utf-8", "replace") + b"\n"
