"""Clusters of near-duplicates among the rows of a text dataset, by their column ``minhash``.

Two rows are near-duplicates if all values of one of their buckets are equal. A cluster has all rows
that are connected by such pairs, as those of datatrove's stages 2 and 3 have. It is named after its
representative, the row that was fetched first. Of equal times, the first file by its name decides,
then the first row in it. A row whose page was refused later represents nothing.

DuckDB joins and sorts in limited memory. Next to it are 8 bytes for each row, and in turn the pairs
of each bucket.
"""

from __future__ import annotations

from glob import escape
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from webcrawl.storage.atomic import replacement

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import duckdb

_BUCKETS = 14
_BUCKET = 8  # values of a bucket
# In the order of their representatives: the row ID says which of two rows is first.
_CREATE_ROWS = """
    CREATE TABLE rows AS
    WITH refused AS (
        SELECT url, max(fetched_at) AS refused_at
        FROM read_json(?, format = 'newline_delimited', ignore_errors = true,
            columns = {{url: 'VARCHAR', fetched_at: 'DOUBLE'}}) GROUP BY 1
    )
    SELECT file_index AS file, file_row_number AS position, id,
        coalesce(epoch(fetched_at) < refused_at, false) AS is_refused, {}
    FROM read_parquet(?) LEFT JOIN refused USING (url)
    ORDER BY is_refused, fetched_at, file, position
"""
_BUCKET_HASH = "CASE WHEN minhash NOTNULL THEN hash(minhash[{}:{}]) END AS bucket{}"
# Each row, and the first row that has the same bucket.
_PAIRS = """
    SELECT rowid, min(rowid) OVER (PARTITION BY bucket{0}) AS first
    FROM rows WHERE bucket{0} NOTNULL QUALIFY first < rowid
"""
_CREATE_MARKS = """
    CREATE TABLE marks AS
    WITH others AS (
        SELECT member, first.id AS cluster FROM members JOIN rows AS first ON first.rowid = root
    )
    SELECT file, position, coalesce(cluster, id) AS cluster,
        member IS NULL AND NOT is_refused AS is_representative
    FROM rows LEFT JOIN others ON member = rows.rowid ORDER BY file, position
"""
_DIGESTS = "SELECT file, bit_xor(hash(position, cluster, is_representative)) FROM marks GROUP BY 1"
_MARKS = "SELECT cluster, is_representative FROM marks WHERE file = ? ORDER BY position"
_COUNT = "SELECT count(*) FROM marks WHERE NOT is_representative"
_DIGEST = b"webcrawl.clusters"  # in the metadata of a file with clusters


class Clusters:
    """Clusters of the rows in the Parquet *files* of TextDataset, made in the database *db*.

    *refused* are files with lines of ``_left_out.jsonl``, at least one. ``near_duplicates`` is the
    number of rows that do not represent their cluster. Raises duckdb.Error for unusable files.
    """

    def __init__(
        self, db: duckdb.DuckDBPyConnection, files: Sequence[Path], *, refused: Sequence[Path]
    ) -> None:
        """Find the clusters. Takes 40 s of CPU and 0.2 GB of disk for a million rows."""
        self._db = db
        self._files = files
        buckets = [
            _BUCKET_HASH.format(_BUCKET * number + 1, _BUCKET * (number + 1), number)
            for number in range(_BUCKETS)
        ]
        # DuckDB takes each path for a pattern.
        patterns = [[escape(str(path)) for path in paths] for paths in (refused, files)]
        db.execute(_CREATE_ROWS.format(", ".join(buckets)), patterns)
        rows, _ = db.table("rows").shape
        roots = np.arange(rows)
        for number in range(_BUCKETS):
            pairs = db.execute(_PAIRS.format(number)).fetchnumpy()
            _unite(roots, pairs["rowid"], pairs["first"])
        members = np.flatnonzero(roots != np.arange(rows))
        db.register("members", pa.table({"member": members, "root": roots[members]}))
        db.execute(_CREATE_MARKS)
        self._digests = dict(db.execute(_DIGESTS).fetchall())
        self.near_duplicates: int = db.execute(_COUNT).fetchall()[0][0]

    def write(self, number: int, path: Path, *, drop: bool) -> None:
        """Write the rows of file *number*, with their clusters, to *path*, unless it has them.

        The columns ``cluster`` and ``is_representative`` are added. With *drop* only
        representatives are written.
        """
        source = self._files[number]
        state = source.stat()
        digest = f"{state.st_size} {state.st_mtime_ns} {drop} "
        digest += str(self._digests.get(number))
        if path.exists() and (pq.read_schema(path).metadata or {}).get(_DIGEST) == digest.encode():
            return
        marks = self._db.sql(_MARKS, params=[number]).to_arrow_table()
        with pq.ParquetFile(source) as old:
            schema = pa.schema([*old.schema_arrow, *marks.schema], metadata={_DIGEST: digest})
            with (
                replacement(path) as new,
                pq.ParquetWriter(new, schema, compression="zstd") as writer,
            ):
                start = 0
                for group in range(old.num_row_groups):
                    rows = old.read_row_group(group)
                    part = marks.slice(start, rows.num_rows)
                    start += rows.num_rows
                    rows = pa.table([*rows.columns, *part.columns], schema)
                    if drop:
                        rows = rows.filter(part["is_representative"])
                    if rows.num_rows:  # Hugging Face's reader fails at an empty row group
                        writer.write_table(rows)


def _unite(roots: np.ndarray, rows: np.ndarray, others: np.ndarray) -> None:
    """Unite the cluster of each of *rows* with that of the row at the same place in *others*.

    *roots* has for each row the first row of its cluster.
    """
    while rows.size:
        ends = np.sort([roots[rows], roots[others]], axis=0)
        is_apart = ends[0] != ends[1]
        rows = rows[is_apart]
        others = others[is_apart]
        # Of the clusters that are united with a later one, the first counts. The rest are united
        # in the next round.
        np.minimum.at(roots, ends[1, is_apart], ends[0, is_apart])
        while (above := roots[roots] != roots).any():
            roots[above] = roots[roots[above]]
