"""Charts of a crawl over time, from the history that its processes keep (doctor/history.py)."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from webcrawl import settings
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
from webcrawl.hive.launch.crawl_stats import stats_of
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
_FULL = "The disk is full at {}, if it fills as in the last ten minutes."
_PAUSE = " The crawl pauses before, at {}, when less than DISK_MIN_FREE_BYTES ({:,} GB) is free."
_MIN_FREE = "DISK_MIN_FREE_BYTES"
_NOT_FULL = "The disk has not filled for ten minutes, so it is not known when it is full."
# An hour in which the crawl ran for at least this share counts as whole. A difference of less than
# _SAME is none.
_WHOLE = 0.95
_SAME = 0.05
_NUMBERS = ("fewer", "more", "as many")
_SHARES = ("lower", "higher", "as high")
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
_HOW_TO = dict.fromkeys(FAULTS, f"{_WRONG}#urls-were-given-up")
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


def comparisons(jobdirs: Sequence[Path], *, now: float) -> list[str]:
    """Compare the last hour with the same hour of yesterday, or else with the mean of its day.

    There are sentences about pages, visits, if there are any, and failures; none without history.
    *now* is the present time in epoch seconds.
    """
    series = read_series(jobdirs, MINUTE)
    if not len(series.at):
        return []
    end = float(series.at[-1]) + MINUTE
    hour = series.since(end - HOUR)
    base = "in the same hour of yesterday"
    before = series.since(end - DAY - HOUR, end - DAY - MINUTE)
    if before.total(SECONDS) < HOUR / 2:
        base = "in an hour of the day before"
        before = series.since(end - DAY, end - HOUR - MINUTE)
    has_base = before.total(SECONDS) >= _RECENT_SECS
    until = f"in the hour until {utc_time(min(end, now))[11:-3]} UTC"
    ran_secs = hour.total(SECONDS)
    sentences = []
    for name in ("pages", "visits"):
        number = hour.total(name)
        earlier = before.total(name) * HOUR / max(before.total(SECONDS), HOUR)
        if name == "visits" and not number + earlier:
            continue
        text = f"{name.capitalize()}: {number:,.0f} {until}"
        if has_base:
            text += f"; {earlier:,.0f} {base}{_change(number, earlier, _NUMBERS)}"
        if ran_secs < _WHOLE * HOUR:
            rate = hour.mean_rate(name)
            text += f". The crawl ran for {span(ran_secs)} of it: {_rounded(rate):,} per second"
            if has_base:
                rate_before = before.mean_rate(name)
                text += f", before {_rounded(rate_before):,}{_change(rate, rate_before, _NUMBERS)}"
        sentences.append(f"{text}.")

    (part, urls), (part_before, urls_before) = map(_failures, (hour, before))
    text = f"Failures: {part:.1%} of {urls:,.0f} URLs {until}"
    if has_base:
        text += f"; {part_before:.1%} of {urls_before:,.0f} {base.replace('an hour of ', '')}"
        text += _change(part, part_before, _SHARES)
    return [*sentences, f"{text}."]


def _failures(series: Series) -> tuple[float, float]:
    """Return the share of the URLs in *series* that failed, and their number."""
    urls = series.total(*_FINISHED)
    return series.total(*FAULTS) / max(urls, 1.0), urls


def _change(now: float, before: float, words: tuple[str, str, str]) -> str:
    """Say how *now* differs from *before*, in *words* for less, more and times as much.

    >>> [_change(now, 100, _NUMBERS) for now in (64, 99, 130, 290)]
    [': 36% fewer', ': about as many', ': 30% more', ': 2.9 times as many']
    """
    less, more, as_much = words
    if not before:
        return ""
    factor = now / before
    if abs(factor - 1) < _SAME:
        return f": about {as_much}"
    if factor < 1:
        return f": {1 - factor:.0%} {less}"
    return f": {factor - 1:.0%} {more}" if factor < 2 else f": {factor:.1f} times {as_much}"


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


def _figure(kind: _Chart, series: Series, newest: Mapping[str, float], note: str) -> Figure:
    """Return the figure *kind* of *series*, with the sentence *note*.

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
    text = _FULL.format(_in_future(end, left))
    min_free = _min_free_bytes(jobdirs[0])
    secs_to_pause = max(float(free[-1] - min_free), 0.0) / used_per_sec
    pause = _PAUSE.format(_in_future(end, secs_to_pause), _rounded(min_free / 1e9))
    return text + pause * bool(min_free)


def _in_future(at: float, secs: float) -> str:
    """Return when *secs* after the epoch second *at* have passed, in words."""
    return f"{utc_time(at + secs)[:-3]} UTC, in {span(secs)}"


def _min_free_bytes(jobdir: Path) -> int:
    """Return the free space at which the crawl in *jobdir* pauses; 0 if it does not."""
    with suppress(ValueError, TypeError):
        return int(stats_of(jobdir).get(f"settings/{_MIN_FREE}", getattr(settings, _MIN_FREE)))
    return 0


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
