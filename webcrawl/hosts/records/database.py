"""Host database: the SQLite file of the host records, with packed values by kind and key.

One connection reads, in the thread that opened it; another writes, one call at a time, in any
thread. Invariant: a value is read as it was written, or CorruptRecordError is raised.

Format, in the directory *path*::

    records.sqlite          with ``-wal`` and ``-shm`` next to it, which belong to it
    changes-<random>.log    next to a copy: record log of the facts logged since it was made;
                            ``open`` adds it to the log of the file, and deletes it
    changes.tmp             the same file while it grows, in the original's directory; it can be
                            deleted

    PRAGMA user_version = 2
    facts(kind INTEGER, key TEXT, data BLOB, crc INTEGER), PRIMARY KEY (kind, key)

Rows of kind 0 are the log. Each has the facts of one second, as MessagePack by kind and key, under
an increasing number. Until all logged facts have been written to their own rows, the last value in
the log is the valid one; then the log is deleted.

*crc* is the CRC-32 (zlib) of the key's UTF-8 and the data: SQLite finds torn pages by their
structure only. The file uses WAL with ``synchronous=NORMAL``: after ``kill -9`` all committed data
is there, after a power failure a sound state from a few moments before.
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
from collections.abc import Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

VERSION = 2
FILE = "records.sqlite"
_CREATE = (
    "CREATE TABLE facts (kind INTEGER NOT NULL, key TEXT NOT NULL, data BLOB NOT NULL,"
    " crc INTEGER NOT NULL, PRIMARY KEY (kind, key)) WITHOUT ROWID"
)
_CHANGES = "changes-{}.log"
_CHANGES_NOW = "changes.tmp"
# Most bytes of changes kept for a copy. With this many, opening the copy takes 0.3 s longer.
_MAX_CHANGES = 1 << 24
_LOG = 0
_READ_LOG = "SELECT key, data, crc FROM facts WHERE kind = 0 ORDER BY key"
_LOG_END = "SELECT ifnull(max(key) + 1, 0) FROM facts WHERE kind = 0"
_DELETE_LOG = "DELETE FROM facts WHERE kind = 0"
_READ = "SELECT data, crc FROM facts WHERE kind = ? AND key = ?"
_HAS_ANY = "SELECT EXISTS(SELECT 1 FROM facts)"
# One value instead of many rows, see _ROWS_PER_STATEMENT.
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
# Rows of one statement. Each statement releases Python's lock and takes it again, which costs up to
# 5 ms while the reactor is busy, so row by row only 200 a second could be written. The number is a
# power of two, and so are those for the last rows, because SQLite caches a statement for each.
_ROWS_PER_STATEMENT = 1024
# Rows of the log, each with the facts of one second.
_LOG_ROWS = 64
# Rows of one transaction. Between transactions SQLite moves the write-ahead log to the file, so the
# log stays small.
_ROWS_PER_TRANSACTION = 8192
# SQLite moves the write-ahead log when it has at least this many pages, or one for each KiB given
# to ``resize`` (32 MB if there is one shard). A page that changed several times is moved only once.
_WAL_PAGES = 1000
# Pages copied (16 MB) before checking again whether to continue.
_PAGES_PER_STEP = 4096
# How many keys of an earlier process are read in one go (decoding them holds Python's lock for
# 6 ms), and how often that is done in each call of ``write``.
_KEYS_AT_ONCE = 1 << 14
_TIMES_PER_WRITE = 4
# KiB of pages that the reading connection keeps; the others are in the system's cache.
_CACHE_KIB = 8192
# Size of the key filter, and of the log, relative to these pages.
_FILTER_SHARE = 2
_LOG_SHARE = 0.5
# SQLite's errors when the disk, and not the file, is the problem.
_DISK_TROUBLE = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: 0,  # found out by ``_disk_errno``
    sqlite3.SQLITE_CANTOPEN: 0,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_PERM: errno.EACCES,
    sqlite3.SQLITE_BUSY: errno.EBUSY,
    sqlite3.SQLITE_LOCKED: errno.EBUSY,
}

# The kinds of facts in the file. Earlier versions had URL patterns as kind 4 and counters of hosts
# as kind 6, which are ignored.
HOSTS, ROBOTS, RESTS, DOMAINS = 1, 2, 3, 5
# Links to be merged into the counters; only in the log.
LINKS = 7
# Results of visits made because of hints (revisit/hints.py).
HINTS = 8

Fact = tuple[int, str, bytes]
# Facts by kind and key.
Batch = dict[int, Mapping[str, bytes]]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgpack_decoder(dict[int, dict[str, bytes]])
_decode_keys = json_decoder(list[tuple[int, str]])
_decode_values = json_decoder(list[tuple[str, str, int]])


class Changes(NamedTuple):
    """Facts logged since a copy was made: a growing file, and its name next to the copy."""

    log: RecordLog
    name: str


class Database:
    """The SQLite file in a directory. ``write`` may run in another thread than the rest."""

    # Set by ``open``.
    _reader: sqlite3.Connection
    _writer: sqlite3.Connection

    def __init__(self, *, path: Path) -> None:
        self.path = path
        self.file = path / FILE
        self._wal = path / f"{FILE}-wal"
        self._opened = ExitStack()
        self._new_names: list[Path] = []
        self._cache_kib = _CACHE_KIB
        self._keys = _KeyFilter(1)
        # The last key of an earlier process that is in ``_keys``; None if all are.
        self._last_key: tuple[int, str] | None = None
        # Rows and bytes of the log.
        self._log_rows = self._log_bytes = 0
        #: Changes since the last ``copy_to`` with *track_changes*; None if there were too many.
        self.changes: Changes | None = None
        self._lock = threading.Lock()

    def resize(self, cache_kib: int) -> None:
        """Keep *cache_kib* KiB of the file's pages in memory.

        The key filter gets twice as much, from ``open`` on, and the log half as much.
        """
        self._cache_kib = cache_kib
        if hasattr(self, "_reader"):
            self._reader.execute(f"PRAGMA cache_size = -{cache_kib}")

    def open(self) -> None:
        """Open the file, and create it if needed. Blocks; reads at most the write-ahead log.

        Raises CorruptRecordError if it is another file or damaged, NewerFormatError, OSError.
        """
        # Includes directories that existed: a killed process may have made them without syncing.
        self._new_names = [*make_directory(self.path), self.path.parent, self.path]
        (self.path / _CHANGES_NOW).unlink(missing_ok=True)
        try:
            with self._translated():
                self._writer = self._opened.enter_context(closing(self._connect()))
                self._prepare(self._writer)
                self._restore_changes(self._writer)
                self._reader = self._opened.enter_context(closing(self._connect()))
                self._reader.execute(f"PRAGMA cache_size = -{self._cache_kib}")
                self._reader.execute("PRAGMA query_only = 1")
                self._keys = _KeyFilter(_FILTER_SHARE * self._cache_kib << 10)
                ((has_any,),) = self._reader.execute(_HAS_ANY).fetchall()
                self._last_key = (0, "") if has_any else None
        except BaseException:
            self.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        # Only ``write`` begins transactions.
        return sqlite3.connect(self.file, isolation_level=None, check_same_thread=False)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        version = version_of(connection, self.file)
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {max(_WAL_PAGES, self._cache_kib)}")
        # There must be no other files than the three in the directory.
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
        for path in self.path.glob(_CHANGES.format("*")):
            connection.execute("BEGIN IMMEDIATE")
            ((end,),) = connection.execute(_LOG_END).fetchall()
            for number, (_, data) in enumerate(read_records(path), end):
                key = f"{number:08}"
                connection.execute(_replacement(1), (_LOG, key, data, checksum(key, data)))
            connection.execute("COMMIT")
            # If it came back after a power failure, it would undo later writes.
            for one in (self._wal, self.path):
                sync_path(one)
            path.unlink()
            sync_path(self.path)

    def read(self, kind: int, key: str) -> bytes | None:
        """Return the value of *key*, or None.

        Takes 10 us with the page in memory, for 1,000,000 records. Raises CorruptRecordError,
        OSError.
        """
        with self._translated():
            return value_of(self._reader, self.file, kind, key)

    def may_hold(self, kind: int, key: str) -> bool:
        """Return whether ``read`` may find *key*; False is certain once its ``write`` has ended."""
        return self._last_key is not None or self._keys.may_hold(kind, key)

    def read_many(self, kind: int, keys: list[str]) -> dict[str, bytes]:
        """Return the values of those *keys* that have one. Runs in the writing thread.

        Raises like ``read``.
        """
        wanted = msgspec.json.encode(keys).decode()
        with self._translated():
            ((found,),) = self._writer.execute(_READ_MANY, (kind, wanted)).fetchall()
        values = {}
        for key, text, crc in _decode_values(found):
            values[key] = _checked_value(self.file, key, bytes.fromhex(text), crc)
        return values

    def logged(self) -> Iterator[Fact]:
        """Yield the entries of the log, the older value of a key before the newer one.

        Raises like ``read``.
        """
        with self._translated():
            for number, fact in log_of(self._reader, self.file):
                self._log_rows = number + 1
                yield fact

    def log(self, batch: Batch) -> None:
        """Store *batch* in one row until ``forget_log``; else like ``write``. 1 us per fact."""
        data = _encode(batch)
        key = f"{self._log_rows:08}"
        with self._translated():
            self._read_keys()
            with self._lock:
                if self.changes is not None:
                    self.changes.log.append(data)
                    if self.changes.log.size > _MAX_CHANGES:
                        self._end_changes()
                self._writer.execute(_replacement(1), (_LOG, key, data, checksum(key, data)))
        self._log_rows += 1
        self._log_bytes += len(data)

    @property
    def log_is_full(self) -> bool:
        """Whether all logged facts should be written now."""
        max_bytes = _LOG_SHARE * self._cache_kib * 1024
        return self._log_rows >= _LOG_ROWS or self._log_bytes >= max_bytes

    def forget_log(self) -> None:
        """Delete the log, after all of its facts were written. Blocks."""
        with self._translated():
            self._writer.execute(_DELETE_LOG)
        self._log_rows = self._log_bytes = 0

    def write(self, facts: Iterable[Fact]) -> int:
        """Store all *facts*, replacing those of the same kind and key; return how many.

        If they come in the order of the table, rows of one page are written together. Blocks; 10 us
        for each. They survive ``kill -9`` when this returns. On OSError some may be stored, and it
        is safe to write them again. Raises CorruptRecordError.
        """
        rows = iter(facts)
        written = 0
        with self._translated():
            self._read_keys()
            while batch := [*itertools.islice(rows, _ROWS_PER_TRANSACTION)]:
                self._writer.execute("BEGIN IMMEDIATE")
                try:
                    start = 0
                    while left := len(batch) - start:
                        rows_now = min(_ROWS_PER_STATEMENT, 1 << left.bit_length() - 1)
                        self._replace(batch[start : start + rows_now])
                        start += rows_now
                    self._writer.execute("COMMIT")
                finally:
                    if self._writer.in_transaction:
                        self._writer.execute("ROLLBACK")
                written += len(batch)
        return written

    def _read_keys(self) -> None:
        """Read some of the keys that an earlier process stored."""
        for _ in range(_TIMES_PER_WRITE):
            if self._last_key is None:
                return
            ((found,),) = self._writer.execute(
                _NEXT_KEYS, (*self._last_key, _KEYS_AT_ONCE)
            ).fetchall()
            keys = _decode_keys(found)
            for kind, key in keys:
                self._keys.add(kind, key)
            self._last_key = keys[-1] if len(keys) == _KEYS_AT_ONCE else None

    def _replace(self, batch: list[Fact]) -> None:
        values: list[int | str | bytes] = []
        for kind, key, data in batch:
            self._keys.add(kind, key)
            values += (kind, key, data, checksum(key, data))
        self._writer.execute(_replacement(len(batch)), values)

    def copy_to(
        self, directory: Path, may_continue: Callable[[], bool], *, track_changes: bool = False
    ) -> None:
        """Copy all committed facts into a file of the same name in *directory*, and sync it.

        With *track_changes*, ``changes`` has the facts logged from then on; only one such copy at a
        time.

        For any thread; blocks about 1 s for 200 MB. Ends early, with an unusable copy, when
        *may_continue* returns False. The write-ahead log grows meanwhile. Raises
        CorruptRecordError, OSError.
        """
        if track_changes:
            with self._lock:
                self._end_changes()
                log = RecordLog.open(self.path / _CHANGES_NOW, size=0)
                self.changes = Changes(log, _CHANGES.format(random_hex("changes")))
        with self._translated(), ExitStack() as stack:
            source = stack.enter_context(closing(self._connect()))
            target = sqlite3.connect(directory / FILE, isolation_level=None)
            stack.enter_context(closing(target))
            # One transaction for the whole copy, or every write to the file would restart it.
            source.execute("BEGIN")
            source.execute("SELECT * FROM sqlite_master").fetchall()
            with suppress(_EndedEarly):
                source.backup(target, pages=_PAGES_PER_STEP, progress=_stop_unless(may_continue))

    def _end_changes(self) -> None:
        if self.changes is not None:
            self.changes.log.close()
            self.changes = None

    def written(self) -> list[Path]:
        """Return the files to fsync so that all written facts survive a power failure.

        The file itself is not among them: SQLite syncs it whenever it moves the log there.
        """
        names, self._new_names = self._new_names, []
        return [*names, self._wal]

    def close(self) -> None:
        """Close both connections; the last one moves the log into the file. Blocks."""
        self._opened.close()
        self._end_changes()
        (self.path / _CHANGES_NOW).unlink(missing_ok=True)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise SQLite's errors as OSError for the disk, or CorruptRecordError for damage."""
        try:
            yield
        except (sqlite3.ProgrammingError, sqlite3.InterfaceError):
            raise  # a bug in this module
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
            if code not in _DISK_TROUBLE:
                raise CorruptRecordError(self.file, 0, str(error)) from error
            number = _DISK_TROUBLE[code] or self._disk_errno()
            raise OSError(number, os.strerror(number), str(self.file)) from error

    def _disk_errno(self) -> int:
        """Return the errno that SQLite hides, found by trying a write like its own."""
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

    It has one bit for each slot of a hash (a Bloom filter with one function), in *size_bytes*,
    which are allocated as needed. A key that was added is always found. Another key is found with
    the probability of the bits set: with 16 MB 4 % after 6 million keys, 36 % after 60 million.
    Python's hashes differ between processes, so the filter is never stored. Only one thread at a
    time may add.
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


class _EndedEarly(Exception):  # noqa: N818  # not an error
    """Raised to end a copy early."""


def _stop_unless(may_continue: Callable[[], bool]) -> Callable[[int, int, int], None]:
    def progress(_status: int, _remaining: int, _total: int) -> None:
        if not may_continue():
            raise _EndedEarly

    return progress


def version_of(connection: sqlite3.Connection, file: Path) -> int:
    """Return the format version of *file*, 0 if it is new.

    Raises NewerFormatError if a later webcrawl wrote it.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise NewerFormatError(file, version, VERSION)
    return int(version)


def value_of(connection: sqlite3.Connection, file: Path, kind: int, key: str) -> bytes | None:
    """Return the value of *key* in *file*, or None. Raises CorruptRecordError, sqlite3.Error."""
    # Fetch all rows: an unfinished statement would keep the log from being moved to the file.
    rows: list[tuple[bytes, int]] = connection.execute(_READ, (kind, key)).fetchall()
    if not rows:
        return None
    ((data, crc),) = rows
    return _checked_value(file, key, data, crc)


def log_of(connection: sqlite3.Connection, file: Path) -> Iterator[tuple[int, Fact]]:
    """Yield the log of *file*, oldest facts first, each with the number of its row.

    Raises CorruptRecordError, sqlite3.Error.
    """
    for number, data, crc in connection.execute(_READ_LOG):
        for kind, facts in _decode(_checked_value(file, number, data, crc)).items():
            yield from ((int(number), (kind, key, value)) for key, value in facts.items())


def _checked_value(file: Path, key: str, data: bytes, crc: int) -> bytes:
    if checksum(key, data) != crc:
        raise CorruptRecordError(file, 0, f"checksum mismatch in the data of {key!r}")
    return data


def checksum(key: str, data: bytes) -> int:
    return zlib.crc32(data, zlib.crc32(key.encode()))


@functools.cache
def _replacement(rows: int) -> str:
    return _REPLACE.replace("ROWS", ", ".join([_ROW] * rows))
