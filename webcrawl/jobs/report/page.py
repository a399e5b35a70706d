"""Page of the report: one HTML file that needs nothing else, and runs no script.

All text is escaped, and the page forbids itself everything but its own style.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from webcrawl.jobs.report.drawing import as_element, svg_of
from webcrawl.jobs.report.figures import UNKNOWN
from webcrawl.jobs.report.style import STYLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
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
{head}
</header>
<main>
"""


def page(report: Report, *, files: Path | None = None) -> str:
    """*report* as HTML; its drawings also as SVG and PNG in the directory *files*."""
    return "".join(_parts(report, files))


def _parts(report: Report, files: Path | None) -> Iterator[str]:
    head = "\n".join(f"<p>{escape(sentence)}</p>" for sentence in report.head)
    yield _HEAD.format(policy=escape(_POLICY), title=escape(report.title), head=head, style=STYLE)
    yield '<dl class="summary">\n'
    for word, number in report.summary:
        yield f"<div><dt>{escape(word)}</dt><dd>{escape(number)}</dd></div>\n"
    yield "</dl>\n"
    for title, figures in report.sections.items():
        yield f'<section>\n<h2>{escape(title)}</h2>\n<div class="figures">\n'
        for figure in figures:
            yield from _figure(figure, files)
        yield "</div>\n</section>\n"
    yield "</main>\n</body>\n</html>\n"


def _figure(figure: Figure, files: Path | None) -> Iterator[str]:
    title, lead = escape(figure.title), escape(figure.lead)
    yield f'<figure id="{figure.name}" aria-label="{title}">\n<h3>{title}</h3>\n<p>{lead}</p>\n'
    table = "" if figure.table is None else _table(figure.table)
    if figure.draw is not None:
        svg = svg_of(figure.draw, png=files and files / f"{figure.name}.png")
        if files is not None:
            (files / f"{figure.name}.svg").write_text(svg, "utf-8")
        yield as_element(svg, name=figure.name, title=f"{title}. {lead}")
        head = f'<summary aria-label="Numbers: {title}">Numbers</summary>'
        table = f"<details>\n{head}\n{table}</details>\n"
    yield f"{table}</figure>\n"


def _table(table: Table) -> str:
    columns = zip(*table.rows, strict=True)
    styles = [' class="number"' if all(map(_is_number, column)) else "" for column in columns]

    def row(cells: Sequence[Cell], start: str, end: str) -> str:
        texts = (escape(one if isinstance(one, str) else f"{one:,}") for one in cells)
        cells_ = zip(styles, texts, strict=True)
        return f"<tr>{''.join(f'<{start}{style}>{text}</{end}>' for style, text in cells_)}</tr>\n"

    rows = "".join(row(cells, "td", "td") for cells in table.rows)
    head = row(table.head, 'th scope="col"', "th")
    return f"<table>\n<thead>{head}</thead>\n<tbody>\n{rows}</tbody>\n</table>\n"


def _is_number(cell: Cell) -> bool:
    """Whether *cell* is one, or one with its unit."""
    return not isinstance(cell, str) or cell == UNKNOWN or cell[:1] in "0123456789<$"
