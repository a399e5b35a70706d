"""Hyperlinks of a PDF document: the URIs of its link annotations.

Objects are read in file order. The cross-reference table is not used, because it is at the end of
the file and missing in a truncated one. In a URI action, the target comes right after the name
``/URI``, in the file itself or in a compressed object stream. Page contents and embedded files are
not decompressed. Time is linear in the length of the file. The size limit of the file also applies
to decompressed data. No links are found in encrypted files. No input makes it raise an exception.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator

from webcrawl.urls.extraction.document import MarkupDocument
from webcrawl.urls.link import Link

# A string in parentheses, which may contain pairs of parentheses, or in hexadecimal digits.
_URI = re.compile(
    rb"/URI\s*+(?:\(((?:[^()\\]++|\\.|\((?:[^()\\]++|\\.)*+\))*+)\)|<([0-9A-Fa-f\s]*+)>)", re.DOTALL
)
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|\r\n|(.))", re.DOTALL)
# Control characters make a URI invalid. A line end after a backslash is dropped.
_ESCAPED = dict.fromkeys((b"n", b"r", b"t", b"b", b"f"), b"\0") | {b"\n": b"", b"\r": b""}
_UNPRINTABLE = re.compile(r"[\0-\x1f\x7f-\x9f]")
# The beginning of a stream in zlib's format.
_STREAM = re.compile(rb"stream\r?\n[\x08\x18(8HXhx].", re.DOTALL)
# Maximum size of the dictionary of an object stream after its type, and the overlap of blocks, for
# URIs that cross the end of a block.
_DICTIONARY_BYTES = 1024
_OVERLAP_BYTES = 4096
# Number of bytes that are searched or decompressed at a time, in about a millisecond.
_BLOCK_BYTES = 1 << 18
# Number of bytes per call of the decompressor; of a damaged stream, up to this much before the
# damage is lost.
_FEED_BYTES = 1 << 12


def iter_pdf(document: MarkupDocument) -> Iterator[Link | None]:
    """Extract the links of the PDF *document*; those in compressed objects come last.

    Yields None for pauses.
    """
    body = document.body[: document.max_bytes]
    if b"/Encrypt" in body:
        return
    yield from _uris(body)
    yield from _object_stream_uris(body, document.max_bytes)


def _uris(data: bytes) -> Iterator[Link | None]:
    """Yield a link for each URI in *data*, and None for invalid URIs and after each block."""
    start = 0
    while start < len(data):
        end = start + _BLOCK_BYTES
        for match in _URI.finditer(data, start, end + _OVERLAP_BYTES):
            if match.start() >= end:
                break  # it will be found in the next block
            uri = _text_of(match[1], match[2])
            yield Link(uri) if uri else None
        start = end
        yield None


def _text_of(literal: bytes | None, digits: bytes | None) -> str:
    """Return the text of a PDF string, or "" if it cannot be a URI.

    The string is either a *literal* in parentheses or hexadecimal *digits*.
    """
    if literal is None:
        # If the number of digits is odd, a 0 at the end is missing.
        hex_digits = b"".join((digits or b"").split())
        data = bytes.fromhex((hex_digits + b"0" * (len(hex_digits) % 2)).decode())
    else:
        data = _ESCAPE.sub(_unescape, literal)
    try:
        uri = data.decode("utf-16" if data.startswith(b"\xfe\xff") else "utf-8").strip()
    except UnicodeDecodeError:
        uri = data.decode("latin-1").strip()
    return "" if _UNPRINTABLE.search(uri) else uri


def _unescape(escape: re.Match[bytes]) -> bytes:
    """Return the bytes that a match of ``_ESCAPE`` stands for."""
    octal, char = escape.groups()
    if octal:
        return bytes((int(octal, 8) & 255,))
    return _ESCAPED.get(char, char) if char else b""


def _object_stream_uris(body: bytes, bytes_left: int) -> Iterator[Link | None]:
    """Yield the URIs in the object streams of *body*, and None for pauses.

    At most *bytes_left* bytes are decompressed.
    """
    position = 0
    while bytes_left > 0 and (position := body.find(b"/ObjStm", position)) >= 0:
        yield None
        stream_start = _STREAM.search(body, position, position + _DICTIONARY_BYTES)
        position += 1
        if stream_start is None:
            continue
        position = stream_start.end()
        # Raw deflate is used, because a wrong checksum at the end would lose the output of the last
        # call.
        decompressor = zlib.decompressobj(-zlib.MAX_WBITS)
        window = b""
        while bytes_left > 0 and not decompressor.eof and position < len(body):
            fed = decompressor.unconsumed_tail or body[position : position + _FEED_BYTES]
            try:
                data = decompressor.decompress(fed, min(bytes_left, _BLOCK_BYTES))
            except zlib.error:
                bytes_left -= _BLOCK_BYTES  # so that there is also a limit for damaged streams
                break
            # Continue after the bytes that the decompressor has used.
            position += len(fed) - len(decompressor.unconsumed_tail) - len(decompressor.unused_data)
            bytes_left -= len(data)
            window = window[-_OVERLAP_BYTES:] + data
            yield from _uris(window)
