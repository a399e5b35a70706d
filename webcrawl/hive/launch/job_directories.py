"""Job directories of a crawl on one machine: that of a single process, or those of a hive's drones.

When a drone loses a shard to another drone, the shard's files stay in its directory as they were.
Readers skip them: of all directories with a shard, the one with the newest token belongs to its
holder. If the other drone is on another machine, the loss only shows in the drone's own next
checkpoint, which lacks the shard.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from webcrawl.crawl.job.state_directory import DRONES, SHARDS, read_state, shard_names, shard_path
from webcrawl.errors import FatalError
from webcrawl.hive.store.checkpoint_files import RECORD, LocalRecord

# Any of these files shows that a directory is a job directory.
_JOB_FILES = ("CURRENT", SHARDS, "logs/info*.jsonl*")


def is_crawl(path: Path) -> bool:
    """Return whether *path* is the job directory of a crawl, or the directory of a local hive."""
    is_directory = os.path.isdir(path)  # noqa: PTH112  # a path's method raises for a long name
    return is_directory and (_is_job(path) or is_hive(path))


def is_hive(path: Path) -> bool:
    """Return whether *path* is the directory of a hive on this machine."""
    return any(map(_is_job, path.glob(f"{DRONES}/*/")))


def is_of_hive(path: Path) -> bool:
    """Return whether *path* is the directory of a hive, or of one of its drones."""
    is_drone = path.absolute().parent.name == DRONES or any(path.glob(f"{SHARDS}/*/{RECORD}"))
    return is_drone or is_hive(path)


def _is_job(path: Path) -> bool:
    """Return whether *path* is a job directory."""
    return any(any(path.glob(pattern)) for pattern in _JOB_FILES)


def jobdirs_of(path: Path) -> list[Path]:
    """Return the job directories of the crawl in *path*. FatalError if *path* has no crawl."""
    drones = sorted(path.glob(f"{DRONES}/*/"), key=lambda path: (len(path.name), path.name))
    jobdirs = [jobdir for jobdir in drones or [path] if _is_job(jobdir)]
    if not jobdirs:
        raise FatalError(f"There is no crawl in JOBDIR {path}: name another directory.")
    return jobdirs


def lost_shards(jobdirs: Sequence[Path]) -> dict[Path, set[str]]:
    """Return, for each of *jobdirs*, the names of its shards that another drone has taken over.

    *jobdirs* are of one crawl. If they are in a hive's directory, all other drones there are
    compared, too. Raises the same exceptions as ``read_state``.
    """
    parent = jobdirs[0].parent
    others = parent.glob("*/") if parent.name == DRONES else ()
    tokens = {
        jobdir: {
            name: LocalRecord.read(shard_path(jobdir, name)).token for name in shard_names(jobdir)
        }
        for jobdir in {*jobdirs, *others}
    }

    newest: dict[str, int] = {}
    for tokens_by_name in tokens.values():
        for name, token in tokens_by_name.items():
            newest[name] = max(token, newest.get(name, 0))

    return {
        jobdir: {name for name, token in tokens[jobdir].items() if token < newest[name]}
        | _given_up_shards(jobdir)
        for jobdir in jobdirs
    }


def _given_up_shards(jobdir: Path) -> set[str]:
    """Return the shards in *jobdir* that were given up: a later checkpoint does not have them."""
    state = read_state(jobdir)
    if state is None or "shards" not in state.facts:
        return set()
    # A shard whose record is newer was adopted after the checkpoint, so it is not in it yet.
    checkpoint_time_ns = (jobdir / "CURRENT").stat().st_mtime_ns
    given_up = set()
    for name in {*shard_names(jobdir)}.difference(state.facts["shards"]):
        with suppress(FileNotFoundError):
            if (shard_path(jobdir, name) / RECORD).stat().st_mtime_ns < checkpoint_time_ns:
                given_up.add(name)
    return given_up
