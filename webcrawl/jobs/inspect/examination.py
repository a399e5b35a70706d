"""Examines a crawl from its recorded diagnoses, for ``scrapy why``.

The last record is used, and its age is shown. For a crawl that has ended, its stats say for which
share of the time each cause limited it.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from webcrawl.configuration.decoding import UndecodableError
from webcrawl.crawl.figures.counts import format_elapsed, shares_of
from webcrawl.crawl.figures.summary import describe_end, parked_lines
from webcrawl.crawl.job.control_journal import in_force
from webcrawl.crawl.job.totals import PREFIX
from webcrawl.doctor.history import TEN_SECS, read_series
from webcrawl.doctor.record import Line, Record, decode_line
from webcrawl.errors import FatalError
from webcrawl.hive.launch.crawl_stats import stats_of
from webcrawl.hive.launch.job_directories import jobdirs_of
from webcrawl.jobs.inspect.info_log import Position, end_of, line_chunks
from webcrawl.jobs.inspect.job_view import running
from webcrawl.jobs.inspect.why_text import estimated_moment, moment
from webcrawl.states import CrawlState, State
from webcrawl.wording import counted, span

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from webcrawl.doctor.diagnosis import Diagnosis

# So much of the end of the log is read, in which the last record is.
_READ_BYTES = 1 << 18
# The doctor's lines contain this text among their first _PREFIX_LENGTH bytes.
_MARK = b'"doctor":'
_PREFIX_LENGTH = 48


class Examination(msgspec.Struct, frozen=True):
    """Diagnosis of one process of a crawl, such as a drone.

    name: the name of the drone, or "".
    state: the state of the crawl.
    at: the time of the last record, epoch seconds.
    record: the last record.
    diagnosis: what limits the crawl, or limited it at the end.
    shares: each cause's share of the running time, in words.
    secs: the running time in seconds.
    busy: the largest number of workers that had a request at the same time in the last hour of its
        last run.
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
    last = Line(0.0)  # until there is one
    for line in doctor_lines(jobdir):
        last = line
    if last.doctor is None:
        return None

    stats = stats_of(jobdir)
    record = last.doctor
    series = read_series([jobdir], TEN_SECS)
    # Earlier runs may have had other numbers of workers.
    began_at = series.at[series.columns["starts"] > 0].max(initial=0.0)
    busy = series.since(float(began_at) + 1).columns["workers busy"]
    state = record.state
    if not running([jobdir]):
        reason = stats.get("finish_reason", "")
        is_finished = reason == "finished"
        # A killed crawl could not write a reason.
        state = State(CrawlState.STOPPED, reason or "killed; it can be resumed")
        if is_finished:
            # The state has its own name, so only what follows "finished" is of use.
            details = describe_end(record.parked).removeprefix("finished")
            state = State(CrawlState.FINISHED, details.lstrip(":; "))

    return Examination(
        name="" if jobdir == path else f"drone {jobdir.name}",
        state=state,
        at=last.at,
        record=record,
        diagnosis=record.diagnosis,
        shares=shares_of(stats, PREFIX),
        secs=float(stats.get(f"{PREFIX}elapsed_time_seconds", 0.0)),
        busy=math.ceil(busy.max(initial=record.busy)),
        changes=[change.as_sentence for change in in_force([jobdir])],
    )


def doctor_lines(jobdir: Path) -> Iterator[Line]:
    """Yield the last diagnoses of *jobdir*, the oldest first.

    Damaged lines are skipped.
    """
    path = jobdir / "logs" / "stats.jsonl"
    end = end_of(path)
    start = Position(end.file, end.offset - _READ_BYTES)
    if start.offset < 0:  # most of it is in the file before
        start = Position(end.file - 1, 0)
    for lines in line_chunks(path, start=start, end=end, on_damage=lambda _: None):
        for line in lines.splitlines():
            if _MARK in line[:_PREFIX_LENGTH]:
                with suppress(UndecodableError):
                    yield decode_line(line)


def examination_text(examination: Examination, *, now: float) -> str:
    """Format *examination* as lines of text; *now* is in epoch seconds."""
    rows = [*facts_of(examination, now), ("as of", moment(examination.at, now))]
    heading = f"{examination.name}\n" if examination.name else ""
    return heading + "".join(f"{name:>11}  {value}\n" for name, value in rows)


def facts_of(examination: Examination, now: float) -> list[tuple[str, str]]:
    """Return *examination* as pairs of a label and a text; *now* is in epoch seconds."""
    record = examination.record
    rows = [("state", examination.state.in_words(moment(examination.state.until, now)))]
    has_finished = examination.state.name == CrawlState.FINISHED
    has_ended = has_finished or examination.state.name == CrawlState.STOPPED
    if not has_finished:  # the last record is older than the end of the crawl
        found = examination.diagnosis
        advice = f"; {found.advice}" if found.advice else ""
        since = moment(found.since, now)
        rows.append(("limited by", f"{found.cause.words} since {since}: {found.evidence}{advice}"))
    if examination.shares:
        rows.append(
            (
                "time",
                f"{examination.shares} of the running time, {format_elapsed(examination.secs)}",
            )
        )
    busy = f"{examination.busy:,} of {record.workers:,}"
    rows.append(("workers", f"at most {busy} were busy in the last hour (CONCURRENT_REQUESTS)"))
    if not has_ended:
        hosts = f"{record.ready:,} ready, {record.resting:,} paused"
        rows.append(("hosts", f"{hosts}; requests and pages in process: {record.in_process:,}"))
    due = f", {record.due:,} for their next visit" if record.due else ""
    if record.next_visit:
        due += f", the first at {moment(record.next_visit, now)}"
    if not has_finished:
        rows.append(("waiting", counted(record.waiting, "URL") + due))
    rows += [("parked", line) for line in parked_lines(record.parked, has_finished=has_finished)]
    if record.projection and not has_finished:
        rows.append(("projected", record.projection))
    if record.tail and not has_ended:
        host, number, secs = record.tail
        urls = counted(number, "URL")
        until = estimated_moment(examination.at + secs, now)
        text = f"{host}, whose {urls} take until {until}, at {span(secs / number)} per URL"
        rows.append(("held up by", text))
    rows += [("control", change) for change in examination.changes]
    if any(state != "running" for state in record.shards):
        shards = ", ".join(f"{number:,} {state}" for state, number in record.shards.items())
        rows.append(("shards", shards))
    return rows
