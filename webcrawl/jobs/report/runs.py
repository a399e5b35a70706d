"""Runs of a crawl: when each process was started and ended, why, and with which other settings.

The extension StatsFile writes the log of runs.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from webcrawl.configuration.decoding import Epoch, UndecodableError, json_decoder
from webcrawl.crawl.figures.summary import reason_in_words
from webcrawl.crawl.job.control_journal import user_and_machine
from webcrawl.crawl.job.state_directory import RUNS, boot_id
from webcrawl.doctor.history import DAY, HOUR, MINUTE, TEN_SECS, read_series
from webcrawl.jobs.inspect.job_view import running
from webcrawl.jobs.report.figures import Figure, Table
from webcrawl.wording import span, utc_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

# Number of runs that are shown, and the number of bytes at the end of the file that are read.
_MAX_RUNS = 8
_READ_BYTES = 1 << 16
_CUT_OFF = "docs/howto/when-something-is-wrong.md#the-crawl-was-killed-or-the-machine-went-down"


class RunEvent(msgspec.Struct):
    """Start of a run *at* a time or, with a *reason*, its end.

    At the start, *settings* has those that differ from their defaults, *by* the user and machine
    that started it, and *boot* the ID of the boot of that machine.
    """

    at: Epoch
    reason: str = ""
    settings: dict[str, str] = {}
    by: str = ""
    boot: str = ""


class Run(NamedTuple):
    """Run that began with *event*, and the time and reason of its *end*; None if not known."""

    event: RunEvent
    end: RunEvent | None = None

    @property
    def start(self) -> float:
        """When it began, in epoch seconds."""
        return self.event.at


_decode = json_decoder(RunEvent)


def runs_of(jobdir: Path) -> list[Run]:
    """Return the last runs of the process of *jobdir*, the oldest first; [] if none is known."""
    runs: list[Run] = []
    data = b""
    with suppress(OSError):
        data = (jobdir / RUNS).read_bytes()[-_READ_BYTES:]
    for line in data.splitlines():
        with suppress(UndecodableError):
            event = _decode(line)
            if not event.reason:
                runs.append(Run(event))
            elif runs:
                runs[-1] = runs[-1]._replace(end=event)
    return runs


def runs_table(path: Path, jobdirs: Sequence[Path], *, now: float) -> Figure:
    """Return the table of the last runs of the crawl in *path*, the newest first.

    *now* is the present time in epoch seconds.
    """
    rows = []
    for jobdir in jobdirs:
        runs = runs_of(jobdir)
        befores = [*runs[:1], *runs]
        for number, (run, before) in enumerate(zip(runs, befores, strict=False)):
            began = run.event
            end, ended, why = _end_of(jobdir, runs, number, now=now)
            old = before.event.settings
            changes = _changes(old, began.settings) if old else ""
            name = () if jobdir == path else (f"drone {jobdir.name}",)
            row = (utc_time(began.at), ended, span(end - began.at), why, began.by, changes)
            rows.append((began.at, (*name, *row)))
    rows.sort(reverse=True)
    drone = () if [*jobdirs] == [path] else ("drone",)
    head = (*drone, "began (UTC)", "ended (UTC)", "running time", "why it ended", "started by")
    head += ("changed settings",)
    lead = "The last ones, newest first. Starts are also vertical lines in the charts."
    table = Table(head, [row for _, row in rows[:_MAX_RUNS]])
    return Figure("runs", "Runs", lead if rows else "Not known.", table if rows else None)


def cut_off_alarms(jobdirs: Sequence[Path], *, now: float) -> list[str]:
    """Return a sentence for each process that was resumed within a day after it was cut off.

    The processes of *jobdirs* are running. *now* is the present time in epoch seconds.
    """
    alarms = []
    for jobdir in jobdirs:
        runs = runs_of(jobdir)[-2:]
        if runs[1:] and not runs[0].end and now - runs[1].start < DAY:
            _, ended, why = _end_of(jobdir, runs, 0, now=now)
            alarms.append(
                f"The run before this one was cut off {ended} UTC ({why}): see {_CUT_OFF}"
            )
    return alarms


def _end_of(
    jobdir: Path, runs: Sequence[Run], number: int, *, now: float
) -> tuple[float, str, str]:
    """Return the end of the run *number* in epoch seconds and in words, and why it ended.

    *runs* are those of *jobdir*. *now* is the end of one that is running.
    """
    run = runs[number]
    present = RunEvent(0.0, by=user_and_machine(), boot=boot_id())
    following = runs[number + 1].event if run is not runs[-1] else present
    if run.end:
        return run.end.at, utc_time(run.end.at), reason_in_words(run.end.reason)
    if following.at or not running([jobdir]):
        end = _last_sign(jobdir, run.start, following.at)
        return end, f"about {utc_time(end)}", _why_cut_off(run.event, following)
    return now, "", "it is running"


def _why_cut_off(began: RunEvent, following: RunEvent) -> str:
    """Say why a run that *began* so has no end; *following* is the next start, or the present."""
    if began.boot and began.boot == following.boot:
        return "killed; the machine stayed up"
    if began.boot and following.boot and began.by.split()[-1:] == following.by.split()[-1:]:
        return "the machine went down"
    return "not known: it was killed, or its machine went down"


def _changes(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return how the settings *now* differ from those *before*, in words."""
    names = sorted(before.keys() | now.keys())
    return ", ".join(
        f"{name} {before.get(name, 'default')} → {now.get(name, 'default')}"
        for name in names
        if before.get(name) != now.get(name)
    )


def _last_sign(jobdir: Path, start: float, next_start: float) -> float:
    """Return the time of the last sample in the history between *start* and *next_start*.

    *next_start* is 0 if there is none. Returns *start* if there is no sample.
    """
    until = next_start or float("inf")
    for secs in (TEN_SECS, MINUTE, HOUR):
        at = read_series([jobdir], secs).since(start - secs, until).at
        if len(at):
            return max(min(float(at[-1]) + secs, until), start)
    return start
