"""What a list of a million seeds costs: ``PYTHONPATH=. python benchmarks/bench_seeds.py [--seeds N]
[--hosts N] [--every N] [--rounds N] [--against DIR]``.

A simulated web of as many hosts of one to three pages as there are seeds, with its name server;
everything is on but the pauses; crawler and server have a core each. ``scrapy crawl web`` runs
until it has fetched the front pages of so many hosts, by the server's record, and is killed:

- first: seconds from the command to the first request that the server has answered
- hosts per CPU-second of the crawler (user and system, all threads), in all and from there on
- resident memory, looked at ten times a second: the median and the peak

A line for every so many hosts shows what grows. ``--against`` takes turns with another checkout.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from crawl_once import OURS
from webs import cpu_seconds

from webcrawl.simweb import SimWebProcess, preset, start_in_process, write_seeds

_HERE = Path(__file__).resolve().parents[1]
_FRONT_PAGE = re.compile(rb'"GET / HTTP')
_LOOK_SECS = 0.1


class Look(NamedTuple):
    """A crawler: hosts done, seconds since the command, CPU-seconds, resident MB."""

    hosts: int
    secs: float
    cpu: float
    rss: float


def resident_mb(pid: int) -> float:
    fields = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * resource.getpagesize() / 1e6


def crawled(web: SimWebProcess, seeds: Path, log: Path, *, tree: Path, hosts: int) -> list[Look]:
    """Looks at a crawl by *tree* from its first answer on, until *hosts* are done."""
    with log.open("rb") as record, tempfile.TemporaryDirectory(prefix="bench-") as job:
        time.sleep(5 * _LOOK_SECS)  # the server flushes it ten times a second
        record.seek(0, os.SEEK_END)
        settings = OURS | {"DNS_SERVERS": web.dns, "JOBDIR": job, "LOG_LEVEL": "ERROR"}
        command = [sys.executable, "-m", "scrapy", "crawl", "web", "-a", f"seeds={seeds}"]
        command += [f"-s{name}={value}" for name, value in settings.items()]
        compiled = os.environ | {"PYTHONDONTWRITEBYTECODE": ""}  # or it is anew, in 0.4 s
        began, looks, done = time.time(), list[Look](), 0
        process = subprocess.Popen(command, cwd=tree, env=compiled)
        try:
            os.sched_setaffinity(process.pid, {max(os.sched_getaffinity(0))})
            while done < hosts and process.poll() is None:
                time.sleep(_LOOK_SECS)
                if lines := record.read():
                    done += len(_FRONT_PAGE.findall(lines))
                    secs = (time.time() if looks else log.stat().st_mtime) - began
                    pid = process.pid
                    looks.append(Look(done, secs, cpu_seconds(pid), resident_mb(pid)))
        finally:
            process.kill()
            process.wait()
        return looks


def rows(looks: list[Look], every: int) -> list[str]:
    """The table's lines: one for every so many hosts, and one of all."""
    marks = [looks[0]]
    for look in looks:
        if look.hosts - marks[-1].hosts >= every:
            marks.append(look)
    lines = []
    for first, last in [*pairwise(marks), (looks[0], looks[-1])]:
        rss = [look.rss for look in looks if first.secs <= look.secs <= last.secs]
        rate = (last.hosts - first.hosts) / (last.cpu - first.cpu)
        lines.append(
            f"{first.hosts:>9,} to {last.hosts:>7,} hosts: {rate:6.1f} hosts/CPU-s, "
            f"RSS {statistics.median(rss):4.0f} MB, at most {max(rss):4.0f}"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--seeds", type=int, default=1_000_000)
    add("--hosts", type=int, default=100_000, help="to be fetched of each crawl")
    add("--every", type=int, default=20_000)
    add("--rounds", type=int, default=1)
    add("--against", type=Path, help="another checkout")
    options = parser.parse_args()
    trees = [_HERE, *([options.against.absolute()] if options.against else [])]
    world = {"hosts": options.seeds, "mean_pages": 2, "max_pages": 3, "seed_share": 1.0}
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        seeds, log = Path(scratch) / "seeds.txt", Path(scratch) / "access.log"
        simulated = preset("bench", http_port=0, https_port=0, **world)
        with start_in_process(simulated, log_path=log) as web:
            os.sched_setaffinity(web.pid, {min(os.sched_getaffinity(0))})
            write_seeds(web.world, seeds)
            for number in range(options.rounds):
                for tree in trees[:: -1 if number % 2 else 1]:
                    looks = crawled(web, seeds, log, tree=tree, hosts=options.hosts)
                    last = looks[-1]
                    print(
                        f"round {number + 1}, {tree.name}: first {looks[0].secs:.2f} s, in all "
                        f"{last.hosts / last.cpu:.1f} hosts/CPU-s, {last.hosts / last.secs:.1f}/s"
                    )
                    print(*rows(looks, options.every), sep="\n", flush=True)


if __name__ == "__main__":
    main()
