"""Records reader: reads the host records of a crawl from another process.

It changes nothing, and takes no lock that could delay the owner. The owner writes every second, so
the facts read are up to two seconds old.

SQLite needs the shared-memory file (``-shm``) to find the valid part of the write-ahead log
(``-wal``). If a running or killed crawl has left one, it is used without being written
(``readonly_shm``). If there is neither, the database has all facts (``immutable``). If there is
only a log, as in a copy of a job, database and log are copied elsewhere and read there.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self
from urllib.parse import quote

from webcrawl.hosts.records.database import (
    FILE,
    HOSTS,
    RESTS,
    ROBOTS,
    checksum,
    log_of,
    value_of,
    version_of,
)
from webcrawl.hosts.records.host_record import HostRecord, decode
from webcrawl.storage.record_log import CorruptRecordError

SCAN = "SELECT kind, key, data, crc FROM facts"


class RecordsReader:
    """Context manager that reads the host records in the directory *path*; empty without a file.

    Raises CorruptRecordError if the file is of another kind, NewerFormatError, OSError.
    """

    def __init__(self, *, path: Path) -> None:
        self._file = path / FILE
        # None outside of the context, or if there is no file.
        self._connection: sqlite3.Connection | None = None
        # The facts in the log by kind and key; None until they are needed.
        self._logged: dict[tuple[int, str], bytes] | None = None
        # Closes the connection, and deletes a copy of the file.
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if self._file.exists():
            with ExitStack() as stack, self._convert_errors():
                connection = self._connect(stack)
                self._connection = connection
                version_of(connection, self._file)
                self._stack = stack.pop_all()
        return self

    def _connect(self, stack: ExitStack) -> sqlite3.Connection:
        """Return a connection for reading only, to be closed by *stack*."""
        # The module's docstring explains the three modes.
        file = self._file
        mode = "mode=ro&readonly_shm=1"
        if not _with_suffix(file, "-shm").exists():
            if _with_suffix(file, "-wal").exists():
                copy = Path(stack.enter_context(tempfile.TemporaryDirectory())) / FILE
                shutil.copyfile(_with_suffix(file, "-wal"), _with_suffix(copy, "-wal"))
                shutil.copyfile(file, copy)
                file = copy
                mode = "mode=rw"
            else:
                mode = "immutable=1"
        uri = f"file:{quote(str(file.absolute()))}?{mode}"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        stack.callback(connection.close)
        connection.execute("PRAGMA temp_store = MEMORY")
        return connection

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        """Convert SQLite's errors to CorruptRecordError."""
        try:
            yield
        except sqlite3.Error as error:
            raise CorruptRecordError(self._file, 0, str(error)) from error

    def __exit__(self, *_: object) -> None:
        self._connection = None
        self._stack.close()

    def record(self, host: str) -> HostRecord | None:
        """Return the record of *host*, or None. Raises CorruptRecordError if it is damaged."""
        data = self._read(HOSTS, host)
        return None if data is None else decode(data, host, self._file)

    def robots(self, origin: str) -> bytes | None:
        """Return the last encoded robots.txt of *origin*, or None."""
        return self._read(ROBOTS, origin)

    def put_robots(self, origin: str, data: bytes) -> None:
        """Do nothing, because a reader does not store anything."""

    def rest(self, host: str) -> bytes | None:
        """Return the last encoded pause of *host* that the frontier has stored, or None."""
        return self._read(RESTS, host)

    def has_log(self) -> bool:
        """Return whether the crawl was killed, and its next run has to merge the log."""
        if self._connection is None:
            return False
        with self._convert_errors():
            return any(log_of(self._connection, self._file))

    def find_damage(self) -> Iterator[str]:
        """Read the whole file, and yield a message for each piece of damage.

        Memory does not grow with the file: SQLite's own check returns at most a hundred messages.
        """
        if self._connection is None:
            return
        try:
            for (text,) in self._connection.execute("PRAGMA integrity_check(100)"):
                if text != "ok":
                    yield text
            if not self._connection.execute("SELECT name FROM sqlite_master").fetchall():
                return  # the process died before it created the table; the next start creates it
            for _, key, data, crc in self._connection.execute(SCAN):
                # In a damaged file, NOT NULL columns may be NULL.
                if key is None or data is None or checksum(key, data) != crc:
                    yield f"checksum mismatch in the data of {key!r}"
        except (sqlite3.Error, UnicodeError) as error:
            yield str(error)

    def _read(self, kind: int, key: str) -> bytes | None:
        """Return the value of *key*: the last one in the log, or else that of its own row."""
        if self._connection is None:
            return None
        with self._convert_errors():
            if self._logged is None:
                # The newest value of a fact comes last.
                log = log_of(self._connection, self._file)
                self._logged = {(kind, key): data for _, (kind, key, data) in log}
            data = self._logged.get((kind, key))
            return value_of(self._connection, self._file, kind, key) if data is None else data


def _with_suffix(file: Path, suffix: str) -> Path:
    """Return the path of SQLite's file with *suffix* that belongs to *file*."""
    return file.with_name(file.name + suffix)
