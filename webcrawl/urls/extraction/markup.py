"""Tag stream of XML documents that may be malformed, for sitemaps and feeds.

Called by ``sitemap_reader`` and ``feeds``. A stream of tags, not a parser: there are no entities to
expand, no external ones to load and no nesting to follow, so there is nothing for a document to
attack; and a document that is not well-formed is read to its end. Parsers were tried: expat stops
at the first bare ``&``, which one sitemap in many has, and lxml in recovery drops it with the
parameter's name, which makes another URL of it. Time is linear, memory bounded by ``CHUNK`` and
``MAX_PIECE``; nothing is raised.
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
"""Bytes that are inflated, decoded and searched at a time."""

MAX_PIECE = 1 << 16
"""Of a text without tags, more is cut off."""

MAX_TAGS = 2_000_000
"""Of one document that are looked at, a second's work: a full sitemap has a fifth of that."""

PAUSE = ("", "", "")
"""What ``tags`` gives in between, in place of a tag."""

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

# Extensions whose elements have the names of those that matter, but mean something else.
_FOREIGN = frozenset(
    {"image", "video", "news", "media", "itunes", "googleplay", "podcast", "dc", "source"}
)


def root_of(document: MarkupDocument) -> str:
    """The kind of *document*: "urlset", "sitemapindex", "rss", "rdf", "feed", "html", "" else.

    Plain or compressed with gzip; only its beginning is read.
    """
    found = _ROOT.search(next(texts(document), "")[:_ROOT_CHARS])
    return found[1].lower() if found is not None else ""


def texts(document: MarkupDocument) -> Iterator[str]:
    """The text of *document*, plain or compressed with gzip, chunk by chunk."""
    body = document.body
    read = _inflated if body.startswith(b"\x1f\x8b") else _slices
    decoder = None
    for chunk in read(body, document.max_bytes):
        if decoder is None:
            codec = charsets.detect(chunk, declared=document.charset)
            decoder = codecs.getincrementaldecoder(codec)("replace")
        yield decoder.decode(chunk)


def tags(document: MarkupDocument, names: frozenset[str]) -> Iterator[tuple[str, str, str]]:
    """Name, attributes and following text of the tags with *names*, in document order.

    *names* are lower-case and without a prefix, with a slash in front for end tags. The text ends
    where the next tag begins, whichever that is; entities and CDATA sections are resolved in it.
    Every few milliseconds comes a ``PAUSE``, whether there are such tags or not.
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
    """By their lower-case names, prefixes included."""
    return {
        name.lower(): unescape(double or single)
        for name, double, single in _ATTRIBUTE.findall(attributes)
    }


def unescape(text: str) -> str:
    """*text* with the entities of XML resolved; a bare ``&`` stays what it is."""
    return _ENTITY.sub(_character, text) if "&" in text else text


def _tag(piece: str, names: frozenset[str]) -> tuple[str, str, str]:
    """Name, attributes and following text of the tag that *piece* begins with; no name for others.

    Most tags are others, and told by the characters up to the first space or bracket.
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
    """The text behind each ``<``, up to the next one; None for a pause."""
    rest = ""
    begun = False
    left = MAX_TAGS
    for chunk in texts(document):
        pieces = (rest + chunk).split("<")
        # An end mark that is met in the long text that is cut would be missed: it never is long.
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
    """The first *limit* bytes that *body* holds, up to the first one that is no gzip."""
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
