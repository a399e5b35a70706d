"""Runs of a crawl: when each process was started and ended, why, and with which other settings.

The extension StatsFile writes the log of runs.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from webcrawl.configuration.decoding import Epoch, UndecodableError, json_decoder
from webcrawl.crawl.figures.summary import reason_in_words
from webcrawl.crawl.job.state_directory import RUNS
from webcrawl.doctor.history import HOUR, MINUTE, read_series
from webcrawl.jobs.inspect.job_view import running
from webcrawl.jobs.report.figures import Figure, Table
from webcrawl.wording import span, utc_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

# Number of runs that are shown, and the number of bytes at the end of the file that are read.
_MAX_RUNS = 8
_READ_BYTES = 1 << 16


class RunEvent(msgspec.Struct):
    """Start of a run *at* a time or, with a *reason*, its end.

    At the start, *settings* has those that differ from their defaults.
    """

    at: Epoch
    reason: str = ""
    settings: dict[str, str] = {}


class Run(NamedTuple):
    """Run from *start* to *end*, in epoch seconds. While it runs, and after a kill, *end* is 0."""

    start: float
    end: float
    reason: str
    settings: dict[str, str]


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
                runs.append(Run(event.at, 0.0, "", event.settings))
            elif runs:
                runs[-1] = runs[-1]._replace(end=event.at, reason=event.reason)
    return runs


def runs_table(path: Path, jobdirs: Sequence[Path], *, now: float) -> Figure:
    """Return the table of the last runs of the crawl in *path*, the newest first.

    *now* is the present time in epoch seconds.
    """
    rows = []
    for jobdir in jobdirs:
        runs = runs_of(jobdir)
        befores = [*runs[:1], *runs]
        next_starts = [*(run.start for run in runs[1:]), 0.0]
        for run, before, next_start in zip(runs, befores, next_starts, strict=False):
            end = run.end
            why = reason_in_words(run.reason)
            ended = utc_time(end)
            if not end and not next_start and running([jobdir]):
                ended = ""
                end = now
                why = "it is running"
            elif not end:
                end = _last_sign(jobdir, run.start, next_start)
                ended = f"about {utc_time(end)[:-3]}"
                why = "killed, or the machine went down"
            took = span(end - run.start)
            changes = _changes(before.settings, run.settings) if before.settings else ""
            name = () if jobdir == path else (f"drone {jobdir.name}",)
            rows.append((run.start, (*name, utc_time(run.start), ended, took, why, changes)))
    rows.sort(reverse=True)
    drone = () if [*jobdirs] == [path] else ("drone",)
    head = (*drone, "began (UTC)", "ended (UTC)", "running time", "why it ended")
    head += ("changed settings",)
    lead = "The last ones, newest first. Starts are also vertical lines in the charts."
    table = Table(head, [row for _, row in rows[:_MAX_RUNS]])
    return Figure("runs", "Runs", lead if rows else "Not known.", table if rows else None)


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
    for secs in (MINUTE, HOUR):
        at = read_series([jobdir], secs).since(start - secs, until).at
        if len(at):
            return max(min(float(at[-1]) + secs, until), start)
    return start
