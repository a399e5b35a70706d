"""``scrapy job restore``: a damaged job goes back to a kept checkpoint, and nothing is deleted."""

import json
import re
import shutil
import subprocess
import time
from functools import partial

import pytest
import warm
from crash import die_between_lines
from crawling import USER_AGENT, access_log, impolite, pages_asked_for, printed, run_crawl
from disk import full_disk
from killed_job import SHARD, STATE, WORLD, command, forge, in_a_queue, kill_in_the_middle, meaning
from looking import contents
from stored_job import in_use
from text_tables import each
from web_truth import allowed_urls

from webcrawl.crawl.job.jobdir import Job, read_checkpoint
from webcrawl.crawl.job.kept_checkpoints import find_kept
from webcrawl.crawl.job.state_directory import read_state
from webcrawl.errors import FatalError
from webcrawl.jobs.check.restore import candidates, restore_job
from webcrawl.jobs.check.whole import NO_CHECKPOINT, OF_HIVE, check_job
from webcrawl.simweb import start_in_process

MIN_DELAY = 0.02
MAX_DELAY = 1.5


@pytest.fixture(scope="module")
def start(killed, tmp_path_factory):
    """A copy without its stored pages, and with little in its logs."""
    job = copy(killed, tmp_path_factory.mktemp("start") / "job")
    shutil.rmtree(job / "warc")
    (job / "LOCK").unlink()
    for log in (job / "logs").iterdir():
        log.write_bytes(b"")
    return job


@pytest.fixture
def job(start, tmp_path):
    return copy(start, tmp_path / "job")


def copy(source, target):
    """With the hard links to what was kept."""
    subprocess.run(["cp", "-a", source, target], check=True)
    return target


def only(job, pattern):
    (path,) = job.glob(pattern)
    return path


def spoil(path):
    """A byte in the middle of *path*, in this name of the file only."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.unlink()
    path.write_bytes(data)


def older(job):
    """A second kept checkpoint, before the first."""
    (kept,) = find_kept(job)
    second = copy(kept, kept.with_name("000001"))
    (second / "CURRENT").write_text("manifest-000001.json\n")
    manifest = only(second, "manifest-*.json").rename(second / "manifest-000001.json")
    forge(manifest, sequence=1, written_at="2026-11-20T10:00:00Z")
    return second


def scrapy_job(*arguments):
    done = warm.scrapy("job", *arguments)
    return done.returncode, done.stdout + done.stderr


def restored(job, number=None):
    result = restore_job(job, candidates(job, number))
    assert result.checkpoint
    assert check_job(job, warc=False).damage == []
    return result


# What a check advises


def test_the_newest_sound_checkpoint_is_named_when_the_crawl_needs_it(job):
    (kept,) = find_kept(job)
    assert "scrapy job restore" not in scrapy_job("check", job)[1]
    (job / "logs/info.jsonl").write_bytes(b"nothing\n")
    code, said = scrapy_job("check", job)
    assert (code, "scrapy job restore" in said) == (1, False)
    spoil(in_a_queue(job)[0])
    older(job)
    advice = (
        f"to restore checkpoint {int(kept.name)} of {read_state(kept).written_at}, the newest "
        f"sound one: scrapy job restore {job}\n"
    )
    assert scrapy_job("check", job)[1].endswith(advice)
    spoil(kept / SHARD / "ranks/ranks.log")
    assert "to restore checkpoint 1 of 2026-11-20T10:00:00Z" in scrapy_job("check", job)[1]
    shutil.rmtree(job / "checkpoints")
    assert check_job(job, warc=False, kept=True).advice == NO_CHECKPOINT
    (job / SHARD / "published.json").touch()
    assert check_job(job, warc=False, kept=True).advice == OF_HIVE


@each("pattern", "CURRENT", STATE[1], f"{SHARD}/{STATE[2]}", f"{SHARD}/seen/*.log")
def test_damage_in_an_older_checkpoint_does_not_touch_the_crawl(job, pattern):
    code, said = scrapy_job("check", job)
    assert (code, "checkpoints sound" in said) == (0, True), said
    file = min(find_kept(job)[0].glob(pattern))
    spoil(file)
    code, said = scrapy_job("check", "--json", job)
    assert code == 1
    told = json.loads(said)
    assert {part for part, damaged in told["parts"].items() if damaged} == {"checkpoints"}
    assert told["damage"][0]["file"].startswith(str(file.relative_to(job).parent))
    assert "the crawl itself is not affected" in told["damage"][0]["means"]
    assert told["advice"] == ""


# Going back


def test_the_job_is_what_was_kept_and_nothing_is_deleted(job):
    (kept,) = find_kept(job)
    before = contents(kept)
    then, wanted = read_checkpoint(kept), meaning(kept)
    spoil(only(job / SHARD, "snapshot-*.log"))
    live = {path: path.read_bytes() for path in job.rglob("*") if path.is_file()}
    number = read_state(job).sequence
    code, said = scrapy_job("restore", job)
    assert (code, f"{job} is back at checkpoint {int(kept.name)} of " in said) == (0, True), said
    aside = job / f"damaged/{number + 1:06d}"
    assert f"the replaced files are in {aside}; " in said
    assert check_job(job, warc=False).damage == []
    now = read_checkpoint(job)
    assert now.own.sequence == number + 1
    assert (now.own.snapshots, now.own.facts) == (then.own.snapshots, then.own.facts)
    assert now.shards == then.shards
    assert meaning(job) == wanted
    # What was kept is as it was and shares no file with the crawl, and all that was live is aside.
    assert contents(kept) == before
    shared = {path.stat().st_ino for path in kept.rglob("*") if path.is_file()}
    assert not shared & {
        path.stat().st_ino for path in (job / "shards").rglob("*") if path.is_file()
    }
    for path, data in live.items():
        name = path.relative_to(job)
        is_state = name.parts[0] == "shards" or any(path.match(one) for one in STATE)
        is_aside = is_state and name.parts[0] != "checkpoints"
        assert (aside / name if is_aside else path).read_bytes() == data


def test_the_newest_sound_one_is_chosen_or_the_one_that_is_named(job, tmp_path):
    (kept,) = find_kept(job)
    older(job)
    assert restored(copy(job, tmp_path / "newest")).checkpoint == int(kept.name)
    assert restored(copy(job, tmp_path / "named"), 1).written_at == "2026-11-20T10:00:00Z"
    sentence = f"job: {job}/checkpoints has no checkpoint 7777; it has: {kept.name}, 000001.\n"
    assert scrapy_job("restore", "--checkpoint", 7777, job) == (2, sentence)
    spoil(kept / SHARD / "ranks/ranks.log")
    assert restored(copy(job, tmp_path / "older")).checkpoint == 1
    (manifest,) = kept.glob("manifest-*.json")
    manifest.unlink()
    manifest.write_text('{"format": 99}')  # of a later version: it cannot be read
    shutil.rmtree(job / "checkpoints/000001")
    before = contents(job)
    code, said = scrapy_job("restore", "--checkpoint", kept.name, "--json", job)
    assert (code, json.loads(said)["checkpoint"]) == (1, 0)
    unchanged = f"{job}: {NO_CHECKPOINT}\nnothing was changed\n"
    assert scrapy_job("restore", job) == (1, unchanged)
    (job / "LOCK").unlink()
    assert contents(job) == before


def test_a_failed_restore_says_why(job, tmp_path):
    code, said = scrapy_job("restore", tmp_path / "none")
    assert (code, "There is no crawl in JOBDIR" in said) == (2, True)
    with in_use(job):
        code, said = scrapy_job("restore", job)
    assert (code, "is in use by" in said) == (2, True)
    (kept,) = find_kept(job)
    with pytest.raises(FatalError, match="is a kept checkpoint, which never changes"):
        restore_job(kept, [kept])
    (job / "LOCK").unlink()
    (job / SHARD / "published.json").touch()
    before = contents(job)
    assert scrapy_job("restore", job) == (2, f"job: JOBDIR {job}: {OF_HIVE}.\n")
    assert contents(job) == before


@pytest.mark.cures("JOBDIR {} was not restored ({}). Fix that and run the same command again.")
def test_a_full_disk_leaves_a_job_that_can_be_restored_later(job):
    before = meaning(job)
    with full_disk(100, FatalError):
        restore_job(job, find_kept(job))
    assert not (job / "shards.tmp").exists()
    assert meaning(job) == before
    restored(job)


def go_back(path):
    restore_job(path, candidates(path, None))


def test_dying_between_any_two_lines_leaves_a_job_that_can_be_restored(job, tmp_path):
    wanted = meaning(find_kept(job)[0])
    spoil(only(job / SHARD, "manifest-*.json"))
    (tmp_path / "out").mkdir()
    left = die_between_lines("tests.jobs.check.test_restore:go_back", job, tmp_path / "out")
    assert len(left) > 5
    for path in left:
        if check_job(path, warc=False).damage_count:
            with pytest.raises(FatalError):
                Job(path=path).open()
            restored(path)
        assert meaning(path) == wanted, path
        shutil.rmtree(path)


@pytest.mark.long
@pytest.mark.cures(
    "; run scrapy job check {} to see what can be done",
    "{} is back at checkpoint {} of {}",
)
def test_the_crawl_continues_completely_and_politely(tmp_path):
    job = tmp_path / "job"
    line = partial(command, tmp_path=tmp_path, CHECKPOINT_INTERVAL_SECS=0.5)
    with start_in_process(WORLD, log_path=tmp_path / "access.log") as web:
        kill_in_the_middle(line(web), job, keeps=True)
        spoil(only(job, f"{SHARD}/snapshot-*.log"))
        refused = run_crawl(line(web))
        assert refused.returncode == 2
        check = re.search(r"; run scrapy (job check .*) to see what can be", refused.stdout)[1]
        restore = re.search("scrapy (job restore .*)", warm.scrapy(*check.split()).stdout)[1]
        assert f"{job} is back at checkpoint " in printed(*restore.split())
        assert check_job(job, warc=False).damage == []
        restored_at = time.time()
        rest = {"POLITENESS_MIN_DELAY": MIN_DELAY, "POLITENESS_MAX_DELAY": MAX_DELAY}
        done = run_crawl(line(web, **rest))
        assert done.returncode == 0, done.stdout
        assert "finished: nothing is left to fetch" in done.stdout
        allowed = allowed_urls(web.world, USER_AGENT)
        web.stop()
    record = [hit for hit in access_log(tmp_path / "access.log") if "webcrawl" in hit.agent]
    assert set(pages_asked_for(record)) == allowed
    assert impolite(record, min_delay=MIN_DELAY) == []
    first = min(hit.start for hit in record if hit.start >= restored_at)
    assert first >= restored_at + MAX_DELAY
    report = check_job(job, warc=True, kept=True)
    assert report.damage == []
    assert not (job / "KEPT").exists()
