"""Stats of a crawl from its job directory, or from those of the drones of a hive on one machine.

Counts of requests, outcomes, duplicates and bytes are read from the files of the shards: the last
checkpoint and the done log since. Each shard is counted once, from the directory of the process
that held it last. All other stats are from the stats file of each process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webcrawl.configuration.decoding import UndecodableError, json_decoder
from webcrawl.crawl.job.jobdir import read_checkpoint
from webcrawl.crawl.job.state_directory import shard_path
from webcrawl.crawl.job.totals import OF_SHARDS, PREFIX, of_older_job, summed
from webcrawl.frontier.view import FrontierView
from webcrawl.hive.launch.job_directories import lost_shards
from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

# How often the files are read again because a checkpoint was published meanwhile.
_TRIES = 10
_OF_SHARDS = tuple(PREFIX + name for name in OF_SHARDS)


def crawl_stats(jobdirs: Sequence[Path]) -> dict[str, Any]:
    """Return the stats of the crawl in *jobdirs*, or {} if there are none. Blocks.

    Counts of the whole crawl have the prefix ``crawl/``.
    """
    stats = merged(filter(None, map(stats_of, jobdirs)))
    counts = shard_counts(jobdirs)
    if counts:
        stats = {name: value for name, value in stats.items() if not name.startswith(_OF_SHARDS)}
        stats |= {PREFIX + name: number for name, number in counts.items()}
    return stats


def shard_counts(jobdirs: Sequence[Path]) -> Mapping[str, float]:
    """Return the counts of the shards in *jobdirs*, as ``Frontier.crawl_counts``. Blocks.

    Returns {} if they cannot be read.
    """
    for _ in range(_TRIES):
        try:
            return _counts_on_disk(jobdirs)
        except (CorruptRecordError, NewerFormatError, KeyError, OSError):
            continue
    return {}


def _counts_on_disk(jobdirs: Sequence[Path]) -> Mapping[str, float]:
    older: dict[str, float] = {}
    counted: list[Mapping[str, int]] = []
    for jobdir, lost in lost_shards(jobdirs).items():
        checkpoint = read_checkpoint(jobdir, without=lost)
        if checkpoint is None:
            continue
        older = summed(older, of_older_job(checkpoint.own.snapshots.get("totals")))
        for name, state in checkpoint.shards.items():
            frontier = FrontierView(
                path=shard_path(jobdir, name) / "frontier",
                snapshot=state.snapshots["frontier"],
                trust_done=state.trusted,
            )
            counted.append(frontier.crawl_counts)
    return summed(older, *counted)


def merged(found: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the stats of drones into those of one crawl.

    Counts are added. Of times, shares and means the largest is taken, of strings the first. The
    finish reason is one other than "finished" if there is any.
    """
    result: dict[str, Any] = {}
    for stats in found:
        for name, value in stats.items():
            if name not in result or (name == "finish_reason" and result[name] == "finished"):
                result[name] = value
            elif isinstance(value, (int, float)) and isinstance(result[name], (int, float)):
                is_sum = not name.endswith(("_secs", "_seconds", "_share", "_mean"))
                result[name] = result[name] + value if is_sum else max(result[name], value)
    return result


_decode = json_decoder(dict[str, Any])


def stats_of(jobdir: Path) -> dict[str, Any]:
    """Return the last written stats of *jobdir*, or {} if they cannot be read. Blocks."""
    try:
        return _decode((jobdir / "stats.json").read_bytes())
    except (OSError, UndecodableError):
        return {}
