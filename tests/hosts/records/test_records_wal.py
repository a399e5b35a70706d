"""SQLite's write-ahead log: damage in what was committed is told, a torn end is none."""

from __future__ import annotations

import random
import shutil
import sqlite3

import pytest

from webcrawl.hosts.records.database import FILE, Database
from webcrawl.hosts.records.records_reader import RecordsReader
from webcrawl.hosts.records.wal import wal_damage


@pytest.fixture
def left(tmp_path):
    """Files as a killed process leaves them, with some rounds of the log behind it."""
    database = Database(path=tmp_path / "hosts")
    database.open()
    for start in range(4):
        database.write([(1, f"{start}-{n}", bytes([n]) * 300) for n in range(40)])
        if start == 1:
            # The next round writes over the first one.
            database._writer.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
    copy = shutil.copytree(tmp_path / "hosts", tmp_path / "left")
    database.close()
    return copy / FILE


def rows(file):
    with RecordsReader(path=file.parent) as reader:
        return list(reader.damaged()), reader._connection.execute(
            "SELECT count(*) FROM facts"
        ).fetchall()


def wal_of(file):
    return file.with_name(file.name + "-wal")


def index_of(file):
    return file.with_name(file.name + "-shm")


def test_a_log_that_is_whole_or_not_there_is_sound(left, tmp_path):
    assert wal_damage(left) is None
    assert wal_damage(tmp_path / "none") is None
    assert rows(left) == ([], [(160,)])
    index_of(left).unlink()
    assert wal_damage(left) is None
    wal_of(left).write_bytes(b"")
    assert wal_damage(left) is None


@pytest.mark.parametrize("has_index", [True, False])
def test_any_flipped_bit_in_committed_frames_is_reported(left, has_index):
    committed = int.from_bytes(index_of(left).read_bytes()[16:20], "little")
    data = wal_of(left).read_bytes()
    page = int.from_bytes(data[8:12], "big")
    end = 32 + committed * (24 + page)
    if not has_index:
        index_of(left).unlink()
        end -= 24 + page  # of the last one nobody else knows
    rng = random.Random(1)
    last = range(end - 24 - page, end - page)  # the head of a frame that one commit follows
    for at in [*range(32), *last, *(rng.randrange(32, end) for _ in range(60))]:
        hit = bytearray(data)
        hit[at] ^= rng.randrange(1, 256)
        wal_of(left).write_bytes(hit)
        damage = wal_damage(left)
        assert damage is not None, at
        assert damage.offset == (0 if at < 32 else 32 + (at - 32) // (24 + page) * (24 + page))


def test_a_torn_end_is_no_damage(left):
    committed = int.from_bytes(index_of(left).read_bytes()[16:20], "little")
    data = wal_of(left).read_bytes()
    page = int.from_bytes(data[8:12], "big")
    end = 32 + committed * (24 + page)
    size = 24 + page
    frames = [data[at : at + size] for at in range(32, end, size)]
    begun = next(frame for frame in frames if not any(frame[4:8]))
    # A process died in a transaction, of which the next one has overwritten the first frame; or a
    # power failure left the head of its commit, and not all of its page.
    commit = frames[-1]
    for rest in (b"", data[32:80], 3 * begun, begun + commit[:1000], begun + commit[:99] * 42):
        wal_of(left).write_bytes(data[:end] + rest)
        assert wal_damage(left) is None
    wal_of(left).write_bytes(data[: end - 1])
    assert wal_damage(left).offset == end - 24 - page
    wal_of(left).write_bytes(data[:20])
    assert wal_damage(left) is None


def test_a_file_without_a_table_yet_is_sound(tmp_path):
    connection = sqlite3.connect(tmp_path / FILE)
    connection.execute("PRAGMA user_version = 0")
    connection.execute("CREATE TABLE facts (a)")
    connection.execute("DROP TABLE facts")
    connection.close()
    with RecordsReader(path=tmp_path) as reader:
        assert list(reader.damaged()) == []


def test_damage_in_the_file_itself_is_reported(left):
    connection = sqlite3.connect(left)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    data = left.read_bytes()
    rng = random.Random(2)
    found = 0
    for at in [rng.randrange(100, len(data)) for _ in range(60)]:
        hit = bytearray(data)
        hit[at] ^= rng.randrange(1, 256)
        left.write_bytes(hit)
        wrong, count = rows_if_readable(left)
        found += bool(wrong)
        assert wrong or count == [(160,)]
    assert found > 40


def rows_if_readable(file):
    with RecordsReader(path=file.parent) as reader:
        wrong = list(reader.damaged())
    return (wrong, []) if wrong else rows(file)


def test_what_can_be_read_is_read_from_both_ends(left):
    connection = sqlite3.connect(left)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    with RecordsReader(path=left.parent) as reader:
        whole = list(reader.readable())
    assert len(whole) == 160
    data = left.read_bytes()
    rng = random.Random(5)
    found = []
    for page in range(1, len(data) // 4096):
        left.write_bytes(data[: page * 4096] + rng.randbytes(4096) + data[page * 4096 + 4096 :])
        with RecordsReader(path=left.parent) as reader:
            rows = list(reader.readable())
        assert set(rows) <= set(whole)
        assert len(rows) == len(set(rows))
        found.append(len(rows))
    assert max(found) > 100
    assert list(RecordsReader(path=left.parent / "none").readable()) == []
