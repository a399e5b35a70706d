"""A real process whose leases a test sends out and takes back, in one directory.

The download itself is played by ``Desk.end``, as the engine and the downloader do it."""

import asyncio
import shutil

import msgspec
from frontier_rig import entry
from process_rig import close, process_in, shard_of
from scrapy import Request
from scrapy.http import HtmlResponse

from webcrawl.crawl.lease.fetch import PageState
from webcrawl.crawl.lease.outcome_log import INFO_LOG, OutcomeLine
from webcrawl.frontier import decode, encode
from webcrawl.hosts.budgets.quotas import Ledger

MAX_DELAY = 120.0
LEASE_SECS = 900.0

decode_line = msgspec.json.Decoder(OutcomeLine).decode


class Desk:
    """A process with one shard; without *addresses* a proxy looks names up. *parts* as in
    ``process_in``."""

    def __init__(self, path, clock, *, obey, addresses=None, parts=(), **settings):
        self.clock = clock
        self._options = {"ROBOTSTXT_OBEY": obey, "parts": dict(parts), **settings}
        if addresses is None:
            self._options["HTTPPROXY_ENABLED"] = True
        else:
            self._options["parts"]["HostAddresses"] = lambda **_: addresses
        self._open(path)

    def _open(self, path):
        self.path = path / "job"
        self.process = process = process_in(self.path, clock=self.clock, **self._options)
        # What is to be called after merges is never run.
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._begin(process))
        services, leases = process.parts.services, process.parts.leases
        self.crawler, self.stats, self.stop = services.crawler, services.crawler.stats, process.stop
        self.codec, self.requests = leases.codec, leases.requests
        self.dispatcher, self.completion = leases.dispatcher, leases.completion
        self.host_release = leases.completion.host_release
        self.side_downloads = leases.side_downloads
        self.shard = shard = shard_of(process)
        self.frontier, self.hosts = shard.frontier, shard.hosts
        self.content, self.eliminator = shard.content, shard.eliminator
        self.info = self.path / INFO_LOG

    async def _begin(self, process):
        process.open(awaits_seeds=False, on_merged=lambda: None)

    def push(self, *entries):
        self.frontier.push([encode(entry) for entry in entries])

    def urls(self, number, **facts):
        """Queue so many URLs of one host."""
        self.push(*(entry("a.test", n, **facts) for n in range(number)))

    def answer(self, result, **more):
        """The next request ends in *result*."""
        request = self.next()
        self.end(request, result, **more)
        return request

    def rules(self, lines):
        """The next request is that of a robots.txt with *lines* for all."""
        return self.answer(page(200, b"User-agent: *\n" + lines + b"\n"))

    @property
    def is_empty(self):
        return len(self.frontier) == len(self.frontier.leases) == 0

    @property
    def outcomes(self):
        return self.counts("outcome/")

    def next(self):
        """The next request, or the next of a robots.txt; None when nothing is ready."""
        while (found := self.host_release.next_resolved()) is not None:
            if (request := self.dispatcher.resume(found)) is not None:
                return request
        lease = self.shard.acquire()
        return None if lease is None else self.dispatcher.dispatch(lease)

    def wait(self, seconds):
        self.clock.advance(seconds)

    def end(self, request, result, *, during=lambda fetch: None):
        """The download of *request* ends in *result*; *during* is its callback and pipelines."""
        fetch = request.meta["fetch"]
        if not isinstance(result, Request) and fetch.sent_at is None and not fetch.is_released:
            fetch.begin_download()
            fetch.note_transfer(result)
        fetch.end_download(result)
        if isinstance(result, HtmlResponse):
            result.request = request
        during(fetch)
        self.completion.done(request)

    def expire(self, older_than):
        """As the scheduler does in its background work."""
        spares_pages = self.side_downloads.idle_secs <= older_than
        self.completion.expire(older_than, spares_pages=spares_pages)

    def crash(self):
        """``kill -9``, and another process goes on with the files as they are."""
        left = self.path.with_name("left")
        shutil.copytree(self.path, left / "job")
        self.close()
        self._open(left)

    def counts(self, prefix):
        return {
            name.removeprefix(prefix): value
            for name, value in self.stats.get_stats().items()
            if name.startswith(prefix) and value
        }

    def rests(self):
        """Seconds until a host is ready."""
        assert self.next() is None
        return round(self.frontier.ready_at() - self.clock(), 3)

    def found(self):
        """The entries that the eliminator has for the frontier."""
        self.eliminator.merge()
        return [decode(payload) for payload in self.eliminator.take(100)]

    def lines(self):
        """What the log says of the URLs that have come to their ends."""
        return [decode_line(line) for line in self.info.read_bytes().splitlines()]

    def close(self):
        """Close all files, without a checkpoint."""
        close(self.process)
        self._loop.close()


def page(status=200, body=b"hello", **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HtmlResponse("http://a.test/0", status=status, body=body, headers=named)


def see(desk, fingerprint, state=PageState.STORED):
    """What the callback does: the content-seen test, with a document that is new; then its page
    becomes *state*."""

    def test(fetch):
        assert not desk.content.test(fingerprint)
        fetch.page.document = fetch.page.claim = fingerprint
        fetch.page.raise_state(state)

    return test


def attempts_of(request):
    return request.meta["fetch"].lease.entry.attempts


def put_back(request):
    """The page of *request* could not be stored."""
    request.meta["fetch"].page.raise_state(PageState.PUT_BACK)


def ordinary(desk, url="http://a.test/form", **changes):
    return desk.codec.entry(Request(url, method="POST", **changes))


class Names:
    """Stands for the addresses: what is told of a host, and who waits for it."""

    def __init__(self):
        self.found = {}
        self.waiting = {}

    def close(self):
        """There are no sockets."""

    def known_addresses(self, host):
        return self.found.get(host)

    def retry_in(self, host):
        return 30.0

    def look_up(self, host, then):
        self.waiting[host] = then

    def answer(self, host, found, error=None):
        self.found[host] = found
        self.waiting.pop(host)(isinstance(found, list), error)


class Book(Ledger):
    """What the ledger was told."""

    def __init__(self):
        self.told = []

    def note_start(self, entry):
        self.told.append(("begun", entry.url))

    def put_back(self, entry):
        self.told.append(("put back", entry.url))

    def return_page(self, entry):
        self.told.append(("returned", entry.url))

    def note_received(self, entry, size_bytes):
        self.told.append((size_bytes, entry.url))


def budgets(*gates):
    """``parts`` in which the budgets are a Book and *gates*."""
    return {"budgets_of": lambda records, **quotas: (Book(), gates)}
