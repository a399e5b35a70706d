"""Finds the guides of docs/howto, which the monitor shows as HTML where messages name them.

They are next to the package in a checkout, and installed as ``webcrawl_docs``.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from textwrap import indent
from typing import NamedTuple

from webcrawl.wording import escape_controls

_ROOT = Path(__file__).parents[3]
_DIRECTORIES = (_ROOT / "docs" / "howto", _ROOT / "webcrawl_docs")
_PATH = re.compile(r"docs/howto/([\w-]+)\.md(#[\w-]+)?")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_HEADING = re.compile(r"^#{1,4} (.+)$", re.MULTILINE)
_FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Code, bold text, emphasis, and a link or image.
_SPAN = re.compile(
    r"`([^`]+)`|\*\*(.+?)\*\*|\*([^*\s][^*]*)\*|!?\[([^\]\[]+)\]\(([^)\s]+)\)", re.DOTALL
)
# Another guide, or a heading.
_TARGET = re.compile(r"(?:([\w-]+)\.md)?(#[\w-]+)?")
_ITEM = re.compile(r"^(?:-|(\d+)\.) +", re.MULTILINE)
_INDENT = re.compile("^ {4}", re.MULTILINE)
_PRE = '<pre tabindex="0">'
_PRE_END = "</pre>"
_BAR = re.compile(r"(?<!\\)\|")


class Section(NamedTuple):
    """Section of a guide; *text* is its HTML."""

    heading: str
    anchor: str
    text: str


def guide_names() -> set[str]:
    """Return the names of the guides that can be shown."""
    return {path.stem for directory in _DIRECTORIES for path in directory.glob("*.md")}


def guide_url(path: str) -> str:
    """Return the link of the monitor to the guide at *path*; "" if it cannot be shown.

    >>> guide_url("docs/howto/run-it-for-weeks.md#disk"), guide_url("README.md")
    ('help/run-it-for-weeks#disk', '')
    """
    found = _PATH.fullmatch(path)
    return f"help/{found[1]}{found[2] or ''}" if found and found[1] in guide_names() else ""


def with_guides(text: str) -> str:
    """Return *text* as HTML, in which everything is escaped and the paths of guides are links."""

    def link(match: re.Match[str]) -> str:
        url = guide_url(match[0])
        return f'<a href="{url}">{match[0]}</a>' if url else match[0]

    return _PATH.sub(link, escape(escape_controls(text)))


def guide_sections(name: str) -> list[Section]:
    """Return the sections of the guide called *name*, which is one of ``guide_names``.

    Raises OSError.
    """
    path = next(path for one in _DIRECTORIES if (path := one / f"{name}.md").exists())
    parts = _HEADING.split(_COMMENT.sub("", path.read_text("utf-8")))[1:]
    sections = []
    for heading, text in zip(parts[::2], parts[1::2], strict=True):
        blocks = "\n".join(map(_block, re.split(r"\n\n+", _unfenced(escape(text)).strip("\n"))))
        html = blocks.replace(f"{_PRE_END}\n{_PRE}", "\n\n")  # code with empty lines
        sections.append(Section(heading.replace("`", ""), _anchor_of(heading), html))
    return sections


def guide_index() -> Section:
    """Return a section with links to all guides. Raises OSError."""
    links = (
        f'<li><a href="{name}">{escape(guide_sections(name)[0].heading)}</a></li>'
        for name in sorted(guide_names())
    )
    return Section("Guides", "guides", f"<ul>{''.join(links)}</ul>")


def _anchor_of(heading: str) -> str:
    """Return the anchor that GitHub gives to *heading*."""
    return re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")


def _unfenced(text: str) -> str:
    """Return *text* with code between fences indented instead."""
    return _FENCE.sub(lambda code: indent(code[1], "    "), text)


def _block(text: str) -> str:
    """Return a block of escaped Markdown as HTML: code, a table, a list or a paragraph."""
    if text.startswith("    "):
        return f"{_PRE}{_INDENT.sub('', text)}{_PRE_END}"
    if text.startswith("|"):
        head, _, *rows = (_BAR.split(line)[1:-1] for line in text.splitlines())
        table = [_row(head, "th"), *(_row(row, "td") for row in rows)]
        return f'<div class="scroll" tabindex="0"><table>{"".join(table)}</table></div>'
    if match := _ITEM.match(text):
        items = [f"<li>{_spans(item)}</li>" for item in _ITEM.split(text)[2::2]]
        start = f'<ol start="{match[1]}">' if match[1] else "<ul>"
        return f"{start}{''.join(items)}</{start[1:3]}>"
    return f"<p>{_spans(text)}</p>"


def _row(cells: list[str], tag: str) -> str:
    """Return a row of a table with *cells*, elements called *tag*."""
    texts = (_spans(cell.replace("\\|", "|").strip()) for cell in cells)
    return f"<tr>{''.join(f'<{tag}>{text}</{tag}>' for text in texts)}</tr>"


def _spans(text: str) -> str:
    """Return *text*, a part of a block of escaped Markdown, as HTML."""
    return _SPAN.sub(_span, text)


def _span(match: re.Match[str]) -> str:
    """Return a match of ``_SPAN`` as HTML. Only links to guides and headings lead somewhere."""
    code, bold, emphasis, label, target = match.groups()
    if code:
        return f"<code>{code}</code>"
    if bold:
        return f"<strong>{_spans(bold)}</strong>"
    if emphasis:
        return f"<em>{_spans(emphasis)}</em>"
    found = _TARGET.fullmatch(target)
    if found and (not found[1] or found[1] in guide_names()):
        return f'<a href="{found[1] or ""}{found[2] or ""}">{_spans(label)}</a>'
    return f"{_spans(label)} (<code>{target.replace('../', 'docs/')}</code>)"
