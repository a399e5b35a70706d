"""Documents of earlier crawls, which WARC_DEDUP_FROM finds in jobs, hives and CDXJ files."""

import gzip
import sqlite3
from contextlib import closing

import pytest
from text_tables import each, words
from warc_checks import page, records, warc_of

from webcrawl.errors import FatalError
from webcrawl.pipelines.warc.earlier import prepare
from webcrawl.pipelines.warc.messages import labelled_digest, sha1_of
from webcrawl.pipelines.warc.payloads import (
    FORGET_PAYLOADS,
    FirstCopy,
    StoredPayloads,
    forget_rows,
    split,
)
from webcrawl.signals import ROBOTS

TIME = 1_577_934_245.0  # 20200102030405


def sha1(number):
    return sha1_of(page(number).body)


def capture(number, *, digest="", status='"200"', mime="text/html", url="", more=""):
    digest = digest or labelled_digest(sha1(number))
    url = url or f"http://b.test/{number}"
    return (
        f'test,b)/{number} 20200102030405 {{"url": "{url}", "mime": "{mime}", "status": {status}, '
        f'"digest": "{digest}"{more}}}\n'
    )


def earlier(directory, *sources):
    name = prepare(directory / "warc", sources)
    table = directory / "warc" / name
    made = table.stat()
    assert prepare(directory / "warc", sources) == name
    assert table.stat().st_ino == made.st_ino
    payloads = StoredPayloads(directory=directory / "warc", max_bytes=0)
    payloads.open(name)
    return payloads


def found_in(payloads):
    found = {number: payloads.find(sha1(number)) for number in range(20)}
    payloads.close()
    return {number: first for number, first in found.items() if first is not None}


def first_copy(number):
    return FirstCopy(f"http://a.test/{number}", TIME + 0.123456, f"{number % 2}.warc.gz", number, 9)


def table_of(directory, *numbers):
    payloads = StoredPayloads(directory=directory / "warc", max_bytes=1 << 20)
    payloads.open()
    for number in numbers:
        payloads.add(sha1(number), first_copy(number))
    payloads.close()


def test_captures_with_a_sha1_digest_are_found(tmp_path, caplog):
    caplog.set_level("INFO")
    bare = labelled_digest(sha1(2)).removeprefix("sha1:")
    index = tmp_path / "old.cdxj.gz"
    text = "".join(
        [
            '!meta 0 {"format": "cdxj-gzip-1.0"}\n',
            capture(1, more=', "filename": "a b.warc.gz", "offset": "7", "length": "8"'),
            capture(2, digest=bare, status=200, more=', "offset": 9'),
            capture(3, digest="sha256:" + "0" * 64),
            capture(4, mime="warc/revisit"),
            capture(5, status='""'),
            capture(6, url="http://b.test/a b"),
            "x" * 100_000 + "\n",
            capture(7).replace("20200102030405", "2020"),
            capture(9, more=f', "offset": {1 << 64}'),
            capture(8)[:-5],
        ]
    )
    index.write_bytes(gzip.compress(text[:300].encode()) + gzip.compress(text[300:].encode()))
    assert found_in(earlier(tmp_path, index)) == {
        1: FirstCopy("http://b.test/1", TIME, "a b.warc.gz", 7, 8),
        2: FirstCopy("http://b.test/2", TIME, None, 9),
    }
    assert f"{index}: 2 captures; 8 other lines, without" in caplog.text


def test_jobs_and_hives_are_found_and_a_change_is_seen(tmp_path):
    table_of(tmp_path / "job", 1, 2)
    table_of(tmp_path / "hive/drones/0", 3)
    table_of(tmp_path / "hive/drones/1", 4)
    sources = tmp_path / "job", tmp_path / "hive"
    assert found_in(earlier(tmp_path, *sources)) == {n: first_copy(n) for n in (1, 2, 3, 4)}
    table_of(tmp_path / "hive/drones/1", 5)
    assert [*found_in(earlier(tmp_path, *sources))] == [1, 2, 3, 4, 5]
    assert len([*(tmp_path / "warc").glob("*.sqlite")]) == 1
    forget_rows(tmp_path / "warc", FORGET_PAYLOADS, "http://a.test/2".__eq__)
    assert [*found_in(earlier(tmp_path, *sources))] == [1, 3, 4, 5]


def test_table_of_the_first_version_is_found(tmp_path):
    (tmp_path / "job/warc").mkdir(parents=True)
    with closing(sqlite3.connect(tmp_path / "job/warc/payloads.sqlite")) as table, table:
        table.execute("CREATE TABLE payloads (key INTEGER PRIMARY KEY, rest BLOB, at REAL, url)")
        table.execute("INSERT INTO payloads VALUES (?, ?, 7, 'http://a.test/1')", split(sha1(1)))
        table.execute("PRAGMA user_version = 1")
    expected = {1: FirstCopy("http://a.test/1", 7)}
    assert found_in(earlier(tmp_path, tmp_path / "job")) == expected
    # The job goes on with it.
    table_of(tmp_path / "job", 2)
    assert found_in(earlier(tmp_path, tmp_path / "job")) == expected | {2: first_copy(2)}


def test_whole_documents_become_revisit_records_with_their_dom(tmp_path):
    more = ', "filename": "old.warc.gz", "offset": "7", "length": "8"'
    lines = (capture(number, more=more) for number in range(6))
    (tmp_path / "old.cdxj").write_text("".join(lines))
    payloads = earlier(tmp_path, tmp_path / "old.cdxj")
    known = page(0)
    path = warc_of(
        tmp_path,
        known,
        page(1, rendered="<p>shown"),
        page(2, truncated="length"),
        (page(3), ROBOTS),
        page(4, status=404),
        page(5, url="ftp://a.test/5", protocol="FTP"),
        page(6),
        earlier=payloads,
    )
    payloads.close()
    found = [one for one in records(path) if one.kind not in {"request", "metadata", "warcinfo"}]
    expected = "revisit revisit conversion response response response resource response"
    assert [one.kind for one in found] == words(expected)
    fields = found[0].headers
    assert fields["WARC-Refers-To-Target-URI"] == "http://b.test/0"
    assert fields["WARC-Refers-To-Date"] == "2020-01-02T03:04:05.000000Z"
    assert fields["WARC-Payload-Digest"] == labelled_digest(sha1(0))
    assert fields["WARC-Profile"].endswith("/identical-payload-digest")
    assert known.warc_record == (fields["WARC-Record-ID"], "old.warc.gz", 7, 8)


@each(
    "name content sentence",
    ("job", None, "job is not a CDXJ file, nor a job with the file warc/payloads.sqlite. Of a"),
    ("a.cdxj", b" CDX N b a m s k r M S V g\n", "no line of"),
    ("a.cdxj", capture(1, digest="sha256:00").encode(), "no line of"),
    ("a.cdxj.gz", gzip.compress(capture(1).encode())[:-9], "a.cdxj.gz cannot be read: "),
    ("payloads.sqlite", b"no table" * 100, "payloads.sqlite cannot be read: "),
)
def test_source_that_cannot_be_used_is_one_sentence(tmp_path, name, content, sentence):
    (tmp_path / "warc").mkdir()
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(FatalError, match=r"^WARC_DEDUP_FROM: .*\.$") as caught:
        earlier(tmp_path, tmp_path / name)
    assert sentence in str(caught.value)
