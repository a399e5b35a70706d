"""The hyperlinks of a PDF document: the URIs of its link annotations.

Objects are read in file order, without the cross-reference table, which is at the end and missing
in a truncated file. A URI action has its target right after the name ``/URI``, in the file itself
or in a compressed object stream. Page contents and embedded files are not decompressed. Time is
linear in the length of the file, and no more is decompressed than the file itself may have.
Encrypted files have no links. Nothing is raised, whatever the bytes are.
"""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING

from webcrawl.urls.link import Link

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webcrawl.urls.extraction.document import MarkupDocument

# A string in parentheses, which may contain pairs of parentheses, or in hexadecimal digits.
_URI = re.compile(
    rb"/URI\s*+(?:\(((?:[^()\\]++|\\.|\((?:[^()\\]++|\\.)*+\))*+)\)|<([0-9A-Fa-f\s]*+)>)", re.DOTALL
)
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|\r\n|(.))", re.DOTALL)
# Control characters make a URI invalid; the end of a line after a backslash is dropped.
_ESCAPED = dict.fromkeys((b"n", b"r", b"t", b"b", b"f"), b"\0") | {b"\n": b"", b"\r": b""}
_UNPRINTABLE = re.compile(r"[\0-\x1f\x7f-\x9f]")
# The beginning of a stream in zlib's format.
_STREAM = re.compile(rb"stream\r?\n[\x08\x18(8HXhx].", re.DOTALL)
# Bytes of the dictionary of an object stream after its type, and the overlap of blocks for URIs
# that cross their end.
_DICTIONARY_BYTES = 1024
_OVERLAP_BYTES = 4096
# Bytes that are searched and decompressed at a time, in about a millisecond.
_BLOCK_BYTES = 1 << 18
# Bytes per call; a damaged stream loses this much before the damage.
_FEED_BYTES = 1 << 12


def iter_pdf(document: MarkupDocument) -> Iterator[Link | None]:
    """Extract the links of a PDF; those of compressed objects come last."""
    body = document.body[: document.max_bytes]
    if b"/Encrypt" in body:
        return
    yield from _uris(body)
    yield from _object_stream_uris(body, document.max_bytes)


def _uris(data: bytes) -> Iterator[Link | None]:
    """Yield the URIs in *data*; None for invalid ones, and after each block."""
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


def _text(literal: bytes | None, digits: bytes | None) -> str:
    """Return a PDF string as text; empty if it cannot be a URI."""
    if literal is None:
        packed = b"".join((digits or b"").split())
        data = bytes.fromhex((packed + b"0" * (len(packed) % 2)).decode())
    else:
        data = _ESCAPE.sub(_unescaped, literal)
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


def _object_stream_uris(body: bytes, left: int) -> Iterator[Link | None]:
    """Yield the URIs in the object streams of *body*; at most *left* bytes are decompressed."""
    position = 0
    while left > 0 and (position := body.find(b"/ObjStm", position)) >= 0:
        yield None
        begin = _STREAM.search(body, position, position + _DICTIONARY_BYTES)
        position += 1
        if begin is None:
            continue
        position = begin.end()
        # Raw deflate without the checksum, for which a call would lose all its output.
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
