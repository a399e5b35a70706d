"""Rank the hosts or pages of a crawl by the links between them (PageRank).

Reads the link graph in JOBDIR, of a crawl or a hive, running or not. Writes to JOBDIR/graph: the
host graph (host_graph.parquet), the hosts with PageRank and in-degree (hosts.parquet), and
rank,host lines (ranks.csv), which can be a RANKS_FILE or a seed list.

With --pages, writes the same for pages: page_graph.parquet, pages.parquet and page_ranks.csv, which
can be the RANKS_FILE of a later crawl.

Examples:
  scrapy pagerank crawls/web
  scrapy pagerank crawls/web --pages -o page_ranks.csv

Exit codes:
  0  the ranks were written
  2  unusable input
"""

from __future__ import annotations

from webcrawl.commands import (
    AddOption,
    Options,
    Settings,
    choose_job,
    make_command,
    progress,
    warn_of_moved_files,
)
from webcrawl.wording import counted


def _options(add: AddOption) -> None:
    """Add the options of ``scrapy pagerank``."""
    add(
        "--pages",
        action="store_true",
        help="rank pages instead of hosts; at most 268 million distinct links",
    )


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    """Rank the hosts or pages of a crawl, and write the ranks and graph; return the exit code."""
    from webcrawl.errors import FatalError, require_package

    jobdir = choose_job(args, settings)
    for package in ("pyarrow", "duckdb"):
        require_package(package, feature="The link graph")
    import duckdb

    from webcrawl.jobs.pagerank.link_tables import LinkTables
    from webcrawl.pipelines.link_database import edge_directories
    from webcrawl.pipelines.link_graph import DIRECTORY
    from webcrawl.storage.record_log import CorruptRecordError
    from webcrawl.urls import host_of

    kind, prefix = ("page", "page_") if opts.pages else ("host", "")
    name = "url" if opts.pages else "host"
    directories = edge_directories(jobdir)
    directory = jobdir / DIRECTORY
    output = opts.output or directory / f"{prefix}ranks.csv"
    warn_of_moved_files("pagerank", directories)
    try:
        directory.mkdir(exist_ok=True)
        with (
            progress("links") as on_progress,
            LinkTables.of(
                directories,
                name_of=str if opts.pages else host_of,
                work_parent=directory,
                on_progress=on_progress,
            ) as tables,
        ):
            tables.rank()
            tables.write_graph(directory / f"{kind}_graph.parquet")
            tables.write_ranking(directory / f"{kind}s.parquet", name=name)
            tables.write_ranks(output, name=name)
    except (OSError, duckdb.Error, CorruptRecordError) as error:
        reason = str(error).partition("\n")[0]
        raise FatalError(f"The link graph in {jobdir} cannot be ranked: {reason}.") from error
    links = counted(tables.links, "link")
    pairs = counted(tables.pairs, "distinct pair")
    print(f"{output}: {counted(tables.names, kind)} ranked by {links}, {pairs}")
    return 0


Command = make_command(
    _run,
    _options,
    output=("FILE", "where to write the ranks (default: JOBDIR/graph/ranks.csv)"),
)
