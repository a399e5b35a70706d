"""The links in the headers of a response: ``Link`` (RFC 8288) and ``Refresh``.

Called by the spider for pages whose response has such headers. Read as RFC 8288, appendix B.2,
recommends: what is malformed is passed over, never raised about. References are resolved against
the URL of the response, which no ``<base>`` changes. The ``anchor`` parameter, by which a server
states a link of another document, is ignored: whose link it is makes no difference to a crawl.
A ``Location`` is not a link but a redirect, and followed as such.
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
"""Of all ``Link`` headers of a response together that are read."""

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
    """Links of the *kinds* in the values of the headers *link* and *refresh* of the document *url*,
    and *repeats* as ``document.resolved`` has it.

    A ``Link`` has the kind that a ``<link>`` of the same relation has, and its ``title`` as text.
    """
    wanted = (found for found in _references(link, refresh) if found.kind in kinds)
    links = resolved(wanted, url, limit=limit, schemes=schemes, repeats=repeats)
    return [link for link in links if link is not None]


def _references(headers: Iterable[bytes], refresh: bytes | None) -> Iterator[Link]:
    """Each link, with its reference as it is written."""
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
            # What stands between the parameters and the next comma means nothing.
            comma = value.find(",", end)
            found = _TARGET.search(value, comma) if comma >= 0 else None


def _parameters(value: str, position: int) -> tuple[dict[str, str], int]:
    """The parameters that follow, and where they end; of each name the first one counts."""
    parameters: dict[str, str] = {}
    while (found := _PARAMETER.match(value, position)) is not None:
        name, quoted, plain = found.groups()
        said = plain or "" if quoted is None else _QUOTED_PAIR.sub(r"\1", quoted)
        parameters.setdefault(name.lower(), said)
        position = found.end()
    return parameters, position


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
