"""Payloads stored by earlier crawls, to which new records refer (WARC_DEDUP_FROM).

Sources are CDXJ indexes, of this crawler or another, and jobs, whose tables of payloads are read.
Before the crawl, all of them become one table, sorted by digest, so that a lookup reads two or
three pages of it for every size::

    JOBDIR/warc/earlier-<hash>.sqlite    the table, as in payloads.py; the hash is that of the path,
                                         size and time of modification of each source
    JOBDIR/warc/earlier.work             the rows before they are sorted; disposable

When a source has changed, the table is made again. It takes 120 bytes for each payload, and 500
while it is made. Memory does not grow with it. Payloads are compared by the SHA-1 of the bytes
after the header, as in the records of this crawler (messages.py), so indexes with other digests are
of no use.
"""

from __future__ import annotations

import logging
import re
import sqlite3
import zlib
from contextlib import closing
from datetime import datetime
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import xxhash
from isal import igzip

from webcrawl.configuration.decoding import Count, UndecodableError, json_decoder
from webcrawl.errors import FatalError
from webcrawl.pipelines.sorting import sorted_lines
from webcrawl.pipelines.warc.payloads import ADD, CREATE, FILE, FirstCopy, split
from webcrawl.pipelines.work_directory import work_directory
from webcrawl.storage.atomic import replacement
from webcrawl.wording import COMMAND

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

logger = logging.getLogger(__name__)

_MAX_LINE_BYTES = 1 << 17
_SHA1 = re.compile(r"(?:sha1:)?([A-Z2-7]{32})")
_BASE32 = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", "0123456789ABCDEFGHIJKLMNOPQRSTUV")
_ALL = "SELECT * FROM captures WHERE length(rest) < 20"  # no revisit records
_ALL_OF_FIRST_VERSION = "SELECT key, rest, url, at, NULL, NULL, NULL FROM payloads"
_SUFFIXES = re.compile(r"\.cdxj?(\.gz)?$")


class _Capture(msgspec.Struct):
    """Members of a line of an index."""

    url: str
    digest: str
    status: str | int = ""
    mime: str = ""
    filename: str | None = None
    offset: Count | None = None
    length: Count | None = None


_Row: TypeAlias = tuple[int, bytes, FirstCopy]
_decode = json_decoder(_Capture, strict=False)
_decode_row = json_decoder(tuple[int, bytes, FirstCopy])


def collection_name(source: Path) -> str:
    """Return the name of *source* in WARC files: that of its job or index."""
    return _SUFFIXES.sub("", source.name)


def prepare(directory: Path, sources: Sequence[Path]) -> str:
    """Return the name of the table of *sources* in *directory*; make it if it is not there.

    The name depends on the path, size and time of modification of each source. Blocks: a million
    captures take 26 s. If the process dies, the next one starts again. Raises
    FatalError for a source that cannot be used, and OSError.
    """
    files = [file for source in sources for file in _files_of(source)]
    states = [(file, file.stat()) for file in files]
    made_from = "".join(f"{file} {state.st_size} {state.st_mtime_ns}" for file, state in states)
    name = f"earlier-{xxhash.xxh3_64_hexdigest(made_from.encode(), 2)}.sqlite"
    if not (directory / name).exists():
        # Other tables are of sources that have changed since, or are not named any more.
        for old in directory.glob("earlier-*"):
            old.unlink()
        _make(directory / name, files)
    return name


def _make(table: Path, files: Sequence[Path]) -> None:
    """Write the payloads in *files* to *table*, sorted, because inserts in order are fast."""
    logger.info("WARC_DEDUP_FROM is read before the crawl starts")
    work = table.with_name("earlier.work")
    with work_directory(work, activity=f"{work} is used"), replacement(table) as new:
        with (work / "rows").open("wb") as rows:
            for file in files:
                for row in _rows(file):
                    rows.write(msgspec.json.encode(row) + b"\n")
        # Each line is a JSON list that begins with the key: sort by the number after the bracket.
        lines = sorted_lines([work / "rows"], "-k1.2n", directory=work, feature="WARC_DEDUP_FROM")
        with closing(sqlite3.connect(new)) as connection, connection:
            connection.executescript(CREATE)
            sorted_rows = map(_decode_row, lines)
            connection.executemany(ADD, ((key, rest, *first) for key, rest, first in sorted_rows))


def _files_of(source: Path) -> list[Path]:
    """Return the index *source*, or the tables of the job or hive *source*."""
    if source.is_file():
        return [source]
    tables = [*source.glob(f"warc/{FILE}"), *source.glob(f"drones/*/warc/{FILE}")]
    if not tables:
        raise FatalError(
            f"WARC_DEDUP_FROM: {source} is not a CDXJ file, nor a job with the file warc/{FILE}. "
            "Of a job without it, make an index: "
            f'"{COMMAND} wacz {quote(str(source))} -o FILE.cdxj". '
            "The oldest jobs of version 0.1 have other digests of documents that came in chunks."
        )
    return tables


def _rows(file: Path) -> Iterator[_Row]:
    """Yield the payloads in *file*, which is the table of another job or an index.

    Raises FatalError if it cannot be read, or is an index without payloads. A table may be empty.
    """
    usable = 0
    unusable = 0
    try:
        if file.name == FILE:
            with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as table:
                (version,) = table.execute("PRAGMA user_version").fetchone()
                query = _ALL if version > 1 else _ALL_OF_FIRST_VERSION
                for key, rest, *first in table.execute(query):
                    yield key, rest, FirstCopy(*first)
            return
        opened: Any = igzip.open if file.suffix == ".gz" else open  # igzip has no types
        with opened(file, "rb") as index:
            for line in iter(partial(index.readline, _MAX_LINE_BYTES), b""):
                if row := _parse_row(line):
                    usable += 1
                    yield row
                else:
                    # Revisit records are not missed, because the copy they refer to has a line.
                    unusable += b"warc/revisit" not in line
    except (sqlite3.Error, OSError, EOFError, zlib.error) as error:
        raise FatalError(f"WARC_DEDUP_FROM: {file} cannot be read: {error}.") from error
    if not usable:
        raise FatalError(
            f"WARC_DEDUP_FROM: no line of {file} is a capture in CDXJ with a digest in SHA-1 and "
            "Base32, by which documents are compared."
        )
    logger.info(
        "%s: %d captures; %d other lines, without an HTTP status or a digest in SHA-1 and Base32",
        *(file, usable, unusable),
    )


def _parse_row(line: bytes) -> _Row | None:
    """Return the payload in *line* of an index; None if it has none that can be referred to."""
    try:
        _, time, members = line.decode().split(" ", 2)
        capture = _decode(members)
        at = datetime.fromisoformat(f"{time[:8]}T{time[8:14]}Z").timestamp()
    except (ValueError, UndecodableError):
        return None
    digest = _SHA1.fullmatch(capture.digest)
    # Only the records of HTTP responses have a status, and a revisit record has no payload.
    is_stored = capture.status and capture.mime != "warc/revisit"
    # A record cannot refer to a URL with spaces or line breaks.
    if digest is None or not is_stored or len(capture.url.split()) != 1:
        return None
    # int() decodes base 32 in a third of the time of base64.b32decode, but its digits are 0 to V.
    sha1 = int(digest[1].translate(_BASE32), 32).to_bytes(20, "big")
    first = FirstCopy(capture.url, at, capture.filename, capture.offset, capture.length)
    return *split(sha1), first
