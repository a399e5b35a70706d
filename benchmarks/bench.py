"""``make bench``: this crawl and others side by side, on the same simulated webs.

    PYTHONPATH=. python benchmarks/bench.py [--web NAME] [--row NAME] [--pages N]
        [--rounds N] [--peers PYTHON] [--skip-eliminator]

The simulated web (webs.py says which there are) runs on one core and one crawler (rows.py) at a
time on another. The crawlers take turns on the same pages: each begins at the same seeds and ends
after the same number of pages. Figures are pages per CPU-second of the crawler process (user and
system, all its threads), because the machine may be shared; medians over the rounds, with the
spread. The server must not be what is measured: each line has its share of its core.

Ours runs with everything on: robots.txt, politeness machinery with a pause of zero, disk
frontier, eliminator, content-seen test, filters, WARC with gzip, a checkpoint every 10 s. Stock
Scrapy has no robots.txt, stores nothing, and keeps its seen-set and queues in memory. The floor
line fetches URLs that a first crawl of ours has found, which is not counted and warms the server.

crawlee and silkworm-rs (`make bench-peers`), and wget2 (a system package), are measured where they
are installed.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import statistics
import subprocess
import sys
from pathlib import Path

from rows import ROWS, Result, Row, Task, task_of
from webs import WEBS, Web, webs_named

HERE = Path(__file__).resolve().parent
_PEERS = Path(".venv-peers/bin/python")
# From here on the server may have kept a crawler waiting.
_BUSY = 0.9


def measured(row: Row, task: Task) -> tuple[Result, float]:
    """One crawl: its result, and the share of its core that the server used meanwhile."""
    task.web.count_served()
    before = task.web.cpu()
    result = row.run(task)
    return result, (task.web.cpu() - before) / result.wall


def line_of(row: Row, result: Result, share: float, wire: float) -> str:
    """What is printed of one crawl."""
    redis = f", Redis at {result.redis / result.wall:.0%}" if result.redis else ""
    return (
        f"{row.title:32} {result.pages:>6} pages, {result.rate:8.1f} pages/CPU-s, "
        f"{result.pages / result.wall:8.1f} pages/s, {result.rss_mb:6.0f} MB, "
        f"{wire / 1000:5.1f} kB a page, server at {share:.0%} of its core{redis}"
    )


def crawls(web: Web, rows: list[Row], *, pages: int, rounds: int, peers: Path) -> None:
    """Measure *rows* on *web*, and print the table."""
    results: dict[str, list[Result]] = {row.name: [] for row in rows}
    shares: dict[str, float] = dict.fromkeys(results, 0.0)
    with task_of(web, pages=pages, peers=peers) as task:
        next(row for row in ROWS if row.name == "webcrawl").run(task)
        urls = [url for url, _ in task.web.pages_served()][:pages]
        task.urls.write_text("\n".join(urls), encoding="utf-8")
        for number in range(1, rounds + 1):
            for row in rows:
                result, share = measured(row, task)
                sizes = [size for _, size in task.web.pages_served()]
                wire = statistics.mean(sizes) if sizes else 0.0
                results[row.name].append(result)
                shares[row.name] = max(share, shares[row.name])
                print(f"round {number}: {line_of(row, result, share, wire)}", flush=True)
    report(rows, results, shares)


def report(rows: list[Row], results: dict[str, list[Result]], shares: dict[str, float]) -> None:
    """Print medians and spread, and what they come to."""
    print(f"\n{'pages per CPU-second':34}{'median':>9}{'min':>9}{'max':>9}{'server':>9}")
    for row in rows:
        rates = [result.rate for result in results[row.name]]
        middle, least, most = statistics.median(rates), min(rates), max(rates)
        print(f"{row.title:34}{middle:9.1f}{least:9.1f}{most:9.1f}{shares[row.name]:9.0%}")
    by_round = {name: [result.rate for result in found] for name, found in results.items()}
    stock = [by_round[name] for name in ("stock", "stock1") if name in by_round]
    ours, floor = by_round.get("webcrawl"), by_round.get("floor")
    if ours and stock:
        ratio = statistics.median(ours) / max(map(statistics.median, stock))
        each = [mine / max(theirs) for mine, *theirs in zip(ours, *stock, strict=True)]
        print(
            f"ratio to the better stock row: {ratio:.1f} "
            f"(by round {min(each):.1f} to {max(each):.1f})"
        )
    if ours and floor:
        print(f"share of the floor line: {statistics.median(ours) / statistics.median(floor):.0%}")
    for row in rows:
        if shares[row.name] > _BUSY:
            print(f"the server was the bottleneck of: {row.title}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [row.name for row in ROWS]
    parser.add_argument("--web", action="append", choices=WEBS, help="(default: small, today)")
    parser.add_argument("--row", action="append", choices=names, help="(default: all)")
    parser.add_argument("--pages", type=int, help="of each crawl (default: as the web has it)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", type=Path, default=_PEERS, help="a Python that has crawlee")
    parser.add_argument("--skip-eliminator", action="store_true")
    options = parser.parse_args()
    peers = options.peers.absolute()
    rows = []
    for row in ROWS:
        if options.row and row.name not in options.row:
            continue
        if missing := row.missing(peers):
            print(f"not installed: {row.title} ({missing})")
        else:
            rows.append(row)
    for web in itertools.chain.from_iterable(map(webs_named, options.web or ("small", "today"))):
        pages = options.pages or web.pages
        print(f"\nthe web {web.name!r}, {pages} pages of it by each crawl:", flush=True)
        crawls(web, rows, pages=pages, rounds=options.rounds, peers=peers)
    if not options.skip_eliminator:
        print("\nthe eliminator alone:", flush=True)
        subprocess.run([sys.executable, str(HERE / "bench_eliminator.py")], check=True)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    main()
