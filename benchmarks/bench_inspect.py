"""How long `scrapy why` and `scrapy frontier` take beside a large crawl.

    python benchmarks/bench_inspect.py --urls 1000000

Makes a job with so many waiting URLs over 10,000 hosts and a log of so many finished URLs, and
asks for URLs at the beginning and the end of both, and for an export. Times are of the whole
command, by the clock and of the CPU; starting Python and Scrapy is the first row.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/rigs"))

from seen_rig import InlineExecutor

from webcrawl.crawl.jobdir import Job
from webcrawl.crawl.outcome_log import INFO_LOG, OutcomeLine
from webcrawl.frontier import (
    DepthRankPrioritizer,
    Entry,
    Frontier,
    GeometricSelector,
    LargestDelay,
    encode,
)
from webcrawl.seen import DiskEliminator
from webcrawl.seen.cache import ClockCache
from webcrawl.seen.fingerprint import fingerprint, hexadecimal
from webcrawl.storage.line_log import LineLog

ROOT = Path(__file__).parents[1]
_HOSTS = 10_000
_BATCH = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--urls", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        job = Path(directory) / "job"
        make_frontier(job, options.urls)
        make_log(job, options.urls)
        log = sum(path.stat().st_size for path in (job / "logs").iterdir())
        print(f"{options.urls:,} waiting, {options.urls:,} lines of {log / 1e6:,.0f} MB in all")
        last = options.urls - 1
        run("nothing but to start", "version", jobdir=job)
        run("nobody's URL (all is read)", "why", "http://nobody.test/", jobdir=job)
        run("the first line", "why", url("done", 0), jobdir=job)
        run("the last line", "why", url("done", last), jobdir=job)
        run("a URL at the front", "why", url("waiting", 0), jobdir=job)
        run("the last URL in line", "why", url("waiting", last), jobdir=job)
        run("the summary", "frontier", jobdir=job)
        run("one host", "frontier", "--host", "h7.bench.test", jobdir=job)
        run("an export", "frontier", "--export", f"{directory}/out.txt", jobdir=job)
        run("an export, gzip", "frontier", "--export", f"{directory}/out.txt.gz", jobdir=job)


def url(kind: str, n: int) -> str:
    return f"http://h{n % _HOSTS}.bench.test/{kind}/articles/{n}.html?page={n % 7}"


def make_frontier(path: Path, urls: int) -> None:
    """A job that was stopped with *urls* waiting."""
    job = Job(path=path)
    job.open(spider="web")
    shard = path / "shards" / "00"
    frontier = Frontier(
        path=shard / "frontier",
        clock=time.time,
        prioritizer=DepthRankPrioritizer(levels=16),
        selector=GeometricSelector(rng=random.Random(1)),
        delay=LargestDelay(factor=10.0, floor=3.0, ceiling=120.0),
        queues=600,
        max_queues=100_000,
    )
    seen = DiskEliminator(
        path=shard / "seen",
        executor=InlineExecutor(),
        cache=ClockCache(size=1 << 16),
        buffer_size=1 << 18,
    )
    frontier.open(None)
    seen.open(None)
    for start in range(0, urls, _BATCH):
        batch = [url("waiting", n) for n in range(start, min(start + _BATCH, urls))]
        entries = [
            encode(Entry(one, one.split("/")[2], n % 4, 0, "http://h1.bench.test/", "a", 0, 1.0))
            for n, one in enumerate(batch, start)
        ]
        seen.submit([fingerprint(one) for one in batch], entries.__getitem__)
        while taken := seen.take(_BATCH):
            frontier.push(taken)
    seen.merge()
    while taken := seen.take(_BATCH):
        frontier.push(taken)
    frontier.acquire()
    job.shard("00").attach("frontier", frontier)
    job.shard("00").attach("seen", seen)
    job.publish(job.prepare({"spider": "web", "politeness_key": "host"}))
    for part in (frontier, seen, job):
        part.close()


def make_log(path: Path, urls: int) -> None:
    log = LineLog(path=path / INFO_LOG, max_bytes=1 << 26)
    log.open()
    encode_line = msgspec.json.Encoder().encode
    for n in range(urls):
        one = url("done", n)
        line = OutcomeLine(
            at=1.0 + n,
            url=one,
            host=one.split("/")[2],
            outcome="http_200",
            form=hexadecimal(fingerprint(one)),
            status=200,
            took=0.123,
            bytes=20_000,
            content=hexadecimal(fingerprint(one + "content")),
            depth=3,
            kind="a",
            via=url("done", n // 2),
        )
        log.append(encode_line(line))
    log.close()


def run(what: str, *command: str, jobdir: Path) -> None:
    started, used = time.perf_counter(), _cpu()
    line = [sys.executable, "-m", "scrapy", *command, "-s", f"JOBDIR={jobdir}"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    took = time.perf_counter() - started
    first = (done.stdout or done.stderr).splitlines()[0].strip()
    print(f"{what:>28}  {took:6.2f} s  {_cpu() - used:6.2f} s CPU  {first}")


def _cpu() -> float:
    """Seconds of CPU that the children so far have used."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
