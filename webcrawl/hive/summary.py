"""Summary of a hive on one machine, from the stats of its drones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from webcrawl.crawl.summary import summary

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


def hive_summary(jobdir: Path, drones: Iterable[Path]) -> str:
    """The summary of the hive in *jobdir* from the job directories of its *drones*; "" if none has
    stats. Blocks."""
    found = [stats for path in drones if (stats := _stats_of(path))]
    if not found:
        return ""
    return summary(
        merged(found),
        jobdir=str(jobdir),
        warc_dir=f"{jobdir}/drones/*/warc",
        stats_file=f"{jobdir}/drones/*/stats.json",
    )


def merged(found: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The stats of drones as those of one crawl: counts are sums, of times the longest is taken,
    and of words the first; as the reason of the end, one other than that all is done."""
    result: dict[str, Any] = {}
    for stats in found:
        for name, value in stats.items():
            if name not in result or (name == "finish_reason" and result[name] == "finished"):
                result[name] = value
            elif isinstance(value, (int, float)) and isinstance(result[name], (int, float)):
                is_time = name.endswith(("_secs", "_seconds"))
                result[name] = max(result[name], value) if is_time else result[name] + value
    return result


def _stats_of(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode((path / "stats.json").read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError):
        return {}
