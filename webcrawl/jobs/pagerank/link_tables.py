"""Link tables: the pairs of hosts or pages that are linked, and their ranking.

They are in a database (pipelines/link_database.py). For PageRank, the pairs are arrays in memory,
with 8 bytes for each pair.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa

from webcrawl.errors import FatalError
from webcrawl.pipelines.link_database import link_database
from webcrawl.pipelines.pagerank import rank
from webcrawl.storage.atomic import replacement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    import duckdb

#: Most pairs that can be ranked; they take 2 GB.
MAX_PAIRS = 1 << 28
_ROWS_AT_ONCE = 1 << 16
_CREATE_PAIRS = """
    create table pairs as
    select source, target, count(*) as links, count(*) filter (not nofollow) as followed
    from links group by all
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
        with link_database(
            directories,
            ["source", "target", "nofollow"],
            create=_CREATE_PAIRS,
            name_of=name_of,
            work_parent=work_parent,
            on_progress=on_progress,
        ) as (db, links):
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
