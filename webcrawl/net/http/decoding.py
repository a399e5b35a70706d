"""Decodes content codings within limits: gzip, deflate, br and zstd, and chains of them.

This is a downloader middleware in place of Scrapy's HttpCompressionMiddleware (590), which fails on
pages over the limit and on broken streams, and edits the headers.

Invariant: decoding any bytes raises nothing and returns at most PAGE_MAX_BYTES per
coding (or the ``download_maxsize`` of the request, or as much as its ``large_body`` allows). A
response without a coding is returned as the same object.

``request.meta["wire_body"]`` is the body as received, if it was decoded: the body of a WARC record
is ``meta.get("wire_body", response.body)``. The headers stay as received, including
Content-Encoding. Flags: "truncated" if the decoded body was cut at the limit, together with
"body_cut" if nothing was cut off on the wire. "undecodable" if the stream is broken or ends early:
the part before the damage is kept. "not_decoded" if a coding is unknown, or was named but not
applied: the body is then as received, or as decoded up to that coding. As in browsers and curl, a
stream is complete if its data ends, even if its checksum is wrong or other bytes follow.
"""

from __future__ import annotations

import asyncio
import sys
import zlib
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, NamedTuple, Self, cast

import brotli  # type: ignore[import-untyped]  # ships no type information
from isal import isal_zlib
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response, TextResponse
from scrapy.utils.python import binary_is_text

from webcrawl.net.http.large_bodies import LARGE_BODY, limit_with_permit, limit_without_permit
from webcrawl.net.http.responses import class_for
from webcrawl.net.limits import page_max_bytes

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


_ACCEPTED = b"gzip, deflate, br, zstd"
# Servers name these for bodies that are not encoded at all.
_NO_CODINGS = frozenset({b"", b"identity", b"none", b"utf-8", b"utf8", b"8bit", b"binary"})
# No real page has more codings; curl stops at five, Chromium has no limit.
_MAX_CODINGS = 8
# Number of concatenated streams in one body that are decoded. They are legal but rare, and a
# million empty ones would take minutes.
_MAX_PARTS = 64
# A broken stream is decoded in steps of this many bytes; the step that fails is repeated byte by
# byte.
_STEP = 4096
_BROTLI_STEP = 256 * 1024
# RFC 8878, section 3.1.1.1.2: decoders need not support larger windows, and this one allocates
# memory for the whole window.
_ZSTD_WINDOW_LOG = 23
# isal's stub says this is an instance.
_ISAL_ERROR = cast("type[Exception]", isal_zlib.error)
_ERRORS: tuple[type[Exception], ...] = (
    zlib.error,
    _ISAL_ERROR,
    brotli.error,
    zstd.ZstdError,
    EOFError,
    ValueError,
)


#: Flags of bodies that could not be decoded: the stream is broken, or the body is not a stream.
BROKEN = "undecodable"
NOT_DECODED = "not_decoded"


class Decoded(NamedTuple):
    """The result of decoding a body.

    *cut* tells whether it was cut at the limit. *finding* is BROKEN or NOT_DECODED if the part
    before the cut could not be decoded completely, else "".
    """

    body: bytes
    cut: bool
    finding: str

    def flags(self, flags: list[str]) -> list[str]:
        """Return *flags*, those of the received body, plus the flags of the decoded body."""
        flags = [*flags]
        # It is normal that a body that was cut on the wire ends early.
        is_complete = "truncated" not in flags and "dataloss" not in flags
        if self.finding and (is_complete or self.finding == NOT_DECODED):
            flags.append(self.finding)
        if self.cut and "truncated" not in flags:
            flags += ("truncated", "body_cut")
        return flags


class ContentDecodingMiddleware:
    """Downloader middleware that requests encoded bodies and decodes them."""

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Create the middleware; raise FatalError if PAGE_MAX_BYTES is not valid."""
        return cls(max_bytes=page_max_bytes(crawler.settings))

    def process_request(self, request: Request) -> None:
        """Add Accept-Encoding to *request*, unless it has one."""
        # The methods of Headers would normalize the name again.
        dict.setdefault(request.headers, b"Accept-Encoding", [_ACCEPTED])
        # Requests made from a response, such as redirects, start with a copy of its meta.
        request.meta.pop("wire_body", None)

    def process_response(
        self, request: Request, response: Response
    ) -> Response | Coroutine[Any, Any, Response]:
        """Return *response*, or a copy with the decoded body if it has a content coding.

        A large body with a permit is decoded in a thread.
        """
        if not dict.get(response.headers, b"Content-Encoding") or not response.body:
            return response

        codings = codings_of(response.headers.getlist(b"Content-Encoding"))
        limit = limit_without_permit(request, self._max_bytes)
        decoded = decode(response.body, codings, limit=limit)
        if decoded.cut and LARGE_BODY in request.meta:
            return self._decode_more(request, response, codings, decoded)
        return self._response(request, response, decoded)

    async def _decode_more(
        self, request: Request, response: Response, codings: list[bytes], decoded: Decoded
    ) -> Response:
        """Decode the body of *response* again if a permit raises the limit; return the response."""
        limit = await limit_with_permit(request, len(decoded.body))
        if limit > len(decoded.body):
            decoded = await asyncio.to_thread(decode, response.body, codings, limit=limit)
        return self._response(request, response, decoded)

    @staticmethod
    def _response(request: Request, response: Response, decoded: Decoded) -> Response:
        """Return a copy of *response* with the decoded body."""
        body, _, finding = decoded
        flags = decoded.flags(response.flags)
        cls = class_for(response.headers, response.url, body)
        # The type in the header is that of the decoded body, so it is wrong for an encoded one.
        if issubclass(cls, TextResponse) and finding and not _is_text(body):
            cls = Response
        if body is not response.body:
            request.meta["wire_body"] = response.body
        decoded_response = cls(
            response.url,
            status=response.status,
            body=body,
            flags=flags,
            request=request,  # whose meta says that it was decoded
            certificate=response.certificate,
            ip_address=response.ip_address,
            protocol=response.protocol,
        )
        decoded_response.headers = response.headers  # the constructor would copy them
        return decoded_response


def codings_of(fields: Iterable[bytes]) -> list[bytes]:
    """Return the codings named in the Content-Encoding *fields*, in the order of their use."""
    names = b",".join(fields).lower().split(b",")
    return [name for raw in names if (name := raw.strip()) not in _NO_CODINGS]


def decode(body: bytes, codings: list[bytes], *, limit: int) -> Decoded:
    """Undo the *codings* of *body*, given in the order in which they were applied.

    The result of each coding is cut at *limit* bytes. If nothing can be decoded with one of them,
    the result is *body* as decoded with those before it.
    """
    if len(codings) > _MAX_CODINGS:
        return Decoded(body, False, NOT_DECODED)

    cut = False
    finding = ""
    for coding in reversed(codings):
        step = _undo(coding, body, limit)
        if step.finding and not step.body:
            return Decoded(body, cut, step.finding)

        # If the result of an earlier step was cut, this stream is incomplete without being damaged.
        if not cut and not finding:
            finding = step.finding
        cut = cut or step.cut
        body = step.body
    return Decoded(body, cut, finding)


def _undo(coding: bytes, body: bytes, limit: int) -> Decoded:
    """Undo one *coding* of *body*; if nothing can be decoded, the result is empty with a finding.

    The finding is NOT_DECODED if the coding is unknown, or if a server has named a coding that it
    did not apply. The body is then most likely text that can be used as it is.
    """
    make_decoder, magic = _STREAMS.get(coding, (None, None))
    if make_decoder is None:
        return Decoded(b"", False, NOT_DECODED)

    # Many servers send deflate data without the zlib header.
    if make_decoder is _zlib_stream and not _has_zlib_header(body):
        make_decoder = _raw_deflate_stream
    decoded = _decode_parts(make_decoder, body, limit, magic=magic)
    # Raw deflate data may begin with bytes that look like a zlib header.
    if make_decoder is _zlib_stream and decoded.finding and not decoded.body:
        decoded = _decode_parts(_raw_deflate_stream, body, limit, magic=magic)

    if decoded.finding:
        looks_encoded = body.startswith(magic) if magic else not _is_text(body)
        if not looks_encoded:
            return Decoded(b"", False, NOT_DECODED)
    return decoded


def _is_text(body: bytes) -> bool:
    """Return whether *body* looks like text."""
    return binary_is_text(body[:5000])


class _BrotliStream:
    """Brotli's decoder with the interface of zlib's. It does not support concatenated streams."""

    unused_data = b""

    def __init__(self) -> None:
        self._decoder = brotli.Decompressor()

    @property
    def eof(self) -> bool:
        """Return whether the stream has ended."""
        return bool(self._decoder.is_finished())

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        """Decode *data*; the result may exceed *max_length* bytes, but only slightly."""
        # Brotli's limit is for the growth of its buffer; the output may be up to twice as long.
        parts: list[bytes] = []
        room = max_length
        while room > 0 and not self.eof:
            step = min(room, _BROTLI_STEP)
            part = self._decoder.process(data, output_buffer_limit=step)
            data = b""  # the decoder has it now
            parts.append(part)
            room -= len(part)
            # It may accept more input while it still has decoded bytes.
            if not part and self._decoder.can_accept_more_data():
                break
        return b"".join(parts)


# Constructors of decoders, which all have the methods of zlib's decoder.
_gzip_stream = partial(isal_zlib.decompressobj, 31)
_zlib_stream = partial(isal_zlib.decompressobj, 15)
_raw_deflate_stream = partial(isal_zlib.decompressobj, -15)
_zstd_options = {int(zstd.DecompressionParameter.window_log_max): _ZSTD_WINDOW_LOG}
_zstd_stream = partial(zstd.ZstdDecompressor, options=_zstd_options)
# By coding, the constructor of its decoder, and the bytes at the beginning of a stream. They show
# whether another stream follows in the body.
_STREAMS: dict[bytes, tuple[Callable[[], Any], bytes | None]] = {
    b"gzip": (_gzip_stream, b"\x1f\x8b\x08"),
    b"x-gzip": (_gzip_stream, b"\x1f\x8b\x08"),
    b"deflate": (_zlib_stream, None),
    b"br": (_BrotliStream, None),
    b"zstd": (_zstd_stream, b"\x28\xb5\x2f\xfd"),
}


def _has_zlib_header(body: bytes) -> bool:
    """Return whether *body*, deflate data, has a zlib header, which many servers leave out."""
    return len(body) > 1 and body[0] & 15 == 8 and int.from_bytes(body[:2], "big") % 31 == 0


def _decode_parts(
    make_decoder: Callable[[], Any], body: bytes, limit: int, *, magic: bytes | None
) -> Decoded:
    """Decode the concatenated streams in *body*, to at most *limit* bytes.

    A further stream begins with *magic*; other bytes after a stream are padding.
    """
    parts: list[bytes] = []
    room = limit + 1  # one more byte shows whether the body is longer than the limit
    finding = ""
    for _ in range(_MAX_PARTS):
        stream = make_decoder()
        try:
            part = stream.decompress(body, room)
            rest = stream.unused_data
            ended = stream.eof
        except _ERRORS:
            part, ended = _salvage(make_decoder, body, room)
            rest = b""
        if not ended and len(part) < room:
            # Perhaps only the checksum is wrong, or missing.
            data = _without_checksum(make_decoder, body, room)
            if data is not None:
                part = data
                ended = True

        parts.append(part)
        room -= len(part)
        if room <= 0:
            return Decoded(b"".join(parts)[:limit], True, "")
        if not ended:
            finding = BROKEN
            break
        if magic is None or not rest.startswith(magic):
            break
        body = rest
    else:
        finding = BROKEN  # there are more than _MAX_PARTS streams
    return Decoded(parts[0] if len(parts) == 1 else b"".join(parts), False, finding)


def _without_checksum(make_decoder: Callable[[], Any], body: bytes, room: int) -> bytes | None:
    """Decode the deflate data in *body*, whose checksum is wrong or missing, up to *room* bytes.

    Returns None if the data is incomplete, or *make_decoder* is not for deflate data.
    """
    if make_decoder is _gzip_stream:
        start = _after_gzip_header(body)
    elif make_decoder is _zlib_stream:
        start = 2  # a zlib header has two bytes
    else:
        return None
    stream = _raw_deflate_stream()
    try:
        data: bytes = stream.decompress(body[start:], room)
    except _ERRORS:
        return None
    return data if stream.eof else None


def _after_gzip_header(body: bytes) -> int:
    """Return where the deflate data begins in the gzip file *body* (RFC 1952, section 2.3)."""
    flags = body[3] if len(body) > 10 else 0
    position = 10  # after the fields that every header has
    # FEXTRA: a field with its length.
    if flags & 4:
        position += 2 + int.from_bytes(body[position : position + 2], "little")
    # FNAME and FCOMMENT: texts that end with a zero.
    for flag in (8, 16):
        if flags & flag:
            position = body.find(b"\0", position) + 1 or len(body)
    # FHCRC: a checksum of two bytes.
    return position + 2 if flags & 2 else position


def _salvage(make_decoder: Callable[[], Any], body: bytes, room: int) -> tuple[bytes, bool]:
    """Decode the broken stream *body* up to the damage; return the output, and whether it ended.

    A call that raises an error loses the output that it had decoded so far. So the stream is
    decoded in small steps, and the step that fails byte by byte.
    """
    steps = [body[n : n + _STEP] for n in range(0, len(body), _STEP)]
    _, whole_steps, _ = _feed(make_decoder(), steps, room)
    start = _STEP * whole_steps
    tail = [body[n : n + 1] for n in range(start, min(start + _STEP, len(body)))]
    part, _, ended = _feed(make_decoder(), [body[:start], *tail] if start else tail, room)
    return part, ended


def _feed(stream: Any, pieces: list[bytes], room: int) -> tuple[bytes, int, bool]:
    """Decode *pieces* with the decoder *stream*, up to the first error or *room* bytes of output.

    Returns the output, the number of pieces decoded, and whether the stream has ended.
    """
    parts: list[bytes] = []
    decoded_count = 0
    ended = False
    for piece in pieces:
        try:
            part = stream.decompress(piece, room)
        except _ERRORS:
            break

        parts.append(part)
        room -= len(part)
        decoded_count += 1
        ended = stream.eof
        if room <= 0 or ended:
            break
    return b"".join(parts), decoded_count, ended
