"""A shard that a drone loses while it brings its checkpoint, as one that is paused there does."""

from __future__ import annotations

import asyncio
import math
from types import SimpleNamespace
from typing import Any

import uvloop
from redis_server import RedisServer
from scrapy.settings import Settings

from webcrawl.crawl.shards import Shards
from webcrawl.hive.connection import client_of, close
from webcrawl.hive.exchange import ShardExchange
from webcrawl.hive.keys import Keys
from webcrawl.hive.membership import Membership
from webcrawl.hive.parts import Holding
from webcrawl.hive.publication import Publication
from webcrawl.hive.report import Report
from webcrawl.hive.store import CheckpointStore, HiveFacts

LEASE_SECS = 0.5


def test_a_shard_that_was_lost_while_it_was_brought_is_not_adopted(tmp_path):
    with RedisServer(tmp_path / "redis") as server:
        assert uvloop.run(adopted_by_a(tmp_path, server.url, is_paused=False)) == [0]
        assert uvloop.run(adopted_by_a(tmp_path, server.url, is_paused=True)) == []


async def adopted_by_a(directory, url, *, is_paused) -> list[int]:
    """The shards that the drone a adopts, which is paused or not while it brings the only one."""
    client, keys = client_of(Settings({"REDIS_URL": url})), Keys(f"paused-{is_paused}")
    a = Membership(client=client, keys=keys, drone="a", lease_secs=LEASE_SECS)
    b = Membership(client=client, keys=keys, drone="b", lease_secs=60)
    store = CheckpointStore(url=str(directory / keys.name))
    store.found(HiveFacts(shards=1, politeness_key="host"), "")
    adopted: list[int] = []
    brings, goes_on = asyncio.Event(), asyncio.Event()

    async def until_gone(_: int) -> None:
        brings.set()
        await goes_on.wait()

    parts: Any = SimpleNamespace(
        name="a",
        settings=SimpleNamespace(lease_secs=LEASE_SECS),
        holding=Holding(good_until=math.inf, has_all=True),
        membership=a,
        store=store,
        shard_of=lambda number: SimpleNamespace(number=number, join=lambda *_: None),
        live_seeds=SimpleNamespace(begin=lambda: None),
        sender=SimpleNamespace(forget=lambda: None),
        agent=SimpleNamespace(
            until_gone=until_gone,
            adopt=lambda shard, **_: adopted.append(shard.number),
            enqueue_early=lambda: None,
            start_checkpoint=lambda: None,
            job=SimpleNamespace(path=directory / "job"),
            stats=SimpleNamespace(inc_value=lambda *_: None),
            shards=Shards(),
            codec=SimpleNamespace(may_come_in=lambda _: True),
            is_ending=False,
        ),
    )
    exchange = ShardExchange(parts, Publication(parts))
    await a.found(1)
    await a.beat(Report())
    await a.order(share=1)
    work = asyncio.ensure_future(exchange.work(await a.beat(Report())))
    await brings.wait()
    if is_paused:
        await asyncio.sleep(1.2 * LEASE_SECS)
        assert await b.claim({0: (await b.beat(Report())).owners[0]})
    beat = await a.beat(Report())
    leases = parts.holding.leases.items()
    await exchange.keep({one: token for one, token in leases if beat.leases.get(one) != token})
    goes_on.set()
    await work
    await close(client)
    return adopted
