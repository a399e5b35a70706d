"""Character encoding of a document, determined as in browsers.

The first of these that applies decides:

1. the byte order mark;
2. the ``charset`` of the Content-Type header;
3. ``<?x`` in UTF-16 at the beginning;
4. a declaration in the first 1,024 bytes;
5. UTF-8, if the bytes are valid UTF-8;
6. a declaration further down;
7. windows-1252 for everything else.

This follows the Encoding Standard and the HTML Standard, "determining the character encoding" and
"changing the encoding while parsing". Only the last step differs: browsers guess from the language.
A declaration is a ``<meta>`` element or, without one, the XML declaration. A declaration that does
not name an encoding is skipped. Labels are looked up in the table of the Encoding Standard, not in
Python's codec registry, which would accept ``utf-7``, ``unicode_escape`` or ``idna`` from a hostile
page.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

import webencodings

from webcrawl.urls.extraction.tokens import ATTRIBUTE

#: Number of bytes that the HTML Standard searches for a declaration before parsing.
PRESCAN_BYTES = 1024

#: Number of bytes that are searched for a declaration in a document that is not UTF-8.
HEAD_BYTES = 1 << 16

FALLBACK = "cp1252"

# Encodings of the standard for which another codec decodes more characters, or for which Python has
# no codec.
_REPLACED_CODECS = {
    "gbk": "gb18030",
    "iso2022_jp": "iso2022_jp_ext",
    "x-user-defined": "cp1252",
    "replacement": None,
}

_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xfe\xff", "utf-16-be"), (b"\xff\xfe", "utf-16-le"))

# Beginnings of an XML declaration in UTF-16, which the standard's prescan checks first.
_UTF16_XML = {b"<\0?\0x\0": "utf-16-le", b"\0<\0?\0x": "utf-16-be"}

# A <meta> element. The first alternatives skip text that only looks like a declaration.
_META = re.compile(
    rb"<!--(?:-?>|.*?(?:--!?>|\Z))|<(script|style|title|textarea)\b.*?(?:</\1|\Z)"
    rb"|<meta(?=[\t\n\f\r /])((?:[\t\n\f\r /]*+%b)*+)"
    % re.sub(rb"\((?!\?)", b"(?:", ATTRIBUTE.pattern),
    re.DOTALL | re.IGNORECASE,
)
_CONTENT_LABEL = re.compile(rb"""charset\s*+=\s*+["']?\s*+([^\s"';]+)""", re.IGNORECASE)
# An XML declaration; XHTML that is served as HTML often has no other declaration.
_XML_LABEL = re.compile(
    rb"""\s*+<\?xml\s[^>]*?encoding\s*+=\s*+["']([^\s"'>]+)["']""", re.IGNORECASE
)


def codec_for(label: str | None) -> str | None:
    """Return the Python codec for an encoding *label* as used on the web, or None if unknown."""
    encoding = webencodings.lookup(label.strip(" \t\r\n\f\"'")) if label else None
    if encoding is None:
        return None
    codec: str = encoding.codec_info.name
    return _REPLACED_CODECS.get(codec, codec)


#: Lower-case names in the Encoding Standard, by the codecs that ``codec_for`` returns.
NAMES: dict[str | None, str] = {
    codec_for(name): name for name in sorted(webencodings.LABELS.values(), reverse=True)
}


def bom_of(body: bytes) -> tuple[int, str] | None:
    """Return the length and codec of the byte order mark at the start of *body*, or None."""
    for mark, codec in _BOMS:
        if body.startswith(mark):
            return len(mark), codec
    return None


def detect(body: bytes, *, declared: str | None) -> str:
    """Return the Python codec with which to decode the document *body*.

    *declared* is the label in the Content-Type header, or None. Takes time linear in the length of
    *body*, or constant time if the header or the beginning of *body* declares the encoding.
    """
    return evidence(body, declared=declared)[0]


def evidence(body: bytes, *, declared: str | None) -> tuple[str, str]:
    """Return the codec of *body*, like ``detect``, and what decided it.

    This is one of "bom", "header", "meta", "utf8" and "guessed".
    """
    bom = bom_of(body)
    if bom is not None:
        return bom[1], "bom"
    codec = codec_for(declared)
    if codec is not None:
        return codec, "header"
    codec = _UTF16_XML.get(body[:6]) or _find_declaration(body[:PRESCAN_BYTES])
    if codec is not None:
        return codec, "meta"
    is_utf8 = _is_utf8(body)
    if is_utf8 and b"\x1b" not in body:  # ISO-2022-JP is ASCII with escape sequences
        return "utf-8", "utf8"
    codec = _find_declaration(body[:HEAD_BYTES])
    if codec is not None:
        return codec, "meta"
    return ("utf-8", "utf8") if is_utf8 else (FALLBACK, "guessed")


def _find_declaration(head: bytes) -> str | None:
    """Return the codec of the first declaration in *head* that names an encoding."""
    for label in _labels(head):
        codec = codec_for(label.decode("ascii", "replace"))
        if codec is not None:
            # A document whose ASCII declaration could be read is not UTF-16, even if it says so.
            return "utf-8" if codec.startswith("utf-16") else codec
    return None


def _labels(head: bytes) -> Iterator[bytes]:
    """Yield the encoding labels of ``<meta>`` elements in *head*, then that of an XML declaration.

    See the HTML Standard, "prescan a byte stream to determine its encoding".
    """
    for tag in _META.finditer(head):
        # Reversed, so that the first attribute of a name counts. Skipped text has none.
        attributes = {
            name.lower(): double or single or bare
            for name, double, single, bare in reversed(ATTRIBUTE.findall(tag[2] or b""))
        }
        if b"charset" in attributes:
            yield attributes[b"charset"]
        elif attributes.get(b"http-equiv", b"").lower() == b"content-type":
            yield from _CONTENT_LABEL.findall(attributes.get(b"content", b""))[:1]
    declaration = _XML_LABEL.match(head)
    if declaration is not None:
        yield declaration[1]


def decode(body: bytes, codec: str) -> str:
    """Return the text of *body* without its byte order mark; undecodable bytes become U+FFFD."""
    bom = bom_of(body)
    if bom is not None and bom[1] == codec:
        body = body[bom[0] :]
    return body.decode(codec, "webcrawl.japanese" if codec in _JAPANESE else "replace")


def _is_utf8(body: bytes) -> bool:
    """Return whether *body* is valid UTF-8; its last character may be cut off."""
    if body.isascii():
        return True
    try:
        body.decode()
    except UnicodeDecodeError as error:
        # A download cut in the middle of a character is still UTF-8.
        return error.reason == "unexpected end of data" and error.start >= len(body) - 3
    return True


# NEC's row 13 of JIS X 0208 (circled digits, Roman numerals, units) is in the index of the Encoding
# Standard, but not in these two codecs. Shift_JIS with Microsoft's extensions has the row at 87 40.
_JAPANESE = ("euc_jp", "iso2022_jp_ext")
_ROW_13 = bytes([0xAD])


def _decode_row_13(error: UnicodeError) -> tuple[str, int]:
    """Return the character at which a Japanese decoder failed if it is in row 13, else U+FFFD.

    Also returns the position at which decoding continues.
    """
    assert isinstance(error, UnicodeDecodeError)
    pair = error.object[error.start : error.start + 2]
    if pair[:1] == b"\x2d":  # ISO-2022-JP has the same bytes without the high bits
        pair = bytes(byte | 0x80 for byte in pair)
    if pair[:1] == _ROW_13 and pair[1:] > b"\xa0":
        # The codes A1 to FE become 40 to 9E, but Shift_JIS does not use 7F.
        second_byte = pair[1] - (0x61 if pair[1] < 0xE0 else 0x60)
        text = bytes((0x87, second_byte)).decode("cp932", "replace")
        if len(text) == 1 and text != "\ufffd":
            return text, error.start + 2
    return "\ufffd", error.end


codecs.register_error("webcrawl.japanese", _decode_row_13)
