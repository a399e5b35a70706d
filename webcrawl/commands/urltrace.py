"""Print the properties of a URL trace.

FILE is what a crawl with -s URL_TRACE=FILE has written, or text, plain or gzip: one URL or number a
line. Printed are its length, the number of distinct URLs, the part that leaves the page's host (in
a hive: its shard), and popularity by rank with the exponent of Zipf's law. --popular writes the
most popular fingerprints as a trace again, for SEEN_CACHE=static:FILE. Exit code: 0 printed, 2
unusable input.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from webcrawl.commands import offline, print_answer, progress

if TYPE_CHECKING:
    import argparse

    from scrapy.settings import Settings

_MOST_POPULAR = 1 << 20


def _options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--json", action="store_true", help="print as JSON")
    group.add_argument(
        "--popular", type=Path, metavar="FILE", help="write the most popular 2^20 to FILE"
    )


def _run(args: list[str], opts: argparse.Namespace, _: Settings) -> int:
    from webcrawl.errors import FatalError
    from webcrawl.jobs.caches.properties import properties_of, text_of
    from webcrawl.jobs.caches.requests import requests_of, trace_of
    from webcrawl.seen.url_trace import most_popular, write_trace

    if len(args) != 1:
        raise UsageError("name one trace", print_help=False)
    with progress("requests") as on_progress:
        trace = trace_of(Path(args[0]), on_progress=on_progress)
    if opts.popular:
        try:
            write_trace(opts.popular, most_popular(trace.fps, _MOST_POPULAR))
        except OSError as error:
            raise FatalError(f"{opts.popular} cannot be written: {error}.") from error
    found = properties_of(trace, requests_of(trace.fps))
    print_answer(found, lambda: text_of(found), as_json=opts.json)
    return 0


Command = offline(_run, syntax="[options] FILE", options=_options)
