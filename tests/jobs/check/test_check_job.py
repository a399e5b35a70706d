"""``scrapy job check``: nothing that is damaged goes unsaid, and what is sound is called so."""

import json
import random
import shutil

import msgspec
import pytest
import warm
from disk import flip, flipped
from killed_job import SHARD, STATE, forge, in_a_queue, meaning, rows_of
from looking import contents
from seen_rig import InlineExecutor, bloom_eliminator, disk_eliminator, names, submit
from stored_job import in_use
from text_tables import each

from webcrawl.commands.job import report_text
from webcrawl.crawl.job.jobdir import Job
from webcrawl.crawl.seeds.ranks import HostRanks
from webcrawl.errors import FatalError
from webcrawl.frontier.snapshot import FrontierSnapshot
from webcrawl.jobs.check.files import check_logs, check_table
from webcrawl.jobs.check.findings import MOST, Findings
from webcrawl.jobs.check.frontier import check_frontier
from webcrawl.jobs.check.seen import check_seen
from webcrawl.jobs.check.whole import check_job
from webcrawl.storage.fifo import DiskFifo
from webcrawl.storage.record_log import RecordLog

FLIPS_PER_FILE = 6


@pytest.fixture
def job(killed, tmp_path):
    """A copy of it, without older checkpoints."""
    without = shutil.ignore_patterns("checkpoints")
    return shutil.copytree(killed, tmp_path / "job", ignore=without)


def scrapy_job(*arguments):
    return warm.scrapy("job", *arguments)


def damage_in(path, check, *arguments, trusted=True):
    """What *check* finds in the directory *path*."""
    findings = Findings(jobdir=path, on_progress=lambda _: None)
    findings.trusted = trusted
    findings.begin("part")
    with findings.catch_errors(path, ""):
        check(path, *arguments, findings)
    assert findings.parts == {"part": findings.damage_count}
    return findings


def looked_at(job):
    """The report of *job* without its stored pages."""
    return check_job(job, warc=False)


def is_clean(job):
    try:
        return not looked_at(job).damage_count
    except FatalError:  # a version number was hit: it may be a newer one
        return False


def test_the_job_of_a_killed_crawl_is_sound_and_looking_changes_nothing(job):
    before = contents(job)
    on_progress = []
    report = check_job(job, warc=True, on_progress=on_progress.append)
    assert report.damage == []
    assert set(report.parts) == {
        *("checkpoint", "frontier", "seen", "content", "ranks", "domains", "hosts", "logs", "warc")
    }
    assert 0 < sum(on_progress) <= sum(len(data) for data, _ in before.values()) * 1.1
    assert contents(job) == before
    assert report_text(report).endswith("sound\n")


def test_every_flipped_byte_is_found_or_tells_the_crawl_nothing(job):
    rng = random.Random(5)
    said = meaning(job)
    found, of_no_account = set(), 0
    for path in sorted(job.rglob("*")):
        if not path.is_file() or path.parent.name in ("warc", "logs") or not path.stat().st_size:
            continue
        if path.name.endswith("-wal"):  # see test_damage_in_the_log_of_host_records
            continue
        data = path.read_bytes()
        for number in range(FLIPS_PER_FILE):
            at = rng.randrange(len(data) if number else min(32, len(data)))
            path.write_bytes(flipped(data, at, rng.randrange(1, 256)))
            if is_clean(job):
                assert meaning(job) == said, f"byte {at} of {path}"
                of_no_account += 1
            else:
                found.add(path.relative_to(job).parts[-2 if "back" in path.parts else -1])
        path.write_bytes(data)
    assert "CURRENT" in found
    assert any(name.startswith("manifest-") for name in found)
    assert any(name.startswith("snapshot-") for name in found)
    assert of_no_account


def test_damage_in_the_log_of_host_records_ends_that_and_is_no_damage(job):
    rng = random.Random(6)
    log = job / SHARD / "hosts/records.sqlite-wal"
    data = log.read_bytes()
    known = set(rows_of(job))
    lost = set()
    for at in [rng.randrange(len(data)) for _ in range(20)]:
        log.write_bytes(flipped(data, at, rng.randrange(1, 256)))
        report = looked_at(job)
        assert report.damage == []
        assert f"{log.relative_to(job)}, byte 0: SQLite reads this log" in report_text(report)
        assert "are learned again" in report_text(report)
        lost |= known - set(rows_of(job))
    assert lost


def test_a_damaged_queue_of_a_host_is_reported_with_its_cost(job):
    path, at = in_a_queue(job)
    flip(path, at)
    done = scrapy_job("check", job)
    assert done.returncode == 1
    (line,) = [line for line in done.stdout.splitlines() if "URLs waiting" in line]
    words = line.split()
    assert (words[0], words[1], words[3:7]) == ("16", "of", ["URLs", "waiting", "in", "host"])
    assert f"{path.relative_to(job)}, byte " in done.stdout
    assert "frontier    DAMAGED in 1 place" in done.stdout
    report = json.loads(scrapy_job("check", "--json", "-s", f"JOBDIR={job}").stdout)
    assert report["damage_count"] == 1
    assert report["damage"][0]["file"] == str(path.relative_to(job))


@pytest.mark.cures("JOBDIR {} is in use by process {}: wait until it ends, or check a copy.")
def test_a_job_that_cannot_be_checked_is_refused_with_one_sentence(job, tmp_path):
    nothing = scrapy_job("check", tmp_path / "none")
    assert nothing.returncode == 2
    assert nothing.stderr.startswith("job: There is no crawl in JOBDIR")
    refused = pytest.raises(FatalError, match=r"is in use by process \d+: wait until it ends")
    with in_use(job), refused:
        looked_at(job)
    assert looked_at(job).damage == []
    (manifest,) = job.glob("manifest-*.json")
    forge(manifest, has_checksum=True, format=3)
    (wrong,) = looked_at(job).damage  # its checksum is that of the present format
    assert wrong.what == "checksum mismatch"
    forge(manifest)
    with pytest.raises(FatalError, match="has format 3, this webcrawl reads up to 2"):
        looked_at(job)


def test_a_job_whose_first_checkpoint_was_not_finished_is_none(tmp_path):
    (tmp_path / "manifest-000001.json").touch()
    with pytest.raises(FatalError, match="There is no crawl in JOBDIR"):
        looked_at(tmp_path)
    (tmp_path / "manifest-000002.json").touch()
    (damage,) = looked_at(tmp_path).damage
    assert (damage.file, damage.what) == ("CURRENT", "the file is gone")


def test_a_missing_file_is_reported(job):
    for path in (*job.glob(f"{SHARD}/frontier/back/*/*.log"), job / SHARD / "ranks/ranks.log"):
        data = path.read_bytes()
        path.unlink()
        report = looked_at(job)
        # A queue that was read to its end names no file.
        assert report.damage_count or path.name != "ranks.log"
        path.write_bytes(data)
    states = [f"{where}{name}" for where in ("", f"{SHARD}/") for name in STATE]
    for name in (*states, f"{SHARD}/frontier/done/*.log"):
        (path,) = job.glob(name)
        data = path.read_bytes()
        path.unlink()
        assert looked_at(job).damage_count == 1
        path.write_bytes(data)
    assert looked_at(job).damage_count == 0


def test_after_a_reboot_what_was_not_synced_may_be_lost(job):
    (manifest,) = job.glob(f"{SHARD}/manifest-*.json")
    forge(manifest, has_checksum=True, boot_id="another")
    assert looked_at(job).damage[0].what == "checksum mismatch"
    forge(manifest)
    (done,) = job.glob(f"{SHARD}/frontier/done/*.log")
    flip(done, 100)
    report = looked_at(job)
    assert (report.damage_count, report.note_count) == (0, 2)
    assert "the machine went down" in report_text(report)


def test_damaged_lines_of_logs_are_reported_and_a_torn_one_is_not(tmp_path):
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs/info.jsonl"
    full = tmp_path / "logs/info-000001.jsonl"
    full.write_bytes(b'{"a":1}\n{"b"\xff:2}\n{"c":3}')
    log.write_bytes(b'{"a":1}\nnull\n{"c":3}\n{"d"')
    findings = damage_in(tmp_path, check_logs)
    assert [(one.file, one.offset) for one in findings.damage] == [
        ("logs/info-000001.jsonl", 8),
        ("logs/info-000001.jsonl", 17),
        ("logs/info.jsonl", 8),
    ]
    assert [(one.offset, one.what) for one in findings.notes] == [
        (21, "the last line is incomplete")
    ]


def test_repeated_findings_are_counted_beyond_the_most_that_are_kept(tmp_path):
    findings = Findings(jobdir=tmp_path, on_progress=lambda _: None)
    findings.begin("part")
    for number in range(MOST + 500):
        findings.add(tmp_path / "a", number, "damage", "loss")
        findings.add(tmp_path / "a", 0, "damage", "loss")
        findings.note(tmp_path.parent, number, "end", "none")
    assert findings.damage_count == MOST + 500
    assert findings.note_count == MOST + 500
    assert len(findings.damage) == len(findings.notes) == MOST
    assert findings.notes[0].file == str(tmp_path.parent)


# The parts, each with what a small crawl has not


@each("kind", disk_eliminator, bloom_eliminator)
def test_a_missing_file_of_the_url_log_hides_later_ones(tmp_path, kind):
    eliminator = kind(tmp_path, InlineExecutor())
    eliminator.open(None)
    submit(eliminator, names(20))
    snapshot = eliminator.snapshot()
    submit(eliminator, names(20, 20))
    eliminator.close()
    assert damage_in(tmp_path, check_seen, snapshot).damage == []
    logs = sorted(tmp_path.glob("discovered-*.log"))
    later = tmp_path / f"discovered-{int(logs[-1].stem[11:]) + 2:06d}.log"
    shutil.copy(logs[-1], later)
    assert damage_in(tmp_path, check_seen, snapshot, trusted=False).damage == []
    (gone,) = damage_in(tmp_path, check_seen, snapshot).damage
    assert (gone.file, gone.what) == (later.name, "a file of the log before this one is missing")


def test_a_table_of_ranks_is_checked_up_to_its_end(tmp_path):
    table = HostRanks(path=tmp_path)
    table.open(None)
    for start in range(4):
        table.add_many([(f"{n}.test", n + 1) for n in range(start * 10, start * 10 + 10)])
    snapshot = table.snapshot()
    table.add_many([("last.test", 99)])
    table.close()
    log = tmp_path / "ranks.log"
    data = log.read_bytes()
    assert damage_in(tmp_path, check_table, snapshot).damage == []
    log.write_bytes(flipped(data, 200, 1))
    (one,) = damage_in(tmp_path, check_table, snapshot).damage
    assert (one.offset, one.file) == (136, "ranks.log")
    log.write_bytes(data[:-3])
    findings = damage_in(tmp_path, check_table, snapshot)
    assert (findings.damage, findings.note_count) == ([], 1)
    with RecordLog.open(log, size=8) as wrong:
        end = wrong.append(b"1234567")
    assert damage_in(tmp_path, check_table, msgspec.msgpack.encode([end])).damage


@each("check", check_frontier, check_seen, check_table)
def test_an_invalid_snapshot_is_damage(tmp_path, check):
    for snapshot in (b"", b"\xc1", msgspec.msgpack.encode(["disk", "x"])):
        assert damage_in(tmp_path, check, snapshot).damage


def test_entries_and_segments_of_the_frontier_are_checked(tmp_path):
    queue = DiskFifo(path=tmp_path / "front/01", chunk_items=2)
    queue.open(None)
    queue.push_many([b"none"] * 9)
    state = FrontierSnapshot(levels=[queue.snapshot()])
    snapshot = msgspec.msgpack.encode(state)
    whats = [one.what for one in damage_in(tmp_path, check_frontier, snapshot).damage]
    assert len(whats) > 1
    assert whats[-1] == "the file is gone"  # the done log
    (tmp_path / "done").mkdir()
    (tmp_path / "done/00000003.log").touch()
    findings = damage_in(tmp_path, check_frontier, snapshot)
    gone = "a segment before this one is missing"
    assert gone in [one.what for one in findings.damage]
    findings = damage_in(tmp_path, check_frontier, snapshot, trusted=False)
    assert gone in [one.what for one in findings.notes]
    assert gone not in [one.what for one in findings.damage]


def test_a_checkpoint_needs_a_frontier_and_an_eliminator(tmp_path):
    job = Job(path=tmp_path)
    job.open()
    job.shard("00")
    job.publish(job.prepare({}))
    job.close()
    report = looked_at(tmp_path)
    assert report.checkpoint == 1
    assert [(one.file, one.what) for one in report.damage] == [
        ("shards/00/CURRENT", "its checkpoint has no part frontier"),
        ("shards/00/CURRENT", "its checkpoint has no part seen"),
    ]


def test_stored_pages_are_checked_when_asked_for(job):
    (path,) = job.glob("warc/*.warc.gz*")
    data = path.read_bytes()
    middle = data.index(b"\x1f\x8b\x08", len(data) // 2)
    path.write_bytes(flipped(data, middle + 30, 255))
    assert looked_at(job).damage_count == 0
    (one,) = check_job(job, warc=True).damage
    assert one.offset == middle
    path.write_bytes(data[:-7])
    torn = check_job(job, warc=True)
    assert torn.damage_count == 0
    assert [one.part for one in torn.notes] == ["hosts", "warc"]
    path.rename(path.with_suffix(""))
    assert check_job(job, warc=True).damage_count == 1
