"""Print the statistics of a URL trace, for choosing a URL cache.

FILE is a trace that a crawl with -s URL_TRACE=FILE has written. Prints its length, the number of
distinct URLs, the share that leaves the page's host (in a hive: its shard), and popularity by rank
with the exponent of Zipf's law. --popular writes the most popular fingerprints as a new trace, for
SEEN_CACHE=static:FILE.

Examples:
  scrapy urltrace crawls/web/trace --popular popular.trace

Exit codes:
  0  the statistics were printed
  2  unusable input
"""

from __future__ import annotations

from pathlib import Path

from webcrawl.commands import AddOption, Options, Settings, UsageError, make_command, print_answer

_MAX_POPULAR = 1 << 20


def _options(add: AddOption) -> None:
    """Add the options of ``scrapy urltrace``."""
    from webcrawl.jobs.arguments import output_file

    add(
        "--popular",
        type=output_file,
        metavar="FILE",
        help="write the 2^20 most popular URLs to FILE",
    )


def _run(args: list[str], opts: Options, _: Settings) -> int:
    """Print the statistics of a URL trace; return the exit code."""
    from webcrawl.jobs.trace_properties import properties_of, text_of
    from webcrawl.seen.url_trace import most_popular, read_trace, write_trace
    from webcrawl.urls.hash_seed import use_seed

    if len(args) != 1:
        raise UsageError("give the file name of one trace")
    trace = read_trace(Path(args[0]))
    if opts.popular:
        use_seed(trace.seed)  # the new trace is written with the seed of the fingerprints
        write_trace(opts.popular, most_popular(trace.fps, _MAX_POPULAR))
    properties = properties_of(trace)
    print_answer(properties, text_of(properties), as_json=opts.json)
    return 0


Command = make_command(_run, _options, syntax="[options] FILE", json=True)
