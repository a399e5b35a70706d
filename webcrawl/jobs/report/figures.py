"""Figures of the report as data: words, numbers and a chart.

This module knows nothing about the crawl. Texts may come from strangers (hosts, content types), so
the code that prints them must escape them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self, TypeAlias
from urllib.parse import urlencode

from webcrawl.jobs.report.chart import Chart

if TYPE_CHECKING:
    from collections.abc import Iterable

Cell: TypeAlias = str | int | float

#: Shown for a number that is not known.
UNKNOWN = "not known"

_PREFIXES = ("", "k", "M", "G", "T")


class Link(str):  # noqa: SLOT000  # a text with slots has no attributes
    """Text of a cell that leads to *url* on the live page."""

    url: str

    def __new__(cls, text: str, url: str) -> Self:
        link = super().__new__(cls, text)
        link.url = url
        return link


def ask_about(question: str) -> Link:
    """Return *question*, a URL or a host, as a link to what the live page says about it."""
    return Link(question, f"./?{urlencode({'url': question})}#ask")


class Table(NamedTuple):
    """Table with the column names *head*, and rows of text and numbers."""

    head: tuple[str, ...]
    rows: Iterable[tuple[Cell, ...]]


class Figure(NamedTuple):
    """A chart together with the table of its numbers, or only a table.

    *lead* says in sentences what can be seen, or why there is nothing to see. *bars* is the number
    of the column whose values the rows also show as bars.
    """

    name: str
    title: str
    lead: str
    table: Table | None = None
    chart: Chart | None = None
    bars: int | None = None


def share(part: float, whole: float) -> str:
    """Format *part* as a percentage of *whole*.

    >>> share(1, 3), share(1, 100_000), share(0, 0)
    ('33.3%', '< 0.1%', '0%')
    """
    if not part or not whole:
        return "0%"
    percent = 100 * part / whole
    return f"{percent:.1f}%" if percent >= 0.1 else "< 0.1%"


def size(number: float) -> str:
    """Format *number*, of bytes, with three significant digits.

    >>> [size(number) for number in (900, 12_345, 7.1e6, 2.25e12)]
    ['900B', '12.3kB', '7.10MB', '2.25TB']
    """
    power = 0
    while number >= 999.5 and power < len(_PREFIXES) - 1:
        number /= 1000
        power += 1
    digits = f"{number:#.3g}".rstrip(".") if power else f"{number:.0f}"
    return f"{digits}{_PREFIXES[power]}B"
