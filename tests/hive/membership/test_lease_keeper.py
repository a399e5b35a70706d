"""The lease of a drone whose loop is busy or hangs, and whose Redis is away or has lost it."""

import asyncio
import re
import threading
import time
from contextlib import asynccontextmanager

import pytest
from patience import LIMIT_SECS, SLOWNESS
from scrapy.settings import Settings

from webcrawl.clock import now
from webcrawl.hive.membership.connection import UNREACHABLE, client_of
from webcrawl.hive.membership.holding import Holding
from webcrawl.hive.membership.keys import Keys
from webcrawl.hive.membership.lease_keeper import LeaseKeeper
from webcrawl.hive.membership.membership import Membership
from webcrawl.hive.membership.report import Report

LEASE_SECS = 2.0 * SLOWNESS
KEYS = Keys("kept")


@asynccontextmanager
async def kept(server, *, in_store=lambda: None):
    """A keeper, after a beat by which two shards are its drone's, and their holding."""
    client = client_of(Settings({"REDIS_URL": server.url}))
    membership = Membership(client=client, keys=KEYS, drone="a", lease_secs=LEASE_SECS)
    holding = Holding(lease_secs=LEASE_SECS, leases={0: 1, 1: 2})
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
    assert holding.is_valid()
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
        async with kept(server, in_store=answers.wait) as (keeper, holding):
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
async def test_a_lease_that_lapsed_before_redis_changed_leaves_its_shards_in_doubt(server, lapses):
    """Those who have claimed shards since can register them there for a lease."""
    async with kept(server) as (keeper, holding):
        assert holding.settled_at < now()
        if lapses:
            holding.revoke()
        assert not holding.is_in_doubt("old")
        assert holding.is_in_doubt("new") is lapses
        beat = await keeper.beat(Report())
        holding.confirm(beat.began, "new")
        assert holding.is_valid()
        assert holding.settled_at == beat.began + LEASE_SECS
