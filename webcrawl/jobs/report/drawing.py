"""Drawings by matplotlib: SVG for the page, whose style sheet sets the colours, and files.

Text stays text, in the page's font. A drawing is made so small that its text can be read on a
narrow screen.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any, Final

from webcrawl.jobs.report.figures import Bars, Columns, Points, Ranges, Steps, binary

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

    from webcrawl.jobs.report.figures import Drawing

#: The package that draws.
PACKAGE: Final = "matplotlib"
#: The colours of files, which are light, and the variables of the style sheet that stand for them.
COLOURS: Final = {
    "#1c2430": "ink",
    "#566071": "muted",
    "#d5dae1": "grid",
    "#2a67ab": "mark",
    "#b4540a": "second",
    "#fdfdfe": "panel",
}
_INK, _MUTED, _GRID, _MARK, _SECOND, _PANEL = COLOURS

# 72 units an inch: the page shows a unit as 0.9 to 1.3 pixels.
_WIDTH: Final = 5.0
_HEIGHT: Final = 3.0
_BAR: Final = 0.25
_MOST_LABELS: Final = 10
# With fewer, a logarithmic axis is labelled between its powers, too.
_FEW_DECADES: Final = 300
_MARGIN: Final = 1.5
_STYLE: Final[Any] = {  # mypy would have each name as a Literal
    "axes.edgecolor": _MUTED,
    "axes.facecolor": _PANEL,
    "axes.grid.axis": "y",
    "axes.labelcolor": _MUTED,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.linewidth": 0.8,
    "figure.facecolor": _PANEL,
    "font.size": 11,
    "grid.color": _GRID,
    "grid.linewidth": 0.8,
    "savefig.dpi": 160,
    "svg.fonttype": "none",
    "text.color": _INK,
    "text.parse_math": False,  # labels come from strangers
    "xtick.color": _MUTED,
    "ytick.color": _MUTED,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
}
_UNITS: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def drawn(drawing: Drawing) -> Canvas:
    """*drawing* as a figure of matplotlib; 60 ms."""
    import matplotlib as mpl  # noqa: PLC0415  a plain crawl does without
    from matplotlib.figure import Figure  # noqa: PLC0415

    with mpl.rc_context({**mpl.rcParamsDefault, **_STYLE}):
        height = _HEIGHT
        if isinstance(drawing, Bars):
            height = 0.2 + _BAR * len(drawing.labels)
        canvas = Figure(figsize=(_WIDTH, height), layout="constrained")
        axes = canvas.add_subplot()
        axes.set_axisbelow(True)
        match drawing:
            case Bars():
                _bars(axes, drawing)
            case Columns():
                _columns(axes, drawing)
            case Steps():
                _steps(axes, drawing)
            case Points():
                _points(axes, drawing)
            case Ranges():
                _ranges(axes, drawing)
    return canvas


def save_png(canvas: Canvas, path: Path) -> None:
    """Write *canvas* to *path* as PNG."""
    import matplotlib as mpl  # noqa: PLC0415

    with mpl.rc_context(_STYLE):
        canvas.savefig(path, format="png")


def svg_of(canvas: Canvas) -> str:
    """*canvas* as an SVG document."""
    import matplotlib as mpl  # noqa: PLC0415

    file = io.StringIO()
    with mpl.rc_context(_STYLE):
        canvas.savefig(file, format="svg", metadata={"Date": None})
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


def _bars(axes: Axes, drawing: Bars) -> None:
    places = range(len(drawing.labels))
    axes.barh(places, drawing.values, color=_MARK, height=0.68)
    axes.set_yticks(places, drawing.labels)
    axes.set_ylim(len(drawing.labels) - 0.5, -0.5)
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    longest = max(drawing.values, default=0) or 1
    axes.set_xlim(0, longest * 1.22)
    for place, value, text in zip(places, drawing.values, drawing.texts, strict=True):
        axes.text(value + longest * 0.015, place, text, va="center")


def _columns(axes: Axes, drawing: Columns) -> None:
    places = range(len(drawing.labels))
    axes.bar(places, drawing.values, color=_MARK, width=0.8)
    step = -(-len(drawing.labels) // _MOST_LABELS)
    axes.set_xticks(places[::step], drawing.labels[::step])
    _linear(axes, drawing)


def _steps(axes: Axes, drawing: Steps) -> None:
    axes.stairs(drawing.values, drawing.edges, fill=True, color=_MARK, alpha=0.22)
    axes.stairs(drawing.values, drawing.edges, baseline=None, color=_MARK, linewidth=1.4)
    for stop in drawing.stops:
        axes.axvline(stop, color=_SECOND, linewidth=1, linestyle=(0, (4, 3)))
    axes.set_xlim(drawing.edges[0], drawing.edges[-1])
    axes.xaxis.set_major_formatter(_short)
    _linear(axes, drawing)


def _linear(axes: Axes, drawing: Columns | Steps) -> None:
    axes.set_ylim(bottom=0)
    axes.locator_params(axis="y", nbins=5)
    axes.yaxis.set_major_formatter(_short)
    axes.grid(visible=True)
    axes.set_xlabel(drawing.x)
    axes.set_ylabel(drawing.y)


def _points(axes: Axes, drawing: Points) -> None:
    axes.plot(drawing.xs, drawing.ys, color=_MARK, marker="o", markersize=3, linewidth=1.2)
    _logarithmic(axes, drawing, drawing.ys)
    axes.set_yscale("log", base=4)
    axes.yaxis.set_major_formatter(lambda value, _: binary(round(value)))
    axes.minorticks_off()


def _ranges(axes: Axes, drawing: Ranges) -> None:
    axes.vlines(drawing.xs, drawing.lows, drawing.highs, color=_MARK, alpha=0.4, linewidth=5)
    axes.plot(drawing.xs, drawing.middles, color=_MARK, marker="o", markersize=4.5, linewidth=0)
    _logarithmic(axes, drawing, [*drawing.lows, *drawing.highs])


def _logarithmic(axes: Axes, drawing: Points | Ranges, ys: list[float]) -> None:
    from matplotlib.ticker import LogLocator  # noqa: PLC0415

    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis, values in ((axes.xaxis, drawing.xs), (axes.yaxis, ys)):
        low, high = min(values) / _MARGIN, max(values) * _MARGIN
        axis.set_view_interval(low, high, ignore=True)
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < _FEW_DECADES * low else (1,)))
        axis.set_major_formatter(_short)
    axes.minorticks_off()
    axes.grid(visible=True, axis="both")
    axes.set_xlabel(drawing.x)
    axes.set_ylabel(drawing.y)


def _short(value: float, _position: object = None) -> str:
    """A number on an axis.

    >>> [_short(value) for value in (0, 0.001, 2.5, 1000, 1_500_000, 1e10)]
    ['0', '0.001', '2.5', '1k', '1.5M', '10G']
    """
    for unit, name in _UNITS:
        if abs(value) >= unit:
            return f"{value / unit:g}{name}"
    return f"{value:g}"
