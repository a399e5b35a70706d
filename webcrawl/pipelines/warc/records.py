"""Builds the WARC records of a Page (WARC 1.1, ISO 28500:2017; block layout by its annexes).

The functions are pure; ``writer`` calls them in its worker thread. A page becomes three records,
always in this order: ``response``, ``request``, ``metadata``. The last two refer to the first with
WARC-Concurrent-To. Before the metadata of a rendered page comes a ``conversion``, the HTML of its
DOM, which refers to the response. With WARC_TEXT there is one more, the main text. The first is a
``revisit`` if its payload is already stored, from another URL or an earlier visit. A page that was
not fetched with HTTP becomes two records: ``resource``, the bare document, and ``metadata``. If
there is no document, there is only ``metadata``, with the reason. The ``revisit`` of a 304 is
empty, and ``metadata`` has the head of the 304; it is the only record if the record with the
payload is unknown. Recovery relies on ``metadata`` being the last record. Invariant: for every page
the records are well-formed: their lengths are correct, and no value can break out of its line.

messages.py says which parts of a request and a response are stored. A ``resource`` contains what
was received: the listing of an FTP directory or the Gopher menu, not the page of links that the
crawl made from it. WARC-Protocol and WARC-Cipher-Suite follow iipc/warc-specifications.
"""

from __future__ import annotations

import itertools
import re
from base64 import b64encode
from functools import lru_cache
from typing import TYPE_CHECKING

from webcrawl.items import Link, Page, is_success
from webcrawl.pipelines.warc.messages import (
    DROPPED_FIELDS,
    LINE_BREAKS,
    StoredResponse,
    as_bytes,
    labelled_digest,
    sha1_of,
    stored_request,
    stored_response,
)
from webcrawl.randomness import random_hex
from webcrawl.urls.extraction.html import HTML_TYPES
from webcrawl.wording import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from webcrawl.pipelines.main_text import MainText
    from webcrawl.pipelines.warc.payloads import FirstCopy

#: Pages with longer URLs cannot be stored, because FastWARC would give up on the whole file.
MAX_URL_BYTES = 30_000
#: The end of a record.
TERMINATOR = b"\r\n\r\n"
# The fields of a revisit record that a response record has differently or not at all.
_REVISIT_FIELDS = re.compile(
    rb"\r\n(?:WARC-(?:Profile|Refers-To-[\w-]+|Truncated|Block-Digest)|Content-Length): [^\r]*"
)

#: HTTP status of an answer saying that the document has not changed.
NOT_MODIFIED = 304
_SAME_PAYLOAD = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
_NOT_MODIFIED_PROFILE = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
# The first tag of an HTML page (MIME Sniffing Standard, section 7.1), after any comments and an XML
# declaration.
_HTML = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:\s|<!--.*?-->|<\?xml[^>]*>)*+<"
    rb"(?:!doctype html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p)[\s>]",
    re.IGNORECASE | re.DOTALL,
)
_SNIFFED_BYTES = 1445
_URL_UNSAFE = re.compile(r"[^\x21-\x7e]")
_MEDIA_TYPE = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(?:; charset=[\w-]+)?", re.ASCII)
# Protocols without headers, and the media types of their listings, from which the crawl makes pages
# of links.
_LISTING_TYPES = {
    "FTP": "text/plain", "GOPHER": "application/gopher-menu", "GEMINI": "text/gemini"
}  # fmt: skip
_ADDRESS = re.compile(r"[0-9A-Fa-f.:]+")
# Protocols that have a name in WARC-Protocol.
_PROTOCOLS = frozenset(
    {"http/0.9", "http/1.0", "http/1.1", "h2", "h2c", "h3", "ftp", "gopher", "gemini"}
)
_TLS = re.compile(r"TLSv(1(?:\.[1-3])?)(?: (TLS_[A-Z0-9_]+)| .*)?")
# A record ID consists of a random number, drawn once per process, and a counter. It is a UUID of
# version 8 (RFC 9562, section 5.8), made in a third of the time of a random one.
_RANDOM = random_hex("record ids", 9)
_ID_PREFIX = f"<urn:uuid:{_RANDOM[:8]}-{_RANDOM[8:12]}-8{_RANDOM[12:15]}-a{_RANDOM[15:18]}-"
_COUNTER = itertools.count()


#: Name of the metadata field that has the response head as received, in base64, if the head in the
#: response record was repaired, or if the response was a 304.
RECEIVED_HEAD = "receivedHead"


def page_records(
    page: Page,
    *,
    response: StoredResponse | None = None,
    document_id: str = "",
    warcinfo_id: str = "",
    why: str = "",
    first: FirstCopy | None = None,
    text: MainText | None = None,
) -> tuple[bytes, ...]:
    """Return the uncompressed records of *page*; the last one is its metadata.

    response: the result of ``stored_response``, if it is already known.
    document_id: ID of the first record; a new one if it is empty.
    warcinfo_id: ID of the file's first record.
    why: the reason if the page does not go through the processing modules.
    first: a stored copy of the page's payload; the page then becomes a revisit record, which refers
        to that copy.
    text: main text of the page, which gets a conversion record of its own.

    Takes about 40 µs for 20 kB, copies the body once, and does no I/O. Raises ValueError if the
    page cannot be stored because its URL is too long.
    """
    target = _safe_url(page.url)
    if len(target) > MAX_URL_BYTES:
        raise ValueError(f"a URL of {len(target)} bytes cannot be stored: {target[:200]}...")
    origin = f"WARC-Target-URI: {target}\r\nWARC-Date: {_date(page.fetched_at)}\r\n"
    if warcinfo_id:
        origin += f"WARC-Warcinfo-ID: {warcinfo_id}\r\n"
    common = origin + _connection_fields(page)
    document_id = document_id or new_record_id()
    if not is_http(page):
        return _resource_records(page, common, why, document_id)

    head, payload, sha1, _ = response or stored_response(page)
    is_not_modified = page.status == NOT_MODIFIED and page.stored_at > 0
    metadata = _metadata(page, why)
    if is_not_modified or page.wire_head not in (b"", head):
        metadata += _warc_fields([(RECEIVED_HEAD, b64encode(page.wire_head or head).decode())])
    if is_not_modified and first is None:
        return (_metadata_record(common, metadata),)

    concurrent = f"{common}WARC-Concurrent-To: {document_id}\r\n"
    fields = f"{common}WARC-Payload-Digest: {labelled_digest(sha1)}\r\n"
    if first is None:
        kind = "response"
        block = (head, *payload)
        fields += _truncation_field(page, head)
        # Only what the payload confirms: the field is not for copies of Content-Type.
        if page.content_type in HTML_TYPES and _HTML.match(page.body, 0, _SNIFFED_BYTES):
            fields += f"WARC-Identified-Payload-Type: {page.content_type}\r\n"
    else:
        # pywb would show the header of a 304 without the payload.
        kind = "revisit"
        block = () if is_not_modified else (head,)
        fields = (common if is_not_modified else fields) + _revisit_fields(
            first, is_not_modified=is_not_modified
        )

    document = _record(kind, document_id, fields, "application/http;msgtype=response", *block)
    request = _record(
        "request",
        new_record_id(),
        concurrent,
        "application/http;msgtype=request",
        stored_request(page, target),
    )

    conversions = []
    # Without the type, datatrove guesses it, and takes text with code for a program.
    fields = f"{origin}WARC-Refers-To: {document_id}\r\nWARC-Identified-Payload-Type: "
    # A document that was not processed has no DOM of its own.
    if page.rendered and not (first is not None and why):
        body = page.rendered.encode("utf-8", "replace")
        identified = f"{fields}text/html\r\n"
        media_type = "text/html; charset=utf-8"
        conversions.append(_record("conversion", new_record_id(), identified, media_type, body))
    if text is not None:
        fields += "text/plain\r\n"
        if text.language:
            fields += f"WARC-Identified-Content-Language: {text.language}\r\n"
        body = text.text.encode("utf-8", "replace")
        conversions.append(_record("conversion", new_record_id(), fields, "text/plain", body))
    return document, request, *conversions, _metadata_record(concurrent, metadata)


def is_http(page: Page) -> bool:
    """Return whether *page* was fetched with HTTP.

    The URL decides, because users' download handlers may set any ``protocol``.
    """
    return page.url.startswith(("http:", "https:"))


def _revisit_fields(first: FirstCopy, *, is_not_modified: bool) -> str:
    """Return the fields of a revisit record that refers to the copy *first*.

    WARC-Refers-To is left out: readers do not need it, and warcat rejects a record that refers to
    a record in another file.
    """
    return (
        f"WARC-Profile: {_NOT_MODIFIED_PROFILE if is_not_modified else _SAME_PAYLOAD}\r\n"
        f"WARC-Refers-To-Target-URI: {_safe_url(first.url)}\r\n"
        f"WARC-Refers-To-Date: {_date(first.at)}\r\n"
        # The standard requires this because the payload is left out.
        + ("" if is_not_modified else "WARC-Truncated: length\r\n")
    )


def _connection_fields(page: Page) -> str:
    """Return the header lines that describe the connection over which *page* was received."""
    fields = ""
    if _ADDRESS.fullmatch(page.ip):
        fields += f"WARC-IP-Address: {page.ip}\r\n"
    protocol = page.protocol.lower()
    if protocol in _PROTOCOLS:
        fields += f"WARC-Protocol: {protocol}\r\n"
    tls = _TLS.fullmatch(page.tls)
    if tls is not None:
        version, suite = tls.groups()
        # OpenSSL calls version 1.0 "TLSv1".
        fields += f"WARC-Protocol: tls/{version if '.' in version else '1.0'}\r\n"
        if suite:
            fields += f"WARC-Cipher-Suite: {suite}\r\n"
    return fields


def _resource_records(page: Page, common: str, why: str, document_id: str) -> tuple[bytes, ...]:
    """Return the records of a *page* that was not fetched with HTTP.

    *common* are the header lines of all its records, *why* is the reason if it is not processed,
    and *document_id* becomes the ID of the resource record.
    """
    if not is_success(page.status):
        # There is no document, and no response record that would have the status.
        fields = [("status", str(page.status)), ("reason", page.reason)]
        return (_metadata_record(common, _warc_fields(fields) + _metadata(page, why)),)
    # There is no payload digest: it would be that of the block, and validators do not look for it.
    lines = common + _truncation_field(page)
    resource = _record("resource", document_id, lines, _resource_type(page), page.wire_body)
    concurrent = f"{common}WARC-Concurrent-To: {document_id}\r\n"
    return resource, _metadata_record(concurrent, _metadata(page, why))


def _resource_type(page: Page) -> str:
    """Return the media type of what was received for *page*."""
    if page.wire_body is not page.body and page.content_type == "text/html":
        return _LISTING_TYPES.get(page.protocol, "application/octet-stream")
    match = _MEDIA_TYPE.fullmatch(page.header("Content-Type") or "")
    return match[0] if match else "application/octet-stream"


def _truncation_field(page: Page, head: bytes = b"") -> str:
    """Return the header line that marks the record of *page* as truncated, or "".

    The record is marked if the body was cut, or if fields of its *head* were dropped. For the
    latter the reason is "long-headers", as in Heritrix.
    """
    why = page.truncated or ("long-headers" if DROPPED_FIELDS in head else "")
    return f"WARC-Truncated: {why}\r\n" if why else ""


def _metadata_record(fields: str, block: bytes) -> bytes:
    return _record("metadata", new_record_id(), fields, "application/warc-fields", block)


def warcinfo_record(
    *, filename: str, at: float, fields: Iterable[tuple[str, str]], record_id: str = ""
) -> bytes:
    """Return the first record of the file *filename*, which describes the software.

    *at* is the time of the record in epoch seconds, and *fields* are the lines of its block.
    """
    return _record(
        "warcinfo",
        record_id or new_record_id(),
        f"WARC-Date: {_date(at)}\r\nWARC-Filename: {filename}\r\n",
        "application/warc-fields",
        _warc_fields(fields),
    )


def _record(kind: str, record_id: str, fields: str, content_type: str, *block: bytes) -> bytes:
    """Return a record of the type *kind*, whose block consists of the parts *block*.

    *fields* are further header lines; their values must not contain line breaks.
    """
    head = (
        f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: {record_id}\r\n{fields}"
        f"WARC-Block-Digest: {labelled_digest(sha1_of(*block))}\r\n"
        f"Content-Type: {content_type}\r\nContent-Length: {sum(map(len, block))}\r\n\r\n"
    )
    return b"".join((as_bytes(head), *block, TERMINATOR))


def as_response(revisit: bytes, payload: bytes) -> bytes:
    """Return the record *revisit* as a response record with the *payload* that it left out."""
    fields, _, block = revisit.removesuffix(TERMINATOR).partition(b"\r\n\r\n")
    fields = _REVISIT_FIELDS.sub(b"", fields).replace(b": revisit", b": response", 1)
    digest = labelled_digest(sha1_of(block, payload))
    size = len(block) + len(payload)
    added = f"\r\nWARC-Block-Digest: {digest}\r\nContent-Length: {size}\r\n\r\n"
    return b"".join((fields, added.encode(), block, payload, TERMINATOR))


def _metadata(page: Page, why: str) -> bytes:
    """Return the block of the metadata record of *page*, with its links.

    *why* is the reason if the page does not go through the processing modules, else "".
    """
    fields = [
        ("depth", str(page.depth)),
        ("kind", page.kind),
        ("notProcessed", why),
        ("via", _safe_url(page.via)),
        ("fetchTimeMs", str(round(page.download_seconds * 1000))),
        ("attempts", str(page.attempts or "")),
        ("charset", page.charset),
        ("flags", page.flags),
        ("robotsLine", page.robots_line),
        ("rights", page.rights.as_json if page.rights.purpose else ""),
        ("redirectTarget", _safe_url(page.redirect_target)),
    ]
    return _warc_fields(field for field in fields if field[1]) + _outlinks(page.links)


def _outlinks(links: Sequence[Link]) -> bytes:
    """Return one ``outlink: url kind text`` line per link.

    All links together are checked for line breaks, which is faster than checking each of them.
    """
    if not links:
        return b""
    values = [f"{link.url} {link.kind} {link.text}" for link in links]
    urls = "".join([link.url for link in links])
    if urls.isascii() and " " not in urls and "".join(values).isprintable():
        return ("outlink: " + "\r\noutlink: ".join(values) + "\r\n").encode()
    return _warc_fields(
        ("outlink", f"{_safe_url(link.url)} {link.kind} {link.text}") for link in links
    )


def _warc_fields(fields: Iterable[tuple[str, str]]) -> bytes:
    """Return *fields* as an ``application/warc-fields`` block; line breaks become spaces."""
    lines = []
    for name, value in fields:
        text = value if value.isprintable() else LINE_BREAKS.sub(" ", value)
        lines.append(f"{name}: {text.rstrip()}\r\n")
    return "".join(lines).encode("utf-8", "replace")


def _safe_url(url: str) -> str:
    """Percent-encode characters of *url* that are unsafe in a header. Keeps normalized URLs."""
    return _URL_UNSAFE.sub(_percent, url)


def _percent(char: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in char[0].encode("utf-8", "replace"))


def new_record_id() -> str:
    """Return a new WARC-Record-ID."""
    return f"{_ID_PREFIX}{next(_COUNTER):012x}>"


def _date(at: float) -> str:
    """Return the epoch seconds *at* in ISO 8601, with microseconds."""
    second, microsecond = divmod(round(at * 1_000_000), 1_000_000)
    return f"{_whole_second(second)[:-1]}.{microsecond:06d}Z"


# Pages are stored in the order of time. Formatting a second takes ten times as long as the rest.
_whole_second = lru_cache(maxsize=64)(iso_time)
