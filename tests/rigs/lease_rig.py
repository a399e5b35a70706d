"""A dispatcher, its completion and all they work with, in one directory.

The download itself is played by ``Desk.end``, as the engine and the downloader do it."""

from __future__ import annotations

import msgspec
from frontier_rig import POLICY, Rig
from host_rig import host_rig
from scrapy import Request, Spider
from scrapy.http import HtmlResponse
from scrapy.statscollectors import StatsCollector
from scrapy.utils.request import RequestFingerprinter
from scrapy.utils.test import get_crawler
from seen_rig import InlineExecutor, disk_eliminator

from webcrawl.crawl.lease.completion import Completion
from webcrawl.crawl.lease.dispatcher import Dispatcher
from webcrawl.crawl.lease.fetch import PageState
from webcrawl.crawl.lease.host_release import HostRelease
from webcrawl.crawl.lease.item_limit import ItemLimit
from webcrawl.crawl.lease.lease_requests import LeaseRequests
from webcrawl.crawl.lease.outcome_log import OutcomeLine, OutcomeLog
from webcrawl.crawl.lease.pickled_requests import PickledRequests
from webcrawl.crawl.lease.request_codec import RequestCodec
from webcrawl.crawl.lease.services import ProcessServices
from webcrawl.crawl.lease.side_downloads import SideDownloads
from webcrawl.crawl.links.reading import ReadingWatch
from webcrawl.crawl.links.submission import LinkRules, LinkSubmitter
from webcrawl.crawl.seeds.ranks import HostRanks
from webcrawl.crawl.shard.shard import ShardTables
from webcrawl.crawl.shard.shards import Shards
from webcrawl.frontier import decode
from webcrawl.hosts.budgets.depths import DepthBudgets
from webcrawl.hosts.budgets.quotas import Ledger
from webcrawl.seen.content import ContentSeen
from webcrawl.storage.line_log import LineLog
from webcrawl.urls import HTTP_SCHEMES, host_of
from webcrawl.urls.equivalence import Equivalence
from webcrawl.urls.filters.chain import FilterChain, scheme_filter

MAX_DELAY = 120.0
ALONE = PickledRequests()
LEASE_SECS = 900.0

decode_line = msgspec.json.Decoder(OutcomeLine).decode


class Shop(Spider):
    name = "shop"

    def item(self, response):
        """A callback by name."""


class Ended:
    """Remembers what would have ended the crawl."""

    def __init__(self):
        self.errors = []

    @property
    def has_begun(self):
        return bool(self.errors)

    def fail(self, error):
        self.errors.append(error)


class Desk:
    """A dispatcher and all it works with, in one directory."""

    def __init__(
        self,
        path,
        clock,
        *,
        obey,
        policy=POLICY,
        named_sitemaps=True,
        pickled=ALONE,
        **options,
    ):
        self.rig = Rig(path / "frontier", clock)
        self.content = ContentSeen(path=path / "content", executor=InlineExecutor())
        self.content.open(None)
        self.crawler = crawler = get_crawler()
        self.stats = crawler.stats = StatsCollector(crawler)
        self.codec = RequestCodec(
            spider=Shop(),
            stats=crawler.stats,
            fingerprinter=RequestFingerprinter(crawler),
            key_of=host_of,
            comparison_form=Equivalence().comparison_form,
            pickled=pickled,
        )
        self.stop = Ended()
        rig = host_rig(
            policy=policy,
            clock=clock,
            obey=obey,
            crawl_delay_cap=MAX_DELAY,
            longest_retry_after=MAX_DELAY,
            requeue=self.rig.frontier.requeue,
            **options,
        )
        self.hosts = rig.services
        self.info = path / "info.jsonl"
        self.outcome_log = OutcomeLog(
            crawler=crawler,
            log=LineLog(path=self.info, max_bytes=1 << 20),
            comparison_form=Equivalence().comparison_form,
            clock=self.rig.clock,
        )
        self.outcome_log.open()
        self.eliminator = disk_eliminator(path / "seen", cache_size=64, buffer_size=256)
        self.eliminator.open(None)
        self.ranks = HostRanks(path=path / "ranks")
        self.ranks.open(None)
        tables = ShardTables(
            seen=self.eliminator, content=self.content, ranks=self.ranks, domains=self.ranks
        )
        self.shard = rig.shard(self.rig.frontier, tables)
        self.shards = Shards([self.shard])
        self.side_downloads = SideDownloads(
            shards=self.shards, key_of=host_of, clock=self.rig.clock
        )
        rules = LinkRules(
            filters=FilterChain([scheme_filter(HTTP_SCHEMES)]),
            seed_filters=FilterChain([scheme_filter(HTTP_SCHEMES)]),
            comparison_form=Equivalence().comparison_form,
            max_redirects=3,
            obeys_nofollow=True,
            depth_budgets=DepthBudgets(),
            takes_robots_sitemaps=named_sitemaps,
        )
        links = LinkSubmitter(sink=self.shards, rules=rules, clock=self.rig.clock)
        self.woken = 0
        self.reading = ReadingWatch(jobdir=path, max_secs=0.01)
        self.requests = LeaseRequests(
            crawler=crawler,
            codec=self.codec,
            items=ItemLimit(clock=clock, crawler=crawler),
            sitemap_bytes=50 << 20,
            page_bytes=5 << 20,
        )
        services = ProcessServices(
            shards=self.shards,
            crawler=crawler,
            rules=rig.rules,
            outcome_log=self.outcome_log,
            reading=self.reading,
            stop=self.stop,
            pickled=pickled,
        )
        self.host_release = HostRelease(services=services, wake=self._wake)
        self.completion = Completion(
            services=services,
            host_release=self.host_release,
            requests=self.requests,
        )
        self.dispatcher = Dispatcher(
            services=services,
            side_downloads=self.side_downloads,
            requests=self.requests,
            completion=self.completion,
            links=links,
        )

    def _wake(self):
        self.woken += 1

    @property
    def frontier(self):
        return self.rig.frontier

    def next(self):
        """The next request, or the next of a robots.txt; None when nothing is ready."""
        while (found := self.host_release.next_found()) is not None:
            if (request := self.dispatcher.go_on(found)) is not None:
                return request
        lease = self.rig.acquire()
        return None if lease is None else self.dispatcher.dispatch(lease)

    def wait(self, seconds):
        self.rig.clock.advance(seconds)

    def end(self, request, result, *, during=lambda fetch: None):
        """The download of *request* ends in *result*; *during* is its callback and pipelines."""
        fetch = request.meta["fetch"]
        if not isinstance(result, Request) and fetch.sent_at is None and not fetch.is_released:
            fetch.begin_download()
            fetch.transferred(result)
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
        """The frontier begins anew from its files."""
        self.rig.crash()
        self.shard.frontier = self.rig.frontier
        self.rig.frontier.shard = self.shard

    def counts(self, prefix):
        return {
            name.removeprefix(prefix): value
            for name, value in self.stats.get_stats().items()
            if name.startswith(prefix)
        }

    def rests(self):
        """Seconds until a host is ready."""
        assert self.next() is None
        return self.frontier.ready_at() - self.rig.clock()

    def found(self):
        """The entries that the eliminator has for the frontier."""
        self.eliminator.merge()
        return [decode(payload) for payload in self.eliminator.take(100)]

    def lines(self):
        """What the log says of the URLs that have come to their ends."""
        return [decode_line(line) for line in self.info.read_bytes().splitlines()]

    def close(self):
        self.frontier.close()
        self.content.close()
        self.outcome_log.close()
        self.eliminator.close()
        self.ranks.close()


def page(status=200, body=b"hello", **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HtmlResponse("http://a.test/0", status=status, body=body, headers=named)


def see(desk, fingerprint):
    """What the callback does: the content-seen test, with a document that is new."""

    def test(fetch):
        assert not desk.completion.is_seen(fetch, fingerprint)

    return test


def put_back(request):
    """The page of *request* could not be stored."""
    request.meta["fetch"].page.becomes(PageState.PUT_BACK)


def ordinary(desk, url="http://a.test/form", **changes):
    return desk.codec.entry(Request(url, method="POST", **changes), rank_of=lambda host: 0)


class Names:
    """Stands for the addresses: what is told of a host, and who waits for it."""

    def __init__(self):
        self.found = {}
        self.waiting = {}

    def look(self, host):
        return self.found.get(host)

    def again_in(self, host):
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

    def begun(self, entry):
        self.told.append(("begun", entry.url))

    def put_back(self, entry):
        self.told.append(("put back", entry.url))

    def received(self, entry, size_bytes):
        self.told.append((size_bytes, entry.url))
