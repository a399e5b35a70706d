"""A plain client for the simulated web, which shares no code with it: DNS, HTTP and links.

Used by tests/simweb.
"""

import asyncio
import contextlib
import http.client
import io
import itertools
import socket
import ssl
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import ada_url
import dns.asyncquery
import dns.message
import dns.rcode
from access_log_reader import read_access_log
from patience import LIMIT_SECS, SLOWNESS
from protego import Protego
from selectolax.lexbor import LexborHTMLParser

AGENT = "webcrawl/1.0 (+https://example.org)"
# On a busy machine an answer may come too late: a name is given up after several.
_DNS_TRIES = 6


class Reply:
    """One HTTP answer, parsed by the standard library."""

    def __init__(self, raw, method="GET"):
        self._raw = raw
        response = http.client.HTTPResponse(self, method=method)
        response.begin()
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    def makefile(self, _mode):
        return io.BytesIO(self._raw)

    @property
    def content_type(self):
        return self.headers.get("Content-Type", "").partition(";")[0]


@dataclass
class Client:
    """Resolves and fetches, one connection per request."""

    dns: str
    ca_path: object = None
    tls: object = field(init=False, default=None)
    addresses: dict = field(default_factory=dict)

    def __post_init__(self):
        if self.ca_path:
            self.tls = ssl.create_default_context(cafile=str(self.ca_path))
            self.tls.verify_flags |= ssl.VERIFY_X509_STRICT

    async def resolve(self, name):
        """The address of *name*, None if there is none or no answer."""
        if name not in self.addresses:
            where, _, port = self.dns.partition(":")
            query = dns.message.make_query(name, "A")
            address = None
            for _ in range(_DNS_TRIES):
                with contextlib.suppress(dns.exception.Timeout):
                    answer = await dns.asyncquery.udp(
                        query, where, timeout=0.5 * SLOWNESS, port=int(port)
                    )
                    found = [str(record) for rrset in answer.answer for record in rrset]
                    address = found[0] if found else None
                    break
            self.addresses[name] = address
        return self.addresses[name]

    async def get(self, url, *, method="GET", headers=""):
        """Fetch *url*. Raises OSError or http.client.HTTPException where there is no answer."""
        parts = urlsplit(url)
        address = await self.resolve(parts.hostname)
        if address is None:
            raise OSError(f"{parts.hostname} does not resolve")
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        raw = await self.exchange(
            address,
            parts.port or 0,
            f"{method} {target} HTTP/1.1\r\nHost: {parts.netloc}\r\nUser-Agent: {AGENT}\r\n"
            f"{headers}Connection: close\r\n\r\n".encode(),
            name=parts.hostname if parts.scheme == "https" else "",
        )
        return Reply(raw, method)

    async def exchange(self, address, port, data, *, name=""):
        """Send *data*, return everything until the server closes. With *name* by TLS."""
        reader, writer = await asyncio.open_connection(
            address,
            port,
            ssl=self.tls if name else None,
            server_hostname=name or None,
        )
        try:
            writer.write(data)
            async with asyncio.timeout(LIMIT_SECS):
                return await reader.read()
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


def hosts_of(world, **traits):
    """The hosts of *world* that have all *traits*, which are values of attributes."""
    for host in map(world.host, range(world.hosts)):
        if all(getattr(host, name) == value for name, value in traits.items()):
            yield host


_MARKS = (f"/mark/{number}" for number in itertools.count())
_MARK_ORIGIN = "http://mark.test"


def whole_log(web):
    """The access log of *web*, which writes it with a delay, with all that has been answered: a
    request of ours, which came after that, is in it."""
    mark = next(_MARKS)
    where = (web.world.address_list()[0], web.world.http_port)
    with socket.create_connection(where, LIMIT_SECS) as sock:
        sock.sendall(f"GET {mark} HTTP/1.1\r\nHost: mark.test\r\n\r\n".encode())
        while sock.recv(4096):
            pass
    while True:
        hits = list(read_access_log(web.log_path))
        if any(hit.target == mark for hit in hits):
            return [hit for hit in hits if hit.origin != _MARK_ORIGIN]
        time.sleep(0.02)


def links_of(base, reply):
    """Absolute, normalized URLs of the links in an answer, and its redirect target."""
    found = [reply.headers["Location"]] if "Location" in reply.headers else []
    if reply.status == 200 and reply.content_type == "text/html":
        charset = reply.headers.get_content_charset()
        text = reply.body.decode("utf-16") if charset == "utf-16" else reply.body
        tree = LexborHTMLParser(text)
        found += [node.attributes["href"] or "" for node in tree.css("a[href]")]
    return [ada_url.join_url(base, href).partition("#")[0] for href in found]


async def crawl(client, seeds, *, skip, polite=True):
    """Fetch everything that can be found, twenty URLs at a time: the statuses of the answers."""
    statuses = {}
    seen = set()
    rules = {}
    slots = asyncio.Semaphore(20)

    async def get(url):
        async with slots:
            with contextlib.suppress(OSError, http.client.HTTPException):
                return await client.get(url)

    async def rules_of(origin):
        url = origin + "/robots.txt"
        reply = await get(url)
        if reply is not None and "Location" in reply.headers:
            reply = await get(ada_url.join_url(url, reply.headers["Location"]))
        if reply is None or reply.status >= 400:
            return lambda _: reply is not None and reply.status < 500
        robots = Protego.parse(reply.body.decode("utf-8-sig", "replace"))
        return lambda url: robots.can_fetch(url, AGENT)

    async def fetch(url):
        origin = url[: url.index("/", 8)]
        if polite and origin not in rules:
            rules[origin] = asyncio.create_task(rules_of(origin))
        if polite and not (await rules[origin])(url):
            return
        # A throttling host answers 429, or 503.
        while (reply := await get(url)) is not None and "Retry-After" in reply.headers:  # noqa: ASYNC110  # the server says when
            await asyncio.sleep(0.02)
        if reply is not None:
            statuses[url] = reply.status
            push(links_of(url, reply))

    def push(urls):
        for url in urls:
            if url not in seen and not skip(url):
                seen.add(url)
                group.create_task(fetch(url))

    async with asyncio.TaskGroup() as group:
        push(seeds)
    return statuses
