"""Host database: the SQLite file of the host records, with encoded values by kind and key.

One connection reads, in the thread that opened it. Another one writes, one call at a time, in any
thread. Invariant: a value is read as it was written, or CorruptRecordError is raised.

Format, in the directory *path*::

    records.sqlite          the database; SQLite's files with ``-wal`` and ``-shm`` belong to it
    changes-<random>.log    next to a copy of the database: record log of the facts logged since the
                            copy was made; ``open`` adds it to the database's log and deletes it
    changes.tmp             the same log while it is written, in the original's directory; it can be
                            deleted

    PRAGMA user_version = 2
    facts(kind INTEGER, key TEXT, data BLOB, crc INTEGER), PRIMARY KEY (kind, key)

Rows of kind 0 are the log. Each has the facts of one second, as MessagePack by kind and key; its
key is an increasing number. The last value of a fact in the log is the valid one. When all logged
facts have been written to their own rows, the log is deleted.

*crc* is the CRC-32 (zlib) of the key in UTF-8 and the data, because SQLite detects damaged pages
only by their structure. The file uses WAL with ``synchronous=NORMAL``: after ``kill -9`` all
committed data is there, after a power failure a valid state from shortly before.
"""

from __future__ import annotations

import errno
import functools
import itertools
import os
import sqlite3
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from webcrawl.configuration.decoding import json_decoder, msgpack_decoder
from webcrawl.randomness import random_hex
from webcrawl.storage.anonymous_memory import anonymous_memory
from webcrawl.storage.atomic import make_directory, sync_path, write_all
from webcrawl.storage.record_log import (
    CorruptRecordError,
    NewerFormatError,
    RecordLog,
    read_records,
)

VERSION = 2
FILE = "records.sqlite"
_CREATE = (
    "CREATE TABLE facts (kind INTEGER NOT NULL, key TEXT NOT NULL, data BLOB NOT NULL,"
    " crc INTEGER NOT NULL, PRIMARY KEY (kind, key)) WITHOUT ROWID"
)
_CHANGES = "changes-{}.log"
_CHANGES_NOW = "changes.tmp"
# Maximum size of the changes kept for a copy. With this many, opening the copy takes 0.3 s longer.
_MAX_CHANGES = 1 << 24
_LOG = 0
_READ_LOG = "SELECT key, data, crc FROM facts WHERE kind = 0 ORDER BY key"
#: Deletes the records of some hosts (their kind is HOSTS); the SQL function ``covers`` says which.
FORGET_HOSTS = "DELETE FROM facts WHERE kind = 1 AND covers(key)"
_LOG_END = "SELECT ifnull(max(key) + 1, 0) FROM facts WHERE kind = 0"
_DELETE_LOG = "DELETE FROM facts WHERE kind = 0"
_READ = "SELECT data, crc FROM facts WHERE kind = ? AND key = ?"
_HAS_ANY = "SELECT EXISTS(SELECT 1 FROM facts)"
# These return one JSON value instead of many rows, for the reason given at _ROWS_PER_STATEMENT.
_NEXT_KEYS = (
    "SELECT json_group_array(json_array(kind, key)) FROM (SELECT kind, key FROM facts"
    " WHERE (kind, key) > (?, ?) ORDER BY kind, key LIMIT ?)"
)
_READ_MANY = (
    "SELECT json_group_array(json_array(key, hex(data), crc)) FROM facts"
    " WHERE kind = ? AND key IN (SELECT value FROM json_each(?))"
)
_ROW = "(?, ?, ?, ?)"
_REPLACE = "INSERT OR REPLACE INTO facts (kind, key, data, crc) VALUES ROWS"
# Maximum number of rows in a statement. Each statement releases Python's lock and takes it again,
# which costs up to 5 ms while the reactor is busy, so row by row only 200 rows could be written per
# second. Numbers of rows are powers of two, because SQLite caches a statement for each number.
_ROWS_PER_STATEMENT = 1024
# Maximum number of rows in the log, each with the facts of one second.
_LOG_ROWS = 64
# Maximum number of rows in a transaction. Between transactions SQLite moves the write-ahead log to
# the file, so the log stays small.
_ROWS_PER_TRANSACTION = 8192
# SQLite moves the write-ahead log to the file when it has at least this many pages, or one for each
# KiB given to ``resize`` (32 MB with one shard). A page that changed several times is moved once.
_WAL_PAGES = 1000
# Number of pages (16 MB) copied before checking again whether to continue.
_PAGES_PER_STEP = 4096
# Number of keys of an earlier process that are read at once. Decoding them holds Python's lock for
# 6 ms. The second number is how often that is done in each call of ``write``.
_KEYS_AT_ONCE = 1 << 14
_TIMES_PER_WRITE = 4
# KiB of pages that the reading connection caches; the others are in the system's cache.
_CACHE_KIB = 8192
# Sizes of the key filter and of the log, in relation to the pages that are cached.
_FILTER_SHARE = 2
_LOG_SHARE = 0.5
# SQLite's errors if the problem is the disk, and not the content of the file, and their errno.
_DISK_ERRNO = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: 0,  # determined by ``_disk_errno``
    sqlite3.SQLITE_CANTOPEN: 0,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_PERM: errno.EACCES,
    sqlite3.SQLITE_BUSY: errno.EBUSY,
    sqlite3.SQLITE_LOCKED: errno.EBUSY,
}

# The kinds of facts in the file. Earlier versions had URL patterns as kind 4 and counters of hosts
# as kind 6, which are ignored.
HOSTS = 1
ROBOTS = 2
RESTS = 3
DOMAINS = 5
# Links to be merged into the counters; only in the log.
LINKS = 7
# Results of visits because of hints (revisit/hints.py).
HINTS = 8

# Kind, key and encoded value.
Fact = tuple[int, str, bytes]
# Encoded facts by kind and key.
Batch = dict[int, Mapping[str, bytes]]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgpack_decoder(dict[int, dict[str, bytes]])
_decode_keys = json_decoder(list[tuple[int, str]])
_decode_values = json_decoder(list[tuple[str, str, int]])


class Changes(NamedTuple):
    """Log of the facts written since a copy was made, and the name it gets next to the copy."""

    log: RecordLog
    name: str


class Database:
    """The SQLite file in the directory *path*. A second thread may write and add to the log."""

    # Set by ``open``.
    _reader: sqlite3.Connection
    _writer: sqlite3.Connection

    def __init__(self, *, path: Path) -> None:
        self.path = path
        self.file = path / FILE
        self._wal = path / f"{FILE}-wal"
        # Closes both connections.
        self._opened = ExitStack()
        # Directories with new entries, to be synced; see ``written``.
        self._new_names: list[Path] = []
        self._cache_kib = _CACHE_KIB
        # Filter of the keys that may be stored; ``open`` replaces it with a larger one.
        self._keys = _KeyFilter(1)
        # The last key of an earlier process that was added to ``_keys``; None if all were.
        self._last_key: tuple[int, str] | None = None
        # Numbers of rows and bytes in the log.
        self._log_rows = 0
        self._log_bytes = 0
        #: Changes since the last ``copy_to`` with *track_changes*; None if there were too many.
        self.changes: Changes | None = None
        # Held to write to the log or to replace ``changes``. So each row of the log that is not in
        # a copy is in its changes.
        self._lock = threading.Lock()

    def resize(self, cache_kib: int) -> None:
        """Cache *cache_kib* KiB of the file's pages in memory.

        The log gets half as much, and the key filter twice as much when the file is next opened.
        """
        self._cache_kib = cache_kib
        if hasattr(self, "_reader"):
            self._reader.execute(f"PRAGMA cache_size = -{cache_kib}")

    def open(self) -> None:
        """Open the file, and create it if needed. Blocks; reads at most the write-ahead log.

        Raises CorruptRecordError if it is another kind of file or damaged, NewerFormatError,
        OSError.
        """
        # Directories that existed are included: a killed process may not have synced them.
        self._new_names = [*make_directory(self.path), self.path.parent, self.path]
        (self.path / _CHANGES_NOW).unlink(missing_ok=True)
        try:
            with self._convert_errors():
                self._writer = self._opened.enter_context(closing(self._connect()))
                self._prepare(self._writer)
                self._restore_changes(self._writer)
                self._reader = self._opened.enter_context(closing(self._connect()))
                self._reader.execute(f"PRAGMA cache_size = -{self._cache_kib}")
                self._reader.execute("PRAGMA query_only = 1")
                self._keys = _KeyFilter(_FILTER_SHARE * self._cache_kib << 10)
                # All keys of earlier processes come after this one.
                ((has_any,),) = self._reader.execute(_HAS_ANY).fetchall()
                self._last_key = (0, "") if has_any else None
        except BaseException:
            self.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        # Without automatic transactions: only ``write`` starts them.
        return sqlite3.connect(self.file, isolation_level=None, check_same_thread=False)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Set SQLite's options, and create the table in a new file."""
        version = version_of(connection, self.file)
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {max(_WAL_PAGES, self._cache_kib)}")
        # No temporary files, because only SQLite's three files may be in the directory.
        connection.execute("PRAGMA temp_store = MEMORY")
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master")]
        if not version and not tables:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(_CREATE)
            connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute("COMMIT")
        elif version != VERSION or tables != ["facts"]:
            raise CorruptRecordError(self.file, 0, "not a file of host records")

    def _restore_changes(self, connection: sqlite3.Connection) -> None:
        """Add the changes stored next to a copy to the log, and delete their file."""
        for path in self.path.glob(_CHANGES.format("*")):
            connection.execute("BEGIN IMMEDIATE")
            ((end,),) = connection.execute(_LOG_END).fetchall()
            for number, (_, data) in enumerate(read_records(path), end):
                key = f"{number:08}"
                connection.execute(_replacement(1), (_LOG, key, data, checksum(key, data)))
            connection.execute("COMMIT")
            # Sync before and after deleting it. If the file came back after a power failure, it
            # would undo later writes.
            for synced in (self._wal, self.path):
                sync_path(synced)
            path.unlink()
            sync_path(self.path)

    def read(self, kind: int, key: str) -> bytes | None:
        """Return the value of *key*; None if there is none.

        With 1,000,000 records, takes 10 us if the page is in memory. Raises CorruptRecordError,
        OSError.
        """
        with self._convert_errors():
            return value_of(self._reader, self.file, kind, key)

    def may_hold(self, kind: int, key: str) -> bool:
        """Return whether ``read`` may find *key*. If False, no completed ``write`` stored it."""
        return self._last_key is not None or self._keys.may_hold(kind, key)

    def read_many(self, kind: int, keys: list[str]) -> dict[str, bytes]:
        """Return the values of those *keys* that have one. Runs in the writing thread.

        Raises like ``read``.
        """
        keys_json = msgspec.json.encode(keys).decode()
        with self._convert_errors():
            ((rows_json,),) = self._writer.execute(_READ_MANY, (kind, keys_json)).fetchall()
        values = {}
        for key, text, crc in _decode_values(rows_json):
            values[key] = _checked_value(self.file, key, bytes.fromhex(text), crc)
        return values

    def logged_facts(self) -> Iterator[Fact]:
        """Yield the facts in the log, older values of a key before newer ones.

        Raises like ``read``.
        """
        with self._convert_errors():
            for number, fact in log_of(self._reader, self.file):
                self._log_rows = number + 1
                yield fact

    def add_to_log(self, batch: Batch) -> None:
        """Store *batch* as one row of the log, to be kept until ``forget_log``. 1 us per fact.

        Blocks and raises like ``write``.
        """
        data = _encode(batch)
        key = f"{self._log_rows:08}"
        row = (_LOG, key, data, checksum(key, data))
        with self._convert_errors():
            self._read_keys()
            with self._lock:
                self._record_change(data)
                self._writer.execute(_replacement(1), row)
        self._log_rows += 1
        self._log_bytes += len(data)

    def _record_change(self, data: bytes) -> None:
        """Add the encoded batch *data* to ``changes``, which end if they have become too long."""
        if self.changes is not None:
            self.changes.log.append(data)
            if self.changes.log.size > _MAX_CHANGES:
                self._end_changes()

    @property
    def is_log_full(self) -> bool:
        """Return whether the log is full, so that its facts should get rows of their own."""
        max_bytes = _LOG_SHARE * self._cache_kib * 1024
        return self._log_rows >= _LOG_ROWS or self._log_bytes >= max_bytes

    def forget_log(self) -> None:
        """Delete the log, when all its facts have been written. Blocks."""
        with self._convert_errors():
            self._writer.execute(_DELETE_LOG)
        self._log_rows = 0
        self._log_bytes = 0

    def write(self, facts: Iterable[Fact]) -> int:
        """Store all *facts*, replacing facts of the same kind and key; return their number.

        If the facts are in the order of the table, rows on one page are written together. Blocks;
        takes 10 us per fact. The facts survive ``kill -9`` when this returns. After an OSError some
        may be stored, and it is safe to write them again. Also raises CorruptRecordError.
        """
        fact_iterator = iter(facts)
        written = 0
        with self._convert_errors():
            self._read_keys()
            while batch := [*itertools.islice(fact_iterator, _ROWS_PER_TRANSACTION)]:
                self._writer.execute("BEGIN IMMEDIATE")
                try:
                    start = 0
                    while remaining := len(batch) - start:
                        # The largest power of two that is not larger than *remaining*.
                        row_count = min(_ROWS_PER_STATEMENT, 1 << remaining.bit_length() - 1)
                        self._replace(batch[start : start + row_count])
                        start += row_count
                    self._writer.execute("COMMIT")
                finally:
                    if self._writer.in_transaction:
                        self._writer.execute("ROLLBACK")
                written += len(batch)
        return written

    def _read_keys(self) -> None:
        """Add to the filter more of the keys that an earlier process stored."""
        for _ in range(_TIMES_PER_WRITE):
            if self._last_key is None:
                return
            ((keys_json,),) = self._writer.execute(
                _NEXT_KEYS, (*self._last_key, _KEYS_AT_ONCE)
            ).fetchall()
            keys = _decode_keys(keys_json)
            for kind, key in keys:
                self._keys.add(kind, key)
            self._last_key = keys[-1] if len(keys) == _KEYS_AT_ONCE else None

    def _replace(self, batch: list[Fact]) -> None:
        """Insert the facts in *batch* with one statement, replacing older values."""
        values: list[int | str | bytes] = []
        for kind, key, data in batch:
            self._keys.add(kind, key)
            values += (kind, key, data, checksum(key, data))
        self._writer.execute(_replacement(len(batch)), values)

    def copy_to(
        self, directory: Path, may_continue: Callable[[], bool], *, track_changes: bool = False
    ) -> None:
        """Copy all committed facts into a file of the same name in *directory*, and sync it.

        With *track_changes*, the facts logged from now on are also added to ``changes``. Only one
        such copy may be made at a time.

        May be called from any thread; blocks about 1 s for 200 MB. Ends early, with an unusable
        copy, when *may_continue* returns False. The write-ahead log grows meanwhile. Raises
        CorruptRecordError, OSError.
        """
        if track_changes:
            with self._lock:
                self._end_changes()
                log = RecordLog.open(self.path / _CHANGES_NOW, size=0)
                self.changes = Changes(log, _CHANGES.format(random_hex("changes")))

        with self._convert_errors(), ExitStack() as stack:
            source = stack.enter_context(closing(self._connect()))
            target = sqlite3.connect(directory / FILE, isolation_level=None)
            stack.enter_context(closing(target))
            # One transaction for the whole copy, because SQLite restarts a copy after each write to
            # the file. It sees the file as of the first SELECT.
            source.execute("BEGIN")
            source.execute("SELECT * FROM sqlite_master").fetchall()
            with suppress(_CopyEndedEarly):
                source.backup(target, pages=_PAGES_PER_STEP, progress=_stop_unless(may_continue))

    def _end_changes(self) -> None:
        """Stop tracking changes."""
        if self.changes is not None:
            self.changes.log.close()
            self.changes = None

    def written(self) -> list[Path]:
        """Return the files to fsync so that all written facts survive a power failure.

        The database itself is not included, because SQLite syncs it when it moves the write-ahead
        log there.
        """
        names = self._new_names
        self._new_names = []
        return [*names, self._wal]

    def close(self) -> None:
        """Close both connections. SQLite then moves the write-ahead log into the file. Blocks."""
        self._opened.close()
        self._end_changes()
        (self.path / _CHANGES_NOW).unlink(missing_ok=True)

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        """Convert SQLite's errors: to OSError for the disk, to CorruptRecordError for damage."""
        try:
            yield
        except (sqlite3.ProgrammingError, sqlite3.InterfaceError):
            raise  # a bug in this module
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
            if code not in _DISK_ERRNO:
                raise CorruptRecordError(self.file, 0, str(error)) from error
            number = _DISK_ERRNO[code] or self._disk_errno()
            raise OSError(number, os.strerror(number), str(self.file)) from error

    def _disk_errno(self) -> int:
        """Return the errno that SQLite does not report, by trying a similar write."""
        try:
            size = self._wal.stat().st_size if self._wal.exists() else 0
            with tempfile.TemporaryFile(dir=self.path) as file:
                file.seek(size)
                write_all(file.fileno(), bytes(1 << 16))
        except OSError as error:
            return error.errno or errno.EIO
        return errno.EIO


class _KeyFilter:
    """Filter of the keys that may be on disk, so that most new hosts need no look-up there.

    It is a Bloom filter with one hash function, of *size_bytes* bytes, which are allocated as
    needed. A key that was added is always found. Other keys are found by mistake, with a
    probability equal to the share of bits that are set: with 16 MB, 4 % after 6 million keys, 36 %
    after 60 million. Python's hashes differ between processes, so the filter is never stored. Only
    one thread at a time may add keys.
    """

    def __init__(self, size_bytes: int) -> None:
        self._bytes = anonymous_memory(size_bytes)
        self._bits = 8 * size_bytes

    def add(self, kind: int, key: str) -> None:
        slot = (hash(key) ^ kind) % self._bits
        self._bytes[slot >> 3] |= 1 << (slot & 7)

    def may_hold(self, kind: int, key: str) -> bool:
        slot = (hash(key) ^ kind) % self._bits
        return bool(self._bytes[slot >> 3] >> (slot & 7) & 1)


class _CopyEndedEarly(Exception):  # noqa: N818  # not an error
    """Raised to end a copy early."""


def _stop_unless(may_continue: Callable[[], bool]) -> Callable[[int, int, int], None]:
    """Return a progress callback for SQLite that ends a copy when *may_continue* is False."""

    def progress(_status: int, _remaining: int, _total: int) -> None:
        if not may_continue():
            raise _CopyEndedEarly

    return progress


def version_of(connection: sqlite3.Connection, file: Path) -> int:
    """Return the format version of *file*; 0 if it is new.

    Raises NewerFormatError if a later webcrawl wrote it.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise NewerFormatError(file, version, VERSION)
    return int(version)


def value_of(connection: sqlite3.Connection, file: Path, kind: int, key: str) -> bytes | None:
    """Return the value of *key* in *file*, or None. Raises CorruptRecordError, sqlite3.Error."""
    # Fetch all rows, because an unfinished statement would keep SQLite from moving the write-ahead
    # log to the file.
    rows: list[tuple[bytes, int]] = connection.execute(_READ, (kind, key)).fetchall()
    if not rows:
        return None
    ((data, crc),) = rows
    return _checked_value(file, key, data, crc)


def log_of(connection: sqlite3.Connection, file: Path) -> Iterator[tuple[int, Fact]]:
    """Yield (number of the row, fact) for all facts in the log of *file*, oldest first.

    Raises CorruptRecordError, sqlite3.Error.
    """
    for number, data, crc in connection.execute(_READ_LOG):
        for kind, facts in _decode(_checked_value(file, number, data, crc)).items():
            yield from ((int(number), (kind, key, value)) for key, value in facts.items())


def _checked_value(file: Path, key: str, data: bytes, crc: int) -> bytes:
    """Return *data*; raise CorruptRecordError if it does not match its checksum *crc*."""
    if checksum(key, data) != crc:
        raise CorruptRecordError(file, 0, f"checksum mismatch in the data of {key!r}")
    return data


def checksum(key: str, data: bytes) -> int:
    """Return the checksum of a row with *key* and *data*."""
    return zlib.crc32(data, zlib.crc32(key.encode()))


@functools.cache
def _replacement(rows: int) -> str:
    """Return the SQL statement that inserts or replaces this many *rows*."""
    return _REPLACE.replace("ROWS", ", ".join([_ROW] * rows))
