"""Downloads beside the scheduler, in their host's turn."""

import asyncio

import pytest
from frontier_rig import entry
from lease_rig import LEASE_SECS, ordinary, page
from scrapy import Request
from scrapy.exceptions import IgnoreRequest

from webcrawl.crawl.lease.fetch import PageState


def in_turn(desk, url, during):
    """Ask for the turn of *url*'s host while *during* goes on in the scheduler."""

    async def run():
        task = asyncio.ensure_future(desk.side_downloads.turn(Request(url)))
        await asyncio.sleep(0)
        during()
        return await task

    return asyncio.run(run())


def test_a_side_download_waits_for_its_host_and_goes_before_its_urls(desk):
    desk.urls(2)
    first = desk.next()

    def during():
        assert desk.next() is None
        desk.end(first, page())
        assert desk.rests() == 3.0
        desk.wait(3)
        assert desk.next() is None  # the turn is given, and no Request goes to the engine

    fetch = in_turn(desk, "http://a.test/aside", during)
    assert fetch.lease.entry.url == "http://a.test/aside"
    assert desk.next() is None
    request = fetch.bind(Request("http://a.test/aside"))
    desk.end(request, page())
    assert desk.rests() == 3.0
    desk.wait(3)
    assert desk.next().url == "http://a.test/1"
    assert desk.outcomes == {"http_200": 1}
    assert desk.counts("side_downloads/") == {"http_200": 1}
    # Its bytes are not those of a URL.
    assert desk.frontier.counts.crawl["fetch/bytes"] == desk.counts("fetch/")["bytes"]
    assert len(desk.side_downloads) == 0


def test_a_side_download_obeys_robots_txt(obedient):
    def during():
        robots = obedient.next()
        assert robots.url == "http://a.test/robots.txt"
        obedient.end(robots, page(200, b"User-agent: *\nDisallow: /aside\n"))
        obedient.wait(3)
        assert obedient.next() is None

    with pytest.raises(IgnoreRequest, match="robots_denied"):
        in_turn(obedient, "http://a.test/aside", during)
    assert obedient.counts("side_downloads/") == {"robots_denied": 1}
    assert obedient.is_empty


async def test_a_side_download_that_was_cancelled_is_dropped(desk):
    task = asyncio.ensure_future(desk.side_downloads.turn(Request("http://a.test/aside")))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(desk.frontier) == 1
    assert desk.next() is None
    assert desk.is_empty


async def test_a_side_download_cancelled_as_its_turn_comes_gives_it_back(desk):
    desk.urls(1)
    request = Request("http://a.test/aside")
    task = asyncio.ensure_future(desk.side_downloads.turn(request))
    await asyncio.sleep(0)
    assert desk.next() is None
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    # As the engine does in any case.
    desk.completion.done(request)
    assert len(desk.frontier.leases) == 0
    assert desk.next() is None  # nobody waits any more
    assert desk.next().url == "http://a.test/0"
    desk.expire(-1.0)


def test_a_side_download_is_lost_with_its_process(desk):
    with asyncio.Runner() as runner:
        turn = desk.side_downloads.turn(Request("http://a.test/aside"))
        task = runner.get_loop().create_task(turn)
        runner.run(asyncio.sleep(0))
        desk.crash()
    assert task.cancelled()
    assert len(desk.frontier) == 1
    assert desk.next() is None
    assert desk.is_empty


def test_hosts_of_side_downloads_can_be_acquired_before_all_others(desk):
    desk.push(*(entry(f"{name}.test", n) for n in range(2) for name in "bcd"))

    def during():
        desk.urls(1)
        lease = desk.side_downloads.acquire()
        assert lease.entry.url == "http://a.test/aside"
        assert desk.side_downloads.acquire() is None
        assert desk.dispatcher.dispatch(lease) is None

    fetch = in_turn(desk, "http://a.test/aside", during)
    fetch.end_download(None)
    assert desk.side_downloads.acquire() is None
    assert [desk.next().url for _ in range(4)] == [f"http://{name}.test/0" for name in "bcda"]
    desk.expire(-1.0)


def test_side_downloads_are_refused_when_the_crawl_is_closed(desk):
    desk.urls(1)
    request = desk.next()

    def close():
        desk.completion.put_back_pages()
        desk.side_downloads.close()

    with pytest.raises(IgnoreRequest, match="crawl is closing"):
        in_turn(desk, "http://a.test/aside", close)
    desk.end(request, page())
    assert desk.outcomes == {}
    assert len(desk.frontier) == 2
    with pytest.raises(IgnoreRequest, match="crawl is closing"):
        asyncio.run(desk.side_downloads.turn(Request("http://b.test/")))


def test_a_request_whose_page_may_wait_for_a_side_download_does_not_expire(desk):
    desk.push(ordinary(desk))
    request = desk.next()
    fetch = request.meta["fetch"]
    fetch.end_download(page())

    def during():
        for _ in range(20):
            desk.wait(LEASE_SECS / 10)
            desk.expire(LEASE_SECS)
        assert desk.next() is None

    in_turn(desk, "http://b.test/aside", during).end_download(page())
    # The page is still being processed, and only after that does its time begin.
    desk.wait(LEASE_SECS - 1)
    desk.expire(LEASE_SECS)
    assert fetch.page.state is PageState.STORED
    desk.wait(2)
    desk.expire(LEASE_SECS)
    assert fetch.page.state is PageState.EXPIRED
