"""Page of a crawl as HTML: one file that needs nothing else and runs no script, or live.

All text is escaped, its control characters are shown as what they are, and the frozen page forbids
itself everything but its own style, by its digest.
"""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined

from webcrawl.jobs.inspect.why_text import moment
from webcrawl.jobs.report.chart import WIDTH, laid_out
from webcrawl.jobs.report.figures import UNKNOWN
from webcrawl.wording import visible

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from webcrawl.jobs.report.figures import Cell, Figure, Table
    from webcrawl.jobs.report.model import ReportPage


def page(model: ReportPage) -> str:
    """*model* as an HTML document; live, if it has that part."""
    style = asset("page.css")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    return _templates().get_template("page.html").render(page=model, style=style, digest=digest)


def first_screen(model: ReportPage) -> str:
    """What changes while one looks: the element ``#now`` of the page, for its script."""
    return _templates().get_template("now.html").render(page=model)


def ask_for_token(title: str) -> str:
    """The document for whoever has not given the token of the crawl *title*."""
    return _templates().get_template("token.html").render(title=title)


def drawing(figure: Figure) -> str:
    """The chart of *figure* as a document of SVG, light or dark as its reader is."""
    return _templates().get_template("drawing.svg").render(figure=figure)


def write_drawings(directory: Path, figures: Iterable[Figure]) -> None:
    """The charts of *figures* as files of SVG."""
    directory.mkdir(parents=True, exist_ok=True)
    for figure in figures:
        if figure.chart is not None:
            (directory / f"{figure.name}.svg").write_text(drawing(figure), "utf-8")


def asset(name: str) -> str:
    """``page.css`` or ``page.js``, which the live page loads."""
    return _templates().get_template(name).render()


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader("webcrawl.jobs.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {"laid_out": laid_out, "columns": _columns}
    templates.globals |= {"moment": moment, "width": WIDTH}
    return templates


def _shown(value: object) -> object:
    """*value* as the page shows it, before it is escaped: markup is not."""
    if isinstance(value, (int, float)):
        return f"{value:,}"
    return value if hasattr(value, "__html__") else visible(str(value))


def _columns(table: Table) -> list[str]:
    """The class of each column of *table*."""
    found = zip(*table.rows, strict=True)
    return ["number" if all(map(_is_number, column)) else "" for column in found]


def _is_number(cell: Cell) -> bool:
    """Whether *cell* is one, or one with its unit."""
    return not isinstance(cell, str) or cell == UNKNOWN or cell[:1] in {*"0123456789<$"}
