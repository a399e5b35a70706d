"""Tests of reading host records next to their owner: nothing changes, whoever owns them."""

import contextlib
import sqlite3
import subprocess
import sys

import pytest
from looking import contents
from records_rig import PatientExecutor, left_behind, opened, save
from text_tables import each

from webcrawl.hosts.records import HostRecord
from webcrawl.hosts.records.database import FILE, checksum
from webcrawl.hosts.records.records_reader import RecordsReader
from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError

NOTHING = checksum("a.test", b"\0")
LOOK = """
import sys
from pathlib import Path
from webcrawl.hosts.records.records_reader import RecordsReader
with RecordsReader(path=Path(sys.argv[1])) as reader:
    print(reader.record("a.test").failures, reader.robots("http://a.test"), reader.rest("a.test"))
"""


@pytest.fixture
def owner(tmp_path):
    """Return records with facts in the log and in the file, of an open owner."""
    executor = PatientExecutor()
    records = opened(tmp_path / "hosts", executor)
    records.put(HostRecord("a.test", failures=3))
    records.put_robots("http://a.test", b"rules")
    records.rests.put("a.test", b"rest")
    save(records, executor)
    yield records
    executor.run()
    records.close()


def read(path):
    with RecordsReader(path=path) as reader:
        assert reader.record("b.test") is None
        reader.put_robots("http://a.test", b"nothing")
        return reader.record("a.test").failures, reader.robots("http://a.test")


def test_another_process_reads_and_changes_nothing(tmp_path, owner):
    path = tmp_path / "hosts"
    before = contents(path)
    for _ in range(2):
        run = subprocess.run(
            [sys.executable, "-c", LOOK, path], capture_output=True, text=True, check=True
        )
        assert run.stdout == "3 b'rules' b'rest'\n"
    assert contents(path) == before


def closed(path, owner):
    owner.close()
    assert [one.name for one in path.iterdir()] == ["records.sqlite"]
    return path


def killed(path, owner):
    return left_behind(path, path.with_name("killed"))


def killed_without_shared_memory(path, owner):
    left = killed(path, owner)
    (left / "records.sqlite-shm").unlink()
    return left


@each("end", closed, killed, killed_without_shared_memory)
def test_records_of_a_former_owner_are_read_and_not_changed(tmp_path, owner, end):
    path = end(tmp_path / "hosts", owner)
    before = contents(path)
    assert read(path) == (3, b"rules")
    assert contents(path) == before


def test_a_job_without_records_knows_no_host(tmp_path):
    with RecordsReader(path=tmp_path / "nothing") as reader:
        assert reader.record("a.test") is None
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_a_later_format_or_another_kind_is_reported(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / FILE)) as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(NewerFormatError, match="format 99"), RecordsReader(path=tmp_path):
        pass
    (tmp_path / FILE).write_bytes(b"no database" * 1000)
    with pytest.raises(CorruptRecordError, match="not a database"), RecordsReader(path=tmp_path):
        pass


@each(
    "statement why",
    ("UPDATE facts SET crc = 1 WHERE key = 'a.test'", "checksum mismatch"),
    (
        f"UPDATE facts SET data = x'00', crc = {NOTHING} WHERE key = 'a.test'",
        "invalid record of",
    ),
    ("DROP TABLE facts", "no such table"),
)
def test_damage_is_reported(tmp_path, owner, statement, why):
    owner.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "hosts" / "records.sqlite")) as database:
        database.execute(statement)
        database.commit()
    with (
        RecordsReader(path=tmp_path / "hosts") as reader,
        pytest.raises(CorruptRecordError, match=why),
    ):
        reader.record("a.test")


def test_a_file_without_a_table_yet_is_sound(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / FILE)) as connection:
        connection.execute("CREATE TABLE facts (a)")
        connection.execute("DROP TABLE facts")
    with RecordsReader(path=tmp_path) as reader:
        assert list(reader.find_damage()) == []
