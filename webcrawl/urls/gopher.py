"""One spelling per gopher URL (RFC 4266), for which the URL Standard has no rules of its own.

To the standard gopher is like any scheme that it does not know: it resolves references and dot
segments, and leaves host and port as they were written. What is missing is done here, by its own
rules for hosts: lower case, ``xn--`` form, the usual form of addresses. Called by ``normalize``.

Invariant: host and port are those that a browser would contact for http with the same authority.
"""

from __future__ import annotations

import re
from typing import Final

from ada_url import normalize_url

_DEFAULT_PORT: Final = "70"
_AUTHORITY: Final = re.compile(r"gopher://(?:[^/?]*@)?([^/?@]*?)(?::(\d*))?(?=[/?]|\Z)")
# Nearly all hosts: nothing to do but to lower the case.
_USUAL: Final = re.compile(r"(?:[a-z0-9-]+\.)*[a-z][a-z0-9-]*")
_MENU: Final = "1"


def normalize_gopher(href: str) -> str | None:
    """The spelling of *href*, which is parsed and has no fragment; None if it has no host."""
    found = _AUTHORITY.match(href)
    if found is None:
        return None
    host = found[1].lower()
    if _USUAL.fullmatch(host) is None or "xn--" in host:
        host = _host(found[1])
    if not host:
        return None
    port = found[2] or _DEFAULT_PORT
    rest = href[found.end() :]
    if rest[:1] != "/":
        rest = "/" + rest
    elif rest == "/" + _MENU:
        rest = "/"  # the type that is meant where there is none
    return f"gopher://{host}{rest}" if port == _DEFAULT_PORT else f"gopher://{host}:{port}{rest}"


def _host(written: str) -> str:
    try:
        parsed = normalize_url(f"http://{written}/")
    except ValueError:
        return ""
    return parsed.removeprefix("http://").removesuffix("/")
