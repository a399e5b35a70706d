"""Charts as data, and their layout.

``bars`` and ``lines`` make a chart. ``laid_out`` returns the places of its marks and texts for the
template ``chart.svg``. A drawing has no colours itself: its classes are those of ``chart.css``. It
is so small that its text can be read on a narrow page.
"""

from __future__ import annotations

import math
import time
from itertools import chain, pairwise
from statistics import median
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from webcrawl.wording import visible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    #: The values of each line on both axes, by its name.
    Series: TypeAlias = Mapping[str, tuple[Sequence[float], Sequence[float]]]
    Ticks: TypeAlias = list[tuple[float, str]]

#: Width of a drawing, in units that the page shows as 0.8 to 1.3 pixels.
WIDTH = 300.0
_HEIGHT, _TOP, _RIGHT = 150.0, 22.0, 290.0
_BAR, _LINE = 18.0, 15.0
# Largest width of a character.
_CHAR = 6.6
# Longer labels go above their bars, in lines of at most _ROOM characters.
_LONGEST, _ROOM = 24, 44
_COLOURS = 4
# A logarithmic axis with a smaller ratio than the first also has ticks between its powers. It
# extends beyond its values by the second factor.
_FEW_DECADES, _MARGIN = 300, 1.5
# Smallest share of a time axis that is visible as a gap.
_SEEN = 0.05
# Steps of a time axis, in seconds, and the format of its ticks from each step on.
_SECS = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200),
    *(86_400 * days for days in (1, 2, 7, 14, 28, 91, 182, 364, 1820)),
)
_FORMATS = {91 * 86_400: "%Y-%m", 86_400: "%m-%d", 60: "%H:%M", 0: "%H:%M:%S"}


class Chart(NamedTuple):
    """Values to be drawn.

    *x* and *y* are the names of the axes with their units. *log* names the logarithmic axes: "x",
    "y" or "xy". *is_time* says that the values on x are epoch seconds. Bars have *labels* before
    and *texts* after them.
    """

    series: Series
    x: str = ""
    y: str = ""
    log: str = ""
    is_time: bool = False
    labels: Sequence[str] = ()
    texts: Sequence[str] = ()


class Text(NamedTuple):
    """Text at a place; *anchor* is that of SVG."""

    x: float
    y: float
    text: str
    anchor: str = "end"
    kind: str = "tick"


class Layout(NamedTuple):
    """Places of everything that is drawn; *marks* are classes and paths."""

    height: float
    marks: list[tuple[str, str]]
    texts: list[Text]


def bars(rows: Sequence[tuple[str, float, str]]) -> Chart:
    """Return a chart of horizontal bars, from the top; a row is a name, a number and its text."""
    names, values, texts = zip(*rows, strict=True)
    return Chart({"": ((), values)}, labels=names, texts=texts)


def lines(series: Series, *, x: str, y: str, log: str = "", is_time: bool = False) -> Chart:
    """Return a chart of points joined by lines. More than one of *series* gives a legend."""
    return Chart(series, x=x, y=y, log=log, is_time=is_time)


def laid_out(chart: Chart) -> Layout:
    """Return the layout of *chart*."""
    if chart.labels:
        return _bars(chart)
    x, y, x_ticks, y_ticks = _scales(chart)
    grid = "".join(f"M{x.start:g} {y.at(at)}H{_RIGHT:g}" for at, _ in y_ticks)
    marks = [("grid", grid), ("axis", f"M{x.start:g} {_TOP:g}V{_HEIGHT:g}H{_RIGHT:g}")]
    texts = [Text(x.start - 5, y.at(at) + 4, text) for at, text in y_ticks]
    for at, text in x_ticks:
        # Moved aside if it would be cut off.
        half = _CHAR * len(text) / 2
        place = min(max(x.at(at), half), WIDTH - half)
        texts.append(Text(place, _HEIGHT + 14, text, "middle"))
    texts.append(Text(0, 10, chart.y, "start", "name"))
    texts.append(Text((x.start + _RIGHT) / 2, _HEIGHT + 30, chart.x, "middle", "name"))
    left, top = 0.0, _HEIGHT + 30
    for number, (name, values) in enumerate(chart.series.items()):
        style = f"line c{number % _COLOURS} d{number // _COLOURS % 3}"
        # A logarithmic axis has no place for values that are not above 0.
        points = [
            (one, other)
            for one, other in zip(*values, strict=True)
            if (one > 0 or not x.is_log) and (other > 0 or not y.is_log)
        ]
        marks.append((style, _path(points, x, y, chart.is_time)))
        if len(chart.series) > 1:
            width = 32 + _CHAR * len(name)
            if not number or left + width > WIDTH:
                left, top = 0.0, top + _LINE
            marks.append((style, f"M{left:g} {top - 4:g}h16"))
            texts.append(Text(left + 20, top, name, "start"))
            left += width
    return Layout(top + 6, marks, texts)


class _Scale(NamedTuple):
    """Scale from values between *low* and *high* to places between *start* and *end*."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def at(self, value: float) -> float:
        low, high = self.low, self.high
        if self.is_log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return round(self.start + (self.end - self.start) * (value - low) / (high - low), 1)


def _path(points: Sequence[tuple[float, float]], x: _Scale, y: _Scale, is_time: bool) -> str:
    """Return a line through *points*, with gaps where nothing is known.

    On a time axis, a gap is a distance that is much longer than usual and visible.
    """
    gaps = [after - before for (before, _), (after, _) in pairwise(points)]
    widest = max(3 * median(gaps), _SEEN * (x.high - x.low)) if gaps and is_time else math.inf
    # A single point becomes a dot.
    begin, on = "M{} {}h0", "L{} {}"
    joins = [begin, *(begin if gap > widest else on for gap in gaps)]
    places = ((x.at(one), y.at(other)) for one, other in points)
    return "".join(join.format(*at) for join, at in zip(joins, places, strict=False))


def _bars(chart: Chart) -> Layout:
    labels, values = [visible(name) for name in chart.labels], chart.series[""][1]
    longest = max(map(len, labels))
    start = _CHAR * longest + 6 if longest <= _LONGEST else 0.0
    end = max(WIDTH - _CHAR * max(map(len, chart.texts)) - 12, start + 40)
    scale = _Scale(0, max(values) or 1, start, end)
    marks, texts, y = [], [], 13.0
    for label, value, text in zip(labels, values, chart.texts, strict=True):
        for at in range(0, len(label), _ROOM):
            texts.append(Text(0, y, label[at : at + _ROOM], "start"))
            y += _LINE * (not start)
        width = scale.at(value) - start
        marks.append(("bar c0", f"M{start:.1f} {y - 10:g}h{width:.1f}v13h-{width:.1f}Z"))
        texts.append(Text(start + width + 5, y, text, "start"))
        y += _BAR + 4 * (not start)
    return Layout(y - 11, marks, texts)


def _scales(chart: Chart) -> tuple[_Scale, _Scale, Ticks, Ticks]:
    """Return both axes and their ticks."""
    xs, ys = ([*chain(*one)] for one in zip(*chart.series.values(), strict=True))
    low, high, y_ticks = _axis(0.0, max(ys, default=1.0), ys, is_log="y" in chart.log, max_ticks=5)
    y = _Scale(low, high, _HEIGHT, _TOP, "y" in chart.log)
    first, last = min(xs, default=0.0), max(xs, default=1.0)
    last = last if last > first else first + 1
    if chart.is_time:
        x_ticks = _times(first, last)
    else:
        _, _, x_ticks = found = _axis(first, last, xs, is_log="x" in chart.log, max_ticks=6)
        first, last = found[:2] if "x" in chart.log else (first, last)
        x_ticks = [tick for tick in x_ticks if first <= tick[0] <= last]
    left = _CHAR * max(len(text) for _, text in y_ticks) + 8
    return _Scale(first, last, left, _RIGHT, "x" in chart.log), y, x_ticks, y_ticks


def _axis(
    low: float, high: float, values: Sequence[float], *, is_log: bool, max_ticks: int
) -> tuple[float, float, Ticks]:
    """Return the ends of an axis for *values*, and about *max_ticks* ticks."""
    if is_log:
        above = [value for value in values if value > 0] or [1.0]
        low, high = min(above) / _MARGIN, max(above) * _MARGIN
        subs = (1, 2, 5) if high < _FEW_DECADES * low else (1,)
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        found = [sub * 10.0**power for power in powers for sub in subs]
        found = [one for one in found if low <= one <= high]
        return (
            low,
            high,
            [(one, scaled(one)) for one in found[:: -(-len(found) // (max_ticks + 2))]],
        )
    raw = (high - low) / max_ticks or 1.0
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * sub for sub in (1, 2, 5, 10) if size * sub >= raw * (1 - 1e-9))
    numbers = range(math.floor(low / step), max(math.ceil(high / step - 1e-9), 1) + 1)
    ticks = [(number * step, scaled(round(number * step, 9))) for number in numbers]
    return ticks[0][0], ticks[-1][0], ticks


def _times(low: float, high: float) -> Ticks:
    step = next((one for one in _SECS if (high - low) / one <= 4), _SECS[-1])
    form = next(form for least, form in _FORMATS.items() if step >= least)
    ats = range(math.ceil(low / step) * step, math.floor(high) + 1, step)
    return [(at, time.strftime(form, time.gmtime(at))) for at in ats]


def scaled(value: float, *, by: int = 1000) -> str:
    """Format a number on an axis.

    >>> [scaled(value) for value in (0, 0.001, 2.5, 1000, 1_500_000, 1e10)]
    ['0', '0.001', '2.5', '1k', '1.5M', '10G']
    >>> [scaled(1 << bits, by=1024) for bits in (9, 12, 20)]
    ['512', '4k', '1M']
    """
    unit = 0
    while abs(value) >= by and unit < 4:
        value, unit = value / by, unit + 1
    return f"{value:g}{'kMGT'[unit - 1 : unit]}"
