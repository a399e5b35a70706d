"""Shards that a process holds of a crawl that has more: what is whose."""

import asyncio
from collections import Counter

import pytest
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.utils.project import get_project_settings
from xxhash import xxh3_64_intdigest

from webcrawl.crawl.builder import ProcessBuilder
from webcrawl.crawl.links.link_intake import LinkBatch, LinkSource
from webcrawl.crawl.shard.shards import NotHeldError
from webcrawl.crawl.task.side_downloads import SideDownloads
from webcrawl.frontier import Entry, Supply
from webcrawl.seen.fingerprint import fingerprint
from webcrawl.spiders.web import WebSpider
from webcrawl.urls import Link, host_of

NUMBER = 8
HELD = (1, 3, 4)
SOURCE = LinkSource("http://a.test/", 1, 0, b"", 1.0)
URLS = [f"http://h{number}.test/{number}" for number in range(60)]


def number_of(url):
    return xxh3_64_intdigest(host_of(url).encode()) % NUMBER


HELD_URLS = [url for url in URLS if number_of(url) in HELD]
THEIRS = next(url for url in URLS if number_of(url) not in HELD)


class RemoteShards:
    """Keeps what it gets."""

    is_full = False

    def __init__(self):
        self.entries = []

    def submit(self, batch):
        raise AssertionError(batch)

    def enqueue(self, entry, name):
        self.entries.append((entry.url, name))

    def note_all_seeds_read(self):
        raise AssertionError


@pytest.fixture
def remote():
    return RemoteShards()


@pytest.fixture
def state(tmp_path, remote):
    """A job whose process holds HELD, open."""
    settings = get_project_settings()
    settings.setdict({"JOBDIR": str(tmp_path / "job"), "CRAWLER_CONTACT": "me@a.test"}, "cmdline")
    builder = ProcessBuilder(
        Crawler(WebSpider, settings), number=NUMBER, held=HELD, remote=lambda _: remote
    )
    state = builder.state()
    state.resources.job.open(spider="web")
    state.open()
    yield state
    errors = []
    state.close(errors.append)
    state.resources.job.close()
    assert not errors


def batch_of(urls):
    hosts = [host_of(url) for url in urls]
    return LinkBatch([Link(url) for url in urls], hosts, [*map(fingerprint, urls)], SOURCE)


def test_a_url_is_of_the_shard_of_its_domain_held_or_not(state):
    found = {state.shards.find(url) for url in URLS}
    assert found == {None, *state.shards}
    for url in URLS:
        shard = state.shards.find(url)
        assert state.shards.find(url.replace("http://", "http://www.")) is shard
        if shard is None:
            assert number_of(url) not in HELD
            with pytest.raises(NotHeldError):
                state.shards.of(url)
        else:
            assert shard.number == number_of(url)
            assert shard.name == f"0{shard.number}"


def test_a_shard_begins_with_its_part_of_the_back_end_queues(state):
    for shard in state.shards:
        assert shard.stats()["frontier/queues"] == -(-3 * shard.live.workers // NUMBER)


def test_links_go_to_their_shards_and_are_handed_out_in_turn(state):
    state.shards.submit(batch_of(HELD_URLS))
    with pytest.raises(NotHeldError):
        state.shards.submit(batch_of(URLS))
    for shard in state.shards:
        shard.feeder.open(awaits_seeds=False)
    while any(shard.eliminator.waiting for shard in state.shards):
        state.shards.work()
    assert state.shards.supply is Supply.NOW
    leases = []
    while (lease := state.shards.ready.acquire()) is not None:
        leases.append(lease)
    assert Counter(lease.entry.url for lease in leases) == Counter(HELD_URLS)
    # While each has one, none is handed a second one.
    first = [lease.shard.number for lease in leases[: len(HELD)]]
    assert sorted(first) == sorted(HELD)
    for lease in leases:
        lease.shard.frontier.contacts.release(lease.entry.host, rest=0.0)
        lease.shard.frontier.leases.finish(lease)


def test_a_shard_that_leaves_hands_nothing_out(state):
    url = next(url for url in URLS if number_of(url) == HELD[0])
    state.shards.requeue(Entry(url, host_of(url)))
    shard = state.shards.find_held(HELD[0])
    shard.is_leaving = True
    assert state.shards.ready.acquire() is None
    assert state.shards.ready.ready_at() is None
    assert shard.is_idle
    shard.is_leaving = False
    state.shards.requeue(Entry(f"{url}/b", host_of(url)))
    lease = state.shards.ready.acquire()
    assert lease.shard is shard
    assert not shard.is_idle
    shard.frontier.contacts.release(lease.entry.host, rest=0.0)
    shard.frontier.leases.put_back(lease)


def test_a_requeued_url_of_a_remote_shard_goes_to_its_process(state, remote):
    state.shards.requeue(Entry(THEIRS, host_of(THEIRS)))
    assert remote.entries == [(THEIRS, None)]


def test_what_was_counted_stays_counted_when_shards_go(state):
    state.shards.submit(batch_of(HELD_URLS))
    before = state.shards.stats()
    assert before["links/submitted"] == before["seen/waiting"] > 0
    shards = [*state.shards]
    for shard in shards:
        state.shards.remove(shard)
    after = state.shards.stats()
    assert after["links/submitted"] == before["links/submitted"]
    assert after["seen/waiting"] == 0
    assert state.facts()["waiting"] == 0
    assert len(state.shards) == 0
    assert (state.shards.ready.acquire(), state.shards.ready.ready_at()) == (None, None)
    assert not state.shards.has_pending
    state.shards.work()
    assert state.shards.supply is Supply.NONE
    for shard in shards:
        state.shards.add(shard)


async def test_a_download_from_a_host_of_another_process_is_refused_with_a_sentence(state):
    downloads = SideDownloads(shards=state.shards, key_of=host_of, stats=None, clock=lambda: 0.0)
    ours = next(url for url in URLS if number_of(url) == HELD[1])
    with pytest.raises(IgnoreRequest, match="belongs to another process of the crawl"):
        await downloads.turn(Request(THEIRS))
    turn = asyncio.ensure_future(downloads.turn(Request(ours)))
    await asyncio.sleep(0)
    state.shards.find_held(HELD[1]).is_leaving = True
    downloads.refuse_leaving()
    with pytest.raises(IgnoreRequest, match="yield a Request instead"):
        await turn
    assert not downloads
