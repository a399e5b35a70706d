"""Writes Parquet files row by row: rows go to a spool, and full spools become Parquet files.

An incomplete Parquet file cannot be read. Rows are therefore appended to a spool, where each row
survives ``kill -9``. A thread turns the spool into a Parquet file when the spool is full or the
crawl ends::

    part-<time>-<serial>.spool.open     the spool, a record log (storage/record_log.py): the schema,
                                        then msgpack arrays of rows
    part-<time>-<serial>.parquet.open   the Parquet file that is being made from it; disposable
    part-<time>-<serial>.parquet        complete and fsynced; then the spool is deleted

Invariant: each row passed to ``write`` is in one spool or in one Parquet file under its final name.
After a crash between the rename and the deletion it is in both, and ``open`` deletes the spool.
Spools of a running process are locked and left alone, so several processes can share a directory.
"""

from __future__ import annotations

import itertools
import logging
import os
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from webcrawl.clock import TimeSource, wall_time
from webcrawl.configuration.decoding import msgpack_decoder
from webcrawl.pipelines.growing_files import GrowingFiles
from webcrawl.storage.atomic import sync_path
from webcrawl.storage.record_log import CorruptRecordError, RecordLog, read_records

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa

logger = logging.getLogger(__name__)

_SUFFIXES = (_SPOOL := ".spool.open", ".parquet")
# Bytes that are converted to Arrow arrays in one step, as other threads cannot run meanwhile.
_STEP_BYTES = 1 << 19
# Size of the row groups of a Parquet file, each of which is built in memory.
_GROUP_BYTES = 1 << 25

_decode = msgpack_decoder(list[list[Any]])


class ParquetFiles:
    """Writes rows to Parquet files in *directory*. Not thread-safe.

    A spool is full when it has *max_bytes*. *executor* provides the thread that turns
    spools into Parquet files; by default one is started. Needs pyarrow.
    """

    def __init__(
        self,
        *,
        directory: Path,
        max_bytes: int = 1 << 27,
        executor: Executor | None = None,
        clock: TimeSource = wall_time,
    ) -> None:
        """Prepare to write to *directory*, which ``open`` makes.

        max_bytes: a spool is full when it has this many bytes.
        executor: provides the thread that turns spools into Parquet files; None to start one.
        clock: the time in epoch seconds.
        """
        self._directory = directory
        self._files = GrowingFiles(
            directory=directory, prefix="part", suffixes=_SUFFIXES, clock=clock
        )
        self._max_bytes = max_bytes
        self._executor = executor or ThreadPoolExecutor(1, thread_name_prefix="parquet")
        self._schema = b""  # serialized; ``open`` sets it
        # The current spool, and the locked descriptor of its file. None if no row was written since
        # the last spool was full.
        self._spool: RecordLog | None = None
        self._lock = -1
        self._is_synced = True  # whether ``sync`` has nothing to do
        # The conversion of the last spool, until it was waited for.
        self._conversion: Future[None] | None = None

    def open(self, schema: pa.Schema) -> None:
        """Make the directory, and turn the spools of dead processes into Parquet files.

        Rows must have the columns of *schema*, in its order. Blocks: a full spool takes seconds.
        """
        self._schema = schema.serialize().to_pybytes()
        for path, lock in self._files.open():
            self._convert(path, lock)

    def write(self, rows: Sequence[Sequence[Any]]) -> None:
        """Append *rows* with one write: all of them, or none on an error.

        From then on they survive ``kill -9``, and after ``sync`` also a power failure. Raises
        OSError if the disk is full.
        """
        if not rows:
            return
        if self._spool is None:
            self._spool = self._begin()
        self._is_synced = False
        size = self._spool.append(msgspec.msgpack.encode(rows))  # of the whole spool
        if size >= self._max_bytes:
            self._finish()

    def sync(self) -> None:
        """fsync everything that was written."""
        if self._spool is not None and not self._is_synced:
            self._spool.sync()
            sync_path(self._directory)
            self._is_synced = True

    def close(self) -> None:
        """Turn the remaining rows into a last Parquet file, and wait until it is written.

        If this raises OSError, the next run writes the file.
        """
        with self._executor:
            self._finish()
            if self._conversion is not None:
                self._conversion.result()

    def _begin(self) -> RecordLog:
        """Create a locked spool that contains the schema."""
        path, lock = self._files.begin()
        try:
            spool = RecordLog.open(path, size=0)
            spool.append(self._schema)
        except BaseException:
            os.close(lock)
            raise
        self._lock = lock
        return spool

    def _finish(self) -> None:
        """Hand the spool to the thread, once it has finished the previous spool."""
        if self._spool is None:
            return
        self.sync()
        self._wait_for_conversion()  # so that full spools do not pile up
        path = self._spool.path
        self._spool.close()
        self._spool = None
        self._conversion = self._executor.submit(self._convert, path, self._lock)

    def _wait_for_conversion(self) -> None:
        """Wait until the thread has finished its spool, and log its error, if any."""
        if self._conversion is not None:
            conversion = self._conversion
            self._conversion = None
            try:
                conversion.result()
            except OSError as error:
                logger.error(  # noqa: TRY400  # the message says enough
                    "Cannot write a Parquet file in %s (%s): the next run makes it from the spool",
                    self._directory,
                    error,
                )

    def _convert(self, path: Path, lock: int) -> None:
        """Turn the spool *path*, whose *lock* is held, into a Parquet file."""
        try:
            final = _final_path(path)
            temporary = final.with_name(final.name + ".open")
            try:
                # The file exists if a process died before it removed the spool.
                if not final.exists() and _write_parquet(path, temporary):
                    temporary.replace(final)
                    sync_path(self._directory)
            except BaseException:
                with suppress(OSError):  # free its space: the disk may be full
                    temporary.unlink()
                raise
            path.unlink()
        finally:
            os.close(lock)


def schema_of(names: str, **types: str) -> pa.Schema:
    """Return the Arrow schema of the columns *names*, which are separated by spaces.

    Columns are text unless *types* gives another type: the name of a function of pyarrow, "time",
    "strings" or "uint64s".
    """
    import pyarrow as pa  # noqa: PLC0415  # installed by `make modules`

    special_types = {
        "time": pa.timestamp("us", tz="UTC"),
        "strings": pa.list_(pa.string()),
        "uint64s": pa.list_(pa.uint64()),
    }
    columns = [(name, types.get(name, "string")) for name in names.split()]
    return pa.schema(
        [(name, special_types.get(kind) or getattr(pa, kind)()) for name, kind in columns]
    )


def read_batches(directory: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield these *columns* of all rows in *directory*, in batches.

    The rows come from Parquet files, and from spools up to their last complete record. A process
    may be writing to the directory. Raises OSError or CorruptRecordError.
    """
    import pyarrow as pa  # noqa: PLC0415  # installed by `make modules`
    import pyarrow.parquet as pq  # noqa: PLC0415  # as above

    # A spool and its Parquet file may both exist: only the Parquet file is then read.
    spools = [_final_path(path) for path in directory.glob(f"*{_SPOOL}")]
    for path in sorted({*spools, *directory.glob("*.parquet")}):
        if not path.exists():
            # If the spool has just been replaced by its Parquet file, that is read below.
            with suppress(FileNotFoundError), closing(_batches(_spool_path(path))) as batches:
                for batch in batches:
                    yield batch.select(columns)
                continue
        try:
            with pq.ParquetFile(path) as file:
                yield from file.iter_batches(columns=columns)
        except (OSError, pa.ArrowException) as error:
            raise CorruptRecordError(path, 0, str(error)) from error


def _final_path(spool: Path) -> Path:
    """Return the path of the Parquet file that is made from *spool*."""
    return spool.with_name(spool.name.removesuffix(_SPOOL) + ".parquet")


def _spool_path(final: Path) -> Path:
    """Return the path of the spool from which the Parquet file *final* is made."""
    return final.with_name(final.stem + _SPOOL)


def _write_parquet(spool: Path, path: Path) -> bool:
    """Write the complete rows of *spool* to the Parquet file *path*, and fsync it.

    Returns False, and makes no file, if there are no such rows.
    """
    import pyarrow as pa  # noqa: PLC0415  # installed by `make modules`
    import pyarrow.parquet as pq  # noqa: PLC0415  # as above

    with closing(_batches(spool)) as batches:
        first = next(batches, None)
        if first is None:
            return False
        with pq.ParquetWriter(path, first.schema, compression="zstd") as writer:
            group: list[pa.RecordBatch] = []  # the batches of the next row group
            size = 0
            for batch in itertools.chain((first,), batches):
                group.append(batch)
                size += batch.nbytes
                if size >= _GROUP_BYTES:
                    writer.write_table(pa.Table.from_batches(group))
                    group = []
                    size = 0
            if group:
                writer.write_table(pa.Table.from_batches(group))
    sync_path(path)
    return True


def _batches(spool: Path) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of *spool* in batches that are converted within a few milliseconds."""
    import pyarrow as pa  # noqa: PLC0415  # installed by `make modules`

    with closing(read_records(spool)) as records:
        _, schema_data = next(records, (0, b""))  # the first record; missing if the process died
        if not schema_data:
            return
        schema = pa.ipc.read_schema(pa.py_buffer(schema_data))
        for rows in _row_batches(payload for _, payload in records):
            columns = zip(*rows, strict=True)
            arrays = [
                pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _row_batches(payloads: Iterable[bytes]) -> Iterator[list[list[Any]]]:
    """Decode the rows in *payloads* and yield them in batches of limited size."""
    rows: list[list[Any]] = []
    size = 0
    for payload in payloads:
        rows += _decode(payload)
        size += len(payload)
        if size >= _STEP_BYTES:
            yield rows
            rows = []
            size = 0
    if rows:
        yield rows
