"""Charts of lines as data, and their layout.

``laid_out`` computes the positions of the marks and texts of a chart for the template
``chart.svg``. The layout contains no colours, but classes that ``chart.css`` defines. Charts are
small, so that their text can be read on a narrow page.
"""

from __future__ import annotations

import math
import time
from itertools import chain, pairwise
from statistics import median
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    #: The x and y values of each line, by its name.
    Series: TypeAlias = Mapping[str, tuple[Sequence[float], Sequence[float]]]
    Ticks: TypeAlias = list[tuple[float, str]]

#: Width of a chart, in units that the page shows as 0.8 to 1.3 pixels.
WIDTH = 300.0
_HEIGHT = 150.0
_TOP = 22.0
_RIGHT = 290.0
_LINE_HEIGHT = 15.0
# Largest width of a character.
_CHAR_WIDTH = 6.6
_COLOURS = 4
# Smallest share of a time axis that is visible as a gap.
_VISIBLE_GAP = 0.05
# Width of the bar for a single interval.
_BAR = 4
# Possible distances of the ticks of a time axis, in seconds.
_SECS = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200),
    *(86_400 * days for days in (1, 2, 7, 14, 28, 91, 182, 364, 1820)),
)
# The time format of ticks whose distance is at least this many seconds.
_FORMATS = {91 * 86_400: "%Y-%m", 86_400: "%m-%d", 60: "%H:%M", 0: "%H:%M:%S"}


class Chart(NamedTuple):
    """Points joined by lines, with a legend for more than one of *series*.

    *x* and *y* are the names of the axes with their units. *is_time* says that the x values are
    epoch seconds. *starts* are x values with a vertical line, at which the crawl was started.
    """

    series: Series
    x: str
    y: str
    is_time: bool = False
    starts: Sequence[float] = ()


class Text(NamedTuple):
    """A text and its position; *anchor* is the ``text-anchor`` of SVG, *kind* its CSS class."""

    x: float
    y: float
    text: str
    anchor: str = "end"
    kind: str = "tick"


class Layout(NamedTuple):
    """Positions of everything that is drawn; each of *marks* is a CSS class and an SVG path."""

    height: float
    marks: list[tuple[str, str]]
    texts: list[Text]


def laid_out(chart: Chart) -> Layout:
    """Compute the layout of *chart*."""
    # Axes, grid and ticks.
    x, y, x_ticks, y_ticks = _scales(chart)
    grid = "".join(f"M{x.start:g} {y.position(value)}H{_RIGHT:g}" for value, _ in y_ticks)
    marks = [("grid", grid), ("axis", f"M{x.start:g} {_TOP:g}V{_HEIGHT:g}H{_RIGHT:g}")]
    starts = [x.position(at) for at in chart.starts]
    marks.append(("start", "".join(f"M{position:g} {_TOP:g}V{_HEIGHT:g}" for position in starts)))
    texts = [Text(x.start - 5, y.position(value) + 4, text) for value, text in y_ticks]
    for position in starts[-1:]:
        anchor = "end" if position > WIDTH / 2 else "start"
        texts.append(Text(position, _TOP - 3, "start", anchor, "name"))
    for value, text in x_ticks:
        # A text that would be cut off at the edge is moved inwards.
        half_width = _CHAR_WIDTH * len(text) / 2
        position = min(max(x.position(value), half_width), WIDTH - half_width)
        texts.append(Text(position, _HEIGHT + 14, text, "middle"))
    texts.append(Text(0, 10, chart.y, "start", "name"))
    texts.append(Text((x.start + _RIGHT) / 2, _HEIGHT + 30, chart.x, "middle", "name"))

    # Lines, and the legend below the chart.
    left = 0.0
    top = _HEIGHT + 30
    for number, (name, values) in enumerate(chart.series.items()):
        style = f"line c{number % _COLOURS}"
        points = [*zip(*values, strict=True)]
        marks.append((style, _path(points, x, y, chart.is_time)))
        if len(chart.series) > 1:
            width = 32 + _CHAR_WIDTH * len(name)  # a piece of the line, and the name
            if not number or left + width > WIDTH:
                left = 0.0
                top += _LINE_HEIGHT
            marks.append((style, f"M{left:g} {top - 4:g}h16"))
            texts.append(Text(left + 20, top, name, "start"))
            left += width
    return Layout(top + 6, marks, texts)


class _Scale(NamedTuple):
    """Maps values between *low* and *high* to positions between *start* and *end*."""

    low: float
    high: float
    start: float
    end: float

    def position(self, value: float) -> float:
        """Return the position of *value* on the axis."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + (self.end - self.start) * share, 1)


def _path(points: Sequence[tuple[float, float]], x: _Scale, y: _Scale, is_time: bool) -> str:
    """Return the SVG path of a line through *points*, with gaps where nothing is known.

    On a time axis, the line has a gap where two points are much further apart than usual, if that
    is visible. The axes are *x* and *y*.
    """
    distances = [after - before for (before, _), (after, _) in pairwise(points)]
    max_distance = math.inf
    if distances and is_time:
        max_distance = max(3 * median(distances), _VISIBLE_GAP * (x.high - x.low))
    # A point that no line leads to or from is a bar.
    begins = [True, *(distance > max_distance for distance in distances), True]
    path = ""
    for number, (x_value, y_value) in enumerate(points):
        at_x, at_y = x.position(x_value), y.position(y_value)
        if begins[number] and begins[number + 1]:
            path += f"M{at_x - _BAR / 2} {at_y}h{_BAR}"
        else:
            path += f"{'M' if begins[number] else 'L'}{at_x} {at_y}"
    return path


def _scales(chart: Chart) -> tuple[_Scale, _Scale, Ticks, Ticks]:
    """Return the x axis, the y axis, the ticks on x and the ticks on y."""
    xs, ys = ([*chain(*values)] for values in zip(*chart.series.values(), strict=True))
    y_ticks = _ticks(0.0, max(ys, default=1.0), max_ticks=5)
    y = _Scale(y_ticks[0][0], y_ticks[-1][0], _HEIGHT, _TOP)

    first = min(xs, default=0.0)
    last = max(xs, default=1.0)
    last = last if last > first else first + 1  # a single point also needs an axis
    if chart.is_time:
        x_ticks = _time_ticks(first, last)
    else:
        # The x axis ends with the values, even between two ticks.
        x_ticks = [tick for tick in _ticks(first, last, max_ticks=6) if first <= tick[0] <= last]

    left = _CHAR_WIDTH * max(len(text) for _, text in y_ticks) + 8
    return _Scale(first, last, left, _RIGHT), y, x_ticks, y_ticks


def _ticks(low: float, high: float, *, max_ticks: int) -> Ticks:
    """Return about *max_ticks* ticks of an axis with the values from *low* to *high*."""
    # The step is 1, 2 or 5 times a power of 10. The tolerances 1e-9 are for rounding errors.
    min_step = (high - low) / max_ticks or 1.0
    power = 10.0 ** math.floor(math.log10(min_step))
    step = next(
        power * factor for factor in (1, 2, 5, 10) if power * factor >= min_step * (1 - 1e-9)
    )
    numbers = range(math.floor(low / step), max(math.ceil(high / step - 1e-9), 1) + 1)
    return [(number * step, _format_scaled(round(number * step, 9))) for number in numbers]


def _time_ticks(low: float, high: float) -> Ticks:
    """Return at most five ticks between the epoch seconds *low* and *high*."""
    step = next((secs for secs in _SECS if (high - low) / secs <= 4), _SECS[-1])
    time_format = next(text for min_step, text in _FORMATS.items() if step >= min_step)
    ticks = range(math.ceil(low / step) * step, math.floor(high) + 1, step)
    return [(at, time.strftime(time_format, time.gmtime(at))) for at in ticks]


def _format_scaled(value: float) -> str:
    """Format *value* for an axis, with a unit prefix for powers of 1000.

    >>> [_format_scaled(value) for value in (0, 0.001, 2.5, 1000, 1_500_000, 1e10)]
    ['0', '0.001', '2.5', '1k', '1.5M', '10G']
    """
    unit = 0
    while abs(value) >= 1000 and unit < 4:
        value = value / 1000
        unit += 1
    return f"{value:g}{'kMGT'[unit - 1 : unit]}"
