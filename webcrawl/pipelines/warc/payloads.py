"""Records under which URL, when, and where the first copy of each payload was stored.

A known document that is found under another URL becomes a revisit record that refers to the first
copy. The table also has the digest of the revisit record's payload, because a 304 for that URL must
refer to the first copy, too. A payload that is missing in the table is simply stored in full again.
The table may therefore get lost, and once it is full, each new payload replaces another one. The
reverse is not allowed: a payload must not be in the table without its record. A payload is
therefore added after its record was written, and is missing if the process is killed before. After
a power failure the table may name a record that was lost. The page of such a record was not
finished, so it is fetched and stored again.

Format, ``payloads.sqlite`` (with its ``-wal`` and ``-shm`` next to it)::

    PRAGMA user_version = 2
    payloads(key INTEGER PRIMARY KEY, rest BLOB, url TEXT, at REAL, file, offset, length)
    files(path TEXT UNIQUE)
    captures    view of both, with the path of the file; rows are added through it
    dates       index of the column at, made for the first 304

*key* is the first eight bytes of the payload's SHA-1, as a signed number, and *rest* has its other
bytes. The last revisit record of a URL has a row, too, in which *key* is the beginning of the SHA-1
of the URL, and *rest* has the whole SHA-1 of the payload. *at* is in epoch seconds. *file* is the
number of a row of files; it is NULL, like *offset* and *length*, if that is not known: in rows of
version 1, which had no files, and in a table of earlier crawls (earlier.py) that do not say it.
"""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from webcrawl.configuration.decoding import Seconds  # msgspec reads it
from webcrawl.storage.atomic import make_directory

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

logger = logging.getLogger(__name__)

FILE = "payloads.sqlite"

_VERSION = 2
_PAGE_BYTES = 4096
_CACHE_KIB = 8192  # the inner pages of 20 million rows
_FIND = "SELECT url, at, path, offset, length FROM captures WHERE key = ? AND rest = ?"
# Only crawls with a 304 need this index.
_INDEX_DATES = "CREATE INDEX IF NOT EXISTS dates ON payloads (at)"
#: Selects time, URL and hexadecimal SHA-1 of all documents.
DIGESTS = "SELECT at, url, substr(printf('%016X', key) || hex(rest), -40) FROM payloads"
_FIND_DIGEST = f"{DIGESTS} WHERE at = ? AND url = ?"
#: Deletes the rows of some URLs; the SQL function ``covers`` says which.
FORGET_PAYLOADS = "DELETE FROM payloads WHERE covers(url)"
ADD = "INSERT INTO captures VALUES (?, ?, ?, ?, ?, ?, ?)"
CREATE = """
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS payloads (
    key INTEGER PRIMARY KEY, rest BLOB, url TEXT, at REAL, file INTEGER, offset INTEGER,
    length INTEGER
);
CREATE TABLE IF NOT EXISTS files (path TEXT UNIQUE);
CREATE VIEW IF NOT EXISTS captures AS
    SELECT key, rest, url, at, path, offset, length
    FROM payloads LEFT JOIN files ON files.rowid = file;
CREATE TRIGGER IF NOT EXISTS add_capture INSTEAD OF INSERT ON captures BEGIN
    INSERT OR IGNORE INTO files SELECT new.path WHERE new.path IS NOT NULL;
    INSERT OR REPLACE INTO payloads (key, rest, url, at, file, offset, length) VALUES (
        new.key, new.rest, new.url, new.at, (SELECT rowid FROM files WHERE path = new.path),
        new.offset, new.length
    );
END;
PRAGMA user_version = 2;
COMMIT;
"""
_ADD_COLUMNS = """
BEGIN IMMEDIATE;
ALTER TABLE payloads ADD COLUMN file INTEGER;
ALTER TABLE payloads ADD COLUMN offset INTEGER;
ALTER TABLE payloads ADD COLUMN length INTEGER;
PRAGMA user_version = 2;
COMMIT;
"""
_MAKE_ROOM = (
    "DELETE FROM payloads WHERE key ="
    " (SELECT key FROM payloads WHERE key > ? ORDER BY key LIMIT 1) RETURNING length(url)"
)  # fmt: skip
_ROW_BYTES = 32  # the minimum size of a row, without its URL
# This many rows are added together, in a third of the time of adding them one by one.
_BATCH_ROWS = 1000
_ROWS_PER_CHECK = 10  # how many rows are added between two checks whether the table is full

# Prefixes of the names of SQLite errors that do not mean that the file is damaged.
_TEMPORARY = ("SQLITE_FULL", "SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_IOERR", "SQLITE_CANTOPEN")


class FirstCopy(NamedTuple):
    """Where a payload is stored: in the record of *url* with the date *at* (epoch seconds).

    *path*, *offset* and *length* say where the record is, as in StoredRecord, if that is known.
    """

    url: str
    at: Seconds
    path: str | None = None
    offset: int | None = None
    length: int | None = None


class StoredPayloads:
    """Table of stored payloads in *directory*, of at most *max_bytes*. Used by one thread.

    When the table fails, the error is logged once; from then on nothing is found or added.
    """

    def __init__(self, *, directory: Path, max_bytes: int) -> None:
        self.directory = directory
        # ``open`` may choose another file.
        self._file = directory / FILE
        self._max_bytes = max_bytes
        # None before ``open``, after ``close``, and when the table has failed.
        self._connection: sqlite3.Connection | None = None
        # Additions that are not in the file yet, by digest, as ``add`` gets them.
        self._added: dict[bytes, FirstCopy] = {}

    def open(self, name: str = FILE) -> None:
        """Open the file *name*, replacing it if it is damaged or is not such a table.

        A full or broken disk disables the table.
        """
        self._file = self.directory / name
        make_directory(self.directory)
        try:
            try:
                self._connect()
            except sqlite3.DatabaseError as error:
                # After these errors, the file itself may be sound.
                if getattr(error, "sqlite_errorname", "").startswith(_TEMPORARY):
                    raise
                self._disconnect()
                for suffix in ("", "-wal", "-shm"):
                    self._file.with_name(self._file.name + suffix).unlink(missing_ok=True)
                self._connect()
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)

    def find(self, sha1: bytes) -> FirstCopy | None:
        """Return the first copy of the payload with the digest *sha1*, or None."""
        if sha1 in self._added:
            return self._added[sha1]
        row = self._run_query(lambda table: table.execute(_FIND, split(sha1)).fetchone())
        return None if row is None else FirstCopy(*row)

    def digest_of(self, url: str, at: float) -> bytes:
        """Return the SHA-1 of the document of *url* that was fetched at *at*; b"" if unknown.

        The first call makes an index, in a second per million rows.
        """
        for sha1, copy in self._added.items():
            if copy[:2] == (url, at):
                return sha1[-20:]  # without the hash of the URL, which revisit records have
        self._run_query(lambda table: table.execute(_INDEX_DATES))
        row = self._run_query(lambda table: table.execute(_FIND_DIGEST, (at, url)).fetchone())
        return b"" if row is None else bytes.fromhex(row[2])  # after the time and the URL

    def add(self, sha1: bytes, first: FirstCopy) -> None:
        """Record that the payload with the digest *sha1* is stored before the next ``commit``.

        *first* says in which record. For a revisit record, eight bytes of the SHA-1 of its URL come
        before the digest.
        """
        if self._connection is not None:
            self._added[sha1] = first

    def forget(self) -> None:
        """Drop the additions since the last commit, because their records were not stored."""
        self._added.clear()

    def commit(self) -> None:
        """Confirm that the records of all additions are stored; write them if there are many."""
        if len(self._added) >= _BATCH_ROWS:
            self._write()

    def close(self) -> None:
        """Write all additions, and close the file."""
        self._write()
        self._disconnect()

    def _write(self) -> None:
        """Write all additions to the file; if it is full, first delete rows for each of them."""
        added = self._added
        self._added = {}

        def write(table: sqlite3.Connection) -> None:
            is_full = False
            table.execute("BEGIN")
            for number, (sha1, first) in enumerate(added.items()):
                if number % _ROWS_PER_CHECK == 0:
                    (pages,) = table.execute("PRAGMA page_count").fetchone()
                    is_full = pages * _PAGE_BYTES >= self._max_bytes
                key, other_bytes = split(sha1)
                needed_bytes = len(first.url) if is_full else 0
                while needed_bytes > 0:
                    # Delete the row with the next larger key: the keys are hashes, so any row is as
                    # good, and the file can use its space for the new one.
                    removed = table.execute(_MAKE_ROOM, (key,)).fetchall()
                    if not removed:
                        break  # no key is larger
                    ((url_length,),) = removed
                    needed_bytes -= url_length + _ROW_BYTES
                table.execute(ADD, (key, other_bytes, *first))
            table.execute("COMMIT")

        self._run_query(write)

    def _run_query(self, query: Callable[[sqlite3.Connection], T]) -> T | None:
        """Return the result of *query*, or None if it fails or the table is disabled."""
        try:
            return None if self._connection is None else query(self._connection)
        except sqlite3.Error as error:
            self._give_up(error)
            return None

    def _connect(self) -> None:
        """Open the file, create the table if necessary, and check that it can be read."""
        connection = sqlite3.connect(self._file, timeout=0.5, isolation_level=None)
        self._connection = connection
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        (version,) = connection.execute("PRAGMA user_version").fetchone()  # 0 in a new file
        if version == 1:
            connection.executescript(_ADD_COLUMNS)
        elif version not in (0, _VERSION):
            raise sqlite3.DatabaseError(f"version {version}")  # ``open`` then replaces the file
        connection.executescript(CREATE)
        connection.execute("SELECT * FROM captures LIMIT 1").fetchone()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _give_up(self, error: Exception) -> None:
        """Disable the table because of *error*."""
        self._disconnect()
        logger.error(
            "%s cannot be used (%s): copies of known documents are stored in full from now on",
            self._file,
            error,
        )


def forget_rows(directory: Path, delete: str, is_covered: Callable[[str], bool]) -> None:
    """Run the statement *delete*, which calls *is_covered*, on all SQLite files in *directory*.

    The deleted rows are overwritten with zeros. The files must not be open. Raises sqlite3.Error.
    """
    for path in directory.glob("*.sqlite"):
        with closing(sqlite3.connect(path)) as database:
            database.create_function("covers", 1, is_covered)
            database.executescript(f"PRAGMA secure_delete = ON; {delete}")


def file_names(directory: Path) -> set[str]:
    """Return the names of the WARC files that the table in *directory* has records of."""
    names = set()
    for path in directory.glob(FILE):
        # In version 1 there is no table of files.
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(path)) as table:
            names = {Path(name).name for (name,) in table.execute("SELECT path FROM files")}
    return names


def split(sha1: bytes) -> tuple[int, bytes]:
    """Split *sha1* into the key of its row and the remaining bytes."""
    return int.from_bytes(sha1[:8], "big", signed=True), sha1[8:]
