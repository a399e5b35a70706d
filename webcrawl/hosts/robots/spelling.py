"""Canonical spelling of a path's octets, so that rules and URLs can be compared (RFC 9309, 2.2.2).

Text in this module is a string of octets: each character is one octet, below 256.

In the canonical spelling, unreserved octets are not encoded, and all others except reserved ones
are percent-encoded in upper case. Reserved octets stay as they were written, encoded or not,
because ``/a%2Fb`` is not ``/a/b``. But many of them are not delimiters where they stand, and the
RFC compares these as if they were encoded: in its table ``?baz=https://foo.bar`` is equal to
``?baz=https%3A%2F%2Ffoo.bar``. So `loose_spelling` returns a second spelling, in which they are
decoded. A rule and a URL match if they match in any of their spellings. ``/`` and ``?`` in the
path, and ``#``, ``&``, ``=``, ``+``, are not decoded, as the two forms mean different things to
servers.

Invariant: nothing raises, and everything takes time linear in the text.
"""

from __future__ import annotations

import re
from functools import cache
from urllib.parse import quote, unquote

_RESERVED = r":/?#\[\]@!$&'()*+,;="
# Text that may need another spelling: an escape, or an octet not allowed in a URI.
_ODD = re.compile(rf"[^A-Za-z0-9\-._~{_RESERVED}]")
_ESCAPE_OR_ODD = re.compile(rf"%[0-9A-Fa-f]{{2}}|[^A-Za-z0-9\-._~{_RESERVED}%]")

_LOOSE = {f"%{ord(octet):02X}": octet for octet in ":@[]!$'()*,;/?"}
_LOOSE_IN_PATH = re.compile("%(?:21|24|27|28|29|2A|2C|3A|3B|40|5B|5D)")
_LOOSE_IN_QUERY = re.compile("%(?:21|24|27|28|29|2A|2C|2F|3A|3B|3F|40|5B|5D)")

_AUTHORITY = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.\-]*:)?//[^/?#]*")


def path_of(url: str) -> str:
    """Return the path and query of *url* as octets, beginning with a slash, without fragment."""
    authority = _AUTHORITY.match(url)
    path = url if authority is None else url[authority.end() :]
    cut = path.find("#")
    if cut >= 0:
        path = path[:cut]
    if not path.isascii():
        path = path.encode("utf-8", "surrogatepass").decode("latin-1")
    return path if path.startswith("/") else "/" + path


def canonical_spelling(octets: str) -> str:
    """Return *octets* in the canonical spelling. A ``%`` that begins no escape is not changed."""
    if _ODD.search(octets) is None:
        return octets
    return _ESCAPE_OR_ODD.sub(lambda found: _spelling(found[0]), octets)


def loose_spelling(octets: str, *, in_query: bool = False) -> str:
    """Return the loose spelling of *octets*, which are in the canonical spelling.

    With *in_query* they are a part of a query, otherwise they begin in the path.
    """
    if "%" not in octets:
        return octets
    if in_query:
        return _LOOSE_IN_QUERY.sub(_loosen, octets)
    path, mark, query = octets.partition("?")
    return _LOOSE_IN_PATH.sub(_loosen, path) + mark + _LOOSE_IN_QUERY.sub(_loosen, query)


@cache
def _spelling(octet: str) -> str:
    """Return the canonical spelling of *octet*, which may be escaped."""
    return quote(unquote(octet, "latin-1"), safe="", encoding="latin-1")


def _loosen(found: re.Match[str]) -> str:
    return _LOOSE[found[0]]
