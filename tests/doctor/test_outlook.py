"""How long the queues of hosts take at least and at most, of a real frontier with host records."""

from types import SimpleNamespace

import pytest
from frontier_rig import Rig, entry
from records_rig import PatientExecutor, opened
from text_tables import cases

from webcrawl.doctor.outlook import Paces, sample_of
from webcrawl.frontier import encode
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
    found = sample_of(Held([shard]), quotas, Paces(clock=shard.clock))
    assert [found.min_secs, found.max_secs, found.bound] == [min_secs, max_secs, float(bound)]


def test_of_parked_urls_those_that_the_crawl_will_release_are_left(shard):
    quotas = {"host": Quota(0, 0), "domain": Quota(0, 0)}
    shard.frontier.parked.push("host_budget", [encode(entry("b.test", n)) for n in range(4)])
    shard.admission.postponed["host_budget"] = 3
    found = sample_of(Held([shard]), quotas, Paces(clock=shard.clock))
    assert (found.known, found.held) == (3 + 3, 1)


def test_the_time_per_url_is_measured_without_waits_for_workers(clock):
    paces = Paces(clock=clock)
    assert paces.measure({"a.test": (100, False)}) == {}
    for begun, is_waiting in ((101, False), (101, True), (103, False)):
        clock.advance(10.0)
        found = paces.measure({"a.test": (begun, is_waiting)})
    assert found == {"a.test": 20.0 / 3}
    paces.clear()
    assert paces.measure({"a.test": (104, False)}) == {}


def test_a_measured_time_per_url_counts_and_the_host_is_named(shard, clock):
    paces = Paces(clock=clock)
    quotas = {"host": Quota(0, 0), "domain": Quota(0, 0)}
    assert sample_of(Held([shard]), quotas, paces).tail == ("a.test", 3, 3 * 21.0)
    for _ in range(3):
        record = shard.hosts.records.get("a.test")
        record.begun += 1
        shard.hosts.records.put(record)
    clock.advance(90.0)
    assert sample_of(Held([shard]), quotas, paces).tail == ("a.test", 3, 90.0)
