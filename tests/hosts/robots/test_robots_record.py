"""Tests of robots records and their packed bytes."""

import random
import zlib

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from text_tables import each

from webcrawl.hosts.robots.grammar import MAX_BYTES
from webcrawl.hosts.robots.robots_record import VERSION, RobotsRecord, pack, record_after, unpack

TIMES = st.floats(-1e11, 1e11)
ENTRIES = st.builds(
    RobotsRecord,
    version=st.just(VERSION),
    status=st.none() | st.integers(-5, 1000),
    fetched_at=TIMES,
    failing_for=TIMES,
    file_at=TIMES,
    file=st.none() | st.binary(max_size=200),
)


def kept(file):
    return record_after(None, 200, file, now=1.0, longest_gap=86_400.0)


FILE = kept(b"User-agent: *")


@given(ENTRIES)
def test_an_unpacked_entry_is_the_packed_one(entry):
    assert unpack(pack(entry)) == entry


@each("size", 0, 1, MAX_BYTES - 1, MAX_BYTES)
def test_files_of_any_size_are_packed_whole(size):
    for file in (b"a" * size, random.Random(1).randbytes(size)):
        entry = kept(file)
        assert unpack(pack(entry)) == entry
        assert entry.file == file


def test_no_more_of_a_file_is_kept_than_is_read():
    entry = kept(b"a" * (MAX_BYTES + 1))
    assert len(entry.file) == MAX_BYTES


@given(ENTRIES, st.data())
def test_a_damaged_entry_is_unknown_or_still_an_entry(entry, data):
    packed = bytearray(pack(entry))
    at = data.draw(st.integers(0, len(packed) - 1))
    packed[at] ^= 1 << data.draw(st.integers(0, 7))
    found = unpack(bytes(packed))
    assert found is None or found.version == VERSION


def test_an_entry_that_was_cut_is_unknown():
    packed = pack(FILE)
    assert [unpack(packed[:n]) for n in range(len(packed))] == [None] * len(packed)
    assert unpack(None) is None


@each(
    "fields",
    [VERSION + 1, 200, 1.0, 0.0, 0.0, None],
    [0, 200, 1.0, 0.0, 0.0, None],
    [VERSION, 200, float("nan"), 0.0, 0.0, None],
    [VERSION, 503, 1.0, float("inf"), 0.0, None],
    [VERSION, "200", 1.0, 0.0, 0.0, None],
    [VERSION, 200, 1.0, 0.0, 0.0, b"no zlib"],
    [VERSION, 200, 1.0, 0.0, 0.0, b""],
    [VERSION, 200, 1.0, 0.0, 0.0, zlib.compress(b"abc")[:-1]],
    [VERSION, 200, 1.0, 0.0, 0.0, zlib.compress(bytes(MAX_BYTES + 1))],
    [VERSION],
    {},
)
def test_data_that_no_version_wrote_is_unknown(fields):
    assert unpack(msgspec.msgpack.encode(fields)) is None


def test_fields_of_a_later_version_are_skipped():
    assert unpack(msgspec.msgpack.encode([*msgspec.msgpack.decode(pack(FILE)), "new", 5])) == FILE
