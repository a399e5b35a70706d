"""One spelling per URL, by the WHATWG URL Standard (ada), for everything that enters the frontier.

Parsing resolves dot segments, lower-cases scheme and host, turns an international host into its
``xn--`` form, an odd IPv4 spelling into the usual one, drops the default port and escapes what must
be escaped: what a browser would ask for. On top of that the fragment goes, because servers never
see it, and so do user name and password (RFC 9110, section 4.2.4: in a link from an untrusted
source they serve to disguise the authority).

For gopher (RFC 4266), gemini and all others the URL Standard has no rules of its own: it resolves
references and dot segments, and leaves host and port as they were written. What is missing is done
by its rules for hosts of http; what names no host is no URL to fetch.

The invariant: scheme, host and port of the answer are those that a browser would contact; of other
schemes those that it would contact for http with the same authority.
Normalizing twice is the same as normalizing once.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ada_url import join_url, normalize_url

if TYPE_CHECKING:
    from collections.abc import Container

HTTP_SCHEMES = frozenset({"http", "https"})


class _AllSchemes:
    """The set of all schemes."""

    def __contains__(self, _: object) -> bool:
        return True


#: All schemes of URLs that name a host; the download handlers say which of them a crawl follows.
SCHEMES: Container[str] = _AllSchemes()
# Of those that the URL Standard has rules for, and that name hosts.
_STANDARD = HTTP_SCHEMES | {"ftp", "ws", "wss"}

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?!\d+(?:[/?#]|\Z))")
_HIGH_BYTE = re.compile(rb"[\x80-\xff]")

# Default ports of the other schemes; of those that are not here a port stays as it is written.
_PORTS = {"gopher": "70", "gemini": "1965"}
_GOPHER_MENU = "/1"
_AUTHORITY = re.compile(r"[a-z0-9+.-]+://(?:[^/?]*@)?([^/?@]*?)(?::(\d*))?(?=[/?]|\Z)")
# Nearly all hosts: nothing to do but to lower the case.
_USUAL_HOST = re.compile(r"(?:[a-z0-9-]+\.)*[a-z][a-z0-9-]*")


def normalize(
    url: str | bytes, base: str | None = None, *, schemes: Container[str] = HTTP_SCHEMES
) -> str | None:
    """The spelling of *url*, resolved against *base*, under which the crawl knows it.

    None when it is no URL, or its scheme is not among *schemes*. Bytes are read as browsers read a
    Location header: UTF-8, or byte for byte where they are not UTF-8. Never raises; the answer is
    ASCII. About 2 µs.
    """
    if isinstance(url, bytes):
        url = _text_of(url)
    try:
        href = normalize_url(url) if base is None else join_url(base, url)
    except ValueError:
        scalars = _scalar_values(url)
        if scalars == url:
            return None
        return normalize(scalars, base, schemes=schemes)
    return fetchable(href, schemes)


def normalize_seed(text: str) -> str | None:
    """Like ``normalize`` for what people write in seed lists, where the scheme may be missing.

    ``example.com``, ``example.com:8080/x`` and ``//example.com`` get http. All of ``SCHEMES`` are
    read, and the crawl's filters refuse those that it does not follow, by name.
    """
    text = text.strip()
    if text.startswith("//"):
        text = f"http:{text}"
    elif _SCHEME.match(text) is None:
        text = f"http://{text}"
    return normalize(text, schemes=SCHEMES)


def fetchable(href: str, schemes: Container[str]) -> str | None:
    """The rest of a parsed and serialized *href*, None if its scheme is not among *schemes*."""
    scheme, _, rest = href.partition(":")
    if scheme not in schemes:
        return None
    cut = href.find("#")
    if cut >= 0:
        href = href[:cut]
    if scheme not in _STANDARD:
        return _of_other(scheme, href)
    if "@" in href and rest.startswith("//"):
        authority, slash, path = href[len(scheme) + 3 :].partition("/")
        href = f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"
    return href


def _of_other(scheme: str, href: str) -> str | None:
    """``fetchable`` for other schemes; *href* has no fragment. None if it has no host."""
    found = _AUTHORITY.match(href)
    if found is None:
        return None
    host = found[1].lower()
    if _USUAL_HOST.fullmatch(host) is None or "xn--" in host:
        host = _host_as_of_http(found[1])
    if not host:
        return None
    port = "" if found[2] == _PORTS.get(scheme) else found[2]
    rest = href[found.end() :]
    if rest[:1] != "/":
        rest = "/" + rest
    elif rest == _GOPHER_MENU and scheme == "gopher":
        rest = "/"  # the type that is meant where there is none
    return f"{scheme}://{host}:{port}{rest}" if port else f"{scheme}://{host}{rest}"


def _host_as_of_http(written: str) -> str:
    try:
        parsed = normalize_url(f"http://{written}/")
    except ValueError:
        return ""
    return parsed.removeprefix("http://").removesuffix("/")


def _text_of(url: bytes) -> str:
    try:
        return url.decode()
    except UnicodeDecodeError:
        return _HIGH_BYTE.sub(lambda byte: b"%%%02X" % byte.group()[0], url).decode("ascii")


def _scalar_values(url: str) -> str:
    """Replace surrogates, which have no UTF-8, as the standard's conversion to USVString does."""
    return url.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
