"""Charts of a crawl over time, from the history that its processes keep (doctor/history.py)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from webcrawl.doctor.diagnosis import CERTAIN, Cause
from webcrawl.doctor.history import (
    DAY,
    FAULTS,
    GAUGES,
    HOUR,
    KINDS,
    MINUTE,
    ROWS,
    SECONDS,
    TEN_SECS,
    Series,
    read_series,
)
from webcrawl.jobs.report.chart import Chart
from webcrawl.jobs.report.figures import Figure, Table
from webcrawl.wording import span, utc_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from webcrawl.jobs.inspect.examination import Examination

#: Ranges of the charts, in seconds.
RANGES = {"hour": HOUR, "day": DAY, "all": math.inf}
_MAX_INTERVALS = 120
_RECENT_SECS = 600.0  # a crawl that ran for less is compared with nothing
# An hour in which the crawl ran for less than this share is not whole. A difference of less than
# _SAME is none.
_WHOLE = 0.95
_SAME = 0.05
# A process is not running any more if its last sample is so much older than those of others.
_STOPPED_SECS = 300.0
# A kind of failure needs attention if it is at least this share of the URLs of an hour, and so many
# times its share before; one that is new if it is a larger share. Fewer URLs say nothing.
_MIN_SHARE = 0.01
_MIN_NEW_SHARE = 0.1
_MIN_GROWTH = 2.0
_MIN_FAILED = 20
_MIN_URLS = 100
# A crawl that has fetched nothing for so long needs attention, except for these reasons.
_STILL_SECS = 300.0
_NORMAL_CAUSES = {*CERTAIN, Cause.POLITENESS}


class _Chart(NamedTuple):
    """Definition of a chart of *columns*, divided by *unit*, or of their rates per second.

    *labels* are the names of the columns in the chart, if they have others there.
    """

    name: str
    title: str
    y: str
    columns: tuple[str, ...]
    unit: float = 1.0
    is_rate: bool = False
    labels: tuple[str, ...] = ()


_FINISHED = ("pages", "redirects", "visits", *KINDS)
_WRONG = "docs/howto/when-something-is-wrong.md"
_SLOW = f"{_WRONG}#the-crawl-is-slow"
_HOW_TO = dict.fromkeys((*FAULTS, "all kinds"), f"{_WRONG}#urls-were-given-up")
_HOW_TO["refused"] = f"{_WRONG}#sites-refuse-the-crawl"
_CHARTS = (
    _Chart(
        "answers",
        "Answers by class",
        "URLs per second",
        ("pages", "redirects", "4xx", "server errors"),
        is_rate=True,
        labels=("2xx (pages)", "3xx (redirects)", "4xx", "5xx"),
    ),
    _Chart("failures", "Failures", "URLs per second", FAULTS, is_rate=True),
    _Chart("waiting", "URLs waiting and parked", "URLs", ("waiting", "parked")),
    _Chart("megabits", "Bandwidth", "Mbit/s", ("bytes",), 125_000, is_rate=True),
    _Chart("workers", "Workers and hosts", "", ("workers busy", "hosts ready", "hosts paused")),
    _Chart("memory", "Memory of the crawl", "MB", ("memory",), 1e6),
    _Chart("disk", "Disk space", "GB free", ("free disk",), 1e9),
    _Chart("loop", "Delay of the event loop", "ms", ("lag",), 0.001),
)
_VISITS = (
    _Chart("revisits", "Visits", "visits per second", ("visits", "changed"), is_rate=True),
    _Chart("due", "URLs with a next visit", "URLs", ("due", "fresh")),
)


def charts(jobdirs: Sequence[Path], *, secs: float, until: float = math.inf) -> list[Figure]:
    """Return the charts of the processes in *jobdirs* for the last *secs* of their history.

    They end at the epoch second *until*. Charts of visits come first if there were any.
    """
    series = series_of(jobdirs, secs=secs, until=until)
    visits = _VISITS if series.total("visits", "due") else ()
    newest = _newest(jobdirs, until)
    return [_figure(kind, series, newest) for kind in (*visits, *_CHARTS)]


def _newest(jobdirs: Sequence[Path], until: float) -> dict[str, float]:
    """Return the last values of the gauges before the epoch second *until*, of all processes.

    Those of a process that stopped minutes before the others are left out.
    """
    processes = [read_series([jobdir], TEN_SECS).since(0.0, until) for jobdir in jobdirs]
    ends = [process.at[-1] if len(process.at) else 0.0 for process in processes]
    running = [
        process
        for process, end in zip(processes, ends, strict=True)
        if end and end > max(ends) - _STOPPED_SECS
    ]
    newest = {}
    for name in GAUGES:
        values = [float(process.columns[name][-1]) for process in running]
        merge = {"lag": max, "free disk": min}.get(name, sum)
        newest[name] = float(merge(values)) if values else 0.0
    return newest


def _last_hour(jobdirs: Sequence[Path]) -> tuple[Series, Series, str]:
    """Return the history of the last hour, that of a time before, and when that was, in words.

    That is the same hour of yesterday, or else the day before. If the crawl ran for less than ten
    minutes of it, the history and the words are empty.
    """
    series = read_series(jobdirs, MINUTE)
    end = float(series.at.max(initial=0.0)) + MINUTE
    hour = series.since(end - HOUR)
    base = "in the same hour of yesterday"
    before = series.since(end - DAY - HOUR, end - DAY - MINUTE)
    if before.total(SECONDS) < HOUR / 2:
        base = "in the day before"
        before = series.since(end - DAY, end - HOUR - MINUTE)
    if before.total(SECONDS) < _RECENT_SECS:
        return hour, before.since(math.inf), ""
    return hour, before, base


def comparisons(jobdirs: Sequence[Path], *, now: float) -> list[str]:
    """Compare the last hour with the same hour of yesterday, or else with the day before.

    There are sentences about pages, visits, if there are any, and failures; none without history.
    *now* is the present time in epoch seconds.
    """
    hour, before, base = _last_hour(jobdirs)
    if not len(hour.at):
        return []
    until = f"in the hour until {utc_time(min(float(hour.at[-1]) + MINUTE, now))[11:-3]} UTC"
    # What an hour has in which the crawl ran for minutes is only comparable per second.
    ran_secs = hour.total(SECONDS)
    if ran_secs < _WHOLE * HOUR:
        until += f", of which the crawl ran for {span(ran_secs)}"
    sentences = []
    for name in ("pages", "visits"):
        rate, rate_before = (series.mean_rate(name) for series in (hour, before))
        if name == "visits" and not rate + rate_before:
            continue
        text = (
            f"{name.capitalize()}: {hour.total(name):,.0f} {until}: {_rounded(rate):,} per second"
        )
        if base:
            text += f"; {_rounded(rate_before):,} {base}{_change(rate, rate_before)}"
        sentences.append(f"{text}.")

    part, part_before = map(_failed_share, (hour, before))
    text = f"Failures: {part:.1%} of {hour.total(*_FINISHED):,.0f} URLs {until}"
    if base:
        text += f"; {part_before:.1%} {base}{_change(part, part_before)}"
    return [*sentences, f"{text}."]


def _failed_share(series: Series, kinds: Sequence[str] = FAULTS) -> float:
    """Return the share of the URLs in *series* with failures of these *kinds*."""
    return series.total(*kinds) / max(series.total(*_FINISHED), _MIN_URLS)


def _change(now: float, before: float) -> str:
    """Say how *now* differs from *before*.

    >>> [_change(now, 100) for now in (64, 99, 130, 290)]
    [': 36% less', ': about the same', ': 30% more', ': 2.9 times as much']
    """
    if not before:
        return ""
    factor = now / before
    if abs(factor - 1) < _SAME:
        return ": about the same"
    if factor < 2:
        return f": {abs(factor - 1):.0%} {'more' if factor > 1 else 'less'}"
    return f": {factor:.1f} times as much"


def series_of(jobdirs: Sequence[Path], *, secs: float, until: float = math.inf) -> Series:
    """Return the last *secs* of the history of *jobdirs*, in at most about 120 intervals."""
    newest = read_series(jobdirs, MINUTE)
    if not len(newest.at):
        return newest
    end = min(float(newest.at[-1]), until)
    secs = min(secs, end - beginning_of(jobdirs))
    row = next(row for row, number in ROWS.items() if secs <= number * row or row == DAY)
    every = math.ceil(max(secs, 1) / row / _MAX_INTERVALS)
    return read_series(jobdirs, row, every=every).since(end - secs, until)


def beginning_of(jobdirs: Sequence[Path]) -> float:
    """Return when the history of *jobdirs* began, in epoch seconds; 0.0 without history."""
    days, hours, minutes = (read_series(jobdirs, secs).at for secs in (DAY, HOUR, MINUTE))
    if not len(days):
        return 0.0
    beginning = hours[0] if hours[0] < days[0] + DAY else days[0]
    return float(minutes[0] if minutes[0] < beginning + HOUR else beginning)


def _figure(kind: _Chart, series: Series, newest: Mapping[str, float]) -> Figure:
    """Return the figure *kind* of *series*.

    *newest* has the last values of gauges, in place of the means of the last interval.
    """
    if not len(series.at):
        return Figure(kind.name, kind.title, "No history yet.")
    lines = {}
    for label, name in zip(kind.labels or kind.columns, kind.columns, strict=True):
        values = (series.rates if kind.is_rate else series.columns)[name] / kind.unit
        lines[label] = [*map(_rounded, values.tolist())]
        if name in newest:
            lines[label][-1] = _rounded(newest[name] / kind.unit)
    lines = {name: values for name, values in lines.items() if any(values)} or lines
    parts = []
    for name, line in lines.items():
        mean = f" ({_rounded(sum(line) / len(line)):,})" * kind.is_rate
        parts.append(f"{name if len(lines) > 1 else ''} {line[-1]:,}{mean}".lstrip())
    # The last interval goes on.
    since = f"Since {utc_time(series.at[-1])} UTC (and on average of the chart)"
    lead = f"{since if kind.is_rate else 'Last'}: {', '.join(parts)} {kind.y}".rstrip() + "."
    # Values that never change need no chart.
    if all(min(values) == max(values) for values in lines.values()):
        return Figure(kind.name, kind.title, lead)
    y = kind.y or "number"
    edges = [int(at) for at in series.at]
    starts = [at for at, count in zip(edges, series.columns["starts"], strict=True) if count]
    if starts[:1] == edges[:1]:
        del starts[0]  # the axis is there
    rows = [*zip(map(utc_time, edges), *lines.values(), strict=True)]
    points = {name: (edges, values) for name, values in lines.items()}
    drawn = Chart(points, x="time (UTC)", y=y, is_time=True, starts=starts)
    return Figure(kind.name, kind.title, lead, Table(("from (UTC)", *lines), rows), drawn)


def _rounded(value: float) -> float:
    """Return *value* with three digits, or as a whole number."""
    return round(value) if value >= 100 or value.is_integer() else float(f"{value:.3g}")


def fault_alarms(jobdirs: Sequence[Path]) -> list[str]:
    """Return sentences about kinds of failures that are not normal for the crawl in *jobdirs*.

    The last hour is compared as in ``comparisons``. If no kind has grown enough, all of them
    together may have.
    """
    hour, before, base = _last_hour(jobdirs)
    alarms: list[str] = []
    for kind, how_to in _HOW_TO.items():
        kinds = (kind,) if kind in FAULTS else FAULTS
        part, part_before = (_failed_share(series, kinds) for series in (hour, before))
        earlier = f", and {part_before:.1%} {base}" if base else ""
        # A kind that is new needs a larger share.
        min_part = max(_MIN_SHARE if part_before else _MIN_NEW_SHARE, _MIN_GROWTH * part_before)
        is_much = part >= min_part and hour.total(*kinds) >= _MIN_FAILED
        if is_much and not (alarms and kinds is FAULTS):
            alarms.append(
                f"{part:.1%} of {hour.total(*_FINISHED):,.0f} URLs of the last hour failed"
                f"{earlier} ({kind}): see {how_to}"
            )
    return alarms


def standstill_alarms(jobdirs: Sequence[Path], processes: Sequence[Examination]) -> list[str]:
    """Return a sentence if the crawl has fetched nothing for minutes, although it could.

    *processes* are those of *jobdirs*; the sentence has the cause, and what to do.
    """
    recent = read_series(jobdirs, TEN_SECS)
    recent = recent.since(float(recent.at.max(initial=0.0)) - _STILL_SECS)
    if recent.total(SECONDS) < _STILL_SECS or recent.total("pages", "redirects", "visits"):
        return []
    return [
        f"No page was fetched for {span(_STILL_SECS)}, because of {limit.brief}; {limit.advice}. "
        f"See {_SLOW}"
        for process in processes
        if (limit := process.diagnosis).advice and limit.cause not in _NORMAL_CAUSES
    ][:1]
