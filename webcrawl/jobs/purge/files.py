"""Removes pages from the files of a job: WARC files, datasets, link graph, search index, logs.

The functions have these parameters: *path* is the file; *is_covered* returns whether a URL is to be
removed; *begin* is called with the number of records, rows or lines to remove or change. If there
are none, or if *begin* returns False, the file is left alone. A changed file is replaced as a
whole, so it is valid at every moment.

WARC records that stay are copied byte for byte. Only files of this crawler can be changed: each
record must be a gzip member.
"""

from __future__ import annotations

import gzip
import re
import shutil
import sqlite3
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from webcrawl.configuration.decoding import UndecodableError
from webcrawl.crawl.lease.outcome_log import PURGED, OutcomeLine
from webcrawl.errors import FatalError
from webcrawl.jobs.inspect.info_log import decode_line
from webcrawl.pipelines.search_fields import build_document, open_index
from webcrawl.pipelines.warc.records import as_response
from webcrawl.pipelines.warc.recovery import whole_records
from webcrawl.storage.atomic import replacement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Covers = Callable[[str], bool]
    Begin = Callable[[int], bool]

# Longer than the fields of a record, which have two URLs of at most 30,000 bytes.
_FIELDS_BYTES = 1 << 17
_NAMES = re.compile(
    rb"\r\nWARC-(Refers-To-)?Target-URI: ([^\r]*)\r\nWARC-(?:Refers-To-)?Date: ([^\r]*)"
)
_REFERENCE = b"WARC-Refers-To-Target-URI: %b\r\nWARC-Refers-To-Date: %b\r\n"
_NOT_MODIFIED = b"\r\nWARC-Profile: http://netpreserve.org/warc/1.1/revisit/server-not-modified\r\n"
_COPY_BYTES = 1 << 20
# Table of response records that go, and of records that stay and refer to one of them. A record is
# identified by *name*, its URL and date; *first* is the name of the record that it refers to.
_TABLE = "CREATE TABLE records (file, start, end, kind, name, first, payload)"
_ADD = """
    INSERT INTO records SELECT ?1, ?2, ?3, ?4, ?5, ?6, NULL
    WHERE CASE WHEN covers(?5) THEN ?4 = CAST('response' AS BLOB) ELSE covers(?6) END
"""
_INDEX = "CREATE INDEX names ON records (name); CREATE INDEX firsts ON records (first)"
# All payloads are read before a file is changed, because that moves its records.
_READ_PAYLOADS = """
    UPDATE records SET payload = payload_at(file, start, end)
    WHERE covers(name) AND name IN (SELECT first FROM records)
"""
_FILES = """
    SELECT refs.file, count(DISTINCT refs.start) FROM records AS refs JOIN records AS copies
    ON refs.first = copies.name AND copies.payload IS NOT NULL GROUP BY refs.file
"""
_CHANGES = """
    SELECT refs.file, refs.start, refs.end, refs.first, copies.payload,
        (SELECT name FROM records WHERE first = refs.first AND kind = CAST('revisit' AS BLOB)
            ORDER BY rowid LIMIT 1) AS holder, refs.name
    FROM records AS refs JOIN records AS copies
    ON refs.first = copies.name AND copies.payload IS NOT NULL
    WHERE refs.file = ? AND holder NOTNULL GROUP BY refs.file, refs.start ORDER BY refs.start
"""
_URL = re.compile(rb'"url":"([^"]*)"')

_HEAP_BYTES = 32 << 20
_DOCUMENTS_AT_ONCE = 10_000


class _Record(NamedTuple):
    """A record in the WARC file *path*, from byte *start* to *end*.

    kind: its type; that of a revisit record of a 304 is _NOT_MODIFIED, as such a record lacks the
        header of a response.
    name: its URL and date, with a space in between.
    first: the name of the record that it refers to, or empty.
    """

    path: str
    start: int
    end: int
    kind: bytes
    name: bytes
    first: bytes


def pass_on_payloads(
    paths: Iterable[Path], is_covered: Covers, begin: Callable[[Path, int], bool]
) -> None:
    """Keep the payloads in WARC files that are to be removed, and that other records refer to.

    The first of these, a revisit record, becomes a response record; the others then refer to it.
    Nothing is removed, so if the process dies, this can be repeated. The payloads are kept in a
    temporary file. Raises FatalError for a damaged file.
    """
    with closing(sqlite3.connect("", isolation_level=None)) as db:
        db.create_function("covers", 1, lambda name: is_covered(_url(name)))
        db.create_function("payload_at", 3, _payload_at)
        db.execute(_TABLE)
        for path in paths:
            # Adds only records that are to be removed, and those that refer to one of them.
            db.executemany(_ADD, _records(path))
        db.executescript(_INDEX)
        db.execute(_READ_PAYLOADS)
        for name, count in db.execute(_FILES).fetchall():
            if begin(path := Path(name), count):
                _rewrite(path, map(_change, db.execute(_CHANGES, (name,))))


def _change(row: tuple[Any, ...]) -> tuple[int, int, bytes]:
    """Return start and end of the revisit record in *row* of _CHANGES, and what replaces it.

    In the row, *first* is the name of the record that is to be removed, and *payload* its payload.
    *holder* is the name of the record that becomes a response with this payload.
    """
    file, start, end, first, payload, holder, name = row
    revisit = _read(file, start, end)
    if name == holder:
        changed = as_response(revisit, payload)
    else:
        # A name consists of the URL and the date, the two values of a reference.
        old, new = (_REFERENCE % tuple(one.split(b" ")) for one in (first, holder))
        changed = revisit.replace(old, new, 1)
    return start, end, gzip.compress(changed, mtime=0)


def _payload_at(file: str, start: int, end: int) -> bytes:
    """Return the payload of a response record: what follows its HTTP head."""
    # An empty line ends the fields of the record, and another one the HTTP head. Two line ends
    # close the record.
    return _read(file, start, end).split(b"\r\n\r\n", 2)[2].removesuffix(b"\r\n\r\n")


def purge_warc(path: Path, is_covered: Covers, begin: Begin) -> None:
    """Remove records from a WARC file. Raises FatalError if it is damaged."""
    covered = [
        (record.start, record.end, b"")
        for record in _records(path)
        if is_covered(_url(record.name))
    ]
    if covered and begin(len(covered)):
        _rewrite(path, covered)


def _read(name: str, start: int, end: int) -> bytes:
    """Return the record in the file *name* from byte *start* to *end*, uncompressed."""
    with Path(name).open("rb") as file:
        file.seek(start)
        return gzip.decompress(file.read(end - start))


def _rewrite(path: Path, changes: Iterable[tuple[int, int, bytes]]) -> None:
    """Replace parts of *path* as *changes* say: start, end and new content of each, in order."""
    with _replacement(path) as new, path.open("rb") as old, new.open("wb") as file:
        for start, end, data in changes:
            while size := min(start - old.tell(), _COPY_BYTES):
                file.write(old.read(size))
            file.write(data)
            old.seek(end)
        shutil.copyfileobj(old, file)


@contextmanager
def _replacement(path: Path) -> Iterator[Path]:
    """Yield the path of a new file that replaces *path* and has its permissions."""
    # With this suffix, no reader of the job takes the file for a finished one.
    with replacement(path, aside="~") as new:
        yield new
        shutil.copymode(path, new)


def _records(path: Path) -> Iterator[_Record]:
    """Yield the records of the WARC file *path*. Raises FatalError where it is damaged."""
    start = 0
    with path.open("rb") as file:
        for end, kind, data in whole_records(file, start_bytes=_FIELDS_BYTES):
            head = data.partition(b"\r\n\r\n")[0]
            record_type = _NOT_MODIFIED if _NOT_MODIFIED in head else kind
            found = _NAMES.findall(head)
            # The record's own name has no prefix.
            names = {prefix: b"%b %b" % (url, date) for prefix, url, date in found}
            first = names.get(b"Refers-To-", b"")
            yield _Record(str(path), start, end, record_type, names.get(b"", b""), first)
            start = end
    if start < path.stat().st_size:  # reading stopped at a record that is not complete
        raise FatalError(
            f"{path} is damaged after byte {start:,}: move it away, and run the same command again."
        )


def _url(name: bytes) -> str:
    """Return the URL in *name*, which a space and a date may follow."""
    return name.partition(b" ")[0].decode("utf-8", "replace")


def purge_lines(path: Path, is_covered: Covers, begin: Begin) -> None:
    """Remove lines from a file, which may be compressed. Each is a JSON object or a URL."""
    open_file: Any = gzip.open if path.suffix == ".gz" else open
    edit = partial(_edit_line, is_covered=is_covered)
    with open_file(path, "rb") as old:
        count = sum(edit(line) != line for line in old)
        if count and begin(count):
            old.seek(0)
            with _replacement(path) as new, open_file(new, "wb") as file:
                file.writelines(map(edit, old))


def _edit_line(line: bytes, *, is_covered: Covers) -> bytes:
    """Return *line*, or if its URL is purged, what replaces it: nothing for most files.

    A line of the log of finished URLs keeps its length, URL and times, and only loses what it says
    about the page. So the positions in the tokens of deltas stay valid.
    """
    match = _URL.search(line)
    if not is_covered(_url(match[1] if match else line.strip())):
        return line
    try:
        old = decode_line(line)
    except UndecodableError:  # a line of another file
        return b""
    if old.outcome == PURGED:
        return line
    new = OutcomeLine(old.at, old.url, old.host, PURGED, old.form, visit=old.visit)
    return msgspec.json.encode(new).ljust(len(line) - 1) + b"\n"


def purge_parquet(path: Path, is_covered: Covers, begin: Begin, *, column: str) -> None:
    """Remove rows by the URL in their *column* from a Parquet file. Reads one row group at a time.

    Raises ValueError for a damaged file.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415  # installed by `make modules`

    with pq.ParquetFile(path) as old:
        groups = range(old.num_row_groups)

        def is_kept(group: int) -> list[bool]:
            urls = old.read_row_group(group, [column])[column]
            return [not is_covered(url.as_py()) for url in urls]

        count = sum(is_kept(group).count(False) for group in groups)
        if count and begin(count):
            with (
                _replacement(path) as new,
                pq.ParquetWriter(new, old.schema_arrow, compression="zstd") as writer,
            ):
                for group in groups:
                    kept = old.read_row_group(group).filter(is_kept(group))
                    if kept.num_rows:  # Hugging Face's reader fails at an empty row group
                        writer.write_table(kept)


def purge_index(path: Path, is_covered: Covers, begin: Begin) -> None:
    """Build a search index again without some pages; *path* is its meta.json.

    If pages were only deleted, they would stay in Tantivy's files until these are merged. The
    commit replaces all files at once. Raises ValueError for a damaged index.
    """
    import tantivy  # noqa: PLC0415  # installed by `make modules`

    index = open_index(path.parent)
    searcher = index.searcher()
    query = tantivy.Query.all_query()

    def documents(*, are_kept: bool) -> Iterator[tantivy.Document]:
        for offset in range(0, searcher.num_docs, _DOCUMENTS_AT_ONCE):
            for _, address in searcher.search(query, _DOCUMENTS_AT_ONCE, offset=offset).hits:
                document = searcher.doc(address)
                is_kept = not is_covered(document["url"][0])
                if is_kept == are_kept:
                    yield document

    count = sum(1 for _ in documents(are_kept=False))
    if count and begin(count):
        writer = index.writer(_HEAP_BYTES, 1)
        writer.delete_all_documents()
        for document in documents(are_kept=True):
            writer.add_document(build_document(document.to_dict()))
        writer.commit()
        writer.wait_merging_threads()
