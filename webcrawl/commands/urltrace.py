"""Print the statistics of a URL trace, for choosing a URL cache.

FILE is a trace that a crawl with -s URL_TRACE=FILE has written, or text (plain or gzip) with one
URL or number per line. Prints its length, the number of distinct URLs, the share that leaves the
page's host (in a hive: its shard), and popularity by rank with the exponent of Zipf's law.
--popular writes the most popular fingerprints as a new trace, for SEEN_CACHE=static:FILE.

With --crawl, FILE is a link graph of SOURCE TARGET lines with URLs or numbers (plain or gzip). A
crawl of it is simulated and its trace is written. FRONTIER_BACK_QUEUES is the number of hosts that
take turns (0: three for each of CONCURRENT_REQUESTS).

Examples:
  scrapy urltrace crawls/web/trace --popular popular.trace
  scrapy urltrace links.txt.gz --crawl trace

Exit codes:
  0  the statistics were printed
  2  unusable input
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from webcrawl.commands import (
    Group,
    Options,
    Settings,
    UsageError,
    make_command,
    print_answer,
    progress,
)

if TYPE_CHECKING:
    from collections.abc import Callable


_MAX_POPULAR = 1 << 20


def _options(group: Group) -> None:
    """Add the options of this command to *group*."""
    group.add_argument(
        "--popular", type=Path, metavar="FILE", help="write the 2^20 most popular URLs to FILE"
    )
    group.add_argument(
        "--crawl",
        type=Path,
        metavar="TRACE",
        help="simulate a crawl of the link graph FILE and write its trace to TRACE",
    )


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    """Run this command and return its exit code."""
    from webcrawl.configuration.values import whole
    from webcrawl.jobs.caches.properties import properties_of, text_of
    from webcrawl.jobs.caches.trace_files import trace_of
    from webcrawl.seen.url_trace import most_popular, write_trace
    from webcrawl.urls.hash_seed import use_seed

    if len(args) != 1:
        raise UsageError("give the file name of one trace")
    file = Path(args[0])
    with progress("requests") as on_progress:
        if opts.crawl:
            queues = whole(settings, "FRONTIER_BACK_QUEUES", at_least=0)
            queues = queues or 3 * whole(settings, "CONCURRENT_REQUESTS", at_least=1)
            _write_crawl(file, opts.crawl, queues, on_progress)
            file = opts.crawl
        trace = trace_of(file, on_progress=on_progress)
    if opts.popular:
        use_seed(trace.seed)
        write_trace(opts.popular, most_popular(trace.fps, _MAX_POPULAR))
    properties = properties_of(trace)
    print_answer(properties, text_of(properties), as_json=opts.json)
    return 0


def _write_crawl(
    file: Path, path: Path, hosts_at_once: int, on_progress: Callable[..., None]
) -> None:
    """Simulate a crawl of the link graph in *file* and write its trace to *path*.

    *hosts_at_once* is the number of hosts that take turns.
    """
    from webcrawl.jobs.caches.graph_crawl import crawl, read_graph
    from webcrawl.seen.url_trace import UrlTrace

    graph = read_graph(file, on_progress=on_progress)
    path.unlink(missing_ok=True)
    trace = UrlTrace(path=path)
    trace.open()
    with contextlib.closing(trace):
        crawl(
            graph,
            hosts_at_once=hosts_at_once,
            submit=lambda fps, leaves: trace.add(fps, leaves, 0.0),
            on_progress=on_progress,
        )


Command = make_command(_run, syntax="[options] FILE", options=_options, json=True)
