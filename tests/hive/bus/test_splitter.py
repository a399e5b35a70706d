"""The splitter gives each shard its links, here or by way of the outbox, and each of them once."""

import itertools
from types import SimpleNamespace

import pytest
from bus_rig import ModelShard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import urls

from webcrawl.crawl.links.link_intake import LinkBatch, LinkSource, SeedFacts
from webcrawl.crawl.shard.shards import NotHeldError, Shards
from webcrawl.frontier import Entry
from webcrawl.hive.bus.messages import EntryMessage, LinkedHosts, SeedsSent, decode
from webcrawl.hive.bus.outbox import Outbox
from webcrawl.hive.bus.splitter import HostSplitter
from webcrawl.seen.caches.clock import ClockCache
from webcrawl.seen.fingerprint import fingerprint
from webcrawl.urls import Link, host_of

NUMBER = 8
EXAMPLES = itertools.count()


class Rig:
    """A process that holds the shards *held* of eight."""

    def __init__(self, directory, *held):
        self.cache = ClockCache(size=5000)
        self.outboxes = {}
        self.models = {}
        self.shards = Shards(number=NUMBER)
        for number in held:
            model = ModelShard()
            model.number, model.name = number, f"{number:02d}"
            model.frontier = SimpleNamespace(contacts=SimpleNamespace())
            self.models[number] = model
            self.shards.add(model)
            self.outboxes[number] = Outbox(path=directory / str(number))
            self.outboxes[number].open(None)
        self.splitter = HostSplitter(
            self.shards, outboxes=self.outboxes, cache=self.cache, bodies=None
        )

    def submit(self, links, *, via, seeds=None):
        source = LinkSource(via and f"http://{via}/", 1, 0, b"", 1.0)
        hosts, names = [*map(host_of, links)], [*map(fingerprint, links)]
        self.splitter.submit(LinkBatch([*map(Link, links)], hosts, names, source, seeds))

    def sent(self, number):
        """What the outbox of shard *number* has, delivered now."""
        messages = self.outboxes[number].take(1 << 30)
        for message in messages:
            self.outboxes[number].mark_delivered(message, "1-0")
            self.cache.admit(message.cache_keys)
        return [(message.target, decode(message.payload)) for message in messages]

    def host(self, number, *, skip=0):
        """A host of shard *number*."""
        hosts = (f"host{i}.test" for i in range(10_000))
        return [host for host in hosts if self.shards.number_of(host) == number][skip]

    def close(self):
        for outbox in self.outboxes.values():
            outbox.close()


@pytest.fixture
def rig(tmp_path):
    rig = Rig(tmp_path, 0, 2)
    yield rig
    rig.close()


def test_links_go_to_their_shards(rig):
    own, other, held = rig.host(2), rig.host(5), rig.host(0)
    rig.submit([f"http://{host}/{i}" for i in range(2) for host in (own, other, held)], via=own)
    assert [url for _, url in rig.models[2].log] == [f"http://{own}/0", f"http://{own}/1"]
    # Those of another shard of the process go by its stream, too.
    assert rig.models[0].log == []
    sent = {target: [link.url for link in message.links] for target, message in rig.sent(2)}
    assert sent == {
        5: [f"http://{other}/0", f"http://{other}/1"],
        0: [f"http://{held}/0", f"http://{held}/1"],
    }
    stats = rig.splitter.stats()
    assert stats["hive/links/kept"] == 2
    assert stats["hive/links/sent"] == 4
    assert stats["hive/links/spared"] == 0
    assert stats["hive/links/leaving_share"] == 0.6667
    assert stats["hive/outbox/bytes"] > stats["hive/outbox/unsent"] == 0


def test_a_link_that_was_delivered_is_not_sent_again(rig):
    page, other = rig.host(2), rig.host(5)
    for _ in range(2):
        rig.submit([f"http://{other}/"], via=page)
    # Nothing had been answered for.
    assert len(rig.sent(2)) == 2
    rig.submit([f"http://{other}/", f"http://{other}/new"], via=f"www.{page}")
    ((_, message),) = rig.sent(2)
    assert [link.url for link in message.links] == [f"http://{other}/new"]
    # From another domain it counts for the reputation of its own.
    another = rig.host(2, skip=1)
    for sent in ([(5, LinkedHosts({another: [other]}))], []):
        rig.submit([f"http://{other}/", f"http://{other}/new"], via=another)
        assert (rig.sent(0), rig.sent(2)) == (sent, [])
    stats = rig.splitter.stats()
    assert (stats["hive/links/sent"], stats["hive/links/spared"]) == (3, 5)
    assert stats["hive/cache/hit_share"] > 0


def test_seeds_come_with_their_ranks_and_sites_whatever_the_cache_has(rig):
    ours, others = rig.host(0), rig.host(5)
    found = [f"http://{others}/", f"http://{ours}/", f"http://{others}/2"]
    refused = rig.host(3)
    seeds = SeedFacts([7, 8, 9], [*map(host_of, found), refused])
    for _ in range(2):
        rig.submit(found, via="", seeds=seeds)
        sent = dict(rig.sent(0))
        assert sent[5].seeds == SeedFacts([7, 9], [others, others])
        assert sent[3].seeds == SeedFacts([], [refused])
        assert sent.keys() == {3, 5}
        rig.cache.admit([*map(fingerprint, found)])
    assert [url for _, url in rig.models[0].log] == [f"http://{ours}/"] * 2


def test_every_shard_is_told_the_end_of_the_seeds_after_them(rig):
    other = rig.host(5)
    rig.submit([f"http://{other}/"], via="", seeds=SeedFacts([1], [other]))
    rig.splitter.note_all_seeds_read()
    (target, seed), *ends = rig.sent(0)
    assert (target, seed.links[0].url) == (5, f"http://{other}/")
    assert ends == [(target, SeedsSent()) for target in range(NUMBER)]


def test_an_entry_goes_to_the_shard_of_its_url(rig):
    entry = Entry(url=f"http://{rig.host(5)}/", host=rig.host(5), extra=b"pickled")
    rig.splitter.enqueue(entry, 77)
    rig.splitter.enqueue(entry, None)
    sent = rig.sent(0) + rig.sent(2)
    assert sent == [(5, EntryMessage(entry, 77)), (5, EntryMessage(entry, None))]


def test_many_links_to_one_shard_are_several_messages(rig):
    other = rig.host(5)
    found = [f"http://{other}/{i}" for i in range(1300)]
    rig.submit(found, via=rig.host(2))
    sent = rig.sent(2)
    assert [len(message.links) for _, message in sent] == [512, 512, 276]
    assert [link.url for _, message in sent for link in message.links] == found
    rig.submit(found, via=rig.host(2))
    assert rig.sent(2) == []


def test_sources_pause_while_an_outbox_has_much_to_send(rig, monkeypatch):
    monkeypatch.setattr("webcrawl.hive.bus.splitter._FULL_BYTES", 100)
    assert not rig.splitter.is_full
    rig.submit([f"http://{rig.host(5)}/{'x' * 100}"], via=rig.host(2))
    assert rig.splitter.is_full
    rig.sent(2)
    assert not rig.splitter.is_full


def test_a_process_without_shards_takes_nothing(tmp_path):
    rig = Rig(tmp_path)
    with pytest.raises(NotHeldError):
        rig.submit(["http://a.test/"], via="a.test")
    with pytest.raises(NotHeldError):
        rig.splitter.enqueue(Entry(url="http://a.test/", host="a.test"), 1)


@given(found=st.lists(urls(), max_size=20), via=urls(), is_seeds=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_link_is_in_one_place(tmp_path, found, via, is_seeds):
    rig = Rig(tmp_path / str(next(EXAMPLES)), *range(NUMBER))
    seeds = SeedFacts([1] * len(found), [*map(host_of, found)]) if is_seeds else None
    source = "" if is_seeds else host_of(via)
    rig.submit(found, via=source, seeds=seeds)
    own = 0 if is_seeds else rig.shards.number_of(host_of(f"http://{source}/"))
    places = [(own, url) for _, url in rig.models[own].log]
    for target, message in rig.sent(own):
        places += [(target, link.url) for link in message.links]
    assert sorted(places) == sorted((rig.shards.number_of(host_of(url)), url) for url in found)
    rig.close()
