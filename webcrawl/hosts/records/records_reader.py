"""Records reader: reads the host records of a crawl from another process.

It takes no lock that disturbs the owner and changes nothing. The owner writes every second, so the
facts read are up to two seconds old.

SQLite needs the shared-memory file (``-shm``) to find the valid part of the write-ahead log. If a
running or killed crawl left one, it is used without being written (``readonly_shm``). If there is
neither, the file has everything (``immutable``). If there is only a log, as in a copy of a job,
file and log are copied and read there.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self
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

if TYPE_CHECKING:
    from collections.abc import Iterator

SCAN = "SELECT kind, key, data, crc FROM facts"


class RecordsReader:
    """The host records in the directory *path*, as a context manager; empty without a file.

    Raises CorruptRecordError if that is another file, NewerFormatError, OSError.
    """

    def __init__(self, *, path: Path) -> None:
        self._file = path / FILE
        self._connection: sqlite3.Connection | None = None
        self._logged: dict[tuple[int, str], bytes] | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if self._file.exists():
            with ExitStack() as stack, self._translated():
                self._connection = connection = self._connect(stack)
                version_of(connection, self._file)
                self._stack = stack.pop_all()
        return self

    def _connect(self, stack: ExitStack) -> sqlite3.Connection:
        file, mode = self._file, "mode=ro&readonly_shm=1"
        if not _beside(file, "-shm").exists():
            if _beside(file, "-wal").exists():
                copy = Path(stack.enter_context(tempfile.TemporaryDirectory())) / FILE
                shutil.copyfile(_beside(file, "-wal"), _beside(copy, "-wal"))
                shutil.copyfile(file, copy)
                file, mode = copy, "mode=rw"
            else:
                mode = "immutable=1"
        uri = f"file:{quote(str(file.absolute()))}?{mode}"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        stack.callback(connection.close)
        connection.execute("PRAGMA temp_store = MEMORY")
        return connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
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
        """Return the last value put for *origin*, as the robots package packs it."""
        return self._read(ROBOTS, origin)

    def put_robots(self, origin: str, data: bytes) -> None:
        """Do nothing: a reader stores nothing."""

    def rest(self, host: str) -> bytes | None:
        """Return the last value that the frontier put for *host*."""
        return self._read(RESTS, host)

    def damaged(self) -> Iterator[str]:
        """Read the whole file and yield a sentence for each damage.

        Memory does not grow with the file, except for up to a hundred sentences of SQLite's own
        check.
        """
        if self._connection is None:
            return
        try:
            for (text,) in self._connection.execute("PRAGMA integrity_check(100)"):
                if text != "ok":
                    yield text
            if not self._connection.execute("SELECT name FROM sqlite_master").fetchall():
                return  # the process died before it made the table; the next start makes it
            for _, key, data, crc in self._connection.execute(SCAN):
                if checksum(key, data) != crc:
                    yield f"checksum mismatch in the data of {key!r}"
        except (sqlite3.Error, UnicodeError) as error:
            yield str(error)

    def _read(self, kind: int, key: str) -> bytes | None:
        if self._connection is None:
            return None
        with self._translated():
            if self._logged is None:
                log = log_of(self._connection, self._file)
                self._logged = {(kind, key): data for _, (kind, key, data) in log}
            data = self._logged.get((kind, key))
            return value_of(self._connection, self._file, kind, key) if data is None else data


def _beside(file: Path, suffix: str) -> Path:
    return file.with_name(file.name + suffix)
