"""Atomic files, the manifest pointer and the directory lock."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from disk import flipped, full_disk
from text_tables import cases, each

from webcrawl.storage.atomic import (
    make_directory,
    sync_paths,
    write_all,
    write_atomic,
)
from webcrawl.storage.lock import DirectoryLock, LockedError
from webcrawl.storage.manifest import ManifestStore
from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError


def names(path):
    return {file.name for file in path.iterdir()}


# Atomic files


def test_an_atomic_write_makes_and_replaces_a_file(tmp_path):
    path = tmp_path / "file"
    for data in (b"old", b"newer and longer", b"", b"x" * 3_000_000):
        write_atomic(path, data)
        assert path.read_bytes() == data
        assert names(tmp_path) == {"file"}


def test_a_leftover_of_a_killed_write_is_no_hindrance(tmp_path):
    (tmp_path / "file.tmp").write_bytes(b"half of what was to be written, and longer than it")
    write_atomic(tmp_path / "file", b"data")
    assert (tmp_path / "file").read_bytes() == b"data"
    assert names(tmp_path) == {"file"}


def test_an_atomic_write_on_a_full_disk_leaves_the_old_file_alone(tmp_path):
    path = tmp_path / "file"
    write_atomic(path, b"old")
    for room in range(8):
        with full_disk(room):
            write_atomic(path, b"new data")
        assert path.read_bytes() == b"old"
        assert names(tmp_path) == {"file"}


def test_an_atomic_write_over_a_directory_leaves_nothing_behind(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(IsADirectoryError):
        write_atomic(tmp_path / "taken", b"data")
    assert names(tmp_path) == {"taken"}


def test_every_byte_is_written_to_a_pipe_that_takes_few_at_a_time():
    """os.write may stop short; a pipe of 64 kB that is read slowly makes it."""
    data = os.urandom(1_000_000)
    reader = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with reader:
        write_all(reader.stdin.fileno(), data)
        reader.stdin.close()
        assert reader.stdout.read() == data


def test_a_device_that_is_full_says_so():
    fd = os.open("/dev/full", os.O_WRONLY)
    try:
        with pytest.raises(OSError, match="No space left") as caught:
            write_all(fd, b"data")
    finally:
        os.close(fd)
    assert caught.value.errno == errno.ENOSPC


def test_files_are_synced_once_and_before_directories(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"")
    (tmp_path / "b").write_bytes(b"")
    synced = []
    fsync = os.fsync

    def record(fd):
        synced.append(str(Path(f"/proc/self/fd/{fd}").readlink()))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", record)
    sync_paths([tmp_path, tmp_path / "a", tmp_path / "gone", tmp_path / "b", tmp_path / "a"])
    assert synced == [str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path)]


def test_making_directories_returns_the_parents_to_sync(tmp_path):
    deep = tmp_path / "a" / "b" / "c"
    assert set(make_directory(deep)) == {tmp_path, tmp_path / "a", tmp_path / "a" / "b"}
    assert deep.is_dir()
    assert make_directory(deep) == []
    assert make_directory(tmp_path / "a" / "x") == [tmp_path / "a"]


# The manifest


def load(path):
    return ManifestStore(path=path).load()


def live_state(path):
    return load(path)["state"]


def test_a_directory_without_a_manifest_has_none(tmp_path):
    assert load(tmp_path) is None
    assert load(tmp_path / "not there") is None


def test_the_published_manifest_is_the_live_one(tmp_path):
    store = ManifestStore(path=tmp_path)
    for n in range(1, 4):
        assert store.next_sequence() == n
        store.publish({"number": n})
        assert names(tmp_path) == {"CURRENT", f"manifest-{n:06d}.json"}
        again = ManifestStore(path=tmp_path)
        assert again.load() == {"format": 2, "sequence": n, "number": n}
        assert again.next_sequence() == n + 1


def test_a_manifest_is_text_for_people(tmp_path):
    ManifestStore(path=tmp_path).publish({"facts": {"waiting": 3}})
    text = (tmp_path / "manifest-000001.json").read_text()
    assert json.loads(text)["facts"] == {"waiting": 3}
    assert '\n  "facts": {\n    "waiting": 3\n' in text


def test_a_full_disk_leaves_the_old_manifest_live(tmp_path):
    store = ManifestStore(path=tmp_path)
    store.publish({"state": "old"})
    before = names(tmp_path)
    for room in range((tmp_path / "manifest-000001.json").stat().st_size):
        with full_disk(room):
            store.publish({"state": "new"})
        assert live_state(tmp_path) == "old"
        assert names(tmp_path) == before
    store.publish({"state": "new"})
    assert live_state(tmp_path) == "new"
    assert len(names(tmp_path)) == 2


def test_a_pointer_that_cannot_be_written_leaves_the_old_manifest_live(tmp_path):
    store = ManifestStore(path=tmp_path)
    store.publish({"state": "old"})
    (tmp_path / "CURRENT.tmp").mkdir()
    with pytest.raises(IsADirectoryError):
        store.publish({"state": "new"})
    assert live_state(tmp_path) == "old"
    (tmp_path / "CURRENT.tmp").rmdir()
    store.publish({"state": "newer"})
    assert live_state(tmp_path) == "newer"
    assert len(names(tmp_path)) == 2


def test_a_second_attempt_does_not_write_over_the_first(tmp_path, monkeypatch):
    """The first one may be live although it failed: in the last fsync of the directory."""
    store = ManifestStore(path=tmp_path)
    store.publish({"state": "old"})
    fsync = os.fsync
    synced = 0

    def fail_last(fd):
        nonlocal synced
        synced += 1
        if synced == 4:  # manifest, directory, CURRENT, directory
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", fail_last)
    with pytest.raises(OSError, match="Input/output"):
        store.publish({"state": "new"})
    assert live_state(tmp_path) == "new"
    assert store.next_sequence() == 3


@each(
    "current", b"", b"\n", b"manifest-1.json\n", b"../manifest-000001.json", b"\xff\xfe", bytes(20)
)
def test_a_pointer_that_names_no_manifest_is_damage(tmp_path, current):
    (tmp_path / "CURRENT").write_bytes(current)
    with pytest.raises(CorruptRecordError, match="does not name a manifest") as caught:
        load(tmp_path)
    assert caught.value.path == tmp_path / "CURRENT"


def test_a_manifest_cut_anywhere_is_damage(tmp_path):
    ManifestStore(path=tmp_path).publish({"state": [1, 2]})
    path = tmp_path / "manifest-000001.json"
    data = path.read_bytes()
    for cut in range(len(data) - 1):  # the last byte is a newline
        path.write_bytes(data[:cut])
        with pytest.raises(CorruptRecordError, match="not a readable manifest"):
            load(tmp_path)


def test_a_manifest_with_any_byte_flipped_is_damage_or_says_the_same(tmp_path):
    ManifestStore(path=tmp_path).publish({"state": [1, 2], "facts": {"settings": {"A": "b"}}})
    said = load(tmp_path)
    path = tmp_path / "manifest-000001.json"
    data = path.read_bytes()
    for at in range(len(data)):
        for change in (1, 32, 128):
            path.write_bytes(flipped(data, at, change))
            try:
                read = load(tmp_path)
            except (CorruptRecordError, NewerFormatError):
                continue
            # The name of the checksum was hit: it is a member that nobody knows.
            assert said.items() <= read.items(), at


def test_a_manifest_without_a_checksum_is_an_edited_one(tmp_path):
    ManifestStore(path=tmp_path).publish({"state": 1})
    (tmp_path / "manifest-000001.json").write_text('{"format": 2, "state": 2}')
    assert load(tmp_path) == {"format": 2, "state": 2}


@cases(
    "text why",
    """
        gone             | not a readable manifest
        "{}"             | no format number
        '{"format": "1"}' | no format number
        '{"format": null}' | no format number
        '{"format": 1, "state": 2, "crc32": 7}' | checksum mismatch
        '{"format": 1, "state": 2}' | it is from before webcrawl 0.1
        '{"format": 3}'   | format 3, this webcrawl reads up to 2: use the
    """,
)
def test_another_manifest_is_refused_with_the_reason(tmp_path, text, why):
    ManifestStore(path=tmp_path).publish({})
    path = tmp_path / "manifest-000001.json"
    path.write_text(text)
    if text == "gone":
        path.unlink()
    error = NewerFormatError if "reads up to" in why else CorruptRecordError
    with pytest.raises(error, match=f"{path}.*{why}"):
        load(tmp_path)


# The lock

HOLDER = """
import sys, pathlib
from webcrawl.storage.lock import DirectoryLock
lock = DirectoryLock(path=pathlib.Path(sys.argv[1]))
lock.acquire()
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock until it is killed or its standard input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, tmp_path / "LOCK"],
        cwd=Path(__file__).parent.parent.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout.readline() == "locked\n"
        yield process
        process.kill()


def test_a_second_process_is_refused_with_the_holder_of_the_lock(tmp_path, holder):
    lock = DirectoryLock(path=tmp_path / "LOCK")
    for _ in range(2):
        with pytest.raises(LockedError, match=f"LOCK is held by process {holder.pid}") as caught:
            lock.acquire()
        assert caught.value.holder == f"process {holder.pid}"


@pytest.fixture
def locks(tmp_path):
    return [DirectoryLock(path=tmp_path / "LOCK") for _ in range(2)]


def test_a_released_lock_can_be_taken_again_and_by_others(locks):
    first, second = locks
    first.release()
    first.acquire()
    with pytest.raises(LockedError):
        second.acquire()
    first.release()
    first.release()
    second.acquire()
    second.release()


def test_a_holder_that_did_not_say_its_name_is_another_process(locks, tmp_path):
    first, second = locks
    first.acquire()
    os.truncate(tmp_path / "LOCK", 0)
    with pytest.raises(LockedError, match="held by another process"):
        second.acquire()
    first.release()


def test_a_lock_that_cannot_be_written_is_not_held(locks):
    first, second = locks
    with full_disk(0):
        first.acquire()
    second.acquire()
    second.release()
