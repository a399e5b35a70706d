"""Reader of the job directories of one crawl for the report.

A crawl is one job directory, or those of the drones of a hive on one machine (``JOBDIR/drones/N``).
Unreadable files are left out, and damage of logs is reported. Only a directory without any crawl is
an error.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from contextlib import suppress
from heapq import merge
from itertools import compress, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from webcrawl.clock import now
from webcrawl.configuration.decoding import UndecodableError, json_lines_decoder
from webcrawl.crawl.figures.counts import with_prefix
from webcrawl.crawl.figures.summary import finished
from webcrawl.crawl.job.control_journal import JOURNAL, damaged_lines, last_changes
from webcrawl.crawl.job.totals import CUT_OFF, PREFIX
from webcrawl.crawl.lease.outcome_log import INFO_LOG
from webcrawl.errors import FatalError
from webcrawl.hive.launch.crawl_stats import merged, shard_counts, stats_of
from webcrawl.jobs.inspect.examination import Examination, doctor_lines, examinations
from webcrawl.jobs.inspect.info_log import BEGINNING, end_of, pieces
from webcrawl.jobs.inspect.job_view import running
from webcrawl.jobs.report.checkpoint_facts import CheckpointFacts, read_facts
from webcrawl.jobs.report.host_totals import HostTotals
from webcrawl.jobs.report.log_totals import LogTotals, Timeline
from webcrawl.net.outcomes import is_document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from scrapy.settings import BaseSettings

    from webcrawl.crawl.job.control_journal import Change
    from webcrawl.jobs.report.host_totals import Servers

#: Values taken from each line of the doctor.
GAUGES = ("waiting", "parked", "workers busy", "hosts ready", "hosts resting")
# Number of lines read from the end of other logs of a job.
_LAST = 20


class CriticalError(msgspec.Struct, frozen=True):
    """Fields of a line of logs/critical.jsonl that the report reads."""

    url: str = ""
    where: str = ""
    error: str = ""
    message: str = ""


_errors = json_lines_decoder(CriticalError)


class Crawl(NamedTuple):
    """Everything from which the report is made.

    drones: their number, 0 if it is not a hive.
    stats: of the whole crawl, without ``crawl/``, as last written.
    outcomes: each URL counts once, while the *log* may have more lines after a crash.
    damage: why the rest of a log could not be read.
    gauges: mean values of the doctors' lines, with the start of each interval.
    facts: those of the last checkpoint.
    errors: the last errors of modules.
    commands: the last ones to the crawl, or to the first drone.
    """

    path: Path
    state: str
    drones: int
    stats: dict[str, Any]
    outcomes: Mapping[str, int]
    log: LogTotals
    servers: Servers
    damage: list[str]
    processes: list[Examination]
    gauges: tuple[list[int], dict[str, list[int]]]
    facts: CheckpointFacts | None
    errors: list[CriticalError]
    commands: list[Change]

    @property
    def pages(self) -> int:
        """URLs that gave a document."""
        return sum(n for name, n in self.outcomes.items() if is_document(name))

    @property
    def urls(self) -> int:
        """URLs that are finished."""
        return sum(self.outcomes.values())

    @property
    def secs(self) -> float:
        """Running time of all runs together as of the stats; 0 if it is not known.

        It is not known without stats, or after a kill, when the last minute was not counted.
        """
        return 0.0 if self.stats.get(CUT_OFF) else float(self.stats.get("elapsed_time_seconds", 0))

    def counts(self, prefix: str) -> dict[str, int]:
        """Return the stats that begin with *prefix*, without it; zeros are left out."""
        return with_prefix(prefix, self.stats)


class CrawlReader:
    """Reader of the crawl in *path*, with *settings* and those given to the crawl.

    It continues in the logs of finished URLs, so it can be used repeatedly, in a single thread. All
    methods raise sqlite3.Error if there is no room for a temporary file.
    """

    def __init__(self, path: Path, jobdirs: Sequence[Path], settings: BaseSettings) -> None:
        self.jobdirs = jobdirs
        self._path = path
        self._settings = settings
        self._hosts = HostTotals()
        self._log = LogTotals(hosts=self._hosts)
        self._damage: list[str] = []
        self._ends = dict.fromkeys(jobdirs, BEGINNING)
        self._lines = self._new_lines()

    def close(self) -> None:
        self._hosts.close()

    def add(self, on_progress: Callable[[int], object], *, until: float = math.inf) -> bool:
        """Read new lines until *until* of the monotonic clock; return whether that is all of them.

        *on_progress* is called with the number of bytes read.
        """
        count = 0
        for lines in self._lines:
            self._log.add(lines)
            count += len(lines)
            on_progress(count)
            if now() > until:
                return False
        self._lines = self._new_lines()
        return True

    def _new_lines(self) -> Iterator[bytes]:
        for jobdir in self.jobdirs:
            path = jobdir / INFO_LOG
            start, self._ends[jobdir] = self._ends[jobdir], end_of(path)
            yield from pieces(path, start=start, end=self._ends[jobdir], on_damage=self._note)

    def _note(self, damage: str) -> None:
        if damage not in self._damage:
            self._damage.append(damage)

    def crawl(self) -> Crawl:
        """Return the crawl as of the lines read so far."""
        path, jobdirs, log = self._path, self.jobdirs, self._log
        servers = self._hosts.servers()
        processes: list[Examination] = []
        with suppress(FatalError):  # there is no diagnosis yet
            processes = examinations(path)
        errors: list[CriticalError] = []
        with suppress(UndecodableError):  # damaged
            errors = _errors("".join(_last_errors(jobdirs)))
        found = [stats_of(jobdir) for jobdir in jobdirs]
        stats = merged(found)
        totals = {n.removeprefix(PREFIX): v for n, v in stats.items() if n.startswith(PREFIX)}
        present = _present(processes) if running(jobdirs) else {}
        own = {name: value for name, value in stats.items() if not name.startswith(PREFIX)}
        return Crawl(
            path=path,
            state=_state(jobdirs, found, with_prefix("frontier/parked/", stats)),
            drones=len(jobdirs) if jobdirs[0] != path else 0,
            stats=own | totals | present,
            outcomes=with_prefix("outcome/", shard_counts(jobdirs)) or log.outcomes,
            log=log,
            servers=servers,
            damage=[
                *self._damage,
                *(f"{one / JOURNAL}, {what}" for one in jobdirs for what in damaged_lines(one)),
            ],
            processes=processes,
            gauges=_gauges(jobdirs),
            facts=read_facts(path, self._settings, hosts=[host for host, *_ in servers.largest]),
            errors=errors,
            commands=last_changes(jobdirs[0], _LAST),
        )


def _present(processes: Sequence[Examination]) -> dict[str, int]:
    """Return the stats for which the doctors of *processes* have newer values than the files.

    Waiting URLs in the eliminator are counted as the frontier's.
    """
    found: Counter[str] = Counter()
    for record in (one.record for one in processes):
        found["frontier/waiting"] += record.waiting
        found["frontier/leased"] += record.in_process
        found["frontier/due"] += record.due
        found["frontier/hosts/ready"] += record.ready
        found["frontier/hosts/snoozed"] += record.resting
        found.update({f"frontier/parked/{gate}": n for gate, n in record.parked.items()})
    return {**found, "seen/waiting": 0} if processes else {}


def _gauges(jobdirs: Sequence[Path]) -> tuple[list[int], dict[str, list[int]]]:
    timeline = Timeline(columns=1 + len(GAUGES))
    for at, values in _rounds(jobdirs):
        row = timeline.row(at)
        row[:] = map(sum, zip(row, (1, *values), strict=True))
    counts = timeline.sums(0)
    means = {
        name: [one // n for one, n in zip(timeline.sums(at), counts, strict=True) if n]
        for at, name in enumerate(GAUGES, start=1)
    }
    return [*compress(timeline.edges, counts)], means


def _rounds(jobdirs: Sequence[Path]) -> Iterator[tuple[float, list[int]]]:
    """Yield the sums of the gauges of all processes, one for each round.

    A round ends when a process that is already in it writes its next line.
    """
    in_round: dict[int, list[int]] = {}
    at = 0.0
    named = [zip(doctor_lines(one), repeat(n)) for n, one in enumerate(jobdirs)]
    for line, name in merge(*named, key=lambda one: one[0].at):
        record = line.doctor
        assert record is not None
        if name in in_round:
            yield at, [*map(sum, zip(*in_round.values(), strict=True))]
            in_round.clear()
        at, parked = line.at, sum(record.parked.values())
        in_round[name] = [record.waiting, parked, record.busy, record.ready, record.resting]
    if in_round:
        yield at, [*map(sum, zip(*in_round.values(), strict=True))]


def _last_errors(jobdirs: Sequence[Path]) -> list[str]:
    """Return the last lines of the error logs."""
    found: deque[str] = deque(maxlen=_LAST)
    for path in (jobdir / "logs/critical.jsonl" for jobdir in jobdirs):
        with suppress(FileNotFoundError), path.open(encoding="utf-8", errors="replace") as lines:
            found.extend(line for line in lines if line.endswith("\n"))
    return [*found]


def _state(
    jobdirs: Sequence[Path], stats: Sequence[Mapping[str, Any]], held: Mapping[str, int]
) -> str:
    """Return whether the crawl is running, or how it ended, from the *stats* of each process.

    *held* are the numbers of URLs held back, by reason.
    """
    reasons = {one.get("finish_reason") for one in stats}
    if running(jobdirs):
        return "running"
    if None in reasons:
        return "killed (can be resumed)"
    if reasons == {"finished"}:
        return finished(held)
    return "stopped (can be resumed)"
