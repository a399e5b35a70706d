"""Requests that go without a session: as the session would send them, or not at all."""

from __future__ import annotations

import asyncio

import pytest
from fetching import OK, handler_with
from hypothesis import given
from hypothesis import strategies as st
from loopback import raw_server
from scrapy import Request
from strategies import examples

from webcrawl.net.http import handler as http
from webcrawl.net.http.direct import plain_request
from webcrawl.net.http.idle import Place

PATHS = st.one_of(
    st.sampled_from(["", "/", "/#", "//a//b", "/a%7Eb/%2e./c?q=%20&r=a+b#frag", "?q", "#f"]),
    st.text("/?#%&=.:;@\"'<>{}[]|\\^`~!$*+,-_0aZ", max_size=12).map("/".__add__),
).filter(lambda path: not path.partition("#")[0].endswith("?"))  # yarl drops that


@examples(60)
@given(
    st.sampled_from(["GET", "HEAD"]),
    PATHS,
    st.dictionaries(
        st.sampled_from(["User-Agent", "x-one", "Accept", "If-None-Match", "Cookie"]),
        st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=8),
    ),
)
def test_what_is_sent_is_what_the_session_would_send(method, path, fields):
    async def scenario() -> tuple[list[bytes], list[object]]:
        async with raw_server(OK) as server, handler_with() as handler:
            url = f"http://127.0.0.1:{server.port}{path}"
            sent = []
            for direct in (True, False):
                with pytest.MonkeyPatch.context() as patch:
                    if not direct:
                        patch.setattr(http, "plain_request", lambda _: None)
                    request = Request(
                        url,
                        method=method,
                        headers=fields,
                        encoding="utf-8",
                        meta={"verbatim_url": True},
                    )
                    await handler.download_request(request)
                    sent.append(request.meta["wire_request_headers"])
            return server.heads, sent

    heads, sent = asyncio.run(scenario())
    assert heads[0] == heads[1]
    assert sent[0] == sent[1]


def test_an_empty_query_is_sent_as_it_was_recorded():
    asked = plain_request(Request("http://a.test/x?#y", meta={"verbatim_url": True}))
    assert asked is not None
    assert asked.data == b"GET /x? HTTP/1.1\r\nHost: a.test\r\n\r\n"


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://a.test/x", Place("http", "a.test", 80)),
        ("https://a.test", Place("https", "a.test", 443)),
        ("https://a_b.x-1.test:80/", Place("https", "a_b.x-1.test", 80)),
        ("http://xn--bcher-kva.test:65535/", Place("http", "xn--bcher-kva.test", 65535)),
        ("http://192.0.2.1:8080/", Place("http", "192.0.2.1", 8080)),
        ("http://localhost/", Place("http", "localhost", 80)),
    ],
)
def test_a_plain_url_is_taken(url, place):
    asked = plain_request(Request(url))
    assert asked is not None
    assert asked.place == place


@pytest.mark.parametrize(
    "url",
    [
        "http://user:pass@a.test/",
        "http://user@a.test/",
        "http://[::1]/",
        "http://127.1/",
        "http://0x7f000001/",
        "http://017700000001/",
        "http://127.0.0.01/",
        "http://a.0x7f/",
        "http://a.test./",
        "http://A.test/",
        "http://a.test:0/",
        "http://a.test:65536/",
        "http://a.test?q",
        "http://a..test/",
        "http://a.test/ b",
        "http://a.test/\u00e9",
        "http://a.test/\r\nX: 1",
        "ftp://a.test/",
    ],
)
def test_any_other_url_is_not(url):
    assert plain_request(Request(url, meta={"verbatim_url": True})) is None


@pytest.mark.parametrize(
    "request_",
    [
        Request("http://a.test/", method="POST"),
        Request("http://a.test/", body=b"q"),
        Request("http://a.test/", headers={"Host": "b.test"}),
        Request("http://a.test/", headers={"transfer-encoding": "chunked"}),
        Request("http://a.test/", headers={"Proxy-Authorization": "Basic x"}),
        Request("http://a.test/", headers={"X": "1\r\nY: 2"}),
        Request("http://a.test/", headers={"X": "1\0"}),
        Request("http://a.test/", headers={"X": "\x1f"}),
        Request("http://a.test/", headers={"X\r\nY": "1"}),
    ],
)
def test_nor_is_what_would_be_more_than_one_request_or_another_one(request_):
    assert plain_request(request_) is None
