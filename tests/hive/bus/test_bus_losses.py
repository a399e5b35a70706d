"""A thousand batches between three drones, while Redis and drones are killed and emptied."""

import asyncio
import contextlib
import itertools
import random
from collections import Counter

from bus_rig import BusDrone, links
from patience import LIMIT_SECS
from redis_server import RedisServer
from text_tables import each

from webcrawl.hive.membership.keys import Keys

BATCHES = 1000
SHARDS = 6


class Losses:
    """Three drones that send at random, and what happens to them."""

    def __init__(self, directory, server, *, seed):
        self.rng = random.Random(seed)
        self.server = server
        keys = Keys(f"losses{seed}")
        self.drones = [
            BusDrone(
                directory / str(number),
                url=server.url, keys=keys, held=range(number, SHARDS, 3), shards=SHARDS,
            )
            for number in range(3)
        ]  # fmt: skip
        self.holder = {number: self.drones[number % 3] for number in range(SHARDS)}
        # What the pages of each shard had, and how much of that its last checkpoint has.
        self.found = {n: [] for n in range(SHARDS)}
        self.saved = Counter()
        self.events = Counter()
        self.born = itertools.count()

    async def beat(self):
        for drone in self.drones:
            await drone.beat(f"born {next(self.born)}")

    def send(self):
        source, target = self.rng.sample(range(SHARDS), 2)
        batch = links(self.rng.randint(1, 3))
        self.found[source].append((target, batch))
        self.holder[source].send(batch, source=source, target=target)

    async def checkpoint(self, drone):
        await drone.checkpoint()
        for number in drone.shards:
            self.saved[number] = len(self.found[number])

    async def happen(self):
        """Something of what may happen at any moment."""
        event = self.rng.choice(
            ["checkpoint"] * 8 + ["kill", "restart", "empty", "flush", "crash", "adopt", "full"]
        )
        self.events[event] += 1
        drone = self.rng.choice(self.drones)
        if event == "checkpoint":
            await self.checkpoint(drone)
        elif event == "kill":
            self.server.kill()
            asyncio.get_running_loop().call_later(self.rng.random(), self.start)
        elif event in {"restart", "empty"}:
            self.server.restart(empty=event == "empty")
        elif event == "flush" and self.server.is_running:
            with self.server.client() as client, contextlib.suppress(Exception):
                client.flushall()
        elif event in {"crash", "adopt"}:
            await drone.kill()
            if event == "adopt":
                drone.lose_files()
            await drone.start()
            for number in drone.shards if event == "adopt" else ():
                # Pages that were fetched since the checkpoint are fetched again.
                for target, batch in self.found[number][self.saved[number] :]:
                    drone.send(batch, source=number, target=target)
        elif event == "full":
            shard = self.rng.choice([*drone.shards.values()])
            shard.eliminator.is_full = not shard.eliminator.is_full

    def start(self):
        if not self.server.is_running:
            self.server.start()

    @property
    def missing(self):
        """Links that are not where they belong."""
        return sum(
            not {*batch.fingerprints} <= self.holder[target].shards[target].names
            for found in self.found.values()
            for target, batch in found
        )

    async def settle(self):
        """Nothing happens any more, but beats and checkpoints."""
        self.start()
        for drone in self.drones:
            for shard in drone.shards.values():
                shard.eliminator.is_full = False
        async with asyncio.timeout(LIMIT_SECS):
            while self.missing or any(outbox.size for outbox in self.outboxes):
                await self.beat()
                for drone in self.drones:
                    await self.checkpoint(drone)
                await asyncio.sleep(0.2)

    @property
    def outboxes(self):
        return [outbox for drone in self.drones for outbox in drone.outboxes.values()]


@each("seed", 0, long=range(1, 10))
def test_every_batch_arrives_and_nothing_is_lost(tmp_path, seed):
    async def live():
        losses = Losses(tmp_path, server, seed=seed)
        for drone in losses.drones:
            await drone.start()
        try:
            for number in range(BATCHES):
                losses.send()
                if number % 20 == 0:
                    await losses.happen()
                    await losses.beat()
                await asyncio.sleep(0.002)
            await losses.settle()
        finally:
            for drone in losses.drones:
                await drone.kill()
        assert losses.missing == 0
        assert not any(drone.failures for drone in losses.drones)
        assert sum(map(len, losses.found.values())) == BATCHES
        assert len(losses.events) >= 5, losses.events

    with RedisServer(tmp_path / "r", appendonly=True) as server:
        asyncio.run(live())
