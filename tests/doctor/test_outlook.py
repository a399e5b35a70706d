"""How long the queues of hosts take at least and at most, of a real frontier with host records."""

from types import SimpleNamespace

import pytest
from frontier_rig import Rig
from records_rig import PatientExecutor, opened
from text_tables import cases

from webcrawl.doctor.outlook import sample_of
from webcrawl.hosts.budgets.quotas import Quota


class Held(list):
    """The shards of a process."""

    def stats(self):
        return self[0].frontier.stats()


@pytest.fixture
def shard(tmp_path, clock):
    """A shard with three URLs of one host, which takes 21 s for each and pauses for at least 18."""
    rig = Rig(tmp_path / "frontier", clock)
    records = opened(tmp_path / "hosts", PatientExecutor())
    rig.fill("a.test", 4)
    lease = rig.next()
    clock.advance(1.0)
    rig.frontier.contacts.release(lease.key, rest=20.0, min_rest=18.0)
    rig.frontier.leases.finish(lease)
    yield SimpleNamespace(
        clock=clock,
        frontier=rig.frontier,
        admission=SimpleNamespace(postponed={}),
        hosts=SimpleNamespace(records=records),
        settings=SimpleNamespace(key="host"),
    )
    records.close()
    rig.frontier.close()


@cases(
    "allowed min_secs max_secs bound",
    """
        0 | 56 | 104 | inf
        2 | 38 | 83  | 62
    """,
)
def test_a_queue_takes_a_pause_between_its_urls(shard, allowed, min_secs, max_secs, bound):
    quotas = {"host": Quota(allowed, 0), "domain": Quota(0, 0)}
    found = sample_of(Held([shard]), quotas)
    assert [found.min_secs, found.max_secs, found.bound] == [min_secs, max_secs, float(bound)]
