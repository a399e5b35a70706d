"""Gopher menus (RFC 1436): parses menus, and turns their items into links.

Called by the download handler for gopher.

Invariant: each link returned can be requested: its type is that of a document, its host and port
are valid, and its selector can be restored from the URL. All other lines become text or are left
out.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote

from webcrawl.net.documents import CONTENT_TYPE, Row, type_of_name

# More lines than links are followed per page. They take 30 ms of the reactor's time.
_MAX_LINES = 10_000
_MAX_LINE_BYTES = 2048

MENU = "1"
TEXT = "0"
# Content types by item type; None if the file name decides. Left out are 2 and 7, which need a
# search term, 8 and T, which are not documents, and 3 and i, which cannot be requested.
_TYPES: dict[str, bytes | None] = {
    TEXT: b"text/plain",
    MENU: CONTENT_TYPE,
    "4": b"application/mac-binhex40",
    "5": None,
    "6": b"text/x-uuencode",
    "9": None,
    "g": b"image/gif",
    "p": b"image/png",
    "I": None,
    ":": None,
    "h": b"text/html",
    "d": None,
    "P": b"application/pdf",
    "s": None,
    "<": None,
    ";": None,
    "X": b"application/xml",
}

_HOST = re.compile(r"(?:[0-9A-Za-z_-]+\.)*[0-9A-Za-z_-]+\.?|\[?[0-9A-Fa-f.]*+:[0-9A-Fa-f:.]*+\]?")
_URL = re.compile(r"/?URL:([A-Za-z][A-Za-z0-9+.-]*:[\x21-\x7e]+)")
_DOT_SEGMENT = re.compile(r"(?:^|/)\.\.?(?:/|$)")


class Item(NamedTuple):
    """A line of a menu, decoded as ISO 8859-1. *kind* is the item type."""

    kind: str
    text: str
    selector: str
    host: str
    port: str


def is_document(kind: str) -> bool:
    """Return whether items of type *kind* can be fetched without a search term."""
    return kind in _TYPES


def content_type_of(kind: str, selector: bytes) -> bytes:
    """Return the content type of an item of type *kind* with this *selector*, b"" if unknown."""
    name = selector.rpartition(b"/")[2].decode("latin-1")
    return _TYPES[kind] or type_of_name(name)


def items(menu: bytes) -> Iterator[Item]:
    """Yield the items of *menu*, up to a line with a single dot.

    Lines that are too long are left out.
    """
    for raw in itertools.islice(menu.split(b"\n", _MAX_LINES), _MAX_LINES):
        line = raw.rstrip(b"\r")
        if line == b".":
            return
        if line and len(line) <= _MAX_LINE_BYTES:
            kind = line[:1].decode("latin-1")
            text = line[1:].decode("latin-1")
            fields = [*text.split("\t"), "", "", ""][:4]
            yield Item(kind, *fields)


def is_error(answer: bytes) -> bool:
    """Return whether *answer* means that the requested item does not exist.

    Servers then send an item of type 3, and no item that could be fetched.
    """
    if answer[:1] != b"3" or len(answer) > _MAX_LINE_BYTES:
        return False
    menu = list(items(answer))
    return all(item.kind in "3i" for item in menu) and b"\t" in answer.partition(b"\n")[0]


def row_of(item: Item) -> Row | None:
    """Return *item* as a line of a page of links; None if it is neither text nor a valid link."""
    text = _text(item.text)
    if item.kind in "i3":
        return Row("", text)
    href = _href(item)
    return Row(href, text) if href else None


def _href(item: Item) -> str:
    """Return the URL of *item*, or "" if it cannot be requested."""
    if item.kind == "h" and (match := _URL.fullmatch(item.selector)):
        return match[1]

    host = item.host.strip()
    port = item.port.strip()
    if not is_document(item.kind) or _HOST.fullmatch(host) is None:
        return ""
    if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
        return ""
    # Clients remove dot segments from a URL, though they may be part of the selector.
    if "\0" in item.selector or _DOT_SEGMENT.search(item.kind + item.selector):
        return ""

    if ":" in host and host[0] != "[":
        host = f"[{host}]"
    selector = quote(item.selector.encode("latin-1"), safe="/")
    return f"gopher://{host}:{int(port)}/{quote(item.kind, safe='')}{selector}"


def _text(raw: str) -> str:
    """Decode *raw* as UTF-8, which most servers use, or else as ISO 8859-1, which old ones use."""
    try:
        return raw.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return raw
