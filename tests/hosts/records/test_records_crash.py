"""Tests of host records after ``kill -9`` and power failures: a sound file with all saved facts."""

import shutil
from concurrent.futures import Executor, Future

from crash import die_between_lines
from records_rig import PatientExecutor, damage_of, left_behind, opened, put, save, without_log
from strategies import some_of

# --- between any two lines


class PromptExecutor(Executor):
    """Executor that does its work immediately, without a thread."""

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def write_twice(path):
    """Put three facts, then two of them again: the action that is cut off."""
    records = opened(path / "hosts", PromptExecutor())
    for pages in (1, 2):
        put(records, "a.test", pages)
        records.put_robots("a.test", b"%d" % pages)
        records.flush()
    put(records, "a.test", 3)
    records.close()


def test_process_that_dies_between_any_two_lines_leaves_a_sound_file(tmp_path):
    start, out = tmp_path / "start", tmp_path / "out"
    start.mkdir()
    out.mkdir()
    states = []
    for left in die_between_lines("tests.hosts.records.test_records_crash:write_twice", start, out):
        records = opened(left / "hosts", PatientExecutor())
        assert damage_of(records) == []
        states.append((records.get("a.test").pages, records.robots("a.test")))
        # It goes on from there.
        put(records, "b.test", 9)
        records.close()
        records.open()
        assert records.get("b.test").pages == 9
        records.close()
    assert states == sorted(states, key=lambda state: state[0])
    assert set(states) == {(0, None), (1, b"1"), (2, b"2"), (3, b"2")}


def take_up(path):
    """Open a copy and the facts logged since, and continue: the action that is cut off."""
    records = opened(path / "hosts", PromptExecutor())
    put(records, "a.test", 9)
    records.flush()


def test_process_that_dies_while_restoring_changes_loses_none(tmp_path):
    executor = PatientExecutor()
    records = opened(tmp_path / "first", executor)
    start, out = tmp_path / "start", tmp_path / "out"
    (start / "hosts").mkdir(parents=True)
    out.mkdir()
    put(records, "a.test", 1)
    save(records, executor)
    records.database.copy_to(start / "hosts", lambda: True, track_changes=True)
    for pages in (2, 3):
        put(records, "a.test", pages)
        put(records, f"{pages}.test", pages)
        records.domains.link(f"{pages}.test", ["b.test"])
        save(without_log(records), executor)
    log, name = records.database.changes
    shutil.copy(log.path, start / "hosts" / name)
    records.close()
    assert not log.path.exists()
    found = set()
    for left in die_between_lines("tests.hosts.records.test_records_crash:take_up", start, out):
        for _ in range(2):
            again = opened(left / "hosts", executor)
            assert damage_of(again) == []
            assert [again.get(f"{pages}.test").pages for pages in (2, 3)] == [2, 3]
            assert again.domains.find("b.test").in_degree == 2
            found.add(again.get("a.test").pages)
            again.close()
    assert found == {3, 9}


# --- files that are cut, power failures


def test_log_that_is_cut_at_any_byte_loses_its_end_only(tmp_path):
    """A power failure leaves an unsynced log, and the file as it was at some earlier moment."""
    executor = PatientExecutor()
    records = opened(tmp_path / "hosts", executor)
    for pages in range(1, 6):
        for host in range(20):
            put(records, f"h{host}", pages)
        save(records, executor)
    killed = left_behind(tmp_path / "hosts", tmp_path / "killed")
    records.close()
    whole = (killed / "records.sqlite-wal").read_bytes()
    states = set()
    for size in [*some_of(range(100)), *some_of(range(100, len(whole), 1999)), len(whole)]:
        flipped = bytes(byte ^ 1 for byte in whole[size : size + 1]) + whole[size + 1 :]
        for end in (b"", bytes(len(whole) - size), flipped):
            for file in killed.iterdir():
                if file.name != "records.sqlite":
                    file.unlink()
            (killed / "records.sqlite-wal").write_bytes(whole[:size] + end)
            records = opened(left_behind(killed, tmp_path / "cut"), PatientExecutor())
            assert damage_of(records) == []
            found = {records.get(f"h{host}").pages for host in range(20)}
            assert len(found) == 1, "a batch is there in part"
            states |= found
            records.close()
            shutil.rmtree(tmp_path / "cut")
    assert states == {0, 1, 2, 3, 4, 5}


def test_files_to_sync_are_listed(tmp_path):
    executor = PatientExecutor()
    path = tmp_path / "shards" / "hosts"
    records = opened(path, executor)
    put(records, "a.test", 1)
    save(records, executor)
    paths = records.rests.written()
    assert {*paths} == {tmp_path, path.parent, path, path / "records.sqlite-wal"}
    assert all(path.exists() for path in paths)
    assert records.rests.written() == [path / "records.sqlite-wal"]
    records.close()
