"""Reading record logs past damage: whatever is flipped or cut, every other record is found."""

import random

import pytest
from disk import flip
from hypothesis import example, given
from hypothesis import strategies as st

from webcrawl.storage.fifo import DiskFifo, unpack_frame
from webcrawl.storage.record_log import (
    FRAME,
    HEADER_SIZE,
    NewerFormatError,
    RecordLog,
    pack_many,
    read_records,
)
from webcrawl.storage.scan import FoundRecord, Gap, scan_fifo, scan_records


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.log"


def write_log(path, payloads):
    with RecordLog.open(path, size=0) as log:
        return [log.append(payload) for payload in payloads]


def pieces(path, **bounds):
    return list(scan_records(path, **bounds))


def payloads_of(found):
    return [piece.payload for piece in found if isinstance(piece, FoundRecord)]


def gaps_of(found):
    return [piece for piece in found if isinstance(piece, Gap)]


def test_a_sound_log_is_its_records_and_no_gap(path):
    ends = write_log(path, [b"one", b"", b"three"])
    found = pieces(path)
    assert payloads_of(found) == [b"one", b"", b"three"]
    assert [piece.end for piece in found] == ends
    assert [piece.start for piece in found] == [HEADER_SIZE, *ends[:-1]]
    assert pieces(path, end=ends[-1]) == found
    assert pieces(path, start=ends[0], end=ends[1]) == found[1:2]


@given(
    payloads=st.lists(st.binary(max_size=80), min_size=1, max_size=8),
    where=st.integers(0, 10**6),
    change=st.integers(1, 255),
)
@example(payloads=[b"", b"\0\0", b""], where=0, change=10)  # a length that leads to the third one
def test_a_flipped_byte_is_reported_with_its_record(tmp_path_factory, payloads, where, change):
    path = tmp_path_factory.mktemp("scan") / "a.log"
    ends = write_log(path, payloads)
    at = HEADER_SIZE + where % (ends[-1] - HEADER_SIZE)
    flip(path, at, change)
    hit = next(number for number, end in enumerate(ends) if at < end)
    start = ends[hit - 1] if hit else HEADER_SIZE
    found = pieces(path)
    (gap,) = gaps_of(found)
    assert (gap.start, gap.is_torn) == (start, False)
    # A length that was hit may lead to a later record.
    assert gap.end == ends[hit] or (gap.end in ends[hit:] and at < start + 4)
    assert payloads_of(found) == payloads[:hit] + payloads[ends.index(gap.end) + 1 :]
    assert gaps_of(pieces(path, end=ends[-1])) == [gap] or hit == len(payloads) - 1
    # Every byte is in one piece.
    edges = [HEADER_SIZE, *(piece.end for piece in found)]
    assert [piece.start for piece in found] == edges[:-1]


@given(
    payloads=st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=5),
    cut=st.integers(1, 10**6),
)
def test_a_torn_end_is_distinguished_from_damage(tmp_path_factory, payloads, cut):
    path = tmp_path_factory.mktemp("scan") / "a.log"
    ends = [HEADER_SIZE, *write_log(path, payloads)]
    last = ends[-1] - ends[-2]
    size = ends[-1] - (cut % last or 1)
    path.write_bytes(path.read_bytes()[:size])
    found = pieces(path)
    assert payloads_of(found) == payloads[:-1]
    assert [(gap.start, gap.is_torn) for gap in gaps_of(found)] == [
        (ends[-2], True) for _ in range(size > ends[-2])
    ]
    # What a manifest vouches for cannot be torn.
    (gap,) = gaps_of(pieces(path, end=ends[-1]))
    assert (gap.start, gap.end, gap.is_torn) == (ends[-2], ends[-1], False)


def test_blocks_that_a_power_failure_left_as_zeros_are_a_torn_end(path):
    (end, _) = write_log(path, [b"a" * 100, b"b" * 9000])
    data = path.read_bytes()
    path.write_bytes(data[:4096] + bytes(len(data) - 4096))
    assert gaps_of(pieces(path))[0][:2] == (end, len(data))
    assert gaps_of(pieces(path))[0].is_torn
    path.write_bytes(data[:end] + bytes(50_000))
    assert gaps_of(pieces(path))[0].is_torn
    path.write_bytes(data[:4096] + bytes(100) + data[4196:])
    assert not gaps_of(pieces(path))[0].is_torn


def test_a_hole_of_megabytes_is_crossed(path):
    rng = random.Random(1)
    payloads = [rng.randbytes(3000) for _ in range(2000)]
    ends = write_log(path, payloads)
    whole = path.read_bytes()
    for hole in (bytes(3 << 20), rng.randbytes(300_000)):
        path.write_bytes(whole[: ends[9]] + hole + whole[ends[9] + len(hole) :])
        found = pieces(path)
        (gap,) = gaps_of(found)
        assert gap.start == ends[9]
        assert 0 <= gap.end - gap.start - len(hole) < 3008
        assert payloads_of(found) == payloads[:10] + payloads[ends.index(gap.end) + 1 :]


def test_a_large_record_is_found_again(path):
    rng = random.Random(1)
    payloads = [b"small", rng.randbytes(2 << 20), b"next", rng.randbytes(2 << 20)]
    ends = write_log(path, payloads)
    flip(path, HEADER_SIZE)
    assert gaps_of(pieces(path))[0].end == ends[0]
    flip(path, ends[1])
    assert payloads_of(pieces(path)) == [payloads[1], payloads[3]]


def test_a_damaged_header_hides_no_record(path):
    write_log(path, [b"one", b"two"])
    flip(path, 0)
    found = pieces(path)
    assert found[0] == Gap(0, HEADER_SIZE, "not a record log header", is_torn=False)
    assert payloads_of(found) == [b"one", b"two"]


def test_files_without_a_record(path):
    assert pieces(path) == [Gap(HEADER_SIZE, HEADER_SIZE, "the file is gone", is_torn=False)]
    assert pieces(path, end=50)[0][:2] == (HEADER_SIZE, 50)
    path.write_bytes(b"")
    assert pieces(path) == []
    assert pieces(path, end=50)[-1][:3] == (HEADER_SIZE, 50, "the file ends here")
    path.write_bytes(b"\0" * 5)
    assert pieces(path) == [Gap(0, 5, "the file ends within its header", is_torn=True)]
    path.write_bytes(b"WCL")
    assert pieces(path) == [Gap(0, 3, "not a record log header", is_torn=True)]


def test_a_later_version_is_refused(path):
    write_log(path, [b"one"])
    flip(path, 4, 1 ^ 2)
    with pytest.raises(NewerFormatError, match="has format 2, this webcrawl reads up to 1"):
        pieces(path)


def test_a_last_record_with_a_damaged_length_is_no_torn_end(path):
    (end, _) = write_log(path, [b"one", b"two"])
    flip(path, end, 3 ^ 200)
    size = path.stat().st_size
    assert gaps_of(pieces(path)) == [Gap(end, size, "damaged record length", is_torn=False)]


@pytest.fixture
def fifo(tmp_path):
    queue = DiskFifo(path=tmp_path / "q", chunk_items=2, segment_bytes=60)
    queue.open(None)
    queue.push_many(b"item %02d" % n for n in range(40))
    for _ in range(5):
        queue.pop()
    return queue


def items_of(found):
    return [
        item
        for _, piece in found
        if isinstance(piece, FoundRecord)
        for item in unpack_frame(piece.payload)
    ]


def test_a_sound_queue_is_its_body(fifo):
    snapshot = fifo.snapshot()
    found = list(scan_fifo(fifo.path, snapshot))
    assert items_of(found) == [b"item %02d" % n for n in range(40)][6 : 6 + snapshot.overflow]
    assert not any(isinstance(piece, Gap) for _, piece in found)
    empty = DiskFifo(path=fifo.path, chunk_items=2)
    assert list(scan_fifo(fifo.path, empty.snapshot())) == []


def test_a_queue_is_read_past_every_kind_of_damage(fifo):
    snapshot = fifo.snapshot()
    whole = items_of(scan_fifo(fifo.path, snapshot))
    files = sorted(fifo.path.glob("*.log"))[1:]
    gone, short, torn = files[0], files[1], files[2]
    lost = {
        path: [i for _, p in read_records(path) if p for i in unpack_frame(p)]
        for path in (gone, short, torn)
    }
    gone.unlink()
    # Without the record that ends it, a segment may have lost more than that.
    short.write_bytes(short.read_bytes()[: -FRAME.size])
    torn.write_bytes(torn.read_bytes()[: -FRAME.size - 3])
    found = list(scan_fifo(fifo.path, snapshot))
    missing = {*lost[gone], *lost[torn][-2:]}
    assert items_of(found) == [item for item in whole if item not in missing]
    gaps = [(file, piece.is_torn) for file, piece in found if isinstance(piece, Gap)]
    assert {file for file, _ in gaps} == {gone, short, torn}
    assert not any(is_torn for _, is_torn in gaps)


def test_a_record_within_a_record_is_none(path):
    inner = pack_many([b"http://a.test/%d" % n for n in range(50)])
    ends = write_log(path, [inner, b"last"])
    flip(path, HEADER_SIZE + 40)
    assert [piece[:2] for piece in pieces(path)] == [(HEADER_SIZE, ends[0]), (ends[0], ends[1])]
