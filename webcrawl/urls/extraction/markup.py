"""Tag stream of XML documents that may be malformed, for sitemaps and feeds.

Called by ``sitemap_reader`` and ``feeds``. This is a stream of tags, not a parser: it does not
expand entities, load external ones or follow nesting, so a document cannot attack it. A document
that is not well-formed is read to its end. Real parsers are not suitable: expat stops at the first
bare ``&``, which many sitemaps have, and lxml in recovery mode drops it with the parameter's name,
which changes the URL. Time is linear, memory is limited by ``CHUNK`` and ``MAX_PIECE``, and nothing
is raised.
"""

from __future__ import annotations

import codecs
import re
import zlib
from typing import TYPE_CHECKING

from webcrawl.urls.extraction import charset as charsets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webcrawl.urls.extraction.document import MarkupDocument

CHUNK = 1 << 16
"""Bytes that are decompressed, decoded and searched at a time."""

MAX_PIECE = 1 << 16
"""A text without tags is cut at this length."""

MAX_TAGS = 2_000_000
"""Tags of one document that are read, in about a second. A full sitemap has a fifth of that."""

PAUSE = ("", "", "")
"""Yielded by ``tags`` for a pause."""

_TAGS_AT_ONCE = 4096

_MAX_GZIP_MEMBERS = 100
_ROOT = re.compile(
    r"<(?:[\w.-]{1,32}:)?(urlset|sitemapindex|rss|rdf|feed|html)[\s>]", re.IGNORECASE
)
_ROOT_CHARS = 4096
_FINISHED = re.compile(r"""[^>"']*+(?:(?:"[^"]*+"|'[^']*+')[^>"']*+)*+>""")
_ATTRIBUTE = re.compile(r"""(?<![\w.:-])([\w.:-]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)')""")
_ENTITY = re.compile(r"&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|(amp|lt|gt|quot|apos));")
_ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}

# Prefixes of extensions whose elements have the same names, but another meaning.
_FOREIGN = frozenset(
    {"image", "video", "news", "media", "itunes", "googleplay", "podcast", "dc", "source"}
)


def root_of(document: MarkupDocument) -> str:
    """Return the kind of *document*: urlset, sitemapindex, rss, rdf, feed, html, or "".

    It may be compressed with gzip; only its beginning is read.
    """
    match = _ROOT.search(next(texts(document), "")[:_ROOT_CHARS])
    return match[1].lower() if match is not None else ""


def texts(document: MarkupDocument) -> Iterator[str]:
    """Yield the text of *document*, which may be compressed with gzip, chunk by chunk."""
    body = document.body
    read = _inflated if body.startswith(b"\x1f\x8b") else _slices
    decoder = None
    for chunk in read(body, document.max_bytes):
        if decoder is None:
            codec = charsets.detect(chunk, declared=document.charset)
            decoder = codecs.getincrementaldecoder(codec)("replace")
        yield decoder.decode(chunk)


def tags(document: MarkupDocument, names: frozenset[str]) -> Iterator[tuple[str, str, str]]:
    """Yield name, attributes and following text of the tags with *names*, in document order.

    *names* are in lower case and without a prefix; end tags have a slash in front. The text ends at
    the next tag, whichever that is. Entities and CDATA sections in it are decoded. Every few
    milliseconds a ``PAUSE`` is yielded, whether there are such tags or not.
    """
    name = attributes = text = ""
    until = ""
    for piece in _pieces(document):
        if piece is None:
            yield PAUSE
            continue
        if until:
            inside, ended, after = piece.partition(until)
            if until == "]]>" and name and len(text) < MAX_PIECE:
                text += "<" + inside
        elif piece.startswith("!--"):
            until = "-->"
            _, ended, after = piece[3:].partition(until)
        elif piece.startswith("![CDATA["):
            until = "]]>"
            inside, ended, after = piece[8:].partition(until)
            if name and len(text) < MAX_PIECE:
                text += inside
        else:
            if name:
                yield name, attributes, text[:MAX_PIECE]
            name, attributes, text = _tag(piece, names)
            continue
        if ended:
            until = ""
            if name and len(text) < MAX_PIECE:
                text += unescape(after)
    if name:
        yield name, attributes, text[:MAX_PIECE]


def attributes_of(attributes: str) -> dict[str, str]:
    """Return the attributes by their lower-case names, including prefixes."""
    return {
        name.lower(): unescape(double or single)
        for name, double, single in _ATTRIBUTE.findall(attributes)
    }


def unescape(text: str) -> str:
    """Return *text* with XML entities decoded; a bare ``&`` stays."""
    return _ENTITY.sub(_character, text) if "&" in text else text


def _tag(piece: str, names: frozenset[str]) -> tuple[str, str, str]:
    """Return name, attributes and following text of the tag at the start of *piece*.

    The name is empty for other tags. Most are, and are recognized by the characters up to the first
    space or bracket.
    """
    head, _, text = piece.partition(">")
    name = next(iter(head.split(None, 1)), "")
    prefix, colon, local = name.partition(":")
    if colon:
        slash = "/" if prefix.startswith("/") else ""
        if prefix.removeprefix("/").lower() in _FOREIGN:
            return "", "", ""
        known = slash + local.lower()
    else:
        known = name.lower()
    if known.rstrip("/") not in names:
        return "", "", ""
    finished = _FINISHED.match(piece)
    if finished is not None:
        head, text = finished[0][:-1], piece[finished.end() :]
    return known.rstrip("/"), head[len(name) :], unescape(text)


def _pieces(document: MarkupDocument) -> Iterator[str | None]:
    """Yield the text after each ``<``, up to the next one; None for a pause."""
    rest = ""
    begun = False
    left = MAX_TAGS
    for chunk in texts(document):
        pieces = (rest + chunk).split("<")
        # An end mark in the part that is cut off would be missed, but such long texts do not occur.
        rest = pieces.pop()[: 2 * MAX_PIECE]
        if pieces and not begun:
            begun = True
            del pieces[0]
        for start in range(0, len(pieces), _TAGS_AT_ONCE):
            yield from pieces[start : start + _TAGS_AT_ONCE]
            yield None
        left -= len(pieces)
        if left <= 0:
            return
        yield None
    if begun and not document.cut:
        yield rest


def _character(entity: re.Match[str]) -> str:
    decimal, hexadecimal, name = entity.groups()
    if name:
        return _ENTITIES[name]
    number = int(decimal) if decimal else int(hexadecimal, 16)
    usable = 0 < number <= 0x10FFFF and not 0xD800 <= number <= 0xDFFF
    return chr(number) if usable else "\ufffd"


def _slices(body: bytes, limit: int) -> Iterator[bytes]:
    for start in range(0, min(len(body), limit), CHUNK):
        yield body[start : min(start + CHUNK, limit)]


def _inflated(body: bytes, limit: int) -> Iterator[bytes]:
    """Yield the first *limit* decompressed bytes of *body*, up to the first non-gzip part."""
    left = limit
    members = _MAX_GZIP_MEMBERS
    member = zlib.decompressobj(31)
    pending = b""
    position = 0
    while left > 0:
        if not pending:
            pending = body[position : position + CHUNK]
            position += CHUNK
        exhausted = not pending
        try:
            data = member.decompress(pending, min(CHUNK, left))
        except zlib.error:
            return
        pending = member.unconsumed_tail
        if data:
            left -= len(data)
            yield data
        elif exhausted:
            return
        if member.eof:
            pending = member.unused_data
            member = zlib.decompressobj(31)
            members -= 1
            if members <= 0:
                return
