"""One spelling per URL, by the WHATWG URL Standard (ada), for all URLs that enter the frontier.

Parsing does what a browser does. It resolves dot segments, lower-cases scheme and host, and
converts an international host to its ``xn--`` form and an odd IPv4 spelling to the usual one. It
drops the default port and escapes what must be escaped. In addition the fragment is dropped,
because servers never see it, and so are user name and password. In a link from an untrusted source
those serve to disguise the authority (RFC 9110, section 4.2.4).

For gopher (RFC 4266), gemini and all other schemes the URL Standard only resolves references and
dot segments, and leaves host and port as written. Here the rules for http hosts are applied to
them, too. A URL without a host cannot be fetched.

Invariant: scheme, host and port of the result are those that a browser would contact; for other
schemes, those it would contact for http with the same authority. Normalizing twice is the same as
normalizing once.
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


#: All schemes of URLs with a host. The download handlers decide which of them a crawl follows.
SCHEMES: Container[str] = _AllSchemes()
# Schemes with hosts for which the URL Standard has rules.
_STANDARD = HTTP_SCHEMES | {"ftp", "ws", "wss"}

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?!\d+(?:[/?#]|\Z))")
_HIGH_BYTE = re.compile(rb"[\x80-\xff]")

# Default ports of other schemes. For schemes that are not listed a port stays as it is written.
_PORTS = {"gopher": "70", "gemini": "1965"}
_GOPHER_MENU = "/1"
_AUTHORITY = re.compile(r"[a-z0-9+.-]+://(?:[^/?]*@)?([^/?@]*?)(?::(\d*))?(?=[/?]|\Z)")
# Almost all hosts: only the case may have to be changed.
_USUAL_HOST = re.compile(r"(?:[a-z0-9-]+\.)*[a-z][a-z0-9-]*")


def normalize(
    url: str | bytes, base: str | None = None, *, schemes: Container[str] = HTTP_SCHEMES
) -> str | None:
    """Return the spelling of *url*, resolved against *base*, under which the crawl knows it.

    None if it is not a URL, or its scheme is not among *schemes*. Bytes are read as browsers read a
    Location header: as UTF-8, or byte by byte if they are not valid UTF-8. Never raises; the result
    is ASCII. Takes about 2 µs.
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
    """Normalize a line of a seed list, where the scheme may be missing.

    ``example.com``, ``example.com:8080/x`` and ``//example.com`` get http. All of ``SCHEMES`` are
    accepted; the crawl's filters refuse those that it does not follow, by name.
    """
    text = text.strip()
    if text.startswith("//"):
        text = f"http:{text}"
    elif _SCHEME.match(text) is None:
        text = f"http://{text}"
    return normalize(text, schemes=SCHEMES)


def fetchable(href: str, schemes: Container[str]) -> str | None:
    """Finish a parsed and serialized *href*; None if its scheme is not among *schemes*."""
    scheme, _, rest = href.partition(":")
    if scheme not in schemes:
        return None
    cut = href.find("#")
    if cut >= 0:
        href = href[:cut]
    if scheme not in _STANDARD:
        return _other_scheme_url(scheme, href)
    if "@" in href and rest.startswith("//"):
        authority, slash, path = href[len(scheme) + 3 :].partition("/")
        href = f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"
    return href


def _other_scheme_url(scheme: str, href: str) -> str | None:
    """Finish *href*, without its fragment, for other schemes. None if it has no host."""
    match = _AUTHORITY.match(href)
    if match is None:
        return None
    host = match[1].lower()
    if _USUAL_HOST.fullmatch(host) is None or "xn--" in host:
        host = _host_as_in_http(match[1])
    if not host:
        return None
    port = "" if match[2] == _PORTS.get(scheme) else match[2]
    rest = href[match.end() :]
    if rest[:1] != "/":
        rest = "/" + rest
    elif rest == _GOPHER_MENU and scheme == "gopher":
        rest = "/"  # 1 is the default type
    return f"{scheme}://{host}:{port}{rest}" if port else f"{scheme}://{host}{rest}"


def _host_as_in_http(host: str) -> str:
    try:
        parsed = normalize_url(f"http://{host}/")
    except ValueError:
        return ""
    return parsed.removeprefix("http://").removesuffix("/")


def _text_of(url: bytes) -> str:
    try:
        return url.decode()
    except UnicodeDecodeError:
        return _HIGH_BYTE.sub(lambda byte: b"%%%02X" % byte.group()[0], url).decode("ascii")


def _scalar_values(url: str) -> str:
    """Replace surrogates, which UTF-8 cannot encode, as the URL Standard does."""
    return url.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
