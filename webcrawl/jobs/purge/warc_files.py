"""Removes records from WARC files, and keeps the payloads that other records refer to.

Records that stay are copied byte for byte. A revisit record whose first copy is removed becomes a
response record with the payload if it is the first one that refers to it; the others then refer to
that record. Only files of this crawler can be changed: each record must be a gzip member.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from isal import igzip_lib

from webcrawl.errors import FatalError
from webcrawl.pipelines.warc.records import as_response, payload_of, referring_to
from webcrawl.pipelines.warc.recovery import whole_records
from webcrawl.storage.atomic import replacing

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from webcrawl.hosts.politeness.exclusions import ExclusionRules

    # Called with a file and the number of items to remove from it; returns whether to do so.
    Begin = Callable[[Path, int], bool]

#: Suffix of new files, with which no reader of the job takes them for finished ones.
ASIDE = "~"
# Longer than the fields of a record, which have two URLs of at most 30,000 bytes.
_FIELDS_BYTES = 1 << 17
_FIELD = re.compile(rb"^WARC-((?:Refers-To-)?(?:Target-URI|Date)): ([^\r]*)", re.MULTILINE)
_LEVEL = 2
_COPY_BYTES = 1 << 20
# Records are identified by URL and date. *holder* is the record that gets the payload of *name*.
_TABLES = """
    CREATE TABLE IF NOT EXISTS done (step PRIMARY KEY);
    CREATE TABLE IF NOT EXISTS copies (name PRIMARY KEY, file, start, size);
    CREATE TABLE IF NOT EXISTS payloads (name PRIMARY KEY, holder, payload);
"""
_ADD_COPY = "INSERT OR REPLACE INTO copies VALUES (?, ?, ?, ?)"
_ADD_PAYLOAD = "INSERT OR IGNORE INTO payloads VALUES (?, ?, NULL)"
_WANTED = "SELECT name, file, start, size FROM copies JOIN payloads USING (name)"
_FIND = "SELECT holder, payload FROM payloads WHERE name = ? AND payload IS NOT NULL"


class _Record(NamedTuple):
    """A record of a WARC file, from byte *start* to *end*.

    *name* is its URL and date. *first_name* is that of the record that it refers to, or b" ".
    """

    start: int
    end: int
    kind: bytes
    name: bytes
    first_name: bytes


def plan(files: Iterable[Path], rules: ExclusionRules, db: sqlite3.Connection) -> set[str]:
    """Copy the payloads in *files* that are to be removed, and to which other records refer.

    They are kept in *db*. Returns the steps of the purge that are done: this one, and the paths of
    files. Raises FatalError for a damaged file, and OSError.
    """
    db.executescript(_TABLES)
    if done := {step for (step,) in db.execute("SELECT step FROM done")}:
        return done
    db.execute("BEGIN")
    for path in files:
        for record in _records(path):
            if not _covers(rules, record.name):
                if _covers(rules, record.first_name):
                    db.execute(_ADD_PAYLOAD, (record.first_name, record.name))
            elif record.kind == b"response":
                size = record.end - record.start
                db.execute(_ADD_COPY, (record.name, str(path), record.start, size))
    for name, path, start, size in db.execute(_WANTED).fetchall():
        with open(path, "rb") as file:  # noqa: PTH123  # a text from the table
            file.seek(start)
            payload = payload_of(igzip_lib.decompress(file.read(size), igzip_lib.DECOMP_GZIP))
        db.execute("UPDATE payloads SET payload = ? WHERE name = ?", (payload, name))
    db.execute("INSERT INTO done VALUES ('plan')")
    db.execute("COMMIT")
    return set()


def purge_warc(path: Path, rules: ExclusionRules, begin: Begin, *, db: sqlite3.Connection) -> None:
    """Remove the records of *path* that *rules* cover, and change those that refer to removed ones.

    *db* has the payloads. Raises FatalError for a damaged file, and OSError.
    """

    def holder_of(record: _Record) -> tuple[bytes, bytes] | None:
        row: tuple[bytes, bytes] | None = db.execute(_FIND, (record.first_name,)).fetchone()
        return row

    touched = [r for r in _records(path) if _covers(rules, r.name) or holder_of(r)]
    if not touched or not begin(path, len(touched)):
        return
    with replacing(path, aside=ASIDE) as new, path.open("rb") as old, new.open("wb") as file:
        for record in touched:
            while (size := record.start - old.tell()) > 0:
                file.write(old.read(min(size, _COPY_BYTES)))
            revisit = igzip_lib.decompress(
                old.read(record.end - record.start), igzip_lib.DECOMP_GZIP
            )
            if holder := not _covers(rules, record.name) and holder_of(record):
                name, payload = holder
                if name == record.name:
                    changed = as_response(revisit, payload)
                else:
                    changed = referring_to(revisit, *name.split(b" "))
                file.write(igzip_lib.compress(changed, _LEVEL, igzip_lib.COMP_GZIP))
        while data := old.read(_COPY_BYTES):
            file.write(data)


def _covers(rules: ExclusionRules, name: bytes) -> bool:
    """Return whether *rules* cover the URL in *name*."""
    return rules.covers(name.partition(b" ")[0].decode("utf-8", "replace"))


def _records(path: Path) -> Iterator[_Record]:
    """Yield the records in *path*. Raises FatalError if it is damaged, and OSError."""
    start = 0
    with path.open("rb") as file:
        for end, kind, data in whole_records(file, start_bytes=_FIELDS_BYTES):
            fields = dict(_FIELD.findall(data.partition(b"\r\n\r\n")[0]))
            name, first_name = (
                fields.get(prefix + b"Target-URI", b"") + b" " + fields.get(prefix + b"Date", b"")
                for prefix in (b"", b"Refers-To-")
            )
            yield _Record(start, end, kind, name, first_name)
            start = end
    if start < path.stat().st_size:
        raise FatalError(
            f"{path} is damaged after byte {start:,}: move it away, and run the same command again."
        )
