"""Page of the report: one HTML file that needs nothing else, and runs no script.

All text is escaped, and the page forbids itself everything but its own style.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from webcrawl.jobs.report.drawing import as_element, drawn, save_png, svg_of
from webcrawl.jobs.report.figures import UNKNOWN
from webcrawl.jobs.report.style import STYLE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from webcrawl.jobs.report.figures import Cell, Figure, Report, Table

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_HEAD: Final = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header>
<h1>{title}</h1>
<p>{subtitle}</p>
</header>
<main>
"""


def page(report: Report, *, files: Path | None = None) -> str:
    """*report* as HTML; its drawings also as SVG and PNG in the directory *files*."""
    return "".join(_parts(report, files))


def _parts(report: Report, files: Path | None) -> Iterator[str]:
    title, subtitle = escape(report.title), escape(report.subtitle)
    yield _HEAD.format(policy=escape(_POLICY), title=title, subtitle=subtitle, style=STYLE)
    yield '<dl class="summary">\n'
    for word, number in report.summary:
        yield f"<div><dt>{escape(word)}</dt><dd>{escape(number)}</dd></div>\n"
    yield "</dl>\n"
    for section in report.sections:
        yield f"<section>\n<h2>{escape(section.title)}</h2>\n"
        tables = [one for one in section.figures if one.table and not one.drawing]
        others = [one for one in section.figures if one not in tables]
        for kind, figures in (("figures", others), ("tables", tables)):
            if figures:
                yield f'<div class="{kind}">\n'
                for figure in figures:
                    yield from _figure(figure, files)
                yield "</div>\n"
        yield "</section>\n"
    yield "</main>\n</body>\n</html>\n"


def _figure(figure: Figure, files: Path | None) -> Iterator[str]:
    title, lead = escape(figure.title), escape(figure.lead)
    yield f'<figure id="{figure.name}" aria-label="{title}">\n<h3>{title}</h3>\n<p>{lead}</p>\n'
    if figure.drawing is not None:
        canvas = drawn(figure.drawing)
        svg = svg_of(canvas)
        if files is not None:
            (files / f"{figure.name}.svg").write_text(svg, "utf-8")
            save_png(canvas, files / f"{figure.name}.png")
        yield as_element(svg, name=figure.name, title=f"{title}. {lead}")
    if figure.table is not None:
        table = _table(figure.table)
        if figure.drawing is not None:
            head = f'<summary aria-label="Numbers: {title}">Numbers</summary>'
            table = f"<details>\n{head}\n{table}</details>\n"
        yield table
    yield "</figure>\n"


def _table(table: Table) -> str:
    numbers = [
        all(_is_number(row[column]) for row in table.rows) for column in range(len(table.head))
    ]
    styles = [' class="number"' if is_number else "" for is_number in numbers]
    head = "".join(
        f'<th scope="col"{style}>{escape(name)}</th>'
        for name, style in zip(table.head, styles, strict=True)
    )
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td{style}>{escape(_text(cell))}</td>"
            for cell, style in zip(row, styles, strict=True)
        )
        + "</tr>\n"
        for row in table.rows
    )
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n"


def _is_number(cell: Cell) -> bool:
    """Whether *cell* is one, or one with its unit."""
    return not isinstance(cell, str) or cell == UNKNOWN or cell[:1] in "0123456789<$"


def _text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else f"{cell:,}"
