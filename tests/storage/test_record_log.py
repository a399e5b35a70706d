"""The record log: what is in it after appends, torn tails, damage, a full disk."""

import struct
import tracemalloc
import zlib
from contextlib import suppress

import pytest
from disk import file_size_limit, flipped, full_disk
from hypothesis import given
from hypothesis import strategies as st
from text_tables import each

from webcrawl.storage import record_log
from webcrawl.storage.record_log import (
    HEADER_SIZE,
    CorruptRecordError,
    NewerFormatError,
    RecordLog,
    compress,
    count_packed,
    decompress,
    pack_many,
    read_record,
    read_records,
    unpack_many,
)

PAYLOADS = [b"first", b"", b"\0" * 20, bytes(range(256)), b"last"]
OLDER, NEWER = (struct.pack("<4sHH", b"WCLG", version, 0) for version in (1, 3))


def payloads(path, **range_):
    return [payload for _, payload in read_records(path, **range_)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "test.log"


@pytest.fixture
def filled(path):
    """A log of PAYLOADS; returns its path and the offsets after each of them."""
    with RecordLog.open(path) as log:
        ends = [log.append(payload) for payload in PAYLOADS]
    return path, ends


def test_the_file_is_as_the_format_says(path):
    with RecordLog.open(path) as log:
        log.append(b"payload")
    assert path.read_bytes() == (
        b"WCLG\x02\x00\x00\x00"
        + struct.pack("<II", 7, zlib.crc32(b"WCLG" + b"payload"))
        + b"payload"
    )


def test_reading_can_start_after_any_record_and_stop_after_any(filled):
    path, ends = filled
    starts = [HEADER_SIZE, *ends]
    for i, start in enumerate(starts):
        assert payloads(path, start=start) == PAYLOADS[i:]
        for j in range(i, len(starts)):
            assert payloads(path, start=start, end=starts[j]) == PAYLOADS[i:j]


def test_one_record_is_read_by_its_offset(filled):
    path, ends = filled
    for start, end, payload in zip([HEADER_SIZE, *ends], ends, PAYLOADS, strict=False):
        assert read_record(path, start, ends[-1]) == (end, payload)
    with pytest.raises(CorruptRecordError, match="no record here"):
        read_record(path, ends[-1], ends[-1])


def test_a_reopened_log_goes_on_where_it_ended(filled):
    path, ends = filled
    for size in (None, ends[-1]):
        with RecordLog.open(path, size=size) as log:
            assert log.size == ends[-1]
            assert log.path == path
    with RecordLog.open(path) as log:
        log.append(b"more")
        log.sync()
    assert payloads(path) == [*PAYLOADS, b"more"]


def test_a_size_cuts_what_was_written_after_it(filled):
    path, ends = filled
    with RecordLog.open(path, size=ends[2]) as log:
        log.append(b"instead")
    assert payloads(path, end=path.stat().st_size) == [*PAYLOADS[:3], b"instead"]
    for size in (HEADER_SIZE, 0):
        with RecordLog.open(path, size=size) as log:
            assert log.size == HEADER_SIZE == path.stat().st_size
            log.append(b"anew")
        assert payloads(path) == [b"anew"]


def test_closing_twice_is_closing_once_and_a_closed_log_takes_nothing(path):
    log = RecordLog.open(path)
    log.close()
    log.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        log.append(b"late")
    assert path.stat().st_size == HEADER_SIZE


def test_a_log_that_is_not_there_has_no_records_to_vouch_for(path):
    with pytest.raises(FileNotFoundError):
        list(read_records(path))
    for read in (
        lambda: list(read_records(path, end=HEADER_SIZE)),
        lambda: read_record(path, HEADER_SIZE, 100),
    ):
        with pytest.raises(CorruptRecordError, match="gone") as caught:
            read()
        assert (caught.value.path, caught.value.offset) == (path, 0)
    with pytest.raises(CorruptRecordError, match="100 bytes expected"):
        RecordLog.open(path, size=100)
    assert not path.exists()


# Torn tails


def test_a_log_cut_at_any_byte_keeps_every_whole_record_and_takes_new_ones(filled):
    path, ends = filled
    data = path.read_bytes()
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        whole = sum(end <= cut for end in ends)
        assert payloads(path) == PAYLOADS[:whole]
        with RecordLog.open(path) as log:
            assert log.size == ([HEADER_SIZE, *ends])[whole]
            log.append(b"next")
        assert payloads(path, end=path.stat().st_size) == [*PAYLOADS[:whole], b"next"]


@given(tail=st.binary(max_size=40), zeros=st.integers(0, 40))
def test_records_stay_whatever_bytes_follow_the_last_one(tmp_path_factory, tail, zeros):
    path = tmp_path_factory.mktemp("log") / "test.log"
    with RecordLog.open(path) as log:
        end = [log.append(payload) for payload in PAYLOADS][-1]
    with path.open("ab") as file:
        file.write(tail + bytes(zeros))
    with RecordLog.open(path) as log:
        assert log.size == end
    assert payloads(path) == PAYLOADS


# Damage before a known end


def test_a_flipped_bit_before_the_known_end_is_raised_with_its_place(filled):
    path, ends = filled
    data = path.read_bytes()
    starts = [HEADER_SIZE, *ends]
    for at in range(HEADER_SIZE, len(data)):
        for bit in (1, 128):
            path.write_bytes(flipped(data, at, bit))
            intact = sum(end <= at for end in ends)
            found = []
            with pytest.raises(CorruptRecordError) as caught:
                found.extend(payload for _, payload in read_records(path, end=ends[-1]))
            assert found == PAYLOADS[:intact]
            assert (caught.value.path, caught.value.offset) == (path, starts[intact])
            assert str(path) in str(caught.value)
            assert f"byte {starts[intact]}" in str(caught.value)


def test_a_file_shorter_than_its_known_end_is_raised_at_any_cut(filled):
    path, ends = filled
    data = path.read_bytes()
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        with pytest.raises(CorruptRecordError):
            payloads(path, end=ends[-1])
        with pytest.raises(CorruptRecordError, match=f"{ends[-1]} bytes expected") as caught:
            RecordLog.open(path, size=ends[-1])
        assert (caught.value.path, caught.value.offset) == (path, cut)
        assert path.stat().st_size == cut


def test_a_known_end_within_a_record_is_damage(filled):
    path, ends = filled
    with pytest.raises(CorruptRecordError, match="crosses the known end"):
        payloads(path, end=ends[0] - 1)


def test_an_impossible_length_is_not_read(filled):
    path, ends = filled
    data = bytearray(path.read_bytes())
    data[ends[0] : ends[0] + 4] = struct.pack("<I", record_log.MAX_PAYLOAD + 1)
    path.write_bytes(data)
    with pytest.raises(CorruptRecordError, match="impossible record length"):
        payloads(path, end=ends[-1])
    assert payloads(path) == PAYLOADS[:1]


def test_no_record_is_written_that_no_reader_would_take(path, monkeypatch):
    monkeypatch.setattr(record_log, "MAX_PAYLOAD", 10)
    with RecordLog.open(path) as log:
        log.append(b"x" * 10)
        with pytest.raises(ValueError, match="11 bytes; the limit is 10"):
            log.append(b"x" * 11)
        log.append(b"after")
    assert payloads(path) == [b"x" * 10, b"after"]


# Other files, other versions


@each("data", b"not a record log at all", b"WCLX\1\0\0\0", NEWER[::-1])
def test_another_file_is_refused_and_left_alone(path, data):
    path.write_bytes(data)
    for attempt in (
        lambda: RecordLog.open(path),
        lambda: list(read_records(path)),
        lambda: list(read_records(path, end=len(data))),
    ):
        with pytest.raises(CorruptRecordError, match="not a record log header"):
            attempt()
    if len(data) > HEADER_SIZE:
        with pytest.raises(CorruptRecordError, match="not a record log header"):
            RecordLog.open(path, size=len(data))
    assert path.read_bytes() == data


@each("rest", b"", b"records of a kind not known yet")
def test_a_log_of_a_newer_version_is_refused_and_left_alone(path, rest):
    path.write_bytes(NEWER + rest)
    sizes = (None, HEADER_SIZE + len(rest)) if rest else (None,)
    for size in sizes:
        with pytest.raises(NewerFormatError, match="format 3, this webcrawl reads up to 2"):
            RecordLog.open(path, size=size)
    for end in (None, path.stat().st_size):
        with pytest.raises(NewerFormatError, match=str(path)):
            payloads(path, end=end)
    assert path.read_bytes() == NEWER + rest


def test_a_log_of_an_older_version_is_continued_as_one_of_this_version(filled):
    """So that the older webcrawl does not take a later record for damage."""
    path, _ = filled
    path.write_bytes(OLDER + path.read_bytes()[HEADER_SIZE:])
    assert payloads(path) == PAYLOADS
    with RecordLog.open(path) as log:
        log.append(b"later")
    assert payloads(path, end=log.size) == [*PAYLOADS, b"later"]
    assert path.read_bytes().startswith(b"WCLG\x02\x00\x00\x00")


# A full disk


def test_an_append_on_a_full_disk_leaves_the_log_appendable(path):
    with RecordLog.open(path) as log:
        end = log.append(b"before")
        for room in range(8 + len(b"too much")):
            with full_disk(end + room):
                log.append(b"too much")
            assert log.size == end == path.stat().st_size
        log.append(b"after")
    assert payloads(path, end=path.stat().st_size) == [b"before", b"after"]


def test_a_log_that_finds_no_room_for_its_header_can_be_made_later(path):
    for room in range(HEADER_SIZE):
        with full_disk(room):
            RecordLog.open(path)
    with RecordLog.open(path) as log:
        log.append(b"now")
    assert payloads(path) == [b"now"]


def test_a_header_that_a_snapshot_vouches_for_is_never_without_its_bytes(filled):
    """Written anew, it might find no room, or its process might die before it."""
    path, _ = filled
    with file_size_limit(0):
        RecordLog.open(path, size=HEADER_SIZE).close()
        RecordLog.open(path).close()
    assert payloads(path, end=HEADER_SIZE) == []


# Packs


def pack_as_before(items):
    """As webcrawl 0.3 packed them."""
    return struct.pack(f"<I{len(items)}I", len(items), *map(len, items)) + b"".join(items)


ITEMS = st.lists(st.binary(max_size=30), max_size=20)
PACKS = st.sampled_from([pack_many, pack_as_before])


@given(ITEMS, PACKS)
def test_packed_items_come_back(items, pack):
    assert unpack_many(pack(items)) == items
    assert count_packed(pack(items)) == len(items)
    for level in (0, 1):
        assert decompress(compress(pack(items), level)) == pack(items)


@given(ITEMS, PACKS, st.data())
def test_a_pack_that_is_cut_or_longer_is_refused(items, pack, data):
    packed = pack(items)
    compressed = compress(packed, 1)
    for other in (compressed[:-1], compressed + b"x", packed):
        with pytest.raises(ValueError, match="not packed items"):
            decompress(other)
    cut = data.draw(st.integers(0, len(packed) - 1))
    with pytest.raises(ValueError, match="not packed items"):
        unpack_many(packed[:cut])
    for wrong in (packed + b"x", bytes([packed[0] ^ 1]) + packed[1:]):
        with pytest.raises(ValueError, match="not packed items"):
            unpack_many(wrong)


@given(
    st.sampled_from([b"", b"\xff" * 4, b"\xff" * 4 + b"\xdd", b"\xff" * 4 + b"\x91\xc6"]),
    st.binary(max_size=60),
)
def test_a_false_count_or_length_takes_no_memory(begin, noise):
    tracemalloc.start()
    with suppress(ValueError):
        unpack_many(begin + noise)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40_000


def test_more_bytes_than_a_record_may_have_are_neither_compressed_nor_decompressed(monkeypatch):
    small = compress(bytes(1_000_000), 1)
    assert len(small) < 10_000
    monkeypatch.setattr(record_log, "_MAX_UNCOMPRESSED", 999_999)
    with pytest.raises(ValueError, match="not packed items"):
        decompress(small)
    with pytest.raises(ValueError, match="1000000 bytes; the limit is 999999"):
        compress(bytes(1_000_000), 1)


@each("size", None, 0, HEADER_SIZE, "first", "whole")
def test_other_names_of_a_log_keep_their_bytes_when_it_is_opened(filled, tmp_path, size):
    path, ends = filled
    size = {"first": ends[0], "whole": ends[-1]}.get(size, size)
    other = tmp_path / "checkpoint"
    other.hardlink_to(path)
    data = path.read_bytes()
    with RecordLog.open(path, size=size) as log:
        log.append(b"later")
    assert other.read_bytes() == data
    left = len([end for end in ends if size is None or end <= size])
    assert payloads(path) == [*PAYLOADS[:left], b"later"]
    assert sorted(tmp_path.iterdir()) == [other, path]


def test_a_full_disk_leaves_a_log_with_other_names_as_it_was(filled, tmp_path):
    path, _ = filled
    (tmp_path / "checkpoint").hardlink_to(path)
    data = path.read_bytes()
    with full_disk(len(data) // 2):
        RecordLog.open(path)
    assert path.read_bytes() == data
    assert len(list(tmp_path.iterdir())) == 2
