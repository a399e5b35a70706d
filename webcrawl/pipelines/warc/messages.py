"""Prepares the HTTP request and response of a Page for its WARC records.

Heads are stored byte for byte as they were sent or received, if every reader of WARC files gets the
same fields from them. All other heads are repaired:

- heads that are not well-formed: bare LF, folded or forged lines, zero bytes, invalid names;
- heads with two lengths, or with a transfer coding that not all readers undo in the same way;
- heads that are longer than readers accept, and heads of Pages without ``wire_head``.

In a repaired head

- line breaks in a field become spaces, and the longest fields are dropped if the head is too long;
- ``Transfer-Encoding`` is kept as ``X-Crawler-Transfer-Encoding``, and ``Content-Length`` is
  corrected, with the server's value kept as ``X-Crawler-Content-Length``;
- the status line of HTTP/2 and later is written as HTTP/1.1.

After a head with ``Transfer-Encoding: chunked``, the body is chunked again, because readers follow
the head; the chunks have 1 MiB, not the sizes that the server chose. The body is stored as it was
before content decoding. The payload digest covers the bytes after the head, including chunk
headers, because warcio, FastWARC and warcat compare it with those. Equal bodies therefore have
equal digests if both or neither came in chunks.

Invariant: for every Page, a head is well-formed, and its lines are those of the
message.
"""

from __future__ import annotations

import hashlib
import re
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from webcrawl.items import Headers, Page

#: Limit of a request or response head. FastWARC gives up on a whole file at a head of more than 32
#: kB, and no server must be able to spoil a file. The longest fields of longer heads are therefore
#: dropped, and ``DROPPED_FIELDS`` says how many.
MAX_HEAD_BYTES = 32_000
DROPPED_FIELDS = b"X-Crawler-Dropped-Fields: "

LINE_BREAKS = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]+")

_HEADER_BREAKS = re.compile(rb"[\r\n\x00]+")
_NOT_TOKEN = re.compile(rb"[^!#$%&'*+.^_`|~0-9A-Za-z-]")
_PROTOCOL = re.compile(r"HTTP/1\.[01]")
# Fields except for comma-separated lengths or transfer codings, which the parser may have joined.
_FIELDS = (
    rb"(?:(?!(?i:content-length|transfer-encoding):[^\r\n]*,)"
    rb"[!#$%&'*+.^_`|~0-9A-Za-z-]++:[^\r\n\x00]*+\r\n)*+\r\n"
)  # fmt: skip
_RESPONSE_HEAD = re.compile(rb"HTTP/1\.[01] [0-9]{3}(?: [^\r\n\x00]*+)?+\r\n" + _FIELDS)
_REQUEST_HEAD = re.compile(
    rb"[!#$%&'*+.^_`|~0-9A-Za-z-]++ [!-~]++ HTTP/1\.1\r\n" + _FIELDS
)  # fmt: skip
# warcio recognizes only this spelling.
_CHUNKED = b"chunked"
# Size of stored chunks. warcio joins a chunk from pieces of 16 kB, which takes seconds for 50 MB.
_CHUNK_BYTES = 1 << 20
# The two base32 letters for each number of ten bits. Encoding with this table takes 40 % of the
# time of base64.b32encode.
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_LETTER_PAIRS = [first + second for first in _LETTERS for second in _LETTERS]
# Unpacks a SHA-1 into four pairs of 32 and 8 bits.
_UNPACK_SHA1 = struct.Struct(">IBIBIBIB").unpack


class StoredResponse(NamedTuple):
    """Block of a response record.

    *payload* has the parts of what follows *head*, and *sha1* is their digest. *coded* is the
    length of the payload if it is already compressed, else 0.
    """

    head: bytes
    payload: tuple[bytes, ...]
    sha1: bytes
    coded: int


def stored_response(page: Page) -> StoredResponse:
    """Return the response of *page* as it will be stored. Copies the body only if it is chunked."""
    head, payload = _response(page)
    coded = sum(map(len, payload)) if len(page.wire_body) < len(page.body) else 0
    return StoredResponse(head, payload, sha1_of(*payload), coded)


def sha1_of(*parts: bytes) -> bytes:
    """Return the SHA-1 digest of *parts* in sequence."""
    sha1 = hashlib.sha1(usedforsecurity=False)
    for part in parts:
        sha1.update(part)
    return sha1.digest()


def labelled_digest(sha1: bytes) -> str:
    """Return the digest *sha1* in base32 with the label ``sha1:``, as all WARC tools write it."""
    # Each line below writes 40 bits, of a number of 32 bits and one of 8, as four pairs of letters
    # of 10 bits each.
    pair = _LETTER_PAIRS
    a, b, c, d, e, f, g, h = _UNPACK_SHA1(sha1)
    return (
        f"sha1:{pair[a >> 22]}{pair[a >> 12 & 1023]}{pair[a >> 2 & 1023]}{pair[(a & 3) << 8 | b]}"
        f"{pair[c >> 22]}{pair[c >> 12 & 1023]}{pair[c >> 2 & 1023]}{pair[(c & 3) << 8 | d]}"
        f"{pair[e >> 22]}{pair[e >> 12 & 1023]}{pair[e >> 2 & 1023]}{pair[(e & 3) << 8 | f]}"
        f"{pair[g >> 22]}{pair[g >> 12 & 1023]}{pair[g >> 2 & 1023]}{pair[(g & 3) << 8 | h]}"
    )


def _response(page: Page) -> tuple[bytes, tuple[bytes, ...]]:
    """Return the head of the stored response of *page*, and the parts of its payload."""
    codings = [value for name, value in page.headers if name.lower() == b"transfer-encoding"]
    is_chunked = bool(codings) and not _is_bodiless(page)
    if _is_readable(page, codings):
        # The body was received without its chunks, but readers expect what the head says.
        return page.wire_head, _chunks(page.wire_body) if is_chunked else (page.wire_body,)

    # Make a head that says that the body is not chunked. HTTP/2 has no status line of its own.
    protocol = page.protocol if _PROTOCOL.fullmatch(page.protocol) else "HTTP/1.1"
    reason = LINE_BREAKS.sub(" ", page.reason)
    status_line = as_bytes(f"{protocol} {page.status:03d} {reason}")
    return _message_head(status_line, _corrected_headers(page)), (page.wire_body,)


def stored_request(page: Page, target: str) -> bytes:
    """Return the stored request of *page*, whose URL is *target*.

    It includes the body only if the request is stored as it was sent.
    """
    head = _REQUEST_HEAD.match(page.wire_request)
    if head is not None and head.end() <= MAX_HEAD_BYTES:
        return page.wire_request
    method = _NOT_TOKEN.sub(b"", as_bytes(page.method)) or b"GET"
    authority, slash, path = target.partition("://")[2].partition("/")
    # A URL without a path may have a query: http://example.org?q
    authority, question_mark, query = authority.partition("?")
    request_target = (slash or "/") + path + question_mark + query
    request_line = b"%s %s HTTP/1.1" % (method, as_bytes(request_target))
    # The password of the proxy was not meant for the server, so it is not stored.
    headers = [
        field for field in page.request_headers if field[0].lower() != b"proxy-authorization"
    ]
    if not any(name.lower() == b"host" for name, _ in headers):
        # The authority may begin with a user name and an at sign.
        headers = [(b"Host", as_bytes(authority.rpartition("@")[2])), *headers]
    return _message_head(request_line, headers)


def as_bytes(text: str) -> bytes:
    """Encode *text* in UTF-8; surrogate escapes become their original bytes (PEP 383)."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # for lone surrogates that do not come from decoding
        return text.encode("utf-8", "replace")


def _is_readable(page: Page, codings: list[bytes]) -> bool:
    """Return whether every reader gets the right fields and body from ``wire_head`` of *page*.

    *codings* are the values of its Transfer-Encoding fields. Readers differ in what they do with
    any coding except for exactly "chunked", and with a second Content-Length.
    """
    head = page.wire_head
    # Besides the fields, the head has the status line and the empty line at its end.
    line_count = len(page.headers) + 2
    return (
        0 < len(head) <= MAX_HEAD_BYTES
        and (not codings or codings == [_CHUNKED])
        and head.count(b"\n") == line_count
        and [name.lower() for name, _ in page.headers].count(b"content-length") <= 1
        and _RESPONSE_HEAD.fullmatch(head) is not None
    )


def _chunks(body: bytes) -> tuple[bytes, ...]:
    """Return the parts of *body* in the chunked transfer coding."""
    parts: list[bytes] = []
    for start in range(0, len(body), _CHUNK_BYTES):
        chunk = body[start : start + _CHUNK_BYTES]
        parts += (b"%x\r\n" % len(chunk), chunk, b"\r\n")
    return (*parts, b"0\r\n\r\n")


def _is_bodiless(page: Page) -> bool:
    """Return whether the response of *page* has no body, even with a length (RFC 9110, 8.6)."""
    return page.method == "HEAD" or page.status in (204, 304) or page.status < 200


def _corrected_headers(page: Page) -> Headers:
    """Return the response headers of *page*, corrected to match the body stored after them.

    That body is not chunked. Fields that do not match it are kept under another name.
    """
    length = len(page.wire_body)
    is_bodiless = _is_bodiless(page)
    stored: Headers = []
    has_length = False
    is_changed = False
    for name, value in page.headers:
        lower = name.lower()
        if lower == b"transfer-encoding":
            is_changed = True
            stored.append((b"X-Crawler-Transfer-Encoding", value))
        elif lower == b"content-length" and not is_bodiless:
            if value.strip() == b"%d" % length and not has_length:
                has_length = True
                stored.append((name, value))
            else:
                is_changed = True
                stored.append((b"X-Crawler-Content-Length", value))
        else:
            stored.append((name, value))
    # A response that had neither field is left so: its body ends with the record.
    if is_changed and not has_length and not is_bodiless:
        stored.append((b"Content-Length", b"%d" % length))
    return stored


def _message_head(start_line: bytes, headers: Headers) -> bytes:
    """Return the head of a message, repaired if it would not be well-formed or is too long."""
    lines = [start_line, *(name + b": " + value for name, value in headers), b"\r\n"]
    head = b"\r\n".join(lines)
    names = [name for name, _ in headers]
    # A line break in a name or value would make more lines than the start line, the fields and the
    # empty line at the end.
    if (
        head.count(b"\n") == head.count(b"\r") == len(headers) + 2
        and b"\0" not in head
        and all(names)
        and _NOT_TOKEN.search(b"".join(names)) is None
        and len(head) <= MAX_HEAD_BYTES
    ):
        return head
    return _repaired_head(start_line, headers)


def _repaired_head(start_line: bytes, headers: Headers) -> bytes:
    """Return the head of a message, with valid field names and no line breaks in values.

    Line breaks come from folded lines, or from attempts to forge a header. If the head is too long,
    the longest fields are dropped.
    """
    fields = [
        (_NOT_TOKEN.sub(b"", name) or b"X") + b": " + _HEADER_BREAKS.sub(b" ", value)
        for name, value in headers
    ]
    # 64 bytes are enough for the field that says how many were dropped.
    max_bytes = MAX_HEAD_BYTES - len(start_line) - 64
    # Each field also has a line break of two bytes.
    excess = sum(map(len, fields)) + 2 * len(fields) - max_bytes
    dropped = 0
    while excess > 0 and fields:
        longest = max(fields, key=len)
        fields.remove(longest)
        excess -= len(longest) + 2
        dropped += 1
    if dropped:
        fields.append(DROPPED_FIELDS + b"%d" % dropped)
    return b"\r\n".join([start_line, *fields, b"\r\n"])
