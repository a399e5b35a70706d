"""What a hive costs and brings: ``PYTHONPATH=. python benchmarks/bench_hive.py [--pages N]
[--rounds N] [--drones 2 4] [--web small] [--mirror] [--uneven]``.

The simulated web, a Redis and the crawlers share all cores of the machine; the drones of a hive are
kept to a core each where ``scrapy hive`` does so, the one process is free. The rows take turns: a
crawl by one process without HIVE, then hives of so many drones, each from the same seeds. Measured
from the start of the processes until so many pages have been served by the simulated web's record:
CPU-seconds (user and system, all threads) of all crawler processes, of Redis and of the web's
server, each apart, and seconds of wall time. So the start of each process counts, and what a hive
does while it adopts its shards; only the end of a crawl does not. Pages a second are given from the
first page on, too. Figures are medians over the rounds, with the spread; ratios are taken round by
round.

``--mirror`` crawls a web whose documents are often found on several hosts to its end, by one
process and by a hive of two, and prints how many documents each has stored: the content-seen test
is one for each shard.

``--uneven`` crawls a web to its end by two drones, one of which may make a fourth, or as many, of
the requests a second of the other, and prints how much longer that takes than if none ever waited.
The rates are so low that the machine does not matter; the server's record is judged, too.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.extend(map(str, Path(__file__).parents[1].glob("tests/rigs/*/")))

from crawl_once import OURS
from crawling import simulated
from hive_crawl import HiveCrawl
from rows import redis_server
from webs import WEBS, Served, Web, cpu_seconds

from webcrawl.hive.launch.child_process import core_of
from webcrawl.hive.launch.crawl_stats import stats_of
from webcrawl.simweb import preset, start_in_process, write_seeds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Where what is compiled is not kept each process would compile webcrawl anew, 0.4 s.
_ENVIRONMENT = os.environ | {"PYTHONDONTWRITEBYTECODE": ""}
_POLL_SECS = 0.05
_TIMEOUT_SECS = 900
# Documents of which three in ten have the bytes of another, a third of those on another host.
_UNEVEN = {"hosts": 400, "mean_pages": 20.0, "max_pages": 40}
# Requests a second of both drones together, and by how much one is faster.
_REQUESTS = 60.0
_TIMES = (1, 4)
_MIRRORED = {"hosts": 400, "mean_pages": 20.0, "max_pages": 60, "duplicates": 0.3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One crawl: *pages* in *wall* seconds, the first of them after *start*; the others are
    CPU-seconds. *drones* is 0 without HIVE. *stats*: the sums of all processes' statistics at the
    end."""

    drones: int
    pages: int
    wall: float
    start: float
    crawlers: float
    redis: float
    server: float
    stats: Counter[str]

    @property
    def rate(self) -> float:
        """Pages per CPU-second of crawler processes."""
        return self.pages / self.crawlers


def title_of(drones: int) -> str:
    return f"hive of {drones}" if drones else "one process"


class Crawl:
    """One process, or a hive of *drones*, that crawls what *dns* knows from *seeds*."""

    def __init__(
        self, *, drones: int, redis: Path, directory: Path, dns: str, seeds: Path, **more: Any
    ) -> None:
        self._directory, self._redis, self._is_hive = directory, redis, drones > 0
        common = OURS | {"DNS_SERVERS": dns} | more
        if drones:
            common |= {
                "HIVE": directory.name,
                "HIVE_STORE": directory / "store",
                "REDIS_URL": f"unix://{redis}",
            }
        self.jobs = [directory / f"job-{number}" for number in range(max(1, drones))]
        command = [sys.executable, "-m", "scrapy", "crawl", "web", "-a", f"seeds={seeds}"]
        self.processes = []
        for number, job in enumerate(self.jobs):
            given = [f"-s{name}={value}" for name, value in (common | {"JOBDIR": job}).items()]
            with job.with_suffix(".log").open("wb") as log:
                self.processes.append(
                    subprocess.Popen(
                        command + given,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        env=_ENVIRONMENT,
                    )
                )
            if (core := core_of(number, drones)) is not None:
                os.sched_setaffinity(self.processes[-1].pid, {core})

    def cpu(self) -> float:
        """Of all processes until now; they must live."""
        for process, job in zip(self.processes, self.jobs, strict=True):
            if process.poll() is not None:
                log = job.with_suffix(".log").read_text(encoding="utf-8", errors="replace")
                raise RuntimeError(f"{job.name} ended: exit code {process.poll()}\n{log[-3000:]}")
        return sum(cpu_seconds(process.pid) for process in self.processes)

    def end(self, sent: signal.Signals | None = signal.SIGTERM) -> Counter[str]:
        """Stop it, or wait for its end without *sent*; the sums of its statistics."""
        for process in self.processes:
            if sent is not None:
                process.send_signal(sent)
        for process in self.processes:
            process.wait(_TIMEOUT_SECS)
        sums: Counter[str] = Counter()
        for job in self.jobs:
            stats = json.loads((job / "stats.json").read_bytes())
            sums.update({name: value for name, value in stats.items() if _is_number(value)})
        return sums

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@contextmanager
def crawl_of(drones: int, **values: Any) -> Iterator[tuple[Crawl, int]]:
    """A `Crawl`, and the process id of its Redis."""
    with ExitStack() as ends:
        directory = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="bench-hive-")))
        (directory / "redis").mkdir()
        pid, socket = ends.enter_context(redis_server(directory / "redis"))
        crawl = Crawl(drones=drones, redis=socket, directory=directory, **values)
        ends.callback(crawl.kill)
        yield crawl, pid


def measured(web: Served, *, drones: int, pages: int) -> Row:
    """One crawl until *pages* were served."""
    web.count_served()
    began, cpu_of_server = time.perf_counter(), web.cpu()
    with crawl_of(drones, dns=web.dns, seeds=web.seeds) as (crawl, redis):
        served, start, deadline = 0, 0.0, began + _TIMEOUT_SECS
        while served < pages:
            if time.perf_counter() > deadline:
                raise RuntimeError(f"{served} of {pages} pages in {_TIMEOUT_SECS} s")
            crawl.cpu()
            time.sleep(_POLL_SECS)
            served += web.count_served()
            start = start or (time.perf_counter() - began if served else 0.0)
        return Row(
            drones=drones,
            pages=served,
            wall=time.perf_counter() - began,
            start=start,
            crawlers=crawl.cpu(),
            redis=cpu_seconds(redis),
            server=web.cpu() - cpu_of_server,
            stats=crawl.end(),
        )


def line_of(row: Row) -> str:
    """What is printed of one crawl."""
    return (
        f"{title_of(row.drones):12} {row.pages:>6} pages, {row.rate:7.1f} pages/CPU-s, "
        f"{row.pages / row.wall:7.1f} pages/s; CPU: crawlers {row.crawlers:6.1f} s, "
        f"Redis {row.redis:5.2f} s, server {row.server:5.1f} s in {row.wall:5.1f} s, "
        f"the first after {row.start:3.1f} s"
    )


def report(rows: dict[int, list[Row]]) -> None:
    """Print medians and spread, and what they come to beside the first row."""
    figures: dict[str, Callable[[Row], float]] = {
        "pages/CPU-s": lambda row: row.rate,
        "pages/s": lambda row: row.pages / row.wall,
        "from the first on": lambda row: row.pages / (row.wall - row.start),
    }
    print(f"\n{'':13}" + "".join(f"{name:>22}   ratio" for name in figures))
    first = next(iter(rows.values()))
    for drones, found in rows.items():
        cells = []
        for figure in figures.values():
            values = [figure(row) for row in found]
            ratios = [figure(row) / figure(base) for row, base in zip(found, first, strict=True)]
            spread = f"{statistics.median(values):.0f} ({min(values):.0f} to {max(values):.0f})"
            cells.append(f"{spread:>22}{statistics.median(ratios):>8.2f}")
        print(f"{title_of(drones):13}{''.join(cells)}")
    for drones, found in rows.items():
        stats = found[-1].stats
        kept, sent, spared = (stats[f"hive/links/{what}"] for what in ("kept", "sent", "spared"))
        if drones:
            print(
                f"{title_of(drones):13}{(sent + spared) / (kept + sent + spared):.1%} of links are "
                f"for other shards, the cache spares {spared / (sent + spared):.1%} of these; "
                f"{sent / stats['hive/batches/sent']:.0f} links in an entry of "
                f"{stats['hive/bytes/sent'] / stats['hive/batches/sent']:.0f} bytes"
            )


def crawls(web: Web, *, drones: list[int], pages: int, rounds: int) -> None:
    """Measure one process and hives of *drones* on *web*, and print the table."""
    rows: dict[int, list[Row]] = {number: [] for number in [0, *drones]}
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as scratch,
        Served(web, directory=Path(scratch), core=None) as served,
    ):
        measured(served, drones=0, pages=pages)  # warms the server, is not counted
        for number in range(1, rounds + 1):
            for count, found in rows.items():
                found.append(measured(served, drones=count, pages=pages))
                print(f"round {number}: {line_of(found[-1])}", flush=True)
    report(rows)


def mirror(drones: int) -> None:
    """Print what a content-seen test for each shard stores twice."""
    world = preset("clean", http_port=0, https_port=0, **_MIRRORED)
    for count in (0, drones):
        with (
            tempfile.TemporaryDirectory(prefix="bench-") as scratch,
            start_in_process(world, log_path=None) as web,
        ):
            seeds = Path(scratch) / "seeds.txt"
            write_seeds(web.world, seeds)
            with crawl_of(count, dns=web.dns, seeds=seeds) as (crawl, _):
                stats = crawl.end(None)
        print(
            f"{title_of(count):13}{stats['content/tested']:.0f} documents tested, "
            f"{stats['content/duplicates']:.0f} were copies, "
            f"{stats['item_scraped_count']:.0f} pages stored",
            flush=True,
        )


def uneven(times: float) -> None:
    """Print how long two drones take of which one is that many *times* as fast."""
    slow = _REQUESTS / (1 + times)
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as scratch,
        simulated(Path(scratch), **_UNEVEN) as web,
        HiveCrawl(web, Path(scratch), HIVE_SHARDS=64, STATISTICS_INTERVAL_SECS=5) as hive,
    ):
        # CONTACTS_MAX is divided by the number of drones.
        drones = [hive.add(CONTACTS_MAX=2 * rate) for rate in (slow, slow * times)]
        hive.end()
        hits = web.hits()
        hive.judge(reads_warc=False)
        secs = max(hit.start for hit in hits) - min(hit.start for hit in hits)
        moved = [stats_of(drone.job).get("hive/shards/handed_over", 0) for drone in drones]
        print(
            f"{times}:1  {len(hits):,} requests in {secs:.0f} s, "
            f"{secs * _REQUESTS / len(hits):.2f} times the ideal; "
            f"handed over {moved[0]:.0f} shards, the faster one {moved[1]:.0f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--web", choices=WEBS, default="small")
    add("--pages", type=int, default=30_000, help="of each crawl")
    add("--rounds", type=int, default=3)
    add("--drones", type=int, nargs="*", default=[2, 4])
    add("--mirror", action="store_true", help="nothing but the content-seen test")
    add("--uneven", action="store_true", help="nothing but drones of different speed")
    options = parser.parse_args()
    if options.mirror:
        mirror(2)
    elif options.uneven:
        for times in _TIMES:
            uneven(times)
    else:
        crawls(
            WEBS[options.web],
            drones=options.drones,
            pages=options.pages,
            rounds=options.rounds,
        )


if __name__ == "__main__":
    main()
