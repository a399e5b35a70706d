"""``scrapy job check --repair``: a damaged job goes on, without what could not be read."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from array import array
from collections import Counter

import msgspec
import pytest
import warm
from crawling import USER_AGENT, access_log, impolite, pages_asked_for, run_crawl
from killed_job import SHARD, WORLD, command, in_a_queue, kill_in_the_middle, meaning, rows_of
from looking import contents
from records_rig import PatientExecutor, opened
from seen_rig import InlineExecutor, bloom_eliminator, disk_eliminator, names, submit

from webcrawl.commands.job import repair_text
from webcrawl.crawl.seeds.ranks import HostRanks
from webcrawl.errors import FatalError
from webcrawl.frontier import Entry, encode
from webcrawl.frontier.overflow import overflow_path
from webcrawl.frontier.snapshot import FrontierSnapshot, QueueSnapshot, decode_snapshot
from webcrawl.hosts.records.database import FILE
from webcrawl.jobs.check.findings import Findings
from webcrawl.jobs.check.mend_files import mend_table
from webcrawl.jobs.check.mend_frontier import mend_frontier
from webcrawl.jobs.check.mend_seen import mend_content, mend_seen
from webcrawl.jobs.check.mending import Mending
from webcrawl.jobs.check.repair import repair_job
from webcrawl.jobs.check.seen import check_content, check_seen
from webcrawl.jobs.check.whole import check_job
from webcrawl.seen.content import ContentSeen
from webcrawl.seen.url_log import parse_record
from webcrawl.simweb import allowed_urls, start_in_process
from webcrawl.storage.fifo import DiskFifo, length_of, segment_file
from webcrawl.storage.record_log import NewerFormatError, RecordLog, read_records, unpack_many

MIN_DELAY = 0.02


@pytest.fixture
def job(killed, tmp_path):
    return shutil.copytree(killed, tmp_path / "job", ignore=shutil.ignore_patterns("warc"))


def damage(path, at, change=1):
    data = path.read_bytes()
    at %= len(data)
    path.write_bytes(data[:at] + bytes([data[at] ^ change]) + data[at + 1 :])


def longest(job, pattern):
    return max(job.glob(pattern), key=lambda path: path.stat().st_size)


def mending_in(path):
    mending = Mending(jobdir=path, number=1, on_progress=lambda _: None)
    mending.part = "part"
    return mending


@pytest.mark.long
def test_a_repaired_crawl_goes_on_and_lacks_only_what_was_lost(tmp_path):
    job = tmp_path / "job"
    with start_in_process(WORLD, log_path=tmp_path / "access.log") as web:
        kill_in_the_middle(command(web, tmp_path, CHECKPOINT_INTERVAL_SECS=1), job)
        damage(*in_a_queue(job))
        damage(longest(job, f"{SHARD}/frontier/done/*.log"), 200)
        for run in job.glob(f"{SHARD}/seen/*.run"):
            damage(run, 5000)
        damage(job / SHARD / "seen/discovered-000001.log", -100)
        damage(job / SHARD / "hosts/records.sqlite-wal", 5000)
        damage(job / SHARD / "ranks/ranks.log", 30)
        (job / "CURRENT").write_bytes(b"nothing\n")
        repair = repair_job(job, warc=True)
        assert repair.left.damage_count == 0, repair_text(repair)
        lost = {one.part: one.what for one in repair.lost}
        assert lost["frontier"]
        assert check_job(job, warc=True).damage_count == 0
        queues = [one.what for one in repair.lost if "URLs that waited" in one.what]
        urls = sum(int(what.split()[0]) for what in queues)
        assert 0 < urls <= 32
        done = run_crawl(
            command(web, tmp_path, POLITENESS_MIN_DELAY=MIN_DELAY, POLITENESS_MAX_DELAY=1)
        )
        assert done.returncode == 0, done.stdout
        assert "finished: nothing is left to fetch" in done.stdout
        allowed = allowed_urls(web.world, USER_AGENT)
        web.stop()
    record = [hit for hit in access_log(tmp_path / "access.log") if "webcrawl" in hit.agent]
    asked = Counter(pages_asked_for(record))
    # What the lost URLs alone led to is not found either; links in what was lost of the URL log
    # were on pages that had been finished. Of the URLs that waited at the last checkpoint, some
    # had been asked for when the kill came.
    missing = allowed - set(asked)
    print(f"{urls} URLs lost in queues, {len(missing)} of {len(allowed)} never asked for")
    assert 0 < len(missing) <= len(allowed) / 8
    assert set(asked) <= allowed
    assert impolite(record, min_delay=MIN_DELAY) == []
    after = check_job(job, warc=True)
    assert after.damage == []


def test_the_command_says_what_was_lost_and_where_the_damaged_files_are(job):
    path, at = in_a_queue(job)
    damage(path, at)
    broken = path.read_bytes()
    done = warm.scrapy("job", "check", "--repair", job)
    assert done.returncode == 1, done.stderr
    assert "  frontier    16 of " in done.stdout
    assert done.stdout.splitlines()[-1] == "repaired: the crawl can be resumed"
    (aside,) = (job / "damaged").iterdir()
    assert f"the damaged files are kept in {aside}" in done.stdout
    assert (aside / path.relative_to(job)).read_bytes() == broken
    again = warm.scrapy("job", "check", "--repair", job, "--json")
    assert again.returncode == 0
    assert json.loads(again.stdout)["lost"] == []


def test_damage_to_any_part_is_mended_and_sound_parts_stay(job, tmp_path):
    rng = random.Random(3)
    said = meaning(job)
    hits = [path for path in sorted(job.rglob("*")) if path.is_file() and path.stat().st_size > 20]
    mended = set()
    for path in hits:
        if path.name.startswith(("manifest", "snapshot")):
            continue
        copy = shutil.copytree(job, tmp_path / "copy")
        file = copy / path.relative_to(job)
        data = file.read_bytes()
        at = rng.randrange(min(100, len(data) // 2), len(data))  # behind version numbers
        size = rng.choice([1, 40, 3000])
        if path.parent.name == "done":  # damage up to the end of a log is what a crash leaves
            at, size = at // 2, 1
        file.write_bytes((data[:at] + rng.randbytes(size) + data[at + size :])[: len(data)])
        repair = repair_job(copy, warc=False)
        assert repair.left.damage_count == 0, (path, at, repair.left.damage)
        # Nothing is lost when another name is all that CURRENT needs.
        assert bool(repair.lost) == (bool(repair.found.damage_count) and path.name != "CURRENT")
        now = meaning(copy)
        if repair.found.damage_count:
            mended.add(path.parent.name)
            untouched = set(said) - {"spider", "snapshots", "trusted"}
            same = {name for name in untouched if now[name] == said[name]}
            assert len(same) >= len(untouched) - 6
            assert now["spider"] == said["spider"]
            assert now["trusted"] == said["trusted"]
        else:
            assert now == said
        shutil.rmtree(copy)
    assert {"done", "hosts", "ranks"} <= mended


def test_a_kept_checkpoint_is_checked_and_not_repaired(job, tmp_path):
    (job / "KEPT").touch()
    kept = tmp_path / "crawl/checkpoints/000004"
    kept.parent.mkdir(parents=True)
    (tmp_path / "crawl/CURRENT").touch()
    job.rename(kept)
    assert check_job(kept, warc=False).damage_count == 0
    damage(*in_a_queue(kept))
    assert check_job(kept, warc=False).damage_count == 1
    before = contents(kept)
    with pytest.raises(FatalError, match="is a kept checkpoint, which never changes: copy it"):
        repair_job(kept, warc=False)
    assert contents(kept) == before


def test_after_a_reboot_a_repair_does_not_make_the_done_log_believed(job):
    (path,) = job.glob(f"{SHARD}/manifest-*.json")
    text = json.loads(path.read_text("utf-8"))
    del text["crc32"]
    path.write_text(json.dumps({**text, "boot_id": "another"}))
    assert meaning(job)["trusted"] is False
    damage(*in_a_queue(job))
    assert repair_job(job, warc=False).left.damage_count == 0
    assert meaning(job)["trusted"] is False


def test_host_records_are_saved_up_to_the_damage_and_back_to_it(job):
    file = job / SHARD / "hosts" / FILE
    opened(file.parent, PatientExecutor()).close()  # what was only logged is stored
    connection = sqlite3.connect(file)
    rows = [(9, f"{number:05d}", b"x" * 500, 0) for number in range(2000)]
    connection.executemany("INSERT INTO facts VALUES (?, ?, ?, ?)", rows)
    connection.execute("DELETE FROM facts WHERE kind = 9 AND key > '01990'")
    connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    known = rows_of(job)
    assert len(known) > 10
    data = file.read_bytes()
    middle = len(data) // 2 // 4096 * 4096
    file.write_bytes(data[:middle] + b"\xff" * 8192 + data[middle + 8192 :])
    repair = repair_job(job, warc=False)
    assert repair.left.damage_count == 0
    # Those of the kind 9 have no checksum, and the others lie before the damage.
    assert rows_of(job) == known


# The parts


def damage_found(path, snapshot, check=check_seen):
    findings = Findings(jobdir=path, on_progress=lambda _: None)
    findings.begin("part")
    with findings.catching(path, ""):
        check(path, snapshot, findings)
    return [one.what for one in findings.damage]


@pytest.mark.parametrize("kind", [disk_eliminator, bloom_eliminator])
def test_a_mended_eliminator_hands_out_all_that_was_not_lost(tmp_path, kind):
    path = tmp_path / "seen"
    eliminator = kind(path, InlineExecutor(), log_file_bytes=1500)
    eliminator.open(None)
    taken = []
    for start in range(0, 400, 20):
        submit(eliminator, names(20, start))
        eliminator.merge()
        taken += eliminator.take(13)
    snapshot = eliminator.snapshot()
    submit(eliminator, names(30, 390))
    eliminator.close()
    everything = set(names(420))

    def records(file):
        return [
            ({*parse_record(record)[0]}, {u.decode() for u in unpack_many(parse_record(record)[1])})
            for _, record in read_records(file)
        ]

    batches = [urls for file in path.glob("*.log") for _, urls in records(file)]
    rng = random.Random(7)
    damaged = 0
    for file in sorted(path.iterdir()):
        for _ in range(5):
            copy = shutil.copytree(path, tmp_path / "copy")
            hit = copy / file.name
            whole = records(file) if file.suffix == ".log" else []
            damage(hit, rng.randrange(8, file.stat().st_size), rng.randrange(1, 256))
            mending = mending_in(copy)
            try:
                is_damaged = bool(damage_found(copy, snapshot))
                mended = mend_seen(copy, snapshot, mending)
            except NewerFormatError:  # a version was hit
                shutil.rmtree(copy)
                continue
            assert is_damaged == (mended != snapshot)
            damaged += is_damaged
            for one in mending.superseded:
                one.unlink()
            assert damage_found(copy, mended) == []
            again = kind(copy, InlineExecutor(), log_file_bytes=1500)
            again.open(mended)
            out = []
            while again.waiting:
                again.merge()
                out += [payload.decode() for payload in again.take(50)]
            again.close()
            shutil.rmtree(copy)
            assert len(out) == len(set(out))
            # At most those of the record up to which they were taken, a second time.
            twice = {payload.decode() for payload in taken}.intersection(out)
            assert any(twice <= urls for urls in batches)
            lost = everything.difference(out, (payload.decode() for payload in taken))
            assert bool(lost) <= is_damaged
            # At most what stood in one record of the log.
            assert not lost or any(lost <= urls for _, urls in whole)
    assert damaged > 5


def test_mended_runs_forget_a_block_at_most(tmp_path):
    rng = random.Random(3)
    content = ContentSeen(path=tmp_path, executor=InlineExecutor(), buffer_size=3000)
    content.open(None)
    known = [rng.getrandbits(64) for _ in range(10_000)]
    for fp in known:
        content.commit(fp)
    snapshot = content.snapshot()
    content.close()
    assert damage_found(tmp_path, snapshot, check_content) == []
    assert mend_content(tmp_path, snapshot, mending_in(tmp_path)) == snapshot
    run = longest(tmp_path, "*.run")
    data = run.read_bytes()
    shutil.copy(run, tmp_path / "000900.run")
    state = msgspec.msgpack.decode(snapshot)
    state[2].append((900, dict(state[2])[int(run.stem)]))
    twice = damage_found(tmp_path, msgspec.msgpack.encode(state), check_content)
    assert twice == ["a fingerprint stands in two runs"]
    (tmp_path / "000900.run").unlink()
    run.write_bytes(data[:5000] + bytes(2000) + data[7000:])
    assert "the block does not add up" in damage_found(tmp_path, snapshot, check_content)
    mending = mending_in(tmp_path)
    mended = mend_content(tmp_path, snapshot, mending)
    assert damage_found(tmp_path, mended, check_content) == []
    content = ContentSeen(path=tmp_path, executor=InlineExecutor())
    content.open(mended)
    forgotten = sum(not content.test(fp) for fp in known)
    content.close()
    assert 200 < forgotten < 300
    # A word that was hit in part may stay in order, as one of nothing.
    assert 0 <= forgotten - int(mending.losses[0].what.split()[0]) <= 2
    # A run of which nothing is left is left out.
    state = msgspec.msgpack.decode(mended)
    state[2].append((777, 5))
    mended = mend_content(tmp_path, msgspec.msgpack.encode(state), mending_in(tmp_path))
    assert [number for number, _ in msgspec.msgpack.decode(mended)[2]] == [
        number for number, _ in state[2][:-1]
    ]


def test_a_mended_queue_has_the_records_before_and_behind_the_damage(tmp_path):
    def item(host, number):
        return encode(Entry(f"http://{host}/{number}", host))

    def queue(path, host, count, **options):
        fifo = DiskFifo(path=path, chunk=2, **options)
        fifo.open(None)
        fifo.push_many(item(host, number) for number in range(count))
        return fifo

    level = queue(tmp_path / "front/01", "a.test", 1000, segment_bytes=3000)
    body = queue(overflow_path(tmp_path / "back", 3), "b.test", 10, first=3 << 20)
    alone = queue(overflow_path(tmp_path / "back", 4), "c.test", 8, first=4 << 20)
    for _ in range(2):
        alone.pop()
    parked = queue(tmp_path / "parked/trap", "d.test", 9)
    (tmp_path / "done").mkdir()
    RecordLog.open(tmp_path / "done/00000001.log").close()
    state = FrontierSnapshot(
        levels=[level.snapshot()],
        queues=[
            QueueSnapshot("b.test", 0.0, 0.0, 0.0, [], 3, body.snapshot()),
            QueueSnapshot("c.test", 0.0, 0.0, 0.0, [], 4, alone.snapshot()),
            QueueSnapshot("e.test", 0.0, 0.0, 0.0, [item("e.test", 1)], 0, None),
        ],
        parked={"trap": parked.snapshot()},
    )
    snapshot = msgspec.msgpack.encode(state)

    def mend(mending):
        return mend_frontier(tmp_path, snapshot, mending)

    assert mend(mending_in(tmp_path)) == snapshot
    segments = sorted((tmp_path / "front/01").glob("*.log"))
    damage(segments[1], 40)
    segments[3].unlink()
    damage(segment_file(body.path, body.first), 20)
    (parked.path / "00000000.log").unlink()
    mending = mending_in(tmp_path)
    mended = decode_snapshot(mend(mending))
    for one in mending.superseded:
        one.unlink(missing_ok=True)
    assert {*level.path.glob("*.log")} <= {*mending.written}
    assert not (mending.aside / "queue.tmp").exists()
    again = DiskFifo(path=level.path)
    again.open(mended.levels[0])
    assert again.check() == []
    found = [again.pop() for _ in range(len(again))]
    everything = [item("a.test", number) for number in range(1000)]
    assert found == [one for one in everything if one in found]
    assert len(found) == 1000 - int(mending.losses[0].what.split()[0])
    assert mended.levels[0].overflow > 0
    assert 800 < len(found) < 1000
    assert length_of(mended.queues[0].overflow) == 8
    assert mended.queues[1:] == state.queues[1:]
    assert mended.parked["trap"].overflow == 0
    assert (tmp_path / "damaged/000001/front/01/00000001.log").exists()


def test_a_mended_done_log_says_all_that_can_be_read_and_lets_hosts_rest(job):
    (log,) = job.glob(f"{SHARD}/frontier/done/*.log")
    before = meaning(job)
    size = log.stat().st_size
    damage(log, size // 2)
    repair = repair_job(job, warc=False)
    assert repair.left.damage_count == 0
    after = meaning(job)
    left = array("Q", after["left"])
    assert 0 <= len(array("Q", before["left"])) - len(left) <= 2
    resting = {host: times.ready_at for host, times in after["hosts"].items() if not times.contact}
    assert all(at >= before["hosts"][host].ready_at for host, at in resting.items())
    assert (job / "damaged").is_dir()


def test_a_table_that_is_gone_begins_anew(tmp_path):
    table = HostRanks(path=tmp_path / "ranks")
    table.open(None)
    table.add_many([("a.test", 1), ("b.test", 2)])
    snapshot = table.snapshot()
    table.close()
    assert mend_table(tmp_path / "ranks", snapshot, mending_in(tmp_path)) == snapshot
    (tmp_path / "ranks/ranks.log").unlink()
    mended = mend_table(tmp_path / "ranks", snapshot, mending_in(tmp_path))
    table = HostRanks(path=tmp_path / "ranks")
    table.open(mended)
    assert len(table) == 0
    table.close()
