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

from webcrawl.jobs.inspect.examination import facts_of
from webcrawl.jobs.inspect.why_text import moment
from webcrawl.jobs.report.chart import WIDTH, laid_out
from webcrawl.jobs.report.figures import UNKNOWN, Cell, Table
from webcrawl.jobs.report.guides import with_guides
from webcrawl.wording import escape_controls

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webcrawl.jobs.report.model import ReportPage

#: Number of hits on a page of a search.
HITS_SHOWN = 10
# The name of a setting that is not followed by its value, and a value that is advised.
_SETTING = re.compile(r"\b[A-Z]+(?:_[A-Z]+)+\b(?! \()(?:=[\d.]+)?")
# A number, with or without a unit; not a date or a range.
_NUMBER = re.compile(r"[<$]? ?\d[\d,]*(\.\d+)?([%+]| ?[A-Za-z]\w*)?")


def page(model: ReportPage) -> str:
    """Render *model* as an HTML document; a live page if it has the fields of one."""
    style = render("page.css")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    return render("page.html", page=model, style=style, digest=digest)


def render(template: str, **values: object) -> str:
    """Render the file *template* of templates/ with *values*, of which none may be missing.

    now.html is the element ``#now`` of ``page``, which the script of the live page updates.
    guide.html shows the ``sections`` of a guide. token.html asks for the token of the crawl called
    ``title``. search.html has the ``result`` of a search, from the hit ``offset`` on, in pages of
    ``step`` hits. drawing.svg is the chart of ``figure``, for the reader's light or dark mode.
    """
    return _templates().get_template(template).render(**values)


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
    templates.filters |= {"with_values": with_values, "with_guides": with_guides}
    templates.globals |= {"moment": moment, "facts_of": facts_of, "width": WIDTH}
    return templates


def with_values(text: str, settings: Mapping[str, object]) -> str:
    """Return *text* with the present value of each of the *settings* that it names.

    >>> with_values("raise BANDWIDTH_MAX", {"BANDWIDTH_MAX": 8000})
    'raise BANDWIDTH_MAX (now 8,000)'
    >>> with_values("less than RATE_MAX (8 kB)", {"RATE_MAX": 8000})
    'less than RATE_MAX (8 kB)'
    """

    def add_value(match: re.Match[str]) -> str:
        name = match[0].partition("=")[0]
        return f"{match[0]} (now {_format(settings[name])})" if name in settings else match[0]

    return _SETTING.sub(add_value, text)


def _format(value: object) -> object:
    """Format *value* for display, ready to be escaped; values that are markup stay as they are."""
    # Negative numbers are status codes, which are not divided into thousands.
    if isinstance(value, (int, float)) and value >= 0:
        return f"{value:,}"
    return value if hasattr(value, "__html__") else escape_controls(str(value))


def _column_classes(table: Table) -> list[str]:
    """Return the CSS class of each column of *table*."""
    columns = zip(*table.rows, strict=True)
    return ["number" if all(map(_is_number, column)) else "" for column in columns]


def _is_number(cell: Cell) -> bool:
    """Return whether *cell* is a number, with or without a unit."""
    return not isinstance(cell, str) or cell == UNKNOWN or bool(_NUMBER.fullmatch(cell))
