"""What outboxes have arrives in the inboxes, at least once, whatever becomes of Redis or drones."""

import asyncio
import contextlib
import itertools
import logging

import pytest
from bus_rig import BusDrone, links
from patience import LIMIT_SECS, SLOWNESS
from redis_server import RedisServer

from webcrawl.crawl.links.link_intake import SeedFacts
from webcrawl.frontier import Entry
from webcrawl.hive.bus.messages import EntryMessage, SeedsSent, encode, encode_hosts, encode_links
from webcrawl.hive.membership.keys import Keys
from webcrawl.storage.record_log import pack_many

NAMES = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with RedisServer(tmp_path_factory.mktemp("redis") / "r", appendonly=True) as server:
        yield server


async def until(is_so):
    async with asyncio.timeout(LIMIT_SECS):
        while not is_so():  # noqa: ASYNC110  # of whatever there is
            await asyncio.sleep(0.01)


def names_in(shard, count=1):
    return until(lambda: len(shard.names) >= count)


def seed():
    return encode_links(links(1)._replace(seeds=SeedFacts([1], ["b.test"])))


@pytest.fixture
def bus(tmp_path, server):
    """Return a function that starts two drones; b holds shard 1."""

    @contextlib.asynccontextmanager
    async def made(**more):
        async with drones(tmp_path, server.url, **more) as (a, b):
            yield a, b, b.shards[1]

    return made


@contextlib.asynccontextmanager
async def drones(directory, url, count=2, *, shards=2, **more):
    """They hold the shards in turn."""
    keys = Keys(f"bus{next(NAMES)}")
    made = [
        BusDrone(
            directory / str(number),
            url=url, keys=keys, held=range(number, shards, count), shards=shards,
        )
        for number in range(count)
    ]  # fmt: skip
    for drone in made:
        await drone.start(**more)
        await drone.beat()
    try:
        yield made
    finally:
        for drone in made:
            await drone.kill()


async def test_a_batch_arrives_and_is_acknowledged(bus):
    async with bus() as (a, b, shard):
        batch = links(3)
        a.send(batch)
        await names_in(shard)
        assert shard.log == [("link", link.url) for link in batch.links]
        await until(lambda: a.is_done)
        assert all(name in a.cache for name in batch.fingerprints)
        await a.checkpoint()
        await a.beat()
        assert a.outboxes[0].size > 0
        await b.checkpoint()
        await a.beat()
        assert a.outboxes[0].size == 0
        sent, received = a.sender.stats(), b.receiver.stats()
        assert sent["hive/batches/sent"] == received["hive/batches/received"] == 1
        assert sent["hive/bytes/sent"] == received["hive/bytes/received"] > 0
        assert received["hive/links/received"] == 3
        assert received["hive/batches/links_mean"] * received["hive/batches/received"] == 3
        assert 0 <= received["hive/lag/secs"] <= received["hive/lag/secs_max"] < 20


async def test_entries_are_submitted_or_requeued(bus):
    async with bus() as (a, _, shard):
        entry = Entry(url="http://b.test/", host="b.test", extra=b"plain/\x80")
        a.append(encode(EntryMessage(entry, 77)))
        a.append(encode(EntryMessage(entry, None)))
        await until(lambda: len(shard.log) == 2)
        assert shard.log == [("entry", 77), ("requeued", "http://b.test/")]


async def test_what_is_another_shard_s_is_refused_and_counted(bus, caplog):
    async with bus() as (a, b, shard):
        own, foreign = links(1), links(2, host="foreign.test")
        mixed = own._replace(
            links=[*own.links, *foreign.links],
            hosts=[*own.hosts, *foreign.hosts],
            fingerprints=[*own.fingerprints, *foreign.fingerprints],
        )
        a.send(foreign)
        a.send(mixed)
        a.send(mixed._replace(seeds=SeedFacts([1, 2, 3], mixed.hosts)))
        for url in ("http://foreign.test/", "http://b.test/"):
            # Whose it is its URL says; the politeness key beside it is a claim.
            a.append(encode(EntryMessage(Entry(url=url, host="b.test", extra=b"plain/\x80"), None)))
        a.append(encode_hosts({"a.test": ["foreign.test"]}))
        a.append(encode_hosts({"a.test": ["b.test", "foreign.test"], "c.test": ["foreign.test"]}))
        await until(lambda: len(shard.log) == 4)
        assert shard.log == [
            ("seed", own.links[0].url),
            ("requeued", "http://b.test/"),
            ("linked", "a.test", "b.test"),
            ("link", own.links[0].url),
        ]
        await until(lambda: b.receiver.stats()["hive/foreign"])
        assert b.receiver.stats()["hive/foreign"] == 2 + 2 + 4 + 1 + 1 + 1 + 1
        assert caplog.text.count("Refused a message from Redis for the host") == 1


async def test_hosts_that_a_domain_links_to_are_told(bus):
    async with bus() as (a, _, shard):
        for number, host in enumerate(("b.test", "www.b.test"), 77):
            a.outboxes[0].note(1, "a.test", host, number)
        a.outboxes[0].note(1, "c.test", "b.test", 79)
        await until(lambda: 79 in a.cache and len(shard.log) == 2)
        assert shard.log == [
            ("linked", "a.test", "b.test", "www.b.test"),
            ("linked", "c.test", "b.test"),
        ]
        assert a.sender.sent == 1


async def test_messages_of_many_pages_come_in_few_entries(bus):
    async with bus() as (a, _, shard):
        for _ in range(2000):
            a.send()
        await names_in(shard, 2000)
        assert a.sender.sent < 40
        numbers = [int(url.rpartition("/")[2]) for _, url in shard.log]
        assert numbers == sorted(numbers)


async def test_entries_for_many_shards_take_few_turns_of_the_loop(tmp_path, server):
    async with drones(tmp_path, server.url, shards=40) as (a, b):
        shards = b.shards.values()
        for shard in shards:
            shard.eliminator.is_full = True
        for target in b.shards:
            a.send(target=target)
        await until(lambda: a.is_done)
        for shard in shards:
            shard.eliminator.is_full = False
        turns = 0
        async with asyncio.timeout(LIMIT_SECS):
            while not all(shard.names for shard in shards):
                turns += any(shard.names for shard in shards)
                await asyncio.sleep(0)
        assert turns < 10


async def test_a_full_stream_gets_no_more_until_it_is_acknowledged(tmp_path, server):
    async with drones(tmp_path, server.url, 3, shards=3, stream_bytes=50_000) as (a, b, c):
        b.shards[1].eliminator.is_full = True
        for _ in range(3000):
            a.send()
        a.send(target=2)
        await until(lambda: c.shards[2].names)
        while (size := await b.client.memory_usage(b._keys.stream(1)) or 0) <= 50_000:  # noqa: ASYNC110  # in Redis
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        assert size <= (await b.client.memory_usage(b._keys.stream(1))) < 100_000
        assert not a.is_done
        assert not b.shards[1].names
        b.shards[1].eliminator.is_full = False
        while len(b.shards[1].names) < 3000:
            await b.checkpoint()
            await asyncio.sleep(0.05)
        await until(lambda: a.is_done)


async def test_the_end_of_the_seeds_comes_after_all_seeds(tmp_path, server):
    async with drones(tmp_path, server.url, 3, shards=3, stream_bytes=50_000) as (a, b, c):
        # Those of one shard may have to wait. Another one, which has all of its own, may begin.
        b.shards[1].eliminator.is_full = True
        for _ in range(500):
            a.append(seed())
        a.outboxes[0].append_all([(1, encode(SeedsSent()), ()), (2, encode(SeedsSent()), ())])
        await until(lambda: c.shards[2].feeder.has_all_seeds)
        assert not b.shards[1].feeder.has_all_seeds or len(b.shards[1].names) == 500
        b.shards[1].eliminator.is_full = False
        while not b.shards[1].feeder.has_all_seeds:
            await b.checkpoint()
            await asyncio.sleep(0.05)
        assert len(b.shards[1].names) == 500
        assert b.inboxes[1].knows_all_seeds


async def test_links_that_overtake_seeds_wait_for_them(bus):
    async with bus() as (a, b, shard):
        shard.settings.needs_all_seeds = True
        a.send()
        await until(lambda: a.is_done)
        a.append(seed())
        await until(lambda: shard.log)
        a.send()
        await until(lambda: a.is_done)
        await asyncio.sleep(0.2)
        assert [kind for kind, _ in shard.log] == ["seed"]
        # Nothing of it is acknowledged, so it may die now.
        await b.checkpoint()
        assert b.positions == {1: "0-0"}
        a.append(encode(SeedsSent()))
        await names_in(shard, 3)
        assert sorted(kind for kind, _ in shard.log) == ["link", "link", "seed", "seed"]
        last = (await b.client.xinfo_stream(b._keys.stream(1)))["last-generated-id"].decode()
        await until(lambda: b.inboxes[1].position == last)


async def test_garbage_is_skipped_counted_and_told_once(bus, caplog):
    async with bus() as (a, b, shard):
        stream = b._keys.stream(1)
        for fields in (
            {"b": b"garbage"},
            {"other": b"field"},
            {"b": pack_many([b"no message", encode(SeedsSent())])},
            {"b": b""},
        ):
            await b.client.xadd(stream, fields)
        a.send()
        await names_in(shard)
        assert b.receiver.stats()["hive/garbage"] == 4
        assert shard.feeder.has_all_seeds
        told = [record for record in caplog.records if "invalid message" in record.getMessage()]
        assert len(told) == 1


async def test_links_that_a_full_disk_refused_are_read_again(bus):
    async with bus() as (a, b, shard):
        shard.failure = OSError("full")
        a.send()
        await until(lambda: b.failures)
        assert b.inboxes[1].position == "0-0"
        shard.failure = None
        await names_in(shard)


async def test_a_shard_that_has_gone_takes_nothing_in(bus):
    async with bus() as (a, b, shard):
        b.inboxes.pop(1)  # before it is closed
        a.send()
        await until(lambda: a.is_done)
        await asyncio.sleep(0.7)
        assert not shard.names
        # An outbox that has gone is no concern of the sender's either.
        a.send()
        a.outboxes.pop(0).close()
        await until(lambda: a.is_done)


async def test_links_under_way_when_shards_are_abandoned_stay_out_of_the_cache(bus, server):
    async with bus() as (a, _, shard):
        a.send()
        await until(lambda: len(shard.names) == 1 and a.is_done)
        assert len(a.cache) == 1
        server.pause()
        try:
            a.send()
            await asyncio.sleep(0.5 * SLOWNESS)
            a.outboxes.pop(0).close()
            a.sender.forget()
        finally:
            server.resume()
        await until(lambda: len(shard.names) == 2)
        await asyncio.sleep(0.5 * SLOWNESS)
        assert len(a.cache) == 0


async def test_an_emptied_redis_whose_clock_is_behind_hides_nothing(bus):
    async with bus() as (a, b, shard):
        a.send()
        await names_in(shard)
        await b.checkpoint()
        # An ID from the future, as a server with a fast clock gives them.
        await b.client.xadd(b._keys.stream(1), {"b": pack_many([])}, id="9999999999999-0")
        await until(lambda: b.inboxes[1].position == "9999999999999-0")
        await b.client.flushall()
        await b.beat("another")
        await a.beat("another")
        batch = links(1)
        a.send(batch)
        await until(lambda: {*batch.fingerprints} <= shard.names)
        # The checkpoint that was published before means nothing in this Redis.
        await b.checkpoint()
        assert b.positions[1] < "9999999999999-0"


async def test_acknowledgements_of_another_redis_delete_nothing(bus):
    async with bus() as (a, _, shard):
        a.send()
        await names_in(shard)
        await until(lambda: a.is_done)
        await a.checkpoint()
        a.sender.on_heartbeat("another", {1: "9999999999999-0"})
        assert a.outboxes[0].size > 0


async def test_sending_goes_on_when_redis_is_back(bus, server, caplog):
    caplog.set_level(logging.INFO)
    async with bus() as (a, _, shard):
        server.kill()
        a.send()
        await until(lambda: "Redis cannot be used" in caplog.text)
        server.start()
        await names_in(shard)
        assert caplog.text.count("Redis cannot be used") == 1


async def test_a_redis_without_memory_gets_the_rest_later(tmp_path, redis_of):
    server = redis_of(more=["--maxmemory", "3mb", "--maxmemory-policy", "noeviction"])
    async with drones(tmp_path, server.url) as (a, b):
        b.shards[1].eliminator.is_full = True
        for _ in range(800):
            a.send(links(200))
        await until(lambda: a.sender.sent > 10)
        await asyncio.sleep(0.5)
        assert not a.is_done
        b.shards[1].eliminator.is_full = False
        async with asyncio.timeout(LIMIT_SECS):
            while len(b.shards[1].names) < 800 * 200 or not a.is_done:
                await b.checkpoint()
                await asyncio.sleep(0.1)
