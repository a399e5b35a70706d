"""Charts of a crawl over time, from the history that its processes keep (doctor/history.py)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from webcrawl.doctor.history import (
    DAY,
    FAULTS,
    GAUGES,
    HOUR,
    KINDS,
    MINUTE,
    ROWS,
    TEN_SECS,
    Series,
    read_series,
)
from webcrawl.jobs.report.figures import Figure, over_time
from webcrawl.wording import span, utc_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

#: Ranges of the charts, in seconds.
RANGES = {"hour": HOUR, "day": DAY, "all": math.inf}
_MAX_INTERVALS = 120
_RECENT_SECS = 600.0
_MIN_INTERVALS = 6  # fewer say nothing about the disk
_FULL = (
    "The disk is full at {} UTC, in {}, if it fills as in the last ten minutes. The crawl pauses "
    "before, while fewer than DISK_MIN_FREE_BYTES are free."
)
_NOT_FULL = "The disk has not filled for ten minutes, so it is not known when it is full."
_SLOWER = 0.8
# A process is not running any more if its last sample is so much older than those of others.
_STOPPED_SECS = 300.0
_DISK = "docs/howto/run-it-for-weeks.md#disk"
# A kind of failure needs attention if it is at least this share of the URLs of an hour, and so many
# times its share of the day before. With fewer URLs, a share says nothing.
_MIN_SHARE = 0.1
_MIN_GROWTH = 2.0
_MIN_URLS = 100
_FULL_SECS = 366 * DAY  # a disk that lasts longer is not worth a word


class _Chart(NamedTuple):
    """Definition of a chart of *columns*, divided by *unit*, or of their rates per second."""

    name: str
    title: str
    y: str
    columns: tuple[str, ...]
    unit: float = 1.0
    is_rate: bool = False


_FINISHED = ("pages", "redirects", "visits", *KINDS)
_WRONG = "docs/howto/when-something-is-wrong.md"
_HOW_TO = dict.fromkeys(FAULTS, f"{_WRONG}#urls-were-given-up")
_HOW_TO["refused"] = f"{_WRONG}#sites-refuse-the-crawl"
_CHARTS = (
    _Chart("documents", "Pages", "pages per second", ("pages",), is_rate=True),
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
    full = _full_within(jobdirs, _FULL_SECS)
    if not full and len(series.at) and series.at[-1] - series.at[0] >= _RECENT_SECS:
        full = _NOT_FULL
    newest = _newest(jobdirs, until)
    notes = {
        "waiting": "Parked URLs are kept on disk until the reason given above is gone.",
        "disk": full,
    }
    return [_figure(kind, series, newest, notes.get(kind.name, "")) for kind in (*visits, *_CHARTS)]


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


def pages_of_the_hour(jobdirs: Sequence[Path]) -> str:
    """Say how many pages the last hour had, compared with the day before; "" without history."""
    series = read_series(jobdirs, MINUTE, every=10)
    end = float(series.at[-1]) if len(series.at) else 0.0
    before = series.since(0.0, end - HOUR)
    hour = series.since(end - HOUR + series.secs)
    text = f"{hour.total('pages'):,.0f}" if len(series.at) else ""
    if not len(before.at):
        return text
    now = hour.mean_rate("pages")
    earlier = before.mean_rate("pages")
    text += f", {_rounded(now):,} per second; {_rounded(earlier):,} in the day before"
    if now < _SLOWER * earlier:
        last_fast = (series.rates["pages"] >= _SLOWER * earlier).nonzero()[0][-1]
        slower_since = series.at[min(last_fast + 1, len(series.at) - 1)]
        text += f"; slower since about {utc_time(slower_since)[:-3]} UTC"
    return text


def series_of(jobdirs: Sequence[Path], *, secs: float, until: float = math.inf) -> Series:
    """Return the last *secs* of the history of *jobdirs*, in at most about 120 intervals."""
    newest = read_series(jobdirs, MINUTE)
    if not len(newest.at):
        return newest
    end = min(float(newest.at[-1]), until)
    secs = min(secs, end - _beginning(jobdirs, newest))
    row = next(row for row, number in ROWS.items() if secs <= number * row or row == DAY)
    every = math.ceil(max(secs, 1) / row / _MAX_INTERVALS)
    return read_series(jobdirs, row, every=every).since(end - secs, until)


def _beginning(jobdirs: Sequence[Path], minutes: Series) -> float:
    """Return when the history of *jobdirs* began; *minutes* is its last day."""
    hours = read_series(jobdirs, HOUR).at[0]
    days = read_series(jobdirs, DAY).at[0]
    beginning = hours if hours < days + DAY else days
    return float(minutes.at[0] if minutes.at[0] < beginning + HOUR else beginning)


def _figure(kind: _Chart, series: Series, newest: Mapping[str, float], note: str) -> Figure:
    """Return the figure *kind* of *series*, with the sentence *note*.

    *newest* has the last values of gauges, in place of the means of the last interval.
    """
    if not len(series.at):
        return Figure(kind.name, kind.title, "No history yet.")
    lines = {}
    for name in kind.columns:
        values = (series.rates if kind.is_rate else series.columns)[name] / kind.unit
        lines[name] = [*map(_rounded, values.tolist())]
        if name in newest:
            lines[name][-1] = _rounded(newest[name] / kind.unit)
    lines = {name: values for name, values in lines.items() if any(values)} or lines
    parts = []
    for name, line in lines.items():
        mean = f" ({_rounded(sum(line) / len(line)):,})" * kind.is_rate
        parts.append(f"{name if len(lines) > 1 else ''} {line[-1]:,}{mean}".lstrip())
    secs = f"In the last {span(series.secs)} (and on average of the chart)"
    lead = f"{secs if kind.is_rate else 'Last'}: {', '.join(parts)} {kind.y}".rstrip()
    lead = f"{lead}. {note}".rstrip()
    # Values that never change need no chart.
    if all(min(values) == max(values) for values in lines.values()):
        return Figure(kind.name, kind.title, lead)
    y = kind.y or "number"
    edges = [int(at) for at in series.at]
    starts = [at for at, count in zip(edges, series.columns["starts"], strict=True) if count]
    if starts[:1] == edges[:1]:
        del starts[0]  # the axis is there
    return over_time(kind.name, kind.title, lead, edges, lines, y=y, starts=starts)


def _rounded(value: float) -> float:
    """Return *value* with three digits, or as a whole number."""
    return round(value) if value >= 100 or value.is_integer() else float(f"{value:.3g}")


def _full_within(jobdirs: Sequence[Path], secs: float, *, reach: float = math.inf) -> str:
    """Say when a disk is full, if it is within *secs* if it fills as in the last ten minutes.

    "" also if that is not known, or if it takes more than *reach* times as long as the crawl has
    been looked at for this.
    """
    series = read_series(jobdirs, TEN_SECS)
    if not len(series.at):
        return ""
    end = float(series.at[-1])
    series = series.since(end - _RECENT_SECS)
    free = series.columns["free disk"]
    if len(free) < _MIN_INTERVALS:
        return ""
    # What was written in one go, or by others, is in one half only.
    seen_secs = end - float(series.at[0])
    used_per_sec = min(
        float((free[first] - free[-1]) / (end - series.at[first])) for first in (0, len(free) // 2)
    )
    if used_per_sec <= 0:
        return ""
    left = float(free[-1]) / used_per_sec
    if left >= min(secs, reach * seen_secs):
        return ""
    return _FULL.format(utc_time(end + left)[:-3], span(left))


def disk_alarms(jobdirs: Sequence[Path]) -> list[str]:
    """Return a sentence if the disk of the crawl in *jobdirs* is full within a day, or sooner.

    What a crawl needs in its first minutes says little about a day.
    """
    sentence = _full_within(jobdirs, DAY, reach=DAY / _RECENT_SECS)
    return [f"{sentence} See {_DISK}."] if sentence else []


def fault_alarms(jobdirs: Sequence[Path]) -> list[str]:
    """Return sentences about kinds of failures that are not normal for the crawl in *jobdirs*.

    Its last hour is compared with the day before.
    """
    series = read_series(jobdirs, MINUTE)
    end = float(series.at[-1]) if len(series.at) else 0.0
    hour = series.since(end - HOUR + MINUTE)
    urls = int(hour.total(*_FINISHED))
    urls_before = series.total(*_FINISHED) - urls
    alarms = []
    for kind in FAULTS:
        number = hour.total(kind)
        part = number / max(urls, _MIN_URLS)
        earlier_part = 0.0
        earlier = ""
        if urls_before >= _MIN_URLS:
            earlier_part = (series.total(kind) - number) / urls_before
            earlier = f", and {earlier_part:.0%} of the day before"
        if part >= max(_MIN_SHARE, _MIN_GROWTH * earlier_part):
            alarms.append(
                f"{part:.0%} of {urls:,} URLs of the last hour failed{earlier} ({kind}): "
                f"see {_HOW_TO[kind]}"
            )
    return alarms
