"""Pages read back from WARC files, whole and damaged, of this crawler and of others."""

import contextlib
import dataclasses
import gzip
import re
from functools import partial

import pytest
from disk import flipped
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from strategies import examples
from text_tables import each, table
from warc_checks import page, warc_of

from webcrawl.items import Link
from webcrawl.jobs.replay.warc_reader import DamagedWarcError, stored_pages


@pytest.fixture
def written(tmp_path):
    """Stores pages as the crawl does; returns the file."""
    return partial(warc_of, tmp_path / "warc")


def stored_in(path, start=0, max_bytes=1 << 20):
    return stored_pages(path, start=start, max_bytes=max_bytes)


def read(path, **more):
    return [stored.page for stored in stored_in(path, **more)]


def test_a_stored_page_is_read_back_unchanged(written):
    """In chunks of the server, with spaces that a parser drops, and by TLS."""
    pages = [
        page(
            n,
            url=f"http://a.test/{n}",
            request_headers=[(b"Host", b"a.test"), (b"User-Agent", b"tests")],
            content_type="text/html",
            charset="utf-8",
            headers=[
                (b"Content-Type", b"text/html; charset=utf-8"),
                (b"X", b"1"),
                (b"X", b"2\xff"),
                (b"Transfer-Encoding", b"chunked"),
            ],
            wire_head=(
                b"HTTP/1.1 200 OK\r\nContent-Type:text/html; charset=utf-8\r\nX:  1 \r\n"
                b"X: 2\xff\r\nTransfer-Encoding: chunked\r\n\r\n"
            ),
            wire_request=b"GET /%d HTTP/1.1\r\nHost: a.test\r\nUser-Agent: tests\r\n\r\n" % n,
            tls="TLSv1.2 TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256" if n > 1 else "",
            depth=n,
            via="http://a.test/",
            kind="iframe",
            attempts=n,
            robots_line="Allow: /*?ü" if n == 3 else "",
            flags="soft_error" if n == 2 else "",
            download_seconds=0.25,
            links=[Link("http://a.test/1", "one two", "a"), Link("http://a.test/2", "", "area")],
            truncated="length" if n == 2 else "",
        )
        for n in range(1, 4)
    ]
    found = read(written(*pages))
    for stored, original in zip(found, pages, strict=True):
        for field in dataclasses.fields(original):
            # The rank of the host and whether the decoded body was cut are not stored.
            assert getattr(stored, field.name) == getattr(original, field.name), field.name


def test_a_head_that_was_mended_comes_back_as_it_was_received(written):
    head = b"http/1.1 200 OK\r\nbroken line\r\nX: 1\r\n\r\n"
    (found,) = read(written(page(1, headers=[(b"X", b"1")], wire_head=head)))
    assert (found.wire_head, found.headers, found.status) == (head, [(b"X", b"1")], 200)


def test_a_coded_body_is_decoded_and_headers_are_as_the_server_sent_them(written):
    body = b"<p>" + b"long " * 1000
    wire = gzip.compress(body)
    headers = [
        (b"Content-Type", b"text/html"),
        (b"Content-Encoding", b"gzip"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Content-Length", b"12"),
    ]
    (found,) = read(written(page(1, headers=headers, body=body, wire_body=wire)))
    assert (found.body, found.wire_body, found.headers) == (body, wire, headers)
    assert found.content_type == "text/html"


def test_a_body_is_no_longer_than_is_allowed(written):
    wire = gzip.compress(b"x" * 5000)
    coded = page(1, headers=[(b"Content-Encoding", b"gzip")], body=b"", wire_body=wire)
    plain = page(2, headers=[], body=b"y" * 5000, wire_body=b"y" * 5000)
    cut, short = read(written(coded, plain), max_bytes=1000)
    assert (cut.body, cut.body_cut, cut.truncated) == (b"x" * 1000, True, "")
    assert (short.body, short.truncated) == (b"y" * 1000, "length")


@each("said truncated", *table("""
        length | length
        time | time
        disconnect | disconnect
        unspecified | length
        long-headers |
    """))  # fmt: skip
def test_a_record_of_any_crawler_says_whether_its_body_is_whole(written, said, truncated):
    path = written(page(1, truncated="length"))
    data = gzip.decompress(path.read_bytes())
    path.write_bytes(data.replace(b"WARC-Truncated: length", f"WARC-Truncated: {said}".encode()))
    (found,) = read(path)
    assert found.truncated == truncated


def test_pages_of_other_protocols_have_their_document_and_old_links(written):
    links = [Link("ftp://a.test/x", "x", "a")]
    listing = page(1, url="ftp://a.test/", protocol="FTP", headers=[], links=links, status=200)
    (found,) = read(written(listing))
    assert (found.protocol, found.wire_body, found.links) == ("FTP", listing.wire_body, links)


def test_from_an_offset_on_the_pages_from_there(written):
    path = written(*(page(n, url=f"http://a.test/{n}") for n in range(5)))
    stored = list(stored_in(path))
    offsets = [one.offset for one in stored]
    assert offsets == sorted(set(offsets))
    for n, offset in enumerate(offsets):
        rest = list(stored_in(path, offset))
        assert [one.page.url for one in rest] == [f"http://a.test/{k}" for k in range(n, 5)]
        assert [one.offset for one in rest] == offsets[n:]


def test_a_file_cut_anywhere_gives_the_pages_before_and_an_error(written, tmp_path):
    path = written(*(page(n, url=f"http://a.test/{n}") for n in range(3)))
    whole = [one.url for one in read(path)]
    data = path.read_bytes()
    torn = tmp_path / "torn.warc.gz"
    ends = [one.end() for one in re.finditer(rb"(?s)\x1f\x8b\x08.*?(?=\x1f\x8b\x08|\Z)", data)]
    for end in {*range(1, len(data), 7), *ends} - {len(data)}:
        torn.write_bytes(data[:end])
        found = []
        try:
            found += (one.page for one in stored_in(torn))
            is_damaged = False
        except DamagedWarcError:
            is_damaged = True
        assert is_damaged == (end not in ends)
        for one in found:
            assert one.body.startswith(b"<p>page ")
        assert [one.url for one in found] == whole[: len(found)]


def test_damage_in_the_middle_has_its_place_and_no_page_comes_twice(written, tmp_path):
    path = written(*(page(n, url=f"http://a.test/{n}") for n in range(6)))
    offsets = [one.offset for one in stored_in(path)]
    damaged = tmp_path / "damaged.warc.gz"
    damaged.write_bytes(flipped(path.read_bytes(), offsets[3] + 30, 0xFF))
    found = []
    with pytest.raises(DamagedWarcError) as caught:
        found += (one.page.url for one in stored_in(damaged))
    assert found == [f"http://a.test/{n}" for n in range(3)]
    assert offsets[2] <= caught.value.offset <= offsets[3]


def test_a_file_of_another_crawler_with_chunks_and_no_metadata(tmp_path):
    http = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"3\r\nabc\r\n0\r\n\r\n"
    )
    record = (
        b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:1>\r\n"
        b"WARC-Target-URI: <http://a.test/>\r\nWARC-Date: 2020-01-01T00:00:00Z\r\n"
        b"Content-Type: application/http; msgtype=response\r\n"
        b"Content-Length: %d\r\n\r\n%s\r\n\r\n" % (len(http), http)
    )
    path = tmp_path / "other.warc"
    path.write_bytes(record)
    (found,) = read(path)
    assert (found.url, found.status, found.body) == ("http://a.test/", 200, b"abc")
    assert found.fetched_at == 1_577_836_800
    assert found.headers[1] == (b"Transfer-Encoding", b"chunked")


@examples(200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_bytes_are_pages_or_an_error(tmp_path, data):
    record = (
        b"WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:1>\r\n"
        b"WARC-Target-URI: http://a.test/\r\nWARC-Date: 2020-01-01T00:00:00Z\r\n"
        b"Content-Type: application/http; msgtype=response\r\nContent-Length: 40\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\r\n\r\n"
    )
    raw = bytearray(record * 2)
    for at, byte in data.draw(
        st.lists(st.tuples(st.integers(0, len(raw) - 1), st.integers(0, 255)), max_size=8)
    ):
        raw[at] = byte
    path = tmp_path / "any.warc"
    path.write_bytes(data.draw(st.one_of(st.just(bytes(raw)), st.binary(max_size=300))))
    with contextlib.suppress(DamagedWarcError):
        for one in read(path):
            assert isinstance(one.url, str)
