"""What a policy of the URL cache is worth: `PYTHONPATH=. python benchmarks/bench_caches.py`.

Crawls of the bench's small web with each policy as SEEN_CACHE, and one that records a URL trace, in
turn, with clock twice; printed are pages per CPU-second, and their ratio to clock's of the same
round: medians and spread. With --trace FILE the trace is put through the classes instead, by pages
of 40 links: microseconds of CPU for each link, and the share that misses.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

from rows import scrapy, task_of
from webs import WEBS

from webcrawl.seen.caches import cache_of
from webcrawl.seen.url_trace import read_trace

POLICIES = ("clock", "lru", "random", "sieve", "s3fifo", "infinite")
PAGE = 40
VARIANTS = {
    "clock": ("--set", "SEEN_CACHE=clock"),
    **{name: ("--set", f"SEEN_CACHE={name}") for name in ("lru", "sieve", "s3fifo")},
    "clock again": ("--set", "SEEN_CACHE=clock"),
    "with a trace": ("--set", "URL_TRACE=JOBDIR/links.trace"),
}


def crawls(*, pages: int, rounds: int, size: int) -> None:
    rates: dict[str, list[float]] = {name: [] for name in VARIANTS}
    with task_of(WEBS["small"], pages=pages) as task:
        more = ("--set", f"SEEN_CACHE_SIZE={size}") if size else ()
        for number in range(rounds):
            for name, options in VARIANTS.items():
                rates[name].append(scrapy("webcrawl", *options, *more)(task).rate)
            found = ", ".join(f"{name} {found[-1]:.1f}" for name, found in rates.items())
            print(f"round {number + 1}: {found}", flush=True)
    print(f"\n{'':14}{'pages/CPU-s':>12}{'to clock':>10}{'least':>8}{'most':>8}")
    for name, found in rates.items():
        ratios = [one / clock for one, clock in zip(found, rates["clock"], strict=True)]
        print(
            f"{name:14}{statistics.median(found):12.1f}{statistics.median(ratios):10.3f}"
            f"{min(ratios):8.3f}{max(ratios):8.3f}"
        )


def replays(path: Path, *, rounds: int, size: int) -> None:
    fps = read_trace(path).fps.tolist()
    pages = [fps[start : start + PAGE] for start in range(0, len(fps), PAGE)]
    print(f"{len(fps):,} links, a cache of {size:,}\n{'':10}{'us a link':>10}{'misses':>9}")
    spent: dict[str, list[float]] = {name: [] for name in POLICIES}
    for _ in range(rounds):
        missed = dict.fromkeys(POLICIES, 0)
        for name in POLICIES:
            cache = cache_of(name, size=size)
            started = time.process_time()
            for page in pages:
                missing = cache.misses(page)
                cache.admit([page[index] for index in missing])
                missed[name] += len(missing)
            spent[name].append(time.process_time() - started)
    for name, found in spent.items():
        us = 1e6 * min(found) / len(fps)
        print(f"{name:10}{us:10.3f}{missed[name] / len(fps):9.2%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=4000, help="of each crawl")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=0, help="of the cache (default: the crawl's)")
    parser.add_argument("--trace", type=Path)
    options = parser.parse_args()
    if options.trace:
        replays(options.trace, rounds=options.rounds, size=options.size or 1 << 16)
    else:
        crawls(pages=options.pages, rounds=options.rounds, size=options.size)


if __name__ == "__main__":
    main()
