"""Tests of origins that fail while their host answers elsewhere: which URLs wait, and how long."""

import pytest
from frontier_rig import Rig
from host_rig import Records
from text_tables import each

from webcrawl.frontier import Entry, Supply, encode
from webcrawl.frontier.admission import Admission
from webcrawl.hosts.politeness import origin_rests
from webcrawl.hosts.politeness.origin_rests import OriginRests
from webcrawl.hosts.records import HostRecord

CLOSED, OPEN = (Entry(f"http://a.test{port}/page", "a.test") for port in (":81", ""))


@pytest.fixture
def rests(clock):
    return OriginRests(records=Records(), clock=clock)


def test_an_origin_rests_and_no_other_of_its_host(rests, clock):
    rests.rest("http://a.test:81", 10.0)
    assert rests.hold(CLOSED)
    assert not rests.hold(OPEN)
    assert rests.stop(CLOSED)
    clock.advance(9.9)
    assert not rests.advance(Supply.NOW)
    clock.advance(1.0)
    assert not rests.hold(CLOSED)
    assert rests.advance(Supply.NOW)
    assert not rests.advance(Supply.NOW)


def on(port, number=0):
    return Entry(f"http://a.test:{port}/{number}", "a.test")


def test_ports_of_a_host_that_never_answered_have_turns(rests, clock):
    assert not rests.advance(Supply.NOW)
    assert not rests.hold(on(1))
    assert not rests.stop(on(1))
    assert rests.hold(on(2))
    for number in range(3):
        assert rests.hold(on(3, number))
    assert not rests.hold(OPEN)
    assert not rests.hold(Entry("http://b.test:2/", "b.test"))
    assert not rests.advance(Supply.NOW)  # the turn of port 1 is not over
    rests.end_contact(on(1).url, 5.0)
    assert rests.stop(on(4))  # nothing new goes first
    clock.advance(1.0)
    assert rests.advance(Supply.NOW)
    assert not rests.hold(on(3))  # most of all wait for that one
    assert rests.hold(on(2))


def test_ports_have_no_turns_once_one_has_answered_or_their_host_is_given_up(clock):
    for record in (
        HostRecord("a.test", proven=["http://:1"]),
        HostRecord("a.test", penalty_until=1.0),
    ):
        records = Records()
        rests = OriginRests(records=records, clock=clock)
        assert not rests.hold(on(1))
        assert rests.hold(on(2))
        records.put(record)
        assert not rests.hold(on(2))


@each("supply secs", (Supply.NONE, 1), (Supply.NOW, 61))
def test_a_turn_without_a_contact_ends(rests, clock, supply, secs):
    rests.advance(Supply.NOW)
    assert not rests.hold(on(1))
    assert rests.hold(on(2))
    clock.advance(1.0)
    assert not rests.advance(Supply.LATER)
    clock.advance(secs)
    assert rests.advance(supply)
    assert not rests.hold(on(2))


def test_counts_for_turns_are_bounded(rests, clock, monkeypatch):
    monkeypatch.setattr(origin_rests, "_ORIGINS", 2)
    rests.advance(Supply.NOW)
    hosts = [f"{name}.test" for name in "abc"]
    first, second = ([Entry(f"http://{host}:{port}/", host) for host in hosts] for port in (1, 2))
    assert [rests.hold(entry) for entry in [*first, *second]] == [False] * 3 + [True] * 3
    for entry in first:
        rests.end_contact(entry.url, 0.0)
    clock.advance(1.0)
    assert rests.advance(Supply.NOW)
    # Two were counted.
    assert [rests.hold(entry) for entry in second] == [False, False, True]


def test_a_rest_is_found_again_in_the_record(clock):
    records = Records()
    records.put(HostRecord("http://a.test:81", ready_at=clock() + 10))
    rests = OriginRests(records=records, clock=clock)
    assert rests.stop(CLOSED)
    assert rests.hold(CLOSED)
    clock.advance(10)
    assert not rests.stop(CLOSED)


def test_passes_over_many_held_urls_are_rare(rests, clock):
    assert not rests.advance(Supply.NOW)
    rests.rest("http://a.test:81", 5.0)
    for _ in range(100_000):
        assert rests.hold(CLOSED)
    clock.advance(9.0)
    assert not rests.advance(Supply.NOW)
    clock.advance(1.1)
    assert rests.advance(Supply.NOW)


def test_the_oldest_of_too_many_rests_are_forgotten(clock, monkeypatch):
    monkeypatch.setattr(origin_rests, "_ORIGINS", 2)
    rests = OriginRests(records=Records(), clock=clock)
    for port in (81, 82, 83):
        rests.rest(f"http://a.test:{port}", 10.0)
    assert not rests.hold(CLOSED)
    assert rests.hold(Entry("http://a.test:82/", "a.test"))


def test_a_crawl_does_not_end_before_origin_rests_are_over(rests, jobdir, clock):
    rig = Rig(jobdir / "frontier", clock)
    admission = Admission(frontier=rig.frontier, gates=[rests])
    rests.rest("http://a.test:81", 10.0)
    admission.push([encode(CLOSED)])
    assert not admission.work(Supply.NONE)
    assert admission.may_admit
    clock.advance(10.0)
    assert admission.work(Supply.NONE)
    assert not admission.may_admit
    assert len(rig.drain()) == 1
    rig.close()
