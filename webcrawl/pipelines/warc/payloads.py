"""Stored payloads: under which URL, and when, the first copy of a payload was stored.

A document that was seen before, and comes under another URL, becomes a revisit record that names
the first copy. What is not here is stored whole once more, which is right, too: all of this may be
lost, and when it is full each new payload takes the place of another one. The other way round does
not go: a payload must not be here without its record. It is added after that, so a process that is
killed leaves it out. After a power failure one may name a record that was lost; its page was not
finished then, and is fetched and stored anew.

Format, ``payloads.sqlite`` (and ``-wal``, ``-shm`` beside it, which belong to it)::

    PRAGMA user_version = 1
    payloads(key INTEGER PRIMARY KEY, rest BLOB, at REAL, url TEXT)

*key* are the first eight bytes of the payload's SHA-1, a signed number, and *rest* is the rest;
*at* are epoch seconds.
"""

from __future__ import annotations

import logging
import sqlite3
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from webcrawl.storage.atomic import make_directory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T = TypeVar("T")

logger = logging.getLogger(__name__)

FILE = "payloads.sqlite"

_VERSION = 1
_PAGE_BYTES = 4096
_CACHE_KIB = 8192  # the inner pages of 20 million rows
_FIND = "SELECT url, at FROM payloads WHERE key = ? AND rest = ?"
_ADD = "INSERT OR REPLACE INTO payloads (key, rest, at, url) VALUES (?, ?, ?, ?)"
_MAKE_ROOM = (
    "DELETE FROM payloads WHERE key ="
    " (SELECT key FROM payloads WHERE key > ? ORDER BY key LIMIT 1) RETURNING length(url)"
)  # fmt: skip
_ROW_BYTES = 32  # beside its URL, at least
# So many are added at once, a third of the price of one by one.
_TOGETHER = 1000
_LOOK_EACH = 10  # of them whether the table is full

# What the names of errors begin with that say nothing of what the file has in it.
_PASSING = ("SQLITE_FULL", "SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_IOERR", "SQLITE_CANTOPEN")


class FirstCopy(NamedTuple):
    """Where a payload is stored: in the record of *url* with the date *at*, epoch seconds."""

    url: str
    at: float


class StoredPayloads:
    """The table in *directory*, of *max_bytes* at most. Used by one thread.

    Trouble with it is logged, once; then nothing is found or added any more.
    """

    def __init__(self, *, directory: Path, max_bytes: int) -> None:
        self._file = directory / FILE
        self._max_bytes = max_bytes
        self._connection: sqlite3.Connection | None = None
        self._added: dict[bytes, FirstCopy] = {}

    def open(self) -> None:
        """Open the file; one that is no such table, or damaged, is begun anew. A disk that is full
        or broken is trouble."""
        make_directory(self._file.parent)
        try:
            try:
                self._connect()
            except sqlite3.DatabaseError as error:
                if getattr(error, "sqlite_errorname", "").startswith(_PASSING):
                    raise
                self._disconnect()
                for suffix in ("", "-wal", "-shm"):
                    self._file.with_name(FILE + suffix).unlink(missing_ok=True)
                self._connect()
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)

    def find(self, sha1: bytes) -> FirstCopy | None:
        """The first copy of the payload with the digest *sha1*."""
        if sha1 in self._added:
            return self._added[sha1]
        row = self._use(lambda table: table.execute(_FIND, _split(sha1)).fetchone())
        return None if row is None else FirstCopy(*row)

    def add(self, sha1: bytes, first: FirstCopy) -> None:
        """The payload with the digest *sha1* is going to be stored before the next ``commit``."""
        if self._connection is not None:
            self._added[sha1] = first

    def forget(self) -> None:
        """Forget additions since the last commit, which were not stored after all."""
        self._added.clear()

    def commit(self) -> None:
        """Additions are stored. They are handed to the operating system in large pieces."""
        if len(self._added) >= _TOGETHER:
            self._write()

    def close(self) -> None:
        """Write all that was added, and close the file."""
        self._write()
        self._disconnect()

    def _write(self) -> None:
        added, self._added = self._added, {}

        def write(table: sqlite3.Connection) -> None:
            is_full = False
            table.execute("BEGIN")
            for number, (sha1, first) in enumerate(added.items()):
                if number % _LOOK_EACH == 0:
                    (pages,) = table.execute("PRAGMA page_count").fetchone()
                    is_full = pages * _PAGE_BYTES >= self._max_bytes
                key, rest = _split(sha1)
                needed = len(first.url) if is_full else 0
                while needed > 0:
                    gone = table.execute(_MAKE_ROOM, (key,)).fetchall()
                    needed -= gone[0][0] + _ROW_BYTES if gone else needed
                table.execute(_ADD, (key, rest, first.at, first.url))
            table.execute("COMMIT")

        self._use(write)

    def _use(self, what: Callable[[sqlite3.Connection], T]) -> T | None:
        """The result of *what* for the table; None if there is trouble with it, or was before."""
        try:
            return None if self._connection is None else what(self._connection)
        except sqlite3.Error as error:
            self._give_up(error)
            return None

    def _connect(self) -> None:
        connection = sqlite3.connect(self._file, timeout=0.5, isolation_level=None)
        self._connection = connection
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version not in (0, _VERSION):
            raise sqlite3.DatabaseError(f"version {version}")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS payloads"
            " (key INTEGER PRIMARY KEY, rest BLOB, at REAL, url TEXT)"
        )
        connection.execute(f"PRAGMA user_version = {_VERSION}")
        connection.execute("COMMIT")
        connection.execute("SELECT key, rest, at, url FROM payloads LIMIT 1").fetchone()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _give_up(self, error: Exception) -> None:
        self._disconnect()
        logger.error(
            "%s cannot be used (%s): documents that were seen before are stored whole from now on",
            self._file,
            error,
        )


def _split(sha1: bytes) -> tuple[int, bytes]:
    return int.from_bytes(sha1[:8], "big", signed=True), sha1[8:]
