"""From a Scrapy response to a Page: what the wire said, and what a plain response says."""

from scrapy import Request
from scrapy.http import HtmlResponse, Response
from text_tables import each

from webcrawl.crawl.lease.fetch import Fetch
from webcrawl.crawl.lease.page_builder import page_of
from webcrawl.frontier import Entry, Lease

URL = "http://a.test/dir/page"
ENTRY = Entry(
    URL, "a.test", depth=2, rank=7, via="http://b.test/", kind="iframe", attempts=1, discovered_at=5
)


def fetch(**facts):
    lease = Lease(ENTRY, 1, 0.0, None)
    return Fetch(lease=lease, task=None, release=lambda _: None, **facts)


def response(status=200, headers=None, body=b"", *, meta=None, flags=None, **attributes):
    request = Request(URL, meta=meta or {})
    return Response(
        URL,
        status=status,
        headers=headers or {},
        body=body,
        flags=flags,
        request=request,
        **attributes,
    )


def page(*args, **kwargs):
    return page_of(response(*args, **kwargs), fetch())


def test_its_place_in_the_crawl_is_that_of_the_entry():
    found = page()
    assert (found.url, found.depth, found.rank, found.via) == (URL, 2, 7, "http://b.test/")
    assert (found.kind, found.attempts) == ("iframe", 1)
    assert found.links == []
    assert found.content_fingerprint == 0


def test_times_are_those_of_the_download():
    found = page_of(response(), fetch(took=0.25, sent_wall=1_750_000_000.25))
    assert (found.download_seconds, found.fetched_at) == (0.25, 1_750_000_000.25)


@each(
    "value content_type charset",
    ("text/html", "text/html", ""),
    ("Text/HTML; Charset=UTF-8", "text/html", "utf-8"),
    ("text/html;charset=utf-8", "text/html", "utf-8"),
    ('text/html ; charset = "ISO-8859-1" ', "text/html", "iso-8859-1"),
    ("text/html; charset='koi8-r'", "text/html", "koi8-r"),
    ("text/html; a=b; charset=gbk; charset=big5", "text/html", "gbk"),
    ('text/html; a=";charset=gbk"; charset=big5', "text/html", "big5"),
    ("text/html; charset", "text/html", ""),
    ("text/html; charset=", "text/html", ""),
    # Fetch Standard, "extract a MIME type": its own examples, and what servers send.
    ("text/html, text/html", "text/html", ""),
    ("text/plain;charset=gbk, text/html", "text/html", ""),
    ("text/html;charset=gbk;a=b, text/html;x=y", "text/html", "gbk"),
    ("text/html;charset=gbk;a=b, text/html;x=y;charset=big5", "text/html", "big5"),
    ("text/html, */*;charset=gbk", "text/html", ""),
    ('text/html;charset="shift_jis"iso-2022-jp', "text/html", "shift_jis"),
    (["text/plain", "text/html;charset=gbk"], "text/html", "gbk"),
    ("text/html, garbage", "text/html", ""),
    ("; charset=utf-8", "", ""),
    ("text/html charset=utf-8", "", ""),
    ("html", "", ""),
    ("", "", ""),
    (b"text/\xffhtml", "", ""),
)
def test_content_type_and_charset_are_those_of_the_fetch_standard(value, content_type, charset):
    found = page(headers={"Content-Type": value})
    assert (found.content_type, found.charset) == (content_type, charset)


def test_without_a_content_type_both_are_empty():
    assert (page().content_type, page().charset) == ("", "")


@each(
    "location target",
    ("http://b.test/x", "http://b.test/x"),
    ("/root", "http://a.test/root"),
    ("sibling?a=b", "http://a.test/dir/sibling?a=b"),
    ("HTTP://B.TEST:80/#part", "http://b.test/"),
    ("/ü".encode("latin-1"), "http://a.test/%FC"),
    ("http://[broken", ""),
    ("ftp://a.test/", ""),
    ("", ""),
    (["/one", "/two"], "http://a.test/two"),  # as Scrapy reads repeated fields
)
def test_a_page_has_the_target_of_its_redirect(location, target):
    assert page(302, {"Location": location}).redirect_target == target


@each("status", 200, 201, 300, 304, 305, 306, 399, 404, 503)
def test_only_a_redirect_leads_anywhere(status):
    assert page(status, {"Location": "/x"}).redirect_target == ""


@each(
    "flags truncated",
    (None, ""),
    (["truncated"], "length"),
    (["truncated", "time"], "time"),
    (["truncated", "body_cut"], ""),
    (["dataloss", "truncated", "body_cut"], "disconnect"),
    (["dataloss"], "disconnect"),
    (["dataloss", "truncated"], "length"),
    (["undecodable", "cached"], ""),
)
def test_flags_say_why_a_body_is_not_whole(flags, truncated):
    found = page(flags=flags)
    assert (found.truncated, found.body_cut) == (truncated, "body_cut" in (flags or ()))


def test_the_exchange_is_what_went_over_the_wire():
    meta = {
        "wire_headers": ((b"content-TYPE", b"text/html"), (b"X", b"1"), (b"x", b"2")),
        "wire_reason": "Fine",
        "wire_request_headers": (
            (b"User-Agent", "web\u2014crawl".encode()),
            (b"Accept", b"*/*"),
        ),
        "wire_body": b"\x1f\x8bcoded",
        "wire_head": b"HTTP/1.0 200 Fine\r\n\r\n",
        "wire_request": b"GET / HTTP/1.1\r\n\r\n",
        "tls": "TLSv1.3 X",
    }
    found = page(
        headers={"Content-Type": "text/html"},
        body=b"decoded",
        meta=meta,
        protocol="HTTP/1.0",
        ip_address="127.16.0.1",
    )
    assert found.headers == [(b"content-TYPE", b"text/html"), (b"X", b"1"), (b"x", b"2")]
    assert found.reason == "Fine"
    assert found.request_headers == [
        (b"User-Agent", "web\u2014crawl".encode()),
        (b"Accept", b"*/*"),
    ]
    assert found.wire_body == b"\x1f\x8bcoded"
    assert found.wire_head == b"HTTP/1.0 200 Fine\r\n\r\n"
    assert found.wire_request == b"GET / HTTP/1.1\r\n\r\n"
    assert found.tls == "TLSv1.3 X"
    assert found.body == b"decoded"
    assert (found.protocol, found.ip, found.method) == ("HTTP/1.0", "127.16.0.1", "GET")
    for known in ("127.0.0.2", ""):  # "" through a proxy
        assert page(meta={"wire_address": known}, ip_address="127.16.0.1").ip == known


def test_of_a_plain_scrapy_response_its_own_headers_and_body_stand_for_the_wire():
    found = page_of(
        HtmlResponse(
            URL,
            headers={"Set-Cookie": ["a=1", "b=2"], "Content-Type": "text/html"},
            body=b"<p>",
            request=Request(URL, method="POST"),
        ),
        fetch(),
    )
    assert sorted(found.headers) == [
        (b"Content-Type", b"text/html"),
        (b"Set-Cookie", b"a=1"),
        (b"Set-Cookie", b"b=2"),
    ]
    assert found.wire_body is found.body
    assert found.request_headers == []
    assert (found.reason, found.protocol, found.ip) == ("", "HTTP/1.1", "")
    assert found.method == "POST"


@each("status permanent", (301, True), (308, True), (302, False), (303, False), (307, False))
def test_a_redirect_is_permanent_or_not(status, permanent):
    moved = page(status=status, headers={"Location": "/new"})
    assert moved.redirect_target.endswith("/new")
    assert moved.redirect_permanent is permanent
    without = page(status)
    assert (without.redirect_target, without.redirect_permanent) == ("", False)
