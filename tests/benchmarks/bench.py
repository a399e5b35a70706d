"""``make bench``: this crawl and a stock Scrapy broad crawl, side by side on one simulated web.

    PYTHONPATH=. python tests/benchmarks/bench.py [--pages N] [--rounds N] [--skip-eliminator]

The simulated web runs on one core and one crawler process at a time on another. The crawlers take
turns on the same pages: each begins at the same seeds and ends after the same number of pages.
Figures are pages per CPU-second of the crawler process (user and system, all its threads),
because the machine may be shared; medians over the rounds, with the spread.

Ours runs with everything on: robots.txt, politeness machinery with a pause of zero, disk
frontier, eliminator, content-seen test, filters, WARC with gzip, a checkpoint every 10 s.
Stock Scrapy has no robots.txt, stores nothing, and keeps its seen-set and queues in memory.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from webcrawl.simweb import preset, start_in_process, write_seeds

HERE = Path(__file__).resolve().parent
ROWS = {
    "stock": "Scrapy 2.19 broad crawl",
    "stock1": "the same, CONCURRENT_ITEMS = 1",
    "webcrawl": "webcrawl, everything on",
}
_TIMEOUT_SECS = 900


def one_crawl(kind: str, *, common: list[str], log: Path) -> dict[str, float]:
    """Run one crawl to its end and return what it measured."""
    jobdir = tempfile.mkdtemp(prefix="bench-")
    try:
        command = [sys.executable, str(HERE / "crawl_once.py"), kind, *common, "--jobdir", jobdir]
        with log.open("ab") as errors:
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=errors, check=True, timeout=_TIMEOUT_SECS
            )
        return json.loads(done.stdout.splitlines()[-1])
    finally:
        shutil.rmtree(jobdir, ignore_errors=True)


def cpu_seconds(pid: int) -> float:
    """User and system time of a running process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def crawls(*, pages: int, rounds: int) -> None:
    cores = sorted(os.sched_getaffinity(0))
    server_core, crawler_core = cores[0], cores[-1]
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        work = Path(scratch)
        world = preset("bench")
        with start_in_process(world, log_path=None) as web:
            os.sched_setaffinity(web.pid, {server_core})
            world = web.world
            write_seeds(world, work / "seeds.txt")
            names = {host.name: host.address for host in map(world.host, range(world.hosts))}
            (work / "names.json").write_text(json.dumps(names), encoding="utf-8")
            common = ["--seeds", str(work / "seeds.txt"), "--names", str(work / "names.json")]
            common += ["--dns", web.dns, "--pages", str(pages), "--cpu", str(crawler_core)]
            results: dict[str, list[dict[str, float]]] = {kind: [] for kind in ROWS}
            shares: list[float] = []
            for number in range(1, rounds + 1):
                for kind, title in ROWS.items():
                    before, began = cpu_seconds(web.pid), time.perf_counter()
                    result = one_crawl(kind, common=common, log=work / "log")
                    wall = time.perf_counter() - began
                    shares.append((cpu_seconds(web.pid) - before) / wall)
                    results[kind].append(result)
                    print(
                        f"round {number}: {title:32} {result['pages']:>6} pages, "
                        f"{result['pages'] / result['cpu']:8.1f} pages/CPU-s, "
                        f"{result['pages'] / result['wall']:8.1f} pages/s, "
                        f"{result['rss_mb']:6.0f} MB, server at {shares[-1]:.0%} of its core",
                        flush=True,
                    )
    print(f"\n{'pages per CPU-second':34}{'median':>9}{'min':>9}{'max':>9}")
    medians = {}
    for kind, title in ROWS.items():
        rates = [result["pages"] / result["cpu"] for result in results[kind]]
        medians[kind] = statistics.median(rates)
        print(f"{title:34}{medians[kind]:9.1f}{min(rates):9.1f}{max(rates):9.1f}")
    best = max(medians["stock"], medians["stock1"])
    ratios = [
        (ours["pages"] / ours["cpu"]) / max(a["pages"] / a["cpu"], b["pages"] / b["cpu"])
        for ours, a, b in zip(results["webcrawl"], results["stock"], results["stock1"], strict=True)
    ]
    print(
        f"ratio to the better stock row: {medians['webcrawl'] / best:.1f} "
        f"(by round {min(ratios):.1f} to {max(ratios):.1f}); "
        f"the server used at most {max(shares):.0%} of its core"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=4000, help="pages of each crawl")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--skip-eliminator", action="store_true")
    options = parser.parse_args()
    crawls(pages=options.pages, rounds=options.rounds)
    if not options.skip_eliminator:
        print("\nthe eliminator alone:", flush=True)
        subprocess.run([sys.executable, str(HERE / "bench_eliminator.py")], check=True)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    main()
