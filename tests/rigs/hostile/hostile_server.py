"""The servers of the hostile suite, on loopback, with a record of who asked when.

Every kind of hostile.py has a host of its own, ``<kind>.sim.test``, with a robots.txt and an
ordinary page at ``/good``; what is hostile beside them is said by its place.
"""

import contextlib
import functools
import itertools
import socket
import time
from dataclasses import dataclass, field

import hostile_dns
from hostile import KINDS, Kind
from hostile_answers import Contact, Talk, attack_of
from hostile_bodies import answer, html
from hostile_tls import CERTIFICATES
from loopback import name_server, raw_server

ROBOTS = b"User-agent: *\nDisallow: /private/\n"


@dataclass
class Site:
    """A host of the suite while it serves."""

    kind: Kind
    attack: object
    tls: object = None
    good_port: int = 0
    hostile_port: int = 0
    contacts: list = field(default_factory=list)

    @property
    def host(self):
        return f"{self.kind.name}.{hostile_dns.ZONE}"

    @property
    def good_url(self):
        return f"http://{self.host}:{self.good_port}/good"

    @property
    def private_url(self):
        return f"http://{self.host}:{self.good_port}/private/page"

    def url(self, path="/hostile"):
        return f"{self.kind.scheme}://{self.host}:{self.hostile_port}{path}"

    def good_body(self):
        return html(b"<p>the ordinary page of " + self.host.encode())

    def expected(self):
        """The outcome of every URL of this host that the crawl knows of."""
        outcomes = {self.url(): self.kind.outcome}
        outcomes |= {
            self.url(path) if path.startswith("/") else path: outcome
            for path, outcome in self.kind.leads_to.items()
        }
        if self.has_address:
            outcomes |= {self.good_url: "http_200", self.private_url: "robots_denied"}
        return outcomes

    @property
    def has_address(self):
        return not self.kind.outcome.startswith("dns_")

    def impolite(self, *, pause, notice):
        """Contacts that began less than *pause* seconds after the one before them was over.

        After one that the client broke off *notice* seconds less will do, since its end is known
        from when the server noticed it.
        """
        found = []
        for before, after in itertools.pairwise(self.contacts):
            gap = after.began - before.ended
            if gap < pause - (0 if before.is_over else notice):
                found.append(f"{self.host}: {after.path} {gap:.3f} s after {before.path}")
        return found


class HostileServers:
    """All of them, on one loop."""

    def __init__(self):
        self.sites = {kind.name: Site(kind, attack_of(kind)) for kind in KINDS}
        for site in self.sites.values():
            if site.kind.name in CERTIFICATES:
                site.tls = CERTIFICATES[site.kind.name](name=site.host)
        self.dns = ""

    def there(self, kind, path):
        """The URL of *path* on the host of *kind*."""
        return self.sites[kind].url(path)

    def seeds(self):
        for site in self.sites.values():
            yield site.url()
            if site.has_address:
                yield from (site.good_url, site.private_url)

    @contextlib.asynccontextmanager
    async def serving(self):
        async with contextlib.AsyncExitStack() as stack:
            names = await stack.enter_async_context(name_server(hostile_dns.reply))
            self.dns = f"127.0.0.1:{names.port}"
            for site in self.sites.values():
                site.good_port = await self._listen(stack, site, hostile=False)
                if site.kind.place in ("page", "name"):
                    site.hostile_port = site.good_port
                else:
                    site.hostile_port = await self._listen(stack, site, hostile=True)
            yield self

    async def _listen(self, stack, site, *, hostile):
        if hostile and site.kind.place in ("closed", "deaf"):
            return _unanswered(stack, deaf=site.kind.place == "deaf")
        serve = functools.partial(self._serve, site, hostile)
        tls = site.tls if hostile and site.kind.place == "tls" else None
        return (await stack.enter_async_context(raw_server(serve, tls=tls))).port

    async def _serve(self, site, hostile, reader, writer):
        contact = _begun(site)
        stays = True
        while stays:
            if not hostile or site.kind.place not in ("connection", "handshake"):
                asked = await reader.readuntil(b"\r\n\r\n")
                if contact.is_over:
                    contact = _begun(site)
                contact.path = asked.split(b" ")[1].decode("latin-1")
            talk = Talk(reader, writer, contact.path, self.there, contact, site.tls)
            stays = await self._answer(site, hostile, talk)
            contact.is_over = True

    async def _answer(self, site, hostile, talk):
        """Answer one request and say whether the connection stays open."""
        kind, path = site.kind, talk.path
        if site.attack is not None and _is_attacked(kind.place, path, hostile=hostile):
            await site.attack(talk)
            return False
        if path == "/robots.txt":
            await talk.send(answer(ROBOTS))
        elif path == "/good":
            await talk.send(answer(site.good_body()))
        elif path == "/hostile":
            await talk.send(answer(html(b"<p>nothing wrong at " + site.host.encode())))
        else:
            await talk.send(answer(b"", status=b"404 Not Found"))
        return True


def _is_attacked(place, path, *, hostile):
    if place == "page":
        return path.startswith("/hostile")
    return hostile and (place != "robots" or path == "/robots.txt")


def _begun(site):
    contact = Contact(began=time.monotonic())
    contact.touch()
    site.contacts.append(contact)
    return contact


def _unanswered(stack, *, deaf):
    """The port of a socket that refuses connections, or of a *deaf* one that lets them wait."""
    bound = stack.enter_context(socket.socket())
    bound.bind(("127.0.0.1", 0))
    if deaf:
        bound.listen(0)
        # One connection fills the queue; the next one's SYN is dropped.
        stack.enter_context(socket.create_connection(bound.getsockname()))
    return bound.getsockname()[1]
