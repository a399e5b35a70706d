"""One site must not starve the others: crawls of sound sites beside hostile ones, judged from the
servers' record."""

from __future__ import annotations

import asyncio
import contextlib
import time
from itertools import pairwise
from typing import TYPE_CHECKING

import dns.message
import dns.rrset
from crawling import crawl_command, start_crawl, stats_of
from loopback import name_server, raw_server

if TYPE_CHECKING:
    import subprocess
    from collections.abc import AsyncIterator
    from pathlib import Path

    from loopback import RawServer

SITES, PAGES = 5, 50
REST = 0.2
# Ports on which nothing listens, and as many servers that accept each connection and drop it.
CLOSED = range(200, 220)


class Sites:
    """Every name leads here; what a host is follows from its name. *hits* are (time, host, path).

    ``busy*`` wants to be let alone for an hour, ``tarpit*`` says nothing; all others have so many
    *pages*, the first of which links to all, and that of ``ports*`` before them to the host's
    closed ports, to those of *dropping* servers and to that of the *mute* one. That of
    ``good*`` links to ``ports.com``. Each name is a registered domain.
    """

    def __init__(self, *, pages: int, mute: RawServer, dropping: list[RawServer]) -> None:
        self._pages = pages
        self._mute = mute
        self.dropping = dropping
        self.hits: list[tuple[float, str, str]] = []
        self.dns = ""
        self.port = 0

    def pages(self, prefix: str) -> list[float]:
        """When each page of the hosts with *prefix* was asked for first, in order of time."""
        first: dict[tuple[str, str], float] = {}
        for at, host, path in self.hits:
            if host.startswith(prefix) and path != "/robots.txt":
                first.setdefault((host, path), at)
        return sorted(first.values())

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            path = head.split()[1]
            host = head.lower().partition("\nhost:")[2].split()[0].partition(":")[0]
            self.hits.append((time.monotonic(), host, path))
            status, header, body = "200 OK", "", ""
            if path == "/robots.txt":
                status = "404 Not Found"
            elif host.startswith("busy"):
                status, header = "503 Service Unavailable", "Retry-After: 3600\r\n"
            elif host.startswith("tarpit"):
                await asyncio.sleep(3600)
            elif path == "/":
                links = [f"/{n}" for n in range(1, self._pages)]
                if host.startswith("good"):
                    links += [f"http://ports.com:{self.port}/"]
                if host.startswith("ports"):
                    ports = [*CLOSED, *(server.port for server in self.dropping)]
                    links += [f"http://{host}:{port}/" for port in ports]
                    links += [f"ftp://{host}:{self._mute.port}/"]
                body = host + "".join(f'<a href="{link}">_</a>' for link in reversed(links))
            else:
                body = f"{path} of {host}"
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\n{header}"
                f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
            )
            await writer.drain()


async def silence(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


async def drop(*_: object) -> None:
    """Close the connection."""


@contextlib.asynccontextmanager
async def sites(*, pages: int) -> AsyncIterator[Sites]:
    def everywhere(query: dns.message.Message) -> dns.message.Message:
        response = dns.message.make_response(query)
        name = query.question[0].name
        response.answer.append(dns.rrset.from_text(name, 300, "IN", "A", "127.0.0.1"))
        return response

    async with contextlib.AsyncExitStack() as stack:
        names = await stack.enter_async_context(name_server(everywhere))
        mute = await stack.enter_async_context(raw_server(silence))
        dropping = [await stack.enter_async_context(raw_server(drop)) for _ in CLOSED]
        found = Sites(pages=pages, mute=mute, dropping=dropping)
        server = await stack.enter_async_context(raw_server(found.answer))
        found.port, found.dns = server.port, f"127.0.0.1:{names.port}"
        yield found


def crawl(web: Sites, job: Path, *hosts: str, **settings: object) -> subprocess.Popen[str]:
    """A crawl of *hosts*, begun."""
    seeds = job.with_suffix(".txt")
    seeds.write_text("".join(f"http://{host}:{web.port}/\n" for host in hosts))
    options = {"POLITENESS_MIN_DELAY": REST, "POLITENESS_DELAY_FACTOR": 0, **settings}
    return start_crawl(crawl_command(web, seeds, job, **options))


async def ended(process: subprocess.Popen[str]) -> None:
    """Its end, which must be a good one."""
    _, output = await asyncio.to_thread(process.communicate, timeout=120)
    assert process.returncode == 0, output


def test_sites_get_their_share_beside_a_busy_one_and_a_tarpit(tmp_path):
    """Both crawls run side by side, for whatever else the machine does."""
    alone, beside = ([f"{way}{n}.com" for n in range(SITES)] for way in ("alone", "beside"))

    async def run() -> Sites:
        async with sites(pages=PAGES) as web:
            hosts = ("busy.com", "tarpit.com", *beside)
            starved = await asyncio.to_thread(crawl, web, tmp_path / "beside", *hosts)
            waiting = asyncio.create_task(ended(starved))
            await ended(await asyncio.to_thread(crawl, web, tmp_path / "alone", *alone))
            starved.terminate()
            await waiting
        return web

    web = asyncio.run(run())
    begin, *_, end = web.pages("alone")
    assert len(web.pages("alone")) == SITES * PAGES
    until = web.pages("beside")[0] + end - begin
    assert sum(at <= until for at in web.pages("beside")) >= 0.95 * SITES * PAGES


def test_ports_that_never_answer_take_no_page_of_their_host(tmp_path):
    async def run() -> Sites:
        async with sites(pages=60) as web:
            settings = {"DOWNLOAD_TIMEOUT": 2, "POLITENESS_BACKOFF_SECS": 10}
            await ended(
                await asyncio.to_thread(crawl, web, tmp_path / "job", "ports.com", **settings)
            )
        return web

    web = asyncio.run(run())
    begin, *others = web.pages("ports")
    assert len(others) == 59
    # Each of them was asked once, and no more than politely; the mute one had its time.
    assert [server.connections for server in web.dropping] == [1] * len(web.dropping)
    assert others[-1] - begin < (60 + 2 * len(CLOSED)) * 1.5 * REST + 3
    stats = stats_of(tmp_path / "job")
    assert stats["outcome/http_200"] == 60
    assert stats["outcome/connect_refused"] == stats["outcome/connection_lost"] == len(CLOSED)
    assert stats["frontier/parked"] == 0
    assert "outcome/host_failing" not in stats
    assert stats["reputation/round"] <= 3  # 8 pages, 16, 32, 64


def test_ports_that_never_answer_keep_no_other_site_waiting(tmp_path):
    """They are within the budget of a domain that many link to, the sites' pages are not."""

    async def run() -> Sites:
        async with sites(pages=PAGES) as web:
            hosts = [f"good{n}.com" for n in range(9)]
            settings = {"POLITENESS_BACKOFF_SECS": 10}
            process = await asyncio.to_thread(crawl, web, tmp_path / "job", *hosts, **settings)
            while len(web.pages("good")) < 9 * PAGES:
                assert process.poll() is None
                await asyncio.sleep(0.1)
            process.kill()
            await asyncio.to_thread(process.communicate)
        return web

    asked = asyncio.run(run()).pages("good")
    assert max(later - one for one, later in pairwise(asked)) < 20 * REST
