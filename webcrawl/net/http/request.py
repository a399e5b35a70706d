"""HTTP requests in the form in which they are sent.

Invariant: one Scrapy request becomes exactly one HTTP request, with the right length of its body,
no matter what its URL and its header fields contain.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from hashlib import blake2s
from typing import NamedTuple
from urllib.parse import unquote_to_bytes
from weakref import WeakKeyDictionary

import msgspec
from scrapy import Request
from scrapy.crawler import Crawler

from webcrawl.configuration.secrets import is_secret
from webcrawl.net.outcomes import UnverifiedError

# Scheme, credentials, host, port, path and query.
_URL = re.compile(
    r"(https?)://(?:([^@/?#\\\x00-\x20\x7f]*+)@)?+"
    r"(\[[0-9a-f:.]++\]|[^\[\]:@/?#\\\x00-\x20\x7f]++)"
    r"(?::([0-9]{0,6}+))?+([/?][^#\x00-\x1f\x7f]*+)?+(?:#.*)?+",
    re.IGNORECASE | re.DOTALL,
)
_PORTS = {"http": 80, "https": 443}
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = bytes({*range(32), 127} - {9})
# Fields that affect the framing or the destination of a request. They are replaced, or sent only to
# the proxy.
_REPLACED = frozenset({b"Content-Length", b"Host", b"Proxy-Authorization", b"Transfer-Encoding"})
_PLAIN = frozenset({"GET", "HEAD"})
# Fields that a host policy may not set: those above, the name by which robots.txt files know the
# crawler, and cookies, which have a key of their own in the policy.
_NOT_ADDED = frozenset(
    {"connection", "content-length", "cookie", "host", "proxy-authorization", "transfer-encoding"}
    | {"user-agent"}
)
_MAX_ADDED = 100
_COOKIE_VALUE = re.compile(r"[!-:<-~]*")  # without spaces and semicolons
# Methods whose requests have no body if no length is given (RFC 9110, section 8.6).
_WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


class Proxy(NamedTuple):
    """A proxy; *authorization* is the value of its Proxy-Authorization field, if any.

    *is_verified* tells whether it needs a valid certificate even if the settings do not require it.
    """

    scheme: str
    host: str
    port: int
    authorization: bytes
    is_verified: bool = False

    def digest(self) -> str:
        """Return a name that tells proxies apart, and does not tell where they are."""
        return blake2s(repr(self[:3]).encode(), digest_size=8).hexdigest()


class Endpoint(NamedTuple):
    """The other end of a connection: scheme, host and port, and the proxy in between, if any.

    *is_verified* as in ``Proxy``.
    """

    scheme: str
    host: str
    port: int
    proxy: Proxy | None = None
    is_verified: bool = False


class Additions(NamedTuple):
    """Header fields and proxy that an operator adds to each request to a host; never shown.

    The names in *headers* are in lower case. A "cookie" is joined with the request's own cookies.
    *withheld* are the schemes of URLs for which they must not be sent: http if header fields need
    TLS with a valid certificate, both if the proxy needs it and has none.
    """

    headers: dict[bytes, bytes]
    proxy: Proxy | None = None
    withheld: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.headers or self.proxy)

    def without_headers(self) -> Additions:
        """Return the proxy alone."""
        return Additions({}, self.proxy, self.withheld if "https" in self.withheld else ())


NOTHING_ADDED = Additions({})
#: The additions to the requests of this context; set by the downloader.
ADDED = ContextVar("ADDED", default=NOTHING_ADDED)

#: Returns the fields that sign a request to an authority: host in lower case, port if unusual.
Sign = Callable[[bytes], Iterable[tuple[bytes, bytes]]]
#: The functions that sign the requests of crawlers; set before their handlers are created.
SIGNERS: WeakKeyDictionary[Crawler, Sign] = WeakKeyDictionary()


def additions(
    headers: dict[str, str],
    cookies: dict[str, str],
    proxy: str,
    *,
    verify: bool = True,
    proxy_verify: bool = True,
) -> Additions:
    """Make Additions of *headers*, *cookies* and *proxy*, which is a URL or "".

    Without *verify*, a server that is not verified gets them, too; without *proxy_verify*, such a
    proxy gets its password. Raises ValueError for anything that cannot be sent; its message
    contains none of the values.
    """
    if len(headers) + len(cookies) > _MAX_ADDED:
        raise ValueError(f"it has more than {_MAX_ADDED} headers and cookies")
    fields = {}
    for name, value in headers.items():
        if name.lower() in _NOT_ADDED:
            raise ValueError(f"the header {name} cannot be set")
        if not _TOKEN.fullmatch(name) or value.encode().translate(None, _CONTROL) != value.encode():
            raise ValueError(f"the header {name[:80]!r} is not valid")
        fields[name.lower().encode()] = value.encode()

    for name, value in cookies.items():
        if not _TOKEN.fullmatch(name) or not _COOKIE_VALUE.fullmatch(value):
            raise ValueError(f"the cookie {name[:80]!r} is not valid")
    if cookies:
        fields[b"cookie"] = "; ".join(f"{name}={value}" for name, value in cookies.items()).encode()
    try:
        used = _proxy(proxy, b"", verify=proxy_verify) if proxy else None
    except ValueError:
        raise ValueError("the proxy is not an http or https URL") from None
    withheld: tuple[str, ...] = ("http",) if fields and verify else ()
    # The password of such a proxy would be sent without TLS with every request.
    if used and used.is_verified and used.scheme == "http":
        withheld = ("http", "https")
    return Additions(fields, used, withheld)


class WireRequest(msgspec.Struct, frozen=True, gc=False):
    """A request in the form in which it is sent.

    data: the bytes of the whole request.
    shown, shown_headers: the same and its fields for records and logs, without the values of
        ``Additions`` and of fields whose names are known as secret.
    has_body: whether its answer may have a body.
    is_reusing: whether it may use a connection that was used before, and whether the connection may
        be used again afterwards.
    """

    endpoint: Endpoint
    data: bytes
    shown: bytes
    shown_headers: tuple[tuple[bytes, bytes], ...]
    has_body: bool
    is_reusing: bool


def wire_request(request: Request, sign: Sign | None = None) -> WireRequest:
    """Convert *request* to the form that is sent; raise ValueError if that is not possible.

    Raises UnverifiedError if credentials in a host policy must not be sent with it. Content-Length
    is the real length of its body, even if its fields say otherwise. A field Proxy-Authorization is
    sent to the proxy and never to the host. Methods other than GET and HEAD
    get a new connection: an idle one may be broken already, and then it would be unknown whether
    the server has carried out the request. *sign* signs requests for https URLs.
    """
    method = request.method
    fields = request.headers
    body = request.body
    scheme, credentials, host, port, path = _parts(request.url)
    authority = host.removesuffix(".")
    if port != _PORTS[scheme]:
        authority += f":{port}"

    # The methods of Headers would normalize each name again.
    host_field = dict.get(fields, b"Host", [authority.encode()])
    headers = [(b"Host", host_field[-1] if host_field else b"")]
    headers += [
        (name, value)
        for name, values in dict.items(fields)
        if name not in _REPLACED
        for value in values
    ]
    added = ADDED.get()
    if scheme in added.withheld:
        raise UnverifiedError("the connection has no TLS")
    if added.headers:
        headers = _with_additions(headers, added.headers)
    if credentials and b"Authorization" not in fields and b"authorization" not in added.headers:
        headers.append((b"Authorization", _basic(credentials)))

    proxy = added.proxy
    if proxy is None and (url := request.meta.get("proxy")):
        proxy = _proxy(url, fields.get(b"Proxy-Authorization") or b"")
    if proxy is not None and scheme == "http":
        path = f"http://{authority}{path}"
        if proxy.authorization:
            headers.append((b"Proxy-Authorization", proxy.authorization))

    if body or method not in _WITHOUT_BODY:
        headers.append((b"Content-Length", b"%d" % len(body)))
    is_plain = method in _PLAIN
    if not is_plain and (method == "CONNECT" or _TOKEN.fullmatch(method) is None):
        raise ValueError(f"{method!r} is not a valid request method")

    secret = {name for name, _ in headers if is_secret(name) or name.lower() in added.headers}
    # Signed last: the first field is Host. A request that is signed already stays as it is.
    if sign is not None and scheme == "https" and b"Signature" not in fields:
        headers += sign(headers[0][1].lower())
    data = _head(method, path, headers) + body
    shown = b""
    shown_headers = headers
    if secret:
        shown_headers = [
            (name, b"(withheld)" if name in secret else value) for name, value in headers
        ]
    if proxy is None:  # otherwise the request contains the proxy's URL and password
        shown = _head(method, path, shown_headers) + body if secret else data
    return WireRequest(
        # Additions that plain http must not carry also need a valid certificate.
        Endpoint(scheme, host.lower(), port, proxy, is_verified="http" in added.withheld),
        data,
        shown,
        tuple(shown_headers),
        has_body=method != "HEAD",
        is_reusing=is_plain and not dict.__contains__(fields, b"Connection"),
    )


def tunnel_request(endpoint: Endpoint, proxy: Proxy) -> WireRequest:
    """Return the CONNECT request that asks *proxy* for a tunnel to *endpoint*."""
    target = f"{endpoint.host}:{endpoint.port}"
    headers = [(b"Host", target.encode())]
    if proxy.authorization:
        headers.append((b"Proxy-Authorization", proxy.authorization))
    data = _head("CONNECT", target, headers)
    return WireRequest(endpoint, data, b"", (), has_body=False, is_reusing=False)


def _with_additions(
    headers: list[tuple[bytes, bytes]], added: dict[bytes, bytes]
) -> list[tuple[bytes, bytes]]:
    """Return *headers* with the fields *added* to them.

    Added fields replace those of the same name; cookies are joined.
    """
    cookies = [value for name, value in headers if name == b"Cookie" and b"cookie" in added]
    kept = [field for field in headers if field[0].lower() not in added]
    for name, value in added.items():
        values = [value, *cookies] if name == b"cookie" else [value]
        kept.append((name.title(), b"; ".join(values)))
    return kept


def _parts(url: str) -> tuple[str, str | None, str, int, str]:
    """Return scheme, credentials, host, port, and path with query of *url*.

    Raises ValueError if *url* is not an http or https URL.
    """
    match = _URL.fullmatch(url)
    if match is None:
        raise ValueError("not an http or https URL with a host")
    scheme, credentials, host, digits, path = match.groups()
    scheme = scheme.lower()
    port = int(digits) if digits else _PORTS[scheme]
    if port > 65535:
        raise ValueError(f"{port} is not a valid port")
    if not path or path[0] == "?":
        path = f"/{path or ''}"
    return scheme, credentials, host, port, path


def _proxy(url: str, authorization: bytes, *, verify: bool = False) -> Proxy:
    """Return the proxy at *url*; credentials in the URL replace *authorization*.

    With *verify* it must be verified if there are any.
    """
    scheme, credentials, host, port, _ = _parts(url if "://" in url else f"http://{url}")
    if credentials:
        authorization = _basic(credentials)
    return Proxy(scheme, host, port, authorization, verify and bool(authorization))


def _basic(credentials: str) -> bytes:
    """Return the *credentials* of a URL as the value of an Authorization field (RFC 7617)."""
    user_and_password = credentials if ":" in credentials else f"{credentials}:"
    return b"Basic " + b64encode(unquote_to_bytes(user_and_password))


def _head(method: str, target: str, headers: list[tuple[bytes, bytes]]) -> bytes:
    """Return request line and header; raise ValueError if a field has a control character."""
    lines = b"".join([b"%b: %b\r\n" % field for field in headers])
    # With a line end, a field could smuggle in other fields.
    if len(lines.translate(None, _CONTROL)) != len(lines) - 2 * len(headers):
        raise ValueError("a control character in a header field")
    return b"%b %b HTTP/1.1\r\n%b\r\n" % (method.encode(), target.encode(), lines)
