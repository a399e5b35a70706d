"""The rest of a host after a contact or a look-up."""

import pytest
from frontier_rig import entry
from lease_rig import LEASE_SECS, MAX_DELAY, attempts_of, ordinary, page
from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from text_tables import each

from webcrawl.net.dns.resolver import LookupFailedError
from webcrawl.net.outcomes import (
    ConnectionLostError,
    HostLookupError,
    HostNotFoundError,
)


def test_the_host_rests_from_the_last_byte_while_the_page_is_processed(desk):
    desk.urls(2)
    first = desk.next()
    second = []

    def processed(fetch):
        assert len(desk.frontier.leases) == 1
        desk.wait(3)
        second.append(desk.next())

    desk.end(first, page(), during=processed)
    assert second[0].url == "http://a.test/1"
    assert len(desk.frontier.leases) == 1


def test_a_name_that_does_not_exist_is_no_contact(desk):
    desk.urls(2)
    desk.answer(HostNotFoundError("x"))
    assert desk.next() is not None


def test_a_host_whose_name_servers_fail_backs_off(desk):
    desk.urls(2)
    desk.answer(HostLookupError("x"))
    assert desk.rests() == 3.0


@each(
    "headers rest",
    ({"Retry_After": "60"}, 60.0),
    ({"Retry_After": "1"}, 3.0),
    ({"Retry_After": "86400"}, MAX_DELAY),
    ({"Retry_After": "9999999999999"}, MAX_DELAY),
    ({"Retry_After": "soon"}, 3.0),
    ({"Retry_After": "-5"}, 3.0),
    ({}, 3.0),
)
@each("status", 429, 503)
def test_retry_after_is_the_host_s_rest_up_to_the_longest_delay(desk, status, headers, rest):
    desk.urls(2)
    desk.answer(page(status, **headers))
    assert desk.rests() == rest


def test_retry_after_of_a_page_that_was_served_is_not_looked_at(desk):
    desk.urls(2)
    desk.answer(page(200, Retry_After="60"))
    assert desk.rests() == 3.0


@each(
    "on_wire rest",
    (page(429, Retry_After="60"), 60.0),
    (page(503), 10.0),
    (ConnectionLostError("x"), 10.0),
    ids=str,
)
@each(
    "in_its_place", Request("http://a.test/again"), IgnoreRequest("x"), ids=["retried", "ignored"]
)
def test_what_a_middleware_makes_of_a_failure_shortens_no_rest(
    new_desk, on_wire, rest, in_its_place
):
    backoff = {"POLITENESS_BACKOFF_SECS": 10, "POLITENESS_BACKOFF_MAX_SECS": 50}
    desk = new_desk(**backoff)
    desk.push(ordinary(desk), entry("a.test", 1))
    request = desk.next()
    request.meta["fetch"].begin_download()
    request.meta["fetch"].note_transfer(on_wire)
    desk.end(request, in_its_place)
    assert desk.rests() == pytest.approx(rest, abs=0.2)
    assert request.meta["fetch"].on_wire is None


def test_a_crawl_delay_of_hours_is_cut(obedient):
    obedient.urls(1)
    obedient.rules(b"Crawl-delay: 7200")
    assert obedient.rests() == MAX_DELAY
    assert obedient.counts("robots/") == {"http_200": 1, "long_crawl_delays": 1}


def test_a_host_is_looked_up_once_while_its_urls_wait(resolving, names):
    resolving.urls(2)
    assert resolving.next() is None
    assert resolving.host_release.looking_up == 1
    assert len(resolving.frontier.leases) == 0
    assert resolving.next() is None
    assert list(names.waiting) == ["a.test"]
    names.answer("a.test", ["8.8.8.8"])
    assert resolving.stats.get_value("woken") == 1
    assert resolving.host_release.looking_up == 0
    assert resolving.next().url == "http://a.test/0"


@pytest.fixture
def new_host(new_desk, names):
    """The host of a URL was found by the name servers, and its robots.txt is not known."""
    made = new_desk(obey=True, addresses=names)
    made.urls(1)
    assert made.next() is None
    names.answer("a.test", ["8.8.8.8"])
    return made


def test_a_new_host_is_asked_for_robots_txt_in_the_turn_in_which_it_was_looked_up(new_host):
    robots = new_host.next()
    assert robots.url == "http://a.test/robots.txt"
    assert new_host.frontier.stats()["frontier/popped"] == 1
    new_host.end(robots, page(200, b""))
    assert new_host.rests() == 3.0
    new_host.wait(3)
    assert new_host.next().url == "http://a.test/0"


def test_a_host_that_was_found_is_released_while_no_request_is_handed_out(new_host):
    new_host.host_release.release_resolved()
    assert new_host.frontier.leases.contacts == 0
    assert new_host.next().url == "http://a.test/robots.txt"


def test_a_host_that_was_found_goes_with_its_lease(new_host):
    new_host.wait(LEASE_SECS + 1)
    new_host.expire(LEASE_SECS)
    assert new_host.next() is None
    new_host.wait(120)
    assert new_host.next().url == "http://a.test/robots.txt"


def test_a_failed_look_up_is_repeated_after_the_host_s_rest(resolving, names):
    names.found["a.test"] = LookupFailedError("x")
    resolving.urls(4)
    for _ in range(3):
        assert resolving.rests() == 30.0
        resolving.wait(30)
    assert resolving.counts("retry/") == {"dns_failed": 3}
    # Then all URLs of the host are given up at once: nobody asks for each of them again.
    for _ in range(4):
        assert resolving.next() is None
    assert resolving.outcomes == {"dns_failed": 4}
    assert resolving.is_empty


def test_a_look_up_that_never_ends_frees_its_host_with_the_lease(resolving, names):
    resolving.urls(1)
    assert resolving.next() is None
    resolving.wait(LEASE_SECS + 1)
    resolving.expire(LEASE_SECS)
    assert resolving.host_release.looking_up == 0
    late = names.waiting.pop("a.test")
    late(True, None)
    assert resolving.stop.has_begun is False
    resolving.wait(120)
    assert resolving.next() is None
    names.answer("a.test", ["8.8.8.8"])
    assert resolving.next().url == "http://a.test/0"


def test_a_look_up_whose_answer_cannot_be_kept_ends_the_crawl(resolving, names):
    resolving.urls(1)
    assert resolving.next() is None
    broken = OSError(5, "Input/output error")
    names.answer("a.test", ["8.8.8.8"], broken)
    assert resolving.stats.get_value("finish/cause") == "disk_error"
    resolving.expire(-1.0)


def test_the_crawl_delay_holds_while_robots_txt_is_fetched_again(obedient):
    obedient.urls(3)
    rules = page(200, b"User-agent: *\nCrawl-delay: 60\n")
    obedient.answer(rules)
    obedient.wait(86_399)
    late = obedient.next()
    assert late.url == "http://a.test/0"
    obedient.wait(2)
    obedient.end(late, page())
    assert obedient.rests() == 60.0
    obedient.wait(60)
    moved = obedient.next()
    assert moved.url == "http://a.test/robots.txt"
    obedient.end(moved, page(301, Location="/rules"))
    assert obedient.rests() == 60.0


def test_the_rest_after_a_contact_is_learned_from_the_host(desk):
    desk.urls(6)
    for _ in range(2):
        request = desk.next()
        fetch = request.meta["fetch"]
        fetch.begin_download()
        fetch.took = 1.0
        fetch.end_download(page())
        desk.completion.done(request)
        assert desk.rests() == 10.0
        desk.wait(10)
    assert desk.hosts.records.get("a.test").took == [1.0, 1.0]
    assert desk.hosts.records.get("a.test").pages == 2


@each("again", "http://a.test/1", "http://a.test/robots.txt")
def test_a_host_without_a_queue_keeps_its_crawl_delay_over_a_crash(obedient, again):
    """Its queue had run empty and its rest was over: only its robots.txt tells of the delay."""
    obedient.urls(1)
    obedient.rules(b"Crawl-delay: 100")
    obedient.wait(100)
    obedient.answer(page())
    obedient.wait(200 if again.endswith("1") else 100_000)
    # As other hosts' rests do.
    obedient.frontier.back.remembered._tidy(obedient.clock())
    obedient.frontier.requeue(entry("a.test", 1))
    assert obedient.next().url == again
    obedient.wait(1)
    obedient.crash()
    assert obedient.rests() == pytest.approx(100.0, abs=1e-3)


def stale():
    error = ConnectionLostError("the server hung up")
    error.is_stale = True
    return error


def test_a_request_lost_on_a_kept_connection_is_sent_again_in_the_host_s_next_turn(desk):
    desk.urls(2)
    desk.answer(stale())
    assert desk.rests() == 3.1
    record = desk.hosts.records.get("a.test")
    assert (record.failures, record.failed_with) == (0, "")
    desk.wait(3.1)
    again = desk.next()
    assert (again.url, attempts_of(again)) == ("http://a.test/0", 0)
    desk.end(again, page())
    assert desk.outcomes == {"http_200": 1}
    assert desk.counts("retry/") == {}
    assert desk.counts("fetch/resent") == {"": 1}


def test_robots_txt_lost_on_a_kept_connection_is_asked_for_in_the_next_turn(obedient):
    obedient.urls(1)
    obedient.answer(stale())
    assert obedient.rests() == 3.1
    obedient.wait(3.1)
    assert obedient.next().url == "http://a.test/robots.txt"
    assert obedient.counts("robots/") == {}
