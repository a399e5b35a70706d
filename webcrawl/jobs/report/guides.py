"""Finds the guides of docs/howto, which the monitor shows where messages name them.

They are next to the package in a checkout, and installed as ``webcrawl_docs``.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import NamedTuple

from webcrawl.wording import escape_controls

_ROOT = Path(__file__).parents[3]
_DIRECTORIES = (_ROOT / "docs" / "howto", _ROOT / "webcrawl_docs")
_PATH = re.compile(r"docs/howto/([\w-]+)\.md(#[\w-]+)?")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_HEADING = re.compile(r"^#{1,4} (.+)$", re.MULTILINE)
# A link to another guide or to a heading, in Markdown.
_LINK = re.compile(r"\[([^\]\[]+)\]\((?:([\w-]+)\.md)?(#[\w-]+)?\)")


class Section(NamedTuple):
    """Section of a guide; *text* is escaped Markdown, with its links to other guides as HTML."""

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
        linked = _LINK.sub(_as_html, escape(text.strip()))
        sections.append(Section(heading, _anchor_of(heading), linked))
    return sections


def _anchor_of(heading: str) -> str:
    """Return the anchor that GitHub gives to *heading*."""
    return re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")


def _as_html(match: re.Match[str]) -> str:
    """Return a link in Markdown as HTML, if it leads to a guide or a heading."""
    text, name, anchor = match.groups(default="")
    if name and name not in guide_names():
        return match[0]
    return f'<a href="{name}{anchor}">{text}</a>'
