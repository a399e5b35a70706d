"""Reads the Pages in a WARC file, which this crawler or any other has written.

The file is read once, with one page in memory. For any content of the file, only DamagedWarcError
and OSError are raised, and no body is longer than *max_bytes*.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from base64 import b64decode
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from fastwarc.stream_io import ChunkedReader
from fastwarc.warc import ArchiveIterator, HeaderMap, WarcRecord, WarcRecordType

from webcrawl.configuration.decoding import UndecodableError, json_decoder
from webcrawl.items import Headers, Page, StoredRecord
from webcrawl.net.content_type import content_type_of
from webcrawl.net.http.decoding import codings_of, decode
from webcrawl.rights.statements import Rights
from webcrawl.signals import ROBOTS
from webcrawl.urls import Link

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_GZIP_MAGIC = b"\x1f\x8b"
_STEP_BYTES = 1 << 16
_MAX_METADATA_BYTES = 1 << 24
_MAX_HEADER_BYTES = 1 << 18
_MAX_OUTLINKS = 50_000
# Headers that the WARC writer renames, with the names that the server sent them under; see
# pipelines/warc/records.py.
_RENAMED_HEADERS = {
    b"x-crawler-transfer-encoding": b"Transfer-Encoding",
    b"x-crawler-content-length": b"Content-Length",
}
_RECEIVED_HEAD = re.compile(rb"^receivedHead: (\S+)", re.MULTILINE)
_decode_rights = json_decoder(Rights)


class DamagedWarcError(Exception):
    """Raised for a file that cannot be read after the record at *offset*."""

    def __init__(self, path: Path, offset: int, reason: str) -> None:
        super().__init__(f"{path} is damaged after byte {offset}: {reason}")
        self.offset = offset


class Stored(NamedTuple):
    """A stored page, and the byte offset of its first record or line in its file."""

    page: Page
    offset: int


def stored_pages(
    path: Path, *, start: int, max_bytes: int, robots: bool = False
) -> Iterator[Stored]:
    """Yield the pages in the file *path* (gzip or not), from the record at the offset *start* on.

    Only pages that went through processing modules are yielded, which excludes documents seen
    before. With *robots*, robots.txt files are also yielded. A body longer than *max_bytes*, as
    stored or decoded, is cut, and the page is marked as truncated. Raises DamagedWarcError after
    the last readable page, and OSError if the file cannot be opened.
    """
    offset = start  # of the last page's record, where the damage begins if a record is unreadable
    # The last page, and the ID of its record. Records that belong to it follow, so it is yielded
    # when the record of the next page begins. It is None again if it turns out not to be wanted.
    pending: Stored | None = None
    record_id = ""
    last_position = -1
    with path.open("rb") as file:
        file.seek(start)
        try:
            records = ArchiveIterator(file, parse_http=False)
            for record in records:
                last_position = record.stream_pos
                # If the page has no position yet, its own record ends where this one begins.
                _set_record(pending, record_id, path, last_position)
                record_type = record.record_type
                if record_type in (WarcRecordType.response, WarcRecordType.resource):
                    if pending is not None:
                        yield pending
                        pending = None
                    offset = last_position
                    pending = _document(record, offset, max_bytes)
                    record_id = record.record_id or ""
                elif pending and record_type == WarcRecordType.conversion:  # the rendered page
                    is_html = (record.headers.get("Content-Type") or "").startswith("text/html")
                    if is_html and record.headers.get("WARC-Refers-To", "") == record_id:
                        html = _read_block(record, max_bytes)
                        pending.page.rendered = html.decode("utf-8", "replace")
                elif pending and record.headers.get("WARC-Concurrent-To", "") == record_id:
                    if record_type == WarcRecordType.request:
                        _add_request(pending.page, record, max_bytes)
                    elif record_type == WarcRecordType.metadata:
                        is_processed = _add_metadata(pending.page, record)
                        # Pages that were not processed are left out, but for robots.txt files.
                        if not is_processed and not (robots and pending.page.kind == ROBOTS):
                            pending = None
            _set_record(pending, record_id, path, path.stat().st_size)
            # The loop also ends, without an error, where a file was cut within its last record.
            read_to_end(file, last_position, start=start)
        except (OSError, ValueError, EOFError, zlib.error) as error:
            if pending is not None:
                yield pending
            raise DamagedWarcError(path, offset, str(error)) from error
    if pending is not None:
        yield pending


def _set_record(stored: Stored | None, record_id: str, path: Path, end: int) -> None:
    """Note where *stored* comes from, unless it is known. The record ends at the offset *end*."""
    if stored is None or stored.page.warc_record is not None:
        return
    length = end - stored.offset
    stored.page.warc_record = StoredRecord(record_id, str(path), stored.offset, length)


def target_urls(path: Path, *, start: int) -> Iterator[tuple[str, int]]:
    """Yield the URLs of the documents in the file *path*, with the offsets of their records.

    Starts at the offset *start*. Documents seen before are included. No body is read. Raises
    OSError, ValueError, EOFError or zlib.error where the file is damaged.
    """
    kinds = WarcRecordType.response | WarcRecordType.resource | WarcRecordType.revisit
    with path.open("rb") as file:
        file.seek(start)
        for record in ArchiveIterator(file, record_types=kinds, parse_http=False):
            url = (record.headers.get("WARC-Target-URI") or "").strip("<>")
            yield url, record.stream_pos


def http_heads(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the HTTP head of each response in the file *path*, with a mark.

    The mark says whether the body was "truncated", or that the head was "repaired" before: then it
    is as it was received. The heads of 304s count as repaired. Raises the same exceptions as
    ``target_urls``.
    """
    kinds = WarcRecordType.response | WarcRecordType.metadata
    with path.open("rb") as file:
        for record in ArchiveIterator(file, record_types=kinds, parse_http=False):
            if record.record_type == WarcRecordType.response:
                yield "truncated" * ("WARC-Truncated" in record.headers), _http_head(record)[0]
            elif head := _RECEIVED_HEAD.search(_read_block(record, _MAX_METADATA_BYTES)):
                yield "repaired", b64decode(head[1])


def read_to_end(file: BinaryIO, last_position: int, *, start: int = 0) -> None:
    """Raise an exception unless *file* ends after the last readable record, at *last_position*.

    The library stops without an error if the file ends within a record, or if a record is longer
    than its gzip member and so includes everything that follows. Raises EOFError then.
    *last_position* is -1 if no record was found from *start* on. Then ValueError is raised, unless
    the file ends there.
    """
    if last_position < 0:
        if file.tell() > start:
            raise ValueError("there is no WARC record")
        return
    file.seek(last_position)
    record = next(iter(ArchiveIterator(file, parse_http=False, max_header_len=_MAX_HEADER_BYTES)))
    # Without a length, the file may end within the header. Then there is no content at all.
    missing_bytes = record.content_length if record.headers.get("Content-Length") else 1
    while data := record.reader.read(_STEP_BYTES):
        missing_bytes -= len(data)
    if missing_bytes > 0:
        raise EOFError("it ends within a record")

    # Decompress the rest, so that damage in it is found.
    file.seek(last_position)
    if file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC:
        file.seek(last_position)
        with gzip.GzipFile(fileobj=file) as members:
            while members.read(_STEP_BYTES):
                pass


def _document(record: WarcRecord, offset: int, max_bytes: int) -> Stored | None:
    """Return the page in *record*, a response or resource at *offset*.

    Returns None for a response that is not HTTP.
    """
    url = (record.headers.get("WARC-Target-URI") or "").strip("<>")
    http_head = b""
    is_chunked = False
    if record.record_type == WarcRecordType.resource:
        media_type = (record.headers.get("Content-Type") or "").encode("latin-1", "replace")
        stored_headers: Headers = [(b"Content-Type", media_type)] if media_type else []
        headers = stored_headers
        status = 200
        reason = "OK"
        protocol = url.partition(":")[0].upper()
    else:
        http_head, message = _http_head(record)
        if message.status_code is None:
            return None
        stored_headers = list(message.items_bytes())
        headers = _as_sent(stored_headers)
        status = message.status_code
        reason = message.reason_phrase or ""
        protocol = (message.status_line or "").partition(" ")[0]
        codings = [value for name, value in stored_headers if name.lower() == b"transfer-encoding"]
        is_chunked = bool(codings) and codings[-1].lower().endswith(b"chunked")

    if is_chunked:
        # The stored length includes the chunk headers, so it is not checked.
        wire_body = ChunkedReader(record.reader).read(max_bytes + 1)
    else:
        wire_body = _read_block(record, max_bytes + 1, consumed=len(http_head))

    is_cut = len(wire_body) > max_bytes
    wire_body = wire_body[:max_bytes]
    codings = codings_of(value for name, value in headers if name.lower() == b"content-encoding")
    body = wire_body
    is_decoded_cut = False
    if codings and wire_body:
        body, is_decoded_cut, _ = decode(wire_body, codings, limit=max_bytes)

    cause = record.headers.get("WARC-Truncated") or ""
    is_cut = is_cut or cause == "unspecified"
    truncated = cause if cause in ("length", "time", "disconnect") else ("length" if is_cut else "")

    content_type, charset = content_type_of(
        value for name, value in headers if name.lower() == b"content-type"
    )
    page = Page(
        url=url,
        status=status,
        reason=reason,
        protocol=protocol,
        headers=headers,
        wire_head=http_head if headers is stored_headers else b"",
        body=body,
        wire_body=wire_body,
        fetched_at=record.record_date.timestamp() if record.record_date else 0.0,
        ip=record.headers.get("WARC-IP-Address") or "",
        tls=_tls(record),
        truncated=truncated,  # type: ignore[arg-type]  # one of the three words, or none
        body_cut=is_decoded_cut,
        content_type=content_type,
        charset=charset,
    )
    return Stored(page, offset)


def _read_block(record: WarcRecord, size: int, *, consumed: int = 0) -> bytes:
    """Read up to *size* bytes of the block of *record*, of which *consumed* bytes were read before.

    Raises ValueError if the file ends before that.
    """
    data = record.reader.read(size)
    if len(data) < min(size, record.content_length - consumed):
        raise ValueError("it ends within a record")
    return data


def _http_head(record: WarcRecord) -> tuple[bytes, HeaderMap]:
    """Read the HTTP head at the start of the block of *record*; return its bytes, and it parsed."""
    lines: list[bytes] = []
    bytes_left = _MAX_HEADER_BYTES
    while bytes_left > 0 and (line := record.reader.readline(bytes_left)):
        lines.append(line)
        bytes_left -= len(line)
        if not line.strip(b"\r\n"):
            break
    head_bytes = b"".join(lines)
    message = HeaderMap()
    message.parse(io.BytesIO(head_bytes))
    return head_bytes, message


def _tls(record: WarcRecord) -> str:
    """Return the TLS version and cipher suite in *record*, as in ``Page.tls``; "" without TLS."""
    for protocol in record.headers.get_multiple("WARC-Protocol"):
        name, _, version = protocol.partition("/")
        if name == "tls":
            suite = record.headers.get("WARC-Cipher-Suite") or ""
            return f"TLSv{version.removesuffix('.0')} {suite}".rstrip()
    return ""


def _as_sent(headers: Headers) -> Headers:
    """Return *headers* as the server sent them, without the changes of the WARC writer."""
    lower_names = [name.lower() for name, _ in headers]
    if not any(name in _RENAMED_HEADERS for name in lower_names):
        return headers
    # A Content-Length next to a renamed field is the length of the stored body, by the writer.
    return [
        (_RENAMED_HEADERS.get(lower_name, name), value)
        for lower_name, (name, value) in zip(lower_names, headers, strict=True)
        if lower_name != b"content-length"
    ]


def _add_request(page: Page, record: WarcRecord, max_bytes: int) -> None:
    """Set the fields of *page* that describe its request, from a request *record*."""
    head_bytes, message = _http_head(record)
    page.method = (message.status_line or "").partition(" ")[0] or "GET"
    page.request_headers = list(message.items_bytes())
    page.wire_request = head_bytes + _read_block(record, max_bytes, consumed=len(head_bytes))


def _add_metadata(page: Page, record: WarcRecord) -> bool:
    """Set the fields of *page* that are in a metadata *record* of this crawler.

    Fields of other crawlers are ignored. Returns False if the page did not go through the
    processing modules.
    """
    text = _read_block(record, _MAX_METADATA_BYTES).decode("utf-8", "replace")
    for line in text.split("\r\n"):
        name, _, value = line.partition(": ")
        match name:
            case "notProcessed":
                return False
            case "depth" | "attempts" if _is_count(value):
                setattr(page, name, int(value))
            case "fetchTimeMs" if _is_count(value):
                page.download_seconds = int(value) / 1000
            case "kind" | "via" | "flags":
                setattr(page, name, value)
            case "receivedHead":
                with suppress(ValueError):  # written by another crawler
                    page.wire_head = b64decode(value, validate=True)
            case "robotsLine":
                page.robots_line = value
            case "rights":
                with suppress(UndecodableError):  # written by another crawler
                    page.rights = _decode_rights(value)
            case "redirectTarget":
                page.redirect_target = value
                page.redirect_permanent = page.status in (301, 308)
            case "outlink" if len(page.links) < _MAX_OUTLINKS:
                url, _, kind_and_text = value.partition(" ")
                link_kind, _, text = kind_and_text.partition(" ")
                page.links.append(Link(url=url, text=text, kind=link_kind))
    return True


def _is_count(value: str) -> bool:
    """Return whether *value* is a number of at most nine digits."""
    return value.isascii() and value.isdigit() and len(value) < 10
