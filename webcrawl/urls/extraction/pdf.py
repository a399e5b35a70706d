"""The hyperlinks of a PDF document: the URIs of its link annotations.

Found as the objects of the file come, without its cross-reference table, which stands at its end
and is missing where a file was cut: a URI action names its target right behind the name ``/URI``,
in the file itself or in a compressed object stream. What pages show and embed is not decompressed.
Time is linear in the length of the file, of which no more is decompressed than it may have itself.
Of an encrypted file there are none. Nothing is raised, whatever the bytes are.
"""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING

from webcrawl.urls.link import Link

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webcrawl.urls.extraction.document import MarkupDocument

# A string in parentheses, which may stand in pairs within it, or in hexadecimal digits.
_URI = re.compile(
    rb"/URI\s*+(?:\(((?:[^()\\]++|\\.|\((?:[^()\\]++|\\.)*+\))*+)\)|<([0-9A-Fa-f\s]*+)>)", re.DOTALL
)
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|\r\n|(.))", re.DOTALL)
# Those of control characters make no URI; the end of a line behind a backslash is nothing.
_ESCAPED = dict.fromkeys((b"n", b"r", b"t", b"b", b"f"), b"\0") | {b"\n": b"", b"\r": b""}
_UNPRINTABLE = re.compile(r"[\0-\x1f\x7f-\x9f]")
# The beginning of a stream with the head of zlib's format.
_STREAM = re.compile(rb"stream\r?\n[\x08\x18(8HXhx].", re.DOTALL)
# Of the dictionary of an object stream, behind its type; of others that a URI may reach into.
_DICTIONARY_BYTES = 1024
_OVERLAP_BYTES = 4096
# Searched, and decompressed, at a time: a millisecond.
_BLOCK_BYTES = 1 << 18
# Lost of a stream before the place where it is damaged.
_FEED_BYTES = 1 << 12


def iter_pdf(document: MarkupDocument) -> Iterator[Link | None]:
    """Extractor; the links of compressed objects come last."""
    body = document.body[: document.max_bytes]
    if b"/Encrypt" in body:
        return
    yield from _uris(body)
    yield from _of_object_streams(body, document.max_bytes)


def _uris(data: bytes) -> Iterator[Link | None]:
    """The URIs in *data*; None for what is none, and after each block."""
    start = 0
    while start < len(data):
        end = start + _BLOCK_BYTES
        for found in _URI.finditer(data, start, end + _OVERLAP_BYTES):
            if found.start() >= end:
                break
            uri = _text(found[1], found[2])
            yield Link(uri) if uri else None
        start = end
        yield None


def _text(written: bytes | None, digits: bytes | None) -> str:
    """A string of a PDF; empty if it can be no URI."""
    if written is None:
        packed = b"".join((digits or b"").split())
        data = bytes.fromhex((packed + b"0" * (len(packed) % 2)).decode())
    else:
        data = _ESCAPE.sub(_unescaped, written)
    try:
        uri = data.decode("utf-16" if data.startswith(b"\xfe\xff") else "utf-8").strip()
    except UnicodeDecodeError:
        uri = data.decode("latin-1").strip()
    return "" if _UNPRINTABLE.search(uri) else uri


def _unescaped(escape: re.Match[bytes]) -> bytes:
    octal, char = escape.groups()
    if octal:
        return bytes((int(octal, 8) & 255,))
    return _ESCAPED.get(char, char) if char else b""


def _of_object_streams(body: bytes, left: int) -> Iterator[Link | None]:
    """The URIs in the object streams of *body*, at most *left* bytes of which are decompressed."""
    position = 0
    while left > 0 and (position := body.find(b"/ObjStm", position)) >= 0:
        yield None
        begin = _STREAM.search(body, position, position + _DICTIONARY_BYTES)
        position += 1
        if begin is None:
            continue
        position = begin.end()
        # Without its checksum, by which one call would lose all that it has decompressed.
        decompressor = zlib.decompressobj(-zlib.MAX_WBITS)
        kept = b""
        while left > 0 and not decompressor.eof and position < len(body):
            fed = decompressor.unconsumed_tail or body[position : position + _FEED_BYTES]
            try:
                got = decompressor.decompress(fed, min(left, _BLOCK_BYTES))
            except zlib.error:
                left -= _BLOCK_BYTES
                break
            position += len(fed) - len(decompressor.unconsumed_tail) - len(decompressor.unused_data)
            left -= len(got)
            kept = kept[-_OVERLAP_BYTES:] + got
            yield from _uris(kept)
