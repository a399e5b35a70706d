"""Tests that snapshots of earlier formats are restored, and saved in the current one."""

import msgspec
import pytest
from frontier_rig import entry
from text_tables import each

from webcrawl.configuration.decoding import UndecodableError
from webcrawl.frontier.snapshot import VERSION, decode_snapshot
from webcrawl.storage.record_log import RecordLog, read_records

# How many members a snapshot of each format has: with nothing forgotten, without compressed frames,
# without what is due.
MEMBERS = {6: 13, 7: 14, 8: 14, 9: 15}


@each("version", *MEMBERS)
def test_a_snapshot_of_an_earlier_format_is_migrated(rig, clock, version):
    rig.spread(20)
    rig.next()
    rig.publish()
    members = msgspec.msgpack.decode(rig.published)
    rig.kill()
    members[12] = 2000.0
    rig.published = msgspec.msgpack.encode([version, *members[1 : MEMBERS[version]]])
    rig.unknown = {"unlogged_rest": 60.0}
    frontier = rig.start()
    assert len(frontier) == 20
    assert (frontier.acquire() is None) == (version == 6)
    clock.advance(60.0)
    assert frontier.acquire() is not None
    rig.publish()
    assert decode_snapshot(rig.published).version == VERSION == max(MEMBERS) + 1


def as_before(rig, change):
    """Kill the process and pass each record of its done log through *change*."""
    rig.kill()
    path = max((rig.path / "done").iterdir())
    writes = [msgspec.msgpack.decode(payload) for _, payload in read_records(path)]
    path.unlink()
    with RecordLog.open(path) as log:
        for records in writes:
            log.append(msgspec.msgpack.encode([change(*record) for record in records]))


def test_records_without_counts_are_restored(rig, clock):
    rig.fill("a.test", 2)
    rig.publish()
    rig.fetch(rig.acquire())
    fields = {6: 3, 3: 2}
    as_before(rig, lambda tag, *rest: [tag, *rest[: fields.get(tag)]])
    frontier = rig.start()
    assert (len(frontier), frontier.counts.crawl) == (2, {})  # one is still to be skipped
    clock.advance(1000)
    assert rig.acquire().entry.url == entry("a.test", 1).url


def test_a_snapshot_of_before_the_first_version_is_refused():
    with pytest.raises(UndecodableError, match=r"written before webcrawl 0\.1"):
        decode_snapshot(msgspec.msgpack.encode([5, 0.0]))
