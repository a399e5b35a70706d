"""Link tables: the pairs of hosts or pages that are linked, and their ranking.

DuckDB aggregates, joins and sorts in at most _MEMORY_LIMIT, for any number of links and names. What
does not fit is in a temporary directory next to the results. For PageRank, the pairs are arrays in
memory, with 8 bytes for each pair.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Self

import duckdb
import numpy as np
import pyarrow as pa

from webcrawl.errors import FatalError
from webcrawl.pipelines.link_graph import DIRECTORY, EDGES
from webcrawl.pipelines.pagerank import rank
from webcrawl.pipelines.parquet import read_batches
from webcrawl.pipelines.work_directory import work_directory
from webcrawl.storage.atomic import replacement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path


#: Most pairs that can be ranked; they take 2 GB.
MAX_PAIRS = 1 << 28
_MEMORY_LIMIT = "1GB"
_THREADS = 2
_ROWS_AT_ONCE = 1 << 16
_CREATE_PAIRS = """
    create table pairs as
    select source, target, count(*) as links, count(*) filter (not nofollow) as followed
    from edges group by all
"""
_CREATE_NAMES = """
    create table names as
    select source as name from pairs union select target from pairs
"""
# The followed pairs as numbers of names. A host or page must not raise itself.
_SELECT_IDS = """
    select one.rowid::int as source, other.rowid::int as target
    from pairs join names one on source = one.name join names other on target = other.name
    where followed > 0 and source <> target
"""
_CREATE_RANKED = """
    create table ranked as
    select name, pagerank, in_degree, out_degree
    from names join shares on names.rowid = shares.id order by pagerank desc, name
"""


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


class LinkTables:
    """Database tables of one link graph.

    *links*, ``pairs`` and ``names`` are the numbers of links, of linked pairs, and of names.
    """

    def __init__(self, db: duckdb.DuckDBPyConnection, *, links: int) -> None:
        self._db = db
        self.links = links
        self.pairs, self.names = (db.table(name).shape[0] for name in ("pairs", "names"))

    @classmethod
    @contextmanager
    def of(
        cls,
        directories: Iterable[Path],
        *,
        name_of: Callable[[str], str],
        work_parent: Path,
        on_progress: Callable[[int], object],
    ) -> Iterator[Self]:
        """Build the tables of the links in *directories*, with each URL replaced by its name.

        *name_of* returns the name of a URL. Temporary files are in *work_parent*. *on_progress* is
        called with the number of links read. Raises OSError, CorruptRecordError or duckdb.Error.
        """
        url_columns = ["source", "target"]
        schema = pa.schema(
            [*((name, pa.string()) for name in url_columns), ("nofollow", pa.bool_())]
        )
        links = 0
        failures: list[Exception] = []

        def rows() -> Iterator[pa.RecordBatch]:
            """Yield the links with names instead of URLs; exceptions are kept in ``failures``."""
            nonlocal links
            try:
                for directory in directories:
                    for batch in read_batches(directory, schema.names):
                        columns = [_names_of(batch[name], name_of) for name in url_columns]
                        links += batch.num_rows
                        on_progress(links)
                        yield pa.record_batch([*columns, batch["nofollow"]], schema=schema)
            except Exception as error:
                failures.append(error)  # DuckDB's own exception would have only its text
                raise

        with (
            _work_directory(work_parent / "pagerank.work") as work_path,
            duckdb.connect(f"{work_path}/tables") as db,
        ):
            # Each thread needs memory, and a crawl may be running at the same time.
            db.execute(f"set memory_limit = '{_MEMORY_LIMIT}'; set threads = {_THREADS}")
            db.register("edges", pa.RecordBatchReader.from_batches(schema, rows()))
            try:
                db.execute(_CREATE_PAIRS)  # reads all rows of ``edges``
            except duckdb.Error as error:
                # The exception in ``rows`` is the cause, if there was one.
                raise (*failures, error)[0] from None
            db.execute(_CREATE_NAMES)
            yield cls(db, links=links)

    def rank(self, limit: int = MAX_PAIRS) -> None:
        """Rank all names. Raises FatalError if there are more than *limit* pairs, or none."""
        if not self.pairs:
            raise FatalError("The link graph has no links yet, so nothing was ranked.")
        if self.pairs > limit:
            raise FatalError(
                f"The link graph has {self.pairs:,} distinct links, but at most {limit:,} can be "
                "ranked: rank hosts instead of pages."
            )

        ids = self._db.execute(_SELECT_IDS).fetchnumpy()
        ranking = rank(ids["source"], ids["target"], self.names)
        shares = pa.table({"id": np.arange(self.names), **ranking._asdict()})
        self._db.register("shares", shares)
        self._db.execute(_CREATE_RANKED)

    def write_graph(self, path: Path) -> None:
        """Write the pairs to the Parquet file *path*, with source, target, links and followed."""
        self._write("from pairs", path)

    def write_ranking(self, path: Path, *, name: str) -> None:
        """Write the ranking to the Parquet file *path*, the best first.

        The columns are rank, *name*, pagerank, in_degree and out_degree.
        """
        columns = f"rowid + 1 as rank, name as {name}, pagerank, in_degree, out_degree"
        self._write(f"select {columns} from ranked order by rank", path)  # noqa: S608  # ours

    def write_ranks(self, path: Path, *, name: str) -> None:
        """Write lines of rank and name to *path*, best first; *name* heads the second column."""
        with (
            replacement(path) as temporary_path,
            temporary_path.open("w", encoding="utf-8") as file,
        ):
            file.write(f"rank,{name}\n")
            rows = self._db.execute("select rowid + 1, name from ranked order by 1")
            while block := rows.fetchmany(_ROWS_AT_ONCE):
                file.writelines(f"{rank},{ranked_name}\n" for rank, ranked_name in block)

    def _write(self, query: str, path: Path) -> None:
        """Write the rows of *query* to the Parquet file *path*."""
        with replacement(path) as temporary_path:
            self._db.sql(query).write_parquet(str(temporary_path), compression="zstd")


@contextmanager
def _work_directory(work: Path) -> Iterator[str]:
    """Make a temporary directory in *work*, which is deleted at the end.

    Leftover ones of earlier runs are deleted first.
    """
    with work_directory(work, activity="The links are being ranked"):
        for leftover in work.glob("tables-*"):
            shutil.rmtree(leftover)
        with TemporaryDirectory(prefix="tables-", dir=work) as path:
            yield path


def _names_of(urls: pa.Array, name_of: Callable[[str], str]) -> pa.Array:
    """Return the names of *urls*. *name_of* is called once for each distinct URL."""
    encoded = urls.dictionary_encode()
    names = pa.array(map(name_of, encoded.dictionary.to_pylist()), pa.string())
    return names.take(encoded.indices)
