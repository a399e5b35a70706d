"""Figures of the report as data: what is to be seen, in words, in numbers and as a drawing.

Nothing here knows of the crawl or of the plotting library. Texts may come from strangers (hosts,
content types): whoever prints them escapes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

Cell: TypeAlias = str | int | float

#: A number that is not known.
UNKNOWN: Final = "not known"

#: The name of all that is not counted by its own.
OTHERS: Final = "all others"

_LONGEST_LABEL: Final = 26
_MOST_BARS: Final = 12
_MOST_ROWS: Final = 50


class Bars(NamedTuple):
    """Horizontal bars, from the top, each with its *values* and *texts*."""

    labels: list[str]
    values: list[float]
    texts: list[str]


class Columns(NamedTuple):
    """Vertical bars side by side."""

    labels: list[str]
    values: list[float]
    x: str
    y: str


class Steps(NamedTuple):
    """Values over the time of the crawl.

    Each holds from one of *edges* to the next. Vertical lines at *stops*.
    """

    edges: list[float]
    values: list[float]
    stops: list[float]
    x: str
    y: str


class Points(NamedTuple):
    """Points joined by a line, on logarithmic axes."""

    xs: list[float]
    ys: list[float]
    x: str
    y: str


class Ranges(NamedTuple):
    """Points with vertical ranges, on logarithmic axes."""

    xs: list[float]
    lows: list[float]
    middles: list[float]
    highs: list[float]
    x: str
    y: str


Drawing: TypeAlias = Bars | Columns | Steps | Points | Ranges


class Table(NamedTuple):
    """Rows of text and numbers."""

    head: tuple[str, ...]
    rows: list[tuple[Cell, ...]]


class Figure(NamedTuple):
    """A *drawing* with the *table* of its numbers, or a table alone.

    *lead* are sentences that say what is to be seen, or why nothing is. *name* is that of its
    files.
    """

    name: str
    title: str
    lead: str
    table: Table | None = None
    drawing: Drawing | None = None


class Section(NamedTuple):
    """Figures that belong together."""

    title: str
    figures: list[Figure]


class Report(NamedTuple):
    """All that stands on the page.

    *summary* are pairs of a word and a number with its unit.
    """

    title: str
    subtitle: str
    summary: list[tuple[str, str]]
    sections: list[Section]


def share(part: float, whole: float) -> str:
    """*part* in percent.

    >>> share(1, 3), share(1, 100_000), share(0, 0)
    ('33.3 %', '< 0.1 %', '0 %')
    """
    if not part or not whole:
        return "0 %"
    percent = 100 * part / whole
    return f"{percent:.1f} %" if percent >= 0.1 else "< 0.1 %"


def size(count: float) -> str:
    """*count* bytes for people.

    >>> [size(count) for count in (0, 999, 1000, 1_234_567, 5e12)]
    ['0 B', '999 B', '1.0 kB', '1.2 MB', '5.0 TB']
    """
    if count < 1000:
        return f"{count:.0f} B"
    for unit in ("kB", "MB", "GB", "TB"):
        count /= 1000
        if count < 999.95:
            return f"{count:.1f} {unit}"
    return f"{count / 1000:,.1f} PB"


def binary(count: int) -> str:
    """*count* as Mercator's axes have it.

    >>> [binary(count) for count in (512, 4096, 1 << 20, 1 << 30)]
    ['512', '4K', '1M', '1G']
    """
    for unit, name in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if count >= unit:
            return f"{count // unit}{name}"
    return str(count)


def dollars(amount: float) -> str:
    """*amount* to the cent.

    >>> dollars(0.001), dollars(1234.5), dollars(0)
    ('less than $0.01', '$1,234.50', '$0.00')
    """
    return "less than $0.01" if 0 < amount < 0.01 else f"${amount:,.2f}"


def span(secs: float) -> str:
    """*secs* for people.

    >>> [span(secs) for secs in (0.4, 9, 100, 5400, 141_900, 1_500_000)]
    ['0.4 s', '9 s', '100 s', '90 min', '39.4 h', '17.4 days']
    """
    if secs < 600:
        return f"{secs:.2g} s" if secs < 10 else f"{secs:.0f} s"
    if secs < 7200:
        return f"{secs / 60:.0f} min"
    return f"{secs / 3600:.1f} h" if secs < 172_800 else f"{secs / 86_400:.1f} days"


def pause(secs: float) -> str:
    """*secs* with two or three digits.

    >>> [pause(secs) for secs in (0.0123, 1.234, 12.34, 1234.5)]
    ['0.012 s', '1.23 s', '12.3 s', '1,234 s']
    """
    if secs < 1:
        return f"{secs:.3f} s"
    return f"{secs:.2f} s" if secs < 10 else f"{secs:.1f} s" if secs < 100 else f"{secs:,.0f} s"


def label(text: str) -> str:
    """*text* short enough for an axis, and of characters that every font has."""
    text = text.encode("ascii", "replace").decode()
    text = "".join(one if one.isprintable() else "?" for one in text)
    return text if len(text) <= _LONGEST_LABEL else f"{text[: _LONGEST_LABEL - 3]}..."


def rate(count: float, of: float) -> float:
    """*count* a unit *of* something; 0 if there is none of it."""
    return count / of if of else 0.0


def empty(name: str, title: str, why: str = "No pages yet.") -> Figure:
    """A figure that has nothing to show, and says *why*."""
    return Figure(name, title, why)


def top(counts: Mapping[str, int], most: int) -> dict[str, int]:
    """The *most* largest of *counts*, the first of them first, and what all others have."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    found = dict(ordered[:most])
    if others := sum(count for _, count in ordered[most:]):
        found[OTHERS] = found.get(OTHERS, 0) + others
    return found


def bars(counts: Mapping[str, int], *, whole: float, what: str, of: str) -> tuple[Table, Bars]:
    """Table and drawing of the largest of *counts*, the first at the top, with their shares in
    *whole*; *what* the names and *of* the numbers are."""
    rows: list[tuple[Cell, ...]] = [
        (name, count, share(count, whole)) for name, count in top(counts, _MOST_ROWS).items()
    ]
    shown = top(counts, _MOST_BARS)
    drawing = Bars(
        [label(name) for name in shown],
        list(map(float, shown.values())),
        [share(count, whole) for count in shown.values()],
    )
    return Table((what, of, "share"), rows), drawing
