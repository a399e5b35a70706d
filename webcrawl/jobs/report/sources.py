"""Sources of the report: the job directories of one crawl, and what each file in them tells.

A crawl is one job directory, or those of the drones of a hive on one machine (``JOBDIR/drones/N``),
which count as one. What cannot be read is left out, and of the logs it is said; only a directory
without any crawl is an error.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from webcrawl.crawl.figures.counts import Counts, behind
from webcrawl.crawl.figures.summary import finished
from webcrawl.crawl.job.totals import PREFIX
from webcrawl.crawl.lease.outcome_log import INFO_LOG
from webcrawl.hive.launch.crawl_stats import merged, shard_counts, stats_of
from webcrawl.jobs.inspect.info_log import pieces
from webcrawl.jobs.inspect.job_view import running
from webcrawl.jobs.report.host_totals import HostTotals
from webcrawl.jobs.report.log_totals import LogTotals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from webcrawl.jobs.report.host_totals import Servers


class Crawl(NamedTuple):
    """All that the report is made of.

    *drones* is 0 if it is no hive; *stats* are of the whole crawl, without ``crawl/``, as they were
    last written; *outcomes* of URLs, each of which counts once, while the *log* may have lines of
    one that was cut off; *damage* is why the rest of a log could not be read.
    """

    path: Path
    state: str
    drones: int
    stats: dict[str, Any]
    outcomes: Mapping[str, int]
    log: LogTotals
    servers: Servers
    damage: list[str]

    @property
    def pages(self) -> int:
        """URLs that gave a document."""
        return sum(n for name, n in self.outcomes.items() if name.startswith("http_2"))

    @property
    def urls(self) -> int:
        """URLs that have come to their end."""
        return sum(self.outcomes.values())

    @property
    def secs(self) -> float:
        """For how long it ran, all its runs together. The stats may be older than the rest: as much
        longer as there are more pages now. Without stats, from the first line to the last."""
        timeline, counted = self.log.timeline, Counts.of(self.stats).pages
        secs = float(self.stats.get("elapsed_time_seconds", 0))
        if not secs:
            return float(timeline.width * len(timeline.edges[1:]))
        return secs * self.pages / counted if counted else secs

    def counts(self, prefix: str) -> dict[str, int]:
        """The stats that begin with *prefix*, without it; no zeros."""
        return behind(prefix, self.stats)


def read_crawl(
    path: Path, jobdirs: Sequence[Path], *, on_progress: Callable[[int], object]
) -> Crawl:
    """Everything of the crawl in *path*; *on_progress* is called with the bytes read of the logs.
    sqlite3.Error if there is no room for a temporary file."""
    damage: list[str] = []
    count = 0
    with closing(HostTotals()) as hosts:
        log = LogTotals(hosts=hosts)
        for jobdir in jobdirs:
            for lines in pieces(jobdir / INFO_LOG, on_damage=damage.append):
                log.add(lines)
                count += len(lines)
                on_progress(count)
        servers = hosts.servers()
    found = [stats_of(jobdir) for jobdir in jobdirs]
    stats = merged(found)
    totals = {n.removeprefix(PREFIX): v for n, v in stats.items() if n.startswith(PREFIX)}
    return Crawl(
        path=path,
        state=_state(jobdirs, found, behind("frontier/parked/", stats)),
        drones=len(jobdirs) if jobdirs[0] != path else 0,
        stats={name: v for name, v in stats.items() if not name.startswith(PREFIX)} | totals,
        outcomes=behind("outcome/", shard_counts(jobdirs)) or log.outcomes,
        log=log,
        servers=servers,
        damage=damage,
    )


def _state(
    jobdirs: Sequence[Path], stats: Sequence[Mapping[str, Any]], held: Mapping[str, int]
) -> str:
    """The present activity of the crawl, or its end, by the *stats* of each process; URLs *held*
    back by reason."""
    reasons = {one.get("finish_reason") for one in stats}
    if running(jobdirs):
        return "running"
    if None in reasons:
        return "cut off, can be resumed"
    if reasons == {"finished"}:
        return finished(held)
    return "stopped, can be resumed"
