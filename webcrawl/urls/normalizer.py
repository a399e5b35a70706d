"""One spelling per URL, by the WHATWG URL Standard (ada), for everything that enters the frontier.

Parsing resolves dot segments, lower-cases scheme and host, turns an international host into its
``xn--`` form, an odd IPv4 spelling into the usual one, drops the default port and escapes what must
be escaped: what a browser would ask for. On top of that the fragment goes, because servers never
see it, and so do user name and password (RFC 9110, section 4.2.4: in a link from an untrusted
source they serve to disguise the authority).

The invariant: scheme, host and port of the answer are those that a browser would contact.
Normalizing twice is the same as normalizing once.
"""

from __future__ import annotations

import re
from typing import Final

from ada_url import join_url, normalize_url

from webcrawl.urls.gopher import normalize_gopher

HTTP_SCHEMES: Final = frozenset({"http", "https"})
# Those that this crawler knows at all; the settings say which of them a crawl follows.
SCHEMES: Final = HTTP_SCHEMES | {"ftp", "gopher"}

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?!\d+(?:[/?#]|\Z))")
_HIGH_BYTE: Final = re.compile(rb"[\x80-\xff]")


def normalize(
    url: str | bytes, base: str | None = None, *, schemes: frozenset[str] = HTTP_SCHEMES
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


def fetchable(href: str, schemes: frozenset[str]) -> str | None:
    """What is left of a parsed and serialized *href*, None if its scheme is not among *schemes*."""
    scheme, _, rest = href.partition(":")
    if scheme not in schemes:
        return None
    cut = href.find("#")
    if cut >= 0:
        href = href[:cut]
    if scheme == "gopher":
        return normalize_gopher(href)
    if "@" in href and rest.startswith("//"):
        authority, slash, path = href[len(scheme) + 3 :].partition("/")
        href = f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"
    return href


def _text_of(url: bytes) -> str:
    try:
        return url.decode()
    except UnicodeDecodeError:
        return _HIGH_BYTE.sub(lambda byte: b"%%%02X" % byte.group()[0], url).decode("ascii")


def _scalar_values(url: str) -> str:
    """Replace surrogates, which have no UTF-8, as the standard's conversion to USVString does."""
    return url.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
