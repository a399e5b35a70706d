"""A log of lines: whole ones or none, whatever happens; full files get a number."""

import gzip
import math
import os
from pathlib import Path

import pytest
from disk import PowerLoss, full_disk
from hypothesis import given
from hypothesis import strategies as st
from text_tables import each

from webcrawl.storage import line_log
from webcrawl.storage.line_log import LineLog, numbered_files, remove_before, start_time


def opened(path, *, max_bytes=1 << 20):
    log = LineLog(path=path, max_bytes=max_bytes)
    log.open()
    return log


def write(path, *lines, **more):
    """Open the log, append *lines* and close it."""
    log = opened(path, **more)
    for line in lines:
        log.append(line)
    log.close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "logs" / "info.jsonl"


def packed(path):
    """Compress *path*; return the new file."""
    smaller = path.with_name(f"{path.name}.gz")
    smaller.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    return smaller


def all_lines(path):
    return b"".join(one.read_bytes() for one in [*numbered_files(path), path]).splitlines()


def test_a_line_is_in_the_file_when_append_returns(path):
    log = opened(path)
    log.append(b"one")
    assert path.read_bytes() == b"one\n"
    log.close()
    log.close()


@each("cut", *range(8))
def test_a_torn_last_line_is_cut_at_the_next_open(path, cut):
    write(path, b"one", b"two")
    os.truncate(path, cut)
    write(path, b"next")
    whole = [b"one", b"two"][: cut // 4]
    assert path.read_bytes().splitlines() == [*whole, b"next"]


def test_a_torn_line_longer_than_one_look_is_cut_too(path, monkeypatch):
    monkeypatch.setattr(line_log, "_STEP_BYTES", 3)
    write(path)
    for whole in (b"one\n", b""):
        path.write_bytes(whole + b"torn" * 5)
        write(path)
        assert path.read_bytes() == whole


def test_zeros_that_a_power_failure_left_are_cut(path):
    write(path, b"one")
    path.write_bytes(b"one\n" + bytes(100))
    write(path)
    assert path.read_bytes() == b"one\n"


@given(
    written=st.lists(st.binary(max_size=9).map(lambda b: b.replace(b"\n", b"")), max_size=30),
    max_bytes=st.integers(1, 40),
    reopened=st.sets(st.integers(0, 30)),
)
def test_files_turn_over_when_they_are_full_and_no_line_is_lost(
    tmp_path_factory, written, max_bytes, reopened
):
    path = tmp_path_factory.mktemp("lines") / "info.jsonl"
    log = opened(path, max_bytes=max_bytes)
    for number, line in enumerate(written):
        if number in reopened:
            log.close()
            log = opened(path, max_bytes=max_bytes)
        log.append(line)
    log.close()
    files = [*numbered_files(path), path]
    assert b"".join(one.read_bytes() for one in files) == b"".join(line + b"\n" for line in written)
    assert all(one.stat().st_size >= max_bytes for one in files[:-1])
    assert [one.name for one in files[:-1]] == [
        f"info-{number:06d}.jsonl" for number in range(1, len(files))
    ]


def test_a_full_disk_adds_nothing_and_the_log_goes_on(path):
    log = opened(path)
    log.append(b"one")
    with full_disk(6):
        log.append(b"two and more")
    assert path.read_bytes() == b"one\n"
    log.append(b"two")
    log.close()
    assert all_lines(path) == [b"one", b"two"]


def test_full_files_may_be_compressed_while_the_log_goes_on(path):
    log = opened(path, max_bytes=1)
    for line in (b"1", b"2", b"3"):
        log.append(line)
    for full in numbered_files(path):
        packed(full)
    log.append(b"4")
    log.close()
    write(path)
    names = [one.name for one in numbered_files(path, packed=True)]
    assert names == ["info-000001.jsonl.gz", "info-000002.jsonl.gz", "info-000003.jsonl"]
    assert [one.name for one in numbered_files(path)] == names[2:]


def test_a_turn_over_that_fails_leaves_everything_as_it_was(path, monkeypatch):
    log = opened(path, max_bytes=4)
    log.append(b"one")
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", _refuse)
        with pytest.raises(OSError, match="read-only"):
            log.append(b"two")
    assert numbered_files(path) == []
    log.append(b"two")
    log.close()
    assert all_lines(path) == [b"one", b"two"]


def test_a_file_that_cannot_be_cut_is_not_held_open(path, monkeypatch):
    path.parent.mkdir()
    path.write_bytes(b"torn")
    monkeypatch.setattr(os, "ftruncate", _refuse)
    descriptors = Path("/proc/self/fd")
    before = set(descriptors.iterdir())
    with pytest.raises(OSError, match="read-only"):
        opened(path)
    assert set(descriptors.iterdir()) == before


def _refuse(*_, **__):
    raise OSError(30, "read-only")


def test_a_full_file_that_lost_its_end_with_the_power_is_cut_too(path):
    write(path, b"one", b"two", b"three", max_bytes=8)
    full = path.with_name("info-000001.jsonl")
    full.write_bytes(b"one\n" + bytes(4))
    write(path)
    assert all_lines(path) == [b"one", b"three"]


def test_what_was_synced_survives_a_power_failure(tmp_path, path, monkeypatch):
    power = PowerLoss(tmp_path, monkeypatch)
    log = opened(path, max_bytes=8)
    for line in (b"one", b"two", b"three", b"four", b"five"):
        log.append(line)
    log.sync()
    log.append(b"six")
    assert all(
        name in power._names[path.parent.stat().st_ino]
        for name in ("info-000001.jsonl", "info-000002.jsonl", "info.jsonl")
    )
    log.close()
    power.close()


def test_a_sync_that_fails_is_made_good_by_the_next_one(path, monkeypatch):
    log = opened(path, max_bytes=4)
    log.append(b"one")
    log.append(b"two")
    synced = []
    monkeypatch.setattr(line_log, "sync_path", lambda _: _refuse())
    with pytest.raises(OSError, match="read-only"):
        log.sync()
    monkeypatch.setattr(line_log, "sync_path", synced.append)
    log.sync()
    assert {one.name for one in synced} >= {"info.jsonl", "info-000001.jsonl", "logs"}
    log.close()


def test_a_file_turned_over_while_the_others_are_synced_is_synced_too(path, monkeypatch):
    log = opened(path, max_bytes=4)
    log.append(b"one")
    synced = []

    def sync(one):
        if not synced:
            log.append(b"two")
        synced.append(one)

    monkeypatch.setattr(line_log, "sync_path", sync)
    log.sync()
    assert path.with_name("info-000001.jsonl") in synced
    log.close()


def at(second):
    return b'{"at":%.3f,"url":"\\"at\\":9"}' % second


def test_a_file_is_full_a_while_after_its_first_line_over_restarts_too(path):
    now = 100.0

    def log():
        made = LineLog(path=path, max_bytes=1 << 20, max_secs=10, clock=lambda: now)
        made.open()
        return made

    first = log()
    for now in (100, 105, 109, 110, 111, 140):
        first.append(at(now))
    first.close()
    now = 149
    second = log()
    for now in (149, 150):
        second.append(at(now))
    second.close()
    files = [
        [float(line[6:13]) for line in one.read_bytes().splitlines()]
        for one in numbered_files(path)
    ]
    assert files == [[100, 105, 109], [110, 111], [140, 149]]
    assert path.read_bytes() == at(150) + b"\n"


def test_only_files_whose_lines_are_all_older_are_removed_and_never_the_last(path):
    log = opened(path, max_bytes=1)
    for second in (10, 20, 30, 40):
        log.append(at(second))
    log.close()
    first, second, third = numbered_files(path)
    second = packed(second)
    log.sync()  # what is left of it
    assert [start_time(one) for one in (first, second, third, path)] == [10, 20, 30, 40]
    assert remove_before(path, 20) == 0
    assert remove_before(path, 20.5) == 1
    assert numbered_files(path, packed=True) == [second, third]
    # Of one that cannot be read the others tell.
    second.write_bytes(second.read_bytes()[:20])
    assert start_time(second) == math.inf
    assert remove_before(path, 25) == 0
    assert remove_before(path, 1000) == 1
    assert remove_before(path, 1000) == 0
    assert numbered_files(path, packed=True) == [third]
    assert start_time(path.with_name("none")) == math.inf


def test_a_log_that_is_never_synced_keeps_nothing_for_it(path, monkeypatch):
    log = LineLog(path=path, max_bytes=1)
    for _ in range(100):
        log.append_once(b"one")
    synced = []
    monkeypatch.setattr(line_log, "sync_path", synced.append)
    log.sync()
    assert synced == [path]
