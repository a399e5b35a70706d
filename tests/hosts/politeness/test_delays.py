"""From what a host has shown to its rest: records, back-off, penalty, profiles."""

import dataclasses
import math
import random

import pytest
from host_rig import Records
from hypothesis import given
from hypothesis import strategies as st
from scrapy.settings import Settings
from scrapy.utils.project import get_project_settings

from webcrawl import settings as project
from webcrawl.errors import FatalError
from webcrawl.frontier import HostFacts, LargestDelay
from webcrawl.hosts.host_rules import HostRules
from webcrawl.hosts.politeness.delays import (
    PROFILES,
    Politeness,
    PolitenessLimits,
    profile_of,
)
from webcrawl.hosts.politeness.host_policies import HostDelays
from webcrawl.hosts.retry_policy import RetryPolicy, Rule

POLICY = LargestDelay(factor=10, floor=3, ceiling=120, backoff=10, backoff_max=3600)
LIMITS = PolitenessLimits(0.0, math.inf, "cap", 86_400.0, penalty=1000.0)
HOST = "a.test"


def by_host(policy):
    """*policy* for hosts of which none is told apart."""
    return HostDelays(policy=policy, rules=HostRules.from_settings(get_project_settings()))


def politeness(clock, records, **changes):
    values = {
        "policy": by_host(POLICY),
        "records": records,
        "clock": clock,
        "rng": random.Random(1),
        "retries": RetryPolicy(times=2, backoff=0.0, most=4),
    }
    names = [field.name for field in dataclasses.fields(PolitenessLimits)]
    given = {name: changes.pop(name) for name in names if name in changes}
    return Politeness(**values | changes, limits=dataclasses.replace(LIMITS, **given))


@pytest.fixture
def records():
    return Records()


@pytest.fixture
def polite(clock, records):
    return politeness(clock, records)


def after(
    polite,
    outcome="http_200",
    *,
    host=HOST,
    url="",
    took=0.1,
    crawl_delay=0.0,
    retry_after=0.0,
    hung_up=False,
):
    return polite.after(
        HOST,
        url or url_of(host),
        took=took,
        outcome=outcome,
        crawl_delay=crawl_delay,
        retry_after=retry_after,
        hung_up=hung_up,
    )


def url_of(host):
    return f"http://{host}/"


def is_failing(polite, host):
    return polite.refusal(HOST, url_of(host))


def test_the_average_of_the_last_five_downloads_counts(polite, records):
    for _ in range(9):
        assert after(polite, took=1.0).secs == 10
    assert after(polite, took=3.5).secs == 15
    assert records.get(HOST).took == [1.0, 1.0, 1.0, 1.0, 3.5]


def test_waits_are_from_the_end_of_a_contact_to_the_beginning_of_the_next(clock, records):
    polite = politeness(clock, records)
    found = []
    for secs, outcome, took in (
        (0, "http_200", 0.3),
        (9.0, "connect_timeout", 5.0),  # 9 s later it is over: it began after 4 s
        (100, "http_200", 0.1),
        (0.05, "http_200", 0.1),  # the clock was set back
        (3.2, "dns_failed", 0.1),
    ):
        clock.advance(secs)
        found.append(after(polite, outcome, took=took).wait.removeprefix("politeness/waits/"))
    assert found == ["", "0.25/4", "4/64", "", "0.0625/2"]
    # What lies between two runs was no wait.
    clock.advance(9)
    assert after(politeness(clock, records)).wait == ""


def test_a_floor_that_is_set_while_the_crawl_runs_holds_at_once(clock, records):
    policy = dataclasses.replace(POLICY)
    polite = politeness(clock, records, policy=by_host(policy))
    assert after(polite).secs == 3
    policy.floor = 9.0
    assert after(polite).secs == 9


def test_the_rest_after_a_cut_off_contact_is_no_shorter_than_any_next(polite):
    for _ in range(5):
        min_rest = after(polite, took=2.0).min_rest
    assert after(polite, took=0.0).secs == 16
    assert min_rest >= 16


@given(st.lists(st.floats(0, 100), min_size=1, max_size=20))
def test_a_next_rest_is_bounded_by_the_shortest_and_the_contact_s_own(times):
    polite = politeness(lambda: 0.0, Records())
    min_rest = 0.0
    for took in times:
        rest = after(polite, took=took)
        assert rest.secs <= max(min_rest, POLICY.rest(HostFacts([took]))) * (1 + 1e-9)
        min_rest = rest.min_rest


@pytest.mark.parametrize(
    "outcome", ["connect_refused", "first_byte_timeout", "timeout", "connection_lost", "http_503"]
)
def test_failures_in_a_row_back_off_and_a_success_ends_that(polite, outcome):
    assert [after(polite, outcome).secs for _ in range(3)] == [10, 20, 40]
    assert after(polite).secs == 3
    assert after(polite, outcome).secs == 10


def test_a_failed_contact_says_nothing_about_download_times(polite, records):
    after(polite, "timeout", took=60.0)
    assert records.get(HOST).took == []
    after(polite, "http_404", took=1.0)
    assert records.get(HOST).took == [1.0]
    assert records.get(HOST).pages == 0
    after(polite, took=1.0)
    assert records.get(HOST).pages == 1


def test_crawl_delay_and_retry_after_are_honoured_up_to_their_limits(clock, records):
    polite = politeness(clock, records, crawl_delay=300.0, retry_after=500.0)
    assert after(polite, crawl_delay=299.0).secs == 299
    assert after(polite, crawl_delay=1e9).secs == 300
    assert after(polite, "http_429", retry_after=499.0).secs == 499
    assert after(polite, "http_429", retry_after=1e12).secs == 500


@pytest.mark.parametrize(("what", "secs"), [("cap", 300), ("obey", 1000), ("skip", 3)])
def test_a_long_crawl_delay_is_capped_or_obeyed_or_the_host_skipped(clock, what, secs):
    polite = politeness(clock, Records(), crawl_delay=300.0, long_crawl_delay=what)
    assert after(polite, crawl_delay=1000.0).secs == secs
    assert after(polite, crawl_delay=300.0).secs == 300
    assert polite.skips(300.1) is (what == "skip")
    assert not polite.skips(300.0)


def test_a_host_that_fails_too_often_is_left_alone_for_the_penalty(polite, clock):
    for _ in range(3):
        after(polite, "connect_refused")
        assert not is_failing(polite, HOST)
    # Its URLs are told at once: nothing is asked of it anyway.
    assert after(polite, "connect_refused").secs == 3
    assert is_failing(polite, HOST)
    clock.advance(999)
    assert is_failing(polite, HOST)
    clock.advance(1)
    assert not is_failing(polite, HOST)
    after(polite, "connect_refused")
    assert is_failing(polite, HOST)
    clock.advance(1000)
    after(polite)
    assert not is_failing(polite, HOST)


def test_failing_hosts_make_their_domain_rest_and_spare_the_others(polite):
    dead, other = f"dead.{HOST}", f"www.{HOST}"
    assert [after(polite, "connect_refused", host=dead).secs for _ in range(3)] == [10, 20, 40]
    assert not is_failing(polite, dead)
    after(polite, "connect_refused", host=dead)
    assert is_failing(polite, dead)
    assert not is_failing(polite, other)
    # The domain has nothing more to fear of that host, and begins anew with the next one.
    assert after(polite, "connect_refused", host=f"also.{dead}").secs == 10
    assert after(polite, host=other).secs == 3
    assert after(polite, "connect_refused", host=other).secs == 10
    for _ in range(3):
        polite.lookup_failed(HOST, url_of(f"gone.{HOST}"), at_least=0.0)
    assert polite.is_lost(f"gone.{HOST}")
    assert not polite.is_lost(other)
    assert not polite.is_lost(HOST)


def test_an_origin_that_fails_beside_one_that_answers_backs_off_alone(polite, clock, records):
    closed, mute = f"http://{HOST}:81/", f"ftp://{HOST}/"
    for url in (closed, mute, ""):
        after(polite, url=url)
    rests = [after(polite, "connect_refused", url=closed) for _ in range(3)]
    assert [(rest.secs, rest.min_rest, rest.origin) for rest in rests] == [
        (3, 3, 10),
        (3, 3, 20),
        (3, 3, 40),
    ]
    assert records.get(f"http://{HOST}:81").ready_at == clock() + 40
    # What it took says nothing about the others.
    rest = after(polite, "connect_timeout", url=mute, took=60.0)
    assert (rest.secs, rest.origin) == (3, 120)
    after(polite, "connect_refused", url=closed)
    assert polite.refusal(HOST, closed)
    assert not polite.refusal(HOST, mute)
    assert not is_failing(polite, HOST)
    # It has its own word on how it is asked, and the host's when it fails itself.
    assert after(polite, "http_429", url=f"https://{HOST}/", retry_after=50.0).secs == 50
    assert after(polite, "http_503").secs == 10
    assert after(polite, "connect_refused", url=mute).secs == 20


def test_one_failure_is_enough_of_an_origin_that_never_answered(clock, records):
    polite = politeness(clock, records, retries=RetryPolicy(times=2, backoff=10.0, most=4))
    closed = f"http://{HOST}:81/"
    # The first origin of its host keeps all its tries.
    after(polite, "connect_refused", url=closed)
    assert not polite.is_final(closed, "connect_refused")
    after(polite)
    assert not polite.refusal(HOST, closed)
    assert polite.is_final(closed, "connect_refused")
    # Its host rests no longer for it, though its own origin has just failed, too.
    assert after(polite, "connect_refused").secs == 10
    rest = after(polite, "first_byte_timeout", url=closed, took=30.0)
    assert (rest.secs, rest.min_rest, rest.origin, rest.alone) == (3, 3, 0, True)
    assert polite.min_rest(HOST, closed, crawl_delay=0.0) == 3
    assert polite.refusal(HOST, closed) == "first_byte_timeout"
    assert not is_failing(polite, HOST)
    again = politeness(clock, records)
    assert again.refusal(HOST, closed) == "first_byte_timeout"
    clock.advance(1000)
    assert not again.refusal(HOST, closed)
    # What answers with a failure does answer.
    after(polite, "http_503", url=closed)
    assert not polite.is_final(closed, "connect_refused")


def test_another_host_of_a_domain_that_answers_keeps_its_tries(polite):
    after(polite, host=f"www.{HOST}")
    assert not polite.is_final(url_of(HOST), "connect_refused")
    after(polite, "connect_refused")
    assert not is_failing(polite, HOST)


def test_ports_without_end_take_no_more_than_so_much_of_a_record(polite, records):
    for port in range(1000):
        after(polite, url=f"http://{HOST}:{port}/")
    assert len(records.get(HOST).proven) == 16


def test_forty_closed_ports_do_not_make_their_host_fail(clock, records):
    polite = politeness(clock, records, retries=RetryPolicy(times=2, backoff=0.0, most=8))
    for port in range(40):
        for _ in range(3):
            rest = after(polite, "connect_refused", url=f"http://{HOST}:{port}/")
    assert rest.secs == 40
    assert not is_failing(polite, HOST)
    # No more than that while nothing at all answers.
    for _ in range(8):
        after(polite, "connect_refused", url=f"http://{HOST}:81/")
    assert polite.refusal(HOST, f"http://{HOST}:9000/")
    after(polite)
    assert not polite.refusal(HOST, f"http://{HOST}:9000/")


def test_a_failed_look_up_backs_off_as_long_as_its_answer_is_cached(polite):
    assert polite.lookup_failed(HOST, url_of(HOST), at_least=0.0) == 10
    assert polite.lookup_failed(HOST, url_of(HOST), at_least=30.0) == 30
    assert polite.lookup_failed(HOST, url_of(HOST), at_least=0.0) == 40


def test_a_host_that_is_not_found_is_lost_until_a_contact_succeeds(polite):
    for _ in range(2):
        polite.lookup_failed(HOST, url_of(HOST), at_least=0.0)
        assert not polite.is_lost(HOST)
    polite.lookup_failed(HOST, url_of(HOST), at_least=0.0)
    assert polite.is_lost(HOST)
    after(polite)
    assert not polite.is_lost(HOST)


@pytest.mark.parametrize("outcome", ["http_503", "connect_refused"])
def test_other_failures_do_not_make_a_failed_look_up_final(polite, outcome):
    for _ in range(2):
        after(polite, outcome)
    assert polite.lookup_failed(HOST, url_of(HOST), at_least=0.0) == 40
    assert not polite.is_lost(HOST)
    for _ in range(2):
        polite.lookup_failed(HOST, url_of(HOST), at_least=0.0)
    assert polite.is_lost(HOST)
    after(polite, outcome)
    assert not polite.is_lost(HOST)


def test_a_failure_keeps_its_host_waiting_for_as_long_as_its_rule_says(clock, records):
    rules = {"http_403": Rule(0, 25.0, 0), "http_429": Rule(2, 25.0, 3)}
    polite = politeness(
        clock, records, retries=RetryPolicy(times=2, backoff=10.0, most=4, rules=rules)
    )
    # Not a failure of the host: nothing is doubled, and its patience is not used up.
    assert [after(polite, "http_403").secs for _ in range(9)] == [25] * 9
    assert not is_failing(polite, HOST)
    assert [after(polite, "http_429").secs for _ in range(2)] == [25, 25]
    assert after(polite, "connect_refused").secs == 40
    assert polite.lookup_failed("b.test", url_of("b.test"), at_least=0.0) == 10


def test_patience_is_with_each_kind_of_failure_and_with_all_together(clock, records):
    rules = {"connect_timeout": Rule(2, 0.0, 2), "http_503": Rule(2, 0.0, 6)}
    polite = politeness(
        clock, records, retries=RetryPolicy(times=2, backoff=0.0, most=4, rules=rules)
    )

    def given_up_after(*outcomes):
        for number, outcome in enumerate(outcomes, 1):
            after(polite, outcome)
            if is_failing(polite, HOST):
                after(polite)
                assert not is_failing(polite, HOST)
                return number
        after(polite)
        return None

    assert given_up_after("connect_timeout", "connect_timeout") == 2
    assert given_up_after("connect_timeout", "http_503", "connect_timeout") is None
    assert given_up_after("connect_timeout", "http_503", "tls_failed", "connect_timeout") == 4
    # More patience than usual with one kind is not used up by it alone.
    assert given_up_after(*["http_503"] * 8) == 6
    assert given_up_after(*["http_503"] * 4, "connect_refused") == 5
    assert given_up_after("connect_refused", *["http_503"] * 8) == 6


def test_after_hanging_up_the_server_gets_time_to_notice(polite):
    assert after(polite, hung_up=True).secs == after(polite).secs + 0.1
    shared = [polite.shared_rest(1.0, hung_up=hung_up) for hung_up in (False, True)]
    assert shared == [10.0, 10.1]


def test_a_host_whose_look_ups_fail_too_often_is_left_alone(clock, records):
    polite = politeness(clock, records, retries=RetryPolicy(times=9, backoff=0.0, most=4))
    for _ in range(4):
        assert not is_failing(polite, HOST)
        polite.lookup_failed(HOST, url_of(HOST), at_least=0.0)
    assert is_failing(polite, HOST)


def test_a_restart_goes_on_from_the_record(polite, clock, records):
    for _ in range(2):
        after(polite, "connect_refused")
    again = politeness(clock, records)
    assert after(again, "connect_refused").secs == 40


@given(st.integers())
def test_jitter_only_adds_and_no_more_than_its_share(seed):
    polite = politeness(lambda: 0.0, Records(), jitter=0.1, rng=random.Random(seed))
    assert 10 <= after(polite, took=1.0).secs <= 11


def test_hosts_do_not_fall_into_step(clock, records):
    polite = politeness(clock, records, jitter=0.1, rng=random.Random(1))
    rests = {after(polite, took=1.0).secs for _ in range(20)}
    assert len(rests) == 20
    assert max(rests) - min(rests) > 0.5


# --- settings


def chosen(**values):
    return profile_of(
        Settings({name: getattr(project, name) for name in dir(project) if name.isupper()} | values)
    )


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_is_taken_as_it_is(name):
    assert chosen(POLITENESS_PROFILE=name) == PROFILES[name]


def test_what_is_set_goes_before_the_profile():
    profile = chosen(
        POLITENESS_PROFILE="nielsen", POLITENESS_MIN_DELAY="7", POLITENESS_KEY="address"
    )
    assert profile == PROFILES["nielsen"]._replace(floor=7.0, key="address")


@pytest.mark.parametrize(
    ("delay", "floor", "ceiling"), [(1, 3, 120), (30, 30, 120), (200, 200, 200)]
)
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


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"POLITENESS_PROFILE": "rude"}, "POLITENESS_PROFILE must be mercator or nielsen"),
        ({"POLITENESS_KEY": "url"}, "POLITENESS_KEY must be host or address or domain"),
        ({"POLITENESS_MIN_DELAY": 200}, "below the floor of 200"),
        ({"POLITENESS_MAX_DELAY": 1}, "below the floor of 3"),
        ({"POLITENESS_DELAY_FACTOR": "much"}, "POLITENESS_DELAY_FACTOR must be a number"),
    ],
)
def test_impossible_politeness_is_one_sentence(values, sentence):
    with pytest.raises(FatalError, match=sentence):
        chosen(**values)


def test_another_way_with_long_crawl_delays_is_refused():
    with pytest.raises(FatalError, match="must be skip or cap or obey"):
        PolitenessLimits.from_settings(Settings({"POLITENESS_LONG_CRAWL_DELAY": "ignore"}))


def test_a_host_that_challenges_is_given_up_soon_and_tried_slower_then(clock, records):
    polite = politeness(clock, records, retries=RetryPolicy(times=2, backoff=10.0, most=8))
    page = f"http://{HOST}/"
    assert after(polite, "http_200", url=page).secs == 3
    assert [after(polite, "challenged", url=page).secs for _ in range(2)] == [300, 300]
    assert polite.refusal(HOST, page) == ""
    after(polite, "challenged", url=page)
    assert polite.refusal(HOST, page) == "challenged"
    clock.advance(1001)
    assert polite.refusal(HOST, page) == ""
    # Half as slow with each page.
    assert [after(polite, url=page).secs for _ in range(4)] == [12, 6, 3, 3]


def test_a_wall_is_an_answer_of_its_origin_and_a_soft_error_no_failure(clock, records):
    polite = politeness(clock, records)
    secure = f"https://{HOST}/"
    after(polite, "http_200", url=f"http://{HOST}/")
    after(polite, "challenged", url=secure)
    assert not polite.is_final(secure, "connect_refused")
    assert after(polite, "soft_error", url=secure).secs == 3
    assert records.get(HOST).failures == 0


def test_a_host_of_logins_is_slower_and_never_given_up(clock, records):
    polite = politeness(clock, records)
    page = f"http://{HOST}/"
    assert after(polite, url=page).secs == 3
    rests = [after(polite, "walled", url=page).secs for _ in range(40)]
    assert rests == [6, 12, 24, 48] + [96] * 36
    assert polite.refusal(HOST, page) == ""
