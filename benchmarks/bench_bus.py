"""CPU of links that cross between shards: `python benchmarks/bench_bus.py`.

Two processes' parts in one, with the shards of each: pages of 20 links, of which every fifth is of
another host, come to one side's splitter, whose own links are left out, and go by its outboxes and
a real Redis to the inboxes of the other side, each with an eliminator on disk. A round has as many
pages as a process fetches in the half second for which messages wait. Times are CPU time of the
process by step, for each link that crosses, after some rounds that are not counted, and that of the
Redis server. A link that stays costs what it costs to submit whole pages to one shard.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "rigs"))

import psutil
import uvloop
from redis_server import RedisServer
from scrapy.settings import Settings

from webcrawl.crawl.links.link_intake import LinkBatch, LinkIntake, LinkSource
from webcrawl.crawl.seeds.ranks import HostRanks
from webcrawl.crawl.shard.shards import Shards
from webcrawl.dupefilter import MercatorDupeFilter
from webcrawl.hive.bus.inbox import Inbox
from webcrawl.hive.bus.outbox import Outbox
from webcrawl.hive.bus.receiver import Receiver
from webcrawl.hive.bus.sender import Sender
from webcrawl.hive.bus.splitter import HostSplitter
from webcrawl.hive.membership.connection import client_of, close
from webcrawl.hive.membership.keys import Keys
from webcrawl.hosts.budgets.depths import Depths
from webcrawl.seen.caches.clock import ClockCache
from webcrawl.seen.fingerprint import fingerprints
from webcrawl.urls import Link, host_of
from webcrawl.urls.registered_domain import POLITENESS_KEYS

HOSTS = 20_000
LINKS = 20
WARM_ROUNDS = 40
_ALONE = "alone"


class Stopwatch:
    """CPU seconds by step."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self._at = time.process_time()

    def lap(self, step: str) -> None:
        at = time.process_time()
        self.spent[step] = self.spent.get(step, 0.0) + at - self._at
        self._at = at


def page(rng: random.Random, own: str) -> LinkBatch:
    hosts = [
        own if index % 5 else f"www.site{int(HOSTS * rng.random() ** 2)}.test"
        for index in range(LINKS)
    ]
    urls = [f"https://{host}/articles/{rng.randrange(500)}/index.html" for host in hosts]
    source = LinkSource(f"https://{own}/articles/1.html", 3, 0, Depths(2, 2), b"", 1.7e9)
    return LinkBatch(
        [Link(url) for url in urls], [host_of(url) for url in urls], fingerprints(urls), source
    )


def target(directory: Path, number: int, memory: int, executor: ThreadPoolExecutor) -> Any:
    """What of a shard takes links in."""
    eliminator = MercatorDupeFilter.build_eliminator(
        Settings({"MEMORY_BUDGET": memory}), path=directory / str(number), executor=executor
    )
    eliminator.open(None)
    ranks = HostRanks(path=directory / f"ranks{number}")
    ranks.open(None)
    intake = LinkIntake(
        eliminator=eliminator,
        ranks=ranks,
        domains=None,
        key_of=POLITENESS_KEYS["host"],
        linked=lambda *_: None,
    )
    return SimpleNamespace(
        number=number,
        name=f"{number:02d}",
        settings=SimpleNamespace(needs_all_seeds=False),
        eliminator=eliminator,
        intake=intake,
        submit=intake.submit,
        seeds_are_known=lambda: None,
    )


async def measure(options: argparse.Namespace, directory: Path, server: RedisServer) -> None:
    rng = random.Random(1)
    executor = ThreadPoolExecutor(1)
    client = client_of(Settings({"REDIS_URL": server.url}))
    count = options.shards
    here = {n: SimpleNamespace(submit=lambda _: None) for n in range(0, count, 2)}
    there = {n: target(directory / "there", n, 12 << 20, executor) for n in range(count)}
    alone = target(directory / "alone", 0, 1 << 28, executor)
    outboxes = {n: Outbox(path=directory / "outbox" / str(n)) for n in here}
    inboxes = {n: Inbox(shard=shard, path=directory) for n, shard in there.items()}
    for part in (*outboxes.values(), *inboxes.values()):
        part.open(None)
    cache = ClockCache(size=50_000)
    splitter = HostSplitter(outboxes=outboxes, cache=cache)
    shards: Any = SimpleNamespace(
        number_of=Shards(number=count).number_of, held=here.get, number=count
    )
    splitter.shards = shards
    keys = Keys("bench")
    common: Any = {"client": client, "keys": keys, "fail": print}
    sender = Sender(outboxes=outboxes, cache=cache, stream_bytes=1 << 30, **common)
    receiver = Receiver(inboxes=inboxes, **common)
    sender.heard("incarnation", {})
    receiver.incarnation = "incarnation"
    redis = psutil.Process(server.pid)
    hosts = [f"www.site{number}.test" for number in range(HOSTS)]
    hosts = [host for host in hosts if splitter.shards.number_of(host) in here]
    watch = Stopwatch()
    before = sent_before = 0.0
    for number in range(options.rounds + WARM_ROUNDS):
        if number == WARM_ROUNDS:
            watch = Stopwatch()
            before = sum(redis.cpu_times()[:2])
            sent_before = splitter.stats()["hive/links/sent"]
        pages = [page(rng, rng.choice(hosts)) for _ in range(options.pages)]
        watch.lap("(made)")
        for batch in pages:
            splitter.submit(batch)
        watch.lap("split, encode, append")
        for batch in pages:
            alone.submit(batch)
        watch.lap(_ALONE)
        sender._gather()
        await sender._send_all()
        watch.lap("send")
        while receiver.stats()["hive/batches/received"] < sender.sent:
            for found in await receiver._read():
                watch.lap("read")
                await receiver._take_in(found)
                watch.lap("take in")
            watch.lap("read")
    in_redis = sum(redis.cpu_times()[:2]) - before
    await close(client)
    executor.shutdown()
    stats = splitter.stats() | sender.stats() | receiver.stats()
    crossing = stats["hive/links/sent"] - sent_before
    size = stats["hive/bytes/sent"] / sender.sent
    print(f"{stats['hive/links/sent']} links in {sender.sent} entries of {size:.0f} bytes")
    del watch.spent["(made)"]
    plain = watch.spent.pop(_ALONE)
    for step, spent in watch.spent.items():
        print(f"{spent / crossing * 1e6:8.2f} us  {step}")
    stays = plain / (options.rounds * options.pages * LINKS)
    print(f"{stays * 1e6:8.2f} us  less: a link that stays")
    more = sum(watch.spent.values()) / crossing - stays
    print(f"{more * 1e6:8.2f} us  what crossing costs a link")
    print(f"{in_redis / crossing * 1e6:8.2f} us  in Redis")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=150, help="of each round")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--shards", type=int, default=64)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, RedisServer(Path(directory) / "r") as server:
        uvloop.run(measure(options, Path(directory), server))


if __name__ == "__main__":
    main()
