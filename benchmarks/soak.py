"""``make soak``: a long crawl of a large simulated web that is killed at random moments.

    PYTHONPATH=. python benchmarks/soak.py [--minutes N] [--hosts N] [--kills N] [--seed N]

In the first third of the time the crawler is killed (SIGKILL) at random moments and started again
at once. The process that then runs is left alone until the end, as only a process that lives can
grow; at the end it gets SIGTERM. Every minute: requests a second by the server's own record, the
most memory and the most open descriptors of the crawler, and what its job directory takes. The
budget of memory is small, so that what is bounded reaches its bound within minutes.

Exit code 1, with a sentence for each, when there was growth from the second third of the time to
the last (medians of memory, most of the descriptors), an impolite contact in the server's record,
an error that nobody anticipated, or an end that was not asked for or took too long; 2 for options
that make no soak. Runs of less than a quarter of an hour tell the growth of memory and do not judge
it.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from scrapy.utils.project import get_project_settings

from webcrawl.jobs.audit.access_logs import audit_logs
from webcrawl.jobs.audit.auditor import RequiredDelays
from webcrawl.jobs.audit.report import as_text
from webcrawl.net.limits import most_open_files
from webcrawl.simweb import preset, start_in_process, write_seeds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy.settings import Settings

    from webcrawl.simweb import SimWebProcess

ROOT = Path(__file__).resolve().parents[1]
WORLD: dict[str, Any] = {
    **dict.fromkeys(("http_port", "https_port", "ftp_port", "gopher_port"), 0),
    # More pages than are fetched in half an hour.
    "mean_pages": 20,
    "max_pages": 3000,
    "ftp": 0.01,
    "gopher": 0.01,
    "endless": 0.005,
    "farm_hosts": 100_000,
    "farm_links": 0.005,
}
# Small, so that caches are full within minutes.
MEMORY_BUDGET = 64 << 20
MIN_DELAY = 1.0
SETTINGS = {
    "MEMORY_BUDGET": MEMORY_BUDGET,
    "ALLOW_PRIVATE_ADDRESSES": 1,
    "POLITENESS_MIN_DELAY": MIN_DELAY,
    "POLITENESS_MAX_DELAY": 5,
    "DOWNLOAD_TIMEOUT": 10,
    "CHECKPOINT_INTERVAL_SECS": 10,
}
_SAMPLE_SECS = 2.0
# From the second third to the last. The caches are full by then; what malloc keeps goes up and
# down by a few per cent.
_MAX_GROWTH = 1.1
# In a shorter run caches still fill up, and its growth is told and not judged.
_JUDGED_MINUTES = 15
# Connections come and go; a leak of one in a thousand pages would be hundreds by the end.
_SPARE_DESCRIPTORS = 64
_MAX_STOP_SECS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Minute:
    """What one minute showed. *alive* is how long the process had run at its end, in seconds."""

    requests: float
    rss: int
    descriptors: int
    disk: int
    kills: int
    alive: float


class Crawl:
    """``scrapy crawl web`` in *directory*, killed and started again."""

    def __init__(self, *, web: SimWebProcess, directory: Path) -> None:
        self.jobdir = directory / "job"
        seeds = directory / "seeds.txt"
        write_seeds(web.world, seeds)
        settings = SETTINGS | {
            "DNS_SERVERS": web.dns,
            "JOBDIR": self.jobdir,
            "GOPHER_PORTS": web.world.gopher_port,
        }
        self._command = [sys.executable, "-m", "scrapy", "crawl", "web", "-a", f"seeds={seeds}"]
        for name, value in settings.items():
            self._command += ["-s", f"{name}={value}"]
        self._output = directory / "crawl.log"
        self.start()

    def start(self) -> None:
        with self._output.open("ab") as output:
            self.process = psutil.Popen(
                self._command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.began = time.monotonic()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> tuple[int, float]:
        """SIGTERM; the exit code, and how many seconds it took."""
        began = time.monotonic()
        self.process.terminate()
        return self.process.wait(), time.monotonic() - began

    @property
    def unanticipated(self) -> int:
        """Lines of its logs about errors that nobody anticipated."""
        files = (self.jobdir / "logs").glob("critical*.jsonl")
        return sum(len(path.read_bytes().splitlines()) for path in files)


def disk_use(directory: Path) -> int:
    """Bytes of blocks below *directory*; files may vanish meanwhile."""
    used = subprocess.run(
        ["du", "-s", "--block-size=1", str(directory)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    ).stdout
    return int(used.split()[0]) if used else 0


def kill_times(rng: random.Random, *, kills: int, secs: float) -> list[float]:
    """When to kill, in seconds from the start: at random within the first third."""
    return sorted(rng.uniform(1.0, secs / 3) for _ in range(kills))


def run(crawl: Crawl, log: Path, *, minutes: int, due: list[float]) -> tuple[list[Minute], str]:
    """A row for each minute, and why it ended early, empty if it did not."""
    began = time.monotonic()
    rows: list[Minute] = []
    read = log.open("rb")
    with read:
        for minute in range(1, minutes + 1):
            rss = descriptors = kills = 0
            while (now := time.monotonic() - began) < 60 * minute:
                if due and due[0] <= now:
                    crawl.kill()
                    crawl.start()
                    due.pop(0)
                    kills += 1
                try:
                    rss = max(rss, crawl.process.memory_info().rss)
                    descriptors = max(descriptors, crawl.process.num_fds())
                except psutil.NoSuchProcess:
                    pass
                if crawl.process.poll() is not None:
                    return rows, f"the crawl ended by itself, exit code {crawl.process.poll()}"
                following = min(now + _SAMPLE_SECS, 60 * minute, *due[:1])
                time.sleep(max(0.0, following - (time.monotonic() - began)))
            requests = sum(block.count(b"\n") for block in iter(lambda: read.read(1 << 20), b""))
            rows.append(
                Minute(
                    requests=requests / 60,
                    rss=rss,
                    descriptors=descriptors,
                    disk=disk_use(crawl.jobdir),
                    kills=kills,
                    alive=time.monotonic() - crawl.began,
                )
            )
            print_row(minute, rows[-1])
    return rows, ""


def crawl_settings() -> Settings:
    settings = get_project_settings()
    settings.setdict(SETTINGS, priority="cmdline")
    return settings


def print_row(minute: int, row: Minute) -> None:
    print(
        f"{minute:>6} {row.requests:>10.1f} {row.rss / 1e6:>8.0f} {row.descriptors:>11} "
        f"{row.disk / 1e6:>9,.0f} {row.kills:>6} {row.alive:>8.0f}",
        flush=True,
    )


def growth(rows: Sequence[Minute]) -> list[str]:
    """Print the trend; a sentence for each thing that grew."""
    third = len(rows) // 3
    before, after = rows[-2 * third : -third], rows[-third:]
    rss = [statistics.median(row.rss for row in part) for part in (before, after)]
    descriptors = [max(row.descriptors for row in part) for part in (before, after)]
    print(
        f"second third to last: RSS {rss[0] / 1e6:.0f} to {rss[1] / 1e6:.0f} MB "
        f"({rss[1] / rss[0]:.2f}), open descriptors {descriptors[0]} to {descriptors[1]}"
    )
    found = []
    bound = most_open_files(crawl_settings())
    if (most := max(row.descriptors for row in rows)) > bound:
        found.append(f"{most} descriptors were open, {bound} are the most there should be")
    if len(rows) >= _JUDGED_MINUTES and rss[1] > _MAX_GROWTH * rss[0]:
        found.append(f"RSS grew to {rss[1] / rss[0]:.2f} of what it was")
    if descriptors[1] > descriptors[0] + _SPARE_DESCRIPTORS:
        found.append(f"open descriptors grew from {descriptors[0]} to {descriptors[1]}")
    return found


def judge(log: Path) -> list[str]:
    """Print what the server saw; a sentence if a host was contacted too early or twice at once."""
    delays = RequiredDelays(MIN_DELAY)
    auditor, counts = audit_logs([str(log)], key="host", delays=delays, keep=5)
    print(*as_text(auditor, counts, key="host", top=5), sep="\n")
    return [
        f"{one.key} was left alone for {one.gap / 1e6:.3f} s before {one.after.url}"
        for one in auditor.worst_violations()
    ]


def soak(*, minutes: int, hosts: int, kills: int, seed: int, directory: Path) -> list[str]:
    """All of it; what was wrong."""
    world = preset("mercator", hosts=hosts, **WORLD)
    due = kill_times(random.Random(seed), kills=kills, secs=60 * minutes)
    log = directory / "access.log"
    with start_in_process(world, log_path=log) as web:
        crawl = Crawl(web=web, directory=directory)
        try:
            print(f"{hosts:,} hosts, {minutes} minutes, kill -9 at {[round(at) for at in due]} s")
            print("minute requests/s   RSS MB descriptors   disk MB  kills  alive s")
            rows, ended = run(crawl, log, minutes=minutes, due=due)
            wrong = [ended] if ended else []
            if not ended:
                code, secs = crawl.stop()
                print(f"SIGTERM: ended after {secs:.1f} s with exit code {code}")
                if code or secs > _MAX_STOP_SECS:
                    wrong.append(f"SIGTERM took {secs:.1f} s, exit code {code}")
        finally:
            if crawl.process.poll() is None:
                crawl.kill()
    if len(rows) >= 3:
        wrong += growth(rows)
    if crawl.unanticipated:
        wrong.append(f"{crawl.unanticipated} lines in {crawl.jobdir}/logs/critical.jsonl")
    return wrong + judge(log)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=int, default=30, help="at least 3")
    parser.add_argument("--hosts", type=int, default=50_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1, help="of the moments of the kills")
    options = parser.parse_args()
    if options.minutes < 3 or options.hosts < 1 or options.kills < 0:
        parser.error("a soak takes 3 minutes or more, a host or more, and no fewer than 0 kills")
    directory = Path(tempfile.mkdtemp(prefix="soak-"))
    wrong = soak(
        minutes=options.minutes,
        hosts=options.hosts,
        kills=options.kills,
        seed=options.seed,
        directory=directory,
    )
    for sentence in wrong:
        print(f"WRONG: {sentence}")
    if wrong:
        print(f"all that is left of it is in {directory}")
        return 1
    print("nothing was wrong")
    shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
