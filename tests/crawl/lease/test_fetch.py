"""The state of a lease between dispatch and completion."""

from __future__ import annotations

import asyncio
import itertools
from types import SimpleNamespace

import pytest
from scrapy import Request
from scrapy.http import Response

from webcrawl.crawl.lease.fetch import Fetch, PageResult, PageState, fetch_of
from webcrawl.frontier import Entry, Lease
from webcrawl.net.limits import is_last_of_host
from webcrawl.net.outcomes import ConnectRefusedError, HostLookupError

URL = "http://a.test/"


@pytest.fixture
def released():
    return []


@pytest.fixture
def new_fetch(released):
    """Makes a fetch of an entry of *kind*."""

    def make(kind="link", **facts):
        lease = Lease(Entry(URL, "a.test", kind=kind), 1, 0.0, None)
        return Fetch(lease=lease, release=released.append, **facts)

    return make


@pytest.fixture
def fetch(new_fetch):
    return new_fetch()


def test_of_several_findings_the_one_that_says_most_counts():
    for states in itertools.permutations(PageState, 3):
        page = PageResult()
        for state in states:
            page.becomes(state)
        assert page.state is max(states)


def test_a_page_is_stored_unless_something_else_is_found():
    assert PageResult().state is PageState.STORED is min(PageState)


@pytest.mark.parametrize("state", PageState)
def test_only_a_page_that_was_processed_has_a_tested_document(state):
    page = PageResult(document=7)
    page.becomes(state)
    assert page.tested == (7 if state in {PageState.STORED, PageState.DUPLICATE} else 0)


@pytest.mark.parametrize("robots_url", ["", "http://a.test/robots.txt"])
def test_a_page_is_the_last_of_its_host_if_no_url_waits(robots_url):
    waiting = {"a.test"}
    shard = SimpleNamespace(frontier=SimpleNamespace(has_more=waiting.__contains__))
    lease = Lease(Entry(URL, "a.test"), 1, 0.0, shard, "a.test")
    fetch = Fetch(lease=lease, release=waiting.discard, robots_url=robots_url)
    assert not is_last_of_host(fetch.bind(Request(URL)))
    waiting.clear()
    assert is_last_of_host(fetch.bind(Request(URL))) is not bool(robots_url)


def test_a_download_gives_its_host_back_once(fetch, released):
    request = fetch.bind(Request(URL))
    for step in (
        fetch.begin_download,
        lambda: fetch.transferred(Response(URL)),
        lambda: fetch.end_download(Response(URL, body=b"x")),
        fetch.release_host,
        fetch.end,
    ):
        assert fetch_of(request) is fetch
        step()
    assert released == [fetch]
    assert fetch.outcome == "http_200"
    assert fetch.response is fetch.on_wire is fetch_of(request) is None


def test_what_a_middleware_refuses_is_released_without_being_sent(fetch, released):
    fetch.end_download(ConnectRefusedError("x"))
    assert (fetch.is_released, fetch.outcome, released) == (True, "connect_refused", [fetch])
    assert not fetch.reached_host


def test_a_refused_request_ends_with_its_refusal_whatever_was_raised(new_fetch):
    fetch = new_fetch(refusal="robots_denied")
    fetch.end_download(HostLookupError("x"))
    assert fetch.outcome == "robots_denied"


def test_a_download_that_was_broken_off_has_no_outcome(fetch):
    fetch.begin_download()
    fetch.transferred(None)
    fetch.end_download(None)
    assert (fetch.outcome, fetch.reached_host, fetch.took >= 0) == ("", True, True)


def test_nothing_is_sent_once_the_host_is_given_back(fetch):
    fetch.release_host()
    with pytest.raises(asyncio.CancelledError):
        fetch.begin_download()


def test_nothing_is_sent_twice_in_one_turn_of_a_host(fetch):
    fetch.begin_download()
    with pytest.raises(RuntimeError, match="sent twice"):
        fetch.begin_download()


@pytest.mark.parametrize("sent", [False, True])
def test_an_expired_lease_holds_neither_url_nor_host(fetch, released, sent):
    if sent:
        fetch.begin_download()
    fetch.expire()
    fetch.end_download(Response(URL))
    fetch.end()
    assert (fetch.is_released, fetch.page.state, released) == (True, PageState.EXPIRED, [])
    assert not fetch.holds_url


def test_a_robots_txt_holds_its_host_only_unless_redirected_there(new_fetch):
    robots = "http://a.test/robots.txt"
    for kind, holds in (("link", False), ("robots", True)):
        fetch = new_fetch(kind, robots_url=robots)
        assert (fetch.holds_url, fetch.is_for_page, fetch.url) == (holds, False, robots)
