"""Crawls of scripted sites in virtual time, judged by what their servers and closed ports record.

    python tests/rigs/crawls/virtual_sites.py ORDERS crawl web -a seeds=... -s JOBDIR=...

*ORDERS* is a file of ``Orders``. Everything behind it is Scrapy's command line.
"""

import asyncio
import os
import signal
import subprocess
import sys
from ipaddress import ip_address
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import msgspec
import warm
from crawling import RIGS, ROOT, crawl_command
from patience import LIMIT_SECS
from scrapy.cmdline import execute

from webcrawl import scheduler
from webcrawl.sim.network import Route
from webcrawl.sim.process import SETTINGS, simulate
from webcrawl.simweb.nameserver import reply

_SETTINGS = SETTINGS | {
    "POLITENESS_MIN_DELAY": 0.2,
    "POLITENESS_JITTER": 0,
    "POLITENESS_BACKOFF_SECS": 10,
    "STATS_FILE_INTERVAL_SECS": 0,
    "CRAWLER_CONTACT": "https://example.org/crawler",
    "OUTAGE_HOSTS": 0,
    "MEMUSAGE_ENABLED": 0,
    # It would look at the disk every two seconds.
    "EXTENSIONS": '{"webcrawl.extensions.disk_guard.DiskGuard": null}',
}


# The scheduler's among ports that hang, where a crawl waits most of its time.
_TICK_SECS = 0.5


_FIRST_ADDRESS = ip_address("44.0.0.1")


class Contact(NamedTuple):
    """When, in seconds of the simulation, *server*, a host and port, was asked for *path*; "" if
    nothing answers there."""

    at: float
    server: str
    path: str


class Orders(msgspec.Struct, frozen=True):
    """*pages* are HTML by host, port and path, or heads of answers, which begin with HTTP.
    Other ports of the hosts refuse connections, or *hang*: they accept and never answer. The
    process begins at *began*, and is killed at the contact with this number; 0: not."""

    pages: dict[str, str]
    log: Path
    hang: bool
    began: float = 0.0
    killed_at: int = 0


class _Sites:
    """The servers of *orders*: each host has an address of its own."""

    def __init__(self, orders):
        self._pages = orders.pages
        self._hang = orders.hang
        self._killed_at = orders.killed_at
        self._log = orders.log.open("ab", buffering=0)
        servers = {page.partition("/")[0] for page in orders.pages}
        hosts = sorted({server.partition(":")[0] for server in servers})
        self._addresses = {host: str(_FIRST_ADDRESS + n) for n, host in enumerate(hosts)}
        hosts_at = {address: host for host, address in self._addresses.items()}
        self._server_at = lambda address, port: f"{hosts_at[address]}:{port}"
        self._servers = servers

    def begin(self, time):
        self._time = time

    def route(self, _):
        return Route(latency=0.005)

    def answer(self, _address, _port, question):
        def find(name):
            address = self._addresses.get(name)
            return address and SimpleNamespace(behaviour=None, address=address)

        return reply(find, question)

    def protocol(self, address, port):
        server = self._server_at(address, port)
        if server in self._servers:
            return _Site(lambda path: self._reply(server, path))
        self._note(server, "")
        if self._hang:
            return asyncio.Protocol()
        raise ConnectionRefusedError(111, "Connection refused")

    def _reply(self, server, path):
        self._note(server, path)
        body = self._pages.get(server + path)
        if body is not None and body.startswith("HTTP/"):
            return f"{body}\r\nContent-Length: 0\r\n\r\n".encode()
        kind = "xml" if path.endswith(".xml") else "html"
        head = f"HTTP/1.1 {404 if body is None else 200} X\r\nContent-Type: text/{kind}\r\n"
        body = (body or "").encode()
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def _note(self, server, path):
        self._log.write(msgspec.json.encode(Contact(self._time(), server, path)) + b"\n")
        self._killed_at -= 1
        if self._killed_at == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class _Site(asyncio.Protocol):
    """A connection to a server that answers a path with what *reply* returns."""

    def __init__(self, reply):
        self._reply = reply
        self._received = b""

    def connection_made(self, transport):
        self._transport = transport

    def data_received(self, data):
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, _, self._received = self._received.partition(b"\r\n\r\n")
            self._transport.write(self._reply(head.split(b" ", 2)[1].decode()))


class VirtualSites:
    """One job in *directory*, and the sites with *pages*."""

    def __init__(self, directory, pages, *, hang=False):
        self._directory = directory
        self._pages = pages
        self._hang = hang
        self.job = directory / "job"
        self.log = directory / "contacts"

    def crawl(self, *seeds, killed_at=0, began=0.0, timeout=LIMIT_SECS, **settings):
        """Crawl to the end, or until killed; return all contacts of all crawls of the job."""
        seed_file, orders_file = (self._directory / name for name in ("seeds.txt", "orders.json"))
        seed_file.write_text("".join(f"{seed}\n" for seed in seeds))
        orders = Orders(self._pages, self.log, self._hang, began, killed_at)
        orders_file.write_bytes(msgspec.json.encode(orders, enc_hook=str))
        command = crawl_command(
            SimpleNamespace(dns=""), seed_file, self.job, **_SETTINGS | settings
        )
        program = [sys.executable, __file__, str(orders_file)]
        environment = {"PYTHONPATH": f"{ROOT}:{RIGS}", "PATH": ""}
        done = warm.run(
            [*program, *command[3:]],
            env=environment,
            stderr=subprocess.STDOUT,
            timeout=timeout,
        )
        self.said = done.stdout
        assert done.returncode == (-9 if killed_at else 0), self.said
        lines = self.log.read_bytes().splitlines()
        return [msgspec.json.decode(line, type=Contact) for line in lines]


if __name__ == "__main__":
    _orders = msgspec.json.decode(
        Path(sys.argv[1]).read_bytes(), type=Orders, dec_hook=lambda kind, value: kind(value)
    )
    if _orders.hang:
        scheduler.TICK_SECS = _TICK_SECS
    simulate(1, _Sites(_orders), began=_orders.began)
    execute(["scrapy", *sys.argv[2:]])
