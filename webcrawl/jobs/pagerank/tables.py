"""Tables of a ranking: Parquet files, and ``rank,host`` lines that a crawl takes.

Each file is written beside its name and takes it when it is whole, so that a crawl which reads it
again meanwhile reads the old one or the new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from webcrawl.storage.atomic import replacing

if TYPE_CHECKING:
    from pathlib import Path

    from webcrawl.jobs.pagerank.link_counts import LinkCounts
    from webcrawl.jobs.pagerank.ranking import Ranking

_STEP: Final = 1 << 18


def write_graph(counts: LinkCounts, path: Path) -> None:
    """The pairs of *counts*: source, target, links, followed."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    names = pa.array(counts.names, pa.string())
    schema = pa.schema(
        [
            ("source", pa.string()),
            ("target", pa.string()),
            ("links", pa.int64()),
            ("followed", pa.int64()),
        ]
    )
    with replacing(path) as aside, pq.ParquetWriter(aside, schema, compression="zstd") as writer:
        for start in range(0, len(counts.links), _STEP):
            part = slice(start, start + _STEP)
            columns = [names.take(pa.array(ids[part])) for ids in (counts.sources, counts.targets)]
            columns += [pa.array(ints[part]) for ints in (counts.links, counts.followed)]
            writer.write_table(pa.table(columns, schema=schema))


def write_ranking(counts: LinkCounts, ranking: Ranking, path: Path, *, name: str) -> None:
    """A row for each of the names, which are the column *name*, the best first: rank, pagerank,
    in_degree, out_degree."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    order = ranking.order
    table = pa.table(
        {
            "rank": np.arange(1, len(order) + 1),
            name: pa.array(counts.names, pa.string()).take(pa.array(order)),
            "pagerank": ranking.shares[order],
            "in_degree": ranking.in_degrees[order],
            "out_degree": ranking.out_degrees[order],
        }
    )
    with replacing(path) as aside:
        pq.write_table(table, aside, compression="zstd", row_group_size=_STEP)


def write_ranks(counts: LinkCounts, ranking: Ranking, path: Path, *, name: str) -> None:
    """``rank,name`` lines, the best first, under the heading *name*."""
    with replacing(path) as aside, aside.open("w", encoding="utf-8") as file:
        file.write(f"rank,{name}\n")
        for rank, index in enumerate(ranking.order.tolist(), 1):
            file.write(f"{rank},{counts.names[index]}\n")
