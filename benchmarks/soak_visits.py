"""A crawl that visits its pages again for months of virtual time: do disk and memory stay flat?

    PYTHONPATH=. python benchmarks/soak_visits.py DIRECTORY [--visits N] [--days N] [--hosts N]

A clean simulated web with as many pages as make N visits when each has one a day; they change once
in two days in the median. WARC files go to an OUTPUT_STORE, whose files are deleted each day, as a
reader does that has read them.

*DIRECTORY*/days.csv gets a line each virtual day: visits until then, seconds of CPU, resident
memory, and bytes on disk by the parts of the job directory. The same command goes on where it was
ended or killed. At the end it compares the last two thirds: exit code 1 if anything grew.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from scrapy.cmdline import execute

from webcrawl.sim.process import SETTINGS, simulate
from webcrawl.sim.web import SimulatedWeb
from webcrawl.simweb import preset

_DAY: Final = 86_400.0
# For each visit a day: some answers are no documents, and a visit is late by two hours or so.
_PAGES: Final = 1.28
# The most of some days goes up and down by this, and by a tenth.
_SPARE: Final = 1 << 14
_PARTS: Final = ("logs", "warc", "checkpoints", "frontier", "seen", "content", "hosts")
_FIELDS: Final = ("day", "visits", "cpu", "rss", *_PARTS, "rest")
# MEMORY_BUDGET and WARC_REVISIT_MAX_BYTES let what they bound come to its bound within days. The
# guard of the disk would look every two seconds.
_GIVEN: Final = """
    REVISIT=1 REVISIT_POLICY=webcrawl.revisit.policies.Uniform REVISIT_FIRST_SECS=1d
    MEMORY_BUDGET=64MiB WARC_MAX_FILE_BYTES=16MiB WARC_REVISIT_MAX_BYTES=256KiB
    CHECKPOINT_INTERVAL_SECS=1h STATS_FILE_INTERVAL_SECS=10min STATISTICS_INTERVAL_SECS=0
    POLITENESS_MAX_DELAY=10s OUTAGE_HOSTS=0 DISK_MIN_FREE_BYTES=0 LOG_LEVEL=WARNING
    CRAWLER_CONTACT=https://example.org/crawler
"""


class _Web(SimulatedWeb):
    """Simulated web that counts the documents for which it is asked."""

    def __init__(self, **world: Any) -> None:
        super().__init__(preset(**world), log=None)
        self.answers = 0
        usual = self._state.reply_to

        def reply_to(host: Any, target: str, **asked: Any) -> Any:
            reply = usual(host, target, **asked)
            self.answers += reply.status in (200, 304) and target != "/robots.txt"
            return reply

        vars(self._state)["reply_to"] = reply_to


def disk_use(job: Path) -> dict[str, int]:
    """Bytes of files and directories in *job*, by parts."""
    used = dict.fromkeys((*_PARTS, "rest"), 0)
    for path in job.rglob("*"):
        part = next((one for one in path.relative_to(job).parts[:3] if one in _PARTS), "rest")
        with suppress(FileNotFoundError):
            used[part] += path.lstat().st_size
    return used


def growth(rows: list[dict[str, Any]]) -> list[str]:
    """A sentence for each column whose most grew between the halves of the last two thirds."""
    rows = rows[-(2 * len(rows) // 3) :]
    halves = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    most = [[max(int(row[name]) for row in half) for half in halves] for name in _FIELDS[3:]]
    return [
        f"{name} grew from {before:,} to {after:,} bytes"
        for name, (before, after) in zip(_FIELDS[3:], most, strict=True)
        if after > 1.1 * before + _SPARE
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--visits", type=int, default=1_000_000)
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--hosts", type=int, default=700)
    options = parser.parse_args()
    directory = options.directory.absolute()
    job, store, log = directory / "job", directory / "store", directory / "days.csv"
    store.mkdir(parents=True, exist_ok=True)
    pages = _PAGES * options.visits / options.days / options.hosts
    world = {"hosts": options.hosts, "mean_pages": pages, "changes_per_day": 0.5}
    web = _Web(name="clean", network=44, seed=1, **world)
    if not log.exists():
        log.write_text(",".join(_FIELDS) + "\n")
    rows: list[dict[str, Any]] = [*csv.DictReader(log.open())]
    day, visits, cpu = (int(rows[-1][name]) if rows else 0 for name in _FIELDS[:3])
    loop = simulate(1, web, began=day * _DAY)
    next_day = day + 1

    def on_turn(_: int) -> None:
        nonlocal next_day
        if loop.time() < next_day * _DAY:
            return
        pages_of_memory = int(Path("/proc/self/statm").read_text().split()[1])
        found = (next_day, visits + web.answers, cpu + round(time.process_time()))
        row = dict(zip(_FIELDS, found, strict=False))
        row |= {"rss": 4096 * pages_of_memory, **disk_use(job)}
        with log.open("a") as file:
            csv.DictWriter(file, _FIELDS, lineterminator="\n").writerow(row)
        [path.unlink() for path in store.rglob("*.warc.gz")]
        next_day += 1

    loop.on_turn = on_turn
    seeds = directory / "seeds.txt"
    seeds.write_text("\n".join(web.world.seeds()) + "\n")
    given = {"JOBDIR": job, "OUTPUT_STORE": store, "KEEP_DAYS": options.days // 12}
    given |= {"CLOSESPIDER_TIMEOUT": (options.days - day) * _DAY + 60}
    settings = [f"{name}={value}" for name, value in (SETTINGS | given).items()]
    words = [word for one in (*settings, *_GIVEN.split()) for word in ("-s", one)]
    with suppress(SystemExit):
        execute(["scrapy", "crawl", "web", "-a", f"seeds={seeds}", *words])
    rows = [*csv.DictReader(log.open())]
    wrong = growth(rows) if len(rows) >= options.days else ["the crawl has ended early"]
    print("\n".join(wrong) or "nothing grew")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
