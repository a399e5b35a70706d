"""How long a crawl takes to go on: from a cold process to the first URL handed out.

    python benchmarks/bench_restart.py --urls 10000000

Makes a job with so many waiting URLs, 20 of each host, as a crawl that waits for its hosts leaves
it: as many back-end queues as there may be, a host record, a finished page and a content
fingerprint for each host that was contacted, ranks of all hosts. With ``--per-host 100`` every
back-end queue has files of its own; with ``--killed N`` that many pages were finished, and links
of them found, after the checkpoint. Then new processes open it with the parts that the settings
name, each after the system was asked to drop the files from its memory. With ``--check`` it is read
by ``scrapy job check``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.crawler import Crawler
from scrapy.utils.project import get_project_settings

from webcrawl.crawl.builder import ProcessBuilder
from webcrawl.frontier import Entry, encode
from webcrawl.hosts.records import HostRecord
from webcrawl.seen.fingerprint import fingerprint
from webcrawl.spiders.web import WebSpider

if TYPE_CHECKING:
    from webcrawl.crawl.job_state import JobState
    from webcrawl.crawl.shard.shard import Shard

ROOT = Path(__file__).parents[1]
_LINKS = 40
_BATCH = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--urls", type=int, default=1_000_000)
    parser.add_argument("--per-host", type=int, default=20)
    parser.add_argument("--killed", type=int, default=0, metavar="N")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", type=Path, help="where to make the job (default: a new one)")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.open:
        measure(options.open)
        return
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        jobdir = Path(directory) / "job"
        started = time.perf_counter()
        # In a process of its own, as its peak of memory would count as that of its children.
        with ProcessPoolExecutor(1) as maker:
            made = maker.submit(
                make, jobdir, options.urls, options.per_host, options.killed
            ).result()
        made_in = time.perf_counter() - started
        sizes = [path.stat().st_size for path in jobdir.rglob("*") if path.is_file()]
        print(
            f"{made}; {sum(sizes) / 1e6:,.0f} MB in {len(sizes):,} files, made in {made_in:.0f} s"
        )
        if options.check:
            print("      wall       CPU        RSS")
            for _ in range(options.rounds):
                check(jobdir)
            return
        print("      wall       CPU   of it: start, job, parts, first lease          RSS")
        for _ in range(options.rounds):
            run(jobdir)


def state_of(jobdir: Path) -> JobState:
    settings = get_project_settings()
    settings.setdict({"JOBDIR": str(jobdir), "CRAWLER_CONTACT": "bench@example.org"}, "cmdline")
    return ProcessBuilder(Crawler(WebSpider, settings)).state()


def url(kind: str, n: int, per_host: int) -> tuple[str, str]:
    number = n // per_host
    host = f"www.h{number}.bench-{number % 7}.test"
    return f"https://{host}/{kind}/articles/2026/{n}.html?page={n % 7}", host


class _Maker:
    """Submits URLs to the eliminator and pushes what comes out of it."""

    def __init__(self, shard: Shard, per_host: int) -> None:
        self._shard = shard
        self._per_host = per_host

    def submit(self, kind: str, numbers: range) -> None:
        entries, fps = [], []
        for n in numbers:
            one, host = url(kind, n, self._per_host)
            fps.append(fingerprint(one))
            entries.append(encode(Entry(one, host, n % 4, n, one.replace("2026", "via"), "a")))
        self._shard.eliminator.submit(fps, entries.__getitem__)

    def push(self, *, all_of_it: bool) -> None:
        eliminator, frontier = self._shard.eliminator, self._shard.frontier
        if all_of_it:
            eliminator.merge()
        while (taken := eliminator.take(_BATCH)) or (eliminator.merging and all_of_it):
            if taken:
                frontier.push(taken)
            else:
                time.sleep(0.01)


def make(jobdir: Path, urls: int, per_host: int, killed: int) -> str:
    state = state_of(jobdir)
    state.resources.job.open(spider="web")
    state.open()
    (shard,) = state.shards
    maker = _Maker(shard, per_host)
    tables: list[Any] = [shard.ranks, shard.parts["domains"]]
    for table in tables:
        table.add_many([(url("", n, per_host)[1], n + 1) for n in range(0, urls, per_host)])
    for start in range(0, urls, _BATCH):
        maker.submit("waiting", range(start, min(start + _BATCH, urls)))
        while shard.eliminator.is_full:
            maker.push(all_of_it=False)
            time.sleep(0.01)
        maker.push(all_of_it=False)
    maker.push(all_of_it=True)
    contacted = 0
    while contact(shard):
        contacted += 1
    job = state.resources.job
    job.publish(job.prepare({"spider": "web", "politeness_key": "host", "knows_domains": True}))
    job.forget()
    for n in range(killed):
        maker.submit("found", range(n * _LINKS, (n + 1) * _LINKS))
        contact(shard, rest=0.0)
    stats = shard.frontier.stats()
    state.close(print)
    job.close()
    return (
        f"{stats['frontier/waiting']:,} waiting ({stats['frontier/front']:,} in the front end), "
        f"{stats['frontier/queues']:,} back-end queues, {contacted:,} contacted"
    )


def contact(shard: Shard, *, rest: float = 86_400.0) -> bool:
    """Hand out a URL, and all that happens until it is finished; whether there was one."""
    frontier, content = shard.frontier, shard.content
    lease = frontier.acquire()
    while lease is None:
        ready_at = frontier.ready_at()
        if ready_at is None or ready_at > shard.clock():
            return False
        lease = frontier.acquire()
    host = lease.entry.host
    document = random.getrandbits(64)
    content.test(document)
    frontier.contacts.release(host, rest=rest, min_rest=0.0)
    frontier.leases.finish(lease, note=document.to_bytes(8, "little"))
    content.commit(document)
    records = shard.hosts.records
    records.put(HostRecord(host))
    records.put_robots(f"https://{host}", os.urandom(200))
    if random.random() < 0.001:
        records.flush()
    return True


def check(jobdir: Path) -> None:
    drop(jobdir)
    command = [sys.executable, "-m", "scrapy", "job", "check", str(jobdir)]
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall, cpu = time.perf_counter() - started, usage.ru_utime + usage.ru_stime
    memory = f"{usage.ru_maxrss / 1024:7,.0f} MB"
    print(f"{wall:8.2f} s {cpu:7.2f} s {memory}   exit code {process.returncode}")


def drop(jobdir: Path) -> None:
    """Ask the system to drop the files from its memory."""
    for path in jobdir.rglob("*"):
        if path.is_file():
            fd = os.open(path, os.O_RDONLY)
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def run(jobdir: Path) -> None:
    drop(jobdir)
    copy = jobdir.with_name("copy")
    subprocess.run(["cp", "-r", "--reflink=auto", jobdir, copy], check=True)
    started = time.perf_counter()
    command = [sys.executable, __file__, "--open", str(jobdir)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    wall = time.perf_counter() - started
    told = json.loads(done.stdout)
    steps = "  ".join(f"{secs:.2f}" for secs in told["steps"])
    print(f"{wall:8.2f} s {told['cpu']:7.2f} s   {steps:>40}  {told['rss_mb']:8,.0f} MB")
    subprocess.run(["rm", "-r", jobdir], check=True)
    copy.rename(jobdir)


def measure(jobdir: Path) -> None:
    """In a process of its own: open the job, hand out a URL, say what it took."""
    steps = [time.clock_gettime(time.CLOCK_BOOTTIME) - _started_at(), time.perf_counter()]
    state = state_of(jobdir)
    state.resources.job.open(spider="web")
    steps.append(time.perf_counter())
    state.open()
    steps.append(time.perf_counter())
    lease = state.shards.ready.acquire()
    steps.append(time.perf_counter())
    usage = resource.getrusage(resource.RUSAGE_SELF)
    taken = (after - before for before, after in itertools.pairwise(steps[1:]))
    told = {
        "steps": [steps[0], *taken],
        "cpu": usage.ru_utime + usage.ru_stime,
        "rss_mb": usage.ru_maxrss / 1024,
        "handed_out": lease is not None,
    }
    sys.stdout.write(json.dumps(told))
    sys.stdout.flush()
    os._exit(0)


def _started_at() -> float:
    """When this process was started, in seconds since boot."""
    fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
