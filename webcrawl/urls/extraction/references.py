"""References in attributes and headers: meta refresh, srcset and relations.

Shared by HTML (``extraction``), the ``Link`` and ``Refresh`` headers (``header_links``) and Atom
(``feeds``). Pure functions of strings that never raise; all take time linear in the length of their
argument.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

RELATIONS = (
    "stylesheet", "canonical", "next", "prev", "alternate", "icon", "sitemap", "manifest",
)  # fmt: skip
"""Relations with a kind of their own, by precedence: an alternate style sheet is a style sheet. A
link with any other relation has the kind ``link``."""

MAX_CANDIDATES = 100
"""Candidates of one ``srcset`` that are read; real ones have up to twenty."""

# HTML Standard, "shared declarative refresh steps": seconds, a separator, optional url=, the URL.
_REFRESH = re.compile(
    r"""\s*(?:\d+(?:\.[\d.]*)?|\.[\d.]*)(?:\s*[;,]\s*|\s+)(?:url\s*=\s*)?"""
    r"""(?:"([^"]*)|'([^']*)|(.+))""",
    re.IGNORECASE | re.DOTALL,
)

# HTML Standard, "parse a srcset attribute": white space and commas, then text without white space,
# minus commas at its end; then descriptors up to a comma outside parentheses.
_CANDIDATE = re.compile(
    r"[ \t\n\f\r,]*+([^ \t\n\f\r]*[^ \t\n\f\r,])(?:[^,(]++|\([^)]*+(?:\)|\Z))*+"
)


def refresh_target(content: str) -> str:
    """Return the reference in the *content* of a meta refresh or ``Refresh`` header, or ""."""
    match = _REFRESH.match(content)
    if match is None:
        return ""
    return (match[1] or match[2] or match[3] or "").strip()


def srcset_references(value: str) -> Iterator[str]:
    """Yield the references of the image candidates, whatever their descriptors are."""
    candidates = _CANDIDATE.finditer(value.rstrip(" \t\n\f\r,"))
    return (found[1] for found in itertools.islice(candidates, MAX_CANDIDATES))


def relation_kind(relations: Collection[str]) -> str:
    """Return the kind of a link with lower-case *relations*: one of ``RELATIONS`` or ``link``."""
    for relation in RELATIONS:
        if relation in relations:
            return relation
    if any(relation.endswith("-icon") for relation in relations):
        return "icon"  # apple-touch-icon, mask-icon
    return "link"
