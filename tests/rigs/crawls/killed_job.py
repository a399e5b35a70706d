"""Jobs of real crawls that were killed, to be checked, and what such a job says."""

import json
import os
import signal
import sqlite3
import time

import msgspec
from crawling import crawl_command, start_crawl, wait_until

from webcrawl.crawl.job.jobdir import read_checkpoint
from webcrawl.crawl.job.kept_checkpoints import find_kept
from webcrawl.crawl.job.state_directory import read_state
from webcrawl.frontier.overflow import overflow_path
from webcrawl.frontier.snapshot import decode_snapshot
from webcrawl.hosts.records.database import FILE, checksum
from webcrawl.hosts.records.records_reader import SCAN, RecordsReader
from webcrawl.jobs.inspect.job_view import open_view
from webcrawl.seen.levels import run_path
from webcrawl.seen.runs import Run
from webcrawl.simweb import preset
from webcrawl.storage.fifo import segment_file
from webcrawl.storage.record_log import CorruptRecordError

# Few hosts with many pages: their queues spill to disk.
WORLD = preset(
    "clean",
    http_port=0,
    https_port=0,
    hosts=5,
    mean_pages=90.0,
    max_pages=120,
    crawl_delays=0.0,
    redirects=0.0,
)
SHARD = "shards/00"
STATE = ("CURRENT", "manifest-*.json", "snapshot-*.log")


def command(web, tmp_path, **settings):
    """The command line of the crawl in ``tmp_path/job``."""
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("\n".join(web.world.seeds()) + "\n")
    # Slow enough that the queues are still long when the crawl is killed.
    options = {"POLITENESS_MIN_DELAY": 0.1, "REPUTATION_BASE_PAGES": 0, **settings}
    return crawl_command(web, seeds, tmp_path / "job", **options)


def kill_in_the_middle(command, job, *, keeps=False):
    """Start the crawl and kill it when a checkpoint names a long queue on disk, and the logs have
    gone on a little, not while it makes another one. If it *keeps* checkpoints the live one is a
    later one than was kept."""
    crawl = start_crawl(command)
    wait_until(lambda: _spilled(job) >= 48 and (not keeps or _has_gone_on(job)))
    log = job / "logs/info.jsonl"
    size = log.stat().st_size
    wait_until(lambda: log.stat().st_size > size + 5000)
    while True:
        crawl.send_signal(signal.SIGSTOP)
        os.waitpid(crawl.pid, os.WUNTRACED)
        if not _makes_checkpoint(job) and _logged_since(job) > 200:
            break
        crawl.send_signal(signal.SIGCONT)
        time.sleep(0.01)
    crawl.kill()
    crawl.communicate()


def _makes_checkpoint(job):
    """Whether there are files of two checkpoints."""
    own = [f"{state}/{name}" for state in (".", SHARD) for name in STATE[1:]]
    return any(len([*job.glob(name)]) != 1 for name in (*own, f"{SHARD}/frontier/done/*.log"))


def _logged_since(job):
    """How many bytes the log has of what was done since the live checkpoint."""
    return sum(file.stat().st_size for file in job.glob(f"{SHARD}/frontier/done/*.log"))


def _spilled(job):
    """How many URLs the longest queue of a host has on disk, as of the live checkpoint."""
    try:
        if read_checkpoint(job) is None:
            return 0
        return _longest(job).overflow.overflow
    except (CorruptRecordError, OSError, ValueError):
        return 0  # no queue, or another checkpoint meanwhile


def _has_gone_on(job):
    kept = [int(path.name) for path in find_kept(job)]
    live = read_state(job)
    return bool(kept) and live is not None and live.sequence > max(kept)


def _longest(job):
    state = decode_snapshot(read_checkpoint(job).shards["00"].snapshots["frontier"])
    queues = [queue for queue in state.queues if queue.overflow is not None]
    return max(queues, key=lambda queue: queue.overflow.overflow)


def in_a_queue(job):
    """A file of a host's queue, and an offset in its last record, which has 16 URLs."""
    queue = _longest(job)
    path = overflow_path(job / SHARD / "frontier/back", queue.number)
    return segment_file(path, queue.overflow.tail_segment), queue.overflow.tail_offset - 40


def meaning(job):
    """All that the crawl would take from the job's files, read as its own readers read them."""
    checkpoint = read_checkpoint(job)
    own, shard = checkpoint.own, checkpoint.shards["00"]
    with open_view(job, [job]) as whole:
        (view,) = whole.shards
        done = view.frontier.finished_keys()
        entries = [(found.queue.where, found.entry) for found in view.frontier.entries(done)]
        told = {
            "spider": {**own.facts, **shard.facts},
            "trusted": own.trusted and shard.trusted,
            "snapshots": {**own.snapshots, **shard.snapshots},
            "entries": entries,
            "left": done.to_bytes(),
            "hosts": dict(view.frontier.hosts()),
            "rests": {host: view.frontier.times(host) for host, _ in view.frontier.hosts()},
            "undecided": list(view.seen.undecided_entries()),
            "tables": [bytes(view.table(name)._fingerprints) for name in ("ranks", "domains")],
            "records": rows_of(job),
        }
    for part in ("seen", "content"):
        runs = msgspec.msgpack.decode(shard.snapshots[part])[2]
        told[part] = [_words(job / SHARD / part, *run) for run in runs]
    return told


def _words(path, number, count):
    run = Run.open(run_path(path, number), count=count)
    try:
        return b"".join(chunk.tobytes() for chunk in run.chunks(blocks=64))
    finally:
        run.close()


def rows_of(job):
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


def forge(manifest, *, has_checksum=False, **changed):
    """Change values in the file *manifest*. Remove its checksum, or keep the old, wrong one."""
    text = json.loads(manifest.read_text("utf-8")) | changed
    if not has_checksum:
        del text["crc32"]
    manifest.write_text(json.dumps(text))
