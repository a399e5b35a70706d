"""Renders the report as HTML: a single file that runs no script, or a live page.

All text is escaped, and control characters are made visible. The Content-Security-Policy of the
static page allows only its own style, by its digest.
"""

from __future__ import annotations

import re
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
    from webcrawl.jobs.search import SearchResult

#: Number of hits on a page of a search.
HITS_SHOWN = 10
# A number, with or without a unit; not a date or a range.
_NUMBER = re.compile(r"[<$]? ?\d[\d,]*(\.\d+)?([%+]| ?[A-Za-z]\w*)?")


def page(model: ReportPage) -> str:
    """Render *model* as an HTML document; a live page if it has the fields of one."""
    style = asset("page.css")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    return _templates().get_template("page.html").render(page=model, style=style, digest=digest)


def first_screen(model: ReportPage) -> str:
    """Render the HTML element ``#now`` of *model*, which the script of the live page updates."""
    return _templates().get_template("now.html").render(page=model)


def ask_for_token(title: str) -> str:
    """Render the page that asks for the token of the crawl called *title*."""
    return _templates().get_template("token.html").render(title=title)


def search_page(title: str, words: str, result: SearchResult | None, offset: int) -> str:
    """Render the page of a search in the crawl called *title*; *result* begins at *offset*."""
    template = _templates().get_template("search.html")
    return template.render(title=title, words=words, result=result, offset=offset, step=HITS_SHOWN)


def drawing(figure: Figure) -> str:
    """Render the chart of *figure* as an SVG document for the reader's light or dark mode."""
    return _templates().get_template("drawing.svg").render(figure=figure)


def write_drawings(directory: Path, figures: Iterable[Figure]) -> None:
    """Write the charts of *figures* as SVG files to *directory*."""
    directory.mkdir(parents=True, exist_ok=True)
    for figure in figures:
        if figure.chart is not None:
            (directory / f"{figure.name}.svg").write_text(drawing(figure), "utf-8")


def asset(name: str) -> str:
    """Return the file *name*, ``page.css`` or ``page.js``, which the live page loads."""
    return _templates().get_template(name).render()


@cache
def _templates() -> Environment:
    """Return the environment of the templates, which escapes all text."""
    templates = Environment(
        loader=PackageLoader("webcrawl.jobs.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_format,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {"laid_out": laid_out, "columns": _column_classes}
    templates.globals |= {"moment": moment, "width": WIDTH}
    return templates


def _format(value: object) -> object:
    """Format *value* for display, ready to be escaped; values that are markup stay as they are."""
    # Only codes are negative.
    if isinstance(value, (int, float)) and value >= 0:
        return f"{value:,}"
    return value if hasattr(value, "__html__") else visible(str(value))


def _column_classes(table: Table) -> list[str]:
    """Return the CSS class of each column of *table*."""
    columns = zip(*table.rows, strict=True)
    return ["number" if all(map(_is_number, column)) else "" for column in columns]


def _is_number(cell: Cell) -> bool:
    """Return whether *cell* is a number, with or without a unit."""
    return not isinstance(cell, str) or cell == UNKNOWN or bool(_NUMBER.fullmatch(cell))
