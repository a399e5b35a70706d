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
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from webcrawl.commands import offline, progress

if TYPE_CHECKING:
    import argparse

    from scrapy.settings import Settings


def _options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="default: JOBDIR/graph/ranks.csv"
    )
    group.add_argument(
        "--pages", action="store_true", help="rank pages, at most 8 million: 0.4 kB of memory each"
    )


def _run(args: list[str], opts: argparse.Namespace, settings: Settings) -> int:
    from webcrawl.errors import FatalError, needs

    if len(args) > 1:
        raise UsageError("name one job directory", print_help=False)
    jobdir = args[0] if args else settings["JOBDIR"]
    if not jobdir:
        raise UsageError("name a job directory", print_help=False)
    needs("pyarrow", of="The link graph")
    from webcrawl.jobs.pagerank.link_counts import count_links, edge_directories
    from webcrawl.jobs.pagerank.ranking import rank
    from webcrawl.jobs.pagerank.tables import write_graph, write_ranking, write_ranks
    from webcrawl.pipelines.link_graph import DIRECTORY
    from webcrawl.storage.file_store import moved
    from webcrawl.urls import host_of

    what, prefix = ("page", "page_") if opts.pages else ("host", "")
    name = "url" if opts.pages else "host"
    directory = Path(jobdir) / DIRECTORY
    output = opts.output or directory / f"{prefix}ranks.csv"
    directories = edge_directories(Path(jobdir))
    for sentence in moved(directories):
        sys.stderr.write(f"pagerank: {sentence}\n")
    with progress("links") as on_progress:
        links = 0

        def on_links(number: int) -> None:
            nonlocal links
            links += number
            on_progress(links)

        counts = count_links(
            directories,
            name_of=str if opts.pages else host_of,
            on_progress=on_links,
        )
    ranking = rank(counts)
    try:
        directory.mkdir(exist_ok=True)
        write_graph(counts, directory / f"{what}_graph.parquet")
        write_ranking(counts, ranking, directory / f"{what}s.parquet", name=name)
        write_ranks(counts, ranking, output, name=name)
    except OSError as error:
        raise FatalError(f"The ranks cannot be written: {error}.") from error
    print(
        f"{output}: {len(counts.names):,} {what}s by {links:,} links, {len(counts.links):,} pairs"
    )
    return 0


Command = offline(_run, syntax="[options] [JOBDIR]", options=_options)
