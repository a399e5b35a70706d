"""Payloads that are stored, and the revisit records that name them."""

import os
import re
import sqlite3
from base64 import b64decode
from contextlib import closing

from golden import golden
from text_tables import each
from warc_checks import complaints, dangling, killed_at, page, records, text_of, urls

from webcrawl.jobs.replay.warc_reader import stored_pages
from webcrawl.pipelines.warc.messages import sha1_of
from webcrawl.pipelines.warc.payloads import (
    FILE,
    FORGET_PAYLOADS,
    FirstCopy,
    StoredPayloads,
    forget_rows,
)
from webcrawl.pipelines.warc.writer import WarcWriter
from webcrawl.signals import CONTENT_SEEN, ROBOTS, UNCHANGED


def opened(directory, *, max_bytes=1 << 30):
    payloads = StoredPayloads(directory=directory, max_bytes=max_bytes)
    payloads.open()
    return payloads


def writer_with(directory, payloads, **more):
    values = {"prefix": "x", "max_file_bytes": 1 << 30, "warcinfo": [("software", "tests")], **more}
    writer = WarcWriter(directory=directory, payloads=payloads, **values)
    writer.open()
    return writer


def stored(directory, *pages, payloads=None, **more):
    """Store *pages* and return the files. A page without a reason has content seen before."""
    payloads = payloads or opened(directory)
    writer = writer_with(directory, payloads, **more)
    for one in pages:
        writer.write(*(one if isinstance(one, tuple) else (one, CONTENT_SEEN)))
    payloads.close()
    writer.close()
    return sorted(directory.glob("*.warc.gz"))


def digest(number):
    return sha1_of(b"%d" % number)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nSet-Cookie: a=1\r\n\r\n"
FIELDS = [(b"Content-Type", b"text/html"), (b"Set-Cookie", b"a=1")]


def twin(number, **more):
    return page(number, body=b"<p>the same", headers=FIELDS, wire_head=HEAD, links=[], **more)


def test_a_document_seen_before_is_a_revisit_of_its_first_copy(tmp_path):
    (path,) = stored(tmp_path, (twin(1), ""), twin(2), twin(3))
    assert complaints(path) == {}
    assert urls(path) == [f"http://a.test/{number}" for number in (1, 2, 3)]
    text = text_of(path).partition("\n\n\n")[2]  # without the warcinfo, which has the time
    assert text == golden("revisits.warc", text)


def test_a_document_without_a_known_first_copy_is_stored_whole(tmp_path):
    """Another coding, a body that was cut, no first copy, no HTTP; then that is a first copy."""
    coded = twin(2, wire_body=b"\x1f\x8bcoded")
    coded.wire_head, coded.headers = b"", [(b"Content-Encoding", b"x")]
    pages = [
        (twin(1), ""),
        coded,
        twin(3, truncated="length"),
        page(4),
        page(5, url="ftp://a.test/5", protocol="FTP", body=b"<p>the same"),
        page(6, body=page(4).body),
        (page(7, status=404, body=b"no"), ""),
        page(8, body=b"no"),
        (page(9, body=b"User-agent: *", kind="robots"), ROBOTS),
        page(10, body=b"User-agent: *"),
    ]
    (path,) = stored(tmp_path, *pages)
    assert complaints(path) == {}
    documents = [one for one in records(path) if one.kind in ("response", "revisit", "resource")]
    kinds = ["revisit" if number == 5 else "response" for number in range(len(pages))]
    kinds[4] = "resource"
    assert [one.kind for one in documents] == kinds
    assert documents[5].headers["WARC-Refers-To-Target-URI"] == "http://a.test/4"
    # Modules got two of them, and get the same again.
    processed = [one.page.url for one in stored_pages(path, start=0, max_bytes=1 << 20)]
    assert processed == ["http://a.test/1", "http://a.test/7"]


def test_chunks_are_of_the_payload(tmp_path):
    """Readers put the header of the one before the body of the other."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    fields = [(b"Transfer-Encoding", b"chunked")]
    chunked = [page(n, body=b"<p>the same", headers=fields, wire_head=head) for n in (2, 3)]
    (path,) = stored(tmp_path, (twin(1), ""), *chunked, twin(4))
    assert complaints(path) == {}
    found = [one for one in records(path) if one.kind in ("response", "revisit")]
    assert [one.kind for one in found] == ["response", "response", "revisit", "revisit"]
    refers = [one.headers["WARC-Refers-To-Target-URI"] for one in found[2:]]
    assert refers == ["http://a.test/2", "http://a.test/1"]


def test_records_name_the_warcinfo_of_their_own_file(tmp_path):
    paths = stored(tmp_path, *((page(n), "") for n in range(6)), max_file_bytes=3000)
    assert len(paths) > 2
    for path in paths:
        info, *others = records(path)
        assert {one.headers["WARC-Warcinfo-ID"] for one in others} == {
            info.headers["WARC-Record-ID"]
        }


NOT_MODIFIED = b'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\n\r\n'


def visit(number, seen, **more):
    """A visit of ``page(number)``, whose last copy is that in the page *seen*."""
    fields = {"fetched_at": 2e9, "stored_at": seen.fetched_at, "wire_head": NOT_MODIFIED, **more}
    return page(number, body=b"", status=304, headers=[(b"ETag", b'"1"')], **fields), UNCHANGED


def told(path):
    """The block of each revisit record, and the record that it refers to."""
    revisits = [one for one in records(path) if one.kind == "revisit"]
    fields = ("WARC-Refers-To-Target-URI", "WARC-Refers-To-Date")
    return [(one.status_line, one.body, *map(one.headers.get, fields)) for one in revisits]


def test_a_304_is_an_empty_revisit_of_the_record_with_the_payload(tmp_path):
    """Of a response, of a revisit record, and again in the next run."""
    firsts = (twin(1), ""), twin(2), twin(3)
    visits = visit(1, twin(1)), visit(2, twin(2)), visit(1, twin(1), fetched_at=2.1e9)
    same = twin(2, fetched_at=1.9e9), UNCHANGED
    (path,) = stored(tmp_path, *firsts, same, *visits)
    (next_path,) = {*stored(tmp_path, visit(3, twin(3)), visit(1, twin(1)))} - {path}
    first = ("http://a.test/1", "2023-11-14T22:13:21.250000Z")
    assert told(path) == [("HTTP/1.1 200 OK", b"", *first)] * 3 + [("", b"", *first)] * 3
    assert told(next_path) == [("", b"", *first)] * 2
    assert complaints(path) == complaints(next_path) == {}
    assert dangling([path, next_path]) == []
    *_, metadata = records(next_path)
    (head,) = re.findall(rb"receivedHead: (.+)\r", metadata.body)
    assert b64decode(head) == NOT_MODIFIED
    assert list(stored_pages(next_path, start=0, max_bytes=1 << 20)) == []


def test_the_table_keeps_one_row_for_the_revisit_records_of_a_page(tmp_path):
    again = [twin(2, fetched_at=2e9 + day) for day in range(50)]
    (path,) = stored(tmp_path, (twin(1), ""), *again, visit(2, again[-1], fetched_at=2.1e9))
    assert len(told(path)) == 51
    with closing(sqlite3.connect(tmp_path / FILE)) as table:
        assert table.execute("SELECT count(*) FROM payloads").fetchone() == (2,)


@each("why", "no table", "another drone", "purged", "first copy purged")
def test_a_304_for_an_unknown_record_is_metadata_alone(tmp_path, why):
    payloads = opened(tmp_path)
    (path,) = stored(tmp_path, (twin(1), ""), twin(2), payloads=payloads)
    forget_rows(tmp_path, FORGET_PAYLOADS, ("http://a.test/1" if "purged" in why else "").__eq__)
    table = StoredPayloads(directory=tmp_path, max_bytes=1 << 20)
    if why != "no table":
        table = opened(tmp_path / "other" if why == "another drone" else tmp_path)
    number = 1 if why == "purged" else 2
    unknown = visit(number, twin(number))
    headless = visit(number, twin(number), wire_head=b"")
    (path,) = {*stored(tmp_path, unknown, headless, page(4), payloads=table)} - {path}
    _, first, second, response, *_ = found = records(path)
    assert complaints(path) == {}
    assert [one.kind for one in found[1:]] == ["metadata"] * 2 + ["response", "request", "metadata"]
    assert response.headers["WARC-Target-URI"] == "http://a.test/4"
    for one, head in ((first, NOT_MODIFIED), (second, b'HTTP/1.1 304 OK\r\nETag: "1"\r\n\r\n')):
        assert b64decode(re.findall(rb"receivedHead: (.+)\r", one.body)[0]) == head
        assert "WARC-Concurrent-To" not in one.headers


def test_a_304_refers_to_the_earlier_crawl_that_has_the_payload(tmp_path):
    (first,) = stored(tmp_path / "earlier", (twin(1), ""))
    earlier = opened(tmp_path / "earlier")
    (path,) = stored(tmp_path / "next", (twin(2), ""), visit(2, twin(2)), earlier=earlier)
    earlier.close()
    assert len(told(path)) == 2
    assert dangling([first, path]) == []


def test_payloads_are_found_by_the_next_run(tmp_path):
    payloads = opened(tmp_path)
    for number in range(100):
        payloads.add(digest(number), FirstCopy(f"http://a.test/{number}", 1e9 + number / 7))
    payloads.add(digest(1), FirstCopy("http://b.test/", 2e9))
    payloads.close()
    again = opened(tmp_path)
    assert again.find(digest(1)) == FirstCopy("http://b.test/", 2e9)
    assert again.find(digest(99)) == FirstCopy("http://a.test/99", 1e9 + 99 / 7)
    assert again.find(digest(100)) is None
    again.close()


def test_a_full_table_keeps_its_size_and_the_newest(tmp_path):
    payloads = opened(tmp_path, max_bytes=200_000)
    for number in range(5000):
        payloads.add(digest(number), FirstCopy(f"http://a.test/{number}", 1e9))
        if number % 10 == 9:
            payloads.commit()
            assert payloads.find(digest(number)) is not None
    payloads.close()
    assert 150_000 < (tmp_path / FILE).stat().st_size < 260_000
    again = opened(tmp_path)
    assert 1000 < sum(again.find(digest(number)) is not None for number in range(5000)) < 4000
    again.close()


def test_long_urls_take_the_room_of_many_short_ones(tmp_path):
    payloads = opened(tmp_path, max_bytes=200_000)
    for number in range(4000):
        more = "x" * 2000 if number > 3000 else ""
        payloads.add(digest(number), FirstCopy(f"http://a.test/{number}{more}", 1e9))
        payloads.commit()
    payloads.close()
    assert (tmp_path / FILE).stat().st_size < 400_000


def test_a_table_that_cannot_be_opened_for_now_is_kept(tmp_path, caplog):
    payloads = opened(tmp_path)
    payloads.add(digest(1), FirstCopy("http://a.test/", 1e9))
    payloads.close()
    with sqlite3.connect(tmp_path / FILE, isolation_level=None) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        opened(tmp_path).close()
        assert "stored in full from now on" in caplog.text
    other.close()
    again = opened(tmp_path)
    assert again.find(digest(1)) == FirstCopy("http://a.test/", 1e9)
    again.close()


@each("damage", "no database", "torn", "another one", "a directory")
def test_a_damaged_table_is_begun_anew_and_stops_nothing(tmp_path, caplog, damage):
    payloads = opened(tmp_path)
    for number in range(200):
        payloads.add(digest(number), FirstCopy(f"http://a.test/{number}", 1e9))
    payloads.close()
    file = tmp_path / FILE
    if damage == "no database":
        file.write_bytes(b"no database" * 1000)
    elif damage == "torn":
        os.truncate(file, 5000)
    elif damage == "another one":
        with sqlite3.connect(file) as connection:
            connection.execute("PRAGMA user_version = 9")
        connection.close()
    else:
        file.unlink()
        file.mkdir()
    again = opened(tmp_path)
    found = again.find(digest(1))
    again.add(digest(1000), FirstCopy("http://c.test/", 3e9))
    again.commit()
    assert found is None
    is_told = "copies of known documents are stored in full from now on" in caplog.text
    assert is_told == (again.find(digest(1000)) is None)
    assert is_told == (damage == "a directory")
    again.close()


WORKER = """
import sys
from pathlib import Path
from tests.pipelines.warc.test_payloads import opened, page, writer_with, CONTENT_SEEN
directory = Path(sys.argv[1])
payloads = opened(directory)
writer = writer_with(directory, payloads, max_file_bytes=200_000)
for number in range(100_000):
    body = b"document %d" % (number // 2)
    writer.add(page(number, body=body), CONTENT_SEEN if number % 2 else "")
    if number % 10 == 9:
        writer.flush()
        payloads.commit()
        print(number, flush=True)
"""


def test_after_kill_9_no_payload_is_there_without_its_record(tmp_path):
    killed_at(2100, WORKER, tmp_path)
    payloads = opened(tmp_path)
    paths = stored(tmp_path, payloads=payloads)
    found = [record for path in paths for record in records(path)]
    assert [one.kind for one in found].count("revisit") > 100
    assert dangling(paths) == []
    with sqlite3.connect(tmp_path / FILE) as connection:
        rows = {
            (size, url)
            for size, url in connection.execute("SELECT length(rest), url FROM payloads")
        }
    connection.close()
    for kind, size in (("response", 12), ("revisit", 20)):
        named = {url for length, url in rows if length == size}
        assert len(named) > 100
        assert named <= {one.headers["WARC-Target-URI"] for one in found if one.kind == kind}
