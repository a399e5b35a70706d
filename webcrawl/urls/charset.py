"""The character encoding of a document, found the way browsers find it.

Order of evidence: byte order mark, the ``charset`` of the Content-Type header, a ``<meta>``
declaration in the first 1,024 bytes, then UTF-8 if the bytes are UTF-8 and windows-1252 if they are
not (Encoding Standard and HTML Standard, "determining the character encoding"; browsers guess by
language in the last step, we do not). Labels are looked up in the Encoding Standard's table, not in
Python's codec registry: the registry would accept ``utf-7``, ``unicode_escape`` or ``idna`` from a
hostile page.
"""

from __future__ import annotations

import re
from typing import Final

PRESCAN_BYTES: Final = 1024
"""Where the HTML Standard stops looking for a declaration."""

FALLBACK: Final = "cp1252"

# Python codec: labels of the Encoding Standard. Each codec is the superset that browsers use for
# the label: latin-1 is read as windows-1252, gb2312 as gb18030, euc-kr as cp949, sjis as cp932.
_LABELS: Final = {
    "utf-8": "utf-8 utf8 unicode-1-1-utf-8 unicode11utf8 unicode20utf8 x-unicode20utf8",
    "cp866": "866 cp866 csibm866 ibm866",
    "iso8859-2": "csisolatin2 iso-8859-2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 l2 latin2",
    "iso8859-3": "csisolatin3 iso-8859-3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 l3 latin3",
    "iso8859-4": "csisolatin4 iso-8859-4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 l4 latin4",
    "iso8859-5": "csisolatincyrillic cyrillic iso-8859-5 iso-ir-144 iso8859-5 iso88595 iso_8859-5",
    "iso8859-6": (
        "arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6 iso-8859-6-e"
        " iso-8859-6-i iso-ir-127 iso8859-6 iso88596 iso_8859-6"
    ),
    "iso8859-7": (
        "csisolatingreek ecma-118 elot_928 greek greek8 iso-8859-7 iso-ir-126 iso8859-7 iso88597"
        " iso_8859-7 sun_eu_greek"
    ),
    "iso8859-8": (
        "csiso88598e csisolatinhebrew hebrew iso-8859-8 iso-8859-8-e iso-ir-138 iso8859-8 iso88598"
        " iso_8859-8 visual csiso88598i iso-8859-8-i logical"
    ),
    "iso8859-10": "csisolatin6 iso-8859-10 iso-ir-157 iso8859-10 iso885910 l6 latin6",
    "iso8859-13": "iso-8859-13 iso8859-13 iso885913",
    "iso8859-14": "iso-8859-14 iso8859-14 iso885914",
    "iso8859-15": "csisolatin9 iso-8859-15 iso8859-15 iso885915 iso_8859-15 l9",
    "iso8859-16": "iso-8859-16",
    "koi8-r": "cskoi8r koi koi8 koi8-r koi8_r",
    "koi8-u": "koi8-u koi8-ru",
    "mac-roman": "csmacintosh mac macintosh x-mac-roman",
    "mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "cp874": "dos-874 iso-8859-11 iso8859-11 iso885911 tis-620 windows-874",
    "cp1250": "cp1250 windows-1250 x-cp1250",
    "cp1251": "cp1251 windows-1251 x-cp1251",
    "cp1252": (
        "ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1"
        " iso88591 iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii windows-1252 x-cp1252"
    ),
    "cp1253": "cp1253 windows-1253 x-cp1253",
    "cp1254": (
        "cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 l5 latin5"
        " windows-1254 x-cp1254"
    ),
    "cp1255": "cp1255 windows-1255 x-cp1255",
    "cp1256": "cp1256 windows-1256 x-cp1256",
    "cp1257": "cp1257 windows-1257 x-cp1257",
    "cp1258": "cp1258 windows-1258 x-cp1258",
    "gb18030": (
        "gb18030 chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 gbk iso-ir-58 x-gbk"
    ),
    "big5hkscs": "big5 big5-hkscs cn-big5 csbig5 x-x-big5",
    "euc_jp": "cseucpkdfmtjapanese euc-jp x-euc-jp",
    "iso2022_jp": "csiso2022jp iso-2022-jp",
    "cp932": "csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis",
    "cp949": (
        "cseuckr csksc56011987 euc-kr iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601"
        " ksc_5601 windows-949"
    ),
    "utf-16-be": "utf-16be unicodefffe",
    "utf-16-le": "utf-16 utf-16le unicode ucs-2 csunicode iso-10646-ucs-2 unicodefeff",
}
_CODECS: Final = {label: codec for codec, labels in _LABELS.items() for label in labels.split()}

_BOMS: Final = ((b"\xef\xbb\xbf", "utf-8"), (b"\xfe\xff", "utf-16-be"), (b"\xff\xfe", "utf-16-le"))

# <meta charset=x> and <meta http-equiv=Content-Type content="text/html; charset=x"> alike, and the
# encoding of an XML declaration, which XHTML served as HTML often has nothing else but.
_DECLARATION: Final = re.compile(
    rb"""<(?:meta\s[^>]*?charset\s*=|\?xml\s[^>]*?encoding\s*=)\s*["']?\s*([^\s"'/>;]{2,40})""",
    re.IGNORECASE,
)
_COMMENT: Final = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)


def codec_for(label: str | None) -> str | None:
    """Python codec for an encoding *label* as the web uses it, None when it names none."""
    if not label:
        return None
    return _CODECS.get(label.strip(" \t\r\n\f\"'").lower())


def bom_of(body: bytes) -> tuple[int, str] | None:
    """Length and codec of the byte order mark that *body* starts with, if it starts with one."""
    for mark, codec in _BOMS:
        if body.startswith(mark):
            return len(mark), codec
    return None


def detect(body: bytes, *, declared: str | None) -> str:
    """Python codec to read the document *body* with; *declared* is the header's label, or None.

    Linear in the length of *body*, and constant when something declares the encoding.
    """
    bom = bom_of(body)
    if bom is not None:
        return bom[1]
    codec = codec_for(declared)
    if codec is not None:
        return codec
    head = body[:PRESCAN_BYTES]
    if b"<!--" in head:
        head = _COMMENT.sub(b"", head)
    found = _DECLARATION.search(head)
    if found is not None:
        codec = codec_for(found.group(1).decode("ascii", "replace"))
        if codec is not None:
            # A document whose ASCII declaration could be read is not UTF-16, whatever it says.
            return "utf-8" if codec.startswith("utf-16") else codec
    return "utf-8" if _is_utf8(body) else FALLBACK


def decode(body: bytes, codec: str) -> str:
    """The text of *body* without its byte order mark; bytes that mean nothing become U+FFFD."""
    bom = bom_of(body)
    if bom is not None and bom[1] == codec:
        body = body[bom[0] :]
    return body.decode(codec, "replace")


def _is_utf8(body: bytes) -> bool:
    if body.isascii():
        return True
    try:
        body.decode()
    except UnicodeDecodeError as error:
        # A download cut in the middle of a character is still UTF-8.
        return error.reason == "unexpected end of data" and error.start >= len(body) - 3
    return True
