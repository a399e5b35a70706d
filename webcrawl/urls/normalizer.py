"""Normalizer of URLs by the WHATWG URL Standard (ada): one spelling per URL in the frontier.

URLs are parsed as in a browser. The parser resolves dot segments, lower-cases scheme and host, and
converts an international host to its ``xn--`` form and an odd IPv4 spelling to the usual one. It
drops the default port and escapes characters that must be escaped. In addition, the fragment is
dropped, because servers never see it. User name and password are dropped, too: in a link from an
untrusted source they serve to disguise the authority (RFC 9110, section 4.2.4).

For gopher (RFC 4266), gemini and all other schemes, the URL Standard only resolves references and
dot segments, and leaves host and port as written. Here, the rules for http hosts are applied to
these schemes, too. A URL without a host cannot be fetched.

Invariant: scheme, host and port of the result are those that a browser would contact; for other
schemes, those it would contact for http with the same authority. Normalizing a URL twice has the
same result as normalizing it once.
"""

from __future__ import annotations

import re
from collections.abc import Container

from ada_url import join_url, normalize_url

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

# Default ports of other schemes. For schemes that are not listed, the port remains as written.
_PORTS = {"gopher": "70", "gemini": "1965"}
_GOPHER_MENU = "/1"
_AUTHORITY = re.compile(r"[a-z0-9+.-]+://(?:[^/?]*@)?([^/?@]*?)(?::(\d*))?(?=[/?]|\Z)")
# Matches almost all hosts; of these, only the case may have to be changed.
_USUAL_HOST = re.compile(r"(?:[a-z0-9-]+\.)*[a-z][a-z0-9-]*")


def normalize(
    url: str | bytes, base: str | None = None, *, schemes: Container[str] = HTTP_SCHEMES
) -> str | None:
    """Return the normalized form of *url*, resolved against *base*.

    Returns None if it is not a URL, or if its scheme is not in *schemes*. Bytes are decoded as
    browsers decode a Location header: as UTF-8, or byte by byte if they are not valid UTF-8. Never
    raises; the result is ASCII. Takes about 2 µs.
    """
    if isinstance(url, bytes):
        url = _decode_url(url)
    try:
        href = normalize_url(url) if base is None else join_url(base, url)
    except ValueError:
        without_surrogates = _replace_surrogates(url)
        if without_surrogates == url:
            return None
        return normalize(without_surrogates, base, schemes=schemes)
    return fetchable(href, schemes)


def normalize_seed(text: str) -> str | None:
    """Normalize *text*, a line of a seed list, in which the scheme may be missing.

    ``example.com``, ``example.com:8080/x`` and ``//example.com`` get the scheme http. All schemes
    are accepted here; the filters of the crawl refuse those that it does not follow, by name.
    """
    text = text.strip()
    if text.startswith("//"):
        text = f"http:{text}"
    elif _SCHEME.match(text) is None:
        text = f"http://{text}"
    return normalize(text, schemes=SCHEMES)


def fetchable(href: str, schemes: Container[str]) -> str | None:
    """Return the normalized form of *href*, which the URL parser has already serialized.

    Returns None if its scheme is not in *schemes*.
    """
    scheme, _, after_scheme = href.partition(":")
    if scheme not in schemes:
        return None
    if "#" in href:
        href = href.partition("#")[0]
    if scheme not in _STANDARD:
        return _other_scheme_url(scheme, href)
    if "@" in href and after_scheme.startswith("//"):  # drop the user name and password
        authority, slash, path = href[len(scheme) + 3 :].partition("/")
        href = f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"
    return href


def _other_scheme_url(scheme: str, href: str) -> str | None:
    """Return the normalized form of *href*, which has another *scheme* and no fragment.

    Returns None if it has no host.
    """
    match = _AUTHORITY.match(href)
    if match is None:
        return None
    host = match[1].lower()
    # Parsing takes time, so it is done only for hosts that it may change or reject.
    if _USUAL_HOST.fullmatch(host) is None or "xn--" in host:
        host = _host_as_in_http(match[1])
    if not host:
        return None
    port = "" if match[2] == _PORTS.get(scheme) else match[2]
    path = href[match.end() :]
    if path[:1] != "/":
        path = "/" + path
    elif path == _GOPHER_MENU and scheme == "gopher":
        path = "/"  # 1 is the default type
    return f"{scheme}://{host}:{port}{path}" if port else f"{scheme}://{host}{path}"


def _host_as_in_http(host: str) -> str:
    """Return *host* normalized by the rules for http, or "" if it is not valid."""
    try:
        parsed = normalize_url(f"http://{host}/")
    except ValueError:
        return ""
    return parsed.removeprefix("http://").removesuffix("/")


def _decode_url(url: bytes) -> str:
    """Decode *url* as UTF-8; if it is not valid, escape all bytes outside ASCII."""
    try:
        return url.decode()
    except UnicodeDecodeError:
        return _HIGH_BYTE.sub(lambda byte: b"%%%02X" % byte.group()[0], url).decode("ascii")


def _replace_surrogates(url: str) -> str:
    """Replace surrogates in *url*, which UTF-8 cannot encode, as the URL Standard does."""
    return url.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
