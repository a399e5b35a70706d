"""Drawings by matplotlib: SVG for the page, whose style sheet sets the colours, and PNG.

``bars``, ``columns``, ``steps`` and ``lines`` draw on the axes that they are given. Text stays
text, in the page's font. A drawing is made so small that its text can be read on a narrow screen.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

#: What makes a drawing.
Draw: TypeAlias = Callable[["Axes"], None]

#: The package that draws.
PACKAGE: Final = "matplotlib"
#: The colours of files, which are light, and the variables of the style sheet that stand for them.
COLOURS: Final = {
    "#1c2430": "ink",
    "#566071": "muted",
    "#d5dae1": "grid",
    "#fdfdfe": "panel",
    "#2a67ab": "first",
    "#b4540a": "second",
    "#1d7a46": "third",
    "#7b3fb0": "fourth",
}
_INK, _MUTED, _GRID, _PANEL, *_LINES = COLOURS
_MARK, _MARKERS, _DASHES = _LINES[0], "os^D", ("-", "--", ":")

_BAR: Final = 0.25
_MOST_LABELS: Final = 10
_LONGEST_LABEL: Final = 26
# With fewer, a logarithmic axis is labelled between its powers, too.
_FEW_DECADES: Final = 300
_MARGIN: Final = 1.5
_STYLE: Final[Any] = {  # mypy would have each name as a Literal
    "axes.axisbelow": True,
    "axes.edgecolor": _MUTED,
    "axes.facecolor": _PANEL,
    "axes.labelcolor": _MUTED,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.linewidth": 0.8,
    "figure.constrained_layout.use": True,
    "figure.facecolor": _PANEL,
    # 72 units an inch: the page shows a unit as 0.9 to 1.3 pixels.
    "figure.figsize": (5.0, 3.0),
    "font.size": 11,
    "grid.color": _GRID,
    "grid.linewidth": 0.8,
    "legend.fontsize": 10,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "lines.markersize": 3,
    "savefig.dpi": 160,
    "svg.fonttype": "none",
    "text.color": _INK,
    "text.parse_math": False,  # labels come from strangers
    "xtick.color": _MUTED,
    "ytick.color": _MUTED,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
}


def svg_of(draw: Draw, *, png: Path | None = None) -> str:
    """The figure of *draw* as an SVG document, and in the file *png*; 60 ms."""
    import matplotlib as mpl  # noqa: PLC0415  a plain crawl does without
    from matplotlib.figure import Figure  # noqa: PLC0415  # of `make modules`

    file = io.StringIO()
    with mpl.rc_context({**mpl.rcParamsDefault, **_STYLE}):
        canvas = Figure()
        draw(canvas.add_subplot())
        canvas.savefig(file, format="svg", metadata={"Date": None})
        if png is not None:
            canvas.savefig(png)
    return file.getvalue()


def as_element(svg: str, *, name: str, title: str) -> str:
    """The document *svg* as an element for a page: in the colours of the style sheet, as wide as
    there is room, with *title* for who cannot see it, its ids beginning with *name*."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, count=1, flags=re.DOTALL)
    view_box = re.search(r'viewBox="[^"]*"', svg)
    assert view_box is not None
    head = f'<svg {view_box[0]} role="img" aria-label="{title}">'
    svg = head + svg[svg.index(">") + 1 :]
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r"\bfont: ([\d.]+px)[^;\"]*", r"font-size: \1", svg)
    return re.sub("|".join(COLOURS), lambda found: f"var(--{COLOURS[found[0]]})", svg)


def bars(axes: Axes, *, rows: Sequence[tuple[str, float, str]]) -> None:
    """Horizontal bars, from the top: of each *row* a name, a number and its text."""
    names, values, texts = zip(*rows, strict=True)
    axes.figure.set_figheight(0.2 + _BAR * len(rows))  # type: ignore[union-attr]  # no SubFigure
    axes.barh(range(len(rows)), values, color=_MARK, height=0.68)
    axes.set_yticks(range(len(rows)), [_label(name) for name in names])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    longest = max(values) or 1
    axes.set_xlim(0, longest * 1.22)
    for place, (value, text) in enumerate(zip(values, texts, strict=True)):
        axes.text(value + longest * 0.015, place, text, va="center")


def columns(axes: Axes, *, counts: Mapping[str, float], x: str) -> None:
    """Vertical bars side by side, in percent."""
    axes.bar(range(len(counts)), [*counts.values()], color=_MARK)
    step = -(-len(counts) // _MOST_LABELS)
    axes.set_xticks(range(0, len(counts), step), [*counts][::step])
    _name_axes(axes, x, "% of documents")


def steps(axes: Axes, *, edges: Sequence[float], values: Sequence[float], y: str) -> None:
    """Values over time, each from one of *edges*, in epoch seconds, to the next."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter  # noqa: PLC0415  # of `make modules`

    days = [edge / 86_400 for edge in edges]
    axes.stairs(values, days, fill=True, color=_MARK, alpha=0.22)
    axes.stairs(values, days, baseline=None, color=_MARK, linewidth=1.4)
    axes.set_xlim(days[0], days[-1])
    axes.xaxis_date("UTC")
    locator = AutoDateLocator(minticks=3, maxticks=7)  # type: ignore[no-untyped-call]  # no types
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]  # too
    _name_axes(axes, "time (UTC)", y)


def lines(
    axes: Axes,
    *,
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    x: str,
    y: str,
    log: str = "xy",
) -> None:
    """Points joined by lines: of each of *series* the values on both axes. *log* names the axes
    that are logarithmic: "x", "y" or "xy". With more than one of them there is a legend."""
    for number, (name, (xs, ys)) in enumerate(series.items()):
        cycle, place = divmod(number, len(_LINES))
        style = {"color": _LINES[place], "marker": _MARKERS[place], "linestyle": _DASHES[cycle % 3]}
        axes.plot(xs, ys, label=_label(name), **style)  # type: ignore[arg-type]  # mixed
    _name_axes(axes, x, y)
    axes.grid(visible=True, axis="both")
    for place, name in enumerate("xy"):
        if name in log:
            _logarithmic(axes, name, [one for line in series.values() for one in line[place]])
    if len(series) > 1:
        figure = axes.figure
        figure.set_figheight(3 + 0.1 * len(series))  # type: ignore[union-attr]  # no subfigure
        figure.legend(loc="outside lower center", ncols=2)


def _name_axes(axes: Axes, x: str, y: str) -> None:
    axes.set_ylim(bottom=0)
    axes.locator_params(axis="y", nbins=5)
    axes.yaxis.set_major_formatter(scaled)
    axes.grid(visible=True, axis="y")
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def _logarithmic(axes: Any, name: str, values: Sequence[float]) -> None:
    """Make the axis *name* of *axes* logarithmic, with room for *values*."""
    from matplotlib.ticker import LogLocator, NullLocator  # noqa: PLC0415  # of `make modules`

    low, high = min(values) / _MARGIN, max(values) * _MARGIN
    axes.set(**{f"{name}scale": "log", f"{name}lim": (low, high)})
    axis = getattr(axes, f"{name}axis")
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < _FEW_DECADES * low else (1,)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(scaled)


def scaled(value: float, _position: object = None, *, by: int = 1000) -> str:
    """A number on an axis.

    >>> [scaled(value) for value in (0, 0.001, 2.5, 1000, 1_500_000, 1e10)]
    ['0', '0.001', '2.5', '1k', '1.5M', '10G']
    >>> [scaled(1 << bits, by=1024) for bits in (9, 12, 20)]
    ['512', '4k', '1M']
    """
    unit = 0
    while abs(value) >= by and unit < 4:
        value, unit = value / by, unit + 1
    return f"{value:g}{'kMGT'[unit - 1 : unit]}"


def _label(text: str) -> str:
    """*text* short enough for an axis, and of characters that every font has."""
    text = "".join(one if " " <= one <= "~" else "?" for one in text)
    return text if len(text) <= _LONGEST_LABEL else f"{text[: _LONGEST_LABEL - 3]}..."
