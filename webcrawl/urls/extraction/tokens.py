"""Tags, comments and raw text of HTML: where each ends according to the HTML Standard's tokenizer.

Used to search a page without building a tree: ``thinning``, ``foreign``. All functions take time
linear in the text they skip.
"""

from __future__ import annotations

import re

RAW_TEXT = frozenset(
    (b"script", b"style", b"textarea", b"title", b"iframe", b"xmp", b"noembed", b"noframes")
)
"""Elements whose content the parser reads as text, outside SVG and MathML."""

NAME = re.compile(rb"[A-Za-z]+")

# An attribute, and a tag: HTML Standard, "tag name state" to "after attribute value (quoted)
# state". A quote that begins a value and is not closed extends to the end of the text. Anywhere
# else a quote is a character of a name or of a value.
_SPACE = rb"[\t\n\f\r ]"
ATTRIBUTE = re.compile(
    rb"""([^\t\n\f\r />][^\t\n\f\r />=]*+)(?:SPACE*+=SPACE*+(?:"([^"]*+)"?+|'([^']*+)'?+"""
    rb"""|([^\t\n\f\r >]*+)))?+""".replace(b"SPACE", _SPACE)
)
FINISHED = re.compile(
    rb"([^\t\n\f\r />]*+)(?:[\t\n\f\r /]*+ATTRIBUTE)*+([\t\n\f\r /]*+)>".replace(
        b"ATTRIBUTE", re.sub(rb"\((?!\?)", b"(?:", ATTRIBUTE.pattern)
    )
)
"""A tag after its ``<`` or ``</``: its name, and what is before the ``>``."""

TEMPLATE = re.compile(
    rb"""<(/?)template(?=[\t\n\f\r />])(?:[^<>]*?[\t\n\f\r /"']shadowrootmode[\t\n\f\r ]*+="""
    rb"""[\t\n\f\r ]*+["']?(open|closed)(?=["'\t\n\f\r >]))?""",
    re.IGNORECASE,
)
"""The beginning of a template tag: the slash of an end tag, and the mode of a shadow root."""

_COMMENT_END = re.compile(rb"--!?>")
_END_TAGS = {name: re.compile(rb"</%b(?=[\t\n\f\r />])" % name, re.IGNORECASE) for name in RAW_TEXT}
# Marks that change how a script is read, or end it: "script data double escaped state".
_SCRIPT_MARK = re.compile(rb"(<!--(?!-*>))|-->|<(/?)script(?=[\t\n\f\r />])", re.IGNORECASE)


def comment_end(body: bytes, start: int) -> int:
    """Return where the comment with its ``<!--`` at *start* ends, else the length of *body*."""
    first = start + 4
    for short in (b">", b"->"):
        if body.startswith(short, first):
            return first + len(short)
    match = _COMMENT_END.search(body, first)
    return len(body) if match is None else match.end()


def raw_text_end(body: bytes, start: int, name: bytes) -> int:
    """Return where the end tag of the element *name*, one of ``RAW_TEXT``, begins.

    Its content begins at *start*. Returns the length of *body* if there is no end tag.
    """
    found = _END_TAGS[name].search(body, start)
    if found is None:
        return len(body)
    if name == b"script" and body.find(b"<!--", start, found.start()) >= 0:
        return _script_end(body, start)
    return found.start()


def _script_end(body: bytes, start: int) -> int:
    """Return where a script ends; a script inside a comment of a script has its own end tag."""
    escaped = doubly = False
    for found in _SCRIPT_MARK.finditer(body, start):
        if found[1]:
            escaped = True
        elif found[2] is None:
            escaped = doubly = False
        elif found[2] and not doubly:
            return found.start()
        elif escaped:
            doubly = not found[2]
    return len(body)
