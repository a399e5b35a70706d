"""Shards as the settings make them, without a crawl around them."""

import time

import pytest
from scrapy.crawler import Crawler
from scrapy.utils.project import get_project_settings
from text_tables import cases, each

from webcrawl.clock import since_boot
from webcrawl.crawl.builder import ProcessBuilder
from webcrawl.crawl.links.link_intake import LinkBatch, LinkSource, SeedFacts
from webcrawl.crawl.shard.shard import content_of, encode_note
from webcrawl.errors import FatalError
from webcrawl.frontier import Entry, decode, encode
from webcrawl.hive.bus.outbox import Outbox
from webcrawl.hosts.budgets import depths as depths_module
from webcrawl.spiders.web import WebSpider
from webcrawl.storage.record_log import NewerFormatError
from webcrawl.urls import Link

SOURCE = LinkSource("http://a.test/", 1, 0, b"", 1.0)
LARGEST = (1 << 64) - 1
RANKS = "webcrawl.frontier.prioritizer.RankPrioritizer"


def opened(jobdir, *, outbox=None, boot="", trusts_log=True, **values):
    """The state of the job in *jobdir*, open; its shard may have an *outbox*, as in a hive, and the
    machine may have been started anew for *boot*."""
    settings = get_project_settings()
    settings.setdict({"JOBDIR": str(jobdir), "CRAWLER_CONTACT": "me@a.test", **values}, "cmdline")
    state = ProcessBuilder(Crawler(WebSpider, settings)).state()
    if outbox is not None:
        state.shards.find_held(0).join("outbox", Outbox(path=outbox))
    state.shards.find_held(0).trusts_log = trusts_log
    job = state.resources.job
    job._boot = boot or job._boot
    job.open(spider="web")
    try:
        state.open()
    except FatalError:
        close(state)
        raise
    return state


def close(state, *, publish=False):
    job = state.resources.job
    if publish:
        job.publish(job.prepare({"spider": "web", **state.facts()}))
    errors = []
    state.close(errors.append)
    job.close()
    assert not errors


def test_a_crawl_without_the_domains_of_its_seeds_is_not_narrowed(tmp_path):
    close(opened(tmp_path / "job"), publish=True)
    with pytest.raises(FatalError, match="started with URL_SCOPE open"):
        opened(tmp_path / "job", URL_SCOPE="seeds")
    close(opened(tmp_path / "job"))
    close(opened(tmp_path / "other", URL_SCOPE="seeds"), publish=True)
    close(opened(tmp_path / "other", URL_SCOPE="domain"), publish=True)


@each("is_alone", False, True)
def test_pages_since_the_checkpoint_count_unless_others_may_have_what_they_yielded(
    tmp_path, is_alone
):
    def begin():
        state = opened(tmp_path, trusts_log=is_alone)
        return state, state.shards.find_held(0)

    state, shard = begin()
    shard.frontier.requeue(Entry("http://a.test/", "a.test"))
    close(state, publish=True)
    state, shard = begin()
    lease = shard.acquire()
    shard.frontier.contacts.release("a.test", rest=0.0)
    shard.finish(lease, content=0)
    close(state)  # as after kill -9
    state, shard = begin()
    again = shard.acquire()
    assert (again is None) == is_alone
    close(state)


def test_a_request_rests_with_the_host_of_its_url(tmp_path):
    state = opened(tmp_path, POLITENESS_KEY="domain")
    shard = state.shards.find_held(0)
    shard.ranks.add_many([("b.test", 7)])
    entry = Entry("http://www.b.test/", "elsewhere.test", rank=9)
    shard.enqueue(entry, None)
    for _ in range(2):
        shard.enqueue(entry, 77)
    shard.eliminator.merge()
    while not (taken := shard.eliminator.take(10)):
        time.sleep(0.01)
    lease = shard.acquire()
    assert lease.shard is shard
    assert lease.entry == decode(taken[0])
    assert (lease.entry.host, lease.entry.rank, len(taken)) == ("b.test", 7, 1)
    close(state)


def test_hosts_rest_from_the_start_of_a_machine_that_went_down(tmp_path):
    """Contacts that were journaled before it may not have come to the disk."""
    booted_at = time.time() - since_boot()
    longest = 1e6 + since_boot()
    state = opened(tmp_path)
    state.shards.find_held(0).frontier.requeue(Entry("http://a.test/", "a.test"))
    close(state, publish=True)
    state = opened(tmp_path, boot="another", POLITENESS_MAX_DELAY=longest)
    frontier = state.shards.find_held(0).frontier
    assert frontier.acquire() is None
    assert frontier.ready_at() == pytest.approx(booted_at + longest, abs=5)
    close(state)
    state = opened(tmp_path, POLITENESS_MAX_DELAY=longest)
    assert state.shards.find_held(0).frontier.acquire() is not None
    close(state)


def test_a_batch_is_divided_by_the_shards_of_its_hosts():
    hosts = ["a.test", "b.test", "c.test", "a.test"]
    links = [Link(f"http://{host}/{n}") for n, host in enumerate(hosts)]
    numbers = {"a.test": 2, "b.test": 0, "c.test": 2}
    batch = LinkBatch(links, hosts, [1, 2, 3, 4], SOURCE)
    assert [*batch.split(numbers.__getitem__)] == [
        (0, LinkBatch([links[1]], ["b.test"], [2], SOURCE)),
        (2, LinkBatch([links[0], *links[2:]], ["a.test", "c.test", "a.test"], [1, 3, 4], SOURCE)),
    ]


def test_seeds_take_their_ranks_along_and_the_sites_of_refused_ones():
    links = [Link("http://b.test/"), Link("http://a.test/")]
    seeds = SeedFacts([5, 7], ["b.test", "refused.test", "a.test"])
    batch = LinkBatch(links, ["b.test", "a.test"], [1, 2], SOURCE, seeds)
    numbers = {"a.test": 1, "b.test": 0, "refused.test": 3}
    assert [*batch.split(numbers.__getitem__)] == [
        (0, LinkBatch([links[0]], ["b.test"], [1], SOURCE, SeedFacts([5], ["b.test"]))),
        (1, LinkBatch([links[1]], ["a.test"], [2], SOURCE, SeedFacts([7], ["a.test"]))),
        (3, LinkBatch([], [], [], SOURCE, SeedFacts([], ["refused.test"]))),
    ]


# The note of a finished URL


@each("content", 0, 1, 77, LARGEST)
def test_a_note_of_content_is_decoded_as_it_was_encoded(content):
    assert content_of(encode_note(content)) == content


def test_fields_that_are_added_are_skipped():
    assert content_of(encode_note(77) + b"more") == 77


def test_a_later_version_is_refused():
    with pytest.raises(NewerFormatError, match="note has format 2, this webcrawl reads up to 1"):
        content_of(b"\x02" + encode_note(77)[1:])


@cases(
    "values depths",
    """
        {}                   | [2, 0, 1]
        {"URL_MAX_DEPTH": 9} | [0, 1, 2]
        BY_RANK              | [2, 0, 1]
    """,
    {"BY_RANK": {"URL_MAX_DEPTH": 9, "FRONTIER_PRIORITIZER": RANKS}},
)
def test_depths_are_taken_in_order_if_they_are_limited(tmp_path, monkeypatch, values, depths):
    monkeypatch.setattr(depths_module, "_SETTLE_SECS", 0.0)
    state = opened(tmp_path / "job", FRONTIER_LEVELS=1, POLITENESS_MIN_DELAY=0, **values)
    (shard,) = state.shards
    shard.feeder.has_all_seeds = True
    entries = [Entry(f"http://a{depth}.test/", f"a{depth}.test", depth) for depth in (2, 0, 1)]
    shard.admission.push([encode(entry) for entry in entries])
    found = []
    while shard.has_pending:
        while (lease := shard.acquire()) is not None:
            found.append(lease.entry.depth)
            shard.frontier.contacts.release(lease.entry.host, rest=0.0)
            shard.frontier.leases.finish(lease)
        shard.work(shard.feeder.supply)
    assert found == depths
    close(state)
