"""Snapshots of earlier formats are taken up, and saved in the present one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from frontier_rig import Rig, entry

from webcrawl.frontier.snapshot import VERSION, decode_snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import FakeClock

# How many members a snapshot of each format has: without shared clocks, without what is parked,
# without quiet.
MEMBERS = {1: 10, 2: 11, 3: 12}


@pytest.mark.parametrize("version", MEMBERS)
def test_a_snapshot_of_an_earlier_format_is_migrated(
    jobdir: Path, clock: FakeClock, version: int
) -> None:
    rig = Rig(jobdir, clock)
    rig.push(*(entry(f"host{number}.test", number) for number in range(20)))
    lease = rig.next()
    assert lease is not None
    rig.publish()
    assert rig.published is not None
    members = msgspec.msgpack.decode(rig.published)
    rig.kill()
    rig.published = msgspec.msgpack.encode([version, *members[1 : MEMBERS[version]]])
    frontier = rig.start()
    assert len(frontier) == 20
    assert frontier.check() == []
    rig.publish()
    assert decode_snapshot(rig.published).version == VERSION == max(MEMBERS) + 1
    rig.close()
