"""Membership on a real Redis: leases, tokens, the queen; a Redis that is away or was emptied."""

import asyncio
import contextlib
import itertools
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from patience import LIMIT_SECS, SLOWNESS
from redis.exceptions import OutOfMemoryError
from redis_server import RedisServer, by_tls
from scrapy.settings import Settings
from text_tables import each

from webcrawl.hive.membership.connection import UNREACHABLE, client_of
from webcrawl.hive.membership.keys import Keys
from webcrawl.hive.membership.membership import Membership, Owner
from webcrawl.hive.membership.report import Report

NAMES = itertools.count()
NOTHING = Report()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with RedisServer(tmp_path_factory.mktemp("redis") / "r") as server:
        yield server


class Member(Membership):
    """Membership with an empty report by default."""

    def beat(self, report=NOTHING):
        return super().beat(report)

    def take(self, *shards):
        """Claim shards that were never held."""
        return self.claim(dict.fromkeys(shards, Owner(0, "")))

    def another(self, name, lease_secs=10.0):
        """Return another drone, before its first beat."""
        return Member(client=self._client, keys=self._keys, drone=name, lease_secs=lease_secs)


@contextlib.asynccontextmanager
async def drones(server, *names, lease_secs=10.0, shards=4, **given):
    """Drones of a hive of its own, which is founded with so many shards; each has had its beat."""
    keys = Keys(f"test{next(NAMES)}")
    settings = Settings({"REDIS_URL": server.url, **given})
    async with contextlib.AsyncExitStack() as stack:
        made = []
        for name in names or "ab":
            client = client_of(settings)
            stack.push_async_callback(client.aclose)
            made.append(Member(client=client, keys=keys, drone=name, lease_secs=lease_secs))
            # On a busy machine, connecting can take longer than a quarter of a lease.
            await made[-1].enter(shards, secs=LIMIT_SECS)
            await answered(made[-1].beat)
        yield made


@each("way", "socket", "password", "tls")
async def test_the_life_of_a_shard_by_each_way_to_the_server(redis_of, way):
    """Claim, acknowledge, release, leave, claim."""
    server = redis_of(password="geheim" * (way == "password"))
    async with contextlib.AsyncExitStack() as stack:
        url = server.url
        if way == "tls":
            url = await stack.enter_async_context(by_tls(server))
        a, b = await stack.enter_async_context(drones(server, REDIS_URL=url))
        claimed = await a.take(0, 1, 2)
        assert claimed.keys() == {0, 1, 2}
        beat = await a.beat(Report(number=1, leases=claimed))
        assert beat.leases == claimed
        assert beat.alive == {"a", "b"}
        assert beat.reports == {"a": Report(number=1, leases=claimed), "b": NOTHING}
        for number in range(3):
            await b._client.xadd(b._keys.stream(1), {"m": b"x"}, id=f"7-{number + 1}")
        for position, has_unread in (("0-0", True), ("7-2", True), ("7-3", False)):
            assert await a.has_unread({0: "0-0", 1: position}) is has_unread
        assert await a.acknowledge({1: "7-2", 3: "9-9"}, claimed, {1: 5, 3: 6}) == {1}
        assert await b._client.xlen(b._keys.stream(1)) == 1
        await a.release({0: claimed[0]})
        beat = await b.beat()
        assert beat.leases == {}
        assert beat.acks == {1: "7-2"}
        assert beat.acknowledged == {1: (claimed[1], 5)}
        assert beat.owners[0] == Owner(claimed[0], "")
        assert (await b.claim({0: beat.owners[0], 1: beat.owners[1]})).keys() == {0}
        await a.leave()
        assert (await b.claim({1: beat.owners[1]})).keys() == {1}
        assert (await b.beat()).alive == {"b"}


# --- shards


async def test_a_beat_carries_the_table_of_shards_only_when_it_changed(server):
    async with drones(server, shards=1000) as (a, b):
        claimed = await a.take(*range(1000))

        async def beat():
            before = (await b._client.info("stats"))["total_net_output_bytes"]
            beat = await b.beat()
            return beat, (await b._client.info("stats"))["total_net_output_bytes"] - before

        first, size = await beat()
        assert size > 30_000
        again, size = await beat()
        assert size < 10_000
        assert again.owners == first.owners == {n: Owner(one, "a") for n, one in claimed.items()}
        await a.release({7: claimed[7]})
        changed, size = await beat()
        assert size > 30_000
        assert changed.owners == first.owners | {7: Owner(claimed[7], "")}


async def test_a_drone_whose_lease_had_ended_gets_the_table_in_any_case(server):
    """As others may have taken its shards that write no versions: webcrawl 0.2 does not."""
    async with drones(server) as (a, b):
        await a.take(0)
        await a.beat()
        await a.leave()
        await b._client.hset(b._keys.shards, "0", f"{2**52} b")
        assert (await a.beat()).owners == {0: Owner(2**52, "b")}


async def test_a_claim_is_not_below_the_token_of_the_newest_checkpoint(server):
    """Redis does not know the shard; the token of the store may be of a clock that went ahead."""
    async with drones(server, "a") as (a,):
        ahead = 8 * 10**15
        assert await a.claim({0: Owner(ahead, "")}) == {0: ahead + 1}


# --- leases that end


async def test_a_stopped_process_loses_its_shards_and_learns_it(server):
    async with drones(server, "b") as (b,):
        code = "import sys, test_membership as t; t.hold(*sys.argv[1:])"
        path = os.pathsep.join([*sys.path, str(Path(__file__).parent)])
        holder = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", code, server.url, b._keys.name),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        assert await holder.stdout.readline() == b"holds\n"
        holder.send_signal(signal.SIGSTOP)
        owners = (await b.beat()).owners
        assert await b.claim(owners) == {}
        while not (claimed := await b.claim(owners)):
            await b.beat()  # the lease of the other may last longer than its own
            await asyncio.sleep(0.1)
        assert claimed.keys() == {0}
        holder.send_signal(signal.SIGCONT)
        assert (await holder.communicate(b"\n"))[0] == b"lost set()\n"
        assert (await b.beat()).leases == claimed


def hold(url, name):
    """The process of that test: claims a shard, and says what is left of it when it goes on."""

    async def main():
        client = client_of(Settings({"REDIS_URL": url}))
        a = Member(client=client, keys=Keys(name), drone="a", lease_secs=4.0 * SLOWNESS)
        await a.beat()
        claimed = await a.take(0)
        print("holds", flush=True)
        await asyncio.to_thread(input)
        beat = await a.beat()
        print("lost", await a.acknowledge({0: "1-0"}, claimed, {0: 1}) | beat.leases.keys())
        await client.aclose()

    asyncio.run(main())


# --- the queen


async def test_there_is_one_queen_until_its_lease_ends(server):
    async with drones(server, "a", lease_secs=4.0 * SLOWNESS) as (a,):
        b = a.another("b")
        first, second = await a.beat(), await b.beat()
        assert (first.queen, first.is_queen) == ("a", True)
        assert (second.queen, second.is_queen, second.reports) == ("a", False, {})
        while not (reports := (await b.beat()).reports):  # noqa: ASYNC110  in Redis
            await asyncio.sleep(0.1)
        assert reports == {"b": NOTHING}
        assert not (await a.beat()).is_queen
        await b.leave()
        assert (await a.beat()).is_queen


async def test_orders_are_of_the_queen_and_seen_by_all(server):
    async with drones(server) as (a, b):
        assert not await b.order(share=1)
        assert await a.order(
            share=3, supply=2, round=1, counted_since=2, checkpoint=7, finished=True
        )
        state = (await b.beat()).state
        assert (state.share, state.supply, state.round, state.checkpoint) == (3, 2, 1, 7)
        assert (state.counted_since, state.finished, state.stopping) == (2, True, False)


# --- a crawl that begins anew, a Redis that is away


async def test_the_state_is_founded_once(server):
    async with drones(server) as (a, b):
        one, other = await a.enter(4), await b.enter(9)
        assert one == other
        assert one.shards == 4
        assert len(one.born) == 16
        assert abs((await a.beat()).now - one.born_at) < 60


async def test_a_drone_that_enters_waits_longer_than_its_lease(server):
    async with drones(server) as (a, b):
        c = a.another("c", 0.1)
        await b._client.execute_command("CLIENT", "PAUSE", 200)
        assert (await c.enter(4, secs=LIMIT_SECS)).shards == 4
        await b._client.execute_command("CLIENT", "PAUSE", 200)
        assert (await c.look(secs=LIMIT_SECS)).alive == {"a", "b"}


async def test_a_hive_that_ended_begins_anew_when_no_drone_is_alive(server):
    async with drones(server, "a") as (a,):
        await a.order(finished=True, stopping=True, round=3, share=4)
        before = await a.enter(4)
        assert (before.finished, before.stopping, before.share) == (True, True, 4)
        await a.leave()
        state = await a.another("b", 5.0).enter(4)
        assert (state.finished, state.stopping, state.round) == (False, False, 3)
        assert state.lease_secs == 5.0
        # Its shards are divided as those of a new one.
        assert state.share == 0
        assert state.begun_at > before.begun_at >= state.born_at


@each("order", "finished", "stopping")
async def test_an_older_copy_of_redis_does_not_end_a_later_run(redis_of, order):
    server = redis_of()
    async with drones(server, "a") as (a,):
        await a.order(**{order: True})
        await a._client.execute_command("SAVE")
        await a.leave()
        b = a.another("b")
        state = await b.enter(4)
        assert not getattr((await b.beat()).state, order)
        server.restart()
        found = (await answered(b.beat)).state
        assert (getattr(found, order), found.begun_at) == (False, state.begun_at)
        await a.another("").order(**{order: True})  # by a user, in this run
        assert getattr((await b.beat()).state, order)


async def test_a_beat_without_an_answer_fails_soon(redis_of):
    server = redis_of()
    async with drones(server, "a", lease_secs=1.0) as (a,):
        server.pause()
        async with asyncio.timeout(LIMIT_SECS):
            for _ in range(2):
                with pytest.raises(UNREACHABLE):
                    await a.beat()
        server.resume()
        for _ in range(3):  # no answer is taken for that of a later call
            assert (await answered(a.beat)).alive == {"a"}
            assert await answered(partial(a.order, share=1))


async def answered(call):
    """Its answer, which may come too late on a busy machine."""
    for _ in range(20):
        with contextlib.suppress(*UNREACHABLE):
            return await call()
    raise AssertionError


async def test_an_incarnation_lasts_until_the_server_is_started_again(redis_of):
    server = redis_of(appendonly=True)
    async with drones(server) as (a, b):
        first = (await a.beat()).incarnation
        assert (await b.beat()).incarnation == first
        server.restart()
        second = (await a.beat()).incarnation
        assert second != first
        assert (await b.beat()).incarnation == second


async def test_a_redis_full_of_links_is_one_in_which_a_hive_can_go_on(redis_of):
    server = redis_of(more=["--maxmemory", "3mb"])
    async with drones(server, "a") as (a,):
        claimed = await a.take(0)
        stream = a._keys.stream(0)
        for size in (50_000, 5_000, 100):
            with contextlib.suppress(OutOfMemoryError):
                while True:
                    await a._client.xadd(stream, {"m": bytes(size)})
        last = (await a._client.xinfo_stream(stream))["last-generated-id"].decode()
        assert (await a.beat(Report(number=7))).reports == {"a": Report(number=7)}
        assert (await a.take(1)).keys() == {1}
        assert await a.order(share=1)
        assert await a.acknowledge({0: last}, claimed, {0: 1}) == {0}
        assert await a._client.xadd(stream, {"m": bytes(50_000)})
