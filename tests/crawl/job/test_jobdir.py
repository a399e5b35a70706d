"""The job directory: checkpoints of real parts, and every way to die while one is made."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
import warm
from disk import PowerLoss, drain, file_size_limit, full_disk, item, items
from fifo_part import FifoPart
from text_tables import cases, each

from webcrawl.crawl.job import state_directory
from webcrawl.crawl.job.jobdir import Job
from webcrawl.crawl.job.state_directory import boot_id
from webcrawl.errors import DiskError, FatalError, is_disk_full
from webcrawl.storage import record_log
from webcrawl.storage.record_log import HEADER_SIZE
from webcrawl.urls.hash_seed import seed_in_use

ROOT = Path(__file__).parents[3]
NAME = "shards/00/queue"


def part_of(state):
    return SimpleNamespace(snapshot=lambda: state, written=list, forget=lambda: None)


def begun(path, **options):
    job = Job(path=path, **options)
    job.open()
    return closing(job)


def opened(path):
    job = Job(path=path)
    job.open()
    return job, FifoPart(job).queue


def checkpoint(job):
    job.publish(job.prepare({}))
    job.forget()


def found_in(path):
    """What a process finds in the queue that starts now; the queue is sound and can go on."""
    job, queue = opened(path)
    found = drain(queue)
    queue.push_many(items(9))
    checkpoint(job)
    job.close()
    job, queue = opened(path)
    assert drain(queue) == items(9)
    job.close()
    return found


def names(path):
    return {file.name for file in path.iterdir()}


# Opening


def test_a_new_job_is_not_resumed_and_has_nothing_saved(tmp_path):
    with begun(tmp_path / "crawls" / "web") as job:
        assert (job.own.resumed, job.own.rebooted) == (False, False)
        assert job.shard("00").saved_snapshot("queue") is None
        assert names(job.path) == {"LOCK", "shards"}


def test_each_checkpoint_replaces_the_one_before(jobdir):
    job, queue = opened(jobdir)
    for n in range(1, 4):
        queue.push(item(n))
        job.publish(job.prepare({"waiting": n}))
        job.forget()
        assert names(jobdir) == {
            "LOCK", "CURRENT", f"manifest-{n:06d}.json", f"snapshot-{n:06d}.log", "shards",
        }  # fmt: skip
        assert names(jobdir / "shards/00") - {"queue"} == names(jobdir) - {"LOCK", "shards"}
        manifest = json.loads((jobdir / f"manifest-{n:06d}.json").read_text())
        assert manifest["facts"] == {"waiting": n, "shards": ["00"], "seed": job.seed}
        assert manifest["boot_id"] == boot_id()
    job.close()


def test_a_job_has_the_seed_of_any_manifest_that_is_left(jobdir):
    for drawn in (77, 5, 6):
        with begun(jobdir, draw_seed=lambda drawn=drawn: drawn) as job:
            assert job.seed == seed_in_use() == 77
            state = job.shard("00")
            state.facts = {**state.facts, "seed": job.seed}
            job.publish(job.prepare({}))
        if drawn == 5:
            for path in jobdir.glob("[Cms]*[!s]"):
                path.unlink()


def test_snapshots_left_by_a_killed_process_are_deleted_at_the_next_open(saved):
    (saved / "snapshot-000002.log").write_bytes(b"half of")
    with begun(saved):
        assert "snapshot-000002.log" not in names(saved)


@cases(
    "runs",
    """
        first+ first second! second!+ second first!
        # A system that does not name its boots.
        + !+
    """,
)
def test_another_boot_is_noticed_until_a_checkpoint_was_made_in_it(jobdir, runs, monkeypatch):
    """In another boot than that of the last checkpoint (!), and one is made there (+)."""
    for number, run in enumerate(runs.split()):
        monkeypatch.setattr("webcrawl.crawl.job.jobdir.boot_id", lambda run=run: run.rstrip("!+"))
        with begun(jobdir) as job:
            assert job.own.rebooted is ("!" in run), number
            if "+" in run:
                checkpoint(job)


def test_the_boot_has_a_name_that_stays(monkeypatch, tmp_path):
    assert len(boot_id()) == 36
    assert boot_id() == boot_id()
    monkeypatch.setattr(state_directory, "_BOOT_ID", tmp_path / "of another system")
    assert boot_id() == ""


# Refusals: one sentence each, and the directory stays as it was

HOLDER = """
import sys, pathlib
from webcrawl.crawl.job.jobdir import Job
job = Job(path=pathlib.Path(sys.argv[1]))
job.open()
print("open", flush=True)
sys.stdin.read()
"""


@pytest.mark.cures("JOBDIR {} is in use by {}: wait for it to end, or choose another JOBDIR.")
def test_a_job_in_use_is_refused_to_a_second_process_until_the_first_is_killed(jobdir):
    process = warm.Popen(
        [sys.executable, "-c", HOLDER, jobdir],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout.readline() == b"open\n"
        with pytest.raises(FatalError) as caught:
            Job(path=jobdir).open()
        assert str(caught.value) == (
            f"JOBDIR {jobdir} is in use by process {process.pid}: "
            "wait for it to end, or choose another JOBDIR."
        )
        process.send_signal(signal.SIGKILL)
    with begun(jobdir):
        pass


def test_a_path_that_is_no_directory_is_refused_in_a_sentence(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"not a job")
    with pytest.raises(FatalError, match=r"cannot be used: File exists; choose another JOBDIR\.$"):
        Job(path=path).open()
    with pytest.raises(FatalError, match="cannot be used: Not a directory"):
        Job(path=path / "below").open()


@pytest.mark.cures("The disk of {} {} is full: free some space")
def test_a_full_disk_at_the_start_is_a_sentence(jobdir):
    with file_size_limit(0), pytest.raises(DiskError, match="is full: free some space"):
        Job(path=jobdir).open()
    with begun(jobdir):
        pass


@pytest.fixture
def saved(jobdir):
    """A job directory with a checkpoint in it."""
    job, queue = opened(jobdir)
    queue.push_many(items(20))
    job.own.attach("totals", part_of(b"of the job"))
    checkpoint(job)
    job.close()
    return jobdir


def refusal(path):
    """The sentence with which the job in *path* is refused; nothing is changed or kept locked."""
    before = contents(path)
    for _ in range(2):
        with pytest.raises(FatalError) as caught:
            Job(path=path).open()
        assert contents(path) == before
    sentence = str(caught.value)
    assert sentence.startswith(f"The crawl in JOBDIR {path} cannot be resumed: ")
    assert sentence.endswith(".")
    assert not sentence.endswith("..")
    assert "\n" not in sentence
    return sentence


def contents(path):
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


def edit_manifest(path, **changes):
    manifest = path / "manifest-000001.json"
    content = {**json.loads(manifest.read_text()), **changes}
    content.pop("crc32")  # as who edits it by hand does
    manifest.write_text(json.dumps(content))


def test_a_job_of_a_newer_format_is_refused(saved):
    edit_manifest(saved, format=3)
    assert "format 3, this webcrawl reads up to 2: use the newer webcrawl" in refusal(saved)


@cases(
    "changes",
    """
        {"boot_id": None}
        {"snapshot": None}
        {"snapshot": {"file": "x"}}
        {"snapshot": {}}
    """,
)
def test_a_manifest_without_what_publish_puts_in_is_refused(saved, changes):
    edit_manifest(saved, **changes)
    assert str(saved / "CURRENT") in refusal(saved)


@each("state", "", "shards/00")
def test_a_job_whose_snapshot_is_gone_or_pointer_damaged_is_refused(saved, state):
    path = saved / state / "snapshot-000001.log"
    path.unlink()
    assert f"{path}: damaged at byte 0: the file is gone" in refusal(saved)
    (saved / state / "CURRENT").write_bytes(b"\0" * 21)
    assert "does not name a manifest" in refusal(saved)


@each("state", "", "shards/00")
def test_a_job_whose_snapshot_is_damaged_at_any_byte_is_refused(saved, state):
    path = saved / state / "snapshot-000001.log"
    data = path.read_bytes()
    for at in range(len(data)):
        if at in range(6, HEADER_SIZE):
            continue  # flags, all unused
        start, byte, rest = data[:at], data[at], data[at + 1 :]
        for damaged in (start, start + bytes([byte ^ 0x80]) + rest):
            path.write_bytes(damaged)
            assert "snapshot-000001.log" in refusal(saved), at


def test_a_job_whose_shard_has_lost_its_pointer_or_all_shards_is_refused(saved):
    """A shard that is gone altogether was moved away; one without CURRENT is no new one."""
    (saved / "shards/00/CURRENT").unlink()
    assert "shards/00/CURRENT: damaged at byte 0: the file is gone" in refusal(saved)
    (saved / "shards").rename(saved / "elsewhere")
    assert "shards/00/CURRENT: damaged at byte 0: the file is gone" in refusal(saved)


# A full disk


def test_a_full_disk_leaves_the_last_checkpoint_live_and_the_next_one_good(saved):
    job, queue = opened(saved)
    for n in range(4):
        assert queue.pop() == item(n)
    queue.push_many(items(20, 30))
    prepared = job.prepare({})
    for room in range(0, 150, 5):
        with full_disk(room) as caught:
            job.publish(prepared)
        assert is_disk_full(caught.value)
        assert json.loads((saved / "manifest-000001.json").read_text())["sequence"] == 1
        assert (saved / "CURRENT").read_text() == "manifest-000001.json\n"
    job.close()
    job, queue = opened(saved)
    assert drain(queue) == items(20)
    queue.push_many(items(5))
    checkpoint(job)
    job.close()
    assert found_in(saved) == items(5)


def test_what_a_failed_checkpoint_had_to_sync_is_synced_by_the_next(jobdir, monkeypatch):
    job, queue = opened(jobdir)
    queue.push_many(items(20))
    first = job.prepare({})
    with full_disk(10):
        job.publish(first)
    assert jobdir / NAME / "00000000.log" in unsynced(first)
    assert unsynced(job.prepare({})) == unsynced(first)
    checkpoint(job)
    assert unsynced(job.prepare({})) == set()
    job.close()


def unsynced(prepared):
    return {path for _, state in prepared.states for path in state.paths}


@cases(
    "name is_full",
    """
        ENOSPC | True
        EDQUOT | True
        EFBIG  | True
        EIO    | False
    """,
)
def test_a_full_disk_is_told_from_other_trouble(name, is_full):
    assert is_disk_full(OSError(getattr(errno, name), "No space")) is is_full
    assert not is_disk_full(ValueError("No space"))


def test_work_goes_on_while_a_checkpoint_is_published(jobdir):
    """``publish`` runs in a thread: what is pushed and popped meanwhile belongs to the next."""
    job, queue = opened(jobdir)
    queue.push_many(items(20))
    prepared = job.prepare({})
    for n in range(20):
        assert queue.pop() == item(n)
    queue.push_many([b"later"] * 20)
    job.publish(prepared)
    queue.pop()
    job.forget()
    queue.push_many([b"and later"] * 20)
    job.close()
    assert found_in(jobdir) == items(20)


def saves(job, **states):
    """The parts of *job* that have these states."""
    for name, state in states.items():
        job.own.attach(name, part_of(state))
    return job.prepare({})


@each("length", 0, 1, 19, 20, 21, 40, 55)
def test_a_snapshot_of_any_length_comes_back(jobdir, monkeypatch, length):
    for module in (state_directory, record_log):
        monkeypatch.setattr(module, "MAX_PAYLOAD", 20)
    state = bytes(range(length))
    with begun(jobdir) as job:
        job.publish(saves(job, large=state, other=state))
    with begun(jobdir) as job:
        assert job.own.saved_snapshot("large") == job.own.saved_snapshot("other") == state


def test_a_snapshot_in_pieces_comes_back_also_when_the_disk_was_full_at_first(jobdir):
    with begun(jobdir) as job:
        prepared = saves(job, large=iter([b"x" * 50] * 9))
        for room in (60, 300):
            with full_disk(room):
                job.publish(prepared)
        job.publish(prepared)
    with begun(jobdir) as job:
        assert job.own.saved_snapshot("large") == b"x" * 450


@pytest.fixture
def power(tmp_path, monkeypatch):
    """A disk that may lose its power."""
    disk = tmp_path / "disk"
    disk.mkdir()
    power = PowerLoss(disk, monkeypatch)
    power.disk = disk
    yield power
    power.close()


@pytest.fixture
def worlds(power, tmp_path):
    """Makes directories that may be found after the power came back."""
    return lambda number=20: [
        power.lose(tmp_path / str(seed), random.Random(seed)) for seed in range(number)
    ]


def test_a_checkpoint_that_was_found_is_found_again_after_a_power_failure(power, worlds):
    """The process that published it died before the last fsync; the next one deletes what only
    the checkpoint before it named."""
    job, queue = opened(power.disk)
    queue.push(item(1))
    checkpoint(job)
    queue.push(item(2))
    prepared = job.prepare({})

    def die():
        if (power.disk / "CURRENT").read_text() == "manifest-000002.json\n":
            raise KeyboardInterrupt

    power.before_fsync = die
    with pytest.raises(KeyboardInterrupt):
        job.publish(prepared)
    job.close()
    power.before_fsync = lambda: None
    job, queue = opened(power.disk)
    assert len(queue) == 2
    left = worlds()
    job.close()
    for world in left:
        assert found_in(world) == [item(1), item(2)]


def test_directories_that_an_earlier_process_did_not_sync_outlive_a_power_failure(power, worlds):
    path = power.disk / "web"
    (path / "shards" / "00").mkdir(parents=True)  # and it was killed
    job, queue = opened(path)
    queue.push_many(items(9))
    checkpoint(job)
    job.close()
    for world in worlds():
        assert found_in(world / "web") == items(9)


def test_a_write_that_was_not_synced_is_lost_by_the_power_loss_of_these_tests(power, worlds):
    """The helper itself: without it the test above would prove nothing."""
    root = power.disk
    synced, unnamed, unsynced = root / "synced", root / "unnamed", root / "unsynced"
    for path in (synced, unsynced):
        path.write_bytes(b"old")
    for path in (synced, root):
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
    for path in (synced, unnamed, unsynced):
        path.write_bytes(b"old and new")
    with unnamed.open("rb") as file:
        os.fsync(file.fileno())
    found = {"synced": set(), "unnamed": set(), "unsynced": set()}
    for world in worlds(200):
        for name, contents in found.items():
            path = world / name
            contents.add(path.read_bytes() if path.exists() else None)
    assert found["unnamed"] == {None, b"old and new"}
    assert {b"old", b"old and", b"old and new", b"old\0\0\0\0\0\0\0\0"} <= found["synced"]
    assert all(content.startswith(b"old") for content in found["synced"] if content is not None)
    assert {b"", b"old", b"old and new", bytes(11)} <= found["unsynced"]
    assert None not in found["synced"] | found["unsynced"]


def test_a_directory_with_other_things_in_it_is_no_job(tmp_path, jobdir):
    (jobdir / "logs").mkdir()  # as scrapy hive makes it for a drone's output
    with begun(jobdir):
        pass
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    with pytest.raises(FatalError, match=r"contains other things, such as thesis\.txt: choose an"):
        Job(path=other).open()
    assert names(other) == {"thesis.txt"}
    (other / "drones").mkdir()
    with pytest.raises(FatalError, match=r"to continue a hive, use scrapy hive\."):
        Job(path=other).open()
    (other / "drones").rmdir()
    with begun(other, allowed_names={"thesis.txt"}):
        pass
    with begun(other):  # it has been one
        pass


def test_a_job_with_files_of_modules_is_one_after_a_power_failure(power, worlds):
    with begun(power.disk):
        (power.disk / "words").mkdir()
        (power.disk / "words.json").write_text("{}")
    left = worlds()
    assert any((world / "words.json").exists() for world in left)
    for world in left:
        with begun(world):
            pass
