"""Measure how well URL caches of each policy and size would do on a URL trace.

TRACE is a file that a crawl with -s URL_TRACE=TRACE has written. Prints the miss rates by size and
policy, and the critical region of LRU: below it a cache is much worse, above it hardly better.

--csv FILE gets policy, size, requests and hits. FILE-cross.csv gets the same for the URLs that
leave the page's host only.

Examples:
  scrapy cachelab crawls/web/trace
  scrapy cachelab trace --policies lru,clock --sizes 2^10..2^20 --csv hits.csv

Exit codes:
  0  the miss rates were printed
  2  unusable input
"""

from __future__ import annotations

from pathlib import Path

from webcrawl.commands import (
    AddOption,
    Options,
    Settings,
    UsageError,
    make_command,
    print_answer,
    progress,
)


def _options(add: AddOption) -> None:
    """Add the options of this command."""
    add(
        "--policies",
        default="all",
        help="all (default), or a comma-separated list of infinite, min, lru, clock, random, "
        "static, static-charged",
    )
    add(
        "--sizes",
        default="2^0..2^25",
        help="entries of the caches: powers of two (default: 2^0..2^25), or a list such as "
        "1000,2^16",
    )
    add("--csv", type=Path, metavar="FILE", help="write the hits to FILE")
    add("--figures", type=Path, metavar="DIR", help="write the curves to DIR as SVG files")


def _run(args: list[str], opts: Options, _: Settings) -> int:
    """Run this command and return its exit code."""
    from webcrawl.errors import require_package

    if len(args) != 1:
        raise UsageError("give the file name of one trace")
    for package in ("numba", "pyarrow"):
        require_package(package, feature="The cache laboratory")
    from webcrawl.jobs.caches.figures import miss_figures, trace_figures
    from webcrawl.jobs.caches.laboratory import CacheSimulation, policies_of, region_text, sizes_of
    from webcrawl.jobs.caches.measurements import STREAMS, stream_file, text_of, write_csv
    from webcrawl.jobs.report.page import write_drawings
    from webcrawl.seen.url_trace import read_trace

    policies, sizes, texts = policies_of(opts.policies), sizes_of(opts.sizes), []
    trace = read_trace(Path(args[0]))
    with progress("requests") as on_progress:
        for suffix, stream in STREAMS.items():
            fps = trace.fps[trace.leaves] if suffix else trace.fps
            if not len(fps):
                continue
            laboratory = CacheSimulation(fps)
            results = laboratory.measure(policies, sizes, on_progress=on_progress)
            if opts.csv:
                write_csv(results, stream_file(opts.csv, suffix))
            if opts.figures:
                figures = trace_figures(laboratory.counts, laboratory.distances, suffix)
                write_drawings(opts.figures, (*miss_figures(results, suffix), *figures))
            heading = f"{len(fps):,} requests, {stream}; misses by policy and number of entries:"
            region = region_text(laboratory.critical_region())
            texts.append(f"{heading}\n{text_of(results)}\n{region}\n")
    print_answer(None, "\n".join(texts), as_json=False)
    return 0


Command = make_command(_run, _options, syntax="[options] TRACE")
