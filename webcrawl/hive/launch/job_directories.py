"""Job directories of a crawl on one machine: that of one process, or those of a hive's drones.

A shard that a drone has lost to another one stays in its directory as it was. Readers skip it: of
all directories with a shard, the one with the newest token belongs to its holder. If drones are on
other machines, only a drone's own later checkpoint shows that it has lost a shard.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from webcrawl.crawl.job.state_directory import SHARDS, read_state, shard_names, shard_path
from webcrawl.errors import FatalError
from webcrawl.hive.membership.report import DRONES
from webcrawl.hive.store.checkpoint_files import RECORD, LocalRecord

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# Any of these files shows that a directory is a job directory.
_MARKS = ("CURRENT", SHARDS, "logs/info*.jsonl*")


def is_crawl(path: Path) -> bool:
    """Return whether *path* is the directory of a job, or of a hive on this machine."""
    is_there = os.path.isdir(path)  # noqa: PTH112  # a path's method raises for a long name
    return is_there and (_is_job(path) or is_hive(path))


def is_hive(path: Path) -> bool:
    """Return whether *path* is the directory of a hive on this machine."""
    return any(map(_is_job, path.glob(f"{DRONES}/*/")))


def is_of_hive(path: Path) -> bool:
    """Return whether *path* is the directory of a hive, or of one of its drones."""
    is_drone = path.absolute().parent.name == DRONES or any(path.glob(f"{SHARDS}/*/{RECORD}"))
    return is_drone or is_hive(path)


def _is_job(path: Path) -> bool:
    return any(any(path.glob(mark)) for mark in _MARKS)


def jobdirs_of(path: Path) -> list[Path]:
    """Return the job directories of the crawl in *path*. FatalError if there is no crawl."""
    drones = sorted(path.glob(f"{DRONES}/*/"), key=lambda path: (len(path.name), path.name))
    found = [jobdir for jobdir in drones or [path] if _is_job(jobdir)]
    if not found:
        raise FatalError(f"There is no crawl in JOBDIR {path}: name another directory.")
    return found


def lost_shards(jobdirs: Sequence[Path]) -> dict[Path, set[str]]:
    """Return for each of *jobdirs* the names of shards that another drone has taken over.

    For a single drone, the drones next to it count, too. Raises as ``read_state``.
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
    for found in tokens.values():
        for name, token in found.items():
            newest[name] = max(token, newest.get(name, 0))
    return {
        jobdir: {name for name, token in tokens[jobdir].items() if token < newest[name]}
        | _given_up(jobdir)
        for jobdir in jobdirs
    }


def _given_up(jobdir: Path) -> set[str]:
    """Return the shards in *jobdir* that its last checkpoint lacks although it is newer."""
    own = read_state(jobdir)
    if own is None or "shards" not in own.facts:
        return set()
    made_at = (jobdir / "CURRENT").stat().st_mtime_ns
    gone = set()
    for name in {*shard_names(jobdir)}.difference(own.facts["shards"]):
        with suppress(FileNotFoundError):
            if (shard_path(jobdir, name) / RECORD).stat().st_mtime_ns < made_at:
                gone.add(name)
    return gone
