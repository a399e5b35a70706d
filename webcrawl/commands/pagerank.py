"""Rank the hosts of a crawl by the links between them.

Reads the link graph of JOBDIR, or of a hive's drones in it, while the crawl runs or later, and
writes to JOBDIR/graph: the host graph (host_graph.parquet), the hosts with PageRank and in-degree
(hosts.parquet), and rank,host lines (ranks.csv), which a crawl takes as RANKS_FILE and as seeds.
With --pages the same of pages: page_graph.parquet, pages.parquet, page_ranks.csv, whose URLs a
later crawl takes as RANKS_FILE. Exit code: 0 written, 2 unusable input.
"""

from __future__ import annotations

import sys
from pathlib import Path

from webcrawl.commands import Group, Options, Settings, job_first, offline, progress
from webcrawl.wording import counted


def _options(group: Group) -> None:
    group.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="default: JOBDIR/graph/ranks.csv"
    )
    group.add_argument(
        "--pages", action="store_true", help="rank pages, by 268 million different links at most"
    )


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    from webcrawl.errors import FatalError, needs

    job_first(args, settings, alone=True)
    jobdir = settings["JOBDIR"]
    for package in ("pyarrow", "duckdb"):
        needs(package, of="The link graph")
    import duckdb

    from webcrawl.jobs.pagerank.link_tables import LinkTables, edge_directories
    from webcrawl.pipelines.link_graph import DIRECTORY
    from webcrawl.storage.object_store import moved
    from webcrawl.storage.record_log import CorruptRecordError
    from webcrawl.urls import host_of

    what, prefix = ("page", "page_") if opts.pages else ("host", "")
    name = "url" if opts.pages else "host"
    directories = edge_directories(Path(jobdir))
    directory = Path(jobdir) / DIRECTORY
    output = opts.output or directory / f"{prefix}ranks.csv"
    for sentence in moved(directories):
        sys.stderr.write(f"pagerank: {sentence}\n")
    try:
        directory.mkdir(exist_ok=True)
        with (
            progress("links") as on_progress,
            LinkTables.of(
                directories,
                name_of=str if opts.pages else host_of,
                beside=directory,
                on_progress=on_progress,
            ) as tables,
        ):
            tables.rank()
            tables.write_graph(directory / f"{what}_graph.parquet")
            tables.write_ranking(directory / f"{what}s.parquet", name=name)
            tables.write_ranks(output, name=name)
    except (OSError, duckdb.Error, CorruptRecordError) as error:
        why = str(error).partition("\n")[0]
        raise FatalError(f"The link graph in {jobdir} cannot be ranked: {why}.") from error
    links, pairs = counted(tables.links, "link"), counted(tables.pairs, "pair")
    print(f"{output}: {counted(tables.names, what)} by {links}, {pairs}")
    return 0


Command = offline(_run, syntax="[options] [JOBDIR]", options=_options)
