"""Tests of pauses: reasons for which no host is contacted."""

import pytest

from webcrawl.hosts.politeness.pauses import Pauses


@pytest.fixture
def woken():
    return []


@pytest.fixture
def pauses(clock, woken):
    return Pauses(clock=clock, wake=lambda: woken.append(clock()))


def test_without_a_pause_there_are_no_stats(pauses):
    assert not pauses
    assert pauses.sentences == []
    assert pauses.stats() == {}
    assert not pauses.lift("disk")


def test_the_crawl_goes_on_when_the_last_reason_is_gone(pauses, clock, woken):
    assert pauses.hold("disk", "It is full.")
    clock.advance(1)
    assert pauses.hold("network", "It is down.")
    assert pauses.sentences == ["It is full.", "It is down."]
    clock.advance(2)
    assert pauses.lift("disk")
    assert pauses
    assert woken == []
    clock.advance(4)
    assert pauses.stats() == {
        "pauses/disk_secs": 3.0,
        "pauses/network_secs": 6.0,
        "pauses/now": "It is down.",
    }
    assert pauses.lift("network")
    assert not pauses
    assert woken == [clock()]
    assert pauses.stats()["pauses/now"] == ""


def test_a_reason_that_holds_takes_a_new_sentence_and_keeps_its_start(pauses, clock):
    pauses.hold("disk", "100 MiB are free.")
    clock.advance(5)
    assert not pauses.hold("disk", "90 MiB are free.")
    assert pauses.sentences == ["90 MiB are free."]
    clock.advance(5)
    pauses.lift("disk")
    clock.advance(5)
    pauses.hold("disk", "80 MiB are free.")
    clock.advance(1)
    assert pauses.stats()["pauses/disk_secs"] == 11.0
