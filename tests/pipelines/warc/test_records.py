"""Records of a page: what is in them, and that nothing breaks out of them."""

import gzip
import re
from base64 import b64decode

import pytest
from fastwarc.warc import ArchiveIterator, WarcRecordType
from golden import golden
from hypothesis import given
from hypothesis import strategies as st
from isal import isal_zlib
from strategies import examples
from text_tables import each, table
from warc_checks import complaints, page, records, text_of, urls

from webcrawl.items import Link
from webcrawl.pipelines.warc.records import page_records, warcinfo_record


@pytest.fixture
def stored(tmp_path):
    """Store pages in a file that every validator accepts, except for those in *complained*."""

    def store(*pages, complained=frozenset()):
        path = tmp_path / "x.warc.gz"
        found = [warcinfo_record(filename=path.name, at=1.5, fields=[("software", "tests")])]
        for one in pages:
            found += page_records(one)
        path.write_bytes(b"".join(isal_zlib.compress(record, 2, 31) for record in found))
        assert complaints(path).keys() == complained
        return path

    return store


def fields(block):
    return [tuple(line.split(": ", 1)) for line in block.decode().splitlines()]


def test_page_becomes_response_request_and_metadata(stored):
    path = stored(
        page(
            7,
            url="http://a.test/x?y=1",
            request_headers=[(b"User-Agent", b"tests"), (b"Accept", b"*/*")],
            charset="utf-8",
            depth=3,
            via="http://a.test/",
            kind="iframe",
            attempts=2,
            robots_line="Allow: /x",
            download_seconds=0.1234,
            links=[Link("http://a.test/1", "one two", "a"), Link("http://a.test/2", "", "area")],
        )
    )
    text = text_of(path)
    assert text == golden("page.warc", text)


def test_any_body_comes_back_as_it_was(stored):
    bodies = [b"", b"\x00\xff" * 999, b"\r\n\r\n", b"WARC/1.1\r\n\r\n", b"x" * 300_000, b"\n"]
    path = stored(*(page(number, body=body) for number, body in enumerate(bodies)))
    assert [record.body for record in records(path)[1::3]] == bodies
    assert len(urls(path)) == len(bodies)


def test_coded_body_is_stored_as_it_came_and_read_decoded(stored):
    wire = gzip.compress(b"<p>decoded")
    headers = [(b"Content-Encoding", b"gzip"), (b"Content-Length", b"%d" % len(wire))]
    path = stored(page(body=b"<p>decoded", wire_body=wire, headers=headers))
    response = records(path)[1]
    assert response.body == wire
    assert response.content == b"<p>decoded"
    assert response.http == [("Content-Encoding", "gzip"), ("Content-Length", str(len(wire)))]


def http(record):
    """The fields of the HTTP head, in one line."""
    return ", ".join(map(": ".join, record.http))


@each(
    "received with_body without",
    *table("""
        transfer-encoding: chunked, Age: 1
            | X-Crawler-Transfer-Encoding: chunked, Age: 1, Content-Length: 5
            | X-Crawler-Transfer-Encoding: chunked, Age: 1
        Content-Length: 99, Age: 1
            | X-Crawler-Content-Length: 99, Age: 1, Content-Length: 5
            | Content-Length: 99, Age: 1
        content-length:  5, Content-Length: 5
            | content-length: 5, X-Crawler-Content-Length: 5
            | content-length: 5, Content-Length: 5
        Content-Length: 5, Transfer-Encoding: x
            | Content-Length: 5, X-Crawler-Transfer-Encoding: x
            | Content-Length: 5, X-Crawler-Transfer-Encoding: x
        Age: 1 | Age: 1 | Age: 1
    """),
)
def test_head_describes_the_body_that_is_stored(stored, received, with_body, without):
    """An answer without a body may say how long it would be."""
    headers = [tuple(one.encode().split(b": ", 1)) for one in received.split(", ")]
    bodiless = [{"status": 304}, {"status": 204}, {"method": "HEAD"}]
    path = stored(
        page(body=b"12345", headers=headers),
        *(page(body=b"", headers=headers, **more) for more in bodiless),
    )
    heads = [http(record) for record in records(path)[1::3]]
    assert heads == [with_body, without, without, without]


def received(head, *headers, **more):
    """A page with *head*, of which the parser made *headers*."""
    return page(wire_head=head, headers=list(headers), **more)


def blocks(path, kind=WarcRecordType.response):
    """What stands in each record of the *kind*, byte for byte."""
    with path.open("rb") as file:
        found = ArchiveIterator(file, record_types=kind, parse_http=False)
        return [record.reader.read() for record in found]


@each("status body", (200, b"<p>long</p>" * 200_000), (304, b""))
def test_heads_are_stored_byte_for_byte(stored, status, body):
    chunked = (b"transfer-encoding", b"chunked")
    more = {"status": status, "body": body}
    pages = [
        received(b"HTTP/1.0 200\r\n\r\n", **more),
        received(
            b"HTTP/1.1 200 \xfc:-) \r\nA:b\r\nB:\t c \r\na: \xff\r\nE:\r\n\r\n",
            *((b"A", b"b"), (b"B", b"c"), (b"a", b"\xff"), (b"E", b"")),
            **more,
        ),
        received(
            b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n",
            (b"Content-Length", b"99"),
            truncated="disconnect",
            **more,
        ),
        received(b"HTTP/1.1 200 OK\r\ntransfer-encoding:  chunked\r\n\r\n", chunked, **more),
    ]
    path = stored(*pages)
    *plain, framed = blocks(path)
    assert plain == [one.wire_head + body for one in pages[:-1]]
    assert framed.removeprefix(pages[-1].wire_head)[:8] == (b"100000\r\n" if body else b"")
    responses = records(path)[1::3]
    assert [record.content for record in responses] == [body] * 4
    digests = {record.headers["WARC-Payload-Digest"] for record in responses}
    assert len(digests) == (2 if body else 1)


def test_heads_that_tools_would_read_in_different_ways_are_mended(stored):
    status = b"HTTP/1.1 200 OK\r\n"
    cases = [
        (b"HTTP/1.1 200 OK\nA: b\n\n", [(b"A", b"b")]),
        (status + b"A: b\r\n c\r\n\r\n", [(b"A", b"b\r\n c")]),
        (status + b"A : b\r\n\r\n", [(b"A ", b"b")]),
        (status + b"A: b\r\nB: c\r\n\r\n", [(b"A", b"b")]),
        (status + b"A: b\r\n\r\nX: y\r\n\r\n", [(b"A", b"b")]),
        (b"HTTP/1.1 2000 OK\r\nA: b\r\n\r\n", [(b"A", b"b")]),
        (status + b"Transfer-Encoding: Chunked\r\n\r\n", [(b"Transfer-Encoding", b"Chunked")]),
        (
            status + b"Transfer-Encoding: a, chunked\r\n\r\n",
            [(b"Transfer-Encoding", b"a, chunked")],
        ),
        (status + b"Content-Length: 3\r\n" * 2 + b"\r\n", [(b"Content-Length", b"3")] * 2),
        (status + b"A: %b\r\n\r\n" % (b"v" * 40_000), [(b"A", b"v" * 40_000)]),
    ]
    path = stored(*(received(head, *headers, body=b"abc") for head, headers in cases))
    assert len(urls(path)) == len(cases)
    for block, (head, _) in zip(blocks(path), cases, strict=True):
        assert not block.startswith(head), head
    assert {record.content for record in records(path)[1::3]} == {b"abc"}
    # The bytes received are kept.
    kept = [dict(fields(record.body)).get("receivedHead", "") for record in records(path)[3::3]]
    assert [b64decode(one) for one in kept] == [head for head, _ in cases]


def test_requests_are_stored_byte_for_byte_with_their_bodies(stored):
    post = b"POST /0 HTTP/1.1\r\nhost:a.test\r\nContent-Length: 3\r\n\r\na=1"
    path = stored(
        page(method="POST", wire_request=post, request_headers=[(b"host", b"a.test")]),
        page(1, wire_request=b"GET /a b HTTP/1.1\r\nHost: a.test\r\n\r\n"),
        page(2, request_headers=[(b"Proxy-Authorization", b"Basic secret"), (b"A", b"b")]),
    )
    assert blocks(path, WarcRecordType.request) == [
        post,
        b"GET /1 HTTP/1.1\r\nHost: a.test\r\n\r\n",
        b"GET /2 HTTP/1.1\r\nHost: a.test\r\nA: b\r\n\r\n",
    ]


def test_protocols_and_cipher_suite_are_named(stored):
    suite = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
    path = stored(
        page(tls=f"TLSv1.2 {suite}"),
        page(1, tls="TLSv1 RARE-SUITE", protocol="HTTP/1.0"),
        page(2, tls="TLSv9\r\nX: y", protocol="x\r\ny"),
        page(3, protocol="FTP", url="ftp://a.test/"),
    )
    with path.open("rb") as file:
        found = [
            (one.headers.get_multiple("WARC-Protocol"), one.headers.get("WARC-Cipher-Suite"))
            for one in ArchiveIterator(file)
        ]
    assert found == [
        ((), None),
        *[(("http/1.1", "tls/1.2"), suite)] * 3,
        *[(("http/1.0", "tls/1.0"), None)] * 3,
        *[((), None)] * 3,
        *[(("ftp",), None)] * 2,
    ]


# The names of the extension (iipc/warc-specifications, WARC-Protocol), as handlers name them, and
# the status line, which must be one that tools read.
@each(
    "protocol named",
    *table("""
        HTTP/0.9 | http/0.9
        HTTP/1.0 | http/1.0
        HTTP/1.1 | http/1.1
        h2       | h2
        H2C      | h2c
        h3       | h3
        FTP      | ftp
        GOPHER   | gopher
        GEMINI   | gemini
        HTTP/2   |
        x_y      |
    """),
)
def test_a_protocol_is_named_if_it_has_a_name(protocol, named):
    record = page_records(page(protocol=protocol.replace("_", "\r\n")))[0]
    head, _, block = record.decode().partition("\r\n\r\n")
    told = [line for line in head.split("\r\n") if "WARC-Protocol" in line]
    assert told == [f"WARC-Protocol: {named}"] * bool(named)
    version = "HTTP/1.0" if protocol == "HTTP/1.0" else "HTTP/1.1"
    assert block.startswith(f"{version} 200 OK\r\n")


@each(
    "declared body identified",
    ("text/html", b"\xef\xbb\xbf\n<!-- <a> --><?xml?><!DOCTYPE html>", b"text/html"),
    ("application/xhtml+xml", b"<html xmlns='x'>", b"application/xhtml+xml"),
    ("text/html", b"<!-- a feed --><rss>", None),
    ("text/html", b"{}", None),
    ("text/plain", b"<html>", None),
)
def test_a_type_is_identified_if_the_payload_confirms_it(declared, body, identified):
    response = page_records(page(body=body, content_type=declared))[0]
    found = re.findall(rb"WARC-Identified-Payload-Type: (.+)\r", response)
    assert found == ([identified] if identified else [])


def test_redirect_names_its_target_and_a_truncated_page_says_why(stored):
    moved = page(status=301, reason="", body=b"", redirect_target="http://b.test/", links=[])
    cut = page(1, truncated="length", headers=[(b"Content-Length", b"100000")])
    _, response, _, metadata, truncated, *_ = records(stored(moved, cut))
    assert truncated.headers["WARC-Truncated"] == "length"
    assert response.status_line == "HTTP/1.1 301"
    assert ("redirectTarget", "http://b.test/") in fields(metadata.body)


def test_request_has_a_host_even_when_the_url_is_odd(stored):
    for url, host, target in [
        ("http://user:pw@a.test:81?q", "a.test:81", "/?q"),
        ("http://[::1]:81/x", "[::1]:81", "/x"),
        ("http://a.test", "a.test", "/"),
    ]:
        request = records(stored(page(url=url)))[2]
        assert request.status_line == f"GET {target} HTTP/1.1"
        assert request.http == [("Host", host)]
    own = records(stored(page(request_headers=[(b"hOST", b"b.test")])))[2]
    assert own.http == [("hOST", "b.test")]


@each(
    "url stored_url",
    ("http://a.test/é ü", "http://a.test/%C3%A9%20%C3%BC"),
    ("http://a.test/\r\nWARC-Type: x", "http://a.test/%0D%0AWARC-Type:%20x"),
    ("http://a.test/\ud800", "http://a.test/%3F"),
)
def test_url_cannot_end_its_line(stored, url, stored_url):
    path = stored(page(url=url, via=url, links=[Link(url, "t")]), page(2))
    assert urls(path) == [stored_url, "http://a.test/2"]
    metadata = fields(records(path)[3].body)
    assert ("via", stored_url) in metadata
    assert ("outlink", f"{stored_url} a t") in metadata


def test_headers_cannot_forge_headers_or_records(stored):
    attack = b"x\r\nInjected: 1\r\n\r\nHTTP/1.1 200 OK\r\nWARC/1.1\r\n\n\r\x00y"
    path = stored(
        page(
            headers=[(b"A", attack), (attack, b"v"), (b"", b"v")],
            request_headers=[(b"B", attack)],
            reason="OK\r\nInjected: 1",
            method="GET / HTTP/1.1\r\nInjected: 1",
        ),
        page(2),
    )
    _, response, request, *_ = records(path)
    assert response.status_line == "HTTP/1.1 200 OK Injected: 1"
    assert [name for name, _ in response.http] == [
        "A", "xInjected1HTTP1.1200OKWARC1.1y", "X",
    ]  # fmt: skip
    assert "Injected" not in dict(request.http)
    assert request.status_line == "GETHTTP1.1Injected1 /0 HTTP/1.1"
    assert len(urls(path)) == 2


def test_head_that_readers_would_not_take_loses_its_longest_fields(stored):
    many = [(b"A%d" % n, b"v" * 300) for n in range(250)]
    path = stored(
        page(headers=[(b"Long", b"v" * 100_000), (b"Content-Encoding", b"identity")]),
        page(headers=[*many, (b"Content-Type", b"text/html")], request_headers=many),
        page(2, headers=[(b"A", b"v" * 31_000)]),
    )
    responses = [record for record in records(path) if record.kind == "response"]
    said = [record.headers.get("WARC-Truncated") for record in responses]
    assert said == ["long-headers", "long-headers", None]
    heads = [record.http for record in responses]
    assert heads[0] == [("Content-Encoding", "identity"), ("X-Crawler-Dropped-Fields", "1")]
    assert heads[1][-2] == ("Content-Type", "text/html")
    assert len(heads[1]) + int(heads[1][-1][1]) == 252
    assert len(heads[1]) > 100
    assert heads[2] == [("A", "v" * 31_000)]


def test_url_that_readers_would_not_take_is_refused(stored):
    with pytest.raises(ValueError, match="a URL of 40007 bytes cannot be stored"):
        page_records(page(url="http://" + "x" * 40_000))
    long = page(url="http://a.test/" + "x" * 29_900, request_headers=[(b"A", b"v" * 5000)])
    stored(long, complained={"warcat"})  # which takes no record head of more than 4 kB
    stored(page(url="http://a.test/" + "x" * 3500))


def test_link_texts_cannot_forge_metadata(stored):
    forged = "x\r\nvia: http://evil.test/\x85via: y\u2028z"
    path = stored(page(links=[Link("http://a.test/1", forged), Link("http://a.test/2", "é\xad")]))
    assert fields(records(path)[3].body)[-2:] == [
        ("outlink", "http://a.test/1 a x via: http://evil.test/ via: y z"),
        ("outlink", "http://a.test/2 a é\xad"),
    ]


@each("ip", "", "no address", "fe80::1%eth0", "1.2.3.4\r\nX: y")
def test_only_an_address_is_stored_as_one(ip):
    for record in page_records(page(ip=ip)):
        assert b"WARC-IP-Address" not in record


wild = st.text(st.characters(codec=None), max_size=8) | st.sampled_from(["\r\n", "GET", "HTTP/1.1"])
wild_headers = st.lists(
    st.tuples(
        st.binary(max_size=8) | st.sampled_from([b"Content-Length", b"Transfer-Encoding", b"A"]),
        st.binary(max_size=8) | st.sampled_from([b"5", b"chunked", b"\r\n\r\n"]),
    ),
    max_size=4,
)


@examples(300)
@given(
    st.fixed_dictionaries(
        {"url": wild, "reason": wild, "text": wild, "body": st.binary(max_size=30)}
    ),
    wild_headers,
    wild_headers,
    st.binary(max_size=20) | st.just(b"HTTP/1.1 200 \r\n\r\n") | st.just(b"A /x HTTP/1.1\r\n\r\n"),
)
def test_every_record_has_the_length_it_says(values, headers, request_headers, wild_head):
    url, reason, text, body = (values[name] for name in ("url", "reason", "text", "body"))
    one = page(
        url="http://a.test/" + url, via=url, redirect_target=url, links=[Link(url, text, reason)],
        reason=reason, protocol=reason, method=text, kind=text, charset=text, body=body,
        headers=headers, request_headers=request_headers, tls=text,
        wire_head=wild_head, wire_request=wild_head,
    )  # fmt: skip
    for record, types in zip(page_records(one), ("response", "request", "metadata"), strict=True):
        head, _, rest = record.partition(b"\r\n\r\n")
        lines = head.decode("ascii").split("\r\n")
        assert lines[:2] == ["WARC/1.1", f"WARC-Type: {types}"]
        assert all(re.fullmatch(r"[A-Za-z-]+: [\x21-\x7e][\x20-\x7e]*", line) for line in lines[1:])
        names = [line.partition(":")[0] for line in lines]
        assert len(set(names)) == len(names) - max(0, names.count("WARC-Protocol") - 1)
        assert len(rest) == int(lines[-1].removeprefix("Content-Length: ")) + 4
        block = rest[:-4]
        if types == "metadata":
            assert block.count(b"\n") == block.count(b"\r\n") == len(block.decode().splitlines())
        else:
            start, *http_lines = block.partition(b"\r\n\r\n")[0].split(b"\r\n")
            assert start
            assert all(re.match(rb"[!-9;-~]+: ", line + b" ") for line in http_lines)


# pages that did not come by HTTP


@each(
    "protocol content_type wire_body stored_type",
    *table("""
        FTP    | text/plain               |              | text/plain
        FTP    | text/html; charset=utf-8 | -rw-r--r-- x | text/plain
        FTP    | text/html                |              | text/html
        FTP    |                          |              | application/octet-stream
        GOPHER | text/html; charset=utf-8 |              | text/html; charset=utf-8
        """),
    ("FTP", "x/y\r\nWARC-Type: response", "", "application/octet-stream"),
    ("GOPHER", "text/html; charset=utf-8", "0a\tb\r\n.\r\n", "application/gopher-menu"),
    ("GOPHER", "text/plain", "text\r\n.\r\n", "text/plain"),
)
def test_page_without_http_becomes_resource_and_metadata(
    stored, protocol, content_type, wire_body, stored_type
):
    one = page(
        url=f"{protocol.lower()}://a.test/x",
        protocol=protocol,
        headers=[(b"Content-Type", content_type.encode())],
        content_type=content_type.partition(";")[0],
        truncated="length",
        depth=2,
        **({"wire_body": wire_body.encode()} if wire_body else {}),
    )
    path = stored(one, page(1))
    _, resource, metadata, *following = records(path)
    assert (resource.kind, metadata.kind) == ("resource", "metadata")
    assert [record.kind for record in following] == ["response", "request", "metadata"]
    assert resource.headers["Content-Type"] == stored_type
    assert resource.headers["WARC-Target-URI"] == one.url
    assert resource.headers["WARC-Truncated"] == "length"
    assert resource.headers["WARC-IP-Address"] == "127.0.0.1"
    assert resource.body == one.wire_body
    assert metadata.headers["WARC-Concurrent-To"] == resource.headers["WARC-Record-ID"]
    assert ("depth", "2") in fields(metadata.body)


def test_page_without_http_and_document_becomes_metadata_with_the_reason(stored):
    path = stored(
        page(
            url="ftp://a.test/d",
            protocol="FTP",
            status=301,
            reason="550 a directory\r\nstatus: 200",
            headers=[],
            body=b"",
            redirect_target="ftp://a.test/d/",
            links=[],
        )
    )
    _, metadata = records(path)
    assert metadata.kind == "metadata"
    assert "WARC-Concurrent-To" not in metadata.headers
    assert fields(metadata.body)[:2] == [
        ("status", "301"),
        ("reason", "550 a directory status: 200"),
    ]
    assert ("redirectTarget", "ftp://a.test/d/") in fields(metadata.body)
