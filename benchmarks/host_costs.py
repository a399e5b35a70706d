"""What a new host costs, line by line: ``PYTHONPATH=. python benchmarks/host_costs.py
[--scheme NAME] [--pages N] [--rounds N] [--tree DIR] [--peers PYTHON]``.

Crawls as in bench_hosts.py, of webs with one page a host and with ten in turns, under
cpu_samples.py. The process's CPU-seconds are divided by what was found on top of the stacks; what a
page costs more where it has a host to itself, ten ninths of it, is the host's. A sample belongs to
the innermost frame that one of the lines below names.

Then the floors: what the library call alone costs in a loop, in this process's CPU time; pycares is
taken from where *PYTHON* is (``make bench-peers``).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import resource
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import trustme
import uvloop
from bench_hosts import web_of
from OpenSSL import SSL
from rows import scrapy, task_of

from webcrawl.hosts.records.database import Database
from webcrawl.simweb import preset, start_in_process

if TYPE_CHECKING:
    from collections.abc import Callable

_HERE = Path(__file__).resolve().parents[1]
# What is on a stack: the file, the function where several lines share a file, or another thread.
LINES = {
    "look-up": r"net/dns/|politeness/addresses\.py",
    "exclusion and guard": r"politeness/exclusions\.py|net/guard\.py",
    "TLS": r"http/tls|OpenSSL/",
    "connection": r"net/dialer\.py|http/connections\.py|connection_(made|lost)",
    "sitemap submission": r"[_.]submit_sitemaps",
    "robots.txt: its rules, read and stored": r"hosts/robots/",
    "robots.txt: its way": r"crawl/robots_|[_.](send|for)_robots|LeaseRequests\._robots",
    "host record (SQLite)": r"hosts/records/|^hosts_",
    "politeness": r"hosts/politeness/|hosts/retry_policy|crawl/host_release",
    "budgets": r"hosts/budgets/",
    "frontier: queue and table": r"frontier/|crawl/feeder",
    "logging": r"crawl/outcome_log|storage/line_log|/logging/",
    "WARC": r"pipelines/|^warc_",
    "HTTP: request and answer": r"net/",
    "links": r"urls/|crawl/(link|submission|reading)|seen/|spiders/",
    "engine, scheduler, middlewares": r"scrapy/|crawl/|webcrawl/scheduler|twisted/python|defer\.py",
}
_OTHER = "loop and the rest"
_LINES = [(name, re.compile(pattern)) for name, pattern in LINES.items()]


def line_of(stack: list[str]) -> str:
    """Which of the lines a sample belongs to."""
    for frame in reversed(stack):
        for name, pattern in _LINES:
            if pattern.search(frame):
                return name
    return _OTHER


def shares_of(samples: Path) -> dict[str, float]:
    """The share of each line in the *samples*, without imports."""
    counts: Counter[str] = Counter()
    for line in samples.read_text(encoding="utf-8").splitlines():
        stack, _, number = line.rpartition(" ")
        frames = stack.split(";")
        if len(frames) == 1 or "Reactor.run" in stack:
            counts[line_of(frames)] += int(number)
    return {name: number / counts.total() for name, number in counts.items()}


def costs(scheme: str, per_host: int, *, pages: int, tree: Path) -> dict[str, float]:
    """Microseconds a page by line."""
    with task_of(web_of(scheme, per_host, pages=pages), pages=pages) as task:
        samples = task.log.with_name("samples")
        under = (sys.executable, str(_HERE / "benchmarks" / "cpu_samples.py"), str(samples))
        result = scrapy("webcrawl", tree=tree, under=under)(task)
        page = 1e6 * result.cpu / result.pages
        return {name: share * page for name, share in shares_of(samples).items()}


# --- floors


def per_call(call: Callable[[], object], times: int) -> float:
    """CPU microseconds of a call, the least of five rounds."""
    best = float("inf")
    for _ in range(5):
        began = time.process_time()
        for _ in range(times):
            call()
        best = min(best, (time.process_time() - began) / times)
    return best * 1e6


def handshake() -> float:
    """Microseconds of pyOpenSSL for the client's part of a handshake by TLS 1.3."""
    authority = trustme.CA()
    server_context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("site.sim.test").configure_cert(server_context)
    client_context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    best = float("inf")
    for _ in range(300):
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        server = server_context.wrap_bio(to_server, to_client, server_side=True)
        began = time.perf_counter()
        client = SSL.Connection(client_context)
        client.set_tlsext_host_name(b"site.sim.test")
        client.set_connect_state()
        with contextlib.suppress(SSL.WantReadError):
            client.do_handshake()
        to_server.write(client.bio_read(1 << 16))
        used = time.perf_counter() - began
        with contextlib.suppress(ssl.SSLWantReadError):
            server.do_handshake()
        began = time.perf_counter()
        client.bio_write(to_client.read())
        client.do_handshake()
        to_server.write(client.bio_read(1 << 16))
        best = min(best, used + time.perf_counter() - began)
        server.do_handshake()
    return best * 1e6


def sqlite_row(directory: Path) -> float:
    """Microseconds of a new row of 150 bytes in a batch of 512."""
    database = Database(path=directory)
    database.open()
    number = iter(range(10**9))

    def write() -> None:
        database.write((1, f"site{next(number)}.sim.test", bytes(150)) for _ in range(512))

    cost = per_call(write, 20) / 512
    database.close()
    return cost


def plain_connection(address: tuple[str, int]) -> float:
    """Microseconds of the system's calls for a connection that is opened and closed."""

    def connect() -> None:
        with socket.socket() as one:
            one.connect(address)

    return per_call(connect, 300)


def plain_get(address: tuple[str, int], host: str) -> float:
    """Microseconds of the system's calls to ask over a connection for robots.txt."""
    with socket.socket() as one:
        one.connect(address)
        asked = f"GET /robots.txt HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()

        def get() -> None:
            one.sendall(asked)
            one.recv(65536)

        return per_call(get, 300)


def uvloop_connection(address: tuple[str, int]) -> float:
    """Microseconds of uvloop for a connection that is opened and closed."""

    async def connect() -> float:
        loop, best = asyncio.get_running_loop(), float("inf")
        for _ in range(5):
            began = time.process_time()
            for _ in range(200):
                transport, _ = await loop.create_connection(asyncio.Protocol, *address)
                transport.abort()
            best = min(best, (time.process_time() - began) / 200)
        return best * 1e6

    return uvloop.run(connect())


_CARES = """
import select, sys, time, pycares
server, port = sys.argv[1].rsplit(":", 1)
best = float("inf")
channel = pycares.Channel(servers=[server], udp_port=int(port))
number = iter(range(10**6))
for _ in range(5):
    began = time.process_time()
    for _ in range(200):
        done = []
        name = f"site{next(number):05d}.sim.test"
        channel.query(name, pycares.QUERY_TYPE_A, callback=lambda *answer: done.append(answer))
        while not done:
            time.sleep(0.0002)
    best = min(best, (time.process_time() - began) / 200)
print(best * 1e6)
"""


def cares_query(peers: Path, dns: str) -> float:
    """Microseconds of pycares for one name, its own thread included."""
    done = subprocess.run([peers, "-c", _CARES, dns], capture_output=True, text=True, check=True)
    return float(done.stdout)


def floors(peers: Path) -> dict[str, float]:
    """What library calls alone cost, in microseconds."""
    world = preset("bench", hosts=2000, http_port=0, https_port=0)
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as scratch,
        start_in_process(world, log_path=None) as web,
    ):
        host = web.world.host(0)
        address = (host.address, web.world.http_port)
        return {
            "look-up: one query of pycares": cares_query(peers, web.dns),
            "connection: the system's calls": plain_connection(address),
            "connection: uvloop's": uvloop_connection(address),
            "TLS: pyOpenSSL's client in a handshake": handshake(),
            "robots.txt: the system's calls to ask and read": plain_get(address, host.name),
            "host record: an SQLite row in a batch": sqlite_row(Path(scratch) / "records"),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--scheme", choices=("http", "https"), default="http")
    add("--pages", type=int, default=12_000, help="of each crawl")
    add("--rounds", type=int, default=3, help="of which the mean is taken")
    add("--tree", type=Path, default=_HERE, help="the checkout to look at")
    add("--peers", type=Path, default=Path(".venv-peers/bin/python"))
    add("--floors", action="store_true", help="nothing but these")
    options = parser.parse_args()
    peers = options.peers.absolute()
    if not peers.exists():
        parser.error(f"there is no {peers}, which the floor of a look-up needs: make bench-peers")
    if not options.floors:
        tree = options.tree.absolute()
        one, ten = Counter[str](), Counter[str]()
        for _ in range(options.rounds):
            for per_host, sums in ((1, one), (10, ten)):
                sums.update(costs(options.scheme, per_host, pages=options.pages, tree=tree))
        print(f"{'CPU in us':42}{'1 a host':>10}{'10 a host':>10}{'of a host':>10}")
        for name in [*LINES, _OTHER]:
            alone, among = (sums[name] / options.rounds for sums in (one, ten))
            print(f"{name:42}{alone:10.0f}{among:10.0f}{(alone - among) / 0.9:10.0f}")
        alone, among = (sums.total() / options.rounds for sums in (one, ten))
        print(f"{'in all':42}{alone:10.0f}{among:10.0f}{(alone - among) / 0.9:10.0f}\n")
    for name, cost in floors(peers).items():
        print(f"floor: {name:50}{cost:10.1f}")


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    main()
