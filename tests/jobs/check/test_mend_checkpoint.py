"""``scrapy job check --repair`` where CURRENT, a manifest or a snapshot is damaged."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import time
from collections import Counter
from functools import partial

import pytest
import warm
from crash import die_between_lines
from crawling import USER_AGENT, access_log, impolite, pages_asked_for, run_crawl
from killed_job import SHARD, STATE, WORLD, command, kill_in_the_middle, meaning
from looking import contents
from stored_job import Stored

from webcrawl.commands.job import repair_text
from webcrawl.crawl.job.jobdir import Job, read_checkpoint
from webcrawl.crawl.job.kept_checkpoints import KeptCheckpoints
from webcrawl.crawl.job.state_directory import read_state
from webcrawl.errors import FatalError
from webcrawl.frontier import Entry, encode
from webcrawl.frontier.snapshot import decode_snapshot
from webcrawl.jobs.check.mend_checkpoint import live_number, mend_checkpoint, publish_state
from webcrawl.jobs.check.mending import Mending
from webcrawl.jobs.check.repair import repair_job
from webcrawl.jobs.check.whole import check_job
from webcrawl.simweb import allowed_urls, start_in_process

MIN_DELAY = 0.02
MAX_DELAY = 1.5
# Without one of these the crawl goes back.
STATE_OF_SHARD = tuple(f"{SHARD}/{name}" for name in STATE[1:])


def every_run(name, *, of):
    """*name* in every run, the others *of* them in ``make test-long``."""
    return [pytest.param(one, marks=() if one == name else pytest.mark.long) for one in of]


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The job of a crawl that was killed, which has kept its first checkpoint, without its stored
    pages."""
    path = tmp_path_factory.mktemp("killed")
    with start_in_process(WORLD, log_path=path / "access.log") as web:
        line = command(web, path, CHECKPOINT_INTERVAL_SECS=0.5)
        kill_in_the_middle(line, path / "job", keeps=True)
    shutil.rmtree(path / "job/warc")
    return path / "job"


@pytest.fixture
def job(killed, tmp_path):
    return copy(killed, tmp_path / "job")


def copy(source, target):
    """With the hard links to what was kept."""
    subprocess.run(["cp", "-a", source, target], check=True)
    return target


def only(job, pattern):
    (path,) = job.glob(pattern)
    return path


def spoil(path, at=None):
    """A byte in the middle of *path*, in all names of the file."""
    with path.open("r+b") as file:
        at = path.stat().st_size // 2 if at is None else at
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 4]))


def entries(said):
    return Counter(entry.url for _, entry in said["entries"])


def repaired(job, **options):
    repair = repair_job(job, warc=False, **options)
    assert repair.left.damage == [], repair_text(repair)
    assert check_job(job, warc=False).damage == []
    return repair


def openable(job):
    opened = Job(path=job)
    opened.open()
    opened.close()
    return opened.own.resumed


# What is done


@pytest.mark.parametrize("state", ["", SHARD])
@pytest.mark.parametrize("how", ["gone", "empty", "another", "nothing"])
def test_current_names_the_manifest_again(job, how, state):
    said = meaning(job)
    current = job / state / "CURRENT"
    if how == "gone":
        current.unlink()
    else:
        names = {"empty": b"", "another": b"manifest-000777.json\n", "nothing": b"\xff\0"}
        current.write_bytes(names[how])
    assert repaired(job).lost == []
    assert meaning(job) == said


@pytest.mark.parametrize("pattern", ["CURRENT", *STATE_OF_SHARD, f"{SHARD}/seen/*.log"])
def test_damage_in_an_older_checkpoint_is_found_and_left_alone(job, pattern):
    sound = warm.scrapy("job", "check", job)
    assert (sound.returncode, "checkpoints sound" in sound.stdout) == (0, True), sound.stdout
    (kept,) = (job / "checkpoints").glob("??????")
    file = min(kept.glob(pattern))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.unlink()  # so that the crawl's own name for it is not touched
    file.write_bytes(data)
    found = warm.scrapy("job", "check", "--json", job)
    assert found.returncode == 1
    told = json.loads(found.stdout)
    assert {part for part, damaged in told["parts"].items() if damaged} == {"checkpoints"}
    assert told["damage"][0]["file"].startswith(str(file.relative_to(job).parent))
    assert "the crawl itself is not touched" in told["damage"][0]["means"]
    assert repair_job(job, warc=False).found.damage_count == 0
    assert file.read_bytes() == data


@pytest.mark.parametrize("pattern", STATE[1:])
def test_the_job_s_own_state_goes_back_alone(job, pattern):
    """Seeds are submitted again, and no page is fetched again."""
    said = meaning(job)
    (kept,) = (job / "checkpoints").glob("??????")
    file = only(job, pattern)
    spoil(file)
    broken = file.read_bytes()
    (loss,) = repaired(job).lost
    assert loss.what == (
        f"the job goes back to the checkpoint of {read_state(kept).written_at}: "
        "seeds read since then are read again"
    )
    assert read_state(job).snapshots == read_state(kept).snapshots
    now = meaning(job)
    not_the_job_s = set(said) - {"spider", "snapshots"}
    assert {name: now[name] for name in not_the_job_s} == {
        name: said[name] for name in not_the_job_s
    }
    assert next((job / "damaged").glob(f"*/{pattern}")).read_bytes() == broken


def test_without_its_snapshot_the_crawl_goes_back_and_nothing_is_deleted(job):
    (kept,) = (job / "checkpoints").glob("??????")
    before = {path.relative_to(kept): data for path, (data, _) in contents(kept).items()}
    whole = meaning(job)
    then = read_checkpoint(kept)
    spoil(only(job / SHARD, "snapshot-*.log"))
    live = {path: path.read_bytes() for path in job.rglob("*") if path.is_file()}
    number = read_state(job).sequence
    began = time.time()
    repair = repair_job(job, warc=False)
    assert repair.left.damage == []
    finished = len((job / "logs/info.jsonl").read_bytes().splitlines())
    (loss,) = repair.lost
    assert loss.part == ""
    assert f"goes back to the checkpoint of {then.own.written_at}: " in loss.what
    count = int(loss.what.split(": ")[2])
    assert 0 < finished - 10 <= count <= finished
    now = read_checkpoint(job)
    assert now.own.sequence == number + 1
    assert now.own.snapshots == then.own.snapshots
    assert now.own.facts == then.own.facts
    was, shard = then.shards["00"], now.shards["00"]
    assert {**shard.snapshots, "frontier": b""} == {**was.snapshots, "frontier": b""}
    assert shard.facts == was.facts
    state = decode_snapshot(shard.snapshots["frontier"])
    assert began <= state.forgotten <= time.time()
    after = meaning(job)
    assert after["records"] == whole["records"]
    # What was kept is as it was and shares no file with the crawl, and all that was live is aside.
    assert {path.relative_to(kept): data for path, (data, _) in contents(kept).items()} == before
    shared = {path.stat().st_ino for path in kept.rglob("*") if path.is_file()}
    shared &= {path.stat().st_ino for path in (job / "shards").rglob("*") if path.is_file()}
    assert shared == set()
    aside = job / "damaged" / f"{number:06d}"
    for path, data in live.items():
        name = path.relative_to(job)
        if name.parts[0] == "shards":
            assert (aside / "shards-01" / name.relative_to("shards")).read_bytes() == data
        elif name.name.startswith(("snapshot", "manifest", "CURRENT")) and len(name.parts) == 1:
            assert (aside / name).read_bytes() == data


def test_the_newest_kept_checkpoint_that_is_sound_is_chosen_or_mended_if_none_is(job, tmp_path):
    (kept,) = (job / "checkpoints").glob("??????")
    older = copy(kept, kept.with_name("000001"))
    (older / "CURRENT").write_text("manifest-000001.json\n")
    manifest = only(older, "manifest-*.json").rename(older / "manifest-000001.json")
    text = json.loads(manifest.read_text())
    del text["crc32"]
    manifest.write_text(json.dumps({**text, "written_at": "2026-11-20T10:00:00Z"}))
    assert check_job(older, warc=False).damage == []
    spoil(only(job / SHARD, "snapshot-*.log"))
    repair = repaired(copy(job, tmp_path / "sound"))
    assert "to the checkpoint of 20" in repair.lost[0].what
    assert "10:00:00Z" not in repair.lost[0].what
    # Now the newer one is not.
    spoil(kept / SHARD / "ranks/ranks.log")
    repair = repaired(copy(job, tmp_path / "older"))
    assert "to the checkpoint of 2026-11-20T10:00:00Z" in repair.lost[0].what
    # Nor is the older one: the newer one is taken and mended.
    spoil(older / SHARD / "ranks/ranks.log")
    repair = repaired(job)
    assert "10:00:00Z" not in repair.lost[0].what
    assert repair.lost[1].what.startswith("ranks in ")
    assert len(repair.asides) == 1


def test_all_shards_go_back_when_one_is_damaged(tmp_path, clock):
    """What one has finished since may have links in another."""
    job = tmp_path / "a"
    for host in ("a", "b"):
        stored = Stored(tmp_path / host, clock)
        stored.rig.frontier.push([encode(Entry(f"http://{host}.test/", f"{host}.test"))])
        stored.publish()
    (tmp_path / "b/shards/00").rename(job / "shards/01")
    assert KeptCheckpoints(path=job, count=1, every=0.0).keep()
    then = read_checkpoint(job).shards
    for name, state in then.items():
        publish_state(job / "shards" / name, state, state.snapshots, facts={"newer": True})
    spoil(only(job / "shards/01", "snapshot-*.log"))
    (loss,) = repaired(job).lost
    assert "URLs finished since then are fetched again: 0" in loss.what
    now = read_checkpoint(job).shards
    assert [state.facts for state in now.values()] == [state.facts for state in then.values()]
    assert [state.snapshots["seen"] for state in now.values()] == [
        state.snapshots["seen"] for state in then.values()
    ]


def test_when_there_is_no_way_it_is_said_and_nothing_is_changed(job):
    shutil.rmtree(job / "checkpoints")
    spoil(only(job / SHARD, "snapshot-*.log"))
    (job / "LOCK").unlink()  # it names the process that was the last to lock it
    before = contents(job)
    done = warm.scrapy("job", "check", "--repair", job)
    assert done.returncode == 1
    assert done.stdout.endswith(
        "\nno checkpoint can be read, and none was kept that can: put JOBDIR back from a copy, or "
        "begin the crawl anew in another one\nNOT repaired in 1 place\n"
    )
    (job / "LOCK").unlink()
    assert contents(job) == before


def test_a_full_disk_leaves_a_job_that_can_be_repaired(job, monkeypatch):
    spoil(only(job / SHARD, "snapshot-*.log"))

    def full(*_arguments, **_options):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copytree", full)
        with pytest.raises(FatalError, match="No space left on device"):
            repair_job(job, warc=False)
    assert not (job / "shards.tmp").exists()
    assert repaired(job).lost


@pytest.mark.parametrize(
    "pattern",
    every_run(STATE_OF_SHARD[1], of=["CURRENT", STATE[2], f"{SHARD}/CURRENT", *STATE_OF_SHARD]),
)
def test_a_repaired_crawl_is_complete_and_polite(tmp_path, pattern):
    job = tmp_path / "job"
    line = partial(command, tmp_path=tmp_path, CHECKPOINT_INTERVAL_SECS=0.5)
    with start_in_process(WORLD, log_path=tmp_path / "access.log") as web:
        kill_in_the_middle(line(web), job, keeps=True)
        spoil(only(job, pattern), at=20 if "CURRENT" in pattern else None)
        killed_at = time.time()
        repair = repair_job(job, warc=True)
        repaired_at = time.time()
        assert repair.left.damage == [], repair_text(repair)
        rest = {"POLITENESS_MIN_DELAY": MIN_DELAY, "POLITENESS_MAX_DELAY": MAX_DELAY}
        done = run_crawl(line(web, **rest))
        assert done.returncode == 0, done.stdout
        assert "finished: nothing is left to fetch" in done.stdout
        allowed = allowed_urls(web.world, USER_AGENT)
        web.stop()
    record = [hit for hit in access_log(tmp_path / "access.log") if "webcrawl" in hit.agent]
    assert set(pages_asked_for(record)) == allowed
    assert impolite(record, min_delay=MIN_DELAY) == []
    after = [hit for hit in record if hit.start >= killed_at]
    again = set(pages_asked_for(after)) & set(
        pages_asked_for(hit for hit in record if hit.start < killed_at)
    )
    if pattern in STATE_OF_SHARD:  # contacts were forgotten
        assert killed_at + MAX_DELAY <= min(hit.start for hit in after) < repaired_at + 30
    else:
        assert len(again) <= 8  # what was in process
    assert check_job(job, warc=True).damage == []


# Whatever byte is hit


def test_every_byte_of_the_state_that_is_hit_is_found_and_mended(job, tmp_path):
    rng = random.Random(11)
    said = meaning(job)
    seen = Counter()
    for pattern in (*STATE, f"{SHARD}/CURRENT", *STATE_OF_SHARD):
        name = only(job, pattern).relative_to(job)
        size = (job / name).stat().st_size
        hits = [(rng.randrange(8, size), rng.randrange(1, 256)) for _ in range(3)]
        hits += [(rng.randrange(size), 0)]
        for at, change in hits:
            hit = copy(job, tmp_path / "hit")
            with (hit / name).open("r+b") as file:
                if change:
                    byte = os.pread(file.fileno(), 1, at)[0]
                    os.pwrite(file.fileno(), bytes([byte ^ change]), at)
                else:
                    file.truncate(at)
            if not check_job(hit, warc=False).damage_count:
                assert meaning(hit) == said, (name, at, change)
                seen["of no account"] += 1
            else:
                repaired(hit)
                seen[name.name[:4]] += 1
            assert openable(hit)
            shutil.rmtree(hit)
    assert seen["CURR"]
    assert seen["mani"]
    assert seen["snap"] == 8


# Dying in the middle


def mend(path):
    number = live_number(path)
    assert mend_checkpoint(Mending(jobdir=path, number=number, on_progress=lambda _: None))


def small(job, tmp_path):
    """A copy with little in it, as it is copied hundreds of times."""
    start = copy(job, tmp_path / "start")
    for log in (start / "logs").iterdir():
        log.write_bytes(b"")
    return start


@pytest.mark.parametrize(
    "pattern", every_run("CURRENT", of=["CURRENT", STATE[1], STATE_OF_SHARD[1]])
)
def test_dying_between_any_two_lines_leaves_what_can_be_repaired(job, tmp_path, pattern):
    start = small(job, tmp_path)
    spoil(only(start, pattern), at=20 if pattern == "CURRENT" else None)
    (tmp_path / "out").mkdir()
    left = die_between_lines("tests.jobs.check.test_mend_checkpoint:mend", start, tmp_path / "out")
    assert len(left) > 5
    wanted = meaning(left[-1])
    for path in left:
        if check_job(path, warc=False).damage_count:
            repaired(path)
        now = meaning(path)
        assert now["entries"] == wanted["entries"], path
        assert now["seen"] == wanted["seen"]
        assert now["records"] == wanted["records"]
        shutil.rmtree(path)
