"""Reads the stats of a crawl from its job directory, or from those of a hive's drones.

Counts of requests, outcomes, duplicates and bytes are read from the files of the shards: from the
last checkpoint, and from the log of URLs finished since. Each shard is counted once, in the
directory of the process that held it last. All other stats come from the stats file of each
process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from webcrawl.configuration.decoding import UndecodableError, json_decoder
from webcrawl.crawl.figures.summary import summary
from webcrawl.crawl.job.jobdir import read_checkpoint
from webcrawl.crawl.job.state_directory import shard_path
from webcrawl.crawl.job.totals import OF_SHARDS, PREFIX, of_older_job, sum_counts
from webcrawl.frontier.view import FrontierView
from webcrawl.hive.launch.job_directories import lost_shards
from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError

# How many times the files are read, if a checkpoint was published meanwhile.
_TRIES = 10
# The prefixes of stats of the whole crawl that are counted in the shards (``crawl/...``).
_OF_SHARDS = tuple(PREFIX + name for name in OF_SHARDS)


def hive_summary(jobdir: Path, drones: Sequence[Path]) -> str:
    """Return the summary of the hive in *jobdir*; *drones* are its drones' job directories.

    Returns "" if no drone has stats. Blocks.
    """
    stats = merge_stats(map(stats_of, drones))
    if not stats:
        return ""
    counts = shard_counts(drones)
    # The files of the shards are newer than the stats, and count each shard once.
    if counts:
        stats = {name: value for name, value in stats.items() if not name.startswith(_OF_SHARDS)}
        stats |= {PREFIX + name: number for name, number in counts.items()}
    return summary(
        stats,
        jobdir=str(jobdir),
        places={"WARC": f"{jobdir}/drones/*/warc"},
        files=f"{jobdir}/drones/*",
    )


def shard_counts(jobdirs: Sequence[Path]) -> Mapping[str, float]:
    """Return the total counts of all shards in *jobdirs*, or {} if they cannot be read. Blocks.

    They have the names of ``FrontierCounts.crawl``.
    """
    for _ in range(_TRIES):
        try:
            return _counts_on_disk(jobdirs)
        except (CorruptRecordError, NewerFormatError, KeyError, OSError):
            continue
    return {}


def _counts_on_disk(jobdirs: Sequence[Path]) -> Mapping[str, float]:
    """Read and add up the counts of all shards in *jobdirs*, without lost shards."""
    older_totals: dict[str, float] = {}
    shard_counts: list[Mapping[str, int]] = []
    for jobdir, lost_names in lost_shards(jobdirs).items():
        checkpoint = read_checkpoint(jobdir, without=lost_names)
        if checkpoint is None:
            continue
        # What jobs of earlier versions counted by themselves, before the shards did.
        older_totals = sum_counts(
            older_totals, of_older_job(checkpoint.own.snapshots.get("totals"))
        )
        for name, state in checkpoint.shards.items():
            frontier = FrontierView(
                path=shard_path(jobdir, name) / "frontier",
                snapshot=state.snapshots["frontier"],
                trust_done=state.trusted,
            )
            shard_counts.append(frontier.counts.crawl)
    return sum_counts(older_totals, *shard_counts)


def merge_stats(stats_of_drones: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the stats of drones into those of one crawl.

    Counts are added up. For times, shares and means, the result has the largest value; for strings,
    the first one. A finish reason other than "finished" takes precedence.
    """
    result: dict[str, Any] = {}
    for stats in stats_of_drones:
        for name, value in stats.items():
            if name not in result or (name == "finish_reason" and result[name] == "finished"):
                result[name] = value
            elif isinstance(value, (int, float)) and isinstance(result[name], (int, float)):
                is_sum = not name.endswith(("_secs", "_seconds", "_share", "_mean"))
                result[name] = result[name] + value if is_sum else max(result[name], value)
    return result


_decode = json_decoder(dict[str, Any])


def stats_of(jobdir: Path) -> dict[str, Any]:
    """Return the stats that were last written in *jobdir*, or {} if they cannot be read. Blocks."""
    try:
        return _decode((jobdir / "stats.json").read_bytes())
    except (OSError, UndecodableError):
        return {}
