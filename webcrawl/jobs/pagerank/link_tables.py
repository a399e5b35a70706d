"""Link tables: pairs of linked hosts or pages, and the ranking of these.

DuckDB aggregates, joins and sorts within _MEMORY, for any number of links and names. The rest goes
to a directory next to the results until they are complete. For PageRank the pairs are arrays in
memory, 8 bytes each.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Self

import numpy as np

from webcrawl.errors import FatalError
from webcrawl.pipelines.link_graph import DIRECTORY, EDGES
from webcrawl.pipelines.pagerank import rank
from webcrawl.pipelines.parquet import read_batches
from webcrawl.storage.atomic import replacing
from webcrawl.storage.lock import work_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    import duckdb
    import pyarrow as pa

#: Largest number of pairs that can be ranked: 2 GB.
MAX_PAIRS = 1 << 28
_MEMORY = "1GB"
_THREADS = 2
_STEP = 1 << 16
_PAIRS = """
    create table pairs as
    select source, target, count(*) as links, count(*) filter (not nofollow) as followed
    from edges group by all
"""
_NAMES = """
    create table names as
    select source as name from pairs union select target from pairs
"""
# A host or page must not raise itself.
_IDS = """
    select one.rowid::int as source, other.rowid::int as target
    from pairs join names one on source = one.name join names other on target = other.name
    where followed > 0 and source <> target
"""
_RANKED = """
    create table ranked as
    select name, pagerank, in_degree, out_degree
    from names join shares on names.rowid = shares.id order by pagerank desc, name
"""


def edge_directories(jobdir: Path) -> list[Path]:
    """Return the directories with the edges of the crawl in *jobdir*, in a hive of each drone.

    Raises FatalError if there are none.
    """
    places = (f"{DIRECTORY}/{EDGES}", f"drones/*/{DIRECTORY}/{EDGES}")
    found = [path for place in places for path in sorted(jobdir.glob(place))]
    if not found:
        raise FatalError(
            f"There is no link graph in {jobdir}: run a crawl or a replay with "
            "webcrawl.pipelines.link_graph.LinkGraph in ITEM_PIPELINES."
        )
    return found


class LinkTables:
    """Tables of one link graph: pairs, and names by rank. *links* is the number of links."""

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
        """Make the tables of the links in *directories*, between the names of their URLs.

        *name_of* returns the name of a URL. Temporary files are in *work_parent*. *on_progress* is
        called with the number of links. Raises OSError, CorruptRecordError, duckdb.Error.
        """
        import duckdb  # noqa: PLC0415  # of `make modules`
        import pyarrow as pa  # noqa: PLC0415  # of `make modules`

        names = ["source", "target"]
        schema = pa.schema([*((name, pa.string()) for name in names), ("nofollow", pa.bool_())])
        links = 0
        failures: list[Exception] = []

        def rows() -> Iterator[pa.RecordBatch]:
            nonlocal links
            try:
                for directory in directories:
                    for batch in read_batches(directory, schema.names):
                        columns = [_named(batch[name], name_of) for name in names]
                        links += batch.num_rows
                        on_progress(links)
                        yield pa.record_batch([*columns, batch["nofollow"]], schema=schema)
            except Exception as error:
                failures.append(error)  # DuckDB's own error has only its text
                raise

        with (
            _directory(work_parent / "pagerank.work") as work,
            duckdb.connect(f"{work}/tables") as db,
        ):
            # Each thread needs memory, and a crawl may be running at the same time.
            db.execute(f"set memory_limit = '{_MEMORY}'; set threads = {_THREADS}")
            db.register("edges", pa.RecordBatchReader.from_batches(schema, rows()))
            try:
                db.execute(_PAIRS)
            except duckdb.Error as error:
                raise (*failures, error)[0] from None
            db.execute(_NAMES)
            yield cls(db, links=links)

    def rank(self, limit: int = MAX_PAIRS) -> None:
        """Rank the names. Raises FatalError if there are more than *limit* pairs, or none."""
        if not self.pairs:
            raise FatalError("The link graph has no links yet, so nothing was ranked.")
        if self.pairs > limit:
            raise FatalError(
                f"The link graph has {self.pairs:,} distinct links, but at most {limit:,} can be "
                "ranked: rank hosts instead of pages."
            )
        import pyarrow as pa  # noqa: PLC0415  # of `make modules`

        ids = self._db.execute(_IDS).fetchnumpy()
        ranking = rank(ids["source"], ids["target"], self.names)
        shares = pa.table({"id": np.arange(self.names), **ranking._asdict()})
        self._db.register("shares", shares)
        self._db.execute(_RANKED)

    def write_graph(self, path: Path) -> None:
        """Write the pairs to a Parquet file: source, target, links, followed."""
        self._write("from pairs", path)

    def write_ranking(self, path: Path, *, name: str) -> None:
        """Write rank, name, pagerank, in_degree and out_degree to a Parquet file, the best first.

        *name* is the name of the second column.
        """
        columns = f"rowid + 1 as rank, name as {name}, pagerank, in_degree, out_degree"
        self._write(f"select {columns} from ranked order by rank", path)  # noqa: S608  # ours

    def write_ranks(self, path: Path, *, name: str) -> None:
        """Write ``rank,name`` lines, the best first, under the heading *name*."""
        with replacing(path) as aside, aside.open("w", encoding="utf-8") as file:
            file.write(f"rank,{name}\n")
            rows = self._db.execute("select rowid + 1, name from ranked order by 1")
            while part := rows.fetchmany(_STEP):
                file.writelines(f"{rank},{one}\n" for rank, one in part)

    def _write(self, query: str, path: Path) -> None:
        with replacing(path) as aside:
            self._db.sql(query).write_parquet(str(aside), compression="zstd")


@contextmanager
def _directory(work: Path) -> Iterator[str]:
    """Make a temporary directory in *work*; delete it at the end, and leftover ones first."""
    with work_directory(work, activity="The links are being ranked"):
        for left in work.glob("tables-*"):
            shutil.rmtree(left)
        with TemporaryDirectory(prefix="tables-", dir=work) as path:
            yield path


def _named(urls: pa.Array, name_of: Callable[[str], str]) -> pa.Array:
    """Return the names of *urls*; *name_of* is called once for each distinct one."""
    import pyarrow as pa  # noqa: PLC0415  # of `make modules`

    coded = urls.dictionary_encode()
    names = pa.array(map(name_of, coded.dictionary.to_pylist()), pa.string())
    return names.take(coded.indices)
