"""Links in the headers of a response: ``Link`` (RFC 8288) and ``Refresh``.

Called by the spider for pages with such headers. They are parsed as RFC 8288, appendix B.2,
recommends: malformed parts are skipped, and no exception is raised. References are resolved against
the URL of the response, which ``<base>`` does not change. The ``anchor`` parameter says that a link
belongs to another document. It is ignored, because for a crawl that makes no difference. A
``Location`` is a redirect, not a link, and is followed as such.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from webcrawl.urls.extraction.document import MAX_REFERENCE_CHARS, MAX_TEXT_CHARS, resolve_links
from webcrawl.urls.extraction.kinds import DEFAULT_KINDS
from webcrawl.urls.extraction.references import refresh_target, relation_kind
from webcrawl.urls.link import Link
from webcrawl.urls.normalizer import HTTP_SCHEMES

#: Number of bytes that are read of all ``Link`` headers of a response together.
MAX_HEADER_BYTES = 1 << 16

_TARGET = re.compile(r"<([^<>]*+)>")
_PARAMETER = re.compile(
    r"""\s*+;\s*+([^\s=;,"<>]*+)\s*+(?:=\s*+(?:"((?:[^"\\]|\\.)*+)"?|([^\s;,"]*+)))?""", re.DOTALL
)
_QUOTED_PAIR = re.compile(r"\\(.)", re.DOTALL)


def extract_header_links(
    link: Iterable[bytes],
    refresh: bytes | None = None,
    *,
    url: str,
    limit: int,
    schemes: frozenset[str] = HTTP_SCHEMES,
    kinds: frozenset[str] = DEFAULT_KINDS,
    repeats: list[Link] | None = None,
) -> list[Link]:
    """Return the links of *kinds* in the values of the headers *link* and *refresh*.

    *url* is the URL of the response. *limit*, *schemes* and *repeats* are passed to
    ``document.resolve_links``. A link in a header has the same kind as a ``<link>`` element with
    the same relation; its ``title`` becomes the text.
    """
    wanted = (
        reference for reference in header_references(link, refresh) if reference.kind in kinds
    )
    links = resolve_links(wanted, url, limit=limit, schemes=schemes, repeats=repeats)
    return [link for link in links if link is not None]


def header_references(headers: Iterable[bytes], refresh: bytes | None = None) -> Iterator[Link]:
    """Yield the links in the ``Link`` *headers* and in *refresh*, with references as written."""
    if refresh is not None:
        yield Link(refresh_target(_decode(refresh)[:MAX_REFERENCE_CHARS]), "", "refresh")
    bytes_left = MAX_HEADER_BYTES
    for header in headers:
        value = _decode(header[: max(bytes_left, 0)])
        bytes_left -= len(header)
        target = _TARGET.search(value)
        while target is not None:
            parameters, end = _parameters(value, target.end())
            rel = " ".join(parameters.get("rel", "").lower().split())
            title = " ".join(parameters.get("title", "").split())[:MAX_TEXT_CHARS]
            yield Link(target[1].strip(), title, relation_kind(rel.split()), rel)
            # Anything between the parameters and the next comma is ignored.
            comma = value.find(",", end)
            target = _TARGET.search(value, comma) if comma >= 0 else None


def _parameters(value: str, position: int) -> tuple[dict[str, str], int]:
    """Return the parameters at *position* in *value*, and the position of their end.

    The first parameter of each name counts.
    """
    parameters: dict[str, str] = {}
    while (match := _PARAMETER.match(value, position)) is not None:
        name, quoted, plain = match.groups()
        text = plain or "" if quoted is None else _QUOTED_PAIR.sub(r"\1", quoted)
        parameters.setdefault(name.lower(), text)
        position = match.end()
    return parameters, position


def _decode(value: bytes) -> str:
    """Decode *value* as UTF-8, or if that fails as Latin-1."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
