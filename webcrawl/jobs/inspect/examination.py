"""Examines a crawl from its recorded diagnoses, for ``scrapy doctor``.

For a running crawl the last record is used, and its age is shown. For a crawl that has ended, all
records are used.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from webcrawl.configuration.decoding import UndecodableError
from webcrawl.crawl.figures.counts import elapsed
from webcrawl.crawl.figures.summary import finished, parked
from webcrawl.crawl.job.control_journal import in_force
from webcrawl.crawl.job.totals import PREFIX
from webcrawl.doctor.diagnosis import Cause, Diagnosis, shares_of
from webcrawl.doctor.record import Line, Record, decode_line
from webcrawl.doctor.states import CrawlState, State
from webcrawl.errors import FatalError
from webcrawl.hive.launch.crawl_stats import stats_of
from webcrawl.hive.launch.job_directories import jobdirs_of
from webcrawl.jobs.inspect.info_log import line_chunks
from webcrawl.jobs.inspect.job_view import running
from webcrawl.jobs.inspect.why_text import moment
from webcrawl.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_BUSY = 0.9
# The doctor's lines contain this text among their first _PREFIX_LENGTH bytes.
_MARK = b'"doctor":'
_PREFIX_LENGTH = 48


class Examination(msgspec.Struct, frozen=True):
    """Diagnosis of one process of a crawl, such as a drone.

    name: the name of the drone, or "".
    state: the state of the crawl.
    at: the time of the last record, epoch seconds.
    record: the last record.
    diagnosis: what limits the crawl, or what limited it longest if it has ended.
    shares: each cause's share of the running time, in words.
    secs: the running time in seconds.
    busy: the largest number of workers that had a request at the same time.
    changes: effects of control commands that are still in force.
    """

    name: str
    state: State
    at: float
    record: Record
    diagnosis: Diagnosis
    shares: str
    secs: float
    busy: int
    changes: list[str] = []


def examinations(path: Path) -> list[Examination]:
    """Examine each process of the crawl in *path*.

    Raises FatalError if there is no crawl, or no diagnosis yet.
    """
    results = [result for jobdir in jobdirs_of(path) if (result := _examine(path, jobdir))]
    if not results:
        raise FatalError(
            f"There is no diagnosis of {path} yet. A crawl of this version writes one every "
            "STATISTICS_INTERVAL_SECS."
        )
    return results


def _examine(path: Path, jobdir: Path) -> Examination | None:
    """Examine the process of *jobdir*, which is *path* or a drone of it; None without records."""
    last, busy = Line(0.0), 0
    by_cause: dict[Cause, Diagnosis] = {}
    for line in doctor_lines(jobdir):
        assert line.doctor is not None
        last, busy = line, max(busy, line.doctor.busy)
        by_cause[line.doctor.diagnosis.cause] = line.doctor.diagnosis
    if last.doctor is None:
        return None

    stats = stats_of(jobdir)
    record, state = last.doctor, last.doctor.state
    diagnosis = record.diagnosis
    if not running([jobdir]):
        reason = stats.get("finish_reason", "")
        is_finished = reason == "finished"
        state = State(CrawlState.STOPPED, reason or "killed; it can be resumed")
        if is_finished:
            details = finished(record.parked).removeprefix("finished")
            state = State(CrawlState.FINISHED, details.lstrip(":; "))
        main_cause = max(by_cause, key=lambda cause: stats.get(f"{PREFIX}doctor/{cause}_secs", 0.0))
        diagnosis = by_cause[main_cause]

    return Examination(
        name="" if jobdir == path else f"drone {jobdir.name}",
        state=state,
        at=last.at,
        record=record,
        diagnosis=diagnosis,
        shares=shares_of(stats, PREFIX),
        secs=float(stats.get(f"{PREFIX}elapsed_time_seconds", 0.0)),
        busy=busy,
        changes=[change.as_sentence for change in in_force([jobdir])],
    )


def doctor_lines(jobdir: Path) -> Iterator[Line]:
    """Yield the recorded diagnoses of *jobdir*, the oldest first; damaged lines are skipped."""
    for lines in line_chunks(jobdir / "logs" / "stats.jsonl", on_damage=lambda _: None):
        for line in lines.splitlines():
            if _MARK in line[:_PREFIX_LENGTH]:
                with suppress(UndecodableError):
                    yield decode_line(line)


def examination_text(examination: Examination, *, now: float) -> str:
    """Format *examination* as lines of text; *now* is in epoch seconds."""
    record, diagnosis = examination.record, examination.diagnosis
    rows = [("state", examination.state.in_words(moment(examination.state.until, now)))]
    has_finished = examination.state.name == CrawlState.FINISHED
    has_ended = has_finished or examination.state.name == CrawlState.STOPPED
    if not has_finished:  # the last record is older than the end of the crawl
        rows.append(("limited by", str(diagnosis)))
    if examination.shares:
        rows.append(("time", f"{examination.shares} of {elapsed(examination.secs)}"))
    rows.append(("workers", _workers(examination.busy, record.workers)))
    if not has_ended:
        hosts = f"{record.ready:,} ready, {record.resting:,} resting"
        rows.append(("hosts", f"{hosts}; {record.in_process:,} requests and pages in process"))
    due = f", {record.due:,} for their next visit" if record.due else ""
    if not has_finished:
        rows.append(("waiting", counted(record.waiting, "URL") + due))
    rows += [("parked", line) for line in parked(record.parked, has_finished=has_finished)]
    if record.projection and not has_finished:
        rows.append(("projected", record.projection))
    rows += [("control", change) for change in examination.changes]
    if any(state != "running" for state in record.shards):
        shards = ", ".join(f"{number:,} {state}" for state, number in record.shards.items())
        rows.append(("shards", shards))
    rows.append(("as of", moment(examination.at, now)))
    heading = f"{examination.name}\n" if examination.name else ""
    return heading + "".join(f"{name:>11}  {value}\n" for name, value in rows)


def _workers(busy: int, workers: int) -> str:
    """Say how many workers were *busy* at most, and how many would be enough."""
    if busy >= _BUSY * workers:
        return f"all {workers:,} were busy"
    return f"at most {busy:,} of {workers:,} were busy, so {busy:,} would be enough"
