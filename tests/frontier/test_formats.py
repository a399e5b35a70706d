"""Snapshots of earlier formats are taken up, and saved in the present one."""

import msgspec
import pytest
from frontier_rig import Rig, entry

from webcrawl.frontier.done_log import records_in
from webcrawl.frontier.snapshot import VERSION, FrontierCounts, decode_snapshot
from webcrawl.storage.record_log import RecordLog, read_records

# How many members a snapshot of each format has: without shared clocks, without what is parked,
# without quiet, with a pair for it, with a directory for each overflow, with nothing forgotten,
# without compressed frames, without what is due.
MEMBERS = {1: 10, 2: 11, 3: 12, 4: 13, 5: 13, 6: 13, 7: 14, 8: 14}


@pytest.mark.parametrize("version", MEMBERS)
def test_a_snapshot_of_an_earlier_format_is_migrated(jobdir, clock, version):
    rig = Rig(jobdir, clock)
    rig.push(*(entry(f"host{number}.test", number) for number in range(20)))
    lease = rig.next()
    assert lease is not None
    rig.publish()
    members = msgspec.msgpack.decode(rig.published)
    rig.kill()
    members[12] = (2000.0, 0.0) if version == 4 else 2000.0
    rig.published = msgspec.msgpack.encode([version, *members[1 : MEMBERS[version]]])
    rig.unknown = {"forgotten_rest": 60.0}
    frontier = rig.start()
    assert len(frontier) == 20
    assert frontier.check() == []
    is_quiet = 3 < version < 7
    assert (frontier.acquire() is None) == is_quiet
    clock.advance(60.0)
    assert frontier.acquire() is not None
    rig.publish()
    assert decode_snapshot(rig.published).version == VERSION == max(MEMBERS) + 1
    rig.close()


def test_records_of_before_the_counts_are_taken_up(jobdir, clock):
    rig = Rig(jobdir, clock)
    rig.push(entry("a.test", 1), entry("a.test", 2))
    rig.publish()
    rig.fetch(rig.acquire())
    rig.kill()
    (path,) = sorted((jobdir / "done").iterdir())[-1:]
    writes = [msgspec.msgpack.decode(payload) for _, payload in read_records(path)]
    path.unlink()
    fields = {6: 4, 3: 3}
    with RecordLog.open(path) as log:
        for records in writes:
            old = [record[: fields.get(record[0])] for record in records]
            log.append(msgspec.msgpack.encode(old))
    frontier = rig.start()
    assert (len(frontier), frontier.crawl_counts) == (2, {})  # one is still to be skipped
    clock.advance(1000)
    assert rig.acquire().entry.url == entry("a.test", 2).url
    rig.close()


def test_an_outcome_that_was_written_as_a_status_counts():
    (record,) = records_in(msgspec.msgpack.encode([[3, 8, b"", 200, 5, False]]))
    counts = FrontierCounts()
    counts.ended(record)
    assert counts.crawl == {"fetch/bytes": 5, "outcome/http_200": 1}


def test_a_release_of_an_earlier_format_is_taken_up(jobdir, clock):
    rig = Rig(jobdir, clock)
    rig.push(entry("a.test", 1), entry("a.test", 2))
    rig.publish()
    assert rig.next() is not None
    rig.release("a.test", fetched=True, at_least=600.0)
    rig.kill()
    (path,) = sorted((jobdir / "done").iterdir())[-1:]
    writes = [msgspec.msgpack.decode(payload) for _, payload in read_records(path)]
    path.unlink()
    with_rest = {6: lambda host, at, min_rest, _: [2, host, at, 600.0, min_rest]}
    with RecordLog.open(path) as log:
        for records in writes:
            old = [
                with_rest[tag](*rest) if tag in with_rest else [tag, *rest]
                for tag, *rest in records
            ]
            log.append(msgspec.msgpack.encode(old))
    frontier = rig.start()
    assert frontier.acquire() is None
    assert frontier.ready_at() == clock() + 600.0
    rig.close()
