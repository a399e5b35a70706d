"""HTTP messages of a Page as its WARC records store them: request, and response with its body.

Heads are stored byte for byte as received and sent, if every reader of WARC files gets the same
fields from them. All others are repaired:

- heads that are not well-formed: bare LF, folded or forged lines, zero bytes, invalid names;
- heads with two lengths, or with a transfer coding that readers do not undo in the same way;
- heads that are longer than readers accept, and heads of Pages without ``wire_head``.

In a repaired head

- line breaks in a field become spaces, and the longest fields are dropped if the head is too long;
- ``Transfer-Encoding`` is kept as ``X-Crawler-Transfer-Encoding``, and ``Content-Length`` is
  corrected, with the server's value kept as ``X-Crawler-Content-Length``;
- the status line of HTTP/2 and later is written as HTTP/1.1.

After a head with ``Transfer-Encoding: chunked`` the body is chunked again, in chunks of 1 MiB
instead of the server's: readers go by the head. The body is stored as it was before content
decoding. The payload digest covers the bytes after the head, chunks included, as warcio, FastWARC
and warcat compare it with those. So equal bodies have equal digests if both, or neither, came in
chunks.

Invariant: whatever the Page contains, a head is well-formed, and its lines are those of the
message.
"""

from __future__ import annotations

import hashlib
import re
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from webcrawl.items import Headers, Page

MAX_HEAD_BYTES = 32_000
"""The longest request or response head. FastWARC gives up on a whole file at a head of more than
32 kB, and no server may be able to spoil a file. So the longest fields are dropped, and
``DROPPED_FIELDS`` says how many."""
DROPPED_FIELDS = b"X-Crawler-Dropped-Fields: "

LINE_BREAKS = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]+")

_HEADER_BREAKS = re.compile(rb"[\r\n\x00]+")
_NOT_TOKEN = re.compile(rb"[^!#$%&'*+.^_`|~0-9A-Za-z-]")
_PROTOCOL = re.compile(r"HTTP/1\.[01]")
# Without comma-separated lengths or transfer codings, which the parser may have joined.
_FIELDS = (
    rb"(?:(?!(?i:content-length|transfer-encoding):[^\r\n]*,)"
    rb"[!#$%&'*+.^_`|~0-9A-Za-z-]++:[^\r\n\x00]*+\r\n)*+\r\n"
)  # fmt: skip
_RESPONSE_HEAD = re.compile(rb"HTTP/1\.[01] [0-9]{3}(?: [^\r\n\x00]*+)?+\r\n" + _FIELDS)
_REQUEST_HEAD = re.compile(
    rb"[!#$%&'*+.^_`|~0-9A-Za-z-]++ [!-~]++ HTTP/1\.1\r\n" + _FIELDS
)  # fmt: skip
# warcio recognizes "chunked" in this spelling only.
_CHUNKED = b"chunked"
# warcio joins a chunk from pieces of 16 kB, which takes seconds for a chunk of 50 MB.
_CHUNK_BYTES = 1 << 20
# Two base32 letters for every ten bits: 40 % of the time of base64.b32encode.
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_BASE32 = [first + second for first in _LETTERS for second in _LETTERS]
_PIECES = struct.Struct(">IBIBIBIB").unpack


class StoredResponse(NamedTuple):
    """The block of a response record.

    *payload* has the parts of what follows *head*, and *sha1* is their digest. *coded* is their
    length if they are already compressed, else 0.
    """

    head: bytes
    payload: tuple[bytes, ...]
    sha1: bytes
    coded: int


def stored_response(page: Page) -> StoredResponse:
    """Return the response of *page* as it is stored. Does not copy a body that is not chunked."""
    head, payload = _response(page)
    coded = sum(map(len, payload)) if len(page.wire_body) < len(page.body) else 0
    return StoredResponse(head, payload, sha1_of(*payload), coded)


def sha1_of(*parts: bytes) -> bytes:
    """Return the SHA-1 of all *parts* together."""
    sha1 = hashlib.sha1(usedforsecurity=False)
    for part in parts:
        sha1.update(part)
    return sha1.digest()


def labelled_digest(sha1: bytes) -> str:
    """Return ``sha1:`` and *sha1* in base32, the labelled digest of all WARC tools."""
    two = _BASE32
    a, b, c, d, e, f, g, h = _PIECES(sha1)  # forty bits in each pair
    return (
        f"sha1:{two[a >> 22]}{two[a >> 12 & 1023]}{two[a >> 2 & 1023]}{two[(a & 3) << 8 | b]}"
        f"{two[c >> 22]}{two[c >> 12 & 1023]}{two[c >> 2 & 1023]}{two[(c & 3) << 8 | d]}"
        f"{two[e >> 22]}{two[e >> 12 & 1023]}{two[e >> 2 & 1023]}{two[(e & 3) << 8 | f]}"
        f"{two[g >> 22]}{two[g >> 12 & 1023]}{two[g >> 2 & 1023]}{two[(g & 3) << 8 | h]}"
    )


def _response(page: Page) -> tuple[bytes, tuple[bytes, ...]]:
    codings = [value for name, value in page.headers if name.lower() == b"transfer-encoding"]
    is_chunked = bool(codings) and not _is_bodiless(page)
    if _is_readable(page, codings):
        return page.wire_head, _chunks(page.wire_body) if is_chunked else (page.wire_body,)
    protocol = page.protocol if _PROTOCOL.fullmatch(page.protocol) else "HTTP/1.1"
    reason = LINE_BREAKS.sub(" ", page.reason)
    start = as_bytes(f"{protocol} {page.status:03d} {reason}")
    return _message_head(start, _corrected_headers(page)), (page.wire_body,)


def stored_request(page: Page, target: str) -> bytes:
    """Return the request of *page*, whose URL is *target*, with its body if that is fully known."""
    head = _REQUEST_HEAD.match(page.wire_request)
    if head is not None and head.end() <= MAX_HEAD_BYTES:
        return page.wire_request
    method = _NOT_TOKEN.sub(b"", as_bytes(page.method)) or b"GET"
    authority, slash, path = target.partition("://")[2].partition("/")
    authority, mark, query = authority.partition("?")
    start = b"%s %s HTTP/1.1" % (method, as_bytes((slash or "/") + path + mark + query))
    headers = [
        field for field in page.request_headers if field[0].lower() != b"proxy-authorization"
    ]
    if not any(name.lower() == b"host" for name, _ in headers):
        headers = [(b"Host", as_bytes(authority.rpartition("@")[2])), *headers]
    return _message_head(start, headers)


def as_bytes(text: str) -> bytes:
    """Return *text* in UTF-8, with undecodable characters as their original bytes (PEP 383)."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # other lone surrogates, which do not come from decoding
        return text.encode("utf-8", "replace")


def _is_readable(page: Page, codings: list[bytes]) -> bool:
    """Return whether every reader gets the fields and the body of *page* from its ``wire_head``."""
    head = page.wire_head
    return (
        0 < len(head) <= MAX_HEAD_BYTES
        and (not codings or codings == [_CHUNKED])
        and head.count(b"\n") == len(page.headers) + 2
        and [name.lower() for name, _ in page.headers].count(b"content-length") <= 1
        and _RESPONSE_HEAD.fullmatch(head) is not None
    )


def _chunks(body: bytes) -> tuple[bytes, ...]:
    parts: list[bytes] = []
    for start in range(0, len(body), _CHUNK_BYTES):
        chunk = body[start : start + _CHUNK_BYTES]
        parts += (b"%x\r\n" % len(chunk), chunk, b"\r\n")
    return (*parts, b"0\r\n\r\n")


def _is_bodiless(page: Page) -> bool:
    """Return whether the answer may announce a body that it does not have (RFC 9110, 8.6)."""
    return page.method == "HEAD" or page.status in (204, 304) or page.status < 200


def _corrected_headers(page: Page) -> Headers:
    """Return the response headers, corrected to describe the body that is stored after them."""
    length = len(page.wire_body)
    bodiless = _is_bodiless(page)
    stored: Headers = []
    announced = changed = False
    for name, value in page.headers:
        lower = name.lower()
        if lower == b"transfer-encoding":
            changed = True
            stored.append((b"X-Crawler-Transfer-Encoding", value))
        elif lower == b"content-length" and not bodiless:
            if value.strip() == b"%d" % length and not announced:
                announced = True
                stored.append((name, value))
            else:
                changed = True
                stored.append((b"X-Crawler-Content-Length", value))
        else:
            stored.append((name, value))
    if changed and not announced and not bodiless:
        stored.append((b"Content-Length", b"%d" % length))
    return stored


def _message_head(start: bytes, headers: Headers) -> bytes:
    lines = [start, *(name + b": " + value for name, value in headers), b"\r\n"]
    head = b"\r\n".join(lines)
    names = [name for name, _ in headers]
    if (
        head.count(b"\n") == head.count(b"\r") == len(headers) + 2
        and b"\0" not in head
        and all(names)
        and _NOT_TOKEN.search(b"".join(names)) is None
        and len(head) <= MAX_HEAD_BYTES
    ):
        return head
    return _repaired_head(start, headers)


def _repaired_head(start: bytes, headers: Headers) -> bytes:
    """Return the head with valid field names and without line breaks in values.

    Line breaks come from folded lines, or from an attempt to forge a header. If the head is too
    long, the longest fields are dropped.
    """
    fields = [
        (_NOT_TOKEN.sub(b"", name) or b"X") + b": " + _HEADER_BREAKS.sub(b" ", value)
        for name, value in headers
    ]
    room = MAX_HEAD_BYTES - len(start) - 64
    excess = sum(map(len, fields)) + 2 * len(fields) - room
    dropped = 0
    while excess > 0 and fields:
        longest = max(fields, key=len)
        fields.remove(longest)
        excess -= len(longest) + 2
        dropped += 1
    if dropped:
        fields.append(DROPPED_FIELDS + b"%d" % dropped)
    return b"\r\n".join([start, *fields, b"\r\n"])
