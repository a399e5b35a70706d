"""``make bench-scale``: does a page cost more when the crawl has grown?

    PYTHONPATH=. python benchmarks/bench_scale.py [--hosts N ...] [--seeded SHARE]
        [--discovered N] [--seeds N] [--skip-parts]

One crawl of a simulated web for each number of hosts (pages of 20 kB with 120 links, nine of ten to
pages that nobody linked to before), with everything on but the pauses (crawl_once.py), server and
crawler each on a core of its own. For 10 thousand, a million and 10 million discovered URLs:

- CPU milliseconds a page, all threads, from half of that number to half as much again, and of how
  many pages
- resident memory there: the median and the most of what was looked at twice a second
- the longest that a checkpoint had held the reactor until then

Then the first fetch of a crawl that begins with a list of so many seeds, from the command to the
server's record of it, and, unless --skip-parts is given, the eliminator and the frontier alone.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from webcrawl.simweb import SimWebProcess, preset, start_in_process, write_seeds

HERE = Path(__file__).resolve().parent
_POINTS = (10_000, 1_000_000, 10_000_000)
_PARTS = (
    ("bench_eliminator.py", "--stored", "10000000", "100000000", "1000000000"),
    ("bench_frontier.py",),
    ("bench_frontier.py", "--pauses", "1000", "20000", "100000"),
)
_FIRST_FETCH_SECS = 120.0
_LOOK_SECS = 0.5

Look = dict[str, Any]  # a line of scale_crawl.py


def _served(hosts: int, *, seeded: float, log: Path | None) -> SimWebProcess:
    """A web of *hosts*, that share of them seeds, with more pages than a crawl comes to."""
    mean = max(400, 40_000_000 // hosts)
    world = preset(
        "bench",
        hosts=hosts,
        mean_pages=mean,
        max_pages=min(20 * mean, 4_000_000),
        profile="dense",
        seed_share=seeded,
        http_port=0,
        https_port=0,
    )
    return start_in_process(world, log_path=log)


def crawled(hosts: int, seeded: float, discovered: int, directory: Path) -> list[Look]:
    """What a crawl up to *discovered* URLs looked like, when it began and twice a second."""
    cores = sorted(os.sched_getaffinity(0))
    with _served(hosts, seeded=seeded, log=None) as web:
        os.sched_setaffinity(web.pid, {cores[0]})
        write_seeds(web.world, directory / "seeds.txt")
        command = [sys.executable, str(HERE / "scale_crawl.py"), "--every", str(_LOOK_SECS)]
        command += ["--seeds", str(directory / "seeds.txt"), "--dns", web.dns]
        command += ["--jobdir", str(directory / "job"), "--discovered", str(discovered)]
        command += ["--cpu", str(cores[-1]), "-s", "LOG_LEVEL=ERROR"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    shutil.rmtree(directory / "job")
    looks = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    begun = {**looks[0], "pages": 0, "urls": 0, "cpu": 0.0}
    return [begun, *looks]


def at(looks: list[Look], point: int) -> str:
    """The columns for *point* discovered URLs."""
    start = max((n for n, look in enumerate(looks) if look["urls"] <= point // 2), default=0)
    end = next(
        (n for n, look in enumerate(looks) if look["urls"] >= point * 3 // 2), len(looks) - 1
    )
    pages = looks[end]["pages"] - looks[start]["pages"]
    cpu = 1000 * (looks[end]["cpu"] - looks[start]["cpu"])
    # With all hosts as seeds there are that many URLs before the first page.
    cost = f"{cpu / pages:.2f}" if pages else "-"
    resident = [look["rss"] / 1e6 for look in looks[start : end + 1]]
    return (
        f"{pages:>9,} {cost:>8} {statistics.median(resident):>8.0f} {max(resident):>8.0f} "
        f"{looks[end]['pause_ms']:>8.1f}"
    )


def first_fetch(seeds: int, directory: Path) -> float:
    """Seconds from the command to the first answer of a server, with a list of *seeds*."""
    log = directory / "access.log"
    with _served(1000, seeded=0.1, log=log) as web:
        write_seeds(web.world, directory / "few.txt")
        served = (directory / "few.txt").read_text(encoding="utf-8").splitlines()
        with (directory / "seeds.txt").open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in served)
            file.writelines(f"http://site{n}.example/\n" for n in range(seeds - len(served)))
        command = [sys.executable, "-m", "scrapy", "crawl", "web"]
        command += ["-a", f"seeds={directory / 'seeds.txt'}"]
        settings = ("LOG_LEVEL=ERROR", f"DNS_SERVERS={web.dns}", "ALLOW_PRIVATE_ADDRESSES=1")
        for setting in (*settings, f"JOBDIR={directory / 'job'}"):
            command += ["-s", setting]
        started = time.time()
        compiled = os.environ | {"PYTHONDONTWRITEBYTECODE": ""}  # or it is anew, in 0.4 s
        crawl = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=compiled)
        try:
            while not log.stat().st_size:
                if time.time() - started > _FIRST_FETCH_SECS:
                    raise SystemExit(f"Nothing was fetched within {_FIRST_FETCH_SECS:g} s.")
                time.sleep(0.01)
        finally:
            crawl.kill()
            crawl.wait()
    begun = log.stat().st_mtime - started
    shutil.rmtree(directory / "job")
    return begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, nargs="+", default=[100, 10_000, 500_000])
    parser.add_argument("--seeded", type=float, help="share of hosts (default: 100 hosts)")
    parser.add_argument("--discovered", type=int, default=_POINTS[-1])
    parser.add_argument("--seeds", type=int, default=1_000_000)
    parser.add_argument("--skip-parts", action="store_true")
    options = parser.parse_args()
    columns = ("CPU ms", "RSS MB", "most", "pause ms")
    print(f"{'hosts':>8} {'discovered':>11} {'pages':>9}", *(f"{name:>8}" for name in columns))
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        for hosts in options.hosts:
            seeded = min(1.0, 100 / hosts) if options.seeded is None else options.seeded
            looks = crawled(hosts, seeded, options.discovered, directory)
            for point in _POINTS:
                if point <= options.discovered:
                    print(f"{hosts:>8,} {point:>11,} {at(looks, point)}", flush=True)
        begun = first_fetch(options.seeds, directory)
        print(f"first fetch with {options.seeds:,} seeds: {begun:.2f} s", flush=True)
    if not options.skip_parts:
        for part, *more in _PARTS:
            print(f"\n{part} {' '.join(more)}", flush=True)
            subprocess.run([sys.executable, str(HERE / part), *more], check=True)


if __name__ == "__main__":
    main()
