"""HTTP requests as they are sent: where to, in which words, and never more than one."""

import contextvars
import re

import pytest
from fetching import OK, served
from hypothesis import given
from hypothesis import strategies as st
from loopback import head
from scrapy import Request
from text_tables import cases, each

from webcrawl.net.http.request import ADDED, Endpoint, Proxy, additions, wire_request


def sent(url="http://a.test/", **options):
    meta = options.pop("meta", {}) | {"verbatim_url": True}
    return wire_request(Request(url, meta=meta, **options))


def fields_of(request):
    """The names and values of the fields in the bytes of *request*."""
    _, *lines = request.data.partition(b"\r\n\r\n")[0].split(b"\r\n")
    return tuple((name, value) for name, _, value in (line.partition(b": ") for line in lines))


@cases(
    "url scheme host port",
    """
        http://a.test/x                 | http  | a.test             | 80
        https://a.test                  | https | a.test             | 443
        https://a_b.x-1.test:80/        | https | a_b.x-1.test       | 80
        http://xn--bcher-kva.test:65535/ | http  | xn--bcher-kva.test | 65535
        http://192.0.2.1:8080/          | http  | 192.0.2.1          | 8080
        HTTP://A.test/                  | http  | a.test             | 80
        http://u:p@a.test:/             | http  | a.test             | 80
        http://[::1]:080/               | http  | [::1]              | 80
        http://a.test./                 | http  | a.test.            | 80
    """,
)
def test_a_request_goes_to_the_endpoint_of_its_url(url, scheme, host, port):
    assert sent(url).endpoint == Endpoint(scheme, host, port)


@cases(
    "url line",
    r"""
        http://a.test                               | b"GET / HTTP/1.1"
        http://a.test?q                             | b"GET /?q HTTP/1.1"
        http://a.test#f                             | b"GET / HTTP/1.1"
        http://a.test/x?#y                          | b"GET /x? HTTP/1.1"
        http://a.test//a//b                         | b"GET //a//b HTTP/1.1"
        http://a.test/a%7Eb/%2e./c?q=%20&r=a+b#frag | b"GET /a%7Eb/%2e./c?q=%20&r=a+b HTTP/1.1"
        http://a.test/é|'                           | b"GET /\xc3\xa9|' HTTP/1.1"
        http://u:p@a.test/x                         | b"GET /x HTTP/1.1"
    """,
)
def test_what_is_asked_for_is_what_was_recorded(url, line):
    assert sent(url).data.split(b"\r\n")[0] == line


@cases(
    "url",
    r"""
        http://user@b@a.test/
        http://[fe80::1%25lo]/
        http://[::1/
        http:///x
        http://a.test:65536/
        LONG
        http://a.test:x/
        http://a.test /
        http://a.test\b/
        "http://a.test/\r\nX: 1"
        "http://a.test/\0"
        "http://a.test/\t"
        ftp://a.test/
        data:,x
    """,
    {"LONG": f"http://a.test:{'9' * 5000}/"},
)
def test_no_request_is_made_of_any_other_url(url):
    with pytest.raises(ValueError):  # noqa: PT011  any: it becomes bad_url
        sent(url)


@cases(
    "options",
    r"""
        {"method": "G ET"}
        {"method": "POST\r\nX: 1"}
        {"method": "CONNECT"}
        {"method": ""}
        {"headers": {"X": "1\r\nY: 2"}}
        {"headers": {"X": "1\0"}}
        {"headers": {"X": "\x1f"}}
        {"headers": {"X\r\nY": "1"}}
        {"headers": {"Host": "a.test\r\nX: 1"}}
        {"url": "http://%0d%0a:p@a.test/", "meta": {"proxy": "http://a.test\r\nX: 1"}}
        {"meta": {"proxy": "socks5://a.test"}}
        {"meta": {"proxy": "//a.test"}}
        {"meta": {"proxy": "a.test:99999"}}
        {"meta": {"proxy": "a.test"}, "headers": {"Proxy-Authorization": "1\r\nY: 2"}}
    """,
)
def test_nor_of_what_would_be_more_than_one_request(options):
    with pytest.raises(ValueError):  # noqa: PT011  any: it becomes bad_url
        sent(**options)


def test_fields_are_sent_in_their_order_behind_the_host():
    fields = {"User-Agent": "w", "Accept": ["a", "b"], "Content-Type": "x/y", "X": "a\tb"}
    request = sent("http://u%20x:p%40q@a.test:81/", method="POST", body=b"q=1", headers=fields)
    assert fields_of(request) == (
        (b"Host", b"a.test:81"),
        (b"User-Agent", b"w"),
        (b"Accept", b"a"),
        (b"Accept", b"b"),
        (b"Content-Type", b"x/y"),
        (b"X", b"a\tb"),
        (b"Authorization", b"Basic dSB4OnBAcQ=="),
        (b"Content-Length", b"3"),
    )
    lines = b"".join(b"%b: %b\r\n" % field for field in fields_of(request))
    assert request.data == b"POST / HTTP/1.1\r\n" + lines + b"\r\nq=1"


@cases(
    "url value",
    """
        user@a.test  | b"dXNlcjo="
        :p@a.test    | b"OnA="
        a:b:c@a.test | b"YTpiOmM="
    """,
)
def test_credentials_of_a_url_are_sent_as_a_field(url, value):
    assert fields_of(sent(f"http://{url}/"))[1] == (b"Authorization", b"Basic " + value)
    own = sent(f"http://{url}/", headers={"Authorization": "Basic x"})
    assert fields_of(own)[1:] == ((b"Authorization", b"Basic x"),)


@cases(
    "method body length",
    """
        GET     | b""   | None
        HEAD    | b""   | None
        OPTIONS | b""   | None
        GET     | b"q"  | b"1"
        POST    | b""   | b"0"
        PUT     | b"qq" | b"2"
        DELETE  | b""   | b"0"
        PURGE   | b""   | b"0"
    """,
)
def test_the_length_of_the_body_is_sent_whatever_its_fields_say(method, body, length):
    for fields in ({}, {"Content-Length": "7"}, {"transfer-encoding": "chunked"}):
        request = sent(method=method, body=body, headers=fields)
        assert dict(fields_of(request)).get(b"Content-Length") == length
        assert b"Transfer-Encoding" not in dict(fields_of(request))
        assert request.data.endswith(b"\r\n\r\n" + body)
        assert request.has_body is (method != "HEAD")


def test_a_host_of_ones_own_choice_is_sent_in_the_place_of_the_host():
    request = sent(headers={"X": "1", "Host": "b.test"})
    assert fields_of(request) == ((b"Host", b"b.test"), (b"X", b"1"))
    assert request.endpoint.host == "a.test"


def test_a_proxy_is_part_of_the_endpoint():
    proxies = {
        "127.0.0.1:8": Proxy("http", "127.0.0.1", 8, b""),
        "http://b.test": Proxy("http", "b.test", 80, b""),
        "https://[::1]:81/x?y": Proxy("https", "[::1]", 81, b""),
        "u:p@b.test": Proxy("http", "b.test", 80, b"Basic dTpw"),
    }
    for url, proxy in proxies.items():
        request = sent("http://c.test/x", meta={"proxy": url})
        assert request.endpoint == Endpoint("http", "c.test", 80, proxy)
        assert request.data.startswith(b"GET http://c.test/x HTTP/1.1\r\nHost: c.test\r\n")
        mine = sent(meta={"proxy": url}, headers={"Proxy-Authorization": "Basic x"})
        expected = proxy.authorization or b"Basic x"
        assert mine.endpoint.proxy.authorization == expected


def test_credentials_of_a_proxy_are_sent_to_no_host():
    fields = {"Proxy-Authorization": "Basic x", "X": "1"}
    assert fields_of(sent(headers=fields)) == ((b"Host", b"a.test"), (b"X", b"1"))
    tunnelled = sent("https://a.test/", headers=fields, meta={"proxy": "b.test"})
    assert fields_of(tunnelled) == ((b"Host", b"a.test"), (b"X", b"1"))
    assert tunnelled.endpoint.proxy.authorization == b"Basic x"
    asked = sent(headers=fields, meta={"proxy": "b.test"})
    assert fields_of(asked)[-1] == (b"Proxy-Authorization", b"Basic x")


PATHS = st.text("/?#%&=.:;@\"'<>{}[]|\\^`~!$*+,-_0aZ", max_size=12).map("/".__add__)
VALUES = st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=8)
NAMES = st.sampled_from(["User-Agent", "x-one", "Accept", "If-None-Match"])


@given(st.sampled_from(["GET", "HEAD", "POST"]), PATHS, st.dictionaries(NAMES, VALUES))
def test_the_recorded_fields_are_those_on_the_wire(method, path, fields):
    request = sent(f"http://a.test{path}", method=method, headers=fields)
    line, *lines = request.data.split(b"\r\n")
    assert line == f"{method} {path.partition('#')[0]} HTTP/1.1".encode()
    assert lines == [b"%b: %b" % field for field in request.shown_headers] + [b"", b""]


async def test_a_field_that_expects_leave_does_not_hold_the_body_back():
    async def read(raw, reader, writer):
        assert await reader.readexactly(4) == b"q=42"

    talk = [head, read, b"HTTP/1.1 100 Continue\r\n\r\n" + OK]
    async with served(talk) as (_, get):
        fields = {"Expect": "100-continue"}
        assert (await get(method="POST", body=b"q=42", headers=fields)).body == b"hello"


def test_what_an_operator_adds_is_sent_and_not_shown():
    proxy = "http://me:pw@proxy.test:3128"
    unsafe = {"verify": False, "proxy_verify": False}
    added = additions({"X-Key": "k3y"}, {"a": "s3cret"}, proxy, **unsafe)

    def sent():
        ADDED.set(added._replace(proxy=None))
        direct = wire_request(Request("http://a.test/", headers={"X-Key": "old", "Cookie": "b=2"}))
        ADDED.set(added)
        return direct, wire_request(Request("http://a.test/"))

    direct, proxied = contextvars.copy_context().run(sent)
    assert b"X-Key: k3y\r\n" in direct.data
    assert b"old" not in direct.data
    assert b"Cookie: a=s3cret; b=2\r\n" in direct.data
    assert b"X-Key: (withheld)\r\n" in direct.shown
    assert proxied.endpoint.proxy.host == "proxy.test"
    assert proxied.data.startswith(b"GET http://a.test/ ")
    assert proxied.shown == b""
    for shown in (direct.shown, repr(direct.shown_headers), repr(proxied.shown_headers)):
        assert not any(secret in str(shown) for secret in ("k3y", "s3cret", "b=2", "Basic"))
    assert wire_request(Request("http://a.test/")).shown.startswith(b"GET / ")


def test_what_an_operator_adds_replaces_the_credentials_of_a_url():
    def sent():
        ADDED.set(additions({"Authorization": "Bearer x"}, {}, ""))
        return wire_request(Request("https://me:pw@a.test/", meta={"verbatim_url": True}))

    data = contextvars.copy_context().run(sent).data
    assert re.findall(rb"Authorization: (.*)\r", data) == [b"Bearer x"]


@each("proxy", None, "http://proxy.test:1")
@each(
    "url signature",
    ("https://A.test/x", b"a.test"),
    ("https://a.test.:443/", b"a.test"),
    ("https://a.test:8443/", b"a.test:8443"),
    ("http://a.test/", b""),
)
def test_https_requests_are_signed_for_their_authority(url, signature, proxy):
    request = Request(url, meta={"proxy": proxy}, headers={"Authorization": "secret"})
    made = wire_request(request, lambda authority: [(b"Signature", authority)])
    assert dict(fields_of(made)).get(b"Signature", b"") == signature
    # A signature is not a secret.
    assert dict(made.shown_headers).get(b"Signature", b"") == signature
    request.headers["Signature"] = "own"
    assert b"\r\nSignature: own\r\n" in wire_request(request, lambda _: 1 / 0).data
