"""Sources of the report: the job directories of one crawl, and what each file in them tells.

A crawl is one job directory, or those of the drones of a hive on one machine (``JOBDIR/drones/N``),
which count as one. What cannot be read is left out; only a directory without any crawl is an error.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from webcrawl.crawl.outcome_log import INFO_LOG
from webcrawl.crawl.totals import PREFIX
from webcrawl.errors import FatalError
from webcrawl.hive.terminal import merged
from webcrawl.jobs.inspect.info_log import log_files, pieces
from webcrawl.jobs.inspect.job_view import ask, process_of
from webcrawl.jobs.inspect.overview import HostRow, overview
from webcrawl.jobs.report.log_totals import LogTotals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from webcrawl.jobs.report.timeline import Intervals

_STATS_LOG: Final = "logs/stats.jsonl"
# Moments kept of each process.
_MOST_MOMENTS: Final = 4_096
_SHOWN: Final = 10


class _Moment(
    msgspec.Struct,
    frozen=True,
    rename={"in_frontier": "frontier/waiting", "in_eliminator": "seen/waiting"},
):
    """What the report reads of a line of the stats' history."""

    at: float
    in_frontier: int = 0
    in_eliminator: int = 0


_decode_moment = msgspec.json.Decoder(_Moment).decode


class Left(NamedTuple):
    """What the crawl has left to do as of its checkpoint.

    *places* of URLs, links in the eliminator that were *submitted*, *hosts* by state, and the
    *longest* queues.
    """

    places: dict[str, int]
    submitted: int
    hosts: dict[str, int]
    longest: list[HostRow]


class Crawl(NamedTuple):
    """All that the report is made of.

    *stats* are of the whole crawl, without ``crawl/``; *waiting* is the number of URLs that wait at
    the end of each interval, if it is known. *drones* is 0 if it is no hive. *tags* and *images*
    are what the modules for them have counted, if they were on.
    """

    path: Path
    state: str
    drones: int
    stats: dict[str, Any]
    log: LogTotals
    intervals: Intervals
    waiting: list[int | None]
    left: Left | None
    tags: dict[str, int]
    images: dict[str, int]

    @property
    def secs(self) -> float:
        """For how long it ran, all its runs together."""
        return float(self.stats.get("elapsed_time_seconds", 0)) or float(self.intervals.secs)

    def counts(self, prefix: str) -> dict[str, int]:
        """The stats that begin with *prefix*, without it, the largest first; no zeros."""
        found = {
            name.removeprefix(prefix): int(value)
            for name, value in self.stats.items()
            if name.startswith(prefix) and isinstance(value, (int, float)) and int(value)
        }
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def jobdirs_of(path: Path) -> list[Path]:
    """The job directories of the crawl in *path*. FatalError if there is none."""
    drones = sorted(path.glob("drones/*/"), key=lambda one: (len(one.name), one.name))
    found = [one for one in drones or [path] if (one / "CURRENT").exists() or log_size([one])]
    if not found:
        raise FatalError(f"There is no crawl in JOBDIR {path}: name another directory.")
    return found


def log_size(jobdirs: Iterable[Path]) -> int:
    """Bytes of all logs that are going to be read."""
    size = 0
    for jobdir in jobdirs:
        for file in log_files(jobdir / INFO_LOG):
            with contextlib.suppress(OSError):
                size += file.stat().st_size
    return size


def read_crawl(
    path: Path, jobdirs: Sequence[Path], *, on_progress: Callable[[int], object]
) -> Crawl:
    """Everything of the crawl in *path*; *on_progress* is called with bytes of the logs read.
    FatalError if these cannot be read."""
    log = LogTotals()
    try:
        for jobdir in jobdirs:
            for lines in pieces(jobdir / INFO_LOG, on_progress=on_progress):
                log.add(lines)
        histories = [_history(jobdir) for jobdir in jobdirs]
    except OSError as error:
        raise FatalError(f"The crawl in {path} cannot be read: {error}.") from error
    for history in histories:
        for moment in history:
            log.timeline.row(moment.at)
    intervals = log.timeline.intervals()
    return Crawl(
        path=path,
        state=_state(jobdirs),
        drones=len(jobdirs) if jobdirs[0] != path else 0,
        stats=_of_whole_crawl([_stats(jobdir) for jobdir in jobdirs]),
        log=log,
        intervals=intervals,
        waiting=_waiting(intervals, histories),
        left=_left(jobdirs),
        tags=_counted(jobdirs, "tags"),
        images=_counted(jobdirs, "images"),
    )


def _stats(jobdir: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode((jobdir / "stats.json").read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError):
        return {}


def _of_whole_crawl(found: Iterable[dict[str, Any]]) -> dict[str, Any]:
    stats = merged(found)
    totals = {n.removeprefix(PREFIX): v for n, v in stats.items() if n.startswith(PREFIX)}
    return {name: v for name, v in stats.items() if not name.startswith(PREFIX)} | totals


def _counted(jobdirs: Iterable[Path], name: str) -> dict[str, int]:
    """The counts *name* of the statistics with that name, the largest first."""
    total: Counter[str] = Counter()
    for jobdir in jobdirs:
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            data = (jobdir / "statistics" / f"{name}.json").read_bytes()
            rows = msgspec.json.decode(data, type=dict[str, dict[str, Any]])
            total.update({row: int(counts.get(name, 0)) for row, counts in rows.items()})
    return dict(total.most_common())


def _state(jobdirs: Iterable[Path]) -> str:
    """What the crawl is doing, or how it ended."""
    if any(process_of(jobdir) is not None for jobdir in jobdirs):
        return "running"
    reasons = {_stats(jobdir).get("finish_reason") for jobdir in jobdirs}
    if None in reasons:
        return "cut off"
    return "finished" if reasons == {"finished"} else "stopped"


def _history(jobdir: Path) -> list[_Moment]:
    """The moments at which the stats were written, thinned out if they are many."""
    found: list[_Moment] = []
    step, skipped = 1, 0
    for lines in pieces(jobdir / _STATS_LOG):
        for line in lines.splitlines():
            skipped += 1
            if skipped < step:
                continue
            skipped = 0
            with contextlib.suppress(msgspec.DecodeError):
                found.append(_decode_moment(line))
            if len(found) > _MOST_MOMENTS:
                found, step = found[::2], step * 2
    return found


def _waiting(intervals: Intervals, histories: Sequence[list[_Moment]]) -> list[int | None]:
    """Of each interval the URLs that waited at its end, of all processes."""
    ends = [item.at + intervals.width for item in intervals.items]
    columns = []
    for history in histories:
        moments = iter(sorted(history, key=lambda one: one.at))
        following = next(moments, None)
        value: int | None = None
        column = []
        for end in ends:
            while following is not None and following.at < end:
                value = following.in_frontier + following.in_eliminator
                following = next(moments, None)
            column.append(value)
        columns.append(column)
    return [
        None if all(value is None for value in values) else sum(value or 0 for value in values)
        for values in zip(*columns, strict=True)
    ]


def _left(jobdirs: Iterable[Path]) -> Left | None:
    """Of all processes whose checkpoint can be read; None if none can be."""
    found = []
    for jobdir in jobdirs:
        with contextlib.suppress(FatalError):
            found.append(ask(jobdir, lambda view: overview(view, top=_SHOWN)))
    if not found:
        return None
    places: Counter[str] = Counter()
    hosts: Counter[str] = Counter()
    for one in found:
        places["front-end queues"] += sum(one.levels.values())
        places["host queues"] += one.in_host_queues
        places["being fetched"] += one.leased
        places["to be tried again"] += one.requeued
        places.update({f"parked: {reason}": count for reason, count in one.parked.items()})
        hosts.update(one.hosts)
    longest = sorted(
        (row for one in found for row in one.top), key=lambda row: (-row.waiting, row.name)
    )
    return Left(places, sum(one.submitted for one in found), hosts, longest[:_SHOWN])
