"""WARC records of a Page, as bytes (WARC 1.1, ISO 28500:2017; block layout by its annexes).

Pure functions, called by ``writer`` in its worker thread. A page becomes three records, always in
this order: ``response``, ``request``, ``metadata``; the latter two point to the first by
WARC-Concurrent-To. A page that did not come by HTTP becomes two: ``resource``, which is the bare
document, and ``metadata``; without a document ``metadata`` alone, with the reason. Recovery relies
on ``metadata`` being the last. Invariant: whatever the page holds, a record is well-formed: its
lengths are true, and no value can break out of its line.

The block of a response is not byte for byte what the server sent:

- The body is what came after transfer decoding and before content decoding, because that is what
  replay tools expect. So ``Transfer-Encoding`` is kept as ``X-Crawler-Transfer-Encoding``, and
  ``Content-Length`` is corrected, the server's own being kept as ``X-Crawler-Content-Length``.
- A ``resource`` is what came over the wire: of an FTP directory the listing, of a Gopher menu the
  menu, not the pages of links that the crawl made of them.
- The status line of HTTP/2 and later is written as HTTP/1.1. Hop-by-hop fields (``Connection``,
  ``Keep-Alive``, ``Trailer``) stay as received: they describe the exchange.
"""

from __future__ import annotations

import base64
import hashlib
import re
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from webcrawl.items import Headers, Link, Page

MAX_HEAD_BYTES: Final = 32_000
"""Of a request or response head. FastWARC gives up a whole file at one of more than 32 kB, and no
server must be able to spoil a file; so the longest fields are dropped and
``X-Crawler-Dropped-Fields`` says how many."""

MAX_URL_BYTES: Final = 30_000
"""A page with a longer URL cannot be stored, for the same reason."""

_TERMINATOR: Final = b"\r\n\r\n"
_URL_UNSAFE: Final = re.compile(r"[^\x21-\x7e]")
_LINE_BREAKS: Final = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]+")
_HEADER_BREAKS: Final = re.compile(rb"[\r\n\x00]+")
_NOT_TOKEN: Final = re.compile(rb"[^!#$%&'*+.^_`|~0-9A-Za-z-]")
_PROTOCOL: Final = re.compile(r"HTTP/1\.[01]")
_MEDIA_TYPE: Final = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(?:; charset=[\w-]+)?", re.ASCII)
# Protocols without headers, and the type of what the crawl makes a page of links of.
_LISTING_TYPES: Final = {"FTP": "text/plain", "GOPHER": "application/gopher-menu"}
_ADDRESS: Final = re.compile(r"[0-9A-Fa-f.:]+")


def page_records(page: Page) -> tuple[bytes, ...]:
    """The records of *page*, not compressed; the last one is its metadata.

    About 70 µs for 20 kB, one copy of the body, no I/O. ValueError for a page that cannot be
    stored: one whose URL is too long.
    """
    date = _date(page.fetched_at)
    target = _safe_url(page.url)
    if len(target) > MAX_URL_BYTES:
        raise ValueError(f"a URL of {len(target)} bytes cannot be stored: {target[:200]}...")
    common = [("WARC-Target-URI", target), ("WARC-Date", date)]
    if _ADDRESS.fullmatch(page.ip):
        common.append(("WARC-IP-Address", page.ip))
    if page.protocol in _LISTING_TYPES:
        return _resource_records(page, common)
    document_id = _record_id()
    concurrent = [*common, ("WARC-Concurrent-To", document_id)]
    response = _record(
        "response",
        document_id,
        _cut(page, [*common, ("WARC-Payload-Digest", _digest(page.wire_body))]),
        content_type="application/http;msgtype=response",
        head=_response_head(page),
        body=page.wire_body,
    )
    request = _record(
        "request",
        _record_id(),
        concurrent,
        content_type="application/http;msgtype=request",
        head=_request_head(page, target),
    )
    return response, request, _metadata_record(concurrent, _metadata(page))


def _resource_records(page: Page, common: list[tuple[str, str]]) -> tuple[bytes, ...]:
    """The records of a page that did not come by HTTP."""
    if page.status != 200:
        said = [("status", str(page.status)), ("reason", page.reason)]
        return (_metadata_record(common, _warc_fields(said) + _metadata(page)),)
    document_id = _record_id()
    resource = _record(
        "resource",
        document_id,
        # No digest of a payload: it would be the block's, and validators do not find it there.
        _cut(page, common),
        content_type=_resource_type(page),
        head=page.wire_body,
    )
    concurrent = [*common, ("WARC-Concurrent-To", document_id)]
    return resource, _metadata_record(concurrent, _metadata(page))


def _resource_type(page: Page) -> str:
    """The media type of what came over the wire."""
    if page.wire_body is not page.body and page.content_type == "text/html":
        return _LISTING_TYPES[page.protocol]
    found = _MEDIA_TYPE.fullmatch(page.header("Content-Type") or "")
    return found[0] if found else "application/octet-stream"


def _cut(page: Page, fields: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The fields of a document's record, with the one that marks it as truncated."""
    return [*fields, ("WARC-Truncated", page.truncated)] if page.truncated else fields


def _metadata_record(fields: list[tuple[str, str]], block: bytes) -> bytes:
    return _record(
        "metadata", _record_id(), fields, content_type="application/warc-fields", head=block
    )


def warcinfo_record(*, filename: str, at: float, fields: Iterable[tuple[str, str]]) -> bytes:
    """The first record of every file, which describes the software; *at* is epoch seconds."""
    return _record(
        "warcinfo",
        _record_id(),
        [("WARC-Date", _date(at)), ("WARC-Filename", filename)],
        content_type="application/warc-fields",
        head=_warc_fields(fields),
    )


def _record(
    kind: str,
    record_id: str,
    fields: list[tuple[str, str]],
    *,
    content_type: str,
    head: bytes,
    body: bytes = b"",
) -> bytes:
    """One record whose block is *head* and *body*; the values must be free of line breaks."""
    lines = [
        "WARC/1.1",
        f"WARC-Type: {kind}",
        f"WARC-Record-ID: {record_id}",
        *(f"{name}: {value}" for name, value in fields),
        f"WARC-Block-Digest: {_digest(head, body)}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(head) + len(body)}",
    ]
    return b"".join((_bytes("\r\n".join(lines)), _TERMINATOR, head, body, _TERMINATOR))


def _response_head(page: Page) -> bytes:
    protocol = page.protocol if _PROTOCOL.fullmatch(page.protocol) else "HTTP/1.1"
    reason = _LINE_BREAKS.sub(" ", page.reason)
    start = _bytes(f"{protocol} {page.status:03d} {reason}")
    return _message_head(start, _stored_headers(page))


def _stored_headers(page: Page) -> Headers:
    """The response headers, corrected to describe the body that is stored behind them."""
    length = len(page.wire_body)
    # These answers may announce the length of a body that they do not have (RFC 9110, 8.6).
    bodiless = page.method == "HEAD" or page.status in (204, 304) or page.status < 200
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


def _request_head(page: Page, target: str) -> bytes:
    method = _NOT_TOKEN.sub(b"", _bytes(page.method)) or b"GET"
    authority, slash, path = target.partition("://")[2].partition("/")
    authority, mark, query = authority.partition("?")
    start = b"%s %s HTTP/1.1" % (method, _bytes((slash or "/") + path + mark + query))
    headers = page.request_headers
    if not any(name.lower() == b"host" for name, _ in headers):
        headers = [(b"Host", _bytes(authority.rpartition("@")[2])), *headers]
    return _message_head(start, headers)


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
    return _mended_head(start, headers)


def _mended_head(start: bytes, headers: Headers) -> bytes:
    """The head with valid field names, with spaces for line breaks in values (folded by the server,
    or an attempt to forge a header), and without the longest fields if it is too long."""
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
        fields.append(b"X-Crawler-Dropped-Fields: %d" % dropped)
    return b"\r\n".join([start, *fields, b"\r\n"])


def _metadata(page: Page) -> bytes:
    fields = [("depth", str(page.depth)), ("kind", page.kind)]
    if page.via:
        fields.append(("via", _safe_url(page.via)))
    fields.append(("fetchTimeMs", str(round(page.download_seconds * 1000))))
    if page.attempts:
        fields.append(("attempts", str(page.attempts)))
    if page.charset:
        fields.append(("charset", page.charset))
    if page.redirect_target:
        fields.append(("redirectTarget", _safe_url(page.redirect_target)))
    return _warc_fields(fields) + _outlinks(page.links)


def _outlinks(links: Sequence[Link]) -> bytes:
    """One ``outlink: url kind text`` line per link; checked for line breaks once, not per link."""
    values = [f"{link.url} {link.kind} {link.text}" for link in links]
    urls = "".join([link.url for link in links])
    if urls.isascii() and " " not in urls and "".join(values).isprintable():
        return "".join([f"outlink: {value}\r\n" for value in values]).encode()
    return _warc_fields(
        ("outlink", f"{_safe_url(link.url)} {link.kind} {link.text}") for link in links
    )


def _warc_fields(fields: Iterable[tuple[str, str]]) -> bytes:
    """An ``application/warc-fields`` block; line breaks in values become spaces."""
    lines = [f"{name}: {_LINE_BREAKS.sub(' ', value).rstrip()}\r\n" for name, value in fields]
    return "".join(lines).encode("utf-8", "replace")


def _safe_url(url: str) -> str:
    """*url* without characters that end a header value; a normalized URL is unchanged."""
    return _URL_UNSAFE.sub(_percent, url)


def _percent(char: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in char[0].encode("utf-8", "replace"))


def _record_id() -> str:
    return f"<urn:uuid:{uuid.uuid4()}>"


def _date(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _bytes(text: str) -> bytes:
    """*text* in UTF-8, with the original bytes of what could not be decoded (PEP 383)."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # other lone surrogates, which nothing was decoded from
        return text.encode("utf-8", "replace")


def _digest(*parts: bytes) -> str:
    """``sha1:`` in base32: the labelled digest of all WARC tools."""
    sha1 = hashlib.sha1(usedforsecurity=False)
    for part in parts:
        sha1.update(part)
    return "sha1:" + base64.b32encode(sha1.digest()).decode("ascii")
