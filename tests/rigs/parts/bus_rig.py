"""Drones that only send and receive: outboxes, inboxes and the bus of each, over models of shards.

A `BusDrone` keeps its shards in a directory. Its checkpoints are published when they are made. It
can be killed, and started again with its files, or with nothing but its last checkpoints.
"""

import asyncio
import contextlib
import itertools
import shutil
from types import SimpleNamespace

from scrapy.settings import Settings

from webcrawl.crawl.links.link_intake import LinkBatch, LinkSource
from webcrawl.hive.bus.inbox import Inbox
from webcrawl.hive.bus.messages import encode_links
from webcrawl.hive.bus.outbox import Outbox
from webcrawl.hive.bus.receiver import Receiver
from webcrawl.hive.bus.sender import Sender
from webcrawl.hive.membership.connection import UNREACHABLE, client_of
from webcrawl.seen.caches.clock import ClockCache
from webcrawl.urls import Link

_NAMES = itertools.count(1)
# As the membership has it: the word of the data, and the acknowledgements, at one moment.
_BEAT = """
redis.call('HSETNX', KEYS[1], 'born', ARGV[1])
return {redis.call('HGET', KEYS[1], 'born'), redis.call('HGETALL', KEYS[2])}
"""


class ModelShard:
    """What an inbox needs of a shard, in memory. Its are all hosts but those named foreign."""

    def __init__(self, *, number=0):
        self.number = number
        self.settings = SimpleNamespace(needs_all_seeds=False, key="host")
        self.eliminator = SimpleNamespace(is_full=False)
        self.intake = SimpleNamespace(submit_all=self._submit_all, note_linked=self._note_linked)
        self.is_leaving = False
        self.log = []  # what came, in its order
        self.names = set()
        self.feeder = SimpleNamespace(has_all_seeds=False)
        self.failure = None

    def number_of(self, host):
        return self.number + host.startswith("foreign")

    def submit(self, batch):
        if self.failure is not None:
            raise self.failure
        self.log += [("seed", link.url) for link in batch.links]
        self.names.update(batch.fingerprints)

    def _submit_all(self, batches):
        if self.failure is not None:
            raise self.failure
        for batch in batches:
            self.log += [("link", link.url) for link in batch.links]
            self.names.update(batch.fingerprints)

    def _note_linked(self, domain, hosts):
        self.log.append(("linked", domain, *hosts))

    def enqueue(self, entry, name):
        if name is None:
            self.log.append(("requeued", entry.url))
        else:
            self.log.append(("entry", name))
            self.names.add(name)


def links(count, *, host="b.test", via="http://a.test/"):
    """A batch of so many links that no other batch has."""
    names = [next(_NAMES) for _ in range(count)]
    found = [Link(f"http://{host}/{name}") for name in names]
    source = LinkSource(via, 1, 0, b"", 1.0)
    return LinkBatch(found, [host] * count, names, source)


class BusDrone:
    """A process that holds the shards *held* of *shards*, in *directory*."""

    def __init__(self, directory, *, url, keys, held, shards):
        self._directory = directory
        self._url = url
        self._keys = keys
        self._held = [*held]
        self._count = shards
        self._saved = {}
        self.failures = []

    async def start(self, *, stream_bytes=1 << 24):
        """Begin, from the last checkpoint and what the outboxes have besides."""
        self.cache = ClockCache(size=1000)
        self.shards = {number: ModelShard(number=number) for number in self._held}
        self.outboxes = {}
        self.inboxes = {}
        for number, shard in self.shards.items():
            path = self._directory / str(number)
            outbox, inbox = self._saved.get(number, (None, None, None))[:2]
            if number in self._saved:
                shard.names = {*self._saved[number][2]}
            self.outboxes[number] = Outbox(path=path)
            self.outboxes[number].segment_bytes = 2000
            self.outboxes[number].held_bytes = 500
            self.outboxes[number].open(outbox)
            self.inboxes[number] = Inbox(
                shard=shard,
                path=path,
                number_of=shard.number_of,
            )
            self.inboxes[number].open(inbox)
        self.client = client_of(Settings({"REDIS_URL": self._url}))
        fail = self.failures.append
        common = {"client": self.client, "keys": self._keys, "fail": fail}
        self.sender = Sender(
            outboxes=self.outboxes, cache=self.cache, stream_bytes=stream_bytes, **common
        )
        self.receiver = Receiver(inboxes=self.inboxes, **common)
        self._tasks = [asyncio.create_task(one.run()) for one in (self.sender, self.receiver)]

    async def kill(self):
        """It is no more; its files are."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.client.aclose()
        for part in (*self.outboxes.values(), *self.inboxes.values()):
            part.close()

    def lose_files(self):
        """Its shards are taken over from their last checkpoints."""
        for number in self._held:
            path = self._directory / str(number)
            shutil.rmtree(path, ignore_errors=True)
            if number in self._saved:
                shutil.copytree(self._directory / "published" / str(number), path)

    async def beat(self, born="born"):
        """One round, as the membership makes it; nothing if Redis is away."""
        with contextlib.suppress(*UNREACHABLE):
            found, acks = await self.client.execute_command(
                "EVAL", _BEAT, 2, self._keys.state, self._keys.acks, born
            )
            names = [one.decode() for one in acks]
            told = dict(zip(map(int, names[::2]), names[1::2], strict=True))
            incarnation = f"{found.decode()} {(await self.client.info('server'))['run_id']}"
            self.sender.on_heartbeat(incarnation, told)
            self.receiver.incarnation = incarnation

    @property
    def positions(self):
        """What the last checkpoint may acknowledge."""
        incarnation = self.receiver.incarnation
        return {number: inbox.saved_position(incarnation) for number, inbox in self.inboxes.items()}

    async def checkpoint(self):
        """Make, publish and acknowledge one of all shards."""
        saved = {
            number: (
                self.outboxes[number].snapshot(), self.inboxes[number].snapshot(), {*shard.names}
            )
            for number, shard in self.shards.items()
        }  # fmt: skip
        for number in self._held:
            published = self._directory / "published" / str(number)
            shutil.rmtree(published, ignore_errors=True)
            shutil.copytree(self._directory / str(number), published)
        self._saved = saved
        for part in (*self.outboxes.values(), *self.inboxes.values()):
            part.written()
            part.forget()
        with contextlib.suppress(*UNREACHABLE):
            for number, position in self.positions.items():
                await self.client.hset(self._keys.acks, str(number), position)
                await self.client.xtrim(self._keys.stream(number), minid=position)

    def send(self, batch=None, *, source=0, target=1):
        """Send *batch*, or one new link, from shard *source* to *target*."""
        batch = batch or links(1)
        self.append(encode_links(batch), [*batch.fingerprints], source=source, target=target)

    def append(self, message, names=(), *, source=0, target=1):
        self.outboxes[source].append_all([(target, message, names)])

    @property
    def is_done(self):
        return self.sender.is_idle
