"""Membership against a model: three drones, leases that end any time, a Redis that is emptied or
goes back to an older copy of its data."""

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from redis_server import RedisServer
from scrapy.settings import Settings
from strategies import examples

from webcrawl.hive.membership.connection import client_of
from webcrawl.hive.membership.keys import Keys
from webcrawl.hive.membership.membership import Membership, Owner
from webcrawl.hive.membership.report import Report

DRONES = st.sampled_from("abc")
SHARDS = st.integers(0, 1)
KEYS = Keys("model")


@pytest.fixture(autouse=True, scope="module")
def server():
    with (
        tempfile.TemporaryDirectory() as directory,
        RedisServer(Path(directory) / "redis") as server,
    ):
        MembershipMachine.url = server.url
        yield


class MembershipMachine(RuleBasedStateMachine):
    """*owners*, *alive*, *queen*, *acks*: what Redis is to have. *held*: what each drone was given
    and has not released, whether or not it is still so. *newest*: the last token of each shard."""

    url = ""

    @initialize()
    def start(self):
        self.runner = asyncio.Runner()
        self.run = self.runner.run
        self.run(self._start())
        self.founded = False
        self.serial = 0
        self.owners = {}
        self.former = [Owner(0, "")]
        self.alive = {}
        self.queen = ""
        self.acks = {}
        self.held = {name: {} for name in "abc"}
        self.newest = {}
        self.found()
        for name in "abc":
            self.beat(name)

    async def _start(self):
        self.client = client_of(Settings({"REDIS_URL": self.url}))
        await self.client.flushall()
        self.drones = {
            name: Membership(client=self.client, keys=KEYS, drone=name, lease_secs=600)
            for name in "abc"
        }

    @rule()
    def found(self):
        state = self.run(self.drones["a"].enter(3))
        self.founded = True
        assert state.shards == 3

    @rule(name=DRONES)
    def beat(self, name):
        self.serial += 1
        self.alive[name] = Report(number=self.serial)
        if self.queen not in self.alive:
            self.queen = name
        beat = self.run(self.drones[name].beat(self.alive[name]))
        assert beat.leases == {
            shard: owner.token for shard, owner in self.owners.items() if owner.drone == name
        }
        assert beat.owners == self.owners
        assert beat.is_queen == (self.queen == name)
        assert beat.reports == (self.alive if beat.is_queen else {})
        assert bool(beat.state.born) == self.founded

    @rule(name=DRONES)
    def expire(self, name):
        """The key goes as it does when its time is over."""
        self.run(self.client.delete(*[KEYS.lease(name), *[KEYS.queen] * (self.queen == name)]))
        self.alive.pop(name, None)
        if self.queen == name:
            self.queen = ""

    @rule(name=DRONES)
    def leave(self, name):
        self.run(self.drones[name].leave())
        self.alive.pop(name, None)

    @rule(order=st.permutations("abc"), count=st.integers(0, 3))
    def empty(self, order, count):
        """Redis loses its data; so many drones see it before anything else is done."""
        self.run(self.client.flushall())
        self.founded = False
        self.owners, self.acks, self.alive, self.queen = {}, {}, {}, ""
        for name in order[:count]:
            self.beat(name)
            self.found()
            self.register(name)

    @rule(names=st.permutations("abc"), shard=SHARDS)
    def go_back(self, names, shard):
        """Redis gets a copy of its data that lacks the last claim, which all drones have seen."""
        saved = self.run(self._saved())
        founded, owners = self.founded, dict(self.owners)
        for step in range(2):
            self._claim(names[step], shard, self._owner(shard))
            for name in names:
                self.beat(name)
            if step == 0:
                self.founded, self.owners = founded, dict(owners)
                self.run(self._restore(saved))

    async def _saved(self):
        return [(key, await self.client.dump(key)) for key in (KEYS.shards, KEYS.state)]

    async def _restore(self, saved):
        for key, value in saved:
            await self.client.delete(key)
            if value is not None:
                await self.client.restore(key, 0, value)

    @rule(name=DRONES, shard=SHARDS, data=st.data())
    def claim(self, name, shard, data):
        known = st.just(self._owner(shard))
        self._claim(name, shard, data.draw(known | known | st.sampled_from(self.former)))

    @rule(name=DRONES, shard=SHARDS)
    def take_over(self, name, shard):
        """The holder's lease ends, and another claims; the holder knows nothing of it."""
        owner = self._owner(shard)
        if owner.drone not in {"", name}:
            self.expire(owner.drone)
        self.beat(name)
        self._claim(name, shard, owner)

    def _owner(self, shard):
        return self.owners.get(shard, Owner(self.newest.get(shard, 0), ""))

    def _claim(self, name, shard, wanted):
        now = self.owners.get(shard)
        claimed = self.run(self.drones[name].claim({shard: wanted}))
        is_granted = (
            self.founded
            and name in self.alive
            and (
                now is None
                or (now == wanted and (now.drone == name or now.drone not in self.alive))
            )
        )
        assert claimed.keys() == ({shard} if is_granted else set())
        if is_granted:
            assert claimed[shard] > max(wanted.token, self.newest.get(shard, 0))
            self.newest[shard] = claimed[shard]
            self.held[name][shard] = claimed[shard]
            self.owners[shard] = Owner(claimed[shard], name)
            self.former.append(self.owners[shard])

    @rule(name=DRONES, shard=SHARDS)
    def release(self, name, shard):
        """Of what it has, or had once, or never had."""
        token = self.held[name].pop(shard, 1)
        self.run(self.drones[name].release({shard: token}))
        if self.owners.get(shard) == Owner(token, name):
            self.owners[shard] = Owner(token, "")
            self.former.append(self.owners[shard])

    @rule(name=DRONES)
    def register(self, name):
        """All that it holds, or thinks that it holds."""
        accepted = {
            shard: token
            for shard, token in self.held[name].items()
            if shard not in self.owners
            or self.owners[shard] == Owner(token, name)
            or self.owners[shard].token < token
        }
        assert self.run(self.drones[name].register(self.held[name])) == accepted
        self.owners |= {shard: Owner(token, name) for shard, token in accepted.items()}

    @rule(name=DRONES, shard=SHARDS)
    def acknowledge(self, name, shard):
        self.serial += 1
        position = f"{self.serial}-0"
        leases = {shard: self.held[name].get(shard, 1)}
        accepted = self.run(
            self.drones[name].acknowledge({shard: position}, leases, {shard: self.serial})
        )
        is_owner = self.owners.get(shard) == Owner(leases[shard], name)
        assert accepted == ({shard} if is_owner else set())
        if is_owner:
            self.acks[shard] = position

    @rule(name=DRONES)
    def order(self, name):
        self.serial += 1
        ordered = self.run(self.drones[name].order(checkpoint=self.serial))
        assert ordered == (self.founded and self.queen == name)

    @invariant()
    def redis_has_what_the_model_has(self):
        look = self.run(self.drones["a"].look())
        assert look.owners == self.owners
        assert look.alive == self.alive.keys()
        assert look.queen == self.queen
        assert look.acks == self.acks
        assert look.reports == self.alive

    def teardown(self):
        self.run(self.client.aclose())
        self.runner.close()


MembershipMachine.TestCase.settings = examples(200, stateful_step_count=40)
TestMembership = MembershipMachine.TestCase
