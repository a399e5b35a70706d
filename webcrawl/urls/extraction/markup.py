"""Stream of the tags of an XML document that may be malformed, for sitemaps and feeds.

Used by ``sitemap_reader`` and ``feeds``. This is a stream of tags, not a parser: it does not expand
entities, load external ones or follow nesting, so a document cannot attack it. A document that is
not well-formed is read to its end. Real parsers are not suitable. expat stops at the first bare
``&``, which many sitemaps have. lxml in recovery mode drops the ``&`` together with the name of the
parameter after it, which changes the URL. Time is linear, memory is limited by ``CHUNK`` and
``MAX_PIECE``, and no exception is raised.
"""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress

from webcrawl.urls.extraction import charset as charsets
from webcrawl.urls.extraction.document import MarkupDocument
from webcrawl.urls.extraction.references import character

#: Number of bytes that are decompressed, decoded and searched at a time.
CHUNK = 1 << 16

#: Number of characters after which a text without tags is cut.
MAX_PIECE = 1 << 16

#: Limit of the tags read per document, which take about a second. A full sitemap has a fifth.
MAX_TAGS = 2_000_000

#: Result of ``tags`` that only means a pause.
PAUSE = ("", "", "")

_TAGS_AT_ONCE = 4096

_GZIP_MAGIC = b"\x1f\x8b\x08"
# A million empty members would take seconds. Data has the magic number only by chance.
_MAX_GZIP_MEMBERS = 1000
_ROOT = re.compile(
    r"<(?:[\w.-]{1,32}:)?(urlset|sitemapindex|rss|rdf|feed|html)[\s>]", re.IGNORECASE
)
_ROOT_CHARS = 4096
_FINISHED = re.compile(r"""[^>"']*+(?:(?:"[^"]*+"|'[^']*+')[^>"']*+)*+>""")
_ATTRIBUTE = re.compile(r"""(?<![\w.:-])([\w.:-]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)')""")
_ENTITY = re.compile(r"&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|(amp|lt|gt|quot|apos));")
_ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}

# Prefixes of extensions whose elements have the same names but another meaning.
_FOREIGN = frozenset(
    {"image", "video", "news", "media", "itunes", "googleplay", "podcast", "dc", "source"}
)


def root_of(document: MarkupDocument) -> str:
    """Return the root element of *document*: urlset, sitemapindex, rss, rdf, feed, html, or "".

    The document may be compressed with gzip; only its beginning is read.
    """
    match = _ROOT.search(next(texts(document), "")[:_ROOT_CHARS])
    return match[1].lower() if match is not None else ""


def texts(document: MarkupDocument) -> Iterator[str]:
    """Yield the text of *document*, which may be compressed with gzip, in chunks."""
    body = document.body
    split = _inflate if body.startswith(b"\x1f\x8b") else _slices
    decoder = None
    for chunk in split(body, document.max_bytes):
        if decoder is None:
            codec = charsets.detect(chunk, declared=document.charset)
            decoder = codecs.getincrementaldecoder(codec)("replace")
        yield decoder.decode(chunk)


def tags(document: MarkupDocument, names: frozenset[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the attributes and the following text of each tag with one of *names*.

    *names* are in lower case and without a prefix; those of end tags begin with a slash. The text
    ends at the next tag of any name. Entities and CDATA sections in the text are decoded. Every few
    milliseconds a ``PAUSE`` is yielded, even if there are no such tags.
    """
    name = ""
    attributes = ""
    text = ""
    end_mark = ""
    # The text is split at each "<", which is therefore missing in the pieces.
    for piece in _pieces(document):
        if piece is None:
            yield PAUSE
            continue

        if end_mark:  # in a comment or CDATA section that began in an earlier piece
            inside, found_end, after = piece.partition(end_mark)
            if end_mark == "]]>" and name and len(text) < MAX_PIECE:
                text += "<" + inside
        elif piece.startswith("!--"):
            end_mark = "-->"
            _, found_end, after = piece[3:].partition(end_mark)
        elif piece.startswith("![CDATA["):
            end_mark = "]]>"
            inside, found_end, after = piece[8:].partition(end_mark)
            if name and len(text) < MAX_PIECE:
                text += inside
        else:
            if name:
                yield name, attributes, text[:MAX_PIECE]
            name, attributes, text = _tag(piece, names)
            continue

        if found_end:
            end_mark = ""
            if name and len(text) < MAX_PIECE:
                text += unescape(after)
    if name:
        yield name, attributes, text[:MAX_PIECE]


def attributes_of(attributes: str) -> dict[str, str]:
    """Return the values in the text *attributes* by their lower-case names, including prefixes."""
    return {
        name.lower(): unescape(double or single)
        for name, double, single in _ATTRIBUTE.findall(attributes)
    }


def unescape(text: str) -> str:
    """Return *text* with XML entities decoded; a bare ``&`` remains."""
    return _ENTITY.sub(_character, text) if "&" in text else text


def _tag(piece: str, names: frozenset[str]) -> tuple[str, str, str]:
    """Return the name, the attributes and the following text of the tag at the start of *piece*.

    All three are empty if the name is not in *names*. Most tags are of this kind, and are
    recognized by the characters up to the first space or bracket.
    """
    tag, _, text = piece.partition(">")
    name = next(iter(tag.split(None, 1)), "")  # with the slash of an end tag or an empty element
    prefix, colon, local_name = name.partition(":")
    if colon:
        slash = "/" if prefix.startswith("/") else ""
        if prefix.removeprefix("/").lower() in _FOREIGN:
            return "", "", ""
        known_name = slash + local_name.lower()
    else:
        known_name = name.lower()
    if known_name.rstrip("/") not in names:
        return "", "", ""
    # A ">" in a quoted attribute does not end the tag.
    complete_tag = _FINISHED.match(piece)
    if complete_tag is not None:
        tag = complete_tag[0][:-1]
        text = piece[complete_tag.end() :]
    return known_name.rstrip("/"), tag[len(name.rstrip("/")) :], unescape(text)


def _pieces(document: MarkupDocument) -> Iterator[str | None]:
    """Yield the text after each ``<`` up to the next one, and None for pauses."""
    remainder = ""
    has_begun = False
    tags_left = MAX_TAGS
    for chunk in texts(document):
        pieces = (remainder + chunk).split("<")
        # If the end of a comment is in the part that is cut off, it is missed. Texts of this length
        # do not occur.
        remainder = pieces.pop()[: 2 * MAX_PIECE]
        if pieces and not has_begun:
            has_begun = True
            del pieces[0]  # the text before the first tag
        for start in range(0, len(pieces), _TAGS_AT_ONCE):
            yield from pieces[start : start + _TAGS_AT_ONCE]
            yield None
        tags_left -= len(pieces)
        if tags_left <= 0:
            return
        yield None
    if has_begun and not document.cut:
        yield remainder


def _character(entity: re.Match[str]) -> str:
    """Return the character that a match of ``_ENTITY`` stands for."""
    decimal, hexadecimal, name = entity.groups()
    if name:
        return _ENTITIES[name]
    return character(int(decimal) if decimal else int(hexadecimal, 16))


def _slices(body: bytes, limit: int) -> Iterator[bytes]:
    """Yield the first *limit* bytes of *body* in chunks."""
    for start in range(0, min(len(body), limit), CHUNK):
        yield body[start : min(start + CHUNK, limit)]


def _inflate(body: bytes, limit: int) -> Iterator[bytes]:
    """Yield the first *limit* decompressed bytes of *body*, in chunks.

    Stops at the first part that is not valid gzip.
    """
    if body.count(_GZIP_MAGIC) > _MAX_GZIP_MEMBERS:
        return
    bytes_left = limit
    with suppress(EOFError, gzip.BadGzipFile, zlib.error), gzip.open(io.BytesIO(body)) as file:
        while bytes_left > 0 and (data := file.read1(min(CHUNK, bytes_left))):
            bytes_left -= len(data)
            yield data
