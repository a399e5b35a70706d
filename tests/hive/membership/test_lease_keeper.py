"""The lease of a drone whose loop is busy or hangs, and whose Redis is away or has lost it."""

import asyncio
import re
import threading
import time
from contextlib import asynccontextmanager
from functools import partial

import pytest
from patience import LIMIT_SECS, SLOWNESS
from published_shard import FACTS, LIST
from scrapy.settings import Settings
from text_tables import each

from webcrawl.clock import now
from webcrawl.hive.membership.connection import UNREACHABLE, client_of
from webcrawl.hive.membership.holding import Holding
from webcrawl.hive.membership.keys import Keys
from webcrawl.hive.membership.lease_keeper import LeaseKeeper
from webcrawl.hive.membership.membership import Membership
from webcrawl.hive.membership.report import Report
from webcrawl.hive.store.store import CheckpointStore

LEASE_SECS = 2.0 * SLOWNESS
KEYS = Keys("kept")


@asynccontextmanager
async def kept(server, *, in_store=dict, **options):
    """A keeper, after a beat by which two shards are its drone's, and their holding."""
    client = client_of(Settings({"REDIS_URL": server.url}))
    membership = Membership(client=client, keys=KEYS, drone="a", lease_secs=LEASE_SECS)
    holding = Holding(lease_secs=LEASE_SECS, leases={0: 1, 1: 2}, **options)
    failures = []
    keeper = LeaseKeeper(
        client=client,
        membership=membership,
        beat_in_store=in_store,
        holding=holding,
        fail=failures.append,
    )
    keeper.start()
    holding.confirm((await keeper.beat(Report())).began, "old")
    assert holding.is_valid() is not holding.needs_claims
    yield keeper, holding
    await keeper.stop()
    assert not failures


def has_lease(server):
    with server.client() as client:
        return bool(client.exists(KEYS.lease("a")))


async def told(caplog, pattern):
    """Return when a message has *pattern*."""
    async with asyncio.timeout(LIMIT_SECS):
        while not any(re.search(pattern, text) for text in caplog.messages):  # noqa: ASYNC110  # logged in a thread
            await asyncio.sleep(0.05)


async def test_a_busy_loop_keeps_its_lease(server):
    async with kept(server) as (_, holding):
        time.sleep(2 * LEASE_SECS)  # noqa: ASYNC251  # the loop does not turn
        assert holding.is_valid()
        assert has_lease(server)
        await asyncio.sleep(2 * LEASE_SECS)
        assert holding.is_valid()


async def test_a_loop_that_hangs_loses_its_lease(server, caplog):
    async with kept(server) as (keeper, holding):
        began = now()
        while has_lease(server):
            time.sleep(0.05)  # noqa: ASYNC251  # the loop does not turn
        assert now() - began > 3 * LEASE_SECS
        assert not holding.is_valid()
        cause = r"The lease on 2 shards has expired \(the event loop has not turned for \d+ s\): "
        await told(caplog, cause)
        # It turns again: what a renewal alone would say is not enough.
        assert not holding.is_valid()
        holding.confirm((await keeper.beat(Report())).began, "old")
        assert holding.is_valid()


async def test_a_lease_that_redis_has_lost_is_good_to_its_end_or_the_next_beat(server, caplog):
    async with kept(server) as (keeper, holding):
        with server.client() as client:
            client.delete(KEYS.lease("a"))
        beat = await keeper.beat(Report())
        assert not beat.had_lease
        assert holding.is_valid()  # it was promised
        holding.confirm(beat.began, "old")
        with server.client() as client:
            client.delete(KEYS.lease("a"))
        await told(caplog, r"has expired \(Redis has lost it\): their hosts are not contacted")


async def test_an_expiry_that_ends_before_the_next_renewal_is_logged(server, caplog):
    async with kept(server) as (keeper, holding):
        holding.valid_until = now()
        holding.confirm((await keeper.beat(Report())).began, "old")
        assert holding.is_valid()
        await told(caplog, r"The lease on 2 shards has expired \(Redis or HIVE_STORE answered too")


async def test_while_redis_is_away_beats_in_the_store_keep_the_lease(server, caplog):
    has_store = True

    def beat_in_store():
        if not has_store:
            raise OSError("no store")
        return {}

    async with kept(server, in_store=beat_in_store) as (keeper, holding):
        server.pause()
        with pytest.raises(UNREACHABLE):
            await keeper.beat(Report())
        await asyncio.sleep(2 * LEASE_SECS)
        assert holding.is_valid()
        has_store = False
        await told(
            caplog,
            r"has expired \(Redis cannot be reached: .*; HIVE_STORE cannot be reached: no store\)",
        )
        assert not holding.is_valid()
        server.resume()


async def test_a_store_that_hangs_stops_no_renewals(server, caplog):
    answers = threading.Event()
    try:
        async with kept(server, in_store=lambda: answers.wait() and {}) as (keeper, holding):
            server.pause()
            await asyncio.sleep(LEASE_SECS)
            server.resume()
            holding.confirm((await keeper.beat(Report())).began, "old")
            await asyncio.sleep(2 * LEASE_SECS)
            assert holding.is_valid()
            assert "HIVE_STORE cannot be reached: TimeoutError" in caplog.text
            answers.set()
    finally:
        answers.set()


@pytest.mark.parametrize("lapses", [False, True])
async def test_a_lapsed_lease_is_confirmed_by_a_new_redis_a_lease_later(server, lapses):
    """Those who have claimed the shards since can register them there by then."""
    async with kept(server) as (keeper, holding):
        if lapses:
            holding.revoke()
        since = now()
        while not holding.is_valid() or now() < since + 0.5 * LEASE_SECS:
            holding.confirm((await keeper.beat(Report())).began, "new")
            assert lapses or holding.is_valid()
            await asyncio.sleep(0.1)
        assert (now() - since >= LEASE_SECS) is lapses


async def test_behind_sentinels_a_lease_lasts_as_long_as_the_last_reading_of_claims(server, caplog):
    claims = {0: 1, 1: 2}
    readings = []

    def in_store():
        if claims is None:
            raise OSError("no store")
        readings.append(now())
        return {**claims}

    async with kept(server, in_store=in_store, needs_claims=True) as (keeper, holding):
        await until(holding.is_valid)
        assert holding.valid_until <= readings[-1] + LEASE_SECS
        claims = None
        await told(
            caplog, r"The lease on 2 shards has expired \(HIVE_STORE cannot be reached: no s"
        )
        assert now() >= readings[-1] + LEASE_SECS - 0.001
        holding.confirm((await keeper.beat(Report())).began, "old")
        assert not holding.is_valid()  # Redis says yes
        claims = {0: 1, 1: 2}
        await until(holding.is_valid)


async def test_a_newer_claim_ends_its_shard_and_extends_no_lease(server):
    async with kept(server, in_store=lambda: {0: 1, 1: 3}, needs_claims=True) as (_, holding):
        await until(lambda: holding.superseded)
        assert holding.superseded == {1}
        assert not holding.is_valid()
        del holding.leases[1]
        await until(holding.is_valid)


@each("lost is_restored", ("*", False), ("1-*", False), ("*", True))
async def test_a_shard_whose_claim_is_lost_ends_and_extends_no_lease(
    server, tmp_path, lost, is_restored
):
    """Another drone may have claimed it while this claim was away."""
    store = CheckpointStore(url=str(tmp_path))
    store.enter(FACTS, LIST)
    claims = {0: 1, 1: 2}
    store.claim(claims, "a")
    async with kept(server, in_store=partial(store.beat, "a"), needs_claims=True) as (_, holding):
        await until(holding.is_valid)
        for path in (tmp_path / "claims").glob(lost):
            path.unlink()
        if is_restored:  # from a backup with an older claim
            (tmp_path / "claims/1-1").write_text("b")
        await until(lambda: holding.superseded)
        await until(lambda: not holding.is_valid())
        ended = holding.superseded
        assert ended == ({1} if lost == "1-*" else {0, 1})
        # They are claimed again.
        for shard in ended:
            del holding.leases[shard]
        again = dict.fromkeys(ended, 7)
        store.claim(again, "a")
        holding.leases |= again
        assert holding.superseded == set()
        await until(holding.is_valid)


async def until(is_so):
    async with asyncio.timeout(LIMIT_SECS):
        while not is_so():  # noqa: ASYNC110  # it changes in a thread
            await asyncio.sleep(0.02)
