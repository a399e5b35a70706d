"""Cache laboratory: replay a URL trace into caches of every policy and size.

TRACE is what a crawl with -s URL_TRACE=TRACE has written, or text, plain or gzip: one URL or number
a line. Miss rates are printed by size and policy, and the critical region of LRU: a smaller cache
is much worse, a larger one little better. --csv FILE gets policy, size, requests and hits; of a
trace with URLs that leave the page's host, FILE-cross.csv those of these alone. `scrapy report`
draws JOBDIR/cachelab.csv. Exit code: 0 printed, 2 unusable input.
"""

from __future__ import annotations

from pathlib import Path

from webcrawl.commands import Group, Options, Settings, UsageError, offline, print_answer, progress


def _options(group: Group) -> None:
    group.add_argument(
        "--policies",
        default="all",
        help="all, or some of infinite, min, lru, clock, random, static, static-charged, with "
        "commas",
    )
    group.add_argument(
        "--sizes", default="2^0..2^25", help="default: 2^0..2^25, powers of two; or 1000,2^16"
    )
    group.add_argument("--csv", type=Path, metavar="FILE", help="write the hits to FILE")
    group.add_argument("--figures", type=Path, metavar="DIR", help="draw them there, as SVG")


def _run(args: list[str], opts: Options, _: Settings) -> int:
    from webcrawl.errors import needs

    if len(args) != 1:
        raise UsageError("name one trace")
    for package in ("numba", "pyarrow"):
        needs(package, of="The cache laboratory")
    from webcrawl.jobs.caches.figures import of_measurements, of_trace
    from webcrawl.jobs.caches.laboratory import Laboratory, policies_of, region_text, sizes_of
    from webcrawl.jobs.caches.measurements import STREAMS, stream_file, text_of, write_csv
    from webcrawl.jobs.caches.trace_files import trace_of
    from webcrawl.jobs.report.page import write_drawings

    policies, sizes, texts = policies_of(opts.policies), sizes_of(opts.sizes), []
    with progress("requests") as on_progress:
        trace = trace_of(Path(args[0]), on_progress=on_progress)
        for suffix, stream in STREAMS.items():
            fps = trace.fps[trace.leave] if suffix else trace.fps
            if not len(fps):
                continue
            laboratory = Laboratory(fps)
            found = laboratory.measure(policies, sizes, on_progress=on_progress)
            if opts.csv:
                write_csv(found, stream_file(opts.csv, suffix))
            if opts.figures:
                figures = of_trace(laboratory.counts, laboratory.distances, suffix)
                write_drawings(opts.figures, (*of_measurements(found, suffix), *figures))
            head = f"{len(fps):,} requests, {stream}; misses by policy and entries of the cache:"
            region = region_text(laboratory.critical_region())
            texts.append(f"{head}\n{text_of(found)}\n{region}\n")
    print_answer(None, lambda: "\n".join(texts), as_json=False)
    return 0


Command = offline(_run, syntax="[options] TRACE", options=_options)
