"""Database of the links of a crawl, in which DuckDB aggregates, joins and sorts them.

DuckDB uses at most _MEMORY_LIMIT, for any number of links. What does not fit is in a temporary
directory next to the results.
"""

from __future__ import annotations

from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from webcrawl.errors import FatalError
from webcrawl.pipelines.link_graph import DIRECTORY, EDGES
from webcrawl.pipelines.parquet import read_batches
from webcrawl.pipelines.work_directory import work_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

_MEMORY_LIMIT = "1GB"
_THREADS = 2
_URLS = ("source", "target")


def edge_directories(jobdir: Path) -> list[Path]:
    """Return the directories with the link graph of the crawl in *jobdir*; in a hive, all drones'.

    Raises FatalError if there is no link graph.
    """
    patterns = (f"{DIRECTORY}/{EDGES}", f"drones/*/{DIRECTORY}/{EDGES}")
    directories = [path for pattern in patterns for path in sorted(jobdir.glob(pattern))]
    if not directories:
        raise FatalError(
            f"There is no link graph in {jobdir}: run a crawl or a replay with "
            "webcrawl.pipelines.link_graph.LinkGraph in ITEM_PIPELINES."
        )
    return directories


@contextmanager
def link_database(
    directories: Iterable[Path],
    columns: Sequence[str],
    *,
    create: str,
    name_of: Callable[[str], str] = str,
    work_parent: Path,
    on_progress: Callable[[int], object],
) -> Iterator[tuple[duckdb.DuckDBPyConnection, int]]:
    """Make a database of the links in *directories*; yield it, and the number of links.

    *create* is the statement that makes its first table from these *columns* of ``links``, which it
    reads once. *name_of* returns what replaces a URL. Temporary files are in *work_parent*.
    *on_progress* is called with the number of links read. Raises OSError, CorruptRecordError or
    duckdb.Error.
    """
    schema = pa.schema(
        [(name, pa.bool_() if name == "nofollow" else pa.string()) for name in columns]
    )
    renamed = _URLS if name_of is not str else ()
    links = 0
    failures: list[Exception] = []

    def batches() -> Iterator[pa.RecordBatch]:
        """Yield the links; exceptions are kept in ``failures``."""
        nonlocal links
        try:
            for directory in directories:
                for batch in read_batches(directory, schema.names):
                    links += batch.num_rows
                    on_progress(links)
                    arrays = [
                        _names_of(batch[name], name_of) if name in renamed else batch[name]
                        for name in columns
                    ]
                    yield pa.record_batch(arrays, schema=schema)
        except Exception as error:
            failures.append(error)  # DuckDB's own exception would have only its text
            raise

    with (
        # What a killed run has left there is deleted at the end.
        work_directory(
            work_parent / "pagerank.work", activity="The links are being ranked"
        ) as work,
        TemporaryDirectory(dir=work) as work_path,
        duckdb.connect(f"{work_path}/tables") as db,
    ):
        # Each thread needs memory, and a crawl may be running at the same time.
        db.execute(f"set memory_limit = '{_MEMORY_LIMIT}'; set threads = {_THREADS}")
        db.register("links", pa.RecordBatchReader.from_batches(schema, batches()))
        try:
            db.execute(create)
        except duckdb.Error as error:
            # The exception in ``batches`` is the cause, if there was one.
            raise (*failures, error)[0] from None
        yield db, links


def _names_of(urls: pa.Array, name_of: Callable[[str], str]) -> pa.Array:
    """Return the names of *urls*. *name_of* is called once for each distinct URL."""
    encoded = urls.dictionary_encode()
    names = pa.array(map(name_of, encoded.dictionary.to_pylist()), pa.string())
    return names.take(encoded.indices)
