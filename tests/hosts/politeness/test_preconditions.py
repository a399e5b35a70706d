"""Tests of preconditions: all reasons not to contact a host now, in order."""

import pytest
from host_rig import Records
from process_rig import process_in, shard_of
from scrapy.http import Response
from text_tables import each

from webcrawl.frontier import Entry
from webcrawl.hosts.politeness.preconditions import Decision, FetchAction
from webcrawl.hosts.records import HostRecord
from webcrawl.net.dns.resolver import LookupTimeoutError, NameNotFoundError
from webcrawl.rights.policy import TDM_PATH

PAGE = Entry("http://www.a.test/page", "www.a.test")
FETCH_ROBOTS = Decision(
    FetchAction.FETCH_ROBOTS, address="8.8.8.8", robots_url="http://www.a.test/robots.txt"
)


def refused(why):
    return Decision(FetchAction.REFUSE, why)


class Told:
    """Stand-in for the addresses; test_addresses.py tests the real ones."""

    def __init__(self, found):
        self.found = found

    def known_addresses(self, host):
        assert host == "www.a.test"
        return self.found

    def retry_in(self, host):
        return 30.0


@pytest.fixture
def records():
    return Records()


@pytest.fixture
def hosts_with(tmp_path, clock, records):
    """Return the services of a shard by settings, for hosts with *addresses*."""

    def make(addresses=("8.8.8.8", "9.9.9.9"), **settings):
        told = addresses if isinstance(addresses, Exception | None) else [*addresses]
        parts = {"HostAddresses": lambda **_: Told(told), "HostRecords": lambda **_: records}
        process = process_in(tmp_path / "job", clock=clock, parts=parts, **settings)
        process.parts.services.rules.hosts.open()
        return shard_of(process).hosts

    return make


@pytest.fixture
def hosts(hosts_with):
    return hosts_with(
        POLITENESS_MAX_FAILURES=3,
        POLITENESS_MAX_CRAWL_DELAY=300,
        POLITENESS_LONG_CRAWL_DELAY="skip",
    )


def decide(hosts, entry=PAGE, **more):
    return hosts.preconditions.decide(entry, **more)


def with_rules(hosts, body):
    hosts.robots.robots_url(PAGE.url)
    hosts.robots.cache.put("http://www.a.test", 200, body)


@each(
    "found decision",
    (None, Decision(FetchAction.RESOLVE)),
    ([], refused("address_forbidden")),
    (NameNotFoundError("x"), refused("dns_not_found")),
    (LookupTimeoutError("x"), Decision(FetchAction.RETRY, "dns_failed", 30.0)),
)
def test_without_an_address_nothing_is_asked(hosts_with, found, decision):
    assert decide(hosts_with(found)) == decision


def test_where_a_proxy_looks_names_up_the_address_is_not_known(hosts_with):
    assert decide(hosts_with(HTTPPROXY_ENABLED=True)).address == ""


@each("line", "a.test", "www.a.test", "=www.a.test", "8.8.0.0/16", "9.9.9.9")
def test_a_host_in_the_exclusion_file_is_refused(hosts_with, tmp_path, line):
    path = tmp_path / "excluded.txt"
    path.write_text(f"{line}\n")
    assert decide(hosts_with(EXCLUSION_FILE=str(path))) == refused("excluded")


def test_a_host_that_fails_too_often_is_not_contacted_for_a_while(hosts, records, clock):
    records.put(HostRecord("www.a.test", failures=3, penalty_until=clock() + 5))
    assert decide(hosts) == refused("host_failing")
    clock.advance(5)
    assert decide(hosts) == FETCH_ROBOTS


def test_a_host_that_fails_too_often_does_not_take_its_domain_with_it(hosts, records, clock):
    records.put(HostRecord("dead.a.test", failures=3, penalty_until=clock() + 5))
    assert decide(hosts, Entry("http://dead.a.test/", "a.test")) == refused("host_failing")
    assert decide(hosts, Entry(PAGE.url, "a.test")) == FETCH_ROBOTS


def test_a_crawl_delay_beyond_the_longest_is_a_reason_to_stay_away(hosts):
    with_rules(hosts, b"User-agent: *\nCrawl-delay: 300\n")
    assert decide(hosts).action is FetchAction.FETCH
    with_rules(hosts, b"User-agent: *\nCrawl-delay: 301\n")
    for is_page in (True, False):
        decision = decide(hosts, obeys_robots=is_page, is_for_page=is_page)
        assert (decision.action, decision.outcome) == (FetchAction.REFUSE, "crawl_delay_too_long")


def test_while_another_host_is_asked_for_the_rules_the_url_waits(hosts, clock):
    hosts.robots.robots_url(PAGE.url)
    moved = Response(PAGE.url, status=301, headers={"Location": "http://b.test/robots.txt"})
    hosts.robots.note_answer(PAGE.url, "http_301", moved)
    # Not every second for an hour: thousands may wait for one host.
    for waited, secs in ((0.0, 1.0), (1.0, 1.0), (20.0, 21.0), (100.0, 60.0)):
        clock.advance(waited)
        decision = decide(hosts)
        assert (decision.action, decision.secs) == (FetchAction.WAIT, pytest.approx(secs))
        assert decision.robots_url == "http://b.test/robots.txt"


def test_a_robots_redirect_needs_an_address_and_no_rules(hosts):
    decision = decide(hosts, obeys_robots=False, is_for_page=False)
    assert decision == Decision(FetchAction.FETCH, address="8.8.8.8")


TDM = f"http://www.a.test{TDM_PATH}"


@pytest.fixture
def train(hosts_with):
    """For training, with robots.txt known."""
    hosts = hosts_with(CRAWL_PURPOSE="train", RIGHTS_POLICY="strict")
    with_rules(hosts, b"User-agent: *\nDisallow: /x")
    return hosts


def answer(hosts, status, body=b""):
    """Record the answer for the tdmrep.json of the page, as the host's release does."""
    search = hosts.search_for(PAGE.url, TDM)
    assert search is hosts.data_mining
    search.note_request(PAGE.url)
    response = None if status is None else Response(TDM, status=status, body=body)
    search.note_answer(PAGE.url, f"http_{status}", response, is_final=True)


def test_tdmrep_is_asked_for_after_robots_txt_and_before_a_page(train):
    assert (decide(train).action, decide(train).robots_url) == (FetchAction.FETCH_ROBOTS, TDM)
    answer(train, 404)
    decision = decide(train)
    assert decision.action is FetchAction.FETCH
    assert [str(one) for one in decision.statements] == ["robots.txt: no rule applies"]


@each("status", None, 503, 301, 403)
def test_a_tdmrep_that_cannot_be_had_says_nothing(train, status):
    answer(train, status)
    assert decide(train).action is FetchAction.FETCH


def test_a_tdmrep_that_was_asked_for_just_now_is_waited_for(train):
    train.data_mining.note_request(PAGE.url)
    assert decide(train).action is FetchAction.WAIT
    assert 0 < decide(train).secs <= 60


def test_a_strict_crawl_refuses_what_tdmrep_reserves(train):
    answer(train, 200, b'[{"location": "/page", "tdm-reservation": 1}]')
    decision = decide(train)
    assert (decision.action, decision.outcome) == (FetchAction.REFUSE, "rights_refused")
    assert decision.robots_line == "tdmrep.json tdmrep: tdm-reservation=1"


def test_what_robots_txt_denies_of_tdmrep_is_not_asked_for(train):
    with_rules(train, b"User-agent: *\nDisallow: /.well-known/")
    assert decide(train).action is FetchAction.FETCH


def test_a_robots_txt_that_redirects_to_tdmrep_is_still_a_robots_txt(hosts_with):
    hosts = hosts_with(CRAWL_PURPOSE="train")
    assert hosts.search_for(PAGE.url, TDM) is hosts.robots


@each("purpose", "", "search", "agent", "archive")
def test_other_crawls_do_not_ask_for_tdmrep(hosts_with, purpose):
    hosts = hosts_with(CRAWL_PURPOSE=purpose)
    with_rules(hosts, b"User-agent: *\nContent-Usage: search=n\n")
    decision = decide(hosts)
    assert decision.action is FetchAction.FETCH
    refused = [one.verdict for one in decision.statements]
    assert refused == {"": [], "search": ["", "refuse"]}.get(purpose, ["", ""])
