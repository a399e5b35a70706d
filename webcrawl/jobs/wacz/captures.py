"""Reads the captures in a WARC file, as lines of a CDXJ index and of a page list.

The lines are the same as those written by cdxj-indexer and wacz, the tools of the formats' authors.
From a damaged file, all captures before the damage are read, except the last one, which may itself
be damaged.
"""

from __future__ import annotations

import json
import re
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import surt
from fastwarc.stream_io import ChunkedReader
from fastwarc.warc import ArchiveIterator, WarcRecord, WarcRecordType
from selectolax.lexbor import LexborHTMLParser

from webcrawl.items import is_success
from webcrawl.jobs.replay.warc_reader import DamagedWarcError, read_to_end
from webcrawl.net.content_type import content_type_of
from webcrawl.net.http.decoding import codings_of, decode
from webcrawl.pipelines.warc.records import NOT_MODIFIED
from webcrawl.urls.extraction import charset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


# Titles are at the beginning of a page.
_READ_BYTES = 1 << 16
_MAX_HEADER_BYTES = 1 << 18
_MAX_TITLE_CHARS = 300
_HTML = {"text/html", "application/xhtml+xml"}
_INDEXED = WarcRecordType.response | WarcRecordType.revisit | WarcRecordType.resource
_SPACE = re.compile(r"[\x00-\x20\x7f]+")
_PARAMETERS = re.compile(r"[;\s]")
_TITLE_END = re.compile("</title", re.IGNORECASE)
_REQUIRES = re.compile(r"^requires: ([^/\r\n]+)", re.MULTILINE)
_NOT_DIGIT = re.compile(r"\D+")


class Capture(NamedTuple):
    """Line of the index, and the corresponding line of the page list.

    *page*, the line of the page list, is empty if the document is not an HTML page. *end* is the
    offset in the WARC file after the record.
    """

    line: bytes
    page: bytes
    end: int


def captures(path: Path) -> Iterator[Capture]:
    """Yield the captures of the WARC file *path* (gzip or not) in the order of the file.

    Raises DamagedWarcError after the last readable capture, and OSError if the file cannot be
    opened.
    """
    # The previous record, whose capture needs the offset at which the next record begins.
    pending: Callable[[int], Capture] | None = None
    last_start = -1
    with path.open("rb") as file:
        try:
            for record in ArchiveIterator(file, max_header_len=_MAX_HEADER_BYTES):
                last_start = record.stream_pos
                if pending is not None:
                    yield pending(last_start)
                pending = _capture(record, path.name) if record.record_type & _INDEXED else None
            # Raises one of these exceptions if the last record is incomplete.
            read_to_end(file, last_start)
        except (OSError, ValueError, EOFError, zlib.error) as error:
            raise DamagedWarcError(path, max(last_start, 0), str(error)) from error
    if pending is not None:  # the last record ends where the file ends
        yield pending(path.stat().st_size)


def collections_required_by(path: Path) -> list[str]:
    """Return the collections that records of the WARC file *path* may refer to.

    They are the fields ``requires`` of its first record, which WARC_DEDUP_FROM writes. Damage in
    the file is left to ``captures``.
    """
    with path.open("rb") as file, suppress(OSError, ValueError, EOFError, zlib.error):
        records = ArchiveIterator(file, record_types=WarcRecordType.warcinfo, parse_http=False)
        if (record := next(iter(records), None)) is not None:
            return _REQUIRES.findall(record.reader.read(_READ_BYTES).decode("utf-8", "replace"))
    return []


def _capture(record: WarcRecord, filename: str) -> Callable[[int], Capture] | None:
    """Return a function that builds the capture of *record*, given the offset of its end.

    That offset is only known when the next record begins. Returns None for a record that is not
    indexed. *filename* is the name of the WARC file.
    """
    headers = record.headers
    url = (headers.get("WARC-Target-URI") or "").strip("<>")
    if not url:
        return None

    kind = record.record_type
    # A resource (FTP, Gopher) has no HTTP head, so its status is None.
    http = None if kind == WarcRecordType.resource else record.http_headers
    # The payload of a resource is its block.
    digest = headers.get("WARC-Payload-Digest") or (
        headers.get("WARC-Block-Digest") if kind == WarcRecordType.resource else None
    )
    content_type = (headers if http is None else http).get("Content-Type") or ""
    status = http.status_code if http is not None else None
    if kind == WarcRecordType.revisit and status == NOT_MODIFIED:
        return None  # replay tools would show this header instead of the earlier capture
    fields = {
        "url": url,
        "mime": "warc/revisit"
        if kind == WarcRecordType.revisit
        else _PARAMETERS.split(content_type)[0],
        "status": str(status or ""),
        "digest": digest or "",
    }

    date = headers.get("WARC-Date") or ""
    page = b""
    if kind != WarcRecordType.resource and status and is_success(status):
        page = _page_line(url, date, record)
    # The index is sorted by this: the search key, and the time as YYYYMMDDhhmmss.
    prefix = f"{_search_key(url)} {_NOT_DIGIT.sub('', date)[:14]}"
    offset = record.stream_pos

    def capture_until(end: int) -> Capture:
        # The fields are in the same order as those of cdxj-indexer.
        members = {name: value for name, value in fields.items() if value}
        members |= {"length": str(end - offset), "offset": str(offset), "filename": filename}
        line = f"{prefix} {json.dumps(members)}\n".encode("utf-8", "replace")
        return Capture(line, page, end)

    return capture_until


def _search_key(url: str) -> str:
    """Return the SURT of *url*, by which pywb searches, or *url* itself if that is impossible."""
    try:
        key = surt.surt(url)
    except Exception:  # noqa: BLE001  # for a URL that it cannot parse, as in cdxj-indexer
        key = url
    return _SPACE.sub("%20", key)


def _page_line(url: str, date: str, record: WarcRecord) -> bytes:
    """Return the line of the page list for the document in *record*; empty if it is not HTML."""
    http = record.http_headers
    media_type, encoding = content_type_of(http.get_bytes_multiple(b"Content-Type"))
    if media_type not in _HTML:
        return b""
    body = _read_beginning(record)
    if codings := codings_of(http.get_bytes_multiple(b"Content-Encoding")):
        body = decode(body, codings, limit=_READ_BYTES).body
    members = {
        "id": (record.record_id or "").strip("<>").rpartition(":")[2],
        "url": url,
        "ts": date,
    }
    if title := _title(body, encoding):
        members["title"] = title
    return json.dumps(members).encode("ascii") + b"\n"


def _read_beginning(record: WarcRecord) -> bytes:
    """Read the first bytes of the body in *record*, without the chunk headers if it has them."""
    coding = record.http_headers.get("Transfer-Encoding") or ""
    if not coding.lower().endswith("chunked"):
        return record.reader.read(_READ_BYTES)
    try:
        return ChunkedReader(record.reader).read(_READ_BYTES)
    except ValueError:  # some tools store the body without chunk headers
        return b""


def _title(body: bytes, encoding: str) -> str:
    """Return the title of the HTML page *body*; *encoding* is the declared one."""
    text = charset.decode(body, charset.detect(body, declared=encoding))
    # The rest need not be parsed. Without an end, all of it would be the title.
    end = _TITLE_END.search(text)
    element = LexborHTMLParser(text[: end.start()]).css_first("title") if end else None
    return " ".join(element.text().split())[:_MAX_TITLE_CHARS] if element is not None else ""
