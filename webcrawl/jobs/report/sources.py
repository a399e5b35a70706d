"""Reads the job directories of one crawl for the report.

A crawl has one job directory or, for a hive, one per drone on this machine (``JOBDIR/drones/N``).
Unreadable files are left out, and damage of logs is reported. It is only an error if the directory
contains no crawl.
"""

from __future__ import annotations

import math
from collections import Counter
from contextlib import suppress
from heapq import merge
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import astuple

from webcrawl.clock import now
from webcrawl.crawl.figures.counts import Counts, with_prefix
from webcrawl.crawl.figures.summary import describe_end
from webcrawl.crawl.job.control_journal import (
    JOURNAL,
    Change,
    damaged_lines,
    in_force,
    last_changes,
    saved_host_rules,
)
from webcrawl.crawl.job.totals import CUT_OFF, PREFIX
from webcrawl.crawl.lease.outcome_log import INFO_LOG, OutcomeLine
from webcrawl.doctor.history import DAY, SECONDS, Series, read_series
from webcrawl.errors import FatalError
from webcrawl.hive.launch.crawl_stats import merge_stats, shard_counts, stats_of
from webcrawl.jobs.inspect.aliases import AliasRow, alias_rows
from webcrawl.jobs.inspect.examination import Examination, examinations
from webcrawl.jobs.inspect.info_log import BEGINNING, end_of, line_chunks, outcome_lines
from webcrawl.jobs.inspect.job_view import ask, live_manifests, running
from webcrawl.jobs.inspect.overview import host_rows, mean_visit, parked_hosts
from webcrawl.jobs.report.log_totals import LogTotals
from webcrawl.jobs.report.over_time import beginning_of
from webcrawl.jobs.report.runs import runs_of
from webcrawl.jobs.report.totals_file import TotalsFile
from webcrawl.pipelines.warc.payloads import FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from scrapy.settings import BaseSettings

    from webcrawl.jobs.inspect.job_view import JobView

_MAX_ALIASES = 50
# The hosts of so many parked URLs are counted, in a second.
_MAX_PARKED = 300_000
# Number of commands that are shown.
_MAX_COMMANDS = 20


class Crawl(NamedTuple):
    """All data from which the report about a crawl is made.

    path: directory of the crawl.
    jobdirs: its job directories.
    state: whether the crawl is running, or how it ended, in words.
    drones: number of drones, 0 if it is not a hive.
    stats: stats of the whole crawl, as last written, without the prefix ``crawl/``.
    totals: outcomes, visits, duplicates and bytes received, as the shards count them, by the names
        of the stats. Each URL counts once, while *log* may have several lines of it after a crash.
    results: numbers of URLs and visits, added up from *totals*.
    log: totals of the logs of finished URLs.
    file: totals by host, content type and seed. It can be read until the reader is closed.
    damage: for each log that could not be read to its end, the reason.
    processes: diagnoses of the crawl's processes.
    aliases: the hosts whose site is crawled under another name, as of the last checkpoint.
    visited_at: when URLs with a next visit were last visited, on average; 0 if there are none.
    commands: the last commands to the crawl, or to the first drone.
    in_force: the commands to the crawl that are in force.
    span: when the crawl began, and when the last URL was finished; [] if none was.
    history: numbers by day, if they say more than the stats: while the crawl runs and after a kill.
        None if they do not begin with the crawl.
    """

    path: Path
    jobdirs: Sequence[Path]
    state: str
    drones: int
    stats: dict[str, Any]
    totals: Mapping[str, float]
    results: Counts
    log: LogTotals
    file: TotalsFile
    damage: list[str]
    processes: list[Examination]
    aliases: list[AliasRow]
    visited_at: float
    commands: list[Change]
    in_force: list[Change]
    span: list[float]
    history: Series | None

    @property
    def duplicates(self) -> int:
        """Number of pages whose bytes had been seen under another URL."""
        return int(self.totals.get("content/duplicates", 0))

    @property
    def received(self) -> int:
        """Number of bytes in the bodies of all answers, without robots.txt."""
        return int(self.totals.get("fetch/bytes", 0))

    @property
    def hosts(self) -> int:
        """Number of hosts that were contacted.

        For a crawl that has ended, it is that of the summary. Otherwise it is the larger of two:
        the log lacks hosts that were only asked for robots.txt, and the stats are older, or lack
        hosts contacted before a kill.
        """
        contacted = int(self.stats.get("hosts/contacted", 0))
        if contacted and self.stats.get("finish_reason") and not self.stats.get(CUT_OFF):
            return contacted
        ((number,),) = self.file.select("SELECT count(*) FROM hosts WHERE fetches")
        return max(int(number), contacted)

    @property
    def secs(self) -> float:
        """Running time of all runs in seconds; 0 if it is not known.

        The stats do not know it after a kill: then the last minute of a run was not counted.
        """
        if self.history:
            return self.history.total(SECONDS)
        return 0.0 if self.stats.get(CUT_OFF) else float(self.stats.get("elapsed_time_seconds", 0))

    def counts(self, prefix: str) -> dict[str, int]:
        """Return the stats that begin with *prefix*, by the rest of their names, without zeros."""
        return with_prefix(prefix, self.stats)


class CrawlReader:
    """Reads the crawl in *path*, whose job directories are *jobdirs*.

    *settings* name the files with rules for hosts.
    The reader remembers its position in the logs of finished URLs, so it can be used repeatedly, in
    a single thread. All methods raise sqlite3.Error if there is no room for a temporary file.
    """

    def __init__(self, path: Path, jobdirs: Sequence[Path], settings: BaseSettings) -> None:
        self.jobdirs = jobdirs
        self._settings = settings
        self._path = path
        # Times between requests are those of the last run, without the time before it.
        runs = [runs for jobdir in jobdirs if (runs := runs_of(jobdir))]
        self.file = TotalsFile(run_began_at=min((one[-1].start for one in runs), default=0.0))
        self._began_at = min((one[0].start for one in runs), default=math.inf)
        self._log = LogTotals(file=self.file)
        self._damage: list[str] = []
        # The checkpoint from which queues and aliases were read, and the commands in force.
        self._manifests: list[bytes] = []
        self._changes: list[Change] = []
        self._aliases: list[AliasRow] = []
        self._visited_at = 0.0
        # Up to where ``_new_lines`` reads each log, or has read it.
        self._ends = dict.fromkeys(jobdirs, BEGINNING)
        self._lines = self._new_lines()  # ``add`` continues with it

    def close(self) -> None:
        """Delete the temporary file."""
        self.file.close()

    def add(self, on_progress: Callable[[int], object], *, until: float = math.inf) -> bool:
        """Read new lines of the logs; return whether all of them were read.

        Reading stops when the monotonic clock shows *until*. *on_progress* is called with the
        number of bytes read.
        """
        count = 0
        # If the time is up, the next call continues with the same lines.
        for lines in self._lines:
            self._log.add(lines)
            count += len(lines)
            on_progress(count)
            if now() > until:
                return False
        self._lines = self._new_lines()
        return True

    def lines_by_time(
        self, on_progress: Callable[[int], object]
    ) -> Iterator[tuple[OutcomeLine, int, str]]:
        """Yield again the lines that have been read so far, in the order of time.

        With each come the number of its process and the digest of its document, as in WARC files,
        or "-". Lines that cannot be read are left out. *on_progress* is called with the number of
        lines.
        """
        for jobdir in self.jobdirs:
            self.file.add_digests(jobdir.absolute() / "warc" / FILE)
        logs = [
            zip(
                outcome_lines(job, end=self._ends[job], on_damage=self._add_damage),
                repeat(number),
            )
            for number, job in enumerate(self.jobdirs)
        ]
        by_time = merge(*logs, key=lambda pair: pair[0].at)
        for count, (line, process_number) in enumerate(by_time, start=1):
            on_progress(count)
            yield line, process_number, self.file.digest(line.url, line.sent)

    def _new_lines(self) -> Iterator[bytes]:
        """Yield the lines added to the logs since the last call, in large chunks."""
        for jobdir in self.jobdirs:
            path = jobdir / INFO_LOG
            start = self._ends[jobdir]
            self._ends[jobdir] = end_of(path)
            yield from line_chunks(
                path, start=start, end=self._ends[jobdir], on_damage=self._add_damage
            )

    def _add_damage(self, damage: str) -> None:
        if damage not in self._damage:
            self._damage.append(damage)

    def crawl(self) -> Crawl:
        """Return the data of the crawl, with the log lines that have been read so far."""
        path = self._path
        jobdirs = self.jobdirs
        log = self._log
        processes: list[Examination] = []
        with suppress(FatalError):  # raised if there is no diagnosis yet
            processes = examinations(path)
        tails = [tail for process in processes if (tail := process.record.tail)]
        self.file.replace_paces((tail.host, tail.secs / tail.urls) for tail in tails)
        manifests = live_manifests(jobdirs)
        self._read_rules(is_new=manifests != self._manifests)
        if manifests != self._manifests:  # there is a new checkpoint
            self._manifests = manifests
            with suppress(FatalError):  # raised if no checkpoint can be read
                ask(path, self._read_queues)
                self._aliases = ask(path, lambda view: alias_rows(view.shards)[:_MAX_ALIASES])

        process_stats = [stats_of(jobdir) for jobdir in jobdirs]
        stats = merge_stats(process_stats)
        # Stats with the prefix are of all runs, the others of the last run.
        totals = {
            name.removeprefix(PREFIX): value
            for name, value in stats.items()
            if name.startswith(PREFIX)
        }
        # Without a checkpoint, the log is all there is.
        totals_of_shards = shard_counts(jobdirs) or log.counts
        # While the crawl runs, its doctors know some numbers better than the saved stats.
        present = _present_stats(processes) if running(jobdirs) else {}
        last_run = {name: value for name, value in stats.items() if not name.startswith(PREFIX)}

        return Crawl(
            path=path,
            jobdirs=jobdirs,
            state=_state(jobdirs, process_stats, with_prefix("frontier/parked/", stats)),
            drones=len(jobdirs) if jobdirs[0] != path else 0,
            stats=last_run | totals | present,
            totals=totals_of_shards,
            results=Counts.of(totals_of_shards),
            log=log,
            file=self.file,
            damage=[
                *self._damage,
                *(
                    f"{jobdir / JOURNAL}, {line}"
                    for jobdir in jobdirs
                    for line in damaged_lines(jobdir)
                ),
            ],
            processes=processes,
            aliases=self._aliases,
            visited_at=self._visited_at,
            commands=last_changes(jobdirs[0], _MAX_COMMANDS),
            in_force=self._changes,
            span=[min(self._began_at, log.span[0]), log.span[1]] if log.span else [],
            history=self._history() if running(jobdirs) or stats.get(CUT_OFF) else None,
        )

    def _history(self) -> Series | None:
        """Return the history by day; None if it began after the crawl, with a later version."""
        begin = beginning_of(self.jobdirs)
        is_whole = bool(begin and self._log.span) and begin <= self._log.span[0]
        return read_series(self.jobdirs, DAY) if is_whole else None

    def _read_rules(self, *, is_new: bool) -> None:
        """Read the commands in force; if they or *is_new* say so, also which hosts are excluded."""
        changes_before = self._changes
        with suppress(FatalError):  # raised for a file that cannot be used
            self._changes = in_force(self.jobdirs)
            if is_new or self._changes != changes_before:
                rules = saved_host_rules(self._settings, self.jobdirs[0], self._changes)
                self.file.set_exclusions(lambda host: rules.exclusion_of(host) is not None)

    def _read_queues(self, view: JobView) -> None:
        """Read the queues of hosts and the parked URLs in *view* into the temporary file."""
        self.file.replace_queues(map(astuple, host_rows(view)), at=view.own.written_at)
        self.file.replace_parked(parked_hosts(view, most=_MAX_PARKED))
        self._visited_at = mean_visit(view)


def _present_stats(processes: Sequence[Examination]) -> dict[str, int]:
    """Return the stats of *processes* that their doctors know better than the stats files.

    URLs that wait in the eliminator are counted as waiting in the frontier.
    """
    stats: Counter[str] = Counter()
    for record in (process.record for process in processes):
        stats["frontier/waiting"] += record.waiting
        stats.update({f"frontier/parked/{gate}": n for gate, n in record.parked.items()})
    return {**stats, "seen/waiting": 0} if processes else {}


def _state(
    jobdirs: Sequence[Path], stats: Sequence[Mapping[str, Any]], held: Mapping[str, int]
) -> str:
    """Say whether the crawl is running, or how it ended.

    *stats* are those of each process, and *held* has the numbers of parked URLs, by reason.
    """
    reasons = {process_stats.get("finish_reason") for process_stats in stats}
    if running(jobdirs):
        return "running"
    if None in reasons:  # a process that is killed cannot write its reason
        return "killed (can be resumed)"
    if reasons == {"finished"}:
        return describe_end(held)
    return "stopped (can be resumed)"
