"""A hundred drones on one machine: ``PYTHONPATH=. python benchmarks/bench_drones.py
[--drones 118] [--shards 512] [--secs 1200] [--share 0.05]``.

The drones are those of the product, with their shards, frontiers, eliminators and checkpoints; only
Scrapy's engine is missing, so no host is contacted and no page fetched. Instead each drone submits
as many links as *share* of the plan in docs/why/scale.md makes of its pages: batches of six links
to new URLs of hosts drawn by seed, so that nearly each is a message of its own. They run in
processes of many drones each; twelve are in one process, a machine that dies at once. Redis is a
real one, `HIVE_STORE` a bucket of a server in a process of its own.

Phases, all in one run: the start, until all shards are held and no drone is without; heartbeats
alone; links, too; twelve drones killed; Redis emptied. Printed for each: seconds until the shards
are balanced again; the CPU of Redis for a heartbeat, an entry and a link, by its own record; its
memory and traffic; requests to the store; CPU of the drones; how late their loops were.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.extend(map(str, Path(__file__).parents[1].glob("tests/rigs/*/")))

import redis as redis_py
from rows import redis_server
from s3_server import s3_environment, s3_server
from webs import cpu_seconds

from webcrawl.hive.membership.keys import Keys

_HERE = Path(__file__).resolve()
# The plan: links that a drone sends through Redis in a second, and links of a page among these.
_PLAN_LINKS = 604.0
_LINKS_OF_A_PAGE = 6
# Drones of one machine of the plan, which die together.
_MACHINE = 12
_PROCESSES = 4
_TICK_SECS = 0.5
_REPORT_SECS = 2.0
# A second rate, from which follows what one link more costs.
_MORE = 3
_CHECKPOINT_SECS = 60.0
_HOSTS = 200_000
_LIMIT_SECS = 600.0


# --- in a process of drones


class StubCrawl:
    """A drone without an engine, in the job directory *jobdir*; *values* are settings."""

    def __init__(self, jobdir: Path, values: dict[str, Any]) -> None:
        from process_rig import crawler_for

        from webcrawl.hive.builder import drone_of

        crawler = crawler_for(jobdir, **values)
        crawler.engine.scraper = SimpleNamespace(slot=None)
        self.drone = drone_of(crawler)
        self.process = self.drone.process
        self._random = random.Random(jobdir.name)
        self._owed = 0.0
        self.links = 0

    def begin(self) -> None:
        self.process.open(awaits_seeds=False, on_merged=lambda: None)
        self.drone.begin()

    def tick(self, links: float) -> None:
        """Do background work, and submit *links* more links."""
        self.process.work()
        self._owed += links
        while self._owed >= _LINKS_OF_A_PAGE and len(self.process.shards):
            self._owed -= _LINKS_OF_A_PAGE
            self._submit_page()

    def _submit_page(self) -> None:
        from webcrawl.crawl.links.link_intake import LinkBatch, LinkSource
        from webcrawl.seen.fingerprint import fingerprints
        from webcrawl.urls import Link

        hosts = [f"h{self._random.randrange(_HOSTS)}.test" for _ in range(_LINKS_OF_A_PAGE)]
        urls = [f"http://{host}/a-page-of-usual-length/{self._random.random()}" for host in hosts]
        source = LinkSource(f"http://{hosts[0]}/", 1, 0, b"", time.time())
        batch = LinkBatch([Link(url) for url in urls], hosts, fingerprints(urls), source)
        self.process.parts.state.links.sink.submit(batch)
        self.links += _LINKS_OF_A_PAGE


def run_drones(options: argparse.Namespace) -> None:
    """Run the drones of one process until it is told to end; report on standard output."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    from twisted.internet import asyncioreactor

    asyncioreactor.install(loop)  # type: ignore[no-untyped-call]  # of Twisted
    # Each drone has as many threads as one by itself would have.
    loop.set_default_executor(ThreadPoolExecutor(6 * options.drones))
    rate = [0.0]
    crawls: list[StubCrawl] = []
    lags: list[float] = []

    async def probe() -> None:
        while True:
            due = time.perf_counter() + 0.05
            await asyncio.sleep(0.05)
            lags.append(time.perf_counter() - due)

    async def tick() -> None:
        last = time.perf_counter()
        while True:
            now = time.perf_counter()
            secs = now - last
            last = now
            for crawl in crawls:
                crawl.tick(rate[0] * secs)
                await asyncio.sleep(_TICK_SECS / len(crawls) / 2)
            await asyncio.sleep(max(0.0, now + _TICK_SECS - time.perf_counter()))

    async def make_checkpoints() -> None:
        """Let the queen, which may be here, order one as often as by default."""
        while True:
            await asyncio.sleep(_CHECKPOINT_SECS)
            for crawl in crawls:
                crawl.drone.checkpoint_due()

    async def report() -> None:
        while True:
            await asyncio.sleep(_REPORT_SECS)
            figures = {
                "links": sum(crawl.links for crawl in crawls),
                "beats": sum(crawl.drone._beat_count for crawl in crawls),
                "entries": sum(crawl.drone.parts.sender.sent for crawl in crawls),
                "received": sum(crawl.drone.parts.receiver._links for crawl in crawls),
                "lag": max(crawl.drone.parts.receiver.lag for crawl in crawls),
                "invalid": sum(not crawl.drone.parts.holding.is_valid() for crawl in crawls),
                "loop": sorted(lags)[len(lags) * 99 // 100] if lags else 0.0,
                "loop_max": max(lags, default=0.0),
                "failed": [
                    crawl.drone.parts.stats.get_value("finish/error")
                    for crawl in crawls
                    if crawl.process.stop.is_ending
                ],
            }
            lags.clear()
            print(json.dumps(figures), flush=True)

    def obey() -> None:
        for line in sys.stdin:
            rate[0] = float(line)
        os._exit(0)

    async def main() -> None:
        values = json.loads(options.settings)
        for number in range(options.drones):
            jobdir = Path(options.directory) / f"{options.name}-{number}"
            crawls.append(StubCrawl(jobdir, values))
        for crawl in crawls:
            crawl.begin()
            await asyncio.sleep(0)
        threading.Thread(target=obey, daemon=True).start()
        await asyncio.gather(probe(), tick(), make_checkpoints(), report())

    task = loop.create_task(main())
    task.add_done_callback(lambda task: os._exit(task.exception() is not None))
    loop.run_forever()


# --- the machine


class DroneProcess:
    """A process of so many *drones*."""

    def __init__(
        self, name: str, *, drones: int, directory: Path, settings: dict[str, Any]
    ) -> None:
        command = [sys.executable, str(_HERE), "--drones", str(drones), "--name", name]
        command += ["--directory", str(directory), "--settings", json.dumps(settings)]
        self.drones = drones
        self.figures: dict[str, Any] = {}
        with (directory / f"{name}.log").open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self.figures = json.loads(line)

    def submit(self, links: float) -> None:
        """Have each drone submit so many links a second from now on."""
        assert self._process.stdin is not None
        print(links, file=self._process.stdin, flush=True)

    def cpu(self) -> float:
        return cpu_seconds(self._process.pid)

    def memory(self) -> int:
        """Bytes that are its own."""
        with Path(f"/proc/{self._process.pid}/smaps_rollup").open() as lines:
            return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))

    def kill(self) -> None:
        """``kill -9`` of all of its drones."""
        self._process.kill()
        self._process.wait()


def serve_bucket(root: Path) -> None:
    """Serve a bucket at *root*; say where, and after each line how many requests there were."""
    requests: Counter[str] = Counter()
    with s3_server(root) as server:
        server.socket.listen(1024)  # localbucket lets five wait
        server.handle_error = lambda *_: None  # who has asked may be gone
        handler = server.RequestHandlerClass
        handler.log_request = lambda self, *_: requests.update([self.command])
        print(server.server_port, flush=True)
        for _ in sys.stdin:
            print(json.dumps(requests), flush=True)


class Bucket:
    """A bucket at *root*, in a process of its own."""

    def __init__(self, root: Path) -> None:
        (root / "hive").mkdir(parents=True)
        self._process = subprocess.Popen(
            [sys.executable, str(_HERE), "--bucket", str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.port = int(self._say())

    def _say(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def requests(self) -> Counter[str]:
        """Number of requests until now, by method."""
        assert self._process.stdin is not None
        print(file=self._process.stdin, flush=True)
        return Counter(json.loads(self._say()))

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Machine:
    """Redis, a bucket and the drones; *processes*: those that live."""

    def __init__(self, options: argparse.Namespace, directory: Path, redis: tuple[int, Path]):
        self._redis_pid, socket = redis
        self.redis = redis_py.Redis(unix_socket_path=str(socket), decode_responses=True)
        self._keys = Keys("bench")
        self._shards = options.shards
        self.bucket = Bucket(directory / "bucket")
        os.environ |= s3_environment(self.bucket.port)
        settings = {
            "HIVE": "bench",
            "HIVE_SHARDS": options.shards,
            "HIVE_STORE": "s3://hive/bench",
            "REDIS_URL": f"unix://{socket}",
            "CHECKPOINTS_KEPT": 0,
            "KEEP_OPEN": 1,
        }
        others = options.drones - _MACHINE
        counts = [_MACHINE] + [
            others // _PROCESSES + (number < others % _PROCESSES) for number in range(_PROCESSES)
        ]
        self.processes = [
            DroneProcess(f"p{number}", drones=count, directory=directory, settings=settings)
            for number, count in enumerate(counts)
        ]

    def holders(self) -> Counter[str]:
        """Number of shards by living drone; those without are in it, too."""
        drones = map(str, self.redis.hkeys(self._keys.drones))
        alive = [name for name in drones if self.redis.exists(self._keys.lease(name))]
        rows = map(str, self.redis.hvals(self._keys.shards))
        held = Counter(row.partition(" ")[2] for row in rows)
        return Counter({name: held[name] for name in alive})

    def is_balanced(self) -> bool:
        """Whether living drones hold all shards, each at least one, and all leases are valid."""
        holders = self.holders()
        drones = sum(process.drones for process in self.processes)
        return (
            len(holders) == drones
            and holders.total() == self._shards
            and min(holders.values()) > 0
            and not any(process.figures.get("invalid", 1) for process in self.processes)
        )

    def until_balanced(self, what: str) -> None:
        """Wait until it `is_balanced`, and print how long that took."""
        began = time.perf_counter()
        while not self.is_balanced():
            time.sleep(0.25)
            self.check()
            if time.perf_counter() > began + _LIMIT_SECS:
                raise RuntimeError(f"{what}: not balanced after {_LIMIT_SECS} s: {self.holders()}")
        holders = self.holders().values()
        secs = time.perf_counter() - began
        print(
            f"{what}: balanced after {secs:.1f} s, {min(holders)} to {max(holders)} shards each",
            flush=True,
        )

    def check(self) -> None:
        """Raise if a drone has failed."""
        failed = [error for one in self.processes for error in one.figures.get("failed", ())]
        if failed:
            raise RuntimeError(f"{len(failed)} drones have failed: {failed[0]}")

    def submit(self, links: float) -> None:
        for process in self.processes:
            process.submit(links)

    def counts(self) -> dict[str, float]:
        """What has been counted until now."""
        info = self.redis.info()
        counts = {
            "redis": info["used_cpu_user"] + info["used_cpu_sys"],
            "to_redis": info["total_net_input_bytes"],
            "from_redis": info["total_net_output_bytes"],
            "drones": sum(process.cpu() for process in self.processes),
            "secs": time.perf_counter(),
            **self.bucket.requests(),
        }
        for name in ("links", "beats", "entries", "received"):
            counts[name] = sum(process.figures[name] for process in self.processes)
        return counts

    def measure(self, what: str, secs: float) -> dict[str, float]:
        """Return what is counted in so many seconds, and print it."""
        before = self.counts()
        until = time.perf_counter() + secs
        loop = 0.0
        lag = 0.0
        while time.perf_counter() < until:
            time.sleep(_REPORT_SECS)
            self.check()
            loop = max(loop, *(process.figures["loop"] for process in self.processes))
            lag = max(lag, *(process.figures["lag"] for process in self.processes))
        found = {name: count - before.get(name, 0) for name, count in self.counts().items()}
        drones = sum(process.drones for process in self.processes)
        memory = self.redis.info()["used_memory"]
        requests = ", ".join(f"{found[name]:,.0f} {name}" for name in found if name.isupper())
        print(
            f"{what}: {found['secs']:.0f} s, {found['beats']:,.0f} heartbeats, "
            f"{found['links']:,.0f} links, {found['entries']:,.0f} entries, "
            f"{found['received']:,.0f} links received; Redis {found['redis']:.2f} CPU-s, "
            f"{found['to_redis'] / 1e6:.1f} MB in, {found['from_redis'] / 1e6:.1f} MB out, "
            f"{memory / 1e6:.0f} MB; "
            f"to the store {requests}; a drone "
            f"{found['drones'] / drones / found['secs']:.2%} of a core, "
            f"{sum(process.memory() for process in self.processes) / drones / 1e6:.0f} MB; "
            f"loops late by {loop * 1e3:.0f} ms (p99), links by {lag:.1f} s",
            flush=True,
        )
        return found

    def close(self) -> None:
        for process in self.processes:
            process.kill()
        self.bucket.kill()


def run(options: argparse.Namespace) -> None:
    """Run all phases."""
    with ExitStack() as ends:
        directory = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="bench-drones-")))
        (directory / "redis").mkdir()
        redis = ends.enter_context(redis_server(directory / "redis"))
        machine = Machine(options, directory, redis)
        ends.callback(machine.close)
        rate = _PLAN_LINKS * options.share
        # Shards without waiting URLs do not move.
        machine.submit(rate)
        machine.until_balanced("start")
        machine.submit(0)
        time.sleep(10)
        beats = machine.measure("heartbeats", options.secs * 0.2)
        machine.submit(rate)
        few = machine.measure("few links", options.secs * 0.25)
        machine.submit(rate * _MORE)
        many = machine.measure("more links", options.secs * 0.25)
        machine.submit(rate)
        beat_secs = beats["redis"] / beats["beats"]
        # What calls cost that there are anyway is in both.
        link_secs = (many["redis"] / many["secs"] - few["redis"] / few["secs"]) / (
            many["links"] / many["secs"] - few["links"] / few["secs"]
        )
        calls = few["redis"] - beat_secs * few["beats"] - link_secs * few["links"]
        print(
            f"Redis: {beat_secs * 1e3:.2f} ms for a heartbeat, {link_secs * 1e6:.1f} us for a link "
            f"more, {calls / few['secs']:.1%} of a core for calls, however few links they have",
            flush=True,
        )
        machine.processes.pop(0).kill()
        machine.until_balanced(f"{_MACHINE} drones killed")
        machine.measure("after that", options.secs * 0.1)
        machine.redis.flushall()
        machine.until_balanced("Redis emptied")
        machine.measure("after that", options.secs * 0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--drones", type=int, default=118)
    add("--shards", type=int, default=512)
    add("--secs", type=float, default=1200, help="of the phases together, about")
    add("--share", type=float, default=0.02, help="of the plan's links")
    add("--name", help=argparse.SUPPRESS)
    add("--directory", help=argparse.SUPPRESS)
    add("--settings", help=argparse.SUPPRESS)
    add("--bucket", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bucket:
        serve_bucket(options.bucket)
    elif options.name:
        run_drones(options)
    else:
        run(options)


if __name__ == "__main__":
    main()
