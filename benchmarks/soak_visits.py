"""A crawl that visits its pages again for months of virtual time: do disk and memory stay flat?

    PYTHONPATH=. python benchmarks/soak_visits.py DIRECTORY [--visits N] [--days N] [--hosts N]

A clean simulated web with as many pages as make N visits when each has one a day. A third of them
never change, a third have another date in each copy, a third have other words each week. WARC files
go to an OUTPUT_STORE, whose files are deleted each day, as a reader does that has read them.

*DIRECTORY*/days.csv gets a line each virtual day: visits until then, seconds of CPU, resident
memory, and bytes on disk by the parts of the job directory. The same command goes on where it was
ended or killed. At the end it compares the last two thirds: exit code 1 if anything grew.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from pathlib import Path
from typing import Any, Final

from scrapy.cmdline import execute
from scrapy.utils.project import get_project_settings

from webcrawl.sim.faults import Faults
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
_GIVEN: Final = {
    "REVISIT": 1,
    "REVISIT_POLICY": "webcrawl.revisit.policies.Uniform",
    "REVISIT_FIRST_SECS": "1d",
    # What it bounds comes to its bound within days.
    "MEMORY_BUDGET": 64 << 20,
    "CHECKPOINT_INTERVAL_SECS": 3600,
    "STATISTICS_INTERVAL_SECS": 0,
    "STATS_FILE_INTERVAL_SECS": 600,
    "WARC_MAX_FILE_BYTES": 1 << 24,
    "POLITENESS_MAX_DELAY": 10,
    "CRAWLER_CONTACT": "https://example.org/crawler",
    "OUTAGE_HOSTS": 0,
    "LOG_LEVEL": "WARNING",
    # It would look at the disk every two seconds.
    "EXTENSIONS": {"webcrawl.extensions.disk_guard.DiskGuard": None},
}


class _Web(SimulatedWeb):
    """Simulated web whose pages change, and which counts its answers."""

    def __init__(self, **world: Any) -> None:
        super().__init__(preset(**world), log=None, faults=Faults(1, end=0))
        self.answers = 0
        usual = self._state.reply_to

        def reply_to(host: Any, target: str, *, gzip: bool) -> Any:
            reply = usual(host, target, gzip=gzip)
            kind = sum(target.encode()) % 3
            if reply.status != 200 or target == "/robots.txt":
                return reply
            self.answers += 1
            day = int(self._time() / _DAY)
            word = "".join(chr(97 + int(one)) for one in str(day // 7))
            more = ("", f"<!-- {self._time()} -->", f"<p>week{word}</p>")[kind]
            return reply._replace(parts=[*reply.parts, more.encode()])

        self._state.reply_to = reply_to


def disk_use(job: Path) -> dict[str, int]:
    """Bytes of the files in *job*, by parts."""
    used = dict.fromkeys((*_PARTS, "rest"), 0)
    for path in job.rglob("*"):
        part = next((one for one in path.relative_to(job).parts[:3] if one in _PARTS), "rest")
        try:
            used[part] += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return used


def growth(rows: list[dict[str, float]]) -> list[str]:
    """A sentence for each column whose most grew between the halves of the last two thirds."""
    rows = rows[-(2 * len(rows) // 3) :]
    halves = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    found = []
    for name in _FIELDS[3:]:
        before, after = (max(float(row[name]) for row in half) for half in halves)
        if after > 1.1 * before + _SPARE:
            found.append(f"{name} grew from {before:,.0f} to {after:,.0f} bytes")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--visits", type=int, default=1_000_000)
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--hosts", type=int, default=500)
    options = parser.parse_args()
    directory = options.directory.absolute()
    job, store, log = directory / "job", directory / "store", directory / "days.csv"
    store.mkdir(parents=True, exist_ok=True)
    pages = _PAGES * options.visits / options.days / options.hosts
    web = _Web(name="clean", network=44, seed=1, hosts=options.hosts, mean_pages=pages)
    log.touch()
    rows: list[dict[str, Any]] = [*csv.DictReader(log.open())]
    if not rows:
        log.write_text(",".join(_FIELDS) + "\n")
    before = {name: float(rows[-1][name]) if rows else 0.0 for name in ("day", "visits", "cpu")}
    next_day = before["day"] + 1
    cpu = time.process_time
    loop = simulate(1, web, began=before["day"] * _DAY)

    def on_turn(_: int) -> None:
        nonlocal next_day
        if loop.time() < next_day * _DAY:
            return
        pages_of_memory = int(Path("/proc/self/statm").read_text().split()[1])
        row = {"day": int(next_day), "visits": int(before["visits"]) + web.answers}
        row |= {"cpu": round(before["cpu"] + cpu()), "rss": 4096 * pages_of_memory, **disk_use(job)}
        with log.open("a") as file:
            csv.DictWriter(file, _FIELDS).writerow(row)
        for path in store.rglob("*.warc.gz"):
            path.unlink()
        next_day += 1

    loop.on_turn = on_turn
    seeds = directory / "seeds.txt"
    if not seeds.exists():
        seeds.write_text("\n".join(web.world.seeds()) + "\n")
    settings = get_project_settings()
    left = (options.days - before["day"]) * _DAY + 60
    for name, value in (SETTINGS | _GIVEN).items():
        settings.set(name, value, priority="cmdline")
    given = {"JOBDIR": job, "OUTPUT_STORE": store, "CLOSESPIDER_TIMEOUT": left}
    given["KEEP_DAYS"] = options.days // 12
    for name, value in given.items():
        settings.set(name, str(value), priority="cmdline")
    try:
        execute(["scrapy", "crawl", "web", "-a", f"seeds={seeds}"], settings=settings)
    except SystemExit as end:
        if end.code:
            raise
    wrong = growth([*csv.DictReader(log.open())])
    print("\n".join(wrong) or "nothing grew")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
