"""Sites for crawls to find their way through, on loopback, that record what they are asked for."""

import asyncio
import contextlib
import os
import subprocess
from types import SimpleNamespace
from typing import NamedTuple

import warm
from crawling import RIGS, crawl_command, stats_of
from loopback import name_server, raw_server, zone
from patience import LIMIT_SECS
from wire_text import table, wire


class Answer(NamedTuple):
    """What a path is answered with; *headers* are whole lines without their ends."""

    body: bytes
    content_type: str = "text/html"
    headers: tuple = ()
    status: int = 200


def pages_of(name):
    """Return the pages of the site *name* in tests/data/sites.toml, by host and path."""
    pages = {}
    for url, one in table("sites")[name].items():
        fields = {"body": one} if isinstance(one, str) else one
        pages[url] = Answer(**fields | {"body": wire(fields["body"])})
    return pages


class Sites:
    """*pages* by host and path; what is not among them is answered with 404, and what is as a
    conditional request has it with 304."""

    def __init__(self, pages):
        self.pages = dict(pages)
        self.asked = []  # host and path, in the order of the requests
        self.statuses = []  # of the answers, likewise
        self.dns = ""
        self.port = 0

    async def asked_next(self, reader):
        """Read a request; return its head, its host and its path."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        path = head.split(" ", 2)[1]
        host = head.lower().partition("\r\nhost:")[2].partition("\r\n")[0].strip()
        host = host.partition(":")[0]
        self.asked.append(host + path)
        return head, host, path

    def answer_to(self, name, head):
        """The answer to the request for *name* with *head*."""
        return self.pages.get(name, Answer(b"not found", status=404))

    async def talk(self, reader, writer):
        while True:
            head, *place = await self.asked_next(reader)
            name = "".join(place)
            answer = self.answer_to(name, head)
            if any(f"\r\n{line}\r\n" in head for line in map(_condition, answer.headers) if line):
                answer = answer._replace(body=b"", status=304)
            self.statuses.append((name, answer.status))
            lines = [
                f"HTTP/1.1 {answer.status} X",
                f"Content-Type: {answer.content_type}",
                f"Content-Length: {len(answer.body)}",
                *answer.headers,
            ]
            writer.write("\r\n".join([*lines, "", ""]).encode() + answer.body)
            await writer.drain()

    @property
    def pages_asked(self):
        """All that was asked for but robots.txt files."""
        return [name for name in self.asked if not name.endswith("/robots.txt")]


def _condition(line):
    """The line of a request by which an answer with *line* has not been modified."""
    name, _, value = line.partition(": ")
    asked = {"ETag": "If-None-Match", "Last-Modified": "If-Modified-Since"}.get(name, "")
    return asked and f"{asked}: {value}"


@contextlib.asynccontextmanager
async def open_sites(sites, names):
    """*sites* on a port of their own, for the hosts of *names*."""
    records = {name.partition("/")[0]: ["300 A 127.0.0.1"] for name in names}
    async with name_server(zone(records)) as dns, raw_server(sites.talk) as server:
        sites.port, sites.dns = server.port, f"127.0.0.1:{dns.port}"
        yield sites


@contextlib.asynccontextmanager
async def served(pages):
    """*pages* on a port of their own; {port} in a text body or header stands for it."""
    async with open_sites(Sites({}), pages) as sites:
        for name, answer in pages.items():
            port = str(sites.port)
            sites.pages[name] = answer._replace(
                body=answer.body.replace(b"{port}", port.encode()),
                headers=tuple(line.replace("{port}", port) for line in answer.headers),
            )
        yield sites


def command_for(sites, jobdir, *hosts, **settings):
    """The command that crawls *sites* from the roots of *hosts*."""
    jobdir.parent.mkdir(parents=True, exist_ok=True)
    seeds = jobdir.parent / "seeds.txt"
    seeds.write_text("".join(f"http://{host}:{sites.port}/\n" for host in hosts))
    web = SimpleNamespace(dns=sites.dns)
    return crawl_command(web, seeds, jobdir, **settings)


async def crawl(sites, jobdir, *hosts, limit_secs=LIMIT_SECS, **settings):
    """Crawl *sites* to the end, in *limit_secs*; the stats."""
    command = command_for(sites, jobdir, *hosts, **settings)
    environment = os.environ | {"PYTHONPATH": RIGS}  # for extensions of tests
    done = await asyncio.to_thread(
        warm.run, command, env=environment, stderr=subprocess.STDOUT, timeout=limit_secs
    )
    assert done.returncode == 0, done.stdout
    return stats_of(jobdir)
