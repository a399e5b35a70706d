"""Tests of the URL log U and the drain that reads it: order, cuts, cursors."""

import os
import struct
from array import array
from functools import partial

import pytest
from disk import full_disk
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples
from text_tables import each

from webcrawl.seen.drain import Cursor, LogSection
from webcrawl.seen.url_log import Span, UrlLog, has_payloads, read_frames
from webcrawl.storage.record_log import (
    FRAME,
    HEADER_SIZE,
    CorruptRecordError,
    RecordLog,
    compress,
    pack_many,
)

START = Cursor(HEADER_SIZE, 0, 0)


def at_once(work):
    work()


def opened(path, number=1, **more):
    made = UrlLog(path=path, run_in_worker=at_once, **more)
    made.open(number=number, start=HEADER_SIZE, end=HEADER_SIZE, first=1)
    return made


@pytest.fixture
def log(tmp_path):
    made = opened(tmp_path, file_bytes=200)
    yield made
    made.close()


def write(log, *pages):
    """Append each page, a list of payloads; fingerprints count up from 1 in each."""
    for page in pages:
        log.append(array("Q", range(1, len(page) + 1)), page)


def drain_of(log, *, marks=None, cursor=START):
    return drain_at(log.file(1), log.span.end, marks=marks, cursor=cursor)


def drain_at(path, end, *, marks=None, cursor=START):
    section = LogSection(span=Span(1, HEADER_SIZE, end), path=path, left=0, cursor=cursor)
    section.decide(marks)
    return section


def files(path):
    return sorted(file.name for file in path.iterdir())


def test_frames_come_back_as_written(log):
    log.append(array("Q", [7, 1 << 63]), [b"one", b""])
    log.append(array("Q", [9]), [])
    one, two = read_frames(log.file(1), start=HEADER_SIZE, end=log.span.end)
    assert list(one.fps) == [7, 1 << 63]
    assert has_payloads(one.packed)
    assert list(two.fps) == [9]
    assert not has_payloads(two.packed)
    assert two.end == log.span.end


def test_payloads_that_repeat_each_other_take_few_bytes(log):
    page = [b"/page-%d of the same host, found on the same page" % number for number in range(30)]
    write(log, page)
    assert log.span.end < 30 * (8 + 12)
    assert drain_of(log).take(100) == page


def test_records_of_webcrawl_0_3_are_read(log):
    """Their payloads were not compressed."""
    page = [b"b" * 40] * 120
    packed = struct.pack("<121I", 120, *[40] * 120) + b"".join(page)
    log._active.append(struct.pack("<I120Q", 120, *range(120)) + packed)
    log._active.append(struct.pack("<IQ", 1, 120) + bytes(4))
    write(log, [b"c"])
    frames = [*read_frames(log.file(1), start=HEADER_SIZE, end=log.span.end)]
    assert [len(frame.fps) for frame in frames] == [120, 1, 1]
    assert [has_payloads(frame.packed) for frame in frames] == [True, False, True]
    assert drain_of(log, marks=b"\1" * 120 + b"\0\1").take(200) == [*page, b"c"]


def test_a_cut_begins_a_new_file_only_when_the_old_is_large(log, tmp_path):
    write(log, [b"x"])
    assert log.cut() == Span(1, HEADER_SIZE, log.span.end)
    write(log, [os.urandom(200)])
    middle = log.span
    assert log.cut() == middle
    assert log.span == Span(2, HEADER_SIZE, HEADER_SIZE)
    assert files(tmp_path) == ["discovered-000001.log", "discovered-000002.log"]


def test_a_full_disk_appends_nothing(log):
    write(log, [b"x"])
    before = log.span.end
    with full_disk(before + 20):
        write(log, [b"y" * 100])
    assert log.span.end == before
    write(log, [b"z"])
    assert drain_of(log).take(10) == [b"x", b"z"]


def test_a_file_that_must_be_there_and_is_not_is_reported(log):
    with pytest.raises(CorruptRecordError, match="gone"):
        list(read_frames(log.file(3), start=HEADER_SIZE, end=100))
    assert list(log.recover(3, start=HEADER_SIZE, trusted_until=HEADER_SIZE)) == []


def test_recovered_reads_beyond_the_trusted_part(log):
    write(log, [b"a"])
    vouched = log.span.end
    write(log, [b"b"], [b"c"])
    recovered = partial(log.recover, 1, start=HEADER_SIZE, trusted_until=vouched)
    os.truncate(log.file(1), log.span.end - 1)
    assert len([*recovered()]) == 2
    os.truncate(log.file(1), vouched - 1)
    with pytest.raises(CorruptRecordError):
        list(recovered())


def test_forget_names_the_files_before_the_published_snapshot(log):
    for _ in range(3):
        write(log, [os.urandom(200)])
        log.cut()
    log.snapshot(2)
    assert log.written() == [log.file(n) for n in (2, 3, 4)]
    assert log.forget() == [log.file(1)]
    assert log.forget() == []
    log.snapshot(None)
    assert log.written() == [log.file(4)]
    assert log.forget() == [log.file(2), log.file(3)]


def test_open_deletes_files_that_are_not_part_of_the_log(log, tmp_path):
    write(log, [b"x"])
    end = log.span.end
    log.close()
    for number in (3, 9):
        log.file(number).touch()
    again = opened(tmp_path, 2)
    assert files(tmp_path) == ["discovered-000001.log", "discovered-000002.log"]
    assert log.file(1).stat().st_size == end
    again.close()


@examples(80)
@given(
    pages=st.lists(st.tuples(st.lists(st.booleans(), max_size=5), st.booleans()), max_size=12),
    limits=st.lists(st.integers(1, 7), min_size=1, max_size=30),
)
def test_a_drain_opened_at_any_cursor_continues_with_the_next(tmp_path_factory, pages, limits):
    """*pages*: for each payload whether it is marked, and whether the page has any payloads."""
    log = opened(tmp_path_factory.mktemp("log"))
    marks, expected = b"", []
    for number, (wanted, has_any) in enumerate(pages):
        page = [b"%d.%d" % (number, n) for n in range(len(wanted))]
        log.append(array("Q", range(1, len(wanted) + 1)), page if has_any else [])
        marks += bytes(wanted) if has_any else bytes(len(wanted))
        expected += [p for p, w in zip(page, wanted, strict=True) if w and has_any]
    drain, out = drain_of(log, marks=marks), []
    for limit in limits:
        taken = drain.take(limit)
        assert len(taken) <= limit
        out += taken
        drain.close()
        drain = drain_of(log, marks=marks, cursor=drain.cursor)
    rest = drain.take(1000)
    assert out + rest == expected
    assert drain.take(5) == []
    drain.close()
    log.close()


def test_take_comes_back_after_a_bounded_section(tmp_path):
    log = opened(tmp_path)
    write(log, *[[os.urandom(25_000)]] * 50)
    marks = bytes(49) + b"\1"
    drain = drain_of(log, marks=marks)
    calls = 1
    while not drain.take(10):
        calls += 1
    assert calls == 3  # 1.25 MB at 0.5 MB a call
    log.close()


def test_damage_is_raised_after_what_lies_before_it_was_taken(log):
    write(log, [b"a"], [b"b"])
    end = log.span.end
    write(log, [b"c"])
    with log.file(1).open("r+b") as file:
        file.seek(end + FRAME.size + 2)
        file.write(b"\xff")
    drain = drain_of(log)
    assert drain.take(10) == [b"a", b"b"]
    for _ in range(2):
        with pytest.raises(CorruptRecordError, match="checksum") as caught:
            drain.take(10)
        assert caught.value.offset == end
    drain.close()


@each(
    "record",
    b"\1\0\0\0" + bytes(8) + b"\5\0\0\0",
    b"\1\0\0\x80" + bytes(8) + b"not compressed",
    b"\1\0\0\x80" + bytes(8) + compress(pack_many([b"x" * 99]), 0)[:-1],
)
def test_a_record_of_another_log_is_damage(tmp_path, record):
    path = tmp_path / "a.log"
    with RecordLog.open(path) as log:
        end = log.append(record)
    drain = drain_at(path, end)
    with pytest.raises(CorruptRecordError, match="not packed items"):
        drain.take(1)
