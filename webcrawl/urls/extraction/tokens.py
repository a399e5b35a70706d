"""Ends of tags, comments and raw text in HTML, according to the HTML Standard's tokenizer.

Used by ``thinning``, which searches a page without building a tree. All functions take time linear
in the text they skip.
"""

from __future__ import annotations

import html
import re

#: Elements whose content the parser reads as text, outside SVG and MathML.
RAW_TEXT = frozenset(
    (b"script", b"style", b"textarea", b"title", b"iframe", b"xmp", b"noembed", b"noframes")
)

NAME = re.compile(rb"[A-Za-z]+")

# An attribute, and a tag: HTML Standard, from "tag name state" to "after attribute value (quoted)
# state". A quoted value that is not closed extends to the end of the text. A quote that does not
# begin a value is a character of a name or of a value.
_SPACE = rb"[\t\n\f\r ]"
ATTRIBUTE = re.compile(
    rb"""([^\t\n\f\r />][^\t\n\f\r />=]*+)(?:SPACE*+=SPACE*+(?:"([^"]*+)"?+|'([^']*+)'?+"""
    rb"""|([^\t\n\f\r >]*+)))?+""".replace(b"SPACE", _SPACE)
)
#: A complete tag after its ``<`` or ``</``: its name, and the spaces and slashes before ``>``.
FINISHED = re.compile(
    rb"([^\t\n\f\r />]*+)(?:[\t\n\f\r /]*+ATTRIBUTE)*+([\t\n\f\r /]*+)>".replace(
        b"ATTRIBUTE", re.sub(rb"\((?!\?)", b"(?:", ATTRIBUTE.pattern)
    )
)

#: The beginning of a template tag: the slash of an end tag, and the mode of a shadow root.
TEMPLATE = re.compile(
    rb"""<(/?)template(?=[\t\n\f\r />])(?:[^<>]*?[\t\n\f\r /"']shadowrootmode[\t\n\f\r ]*+="""
    rb"""[\t\n\f\r ]*+["']?(open|closed)(?=["'\t\n\f\r >]))?""",
    re.IGNORECASE,
)

_COMMENT_END = re.compile(rb"--!?>")
_END_TAGS = {name: re.compile(rb"</%b(?=[\t\n\f\r />])" % name, re.IGNORECASE) for name in RAW_TEXT}
# Marks that change how a script is parsed, or end it: "script data double escaped state".
_SCRIPT_MARK = re.compile(rb"(<!--(?!-*>))|-->|<(/?)script(?=[\t\n\f\r />])", re.IGNORECASE)


def attributes_of(tag: bytes) -> dict[str, str]:
    """Return the attributes in *tag*, a tag without its name; names are in lower case."""
    return {
        name.decode("utf-8", "replace").lower(): html.unescape(
            (double_quoted or single_quoted or unquoted).decode("utf-8", "replace")
        )
        # Reversed, so that the first attribute of a name counts.
        for name, double_quoted, single_quoted, unquoted in reversed(ATTRIBUTE.findall(tag))
    }


def comment_end(body: bytes, start: int) -> int:
    """Return the end of the comment that begins with ``<!--`` at *start*, or the end of *body*."""
    text_start = start + 4
    for short_end in (b">", b"->"):
        if body.startswith(short_end, text_start):
            return text_start + len(short_end)
    match = _COMMENT_END.search(body, text_start)
    return len(body) if match is None else match.end()


def raw_text_end(body: bytes, start: int, name: bytes) -> int:
    """Return the position of the end tag of the element *name*, one of ``RAW_TEXT``.

    Its content begins at *start*. Returns the length of *body* if there is no end tag.
    """
    end_tag = _END_TAGS[name].search(body, start)
    if end_tag is None:
        return len(body)
    if name == b"script" and body.find(b"<!--", start, end_tag.start()) >= 0:
        return _script_end(body, start)
    return end_tag.start()


def _script_end(body: bytes, start: int) -> int:
    """Return the position of the end tag of the script whose content begins at *start*.

    A script inside a comment of a script has its own end tag.
    """
    in_comment = False
    in_inner_script = False
    for mark in _SCRIPT_MARK.finditer(body, start):
        if mark[1]:  # <!--
            in_comment = True
        elif mark[2] is None:  # -->
            in_comment = False
            in_inner_script = False
        elif mark[2] and not in_inner_script:  # </script
            return mark.start()
        elif in_comment:  # <script, or the </script of the inner script
            in_inner_script = not mark[2]
    return len(body)
