"""References in attributes and headers: meta refresh, srcset and relations.

Shared by HTML (``extraction``), the ``Link`` and ``Refresh`` headers (``header_links``) and Atom
(``feeds``). Pure functions of strings that never raise; all linear in the length of their value.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

RELATIONS: Final = (
    "stylesheet", "canonical", "next", "prev", "alternate", "icon", "sitemap", "manifest",
)  # fmt: skip
"""Relations with a kind of their own, the deciding one first: an alternate style sheet is a style
sheet. A link of any other relation is of the kind ``link``."""

MAX_CANDIDATES: Final = 100
"""Of one ``srcset``: real ones have up to twenty."""

# HTML Standard, "shared declarative refresh steps": seconds, a separator, optional url=, the URL.
_REFRESH: Final = re.compile(
    r"""\s*(?:\d+(?:\.[\d.]*)?|\.[\d.]*)(?:\s*[;,]\s*|\s+)(?:url\s*=\s*)?"""
    r"""(?:"([^"]*)|'([^']*)|(.+))""",
    re.IGNORECASE | re.DOTALL,
)

# HTML Standard, "parse a srcset attribute": white space and commas, then all that is not white
# space; then, unless that ended with a comma, descriptors up to a comma outside parentheses.
_CANDIDATE: Final = re.compile(r"[ \t\n\f\r,]*+([^ \t\n\f\r]++)")
_DESCRIPTORS: Final = re.compile(r"((?:[^,(]++|\([^)]*+(?:\)|\Z))*+),?+")
_DENSITY: Final = re.compile(r"-?0(?:\.0*)?x|(?:\d+|\d*\.\d+)(?:[eE][+-]?\d+)?x", re.ASCII)
_WIDTH: Final = re.compile(r"0*[1-9]\d*w", re.ASCII)
_HEIGHT: Final = re.compile(r"0*[1-9]\d*h", re.ASCII)


def refresh_target(content: str) -> str:
    """The reference in the *content* of a meta refresh or a ``Refresh`` header, "" without one."""
    found = _REFRESH.match(content)
    if found is None:
        return ""
    return (found[1] or found[2] or found[3] or "").strip()


def srcset_references(value: str) -> Iterator[str]:
    """The references of the image candidates that a browser would choose from."""
    position = 0
    for _ in range(MAX_CANDIDATES):
        found = _CANDIDATE.match(value, position)
        if found is None:
            return
        position = found.end()
        reference = found[1]
        if reference.endswith(","):
            yield reference.rstrip(",")
            continue
        descriptors = _DESCRIPTORS.match(value, position)
        assert descriptors is not None  # the expression matches nothing, too
        position = descriptors.end()
        if _are_descriptors(descriptors[1].split()):
            yield reference


def _are_descriptors(words: list[str]) -> bool:
    if len(words) <= 1:
        return not words or bool(_WIDTH.fullmatch(words[0]) or _DENSITY.fullmatch(words[0]))
    # The only pair that is allowed, in either order
    width, height = sorted(words, key=lambda word: word[-1], reverse=True)[:2]
    return len(words) == 2 and bool(_WIDTH.fullmatch(width) and _HEIGHT.fullmatch(height))


def relation_kind(relations: Collection[str]) -> str:
    """The kind of a link with these lower-case *relations*: one of ``RELATIONS`` or ``link``."""
    for relation in RELATIONS:
        if relation in relations:
            return relation
    if any(relation.endswith("-icon") for relation in relations):
        return "icon"  # apple-touch-icon, mask-icon
    return "link"
