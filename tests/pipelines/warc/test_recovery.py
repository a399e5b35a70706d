"""How much of a torn file is whole."""

import gzip
import zlib

import pytest
from disk import flipped
from hypothesis import given
from hypothesis import strategies as st
from isal import isal_zlib
from text_tables import each
from warc_checks import page

from webcrawl.items import Link
from webcrawl.pipelines.warc.records import page_records, warcinfo_record
from webcrawl.pipelines.warc.recovery import whole_length

INFO = warcinfo_record(filename="x.warc.gz", at=0, fields=[("software", "tests")])


def member(record):
    return isal_zlib.compress(record, 2, 31)


def members(*pages):
    """One element for the warcinfo and one for each page."""
    return [member(INFO), *(b"".join(map(member, page_records(one))) for one in pages)]


@pytest.fixture
def whole(tmp_path):
    path = tmp_path / "x.warc.gz.open"

    def measure(data):
        path.write_bytes(data)
        return whole_length(path)

    return measure


def test_damage_at_any_byte_ends_the_file_before_it(whole):
    """A gzip header has bytes that mean nothing; a change elsewhere never goes unseen."""
    info, one, two = members(page(1), page(2))
    data, sound = info + one + two, len(info + one)
    damaged = (flipped(data, at, 0xFF) for at in range(sound, len(data)))
    seen = [whole(one) == (sound, 1) for one in damaged]
    assert seen.count(False) <= 3 * len(("MTIME", "MTIME", "MTIME", "MTIME", "XFL", "OS"))


@each("tail", b"garbage", bytes(5000), member(b"no record\r\n\r\n"), member(b""))
def test_what_is_no_record_ends_the_file(whole, tail):
    data = b"".join(members(page(1)))
    assert whole(data + tail) == (len(data), 1)


@each(
    "old new",
    (b"WARC-Type: metadata", b"WARC-Type: MetaData"),
    (b"WARC/1.1", b"HTTP/1.1"),
)
def test_record_that_is_not_one_does_not_end_a_page(whole, old, new):
    info, one = members(page(1))
    response, request, metadata = page_records(page(2))
    assert old in metadata
    bad = member(response) + member(request) + member(metadata.replace(old, new))
    assert whole(info + one + bad) == (len(info + one), 1)
    assert whole(info + bad + one) == (len(info), 0)


def test_records_larger_than_what_is_read_at_once_are_whole(whole):
    noise = zlib.compress(bytes(range(256)) * 4096, 0)
    links = [Link(f"http://a.test/{n}") for n in range(20_000)]
    data = b"".join(members(page(1, body=noise), page(2, links=links), page(3)))
    assert whole(data) == (len(data), 3)
    assert whole(data[:-1])[1] == 2


def test_members_of_other_compressors_are_read(whole):
    data = b"".join(gzip.compress(record) for record in (INFO, *page_records(page(1))))
    assert whole(data) == (len(data), 1)


@given(st.binary(max_size=200))
def test_no_tail_raises(tmp_path_factory, tail):
    path = tmp_path_factory.getbasetemp() / "tail.warc.gz.open"
    data = b"".join(members(page(1)))
    path.write_bytes(data + tail)
    assert whole_length(path) == (len(data), 1)
    path.write_bytes(data + b"\x1f\x8b\x08\x00" + tail)
    assert whole_length(path) == (len(data), 1)
