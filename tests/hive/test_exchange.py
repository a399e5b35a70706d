"""Exchange of shards by one drone, over a real Redis and store; its process does nothing."""

import asyncio
import logging
import math
import secrets
from collections import Counter
from contextlib import asynccontextmanager
from itertools import pairwise
from types import SimpleNamespace

import pytest
from patience import LIMIT_SECS, SLOWNESS
from published_shard import Living
from scrapy.settings import Settings

from webcrawl.clock import now
from webcrawl.crawl.shard.shards import Shards
from webcrawl.errors import ObjectStoreError
from webcrawl.hive.exchange import ShardExchange
from webcrawl.hive.membership.connection import client_of
from webcrawl.hive.membership.holding import Holding
from webcrawl.hive.membership.keys import Keys
from webcrawl.hive.membership.membership import Membership, Owner
from webcrawl.hive.membership.report import Report
from webcrawl.hive.publication import Publication
from webcrawl.hive.store.checkpoint_files import LocalRecord
from webcrawl.hive.store.store import CheckpointStore, HiveFacts
from webcrawl.hive.store.upload import SupersededError

LEASE_SECS = 1.5 * SLOWNESS


def test_a_shard_that_was_lost_while_it_was_brought_is_not_adopted(tmp_path, server):
    assert asyncio.run(adopted_by_a(tmp_path, server.url, is_paused=False)) == [0]
    assert asyncio.run(adopted_by_a(tmp_path, server.url, is_paused=True)) == []


async def test_a_few_shards_are_adopted_with_each_beat(tmp_path, server):
    async with drone(tmp_path, server.url, shards=64) as a:
        for adopted in (8, 16, 24):
            await a.work()
            assert len(a.shards) == adopted


async def test_a_shard_that_cannot_be_fetched_is_tried_once_in_the_time_of_a_lease(
    tmp_path, server, monkeypatch
):
    tried_at = []

    def newest(*_):
        tried_at.append(now())
        raise ObjectStoreError("HIVE_STORE is away")

    monkeypatch.setattr(CheckpointStore, "find_newest", newest)
    async with (
        drone(tmp_path, server.url, lease_secs=LEASE_SECS, shards=1) as a,
        drone(tmp_path, server.url) as b,
    ):
        await b.membership.beat(Report())
        await b.membership.release(await b.membership.claim({0: Owner(0, "")}))
        while len(tried_at) < 3:
            await a.work()
            await asyncio.sleep(0.05 * LEASE_SECS)
        assert [after - before >= LEASE_SECS for before, after in pairwise(tried_at)] == [True] * 2
        assert [*a.shards] == []


@pytest.mark.parametrize("has_requests", [False, True])
async def test_a_lost_shard_gives_up_others_only_if_it_may_have_their_requests(
    tmp_path, has_requests, server, caplog
):
    async with drone(tmp_path, server.url, shards=3) as a, drone(tmp_path, server.url) as b:
        await a.work()
        assert sorted(a.shards) == [0, 1, 2]
        if has_requests:
            a.parts.holding.outboxes[1].note_requests()
        await a.membership.leave()
        await b.membership.beat(Report())
        owner = (await b.membership.look()).owners[1]
        [(_, token)] = (await b.membership.claim({1: owner})).items()
        await a.exchange.keep({1: a.parts.holding.leases[1]})
        left = [] if has_requests else [0, 2]
        assert sorted(a.shards) == sorted(a.parts.holding.leases) == left
        lost = "3 shards" if has_requests else "1 shard"
        assert (
            f"The shards 1 were lost to other drones: what was fetched for {lost} since"
            in caplog.text
        )
        # What is taken up again is what no other drone has had since.
        await b.membership.release({1: token})
        await a.work()
        assert sorted(a.shards) == [0, 1, 2]
        assert a.trusted == [True] * 3 + ([False] * 3 if has_requests else [True])


async def test_a_drone_claims_again_what_it_had_in_a_redis_that_was_emptied(tmp_path, server):
    async with drone(tmp_path, server.url, lease_secs=LEASE_SECS, shards=1) as a:
        last = Living(tmp_path / "last")
        last.save(a.parts.store, drone=a.parts.name)
        last.end()
        # Its next process, which has the same name and cannot see that Redis was emptied.
        a.parts.holding.is_redis_complete = False
        await asyncio.sleep(LEASE_SECS)
        await a.work()
        assert [*a.shards] == [0]


async def test_a_shard_whose_row_redis_has_lost_is_taken_a_lease_later(tmp_path, server):
    """Its holder, which lives, registers it again with its next heartbeat."""
    async with (
        drone(tmp_path, server.url, lease_secs=LEASE_SECS, shards=1) as a,
        drone(tmp_path, server.url) as b,
    ):
        await b.membership.beat(Report())
        leases = await b.membership.claim({0: Owner(0, "")})
        await b.membership.acknowledge({0: "7-2"}, leases, {0: 5})
        with server.client() as client:
            client.delete(Keys("hive").shards)
        deleted_at = now()
        while not (owners := (await b.membership.look()).owners):
            await a.work()
            await asyncio.sleep(0.05 * LEASE_SECS)
        assert now() >= deleted_at + LEASE_SECS
        assert owners[0].drone == a.parts.name


async def test_shards_with_waiting_urls_are_handed_over_to_the_drone_that_takes_them(
    tmp_path, server, monkeypatch
):
    async with drone(tmp_path, server.url, shards=12) as a, drone(tmp_path, server.url) as b:
        for _ in range(3):
            await a.work()
        assert len(a.shards) == 12
        await b.membership.beat(Report())
        seen = []

        async def release(_, numbers):
            seen.append((sorted(numbers), a.exchange.is_handing_over))
            return numbers

        monkeypatch.setattr(Publication, "release", release)
        await a.membership.order(moves=f"{a.parts.name} {b.parts.name} 2")
        await a.work()  # nothing waits in them
        assert seen == []
        # Seeds are read by the holder of shard 0; the shard with the most URLs stays.
        for number in range(8):
            a.shards[number].frontier.waiting = 100 - number
        await a.work()
        assert seen == [([2, 4, 6], True)]
        assert not a.exchange.is_handing_over
        await b.work()
        assert sorted(b.shards) == sorted(b.parts.holding.leases) == [2, 4, 6]
        await a.membership.order(moves=f"b c 2 {a.parts.name} {b.parts.name} 4096")
        await a.work()
        assert seen[1:] == [([3], True)]
        assert sorted(a.shards) == [0, 1, 5, 7, 8, 9, 10, 11]


async def test_a_shard_for_a_drone_that_has_left_is_taken_by_another(tmp_path, server, monkeypatch):
    async with (
        drone(tmp_path, server.url, lease_secs=LEASE_SECS, shards=3) as a,
        drone(tmp_path, server.url) as b,
    ):
        await a.beat()

        async def release(_, numbers):
            return numbers

        monkeypatch.setattr(Publication, "release", release)
        await a.membership.order(moves=f"{a.parts.name} {b.parts.name} 2")
        for number in (1, 2):
            a.shards[number].frontier.waiting = 9
        await a.beat()
        assert sorted(a.shards) == [0, 1]
        await a.membership.order(moves="")
        async with asyncio.timeout(LIMIT_SECS):
            while sorted(a.shards) != [0, 1, 2]:
                await a.beat()
                await asyncio.sleep(0.1 * LEASE_SECS)


async def test_an_older_copy_of_redis_gives_no_shard_back_to_the_drone_that_handed_it_over(
    tmp_path, server, monkeypatch
):
    async with (
        drone(tmp_path, server.url, lease_secs=LEASE_SECS, shards=3) as a,
        drone(tmp_path, server.url, lease_secs=LEASE_SECS) as b,
    ):
        await a.beat()
        await b.beat()
        with server.client() as client:
            client.save()

        async def release(_, numbers):
            return numbers

        monkeypatch.setattr(Publication, "release", release)
        await a.membership.order(moves=f"{a.parts.name} {b.parts.name} 2")
        for number in (1, 2):
            a.shards[number].frontier.waiting = 9
        await a.beat()
        await b.beat()
        assert (sorted(a.shards), sorted(b.shards)) == ([0, 1], [2])
        server.restart()
        await a.beat()  # the first that looks
        assert (sorted(a.shards), sorted(b.shards)) == ([0, 1], [2])
        await b.exchange.keep(b.parts.holding.leases)
        for _ in range(15):
            await b.beat()
            await a.beat()
            await asyncio.sleep(0.1 * LEASE_SECS)
        assert (sorted(a.shards), sorted(b.shards)) == ([0, 1], [2])
        await b.membership.leave()
        async with asyncio.timeout(LIMIT_SECS):
            while sorted(a.shards) != [0, 1, 2]:
                await a.beat()
                await asyncio.sleep(0.1 * LEASE_SECS)


async def test_what_a_living_drone_does_not_enter_in_a_new_redis_is_taken(tmp_path, server):
    """It had published the shard, and has its share of others."""
    async with (
        drone(tmp_path, server.url, lease_secs=LEASE_SECS, shards=1) as a,
        drone(tmp_path, server.url) as b,
    ):
        last = Living(tmp_path / "last")
        last.save(a.parts.store, drone=b.parts.name)
        last.end()
        a.parts.holding.is_redis_complete = False
        await b.membership.beat(Report())
        await a.work()
        assert [*a.shards] == []
        await asyncio.sleep(LEASE_SECS)  # all that it holds is entered by now
        await a.work()
        assert [*a.shards] == [0]


async def test_a_shard_that_is_lost_during_its_publication_is_not_acknowledged(
    tmp_path, server, monkeypatch
):
    async with drone(tmp_path, server.url, shards=2) as a:
        await a.work()
        holding, loop = a.parts.holding, asyncio.get_running_loop()

        async def lose():
            a.exchange.abandon([0])
            holding.leases[0] = 7  # claimed again, not yet adopted

        def publish(_, path, *, shard, **__):
            if shard == 1:
                asyncio.run_coroutine_threadsafe(lose(), loop).result()
            return 5

        monkeypatch.setattr(CheckpointStore, "publish", publish)
        await Publication(a.parts).publish()
        beat = await a.membership.beat(Report())
        assert beat.acknowledged == {1: (holding.leases[1], 5)}


async def test_shards_that_are_not_published_with_a_checkpoint_are_told(tmp_path, server, caplog):
    caplog.set_level(logging.INFO)
    async with drone(tmp_path, server.url, shards=2) as a:
        await a.work()
        a.parts.holding.revoke()
        await Publication(a.parts).publish()
    assert "0 shards uploaded to HIVE_STORE; the others follow with the next" in caplog.text


async def test_a_newer_checkpoint_of_another_drone_ends_the_shard(tmp_path, server, monkeypatch):
    def publish(_, path, *, token, **__):
        raise SupersededError("Not published", token + 7)

    monkeypatch.setattr(CheckpointStore, "publish", publish)
    async with drone(tmp_path, server.url, shards=1) as a:
        await a.work()
        [token] = a.parts.holding.leases.values()
        await Publication(a.parts).publish()
        assert a.parts.holding.superseded == {0}
        a.exchange.abandon({0})
        a.parts.holding.valid_until = math.inf  # as after the next heartbeat
        await a.work()
        assert a.parts.holding.leases[0] > token + 7
        assert a.parts.holding.superseded == set()


async def test_a_shard_with_a_newer_checkpoint_is_left_to_the_drone_that_made_it(tmp_path, server):
    """It is cut off from Redis, which has lost its claim."""
    async with drone(tmp_path, server.url, lease_secs=LEASE_SECS, shards=1) as a:
        await a.work()
        [token] = a.parts.holding.leases.values()
        other = Living(tmp_path / "other")
        other.save(a.parts.store, token=token + 5, drone="c")
        other.end()
        # As after the upload of the next checkpoint.
        a.parts.holding.newest[0] = token + 5
        a.exchange.abandon(a.parts.holding.superseded)
        for _ in range(15):
            a.parts.store.beat("c", [0])
            await a.work()
            assert [*a.shards] == []
            await asyncio.sleep(0.1 * LEASE_SECS)
        await asyncio.sleep(LEASE_SECS)
        await a.work()
        assert a.parts.holding.leases[0] > token + 5


async def adopted_by_a(directory, url, *, is_paused):
    """The shards that a drone adopts, which is paused or not while it brings the only one."""
    brings, goes_on = asyncio.Event(), asyncio.Event()

    async def until_gone(_):
        brings.set()
        await goes_on.wait()

    async with drone(directory, url, name=f"{is_paused}", lease_secs=LEASE_SECS, shards=1) as a:
        a.parts.process.parts.lifecycle.until_gone = until_gone
        b = Membership(client=a.parts.client, keys=a.keys, drone="b", lease_secs=60)
        work = asyncio.ensure_future(a.exchange.work(await a.membership.beat(Report())))
        await brings.wait()
        if is_paused:
            await asyncio.sleep(1.2 * LEASE_SECS)
            assert await b.claim({0: (await b.beat(Report())).owners[0]})
        beat = await a.membership.beat(Report())
        leases = a.parts.holding.leases.items()
        await a.exchange.keep(
            {one: token for one, token in leases if beat.leases.get(one) != token}
        )
        goes_on.set()
        await work
        return [*a.shards]


@asynccontextmanager
async def drone(directory, url, **options):
    """One of a hive with the Redis at *url*, made by ``_joined``."""
    client = client_of(Settings({"REDIS_URL": url}))
    try:
        yield await _joined(client, directory, **options)
    finally:
        await client.aclose()


async def _joined(client, directory, *, name="hive", lease_secs=60.0, shards=0):
    """One of the hive *name*, with so many shards if it is the first: they are all its share."""
    keys = Keys(name)
    drone = secrets.token_hex(4)
    membership = Membership(client=client, keys=keys, drone=drone, lease_secs=lease_secs)
    store = CheckpointStore(url=str(directory / f"store-{name}"))
    store.enter(HiveFacts(shards=shards, politeness_key="host"), "")
    held = {}
    trusted = []

    def path_of(number):
        return directory / drone / "shards" / f"{number:02d}"

    def adopt(shard, **_):
        held[shard.number] = shard
        trusted.append(shard.trusts_log)
        (path_of(shard.number) / "CURRENT").touch()

    async def until_gone(_):
        pass

    class Frontier:
        def __init__(self):
            self.counts = SimpleNamespace(crawl=Counter())
            self.waiting = 0

        def __len__(self):
            return self.waiting

    class HeldShards:
        number_of = staticmethod(Shards().number_of)

        def __iter__(self):
            return iter([*held.values()])

        def find_held(self, number):
            return held.get(number)

    parts = SimpleNamespace(
        name=drone,
        settings=SimpleNamespace(lease_secs=lease_secs),
        holding=Holding(lease_secs=lease_secs, valid_until=math.inf, is_redis_complete=True),
        client=client,
        membership=membership,
        store=store,
        shard_of=lambda number: SimpleNamespace(
            number=number,
            name=f"{number:02d}",
            join=lambda *_: None,
            is_idle=True,
            is_abandoned=False,
            frontier=Frontier(),
            hosts=SimpleNamespace(records=SimpleNamespace(database=None)),
        ),
        receiver=SimpleNamespace(incarnation=""),
        live_seeds=SimpleNamespace(begin=lambda: None),
        bodies=None,  # it renders nothing
        sender=SimpleNamespace(forget=lambda: None),
        job=SimpleNamespace(path=directory / drone),
        directory=path_of,
        shards=HeldShards(),
        stats=SimpleNamespace(inc_value=lambda *_: None),
        process=SimpleNamespace(
            parts=SimpleNamespace(
                services=SimpleNamespace(renderer=None),
                lifecycle=SimpleNamespace(
                    until_gone=until_gone,
                    adopt=adopt,
                    abandon=lambda shard, **_: held.pop(shard.number),
                ),
            ),
            intake=SimpleNamespace(enqueue_early=lambda: None),
            checkpoints=SimpleNamespace(start=lambda: None),
            stop=SimpleNamespace(is_ending=False, is_over=False),
        ),
    )
    if shards:
        await membership.enter(shards)
        await membership.beat(Report())
        await membership.order(share=shards)
    exchange = ShardExchange(parts, Publication(parts))

    async def work():
        await exchange.work(await membership.beat(Report()))

    async def beat():
        beat = await membership.beat(Report())
        parts.holding.record_renewal(beat.began, had_lease=beat.had_lease)
        parts.holding.confirm(beat.began, beat.incarnation)
        await exchange.work(beat)

    return SimpleNamespace(
        work=work,
        beat=beat,
        parts=parts,
        keys=keys,
        membership=membership,
        exchange=exchange,
        shards=held,
        trusted=trusted,
    )


async def test_a_claim_that_redis_has_lost_is_left_to_a_drone_that_is_cut_off(tmp_path, server):
    """Redis came back with an older copy of its data, in which a dead drone has the shard."""
    async with (
        drone(tmp_path, server.url, lease_secs=LEASE_SECS, shards=2) as a,
        drone(tmp_path, server.url) as b,
        drone(tmp_path, server.url) as c,
    ):
        for one in (a, b, c):
            await one.membership.beat(Report())
        await a.membership.claim({0: Owner(0, "")})
        await b.membership.claim({1: Owner(0, "")})
        await b.membership.leave()
        with server.client() as client:
            client.save()
        owner = (await c.membership.look()).owners[1]
        c.parts.holding.leases |= await c.membership.claim({1: owner})
        server.restart()
        for _ in range(30):
            c.parts.store.beat(c.parts.name, c.parts.holding.leases)
            await a.beat()
            assert 1 not in a.shards
            await asyncio.sleep(0.1 * LEASE_SECS)
        # The other drone has ended.
        async with asyncio.timeout(LIMIT_SECS):
            while 1 not in a.shards:
                await a.beat()
                await asyncio.sleep(0.1 * LEASE_SECS)


async def test_a_shard_that_redis_does_not_know_continues_from_its_checkpoint(tmp_path, server):
    """Redis came back with data from before the shard was claimed, and all drones were killed."""
    async with drone(tmp_path, server.url, shards=1) as a:
        last = Living(tmp_path / "last")
        last.crawl(0)
        last.save(a.parts.store, drone="c")
        last.end()
        await a.work()
        assert [*a.shards] == [0]
        assert LocalRecord.read(a.parts.directory(0)).checkpoints


async def test_a_claim_is_refused_by_a_redis_that_was_restarted_since_the_heartbeat(
    tmp_path, server, monkeypatch
):
    """It may have lost the claim of another drone."""
    async with drone(tmp_path, server.url, shards=1) as a:
        with server.client() as client:
            client.save()
        a.parts.store.heartbeats = lambda *_: server.restart() or {}
        await a.work()
        assert a.parts.holding.leases == {}


async def test_a_drone_looks_only_for_checkpoints_of_shards_that_it_takes(
    tmp_path, server, monkeypatch
):
    """With the first heartbeats after Redis was emptied, none is known; a bucket is slow."""
    sought = []
    find_newest = CheckpointStore.find_newest

    def counted(store, number):
        sought.append(number)
        return find_newest(store, number)

    monkeypatch.setattr(CheckpointStore, "find_newest", counted)
    async with drone(tmp_path, server.url, lease_secs=LEASE_SECS, shards=64) as a:
        a.parts.holding.is_redis_complete = False
        await asyncio.sleep(LEASE_SECS)
        await a.work()
        assert {*sought} == {*a.shards}
        assert len(a.shards) == 8
