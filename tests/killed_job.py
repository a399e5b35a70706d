"""Jobs of real crawls that were killed, for who checks and mends them, and what such a job says."""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING, Any

import msgspec
from crawling import crawl_command, start_crawl, wait_until

from webcrawl.hosts.database import FILE, SCAN, checksum
from webcrawl.hosts.reader import RecordsReader
from webcrawl.inspect.job_view import JobView
from webcrawl.job import read_checkpoint
from webcrawl.seen.levels import run_path
from webcrawl.seen.runs import Run
from webcrawl.simweb import preset

if TYPE_CHECKING:
    from pathlib import Path

    from webcrawl.simweb.process import SimWebProcess

# Few hosts with many pages: their queues spill to disk.
WORLD = preset(
    "clean",
    http_port=0,
    https_port=0,
    hosts=8,
    mean_pages=120.0,
    max_pages=200,
    crawl_delays=0.0,
    redirects=0.0,
)
SHARD = "shards/00"


def command(web: SimWebProcess, tmp_path: Path, **settings: Any) -> list[str]:
    """The command line of the crawl in ``tmp_path/job``."""
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("\n".join(web.world.seeds()) + "\n")
    options = {"POLITENESS_MIN_DELAY": 0.02, "REPUTATION_BASE_PAGES": 0, **settings}
    return crawl_command(web, seeds, tmp_path / "job", **options)


def kill_in_the_middle(command: list[str], job: Path, *, checkpoints: int = 3) -> None:
    """Start the crawl and kill it when it has made so many checkpoints, and gone on a little."""
    crawl = start_crawl(command)
    wait_until(lambda: _sequence(job) >= checkpoints)
    # Host records are written each second, the logs all the time.
    time.sleep(0.3)
    crawl.kill()
    crawl.communicate()


def _sequence(job: Path) -> int:
    try:
        return int((job / "CURRENT").read_text("ascii")[9:15])
    except FileNotFoundError:
        return 0


def meaning(job: Path) -> dict[str, Any]:
    """All that the crawl would take from the job's files, read as its own readers read them."""
    checkpoint = read_checkpoint(job)
    with JobView(jobdir=job, checkpoint=checkpoint) as view:
        done = view.frontier.finished_keys()
        entries = [(found.queue.where, found.entry) for found in view.frontier.entries(done)]
        told = {
            "spider": checkpoint.facts,
            "trusted": checkpoint.trusted,
            "snapshots": checkpoint.snapshots,
            "entries": entries,
            "left": done.to_bytes(),
            "hosts": dict(view.frontier.hosts()),
            "rests": {host: view.frontier.times(host) for host, _ in view.frontier.hosts()},
            "undecided": list(view.seen.undecided()),
            "tables": [bytes(view.table(name)._keys) for name in ("ranks", "domains")],
            "records": rows_of(job),
        }
    for part in ("seen", "content"):
        runs = msgspec.msgpack.decode(checkpoint.snapshots[f"{SHARD}/{part}"])[2]
        told[part] = [_words(job / SHARD / part, *run) for run in runs]
    return told


def _words(path: Path, number: int, count: int) -> bytes:
    run = Run.open(run_path(path, number), count=count)
    try:
        return b"".join(chunk.tobytes() for chunk in run.chunks(blocks=64))
    finally:
        run.close()


def rows_of(job: Path) -> list[tuple[int, str, bytes]]:
    """The host records, but for those with another checksum; none of a file that is none."""
    path = job / SHARD / "hosts"
    if not (path / FILE).exists():
        return []
    with RecordsReader(path=path) as reader:
        try:
            rows = reader._connection.execute(SCAN).fetchall()
        except sqlite3.DatabaseError:
            return []
    return [(kind, key, data) for kind, key, data, crc in rows if checksum(key, data) == crc]
