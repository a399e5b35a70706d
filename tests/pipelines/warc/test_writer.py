"""WARC files on disk: whole pages only, under a final name, whatever happens."""

import errno
import fcntl
import gzip
import os
import random
import re

import pytest
from disk import full_disk
from strategies import some_of
from text_tables import each
from warc_checks import complaints, killed_at, page, records, urls

from webcrawl.errors import is_disk_full
from webcrawl.pipelines.growing_files import lock_existing
from webcrawl.pipelines.warc.writer import WarcWriteError, WarcWriter


def writer(directory, clock=lambda: 1_700_000_000.0, **more):
    values = {
        "directory": directory,
        "prefix": "test",
        "max_file_bytes": 1 << 30,
        "warcinfo": [("software", "tests"), ("robots", "obey")],
        **more,
    }
    return WarcWriter(clock=clock, **values)


@pytest.fixture
def opened(tmp_path):
    """Makes open writers in one directory, each with pages of *numbers*, and closes them."""
    writers = []

    def make(*numbers, **more):
        one = writer(tmp_path, **more)
        one.open()
        for number in numbers:
            one.write(page(number))
        writers.append(one)
        return one

    yield make
    for one in writers:
        one.close()


@pytest.fixture
def no_fsync(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _fd: None)


def kill(one):
    """End *one* as kill -9 does: its descriptor is closed, and nothing else is done."""
    path = one._path
    os.close(one._fd)
    one._fd = -1
    return path


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def only(directory):
    """The one file in *directory*."""
    (path,) = directory.iterdir()
    return path


def numbers(path):
    return [int(url.removeprefix("http://a.test/")) for url in urls(path)]


def test_pages_come_back_in_order_and_every_validator_is_content(tmp_path):
    one = writer(tmp_path / "new" / "warc")
    assert not (tmp_path / "new").exists()
    one.open()
    for number in range(20):
        one.write(page(number))
    one.close()
    path = only(tmp_path / "new" / "warc")
    assert complaints(path) == {}
    assert numbers(path) == list(range(20))
    assert one.written.records == 61
    assert one.written.bytes == path.stat().st_size
    assert one.written.files == 1


@each("damage", "cut", "changed", "twice", "one member", "more")
def test_validators_find_what_they_are_asked_to_find(tmp_path, opened, damage):
    opened(1).close()
    path = only(tmp_path)
    data = path.read_bytes()
    path.write_bytes(
        {
            "cut": data[:-1],
            "changed": gzip.compress(gzip.decompress(data).replace(b"<p>", b"<b>")),
            "twice": data + data,
            "one member": gzip.compress(gzip.decompress(data)),
            "more": data + b"more",
        }[damage]
    )
    assert complaints(path) != {}


def test_name_is_final_only_when_the_file_is(tmp_path, opened):
    one = opened()
    assert names(tmp_path) == []
    one.write(page())
    assert names(tmp_path) == ["test-20231114221320000-00000.warc.gz.open"]
    one.close()
    assert names(tmp_path) == ["test-20231114221320000-00000.warc.gz"]
    one.close()
    info = records(only(tmp_path))[0]
    assert info.headers["WARC-Filename"] == "test-20231114221320000-00000.warc.gz"
    assert info.body == b"software: tests\r\nrobots: obey\r\n"


def test_file_is_ended_before_the_page_that_would_exceed_its_size(tmp_path, opened, no_fsync):
    one = opened(0)
    size = one.written.bytes
    one.close()
    one = opened(*range(1, 20), max_file_bytes=3 * size)
    one.write(page(20, body=random.Random(1).randbytes(9 * size)))
    one.write(page(21))
    one.close()
    paths = sorted(tmp_path.iterdir())
    assert [number for path in paths for number in numbers(path)] == list(range(22))
    assert len(paths) == one.written.files + 1 > 5
    for path in paths:
        assert path.stat().st_size <= 3 * size or numbers(path) == [20]


def test_a_file_is_ended_when_it_is_old(tmp_path, opened):
    time = [1_700_000_000.0]
    one = opened(clock=lambda: time[0])
    one.close_older(0)
    one.write(page(1))
    time[0] += 99
    one.close_older(100)
    one.write(page(2))
    time[0] += 1
    one.close_older(100)
    path = only(tmp_path)
    assert (path.suffix, numbers(path)) == (".gz", [1, 2])
    one.write(page(3))
    one.close_older(100)
    assert [numbers(path) for path in sorted(tmp_path.iterdir())] == [[1, 2], [3]]
    assert len([*tmp_path.glob("*.open")]) == 1


def test_writers_that_share_a_directory_and_a_clock_get_different_files(tmp_path, opened):
    first, _ = opened(1), opened(2)
    first.close()
    third = opened(3)
    assert len(names(tmp_path)) == 3
    assert third.written.recovered == 0  # the second's file is locked, so it is left alone
    assert len([name for name in names(tmp_path) if name.endswith(".open")]) == 2


# --- recovery ---------------------------------------------------------------------------------


@each("cut", 0, 1)
def test_left_over_file_gets_its_final_name(tmp_path, opened, cut):
    left = kill(opened(0, 1, 2))
    size = left.stat().st_size - cut
    os.truncate(left, size)
    two = writer(tmp_path)
    (line,) = two.open()
    final = left.with_suffix("")
    whole = final.stat().st_size
    assert names(tmp_path) == [final.name]
    assert line == f"{final}: pages recovered: {3 - cut}, {size - whole} of {size} bytes cut off"
    assert complaints(final) == {}
    assert numbers(final) == [0, 1, 2][: 3 - cut]
    assert two.written.recovered == 1
    assert two.written.files == 0


def test_left_over_file_cut_at_any_byte_keeps_its_whole_pages(tmp_path, opened, no_fsync):
    one = opened(1)
    before = one.written.bytes
    one.write(page(2))
    path = kill(one)
    data, left = path.read_bytes(), path.with_suffix("")
    for size in some_of(range(len(data) + 1), [before]):
        path.write_bytes(data[:size])
        assert len(writer(tmp_path).open()) == 1
        if size < before:
            assert names(tmp_path) == []
            continue
        assert left.read_bytes() == data[: len(data) if size == len(data) else before]
        left.unlink()


@each("data", b"", b"torn", bytes(100))
def test_left_over_file_without_a_whole_page_is_removed(tmp_path, data):
    left = tmp_path / "test-1-0.warc.gz.open"
    left.write_bytes(data)
    one = writer(tmp_path)
    assert one.open() == [f"{left}: removed, as it had no complete page in {len(data)} bytes"]
    assert names(tmp_path) == []
    assert one.written.recovered == 0


def test_file_that_its_writer_ends_meanwhile_is_left_alone(tmp_path, opened, monkeypatch):
    """Between finding the name, opening the file, and locking it."""
    one, two = opened(1), writer(tmp_path)
    flock = fcntl.flock

    def end_then_lock(fd, operation):
        monkeypatch.undo()
        one.close()
        flock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", end_then_lock)
    assert two.open() == []
    assert numbers(only(tmp_path)) == [1]
    gone = tmp_path / "test-9-0.warc.gz.open"
    assert lock_existing(gone) is None


@each("and_then", "nothing", "another file")
def test_new_file_that_another_process_takes_for_a_dead_one_is_given_up(
    tmp_path, opened, monkeypatch, and_then
):
    one = opened()
    flock = fcntl.flock

    def removed_before_lock(fd, operation):
        monkeypatch.undo()
        (name,) = names(tmp_path)
        assert len(writer(tmp_path).open()) == 1
        if and_then == "another file":
            (tmp_path / name).write_bytes(b"")
        flock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", removed_before_lock)
    one.write(page(1))
    assert names(tmp_path)[-1] == "test-20231114221320000-00001.warc.gz.open"
    one.close()
    assert numbers(tmp_path / names(tmp_path)[-1]) == [1]


def test_file_system_without_locks_is_an_error(opened, monkeypatch):
    def no_locks(_fd, _operation):
        raise OSError(errno.ENOLCK, "No locks available")

    one = opened()
    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(WarcWriteError, match="No locks available"):
        one.write(page(1))


WORKER = """
import sys
from pathlib import Path
from tests.pipelines.warc.test_writer import page, writer
one = writer(Path(sys.argv[1]), max_file_bytes=20_000)
one.open()
for number in range(100_000):
    one.add(page(number))
    if number % 7 == 6:
        one.flush()
        print(number, flush=True)
"""


@each("number", 48, long=(6, 349))
def test_kill_9_loses_no_page_that_was_written(tmp_path, number):
    directory = tmp_path / "warc"
    said = killed_at(number, WORKER, directory)
    writer(directory).open()
    found = [number for name in names(directory) for number in numbers(directory / name)]
    assert found == list(range(len(found)))
    assert said + 1 <= len(found) <= said + 8
    assert not any(name.endswith(".open") for name in names(directory))


def test_sync_before_the_first_page_and_after_the_last_does_nothing(tmp_path, opened):
    one = opened()
    one.sync()
    one.write(page())
    one.close()
    one.sync()
    assert only(tmp_path).suffix == ".gz"


# --- errors -----------------------------------------------------------------------------------


def test_full_disk_leaves_whole_pages_and_writing_resumes_with_room(tmp_path, opened):
    one = opened(1)
    size = one.written.bytes
    for limit in (size, size + 1, size + 300):
        with full_disk(limit, WarcWriteError) as caught:
            one.write(page(2))
        assert is_disk_full(caught.value)
        assert str(one._path) in str(caught.value)
        assert one._path.stat().st_size == one.written.bytes == size
    one.write(page(3))
    one.close()
    assert complaints(only(tmp_path)) == {}
    assert numbers(only(tmp_path)) == [1, 3]


def test_full_disk_at_the_start_of_a_file_leaves_no_file(tmp_path, opened):
    one = opened()
    with full_disk(100, WarcWriteError):
        one.write(page(1))
    assert names(tmp_path) == []
    one.write(page(2))
    assert one.written.files == 1
    assert one.written.records == 4


def test_pages_that_were_added_are_lost_together(tmp_path, opened):
    """Also if the write that failed came before the last of them."""
    one = opened(1)
    one.add(page(2))
    large = page(3, body=random.Random(1).randbytes(1 << 20))
    with full_disk(one.written.bytes + 300, WarcWriteError):
        one.add(large)
    one.add(page(4))
    with pytest.raises(WarcWriteError):
        one.flush()
    one.write(page(5))
    one.close()
    assert numbers(only(tmp_path)) == [1, 4, 5]


def test_compressed_body_is_stored_as_it_came(tmp_path, opened):
    html = random.Random(1).randbytes(100_000).hex().encode()
    coded = gzip.compress(html, 1)
    fields = [(b"Content-Encoding", b"gzip")]
    one = opened()
    one.write(page(1, body=html, wire_body=coded, headers=fields))
    one.write(page(2))
    left = kill(one)
    os.truncate(left, left.stat().st_size - 1)
    writer(tmp_path).open()
    data = only(tmp_path).read_bytes()
    assert numbers(only(tmp_path)) == [1]
    assert complaints(only(tmp_path)) == {}
    assert coded[:60_000] in data
    assert len(data) < len(coded) + 3000


def test_torn_file_that_cannot_be_cut_is_written_to_no_more(tmp_path, opened, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    one = opened(1)
    monkeypatch.setattr(os, "ftruncate", refuse)
    with full_disk(one.written.bytes + 300, WarcWriteError):
        one.write(page(2))
    monkeypatch.undo()
    one.write(page(3))
    # What is in the first file may not be on the platter.
    with pytest.raises(WarcWriteError, match="File too large"):
        one.sync()
    one.close()
    writer(tmp_path).open()
    first, second = names(tmp_path)
    assert numbers(tmp_path / first) == [1]
    assert numbers(tmp_path / second) == [3]
    assert complaints(tmp_path / first) == {}


def test_missing_directory_is_an_error_that_does_not_lose_the_next_page(tmp_path):
    one = writer(tmp_path / "warc")
    one.open()
    (tmp_path / "warc").rmdir()
    with pytest.raises(WarcWriteError, match=re.escape(str(tmp_path))):
        one.write(page(1))
    (tmp_path / "warc").mkdir()
    one.write(page(2))
    kill(one)


def test_file_that_cannot_be_ended_is_recovered_later(tmp_path):
    one = writer(tmp_path / "warc")
    one.open()
    one.write(page(1))
    (tmp_path / "warc").rename(tmp_path / "moved")
    with pytest.raises(WarcWriteError):
        one.close()
    (tmp_path / "moved").rename(tmp_path / "warc")
    assert len(writer(tmp_path / "warc").open()) == 1
    assert numbers(only(tmp_path / "warc")) == [1]


def test_page_that_cannot_be_stored_touches_no_file(tmp_path, opened):
    one = opened()
    with pytest.raises(ValueError, match="cannot be stored"):
        one.write(page(url="http://a.test/" + "x" * 50_000))
    assert names(tmp_path) == []
