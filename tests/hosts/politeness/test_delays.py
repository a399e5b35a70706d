"""Tests of how a host's history sets its rest: records, back-off, penalty, profiles."""

import dataclasses
import math
import random
from functools import partial

import pytest
from host_rig import Records
from hypothesis import given
from hypothesis import strategies as st
from scrapy.settings import Settings
from scrapy.utils.project import get_project_settings
from text_tables import each

from webcrawl import settings as project
from webcrawl.frontier import HostFacts, LargestDelay
from webcrawl.hosts.host_rules import HostRules
from webcrawl.hosts.politeness.delays import (
    PROFILES,
    Politeness,
    PolitenessLimits,
    profile_of,
)
from webcrawl.hosts.politeness.host_policies import HostDelays
from webcrawl.hosts.politeness.refusals import Refusals
from webcrawl.hosts.retry_policy import RetryPolicy

POLICY = LargestDelay(factor=10, floor=3, ceiling=120, backoff=10, backoff_max=3600)
LIMITS = PolitenessLimits(0.0, math.inf, "cap", 86_400.0, penalty=1000.0)
HOST = "a.test"


class Polite(Politeness):
    """Politeness for one domain, HOST."""

    def ended(
        self,
        outcome="http_200",
        *,
        host=HOST,
        url="",
        took=0.1,
        crawl_delay=0.0,
        retry_after=0.0,
        hung_up=False,
    ):
        return self.rest_after(
            HOST,
            url or f"http://{host}/",
            took=took,
            outcome=outcome,
            crawl_delay=crawl_delay,
            retry_after=retry_after,
            hung_up=hung_up,
        )

    def secs(self, outcome="http_200", **contact):
        return self.ended(outcome, **contact).secs

    def rests(self, times, outcome, **contact):
        return [self.secs(outcome, **contact) for _ in range(times)]

    def lookup_fails(self, host=HOST, *, at_least=0.0):
        return self.lookup_failed(HOST, f"http://{host}/", at_least=at_least)

    def fails(self, host=HOST):
        return self.refusal(HOST, f"http://{host}/")


def polite_in(records, clock, *, policy=POLICY, backoff=0.0, most=4, rng=None, **limits):
    return Polite(
        # No host has rules of its own.
        policy=HostDelays(policy=policy, rules=HostRules.from_settings(get_project_settings())),
        records=records,
        clock=clock,
        rng=rng or random.Random(1),
        retries=RetryPolicy(times=2, backoff=backoff, max_failures=most),
        limits=dataclasses.replace(LIMITS, **limits),
    )


@pytest.fixture
def records():
    return Records()


@pytest.fixture
def polite_of(clock, records):
    return partial(polite_in, records, clock)


@pytest.fixture
def polite(polite_of):
    return polite_of()


def test_the_average_of_the_last_five_downloads_counts(polite, records):
    for _ in range(9):
        assert polite.secs(took=1.0) == 10
    assert polite.secs(took=3.5) == 15
    assert records.get(HOST).took == [1.0, 1.0, 1.0, 1.0, 3.5]


@each(
    "outcome counts",
    ("http_429", True),
    ("http_503", True),
    ("challenged", True),
    ("walled", True),
    ("connection_lost", True),
    ("http_200", False),
    ("http_404", False),
)
def test_hosts_that_rest_for_a_refusal_are_counted(polite, clock, outcome, counts):
    secs = polite.secs(outcome)
    queues = {HOST: ["http://www.a.test/"]}
    assert polite.refusals.count_resting(queues) == ({outcome: 1} if counts else {})
    assert not polite.refusals.count_resting({HOST: []})
    clock.advance(secs)
    assert not polite.refusals.count_resting(queues)


def test_refusals_in_memory_are_bounded(clock):
    refusals = Refusals(clock)
    queues = {f"{number}.test": ["http://a.test/"] for number in range(20_000)}
    for host in queues:
        refusals.note(host, "http_429", 60.0)
    assert refusals.count_resting(queues) == {"http_429": 1 << 14}


def test_waits_are_from_the_end_of_a_contact_to_the_beginning_of_the_next(clock, polite, polite_of):
    found = []
    for secs, outcome, took in (
        (0, "http_200", 0.3),
        (9.0, "connect_timeout", 5.0),  # 9 s later it is over: it began after 4 s
        (100, "http_200", 0.1),
        (0.05, "http_200", 0.1),  # the clock was set back
        (3.2, "dns_failed", 0.1),
    ):
        clock.advance(secs)
        found.append(polite.ended(outcome, took=took).stat.removeprefix("politeness/waits/"))
    assert found == ["hosts/contacted", "0.25/4", "4/64", "", "0.0625/2"]
    # What lies between two runs was no wait.
    clock.advance(9)
    assert polite_of().ended().stat == ""


def test_a_floor_that_is_set_while_the_crawl_runs_holds_at_once(polite_of):
    policy = dataclasses.replace(POLICY)
    polite = polite_of(policy=policy)
    assert polite.secs() == 3
    policy.floor = 9.0
    assert polite.secs() == 9


@given(st.lists(st.floats(0, 100), min_size=1, max_size=20))
def test_a_next_rest_is_bounded_by_the_shortest_and_the_contact_s_own(times):
    polite = polite_in(Records(), lambda: 0.0)
    min_rest = 0.0
    for took in times:
        rest = polite.ended(took=took)
        assert rest.secs <= max(min_rest, POLICY.rest(HostFacts([took]))) * (1 + 1e-9)
        min_rest = rest.min_rest


@each("outcome", "tls_failed", "timeout", "connection_lost", "http_503")
def test_failures_in_a_row_back_off_and_a_success_ends_that(polite, outcome):
    assert [polite.secs(outcome) for _ in range(3)] == [10, 20, 40]
    assert polite.secs() == 3
    assert polite.secs(outcome) == 10


def test_a_failed_contact_says_nothing_about_download_times(polite, records):
    polite.ended("timeout", took=60.0)
    assert records.get(HOST).took == []
    polite.ended("http_404", took=1.0)
    assert records.get(HOST).took == [1.0]
    assert records.get(HOST).pages == 0
    polite.ended(took=1.0)
    assert records.get(HOST).pages == 1


def test_crawl_delay_and_retry_after_are_honoured_up_to_their_limits(polite_of):
    polite = polite_of(crawl_delay=300.0, retry_after=500.0)
    assert polite.secs(crawl_delay=299.0) == 299
    assert polite.secs(crawl_delay=1e9) == 300
    assert polite.secs("http_429", retry_after=499.0) == 499
    assert polite.secs("http_429", retry_after=1e12) == 500


@each("what secs", ("cap", 300), ("obey", 1000), ("skip", 3))
def test_a_long_crawl_delay_is_capped_or_obeyed_or_the_host_skipped(polite_of, what, secs):
    polite = polite_of(crawl_delay=300.0, long_crawl_delay=what)
    assert polite.secs(crawl_delay=1000.0) == secs
    assert polite.secs(crawl_delay=300.0) == 300
    assert polite.should_skip(300.1) is (what == "skip")
    assert not polite.should_skip(300.0)


def test_a_host_that_fails_too_often_is_not_contacted_for_the_penalty(polite, clock):
    for _ in range(3):
        polite.ended("connect_refused")
        assert not polite.fails()
    # Its URLs are told at once: nothing is asked of it anyway.
    assert polite.secs("connect_refused") == 3
    assert polite.fails()
    clock.advance(999)
    assert polite.fails()
    clock.advance(1)
    assert not polite.fails()
    polite.ended("connect_refused")
    assert polite.fails()
    clock.advance(1000)
    polite.ended()
    assert not polite.fails()


def test_failing_hosts_make_their_domain_rest_and_spare_the_others(polite):
    dead, other = f"dead.{HOST}", f"www.{HOST}"
    assert polite.rests(3, "connection_lost", host=dead) == [10, 20, 40]
    assert not polite.fails(dead)
    polite.ended("connection_lost", host=dead)
    assert polite.fails(dead)
    assert not polite.fails(other)
    # The domain has nothing more to fear of that host, and begins anew with the next one.
    assert polite.secs("connection_lost", host=f"also.{dead}") == 10
    assert polite.secs(host=other) == 3
    assert polite.secs("connect_refused", host=other) == 10
    for _ in range(3):
        polite.lookup_fails(f"gone.{HOST}")
    assert polite.is_lost(f"gone.{HOST}")
    assert not polite.is_lost(other)
    assert not polite.is_lost(HOST)


def test_an_origin_that_fails_beside_one_that_answers_backs_off_alone(polite, clock, records):
    closed, mute = f"http://{HOST}:81/", f"ftp://{HOST}/"
    for url in (closed, mute, ""):
        polite.ended(url=url)
    rests = [polite.ended("connect_refused", url=closed) for _ in range(3)]
    assert [(rest.secs, rest.min_rest, rest.origin) for rest in rests] == [
        (3, 3, 10),
        (3, 3, 20),
        (3, 3, 40),
    ]
    assert records.get(f"http://{HOST}:81").ready_at == clock() + 40
    # What it took says nothing about the others.
    rest = polite.ended("connect_timeout", url=mute, took=60.0)
    assert (rest.secs, rest.origin) == (3, 120)
    polite.ended("connect_refused", url=closed)
    assert polite.refusal(HOST, closed)
    assert not polite.refusal(HOST, mute)
    assert not polite.fails()
    # It has its own word on how it is asked, and the host's when it fails itself.
    assert polite.secs("http_429", url=f"https://{HOST}/", retry_after=50.0) == 50
    assert polite.secs("http_503") == 10
    assert polite.secs("connect_refused", url=mute) == 20


def test_one_failure_is_enough_of_an_origin_that_never_answered(clock, polite_of):
    polite = polite_of(backoff=10.0)
    closed = f"http://{HOST}:81/"
    # The first origin of its host keeps all its tries.
    polite.ended("connect_refused", url=closed)
    assert not polite.is_final(closed, "connect_refused")
    polite.ended()
    assert not polite.refusal(HOST, closed)
    assert polite.is_final(closed, "connect_refused")
    # Its host rests no longer for it, though its own origin has just failed, too.
    assert polite.secs("connect_refused") == 10
    rest = polite.ended("first_byte_timeout", url=closed, took=30.0)
    assert (rest.secs, rest.min_rest, rest.origin, rest.is_alone) == (3, 3, 0, True)
    assert polite.min_rest(HOST, closed, crawl_delay=0.0) == 3
    assert polite.refusal(HOST, closed) == "first_byte_timeout"
    assert not polite.fails()
    again = polite_of()
    assert again.refusal(HOST, closed) == "first_byte_timeout"
    clock.advance(1000)
    assert not again.refusal(HOST, closed)
    # What answers with a failure does answer.
    polite.ended("http_503", url=closed)
    assert not polite.is_final(closed, "connect_refused")


def test_the_first_contact_of_a_host_counts_it(polite, polite_of):
    assert polite.ended().stat == polite.ended(host=f"www.{HOST}").stat == "hosts/contacted"
    assert polite_of().ended().stat == polite_of().ended(host=f"www.{HOST}").stat == ""


def test_another_host_of_a_domain_that_answers_keeps_its_tries(polite):
    polite.ended(host=f"www.{HOST}")
    assert not polite.is_final(f"http://{HOST}/", "connect_refused")
    polite.ended("connect_refused")
    assert not polite.fails()


def test_endless_ports_take_bounded_room_in_a_record(polite, records):
    for port in range(1000):
        polite.ended(url=f"http://{HOST}:{port}/")
    assert len(records.get(HOST).proven) == 16


@each("outcome", "connect_refused", "first_byte_timeout")
def test_forty_closed_ports_do_not_make_their_host_fail(polite_of, outcome):
    polite = polite_of(most=8)
    for port in range(40):
        for _ in range(3):
            rest = polite.ended(outcome, url=f"http://{HOST}:{port}/")
    # Nothing answers there, which says nothing about the other ports.
    assert (rest.secs, rest.origin, rest.is_alone) == (3, 40, True)
    assert not polite.fails()
    # No more than that while nothing at all answers.
    for _ in range(8):
        polite.ended(outcome, url=f"http://{HOST}:81/")
    assert polite.refusal(HOST, f"http://{HOST}:9000/")
    polite.ended()
    assert not polite.refusal(HOST, f"http://{HOST}:9000/")


def test_a_failed_look_up_backs_off_as_long_as_its_answer_is_cached(polite):
    assert polite.lookup_fails() == 10
    assert polite.lookup_fails(at_least=30.0) == 30
    assert polite.lookup_fails() == 40


def test_a_host_that_is_not_found_is_lost_until_a_contact_succeeds(polite):
    assert [polite.lookup_fails() and polite.is_lost(HOST) for _ in range(3)] == [
        False,
        False,
        True,
    ]
    polite.ended()
    assert not polite.is_lost(HOST)


@each("outcome", "http_503", "connect_refused")
def test_other_failures_do_not_make_a_failed_look_up_final(polite, outcome):
    polite.rests(2, outcome)
    assert polite.lookup_fails() == 40
    assert not polite.is_lost(HOST)
    for _ in range(2):
        polite.lookup_fails()
    assert polite.is_lost(HOST)
    polite.ended(outcome)
    assert not polite.is_lost(HOST)


def test_a_failure_keeps_its_host_waiting_for_as_long_as_its_rule_says(polite_of):
    polite = polite_of(backoff=20.0)
    # Not a failure of the host: nothing is doubled, and its patience is not used up.
    assert polite.rests(9, "http_408") == [20] * 9
    assert not polite.fails()
    assert polite.rests(2, "http_429") == [60, 60]
    assert polite.secs("connect_refused") == 40
    assert polite.lookup_failed("b.test", "http://b.test/", at_least=0.0) == 20


def test_failures_are_limited_by_kind_and_in_total(polite_of):
    polite = polite_of()

    def given_up_after(*outcomes):
        given_up = None
        for number, outcome in enumerate(outcomes, 1):
            polite.ended(outcome)
            if polite.fails():
                given_up = number
                break
        polite.ended()
        assert not polite.fails()
        return given_up

    assert given_up_after("connect_timeout", "connect_timeout") == 2
    assert given_up_after("connect_timeout", "http_503", "connect_timeout") is None
    assert given_up_after("connect_timeout", "http_503", "tls_failed", "connect_timeout") == 4
    assert given_up_after(*["http_503"] * 8) == 4
    assert given_up_after("connect_refused", *["http_503"] * 8) == 4


def test_after_hanging_up_the_server_gets_time_to_notice(polite):
    assert polite.secs(hung_up=True) == polite.secs() + 0.1
    assert [polite.shared_rest(1.0, hung_up=hung_up) for hung_up in (False, True)] == [10.0, 10.1]


def test_a_host_whose_look_ups_fail_too_often_is_left_alone(polite):
    for _ in range(4):
        assert not polite.fails()
        polite.lookup_fails()
    assert polite.fails()


def test_a_restart_continues_from_the_record(polite, polite_of):
    polite.rests(2, "connect_refused")
    assert polite_of().ended("connect_refused").origin == 40


@given(st.integers())
def test_jitter_only_adds_and_no_more_than_its_share(seed):
    polite = polite_in(Records(), lambda: 0.0, jitter=0.1, rng=random.Random(seed))
    assert 10 <= polite.secs(took=1.0) <= 11


def test_hosts_do_not_fall_into_step(polite_of):
    polite = polite_of(jitter=0.1)
    rests = {polite.secs(took=1.0) for _ in range(20)}
    assert len(rests) == 20
    assert max(rests) - min(rests) > 0.5


# --- settings


def chosen(**values):
    return profile_of(
        Settings({name: getattr(project, name) for name in dir(project) if name.isupper()} | values)
    )


@each("name", *PROFILES)
def test_a_profile_is_used_unchanged(name):
    assert chosen(POLITENESS_PROFILE=name) == PROFILES[name]


def test_settings_override_the_profile():
    profile = chosen(
        POLITENESS_PROFILE="nielsen", POLITENESS_MIN_DELAY="7", POLITENESS_KEY="address"
    )
    assert profile == PROFILES["nielsen"]._replace(floor=7.0, key="address")


@each("delay floor ceiling", (1, 3, 120), (30, 30, 120), (200, 200, 200))
def test_download_delay_is_a_floor_too(delay, floor, ceiling):
    profile = chosen(DOWNLOAD_DELAY=delay)
    assert (profile.floor, profile.ceiling) == (floor, ceiling)


def test_the_profiles_are_those_of_their_sources():
    mercator, nielsen, mischel = (
        LargestDelay(
            factor=one.factor, floor=one.floor, ceiling=one.ceiling, unmeasured=one.unmeasured
        )
        for one in PROFILES.values()
    )
    assert mercator.rest(HostFacts([1.5])) == 15
    assert nielsen.rest(HostFacts([1.5])) == nielsen.rest(HostFacts([0.1] * 5)) == 70
    assert mischel.rest(HostFacts([1.5] * 4)) == 60
    assert mischel.rest(HostFacts([1.5] * 5)) == 15
    assert mischel.rest(HostFacts([20.0] * 5)) == 20


def test_a_host_that_challenges_is_given_up_soon_and_tried_slower_then(clock, polite_of):
    polite = polite_of(backoff=10.0, most=8)
    assert polite.secs() == 3
    assert polite.rests(2, "challenged") == [300, 300]
    assert polite.fails() == ""
    polite.ended("challenged")
    assert polite.fails() == "challenged"
    clock.advance(1001)
    assert polite.fails() == ""
    # Half as slow with each page.
    assert polite.rests(4, "http_200") == [12, 6, 3, 3]


def test_a_wall_is_an_answer_of_its_origin_and_a_soft_error_no_failure(polite, records):
    secure = f"https://{HOST}/"
    polite.ended()
    polite.ended("challenged", url=secure)
    assert not polite.is_final(secure, "connect_refused")
    assert polite.secs("soft_error", url=secure) == 3
    assert records.get(HOST).failures == 0


def test_a_host_of_logins_is_slower_and_never_given_up(polite):
    assert polite.secs() == 3
    assert polite.rests(40, "walled") == [6, 12, 24, 48] + [96] * 36
    assert polite.fails() == ""
