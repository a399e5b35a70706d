"""The state of a lease between dispatch and completion."""

import asyncio
import itertools
from types import SimpleNamespace

import pytest
from scrapy import Request
from scrapy.http import Response
from text_tables import each

from webcrawl.crawl.lease.fetch import Fetch, PageResult, PageState, fetch_of
from webcrawl.frontier import Entry, Lease
from webcrawl.net.limits import is_last_of_host

URL = "http://a.test/"
PAGE = SimpleNamespace(is_for_page=True)


@pytest.fixture
def released():
    return []


@pytest.fixture
def new_fetch(released):
    """Makes a fetch for a page, or for another *task* with the lease of a page."""

    def make(task=PAGE, **facts):
        lease = Lease(Entry(URL, "a.test"), 1, 0.0, None, task=PAGE)
        return Fetch(lease=lease, task=task, release=released.append, **facts)

    return make


@pytest.fixture
def fetch(new_fetch):
    return new_fetch()


def test_of_several_findings_the_one_that_says_most_counts():
    for states in itertools.permutations(PageState, 3):
        page = PageResult()
        for state in states:
            page.raise_state(state)
        assert page.state is max(states)


@each("robots_url", "", "http://a.test/robots.txt")
def test_a_page_is_the_last_of_its_host_if_no_url_waits(robots_url):
    waiting = {"a.test": [b"an entry"]}
    back = SimpleNamespace(table=waiting)
    shard = SimpleNamespace(frontier=SimpleNamespace(back=back))
    lease = Lease(Entry(URL, "a.test"), 1, 0.0, shard, "a.test")
    fetch = Fetch(lease=lease, task=PAGE, release=waiting.pop, robots_url=robots_url)
    assert not is_last_of_host(fetch.bind(Request(URL)))
    waiting.clear()
    assert is_last_of_host(fetch.bind(Request(URL))) is not bool(robots_url)


def test_a_download_gives_its_host_back_once(fetch, released):
    request = fetch.bind(Request(URL))
    for step in (
        fetch.begin_download,
        lambda: fetch.note_transfer(Response(URL)),
        lambda: fetch.end_download(Response(URL, body=b"x")),
        fetch.release_host,
        fetch.end,
    ):
        assert fetch_of(request) is fetch
        step()
    assert released == [fetch]
    assert fetch.outcome == "http_200"
    assert fetch.response is fetch.on_wire is fetch_of(request) is None


def test_nothing_is_sent_once_the_host_is_given_back(fetch):
    fetch.release_host()
    with pytest.raises(asyncio.CancelledError):
        fetch.begin_download()


def test_nothing_is_sent_twice_in_one_turn_of_a_host(fetch):
    fetch.begin_download()
    with pytest.raises(RuntimeError, match="sent twice"):
        fetch.begin_download()
