"""References in attributes and headers: meta refresh, srcset and relations.

Shared by HTML (``extraction``), the ``Link`` and ``Refresh`` headers (``header_links``) and Atom
(``feeds``). Pure functions of strings that never raise; all linear in the length of their value.
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
"""Relations with a kind of their own, the deciding one first: an alternate style sheet is a style
sheet. A link of any other relation is of the kind ``link``."""

MAX_CANDIDATES = 100
"""Of one ``srcset``: real ones have up to twenty."""

# HTML Standard, "shared declarative refresh steps": seconds, a separator, optional url=, the URL.
_REFRESH = re.compile(
    r"""\s*(?:\d+(?:\.[\d.]*)?|\.[\d.]*)(?:\s*[;,]\s*|\s+)(?:url\s*=\s*)?"""
    r"""(?:"([^"]*)|'([^']*)|(.+))""",
    re.IGNORECASE | re.DOTALL,
)

# HTML Standard, "parse a srcset attribute": white space and commas, then all that is not white
# space, but for commas at its end; then descriptors up to a comma outside parentheses.
_CANDIDATE = re.compile(
    r"[ \t\n\f\r,]*+([^ \t\n\f\r]*[^ \t\n\f\r,])(?:[^,(]++|\([^)]*+(?:\)|\Z))*+"
)


def refresh_target(content: str) -> str:
    """The reference in the *content* of a meta refresh or a ``Refresh`` header, "" without one."""
    found = _REFRESH.match(content)
    if found is None:
        return ""
    return (found[1] or found[2] or found[3] or "").strip()


def srcset_references(value: str) -> Iterator[str]:
    """The references of the image candidates, whatever their descriptors say."""
    candidates = _CANDIDATE.finditer(value.rstrip(" \t\n\f\r,"))
    return (found[1] for found in itertools.islice(candidates, MAX_CANDIDATES))


def relation_kind(relations: Collection[str]) -> str:
    """The kind of a link with these lower-case *relations*: one of ``RELATIONS`` or ``link``."""
    for relation in RELATIONS:
        if relation in relations:
            return relation
    if any(relation.endswith("-icon") for relation in relations):
        return "icon"  # apple-touch-icon, mask-icon
    return "link"
