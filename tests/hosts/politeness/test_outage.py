"""Tests of outages: told from failing sites, without effect on hosts, and ended in time."""

from string import ascii_lowercase

import pytest
from scrapy.statscollectors import StatsCollector
from scrapy.utils.test import get_crawler
from text_tables import each

from webcrawl.hosts.politeness.outage import Outage
from webcrawl.hosts.politeness.pauses import Pauses


class Rig:
    """Outage detection for four hosts, with a probe every five seconds."""

    def __init__(self, clock, *, hosts=4):
        self.clock = clock
        self.woken = []
        self.checked = []
        self.forgotten = []
        self.ends = []
        self.stats = StatsCollector(get_crawler())
        self.pauses = Pauses(clock=clock, wake=lambda: self.woken.append(clock()))
        self.outage = Outage(
            hosts=hosts,
            probe_secs=5.0,
            end_secs=600.0,
            pauses=self.pauses,
            count=self.stats.inc_value,
            check=lambda host, then: self.checked.append((host, then)),
            forget=lambda: self.forgotten.append(clock()),
            end=lambda: self.ends.append(clock()),
            clock=clock,
        )

    def ended(self, host, outcome, *, has_answered=True, mute_secs=None):
        return self.outage.contact_ended(
            host, outcome, has_answered=has_answered, mute_secs=mute_secs
        )

    def answers(self, *hosts):
        for host in hosts:
            assert not self.ended(host, "http_200")

    def silent(self, *hosts, has_answered=True, outcome="connect_timeout"):
        return [self.ended(host, outcome, has_answered=has_answered) for host in hosts]

    def nameless(self, *hosts):
        return [self.outage.lookup_failed(host) for host in hosts]

    def work_later(self):
        """Advance to the next probe and make it."""
        self.clock.advance(5)
        self.outage.work()

    def found(self, *hosts):
        for host in hosts:
            self.outage.lookup_worked(host)

    def name_servers_say(self, could_say):
        """Answer for the name servers; return the host that they were asked for."""
        host, then = self.checked.pop()
        assert not self.checked
        then(could_say)
        return host

    @property
    def is_on(self):
        return bool(self.pauses.sentences)


@pytest.fixture
def rig(clock):
    return Rig(clock)


def test_failures_under_a_late_event_loop_are_no_outage(rig):
    rig.answers(*"abcdef")
    rig.found(*"abcdef")
    rig.outage.note_late_loop()
    rig.silent(*"abcdef", outcome="first_byte_timeout")
    rig.nameless(*"abcdef")
    rig.name_servers_say(False)
    assert not rig.is_on
    rig.answers("a")
    rig.clock.advance(60)
    rig.silent(*"abcd")
    assert rig.is_on


def test_when_all_known_hosts_fall_silent_the_crawl_pauses_for_one(rig):
    rig.answers(*"abcdef")
    assert rig.silent(*"abcd") == [False, False, False, True]
    assert rig.is_on
    assert rig.pauses
    assert " ".join(rig.pauses.sentences) == (
        "4 hosts in a row failed (connect_timeout 4): the network seems to be down. It is "
        "tried every 5 s; the crawl will continue automatically."
    )
    rig.answers("e")
    assert not rig.is_on
    assert rig.woken == [rig.clock()]
    assert rig.stats.get_value("outage/count") == 1
    assert rig.stats.get_value("outage/excused") == 1


def test_one_host_is_tried_at_a_time_and_its_failure_does_not_count(rig):
    rig.answers(*"abcdef")
    rig.silent(*"abcd")
    for _ in range(3):
        assert rig.pauses
        rig.clock.advance(5)
        assert not rig.pauses
        rig.outage.note_contact()
        assert rig.pauses
        assert rig.silent("e", has_answered=False) == [True]
    assert rig.stats.get_value("outage/probes") == 3


@each(
    "events is_on",
    ("silent:abcd", True),
    ("silent:aaaabbbccabc", False),  # hosts that fail often
    ("silent:abc http_200:z silent:def http_200:z silent:ghi", False),
    ("dead:mnopqrstuvw", False),
    ("connection_lost:abcdef", False),  # a ban
    ("silent:abcd connection_lost:e", False),
    *((f"silent:abc {one}:d silent:ef", False) for one in ("http_503", "tls_failed", "bad_answer")),
    *((f"silent:abc {one}:d silent:e", True) for one in ("other", "ignored", "address_forbidden")),
)
def test_hosts_in_a_row_that_answered_before_and_fail_are_an_outage(rig, events, is_on):
    rig.answers(*"abcdef")
    for event in events.split():
        what, _, hosts = event.partition(":")
        outcome = "connect_timeout" if what in ("silent", "dead") else what
        for host in hosts:
            rig.ended(host, outcome, has_answered=what != "dead")
    assert rig.is_on == is_on


def test_as_long_as_no_host_has_answered_every_host_counts(rig):
    rig.silent(*"abcd", has_answered=False)
    assert rig.is_on


def test_a_small_crawl_needs_all_of_its_hosts_and_three_at_least(clock):
    rig = Rig(clock, hosts=20)
    rig.answers("a", "b")
    rig.silent("a", "b")
    assert not rig.is_on
    rig.answers("a", "b", "c", "d")
    rig.silent("a", "b", "c")
    assert not rig.is_on
    rig.silent("d")
    assert rig.is_on


def test_hosts_that_accept_a_connection_and_send_nothing_are_no_outage(rig):
    def mute(*hosts):
        for host in hosts:
            rig.clock.advance(1)
            yield rig.ended(host, "first_byte_timeout", mute_secs=1.0)

    rig.answers(*"abcdef")
    assert not any(mute(*"abcdef"))
    assert not rig.is_on
    rig.silent(*"abcd")
    assert rig.is_on
    # It was begun before the outage.
    assert rig.ended("e", "first_byte_timeout", mute_secs=9.0)
    assert rig.is_on
    assert [*mute("f")] == [False]
    assert not rig.is_on


def test_name_servers_that_do_not_find_what_they_found_before_are_gone(rig):
    rig.found(*"abcd")
    for host in "efgh":
        assert not rig.is_on
        rig.nameless(host)
        rig.answers("a")  # whose address is known
    rig.nameless("i")  # they are asked once
    assert rig.name_servers_say(False) == "d"
    assert "(dns_failed 5): the name service seems to be down" in rig.pauses.sentences[0]
    for known in "cb":  # another one each time, as that one may be gone
        rig.outage.work()
        rig.clock.advance(5)
        assert rig.pauses, "nobody is contacted meanwhile"
        rig.outage.work()
        assert rig.name_servers_say(False) == known
        assert rig.nameless("e", "e") == [True, True]
    rig.work_later()
    rig.name_servers_say(True)
    assert not rig.is_on
    rig.outage.work()
    assert rig.checked == []


def test_name_servers_that_find_what_they_found_before_are_not(rig):
    rig.found(*"abcd")
    for _ in range(3):
        assert not any(rig.nameless(*"efgh"))
        rig.name_servers_say(True)
    assert not rig.is_on
    assert not rig.stats.get_value("outage/count")


@each("is_late", False, True)
def test_the_first_look_up_without_an_answer_is_an_outage(rig, is_late):
    if is_late:
        rig.outage.note_late_loop()
    assert rig.nameless("a") == [True]
    assert rig.pauses.sentences[0] == (
        "1 host failed (dns_failed 1): the name service seems to be down. It is tried every 5 s; "
        "the crawl will continue automatically. No host name was ever found: check the network "
        "and DNS_SERVERS."
    )
    rig.nameless(*"bc")
    for name in "cba":  # each may really be gone
        rig.work_later()
        assert rig.name_servers_say(False) == name
        assert rig.is_on
    rig.work_later()
    rig.name_servers_say(True)
    assert not rig.is_on
    assert rig.outage.known_names == ["c"]
    assert rig.forgotten == [rig.clock()]
    assert rig.nameless("d") == [False]


def test_other_hosts_are_tried_until_a_name_is_found(rig):
    rig.nameless("a")
    for name in "bcd":
        assert rig.pauses
        rig.clock.advance(5)
        assert not rig.pauses
        rig.nameless(name)
    rig.clock.advance(5)
    rig.found("e")
    assert not rig.is_on


def test_a_host_that_answers_shows_that_a_look_up_failed_by_itself(rig):
    rig.nameless("a")
    rig.answers("192.0.2.1")
    assert not rig.is_on
    assert rig.nameless(*"abc") == [False] * 3


@each("works", True, False)
def test_the_first_name_that_is_denied_is_believed_after_a_probe(rig, works):
    assert rig.outage.is_untried
    rig.outage.lookup_failed("a", "dns_not_found")
    assert not rig.is_on
    rig.outage.lookup_failed("b", "dns_not_found")
    assert rig.name_servers_say(works) == "a"
    assert rig.is_on is not works
    assert rig.outage.is_untried is not works
    if not works:
        assert rig.pauses.sentences[0].startswith("2 hosts in a row failed (dns_not_found 2): ")
        rig.work_later()
        rig.name_servers_say(True)
        assert rig.forgotten
    assert not rig.outage.is_untried


@each("known", ([], True), (["x"], False))
def test_name_servers_that_worked_before_are_believed(rig, known):
    names, has_answered = known
    rig.outage.open(names, has_answered=has_answered)
    assert not rig.outage.is_untried
    assert rig.nameless("a") == [False]


def test_names_of_an_earlier_run_show_whether_names_are_found(rig):
    rig.outage.open(["x", "y"], has_answered=True)
    rig.nameless(*"abc")
    assert rig.name_servers_say(True) == "y"
    assert not rig.is_on


def test_answer_that_comes_while_they_are_asked_is_as_good(rig):
    rig.found(*"abcd")
    rig.nameless(*"efgh")
    rig.found("e")
    rig.name_servers_say(False)
    assert not rig.is_on


def test_network_and_name_servers_recover_independently(rig):
    rig.answers(*"abcd")
    rig.silent(*"abcd")
    rig.nameless(*"efgh")
    rig.name_servers_say(False)
    assert len(rig.pauses.sentences) == 2
    rig.clock.advance(5)
    assert rig.pauses, "who would be contacted cannot be found"
    rig.found("e")
    assert len(rig.pauses.sentences) == 1
    assert not rig.pauses
    rig.answers("e")
    assert not rig.is_on


def test_no_outage_is_detected_when_switched_off(clock):
    rig = Rig(clock, hosts=0)
    assert not any(rig.silent(*ascii_lowercase) + rig.nameless(*ascii_lowercase))
    rig.found("a")
    assert not rig.is_on


@each("answered", "never", "in this run", "in an earlier run")
def test_a_crawl_that_no_host_ever_answered_ends_after_a_while(rig, answered):
    rig.outage.open([], has_answered=answered == "in an earlier run")
    if answered == "in this run":
        rig.answers("a")
    rig.silent("w", "x", "y", "z")
    assert rig.is_on
    rig.clock.advance(599)
    rig.outage.work()
    assert not rig.ends
    rig.clock.advance(1)
    rig.outage.work()
    assert bool(rig.ends) is (answered == "never")
