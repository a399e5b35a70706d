"""Tests that host records return what was put, from memory, during writes and from disk."""

import contextlib
import errno
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from disk import file_size_limit, flipped
from hypothesis import given
from hypothesis import strategies as st
from records_rig import (
    PatientExecutor,
    damage_of,
    left_behind,
    opened,
    put,
    records_in,
    save,
    without_log,
)
from text_tables import each

from webcrawl.errors import is_disk_full
from webcrawl.hosts.records import HostRecord, database
from webcrawl.hosts.records.host_record import decode, encode
from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError

HOST, FILE = "a.test", Path("records.sqlite")


@pytest.fixture
def executor():
    return PatientExecutor()


@pytest.fixture
def path(jobdir):
    return jobdir / "shards" / "00" / "hosts"


@pytest.fixture
def opening(path, executor):
    """Return a function that opens records and closes them after the test."""
    made = []

    def make(where=path, **sizes):
        made.append(opened(where, executor, **sizes))
        return made[-1]

    yield make
    for records in made:
        records.close()


@pytest.fixture
def records(opening):
    return opening(size=3, robots_size=5)


def a_record(number):
    return HostRecord(f"h{number}.test", [0.1 * number], number, 1e9 + number, number * 7)


# --- records


@given(
    st.builds(
        HostRecord,
        host=st.text(),
        took=st.lists(st.floats(0, 1e6), max_size=5),
        failures=st.integers(0, 2**31),
        ready_at=st.floats(0, 1e10),
        pages=st.integers(0, 2**40),
        addresses=st.lists(st.sampled_from(["203.0.113.7", "2001:db8::1"])),
        addresses_until=st.floats(0, 1e10),
    )
)
def test_record_is_read_as_it_was_written(record):
    assert decode(encode(record), HOST, FILE) == record


def test_record_of_a_later_version_is_read_without_what_was_added():
    known = a_record(3)
    later = [*msgspec.msgpack.decode(encode(known)), "a field", {"of": "later"}]
    assert decode(msgspec.msgpack.encode(later), HOST, FILE) == known


def test_record_of_an_earlier_version_has_the_defaults():
    assert decode(msgspec.msgpack.encode([HOST]), HOST, FILE) == HostRecord(HOST)


# --- get and put


def test_fact_held_longest_leaves_memory_first(records, executor):
    without_log(records)
    for number in range(5):
        records.put_robots(f"h{number}", b"1")
    save(records, executor)
    records.robots("h0")
    records.put_robots("h5", b"1")

    def read(*numbers):
        before = records.stats()["hosts/robots/read"]
        for number in numbers:
            records.robots(f"h{number}")
        return records.stats()["hosts/robots/read"] - before

    assert (read(1, 2, 3, 4), read(0)) == (0, 1)


def test_keys_never_stored_cost_no_look_up_on_disk(path, opening, executor, monkeypatch):
    monkeypatch.setattr(database, "_KEYS_AT_ONCE", 25)
    filled(path, facts=120)
    records = without_log(opening(size=1))

    def reads():
        return sum(records.stats()[f"hosts/{kind}/read"] for kind in ("records", "robots", "rests"))

    before = reads()
    for number in range(4):  # after the third one all 240 keys are known
        for key in range(120):
            assert records.get(f"h{key}.test") == a_record(key)
            assert records.robots(f"h{key}")
        before = reads()
        for key in range(100):
            assert records.get(f"new{key}.test") == HostRecord(f"new{key}.test")
            assert records.rests.get(f"h{key}") is None
        records.rests.put(f"new{number}", b"1")
        save(records, executor)
    assert reads() == before


# --- writing


def test_a_flush_without_changes_writes_nothing(records, executor):
    records.get("a.test")
    records.flush()
    assert len(executor) == 0


def test_close_writes_new_facts_and_finishes_the_write_under_way(path, opening):
    pool = ThreadPoolExecutor(1)
    records = opened(path, pool)
    gate = threading.Event()
    pool.submit(gate.wait)
    records.put(a_record(1))
    records.flush()
    records.put(a_record(2))
    gate.set()
    pool.shutdown()
    records.close()
    records.close()
    again = opening()
    assert [again.get(f"h{n}.test") for n in (1, 2)] == [a_record(1), a_record(2)]


def test_executor_that_is_shut_down_loses_nothing(path, opening):
    pool = ThreadPoolExecutor(1)
    records = opened(path, pool)
    pool.shutdown()
    records.put(a_record(1))
    with pytest.raises(RuntimeError):
        records.flush()
    records.close()
    assert opening().get("h1.test") == a_record(1)


def test_batch_of_many_transactions_is_written(path):
    with ThreadPoolExecutor(1) as pool:
        records = opened(path, pool, size=10)
        for number in range(20_001):
            records.put(a_record(number))
        records.close()
        records.open()
        assert damage_of(records) == []
        assert records.stats()["hosts/written"] == 20_001
        assert records.get("h20000.test") == a_record(20_000)
        records.close()


def test_readers_do_not_keep_the_log_from_being_emptied(path):
    """An unfinished statement would do that, and the log would grow for ever."""
    with ThreadPoolExecutor(1) as pool:
        records = records_in(path, pool, size=1)
        records.database.resize(128)
        records.open()
        for number in range(400):
            for each in range(50):
                records.put(HostRecord(f"h{each}.test", addresses=["x" * 500], pages=number))
            records.flush()
            pool.submit(int).result()
            records.flush()  # it is written
            assert records.get("h0.test").pages == records.get("h1.test").pages == number
        assert (path / "records.sqlite-wal").stat().st_size < 6 << 20
        records.close()


@each("flushes", 1, 7, 64, 65, 130)
def test_logged_and_stored_facts_survive_a_kill(path, opening, executor, tmp_path, flushes):
    """The log has room for 64 flushes; then everything is stored, and the log starts over."""
    records = opening()
    for number in range(1, flushes + 1):
        put(records, "a.test", number)
        put(records, f"h{number}.test", number)
        save(records, executor)
    assert (records.stats()["hosts/written"] > 0) == (flushes > 64)
    for _ in range(2):  # the second one takes up what the first one left
        path = left_behind(path, tmp_path / f"copy{path.name}")
        again = opened(path, executor)
        assert damage_of(again) == []
        assert again.get("a.test").pages == flushes
        for number in range(1, flushes + 1):
            assert again.get(f"h{number}.test").pages == number
        again.put(HostRecord("b.test"))
        save(again, executor)
        again.database.close()


# --- full disk


def test_full_disk_is_reported_and_nothing_is_lost(path, opening, executor, caplog):
    records = opening(size=2)
    records.put(a_record(0))
    save(records, executor)
    size = max(file.stat().st_size for file in path.iterdir())
    with file_size_limit(size + 4096):
        for number in range(1, 200):
            records.put_robots(f"h{number}", bytes(2000))
            records.put(a_record(number))
        records.flush()
        put(records, "h1.test", 5)
        for _ in range(3):
            save(records, executor)
            assert is_disk_full(records.failure)
        assert records.get("h1.test").pages == 5
        assert records.stats()["hosts/unsaved"] == 398
    # Told once in the log, every time in the counts.
    assert len(caplog.records) == 1
    assert records.stats()["hosts/writes/failed"] == 3
    # There is room again.
    save(records, executor)
    save(records, executor)
    assert records.failure is None
    assert records.stats()["hosts/unsaved"] == 0
    assert records.get("h1.test").pages == 5
    records.close()
    records.open()
    for number in range(2, 200):
        assert records.get(f"h{number}.test") == a_record(number)
    assert damage_of(records) == []


def test_disk_that_is_full_at_the_end_is_an_error_and_all_is_closed(path, opening, executor):
    records = opening()
    records.put(a_record(0))
    save(records, executor)
    size = max(file.stat().st_size for file in path.iterdir())
    records.put_robots("a", bytes(50_000))
    records.flush()
    with file_size_limit(size + 4096):
        executor.run()
        with pytest.raises(OSError, match=r"records\.sqlite") as caught:
            records.close()
    assert caught.value.errno == errno.EFBIG
    records.open()
    assert records.get("h0.test") == a_record(0)
    assert damage_of(records) == []


def test_a_copy_has_what_was_on_disk_when_it_was_begun(
    path, opening, executor, tmp_path, monkeypatch
):
    monkeypatch.setattr(database, "_PAGES_PER_STEP", 50)
    filled(path, facts=5000)
    records = opening()
    looks = 0

    def go_on():
        nonlocal looks
        looks += 1
        records.put(a_record(100_000 + looks))
        save(records, executor)
        return True

    records.database.copy_to(tmp_path, go_on)
    assert damage_of(records) == []
    assert 5 < looks < 100
    copied = opening(tmp_path)
    assert damage_of(copied) == []
    assert copied.get(a_record(4999).host) == a_record(4999)
    assert copied.get(a_record(100_001).host).failures == 0


def test_a_copy_can_be_ended_early(path, opening, tmp_path, monkeypatch):
    monkeypatch.setattr(database, "_PAGES_PER_STEP", 50)
    filled(path, facts=5000)
    records = opening()
    answers = [True, True, False]
    records.database.copy_to(tmp_path, lambda: answers.pop(0))
    assert answers == []
    assert damage_of(records) == []


def test_a_copy_for_which_there_is_no_room_is_an_os_error(path, opening, tmp_path):
    filled(path)
    records = opening()
    with file_size_limit(8192), pytest.raises(OSError, match=r"records\.sqlite"):
        records.database.copy_to(tmp_path, lambda: True)
    assert damage_of(records) == []


def test_impossible_directory_is_an_os_error(jobdir, executor):
    (jobdir / "hosts").write_bytes(b"")
    (jobdir / "more" / "records.sqlite").mkdir(parents=True)
    for name, told in (("hosts", "hosts"), ("more", r"records\.sqlite")):
        with pytest.raises(OSError, match=told):
            records_in(jobdir / name, executor).open()


# --- files of others


def filled(path, *, facts=300):
    """Return a file of *facts* host records and as many others, cleanly closed."""
    records = opened(path, PatientExecutor())
    for number in range(facts):
        records.put(a_record(number))
        records.put_robots(f"h{number}", b"%d" % number * 40)
    records.close()
    return path / "records.sqlite"


@each(
    "statement error why",
    ("PRAGMA user_version = 3", NewerFormatError, "use the newer webcrawl"),
    ("PRAGMA user_version = 1", CorruptRecordError, "not a file of host records"),
    ("CREATE TABLE moz_places (url TEXT)", CorruptRecordError, "not a file of host records"),
)
def test_a_newer_or_another_database_is_refused(path, executor, statement, error, why):
    with contextlib.closing(sqlite3.connect(filled(path, facts=1))) as connection:
        connection.execute(statement)
    with pytest.raises(error, match=why):
        records_in(path, executor).open()


@each("content", b"garbage", b"no SQLite file at all. " * 400, b"SQLite format 3\0" + bytes(5000))
def test_file_that_is_not_a_database_is_damage(path, executor, content):
    path.mkdir(parents=True)
    (path / "records.sqlite").write_bytes(content)
    with pytest.raises(CorruptRecordError, match=r"records\.sqlite"):
        records_in(path, executor).open()


def test_value_that_changed_on_the_disk_is_damage(path, opening):
    with sqlite3.connect(filled(path)) as connection:
        connection.execute("UPDATE facts SET data = x'00' WHERE key = 'h7' OR key = 'h7.test'")
    connection.close()
    records = opening()
    for key, get in (("h7.test", records.get), ("h7", records.robots)):
        told = f"checksum mismatch in the data of '{key}'"
        with pytest.raises(CorruptRecordError, match=told):
            get(key)
    assert len(damage_of(records)) == 2


def test_invalid_records_are_found(records):
    records.database.write([(1, "a.test", b"\xc1")])
    with pytest.raises(CorruptRecordError, match=r"invalid record of 'a\.test'"):
        records.get("a.test")


def test_no_cut_and_no_garbage_gives_a_wrong_value(path, tmp_path, executor):
    """Cut at any length, with any page overwritten, or with a byte changed: damage, or what was
    written."""
    whole = filled(path).read_bytes()
    assert len(whole) > 10 * 4096
    broken = tmp_path / "broken"
    broken.mkdir()
    wrecks = [whole[:size] for size in range(2, len(whole), 1500)]
    wrecks += [
        whole[:at] + b"\xa5" * 700 + whole[at + 700 :] for at in range(0, len(whole) - 700, 1300)
    ]
    wrecks += [flipped(whole, at, 0x11) for at in range(100, len(whole), 1700)]
    told = 0
    for wreck in wrecks:
        for file in broken.iterdir():
            file.unlink()
        (broken / "records.sqlite").write_bytes(wreck)
        records = records_in(broken, executor, size=1)
        try:
            records.open()
            is_found = bool(damage_of(records))
            # The damage is in free space: nobody's data.
            for number in () if is_found else range(300):
                assert records.get(f"h{number}.test") == a_record(number)
        except CorruptRecordError:
            is_found = True
        finally:
            records.close()
        told += is_found
    assert len(wrecks) * 0.8 < told < len(wrecks)


def with_a_page_overwritten(file, key):
    """Destroy the last page that has *key* in it."""
    data = file.read_bytes()
    page = data.rindex(key) // 4096 * 4096
    assert page
    file.write_bytes(data[:page] + b"\xa5" * 4096 + data[page + 4096 :])


def test_damage_found_by_a_read_is_reported(path, opening):
    with_a_page_overwritten(filled(path, facts=2000), b"h1503.test")
    records = opening()
    assert records.get("h1.test") == a_record(1)
    with pytest.raises(CorruptRecordError, match=r"records\.sqlite: damaged"):
        records.get("h1503.test")
    assert damage_of(records) != []


def test_damage_found_by_a_write_is_raised_by_the_next_flush(path, executor):
    with_a_page_overwritten(filled(path, facts=2000), b"h1503.test")
    records = without_log(opened(path, executor))
    records.put(a_record(1503))
    records.flush()
    executor.run()
    with pytest.raises(CorruptRecordError, match=r"records\.sqlite: damaged"):
        records.flush()
    assert records.get("h1503.test") == a_record(1503)
    with pytest.raises(CorruptRecordError):
        records.close()


def test_facts_of_obsolete_kinds_are_ignored(records, opening):
    facts = {1: encode(HostRecord("a.test", pages=3)), 4: b"patterns", 6: b"\x90"}
    records.database.add_to_log({kind: {"a.test": data} for kind, data in facts.items()})
    records.close()
    again = opening()
    assert again.get("a.test").pages == 3
    assert damage_of(again) == []
