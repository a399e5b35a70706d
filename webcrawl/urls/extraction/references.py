"""References in attributes and headers: meta refresh, srcset and relations; escaped characters.

Used for HTML (``html``), for the ``Link`` and ``Refresh`` headers (``header_links``), and for XML
and CSS. These are
pure functions of strings. They never raise, and take time linear in the length of their argument.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator

#: Relations with a kind of their own, in order of precedence: an alternate style sheet, for
#: example, is a style sheet. A link with any other relation has the kind ``link``.
RELATIONS = (
    "stylesheet", "canonical", "next", "prev", "alternate", "icon", "sitemap", "manifest",
)  # fmt: skip

#: Limit of the candidates read of one ``srcset``; real ones have up to twenty.
MAX_CANDIDATES = 100

# HTML Standard, "shared declarative refresh steps": seconds, a separator, optional url=, the URL.
_REFRESH = re.compile(
    r"""\s*(?:\d+(?:\.[\d.]*)?|\.[\d.]*)(?:\s*[;,]\s*|\s+)(?:url\s*=\s*)?"""
    r"""(?:"([^"]*)|'([^']*)|(.+))""",
    re.IGNORECASE | re.DOTALL,
)

# HTML Standard, "parse a srcset attribute": white space and commas, then the URL (text without
# white space, and without commas at its end), then descriptors up to a comma outside parentheses.
_CANDIDATE = re.compile(
    r"[ \t\n\f\r,]*+([^ \t\n\f\r]*[^ \t\n\f\r,])(?:[^,(]++|\([^)]*+(?:\)|\Z))*+"
)


def character(code_point: int) -> str:
    """Return the character with *code_point*, the number in an escape; U+FFFD if there is none."""
    is_valid = 0 < code_point <= 0x10FFFF and not 0xD800 <= code_point <= 0xDFFF
    return chr(code_point) if is_valid else "\ufffd"


def refresh_target(content: str) -> str:
    """Return the reference in the *content* of a meta refresh or ``Refresh`` header, or ""."""
    match = _REFRESH.match(content)
    if match is None:
        return ""
    return (match[1] or match[2] or match[3] or "").strip()


def srcset_references(value: str) -> Iterator[str]:
    """Yield the references of all image candidates in *value*, a ``srcset`` attribute."""
    candidates = _CANDIDATE.finditer(value.rstrip(" \t\n\f\r,"))
    return (candidate[1] for candidate in itertools.islice(candidates, MAX_CANDIDATES))


def relation_kind(relations: Collection[str]) -> str:
    """Return the kind of a link with *relations*: one of ``RELATIONS`` or ``link``.

    *relations* are in lower case.
    """
    for relation in RELATIONS:
        if relation in relations:
            return relation
    if any(relation.endswith("-icon") for relation in relations):
        return "icon"  # apple-touch-icon, mask-icon
    return "link"
