"""The links in the headers of a response: ``Link`` (RFC 8288) and ``Refresh``.

Called by the spider for pages with such headers. They are parsed as RFC 8288, appendix B.2,
recommends: malformed parts are skipped, and nothing is raised. References are resolved against the
URL of the response, which ``<base>`` does not change. The ``anchor`` parameter, with which a server
states a link of another document, is ignored: to a crawl it does not matter whose link it is. A
``Location`` is a redirect, not a link, and is followed as such.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from webcrawl.urls.extraction.document import MAX_REFERENCE_CHARS, MAX_TEXT_CHARS, resolved
from webcrawl.urls.extraction.kinds import DEFAULT_KINDS
from webcrawl.urls.extraction.references import refresh_target, relation_kind
from webcrawl.urls.link import Link
from webcrawl.urls.normalizer import HTTP_SCHEMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_HEADER_BYTES = 1 << 16
"""Limit of what is read of all ``Link`` headers of a response together."""

_TARGET = re.compile(r"<([^<>]*+)>")
_PARAMETER = re.compile(
    r"""\s*+;\s*+([^\s=;,"<>]*+)\s*+(?:=\s*+(?:"((?:[^"\\]|\\.)*+)"?|([^\s;,"]*+)))?""", re.DOTALL
)
_QUOTED_PAIR = re.compile(r"\\(.)", re.DOTALL)


def extract_header_links(
    link: Iterable[bytes] = (),
    refresh: bytes | None = None,
    *,
    url: str,
    limit: int,
    schemes: frozenset[str] = HTTP_SCHEMES,
    kinds: frozenset[str] = DEFAULT_KINDS,
    repeats: list[Link] | None = None,
) -> list[Link]:
    """Return the links of *kinds* in the values of the headers *link* and *refresh*.

    *url* is that of the document. *repeats* is as in ``document.resolved``. A ``Link`` has the kind
    of a ``<link>`` with the same relation, and its ``title`` as text.
    """
    wanted = (found for found in _references(link, refresh) if found.kind in kinds)
    links = resolved(wanted, url, limit=limit, schemes=schemes, repeats=repeats)
    return [link for link in links if link is not None]


def _references(headers: Iterable[bytes], refresh: bytes | None) -> Iterator[Link]:
    """Yield each link, with its reference as written."""
    if refresh is not None:
        yield Link(refresh_target(_text(refresh)[:MAX_REFERENCE_CHARS]), "", "refresh")
    left = MAX_HEADER_BYTES
    for header in headers:
        value = _text(header[: max(left, 0)])
        left -= len(header)
        found = _TARGET.search(value)
        while found is not None:
            parameters, end = _parameters(value, found.end())
            rel = " ".join(parameters.get("rel", "").lower().split())
            title = " ".join(parameters.get("title", "").split())[:MAX_TEXT_CHARS]
            yield Link(found[1].strip(), title, relation_kind(rel.split()), rel)
            # Anything between the parameters and the next comma is ignored.
            comma = value.find(",", end)
            found = _TARGET.search(value, comma) if comma >= 0 else None


def _parameters(value: str, position: int) -> tuple[dict[str, str], int]:
    """Return the parameters at *position*, and where they end.

    The first one of each name counts.
    """
    parameters: dict[str, str] = {}
    while (match := _PARAMETER.match(value, position)) is not None:
        name, quoted, plain = match.groups()
        text = plain or "" if quoted is None else _QUOTED_PAIR.sub(r"\1", quoted)
        parameters.setdefault(name.lower(), text)
        position = match.end()
    return parameters, position


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
