"""Replay a URL trace into caches of every policy and size.

TRACE is what a crawl with -s URL_TRACE=TRACE has written, or text, plain or gzip: one URL or number
a line. Miss rates are printed by size and policy, and the critical region of LRU: a smaller cache
is much worse, a larger one little better. --csv FILE gets policy, size, requests and hits; of a
trace with URLs that leave the page's host, FILE-cross.csv those of these alone. `scrapy report`
draws JOBDIR/cachelab.csv. Exit code: 0 printed, 2 unusable input.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from webcrawl.commands import offline, progress

if TYPE_CHECKING:
    import argparse

    from scrapy.settings import Settings


def _options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--policies",
        default="all",
        help="all, or some of infinite, min, lru, clock, random, static, static-charged, sieve, "
        "s3fifo, with commas",
    )
    group.add_argument(
        "--sizes", default="2^0..2^25", help="default: 2^0..2^25, powers of two; or 1000,2^16"
    )
    group.add_argument("--csv", type=Path, metavar="FILE", help="write the hits to FILE")


def _run(args: list[str], opts: argparse.Namespace, _: Settings) -> int:
    from webcrawl.errors import FatalError, needs

    if len(args) != 1:
        raise UsageError("name one trace", print_help=False)
    needs("numba", of="The cache laboratory")
    from webcrawl.jobs.caches.laboratory import (
        Laboratory,
        policies_of,
        sizes_of,
        text_of,
        write_csv,
    )
    from webcrawl.jobs.caches.trace_files import trace_of

    policies, sizes = policies_of(opts.policies), sizes_of(opts.sizes)
    with progress("requests") as on_progress:
        trace = trace_of(Path(args[0]), on_progress=on_progress)
        streams = {"": trace.fps, "-cross": trace.fps[trace.leave]}
        for suffix, fps in streams.items():
            if not len(fps):
                continue
            laboratory = Laboratory(fps)
            found = laboratory.measure(policies, sizes, on_progress=on_progress)
            if opts.csv:
                path = opts.csv.with_name(f"{opts.csv.stem}{suffix}{opts.csv.suffix}")
                try:
                    write_csv(found, path)
                except OSError as error:
                    raise FatalError(f"{path} cannot be written: {error}.") from error
            first, knee = laboratory.critical_region()
            title = "What leaves the page's host" if suffix else "All requests"
            print(f"{title}: {len(fps):,}, misses of all by the size of the cache")
            print(text_of(found))
            print(f"Critical region of LRU: {first:,} to {knee:,} entries, the knee.\n")
    return 0


Command = offline(_run, syntax="[options] TRACE", options=_options)
