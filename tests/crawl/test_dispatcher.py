"""What becomes of a lease on each path, with a real frontier, rules and content-seen test.

The download itself is played by ``Desk.end``, as the engine and the downloader do it."""

from __future__ import annotations

import asyncio
import threading
import time
from types import SimpleNamespace

import msgspec
import pytest
from disk import file_size_limit
from frontier_rig import POLICY, Rig, entry
from host_rig import Records, host_rig
from scrapy import Request, Spider
from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse
from scrapy.statscollectors import StatsCollector
from scrapy.utils.request import RequestFingerprinter
from scrapy.utils.test import get_crawler
from seen_rig import InlineExecutor, disk_eliminator
from twisted.python.failure import Failure

from webcrawl import signals
from webcrawl.crawl.agent import ProcessServices
from webcrawl.crawl.completion import Completion
from webcrawl.crawl.dispatcher import Dispatcher
from webcrawl.crawl.fetch import PageState, Stage
from webcrawl.crawl.finish_note import content_of
from webcrawl.crawl.host_release import HostRelease
from webcrawl.crawl.lease_requests import LeaseRequests
from webcrawl.crawl.outcome_log import OutcomeLine, OutcomeLog
from webcrawl.crawl.reading import ReadingWatch
from webcrawl.crawl.request_codec import RequestCodec
from webcrawl.crawl.seeds.ranks import HostRanks
from webcrawl.crawl.shard import Shards
from webcrawl.crawl.side_downloads import SideDownloads
from webcrawl.crawl.sitemaps import Sitemaps
from webcrawl.crawl.submission import LinkRules, LinkSubmitter
from webcrawl.frontier import Entry, LargestDelay, decode
from webcrawl.frontier.admission import Gate
from webcrawl.frontier.delay_policy import cut_off
from webcrawl.hosts.budgets.depths import DepthBudgets
from webcrawl.hosts.budgets.quotas import Ledger
from webcrawl.hosts.robots.lookup import RobotsStatus
from webcrawl.net.dns.resolver import LookupFailedError, NameNotFoundError
from webcrawl.net.http.large_bodies import LARGE_BODY
from webcrawl.net.outcomes import ConnectRefusedError, HostLookupError, HostNotFoundError
from webcrawl.scheduler import MercatorScheduler
from webcrawl.seen.content import ContentSeen
from webcrawl.seen.fingerprint import fingerprint
from webcrawl.storage.line_log import LineLog
from webcrawl.urls import HTTP_SCHEMES, host_of
from webcrawl.urls.equivalence import Equivalence
from webcrawl.urls.filters.chain import FilterChain, SchemeFilter

MAX_DELAY = 120.0
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
            form=Equivalence().form,
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
            form=Equivalence().form,
            clock=self.rig.clock,
        )
        self.outcome_log.open()
        self.eliminator = disk_eliminator(path / "seen", cache_size=64, buffer_size=256)
        self.eliminator.open(None)
        self.ranks = HostRanks(path=path / "ranks")
        self.ranks.open(None)
        self.shard = rig.shard(
            frontier=self.rig.frontier,
            eliminator=self.eliminator,
            content=self.content,
            ranks=self.ranks,
        )
        self.shards = Shards([self.shard])
        self.side_downloads = SideDownloads(
            shards=self.shards, key_of=host_of, clock=self.rig.clock
        )
        rules = LinkRules(
            filters=FilterChain([SchemeFilter(HTTP_SCHEMES)]),
            form=Equivalence().form,
            max_redirects=3,
            obeys_nofollow=True,
            depth_budgets=DepthBudgets(),
        )
        links = LinkSubmitter(
            sink=self.shards, rules=rules, awaits_seeds=False, clock=self.rig.clock
        )
        self.woken = 0
        self.reading = ReadingWatch(jobdir=path, max_secs=0.01)
        sitemaps = Sitemaps(
            links=links, max_bytes=50 << 20, page_max_bytes=5 << 20, named=named_sitemaps
        )
        self.requests = LeaseRequests(crawler=crawler, codec=self.codec, sitemaps=sitemaps)
        services = ProcessServices(
            crawler=crawler,
            rules=rig.rules,
            outcome_log=self.outcome_log,
            reading=self.reading,
            stop=self.stop,
        )
        self.host_release = HostRelease(services=services, shards=self.shards, wake=self._wake)
        self.completion = Completion(
            services=services,
            shards=self.shards,
            host_release=self.host_release,
            requests=self.requests,
        )
        self.dispatcher = Dispatcher(
            services=services,
            shards=self.shards,
            side_downloads=self.side_downloads,
            requests=self.requests,
            completion=self.completion,
            sitemaps=sitemaps,
        )

    def _wake(self):
        self.woken += 1

    @property
    def frontier(self):
        return self.rig.frontier

    def next(self):
        """The next request, and what was leased for it; None when nothing is ready."""
        lease = self.rig.acquire()
        return None if lease is None else self.dispatcher.dispatch(lease)

    def wait(self, seconds):
        self.rig.clock.advance(seconds)

    def end(self, request, result, *, during=lambda fetch: None):
        """The download of *request* ends in *result*; *during* is its callback and pipelines."""
        fetch = request.meta["fetch"]
        if not isinstance(result, Request) and fetch.stage is Stage.LEASED:
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


@pytest.fixture
def desk(tmp_path, clock):
    made = Desk(tmp_path, clock, obey=False)
    yield made
    assert made.frontier.check() == []
    made.close()


@pytest.fixture
def obedient(tmp_path, clock):
    made = Desk(tmp_path, clock, obey=True)
    yield made
    assert made.frontier.check() == []
    made.close()


def page(status=200, body=b"hello", **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HtmlResponse("http://a.test/0", status=status, body=body, headers=named)


def see(desk, fingerprint, *, is_new=True):
    """What the callback does: the content-seen test."""

    def test(fetch):
        assert desk.content.test(fingerprint) is not is_new
        if is_new:
            fetch.page.claim = fingerprint

    return test


def put_back(request):
    """The page of *request* could not be stored."""
    request.meta["fetch"].page.becomes(PageState.PUT_BACK)


# --- what must wait


class Closed(Gate):
    """Holds whatever comes."""

    name = "full"

    def holds(self, _):
        return True


def test_a_url_that_must_wait_after_all_is_parked_and_its_host_is_ready(tmp_path, clock):
    desk = Desk(tmp_path, clock, obey=True, gates=[Closed()])
    desk.rig.push(entry("a.test", 0), entry("a.test", 1))
    assert desk.next() is None
    assert desk.next() is None
    assert desk.frontier.parked.counts == {"full": 2}
    assert (desk.frontier.leased, len(desk.frontier)) == (0, 0)
    assert desk.stats.get_stats() == {}
    assert desk.frontier.check() == []
    desk.close()


def test_what_is_no_url_of_the_crawl_waits_at_no_gate(tmp_path, clock):
    desk = Desk(tmp_path, clock, obey=True, gates=[Closed()])
    robots_redirect = Entry(
        "http://b.test/robots.txt", "b.test", kind="robots", via="http://a.test"
    )
    desk.frontier.requeue(robots_redirect)
    assert desk.next() is None  # nobody waits for this one
    assert desk.frontier.parked.size == 0
    desk.close()


class Book(Ledger):
    """What the ledger was told."""

    def __init__(self):
        super().__init__([])
        self.told = []

    def begun(self, entry):
        self.told.append(("begun", entry.url))

    def put_back(self, entry):
        self.told.append(("put back", entry.url))

    def received(self, entry, size_bytes):
        self.told.append((size_bytes, entry.url))


def test_what_is_fetched_is_counted_when_it_begins_and_what_came_of_it_at_the_end(tmp_path, clock):
    desk = Desk(tmp_path, clock, obey=False, ledger=Book())
    told = desk.hosts.budgets.ledger.told
    desk.rig.push(entry("a.test", 0), entry("b.test", 0))
    first = desk.next()
    assert told == [("begun", "http://a.test/0")]
    desk.end(first, page())
    assert told[1:] == [(5, "http://a.test/0")]
    second = desk.next()
    put_back(second)
    desk.end(second, page())
    assert told[2:] == [("begun", "http://b.test/0"), ("put back", "http://b.test/0")]
    desk.close()


# --- links


def test_a_fetched_url_is_finished_and_its_host_rests(desk):
    desk.rig.push(entry("a.test", 0, depth=3), entry("a.test", 1, depth=3))
    request = desk.next()
    assert (request.url, request.meta["depth"]) == ("http://a.test/0", 3)
    assert desk.next() is None
    desk.end(request, page())
    assert desk.frontier.leased == 0
    assert desk.rests() == pytest.approx(cut_off(POLICY, 0.0))
    assert desk.counts("outcome/") == {"http_200": 1}
    assert desk.stats.get_value("fetch/bytes") == 5
    desk.wait(3)
    assert desk.next().url == "http://a.test/1"


def test_the_host_rests_from_the_last_byte_while_the_page_is_processed(desk):
    desk.rig.push(entry("a.test", 0), entry("a.test", 1))
    first = desk.next()
    second = []

    def processed(fetch):
        assert desk.frontier.leased == 1
        desk.wait(3)
        second.append(desk.next())

    desk.end(first, page(), during=processed)
    assert second[0].url == "http://a.test/1"
    assert desk.frontier.leased == 1


@pytest.mark.parametrize(
    ("failure", "tries"),
    [(page(503), 3), (page(429), 5), (page(501), 1), (ConnectRefusedError("x"), 3)],
    ids=str,
)
def test_what_may_pass_is_tried_again_and_then_given_up(desk, failure, tries):
    desk.rig.push(entry("a.test", 0, depth=2))
    name = "connect_refused" if isinstance(failure, Exception) else f"http_{failure.status}"
    for attempts in range(tries):
        assert desk.counts("retry/") == ({name: attempts} if attempts else {})
        request = desk.next()
        assert request.meta["fetch"].lease.entry.attempts == attempts
        assert request.meta["depth"] == 2
        desk.end(request, failure)
        assert desk.frontier.leased == 0
        desk.wait(120)
    assert desk.next() is None
    assert len(desk.frontier) == 0
    assert desk.counts("outcome/") == {name: 1}


def test_a_url_that_meets_a_bug_is_tried_once_more_and_again_in_the_next_run(desk):
    desk.rig.push(entry("a.test", 0))
    for attempts in (0, 1):
        request = desk.next()
        assert request.meta["fetch"].lease.entry.attempts == attempts
        desk.end(request, KeyError("x"))
        desk.wait(120)
    assert desk.next() is None
    assert desk.counts("outcome/") == {"other": 1}
    desk.completion.try_bugs_again()
    desk.completion.try_bugs_again()
    assert len(desk.frontier) == 1
    assert desk.next().meta["fetch"].lease.entry.attempts == 0


def test_what_meets_a_bug_when_the_crawl_ends_for_that_is_for_the_next_run_too(desk):
    desk.rig.push(entry("a.test", 0))
    desk.end(desk.next(), KeyError("x"))
    desk.wait(120)
    last = desk.next()
    desk.completion.try_bugs_again()
    desk.end(last, KeyError("x"))
    desk.wait(120)
    assert desk.counts("outcome/") == {}
    assert desk.next().meta["fetch"].lease.entry.attempts == 0


@pytest.mark.parametrize("failure", [page(404), HostNotFoundError("x")], ids=str)
def test_what_would_fail_again_is_not_tried_again(desk, failure):
    desk.rig.push(entry("a.test", 0))
    desk.end(desk.next(), failure)
    assert len(desk.frontier) == desk.frontier.leased == 0
    assert desk.counts("retry/") == {}


def test_a_name_that_does_not_exist_is_no_contact(desk):
    desk.rig.push(entry("a.test", 0), entry("a.test", 1))
    desk.end(desk.next(), HostNotFoundError("x"))
    assert desk.next() is not None


def test_a_host_whose_name_servers_fail_backs_off(desk):
    desk.rig.push(entry("a.test", 0), entry("a.test", 1))
    desk.end(desk.next(), HostLookupError("x"))
    assert desk.rests() == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("headers", "rest"),
    [
        ({"Retry_After": "60"}, 60.0),
        ({"Retry_After": "1"}, 3.0),
        ({"Retry_After": "86400"}, MAX_DELAY),
        ({"Retry_After": "9999999999999"}, MAX_DELAY),
        ({"Retry_After": "soon"}, 3.0),
        ({"Retry_After": "-5"}, 3.0),
        ({}, 3.0),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_a_rest_for_the_host_up_to_the_longest_delay(desk, status, headers, rest):
    desk.rig.push(entry("a.test", 0), entry("a.test", 1))
    desk.end(desk.next(), page(status, **headers))
    assert desk.rests() == pytest.approx(rest)


def test_retry_after_of_a_page_that_was_served_is_not_looked_at(desk):
    desk.rig.push(entry("a.test", 0), entry("a.test", 1))
    desk.end(desk.next(), page(200, Retry_After="60"))
    assert desk.rests() == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("on_wire", "rest"),
    [(page(429, Retry_After="60"), 60.0), (page(503), 50.0), (ConnectRefusedError("x"), 50.0)],
    ids=str,
)
@pytest.mark.parametrize(
    "in_its_place", [Request("http://a.test/again"), IgnoreRequest("x")], ids=["retried", "ignored"]
)
def test_what_a_middleware_makes_of_a_failure_does_not_shorten_the_rest(
    tmp_path, clock, on_wire, rest, in_its_place
):
    policy = LargestDelay(factor=10.0, floor=3.0, ceiling=120.0, backoff=50.0, backoff_max=50.0)
    desk = Desk(tmp_path, clock, obey=False, policy=policy)
    desk.rig.push(ordinary(desk), entry("a.test", 1))
    request = desk.next()
    request.meta["fetch"].begin_download()
    request.meta["fetch"].transferred(on_wire)
    desk.end(request, in_its_place)
    assert desk.rests() == pytest.approx(rest, abs=0.2)
    assert request.meta["fetch"].on_wire is None
    desk.close()


# --- content


def test_the_content_of_a_finished_page_is_seen_from_then_on_and_after_a_crash(desk):
    desk.rig.push(entry("a.test", 0))
    desk.end(desk.next(), page(), during=see(desk, 77))
    assert desk.content.test(77)
    desk.rig.crash()
    assert [*map(content_of, desk.rig.notes)] == [77]


def test_the_content_of_a_page_that_was_not_processed_is_not_seen_but_its_url_is_finished(desk):
    desk.rig.push(entry("a.test", 0))

    def fails(fetch):
        see(desk, 77)(fetch)
        fetch.page.becomes(PageState.FAILED)

    desk.end(desk.next(), page(), during=fails)
    assert len(desk.frontier) == desk.frontier.leased == 0
    assert not desk.content.test(77)
    desk.rig.crash()
    assert desk.rig.notes == []


def test_a_page_that_could_not_be_stored_goes_back_with_its_content(desk):
    desk.rig.push(entry("a.test", 0), entry("a.test", 1))

    def fails(fetch):
        see(desk, 77)(fetch)
        fetch.page.becomes(PageState.PUT_BACK)

    desk.end(desk.next(), page(), during=fails)
    assert desk.counts("outcome/") == {}
    desk.wait(3)
    again = desk.next()
    assert again.url == "http://a.test/0"
    assert again.meta["fetch"].lease.entry.attempts == 0
    desk.end(again, page(), during=see(desk, 77))
    assert desk.counts("outcome/") == {"http_200": 1}


def test_once_the_crawl_is_ending_nothing_is_finished(desk):
    desk.rig.push(entry("a.test", 0), entry("b.test", 0))
    first, second = desk.next(), desk.next()
    desk.stop.fail(OSError(28, "full"))
    desk.end(first, page(), during=see(desk, 77))
    desk.end(second, ConnectRefusedError("x"))
    assert len(desk.frontier) == 2
    assert desk.counts("outcome/") == desk.counts("retry/") == {}
    assert not desk.content.test(77)


def test_a_download_that_never_came_to_an_end_goes_back(desk):
    desk.rig.push(entry("a.test", 0))
    request = desk.next()
    request.meta["fetch"].begin_download()
    put_back(request)
    desk.completion.done(request)
    assert len(desk.frontier) == 1
    assert desk.rests() == pytest.approx(3.1)


# --- leases that nobody gives back


def test_an_expired_lease_returns_and_what_still_comes_of_it_is_too_late(desk):
    desk.rig.push(entry("a.test", 0))
    late = desk.next()
    see(desk, 77)(late.meta["fetch"])
    desk.wait(LEASE_SECS + 1)
    desk.expire(LEASE_SECS)
    assert desk.stats.get_value("scheduler/expired") == 1
    desk.wait(120)
    again = desk.next()
    assert again.url == late.url
    # The second try must not find its own document in process.
    desk.end(again, page(), during=see(desk, 77))
    desk.end(late, page())
    assert desk.counts("outcome/") == {"http_200": 1}
    assert desk.frontier.leased == 0


@pytest.mark.parametrize("obey", [False, True])
def test_an_expired_page_is_counted_once(tmp_path, clock, obey):
    desk = Desk(tmp_path, clock, obey=obey, ledger=Book())
    desk.rig.push(entry("a.test", 0))
    desk.next()  # the page, or a robots.txt, which is none
    desk.wait(LEASE_SECS + 1)
    desk.expire(LEASE_SECS)
    pages = [] if obey else [("begun", "http://a.test/0"), ("put back", "http://a.test/0")]
    assert desk.hosts.budgets.ledger.told == pages
    desk.close()


def test_a_robots_txt_that_nobody_gives_back_frees_its_host(obedient):
    obedient.rig.push(entry("a.test", 0))
    late = obedient.next()
    assert late.url == "http://a.test/robots.txt"
    obedient.wait(LEASE_SECS + 1)
    obedient.expire(LEASE_SECS)
    obedient.wait(120)
    again = obedient.next()
    assert again.url == "http://a.test/robots.txt"
    obedient.end(late, page(200, b"User-agent: *\nDisallow: /"))
    obedient.end(again, page(404))
    obedient.wait(3)
    assert obedient.next().url == "http://a.test/0"


def test_a_page_whose_processing_waits_for_a_download_is_not_taken_back(desk):
    desk.rig.push(entry("a.test", 0))
    request = desk.next()
    fetch = request.meta["fetch"]
    fetch.end_download(page())

    def during():
        for _ in range(20):
            desk.wait(LEASE_SECS / 10)
            desk.expire(LEASE_SECS)
        assert desk.next() is None

    in_turn(desk, "http://b.test/aside", during).end_download(page())
    # The page is still being processed, and only after that does its time begin.
    desk.wait(LEASE_SECS - 1)
    desk.expire(LEASE_SECS)
    assert fetch.page.state is PageState.STORED
    desk.wait(2)
    desk.expire(LEASE_SECS)
    assert fetch.page.state is PageState.EXPIRED


def test_a_download_that_outlives_its_lease_is_broken_off(desk):
    desk.rig.push(entry("a.test", 0), entry("b.test", 0))
    broken_off = []
    for _ in range(2):
        fetch = desk.next().meta["fetch"]
        fetch.begin_download()
        fetch.abort = lambda url=fetch.lease.entry.url: broken_off.append(url)
    fetch.end_download(page())
    desk.wait(LEASE_SECS + 1)
    desk.expire(LEASE_SECS)
    # The other one has left the wire.
    assert broken_off == ["http://a.test/0"]


# --- robots.txt


def test_robots_txt_is_a_contact_of_its_own_and_the_url_waits(obedient):
    obedient.rig.push(entry("a.test", 0))
    robots = obedient.next()
    assert robots.url == "http://a.test/robots.txt"
    assert len(obedient.frontier) == 1
    assert obedient.frontier.leased == 0
    assert obedient.next() is None
    obedient.end(robots, page(200, b"User-agent: *\nCrawl-delay: 30\n"))
    assert obedient.rests() == pytest.approx(30.0)
    obedient.wait(30)
    request = obedient.next()
    assert request.url == "http://a.test/0"
    obedient.end(request, page())
    assert obedient.counts("robots/") == {"http_200": 1, "origins": 1}
    assert obedient.counts("outcome/") == {"http_200": 1}


def test_a_robots_txt_that_takes_too_long_to_be_read_cannot_be_had(obedient):
    obedient.reading.open()
    obedient.rig.push(entry("a.test", 0))
    rules = b"".join(b"Disallow: /\xc3\xa9%d*%%e9%d\n" % (i, i) for i in range(25_000))
    obedient.end(obedient.next(), page(200, b"User-agent: *\n" + rules))
    obedient.reading.close()
    obedient.wait(3)
    assert obedient.next() is None
    assert obedient.counts("outcome/") == {"robots_unreachable": 1}
    # Nor is it read again.
    assert obedient.hosts.robots.look("http://a.test/1") is RobotsStatus.UNREACHABLE


def test_a_crawl_delay_of_hours_is_cut(obedient):
    obedient.rig.push(entry("a.test", 0))
    obedient.end(obedient.next(), page(200, b"User-agent: *\nCrawl-delay: 7200\n"))
    assert obedient.rests() == pytest.approx(MAX_DELAY)
    assert obedient.counts("robots/") == {"http_200": 1, "origins": 1, "long_crawl_delays": 1}


def test_what_robots_txt_forbids_is_given_up_without_a_contact(obedient):
    obedient.rig.push(entry("a.test", 0), entry("a.test", 1))
    obedient.end(obedient.next(), page(200, b"User-agent: *\nDisallow: /0\n"))
    obedient.wait(3)
    assert obedient.next() is None
    # Nothing was sent, so the host is ready for the next one.
    assert obedient.next().url == "http://a.test/1"
    assert obedient.counts("outcome/") == {"robots_denied": 1}


def test_the_urls_of_an_unreachable_host_are_given_up_with_its_reason(obedient):
    obedient.rig.push(entry("a.test", 0), entry("a.test", 1))
    for _ in range(3):
        obedient.end(obedient.next(), ConnectRefusedError("x"))
        obedient.wait(120)
    assert obedient.next() is None
    assert obedient.next() is None
    assert len(obedient.frontier) == obedient.frontier.leased == 0
    assert obedient.counts("outcome/") == {"connect_refused": 2}


def test_a_robots_txt_that_was_broken_off_tells_nothing(obedient):
    obedient.rig.push(entry("a.test", 0))
    robots = obedient.next()
    robots.meta["fetch"].begin_download()
    put_back(robots)
    obedient.completion.done(robots)
    obedient.wait(3.2)
    assert obedient.next().url == "http://a.test/robots.txt"
    assert obedient.counts("robots/") == {}


# --- ordinary requests


def ordinary(desk, url="http://a.test/form", **changes):
    return desk.codec.entry(Request(url, method="POST", **changes), rank_of=lambda host: 0)


def test_an_ordinary_request_comes_back_as_it_was_and_is_not_retried_here(desk):
    desk.rig.push(ordinary(desk, body=b"x=1", meta={"mine": 1}))
    request = desk.next()
    assert (request.method, request.body, request.meta["mine"]) == ("POST", b"x=1", 1)
    desk.end(request, page(503))
    assert len(desk.frontier) == desk.frontier.leased == 0
    assert desk.counts("outcome/") == {"http_503": 1}


def test_a_forbidden_ordinary_request_is_handed_on_to_be_refused(obedient):
    obedient.rig.push(ordinary(obedient))
    obedient.end(obedient.next(), page(200, b"User-agent: *\nDisallow: /"))
    obedient.wait(3)
    request = obedient.next()
    fetch = request.meta["fetch"]
    assert fetch.refusal == "robots_denied"
    fetch.end_download(IgnoreRequest("x"))
    obedient.completion.done(request)
    assert obedient.counts("outcome/") == {"robots_denied": 1}
    assert len(obedient.frontier) == obedient.frontier.leased == 0


def test_a_request_that_lived_in_memory_is_forgotten_when_it_has_ended(desk):
    unsaved = ordinary(desk, meta={"lock": threading.Lock()})
    desk.rig.push(unsaved)
    request = desk.next()
    put_back(request)
    desk.completion.done(request)
    desk.wait(3)
    again = desk.next()
    assert again.meta["lock"] is request.meta["lock"]
    desk.end(again, page())
    assert desk.codec._in_memory == {}


def test_a_request_that_a_restart_has_lost_is_given_up_and_counted(desk):
    lost = Entry("http://a.test/x", "a.test", rank=1, extra=b"\xa3abc")
    desk.rig.push(lost, entry("a.test", 1))
    assert desk.next() is None
    assert desk.stats.get_value("scheduler/lost") == 1
    assert desk.next().url == "http://a.test/1"


def test_a_request_that_only_carries_the_meta_of_another_is_none_of_ours(desk):
    desk.rig.push(entry("a.test", 0))
    request = desk.next()
    desk.completion.done(Request("http://b.test/", meta=request.meta))
    assert desk.frontier.leased == 1
    desk.end(request, page())
    assert desk.frontier.leased == 0
    desk.completion.done(request)
    assert desk.stop.errors == []


def test_a_request_in_place_of_a_link_is_an_ordinary_one_that_can_be_saved(desk):
    desk.rig.push(entry("a.test", 0, depth=2))
    request = desk.next()
    other = request.replace(url="http://b.test/")
    desk.end(request, other)
    assert desk.counts("outcome/") == {"replaced": 1}
    adopted = desk.requests.adopt(other)
    assert adopted.errback is None
    assert "dont_retry" not in adopted.meta
    saved = desk.codec.entry(adopted, rank_of=lambda host: 5)
    assert (saved.url, saved.host, saved.depth, saved.rank) == ("http://b.test/", "b.test", 2, 5)
    assert desk.codec.unpack(saved.extra).meta == {
        "depth": 2,
        "dont_redirect": True,
        "verbatim_url": True,
    }


def test_a_request_in_place_of_a_robots_txt_is_left_alone(obedient):
    obedient.rig.push(entry("a.test", 0))
    robots = obedient.next()
    assert obedient.requests.adopt(robots.replace(url="http://b.test/")) is None
    mine = Request("http://b.test/")
    assert obedient.requests.adopt(mine) is mine


def test_an_unforeseen_exception_is_logged_once_with_its_traceback(desk, caplog):
    desk.rig.push(entry("a.test", 0))
    request = desk.next()
    for error in (ConnectRefusedError("x"), KeyError("a bug"), KeyError("again")):
        request.errback(Failure(error))
    assert len(caplog.records) == 1
    assert "a bug" in caplog.text


# --- errors of ours


def test_a_log_that_cannot_be_written_ends_the_crawl(desk, tmp_path):
    desk.rig.push(entry("a.test", 0), entry("b.test", 0))
    first, second = desk.next(), desk.next()
    desk.frontier._log._log.close()
    desk.end(first, page())
    assert isinstance(desk.stop.errors[0], OSError)
    # From then on all goes back.
    desk.end(second, page())
    assert len(desk.frontier) == 1
    assert desk.frontier.leased == 1
    desk.rig.crash()
    assert len(desk.frontier) == 0  # nothing was in a snapshot, nothing was finished


# --- look-ups


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
        self.waiting.pop(host)(error)


@pytest.fixture
def names():
    return Names()


@pytest.fixture
def resolving(tmp_path, clock, names):
    made = Desk(tmp_path, clock, obey=False, addresses=names)
    yield made
    assert made.frontier.check() == []
    made.close()


def test_a_host_is_looked_up_once_without_a_worker_while_its_urls_wait(resolving, names):
    resolving.rig.push(entry("a.test", 0), entry("a.test", 1))
    assert resolving.next() is None
    assert resolving.host_release.looking_up == 1
    assert resolving.frontier.leased == 0
    assert resolving.next() is None
    assert list(names.waiting) == ["a.test"]
    names.answer("a.test", ["8.8.8.8"])
    assert resolving.woken == 1
    assert resolving.host_release.looking_up == 0
    assert resolving.next().url == "http://a.test/0"


@pytest.mark.parametrize("obey", [False, True])
def test_where_an_address_has_a_clock_the_fetch_is_bound_to_the_address(
    tmp_path, clock, names, obey
):
    desk = Desk(tmp_path, clock, obey=obey, addresses=names, key="address")
    names.found = {"a.test": ["::ffff:8.8.8.8"], "b.test": ["8.8.8.8"], "c.test": ["9.9.9.9"]}
    desk.rig.push(entry("a.test", 0), entry("b.test", 0), entry("c.test", 0))
    first, none, third = desk.next(), desk.next(), desk.next()
    assert none is None, "it is the same address in another spelling"
    assert [one.meta["fetch"].address for one in (first, third)] == ["::ffff:8.8.8.8", "9.9.9.9"]
    desk.end(first, page(404))
    desk.wait(3)
    second = desk.next()
    assert host_of(second.url) == "b.test"
    assert second.meta["fetch"].address == "8.8.8.8"
    desk.close()


def test_elsewhere_any_address_of_the_host_will_do(resolving, names):
    names.found["a.test"] = ["8.8.8.8"]
    resolving.rig.push(entry("a.test", 0))
    assert resolving.next().meta["fetch"].address == ""


@pytest.mark.parametrize("found", [HostNotFoundError("x"), ""])
def test_urls_of_a_host_without_an_address_are_given_up(resolving, names, found):
    names.found["a.test"] = NameNotFoundError("x") if found else []
    resolving.rig.push(entry("a.test", 0), entry("a.test", 1))
    assert resolving.next() is None
    assert resolving.next() is None
    outcome = "dns_not_found" if found else "address_forbidden"
    assert resolving.counts("outcome/") == {outcome: 2}
    assert len(resolving.frontier) == resolving.frontier.leased == 0


def test_a_failed_look_up_is_repeated_when_the_name_servers_would_be_asked(resolving, names):
    names.found["a.test"] = LookupFailedError("x")
    resolving.rig.push(*(entry("a.test", n) for n in range(4)))
    for _ in range(3):
        assert resolving.rests() == pytest.approx(30.0)
        resolving.wait(30)
    assert resolving.counts("retry/") == {"dns_failed": 3}
    # Then all URLs of the host are given up at once: nobody asks for each of them again.
    for _ in range(4):
        assert resolving.next() is None
    assert resolving.counts("outcome/") == {"dns_failed": 4}
    assert len(resolving.frontier) == resolving.frontier.leased == 0


def test_a_look_up_that_never_ends_gives_its_host_back_with_the_lease(resolving, names):
    resolving.rig.push(entry("a.test", 0))
    assert resolving.next() is None
    resolving.wait(LEASE_SECS + 1)
    resolving.expire(LEASE_SECS)
    assert resolving.host_release.looking_up == 0
    late = names.waiting.pop("a.test")
    late(None)
    assert resolving.stop.errors == []
    resolving.wait(120)
    assert resolving.next() is None
    names.answer("a.test", ["8.8.8.8"])
    assert resolving.next().url == "http://a.test/0"


def test_a_look_up_whose_answer_cannot_be_kept_ends_the_crawl(resolving, names):
    resolving.rig.push(entry("a.test", 0))
    assert resolving.next() is None
    broken = OSError(5, "Input/output error")
    names.answer("a.test", ["8.8.8.8"], broken)
    assert resolving.stop.errors == [broken]
    resolving.expire(-1.0)


def test_the_crawl_delay_holds_while_robots_txt_is_fetched_again(obedient):
    obedient.rig.push(*(entry("a.test", n) for n in range(3)))
    rules = page(200, b"User-agent: *\nCrawl-delay: 60\n")
    obedient.end(obedient.next(), rules)
    obedient.wait(86_399)
    late = obedient.next()
    assert late.url == "http://a.test/0"
    obedient.wait(2)
    obedient.end(late, page())
    assert obedient.rests() == pytest.approx(60.0)
    obedient.wait(60)
    moved = obedient.next()
    assert moved.url == "http://a.test/robots.txt"
    obedient.end(moved, page(301, Location="/rules"))
    assert obedient.rests() == pytest.approx(60.0)


# --- sitemaps

SITEMAPS = b"""Sitemap: http://a.test/map.xml
User-agent: *
Disallow: /map2.xml
Sitemap: http://b.test:80/map 3.xml
Sitemap: mailto:x@a.test
Sitemap: http://a.test/map.xml
"""


def test_sitemaps_of_robots_txt_are_submitted_once_at_the_level_of_the_first_url(obedient):
    obedient.rig.push(entry("a.test", 0, depth=2), entry("a.test", 1, depth=5))
    obedient.end(obedient.next(), page(200, SITEMAPS))
    assert obedient.found() == []
    obedient.wait(3)
    obedient.end(obedient.next(), page())
    obedient.wait(3)
    obedient.end(obedient.next(), page())
    assert [(e.url, e.host, e.depth, e.via, e.kind) for e in obedient.found()] == [
        ("http://a.test/map.xml", "a.test", 2, "http://a.test/robots.txt", "sitemap"),
        ("http://b.test/map%203.xml", "b.test", 2, "http://a.test/robots.txt", "sitemap"),
    ]


def test_sitemaps_are_not_followed_unless_they_are_asked_for(tmp_path, clock):
    desk = Desk(tmp_path, clock, obey=True, named_sitemaps=False)
    desk.rig.push(entry("a.test", 0))
    desk.end(desk.next(), page(200, SITEMAPS))
    desk.wait(3)
    desk.end(desk.next(), page())
    assert desk.found() == []
    desk.close()


def test_a_robots_txt_that_an_earlier_run_fetched_names_its_sitemaps_again(tmp_path, clock):
    records = Records()
    desk = Desk(tmp_path / "1", clock, obey=True, records=records)
    desk.rig.push(entry("a.test", 0))
    desk.end(desk.next(), page(200, SITEMAPS))
    desk.close()
    resumed = Desk(tmp_path / "2", clock, obey=True, records=records)
    resumed.rig.push(entry("a.test", 0))
    assert resumed.next().url == "http://a.test/0"
    assert len(resumed.found()) == 2
    resumed.close()


def test_pages_and_sitemaps_have_leave_to_be_large_while_they_are_held(desk):
    desk.rig.push(entry("a.test", 0), Entry("http://b.test/map.xml", "b.test", kind="sitemap"))
    for max_bytes in (5 << 20, 50 << 20):
        request = desk.next()
        leave = request.meta[LARGE_BODY]
        assert leave.max_bytes == max_bytes
        assert asyncio.run(leave.acquire())
        desk.end(request, page())
        assert not asyncio.run(leave.acquire())


# --- robots.txt on another host


def redirect_of_robots(desk, *, to):
    desk.rig.push(entry("a.test", 0))
    moved = page(301, Location=to)
    desk.end(desk.next(), moved)


def test_robots_txt_on_another_host_is_fetched_in_that_host_s_turn(obedient):
    obedient.rig.push(entry("b.test", 0), entry("b.test", 1))
    own = obedient.next()
    assert own.url == "http://b.test/robots.txt"
    redirect_of_robots(obedient, to="http://b.test/rules.txt")
    # b.test is in process: nothing may be asked of it.
    assert obedient.next() is None
    obedient.end(own, page(404))
    assert obedient.next() is None
    obedient.wait(3)
    # The page that needs it is looked at first, and waits without a worker.
    robots_redirect = obedient.next() or obedient.next()
    # It goes before the pages of its host.
    assert robots_redirect.url == "http://b.test/rules.txt"
    assert obedient.next() is None
    obedient.end(robots_redirect, page(200, b"User-agent: *\nDisallow: /0\n"))
    assert obedient.rests() <= 3.0
    obedient.wait(3)
    fetched = []
    for _ in range(6):
        request = obedient.next()
        if request is not None:
            fetched.append(request.url)
            obedient.end(request, page())
        obedient.wait(3)
    assert fetched == ["http://b.test/0", "http://b.test/1"]
    assert obedient.counts("outcome/") == {"robots_denied": 1, "http_200": 2}
    assert obedient.counts("robots/") == {
        "http_301": 1,
        "http_404": 1,
        "http_200": 1,
        "errands": 1,
        "origins": 2,
    }
    assert len(obedient.frontier) == obedient.frontier.leased == 0


def test_a_robots_redirect_to_a_host_without_address_is_unreachable(tmp_path, clock, names):
    desk = Desk(tmp_path, clock, obey=True, addresses=names)
    names.found = {"a.test": ["8.8.8.8"], "b.test": NameNotFoundError("x")}
    redirect_of_robots(desk, to="http://b.test/rules.txt")
    assert desk.next() is None
    desk.wait(3)
    assert desk.next() is None
    assert desk.counts("outcome/") == {"dns_not_found": 1}
    assert len(desk.frontier) == desk.frontier.leased == 0
    desk.close()


def test_a_robots_redirect_within_a_key_goes_before_its_waiting_urls(tmp_path, clock):
    desk = Desk(tmp_path, clock, obey=True, key="domain")
    images, rules = "http://img.example.com", "http://www.example.com/robots.txt"
    desk.rig.push(Entry(f"{images}/0", "example.com"))
    desk.end(desk.next(), page(301, Location=rules))
    # Somebody is in a hurry, and comes before the robots redirect.
    desk.frontier.requeue(Entry(f"{images}/1", "example.com", attempts=1), ahead=True)
    desk.wait(3)
    assert desk.next() is None
    desk.wait(3)
    robots_redirect = desk.next()
    assert robots_redirect.url == rules
    desk.end(robots_redirect, page(404))
    desk.wait(3)
    assert desk.next().url == f"{images}/1"
    desk.close()


def test_a_lost_robots_redirect_is_not_fetched_once_rules_are_known(obedient):
    redirect_of_robots(obedient, to="http://b.test/rules.txt")
    obedient.wait(3600)
    # Its host has not had a turn for it in an hour: robots.txt is asked for anew.
    busy = obedient.frontier.acquire("b.test")
    again = obedient.next()
    assert again.url == "http://a.test/robots.txt"
    obedient.end(again, page(404))
    obedient.frontier.put_back(busy)
    obedient.frontier.release("b.test", rest=0.0)
    obedient.wait(3)
    sent = [request.url for request in (obedient.next(), obedient.next()) if request]
    assert sent == ["http://a.test/0"]
    assert len(obedient.frontier) == 0
    obedient.expire(-1.0)


@pytest.mark.parametrize("again", ["http://a.test/1", "http://a.test/robots.txt"])
def test_a_crash_does_not_make_a_host_that_was_away_for_a_while_forget_its_crawl_delay(
    obedient, again
):
    """Its queue had run empty and its rest was over: only its robots.txt tells of the delay."""
    obedient.rig.push(entry("a.test", 0))
    obedient.end(obedient.next(), page(200, b"User-agent: *\nCrawl-delay: 100\n"))
    obedient.wait(100)
    obedient.end(obedient.next(), page())
    obedient.wait(200 if again.endswith("1") else 100_000)
    # As other hosts' rests do.
    obedient.frontier._back.remembered.purge(obedient.rig.clock(), limit=1)
    obedient.frontier.requeue(entry("a.test", 1))
    assert obedient.next().url == again
    obedient.wait(1)
    obedient.crash()
    assert obedient.rests() == pytest.approx(100.0, abs=1e-3)


def test_a_robots_redirect_survives_kill_9(obedient):
    redirect_of_robots(obedient, to="http://b.test/rules.txt")
    obedient.crash()
    obedient.wait(120)
    urls = set()
    for _ in range(2):
        request = obedient.next()
        if request is not None:
            urls.add(request.url)
    assert urls == {"http://b.test/rules.txt"}


def test_a_listener_hears_of_the_end_of_each_url_once(obedient):
    ends = []

    def heard(url, outcome, spider):
        ends.append((url, outcome))

    obedient.crawler.signals.connect(heard, signal=signals.url_finished)
    obedient.rig.push(entry("a.test", 0), entry("a.test", 1))
    obedient.end(obedient.next(), page(200, b"User-agent: *\nDisallow: /0\n"))
    obedient.wait(3)
    assert obedient.next() is None
    request = obedient.next()
    obedient.end(request, page(404))
    assert ends == [("http://a.test/0", "robots_denied"), ("http://a.test/1", "http_404")]


def test_each_url_that_ends_has_a_line_that_says_why(obedient):
    obedient.rig.push(entry("a.test", 0), entry("a.test", 1, depth=2))
    obedient.end(obedient.next(), page(200, b"User-agent: *\nDisallow: /0 # no\n"))
    obedient.wait(3)
    assert obedient.next() is None

    def processed(fetch):
        fetch.page.document = fetch.page.claim = 0xABC
        fetch.page.redirect_target = "http://a.test/next"

    obedient.end(obedient.next(), page(200), during=processed)
    denied, fetched = obedient.lines()
    assert (denied.url, denied.host, denied.outcome) == (
        "http://a.test/0",
        "a.test",
        "robots_denied",
    )
    assert (denied.robots, denied.status, denied.took) == ("Disallow: /0", 0, 0.0)
    assert (fetched.url, fetched.outcome, fetched.status) == ("http://a.test/1", "http_200", 200)
    assert (fetched.bytes, fetched.depth, fetched.tries) == (5, 2, 1)
    assert (fetched.content, fetched.duplicate) == ("0000000000000abc", False)
    assert fetched.redirect == "http://a.test/next"
    assert fetched.form == f"{fingerprint('http://a.test/1'):016x}"
    assert fetched.at == round(obedient.rig.clock(), 3)


@pytest.mark.parametrize(
    ("flags", "truncated", "undecodable"),
    [
        (["cached"], "", False),
        (["truncated"], "length", False),
        (["truncated", "body_cut"], "length", False),
        (["truncated", "time"], "time", False),
        (["dataloss"], "disconnect", False),
        (["undecodable"], "", True),
    ],
)
def test_what_a_body_lacks_is_in_its_line(desk, flags, truncated, undecodable):
    desk.rig.push(entry("a.test"))
    desk.end(desk.next(), page(200).replace(flags=flags))
    (line,) = desk.lines()
    assert (line.outcome, line.truncated, line.undecodable) == ("http_200", truncated, undecodable)


def test_only_the_last_of_several_tries_has_a_line(desk):
    desk.rig.push(entry("a.test"))
    for _ in range(3):
        desk.end(desk.next(), ConnectRefusedError("no"))
        assert desk.frontier.check() == []
        desk.wait(3600)
    (line,) = desk.lines()
    assert (line.outcome, line.tries) == ("connect_refused", 3)


def test_a_document_whose_processing_failed_is_nobodys_original(desk):
    desk.rig.push(entry("a.test"))

    def processed(fetch):
        fetch.page.document = fetch.page.claim = 7
        fetch.page.becomes(PageState.FAILED)

    desk.end(desk.next(), page(200), during=processed)
    assert desk.lines()[0].content == ""


def test_a_url_whose_line_cannot_be_written_is_not_finished(desk):
    desk.rig.push(entry("a.test"))
    request = desk.next()
    desk.info.write_bytes(b"x" * 100 + b"\n")
    desk.outcome_log.close()
    desk.outcome_log.open()
    with file_size_limit(101):
        desk.end(request, page(200))
    assert [type(error) for error in desk.stop.errors] == [OSError]
    assert desk.frontier.leased == 1
    assert desk.counts("outcome/") == {}
    assert desk.info.read_bytes() == b"x" * 100 + b"\n"


def test_the_rest_after_a_contact_is_learned_from_the_host(desk):
    desk.rig.push(*(entry("a.test", n) for n in range(6)))
    for _ in range(2):
        request = desk.next()
        fetch = request.meta["fetch"]
        fetch.begin_download()
        fetch.took = 1.0
        fetch.end_download(page())
        desk.completion.done(request)
        assert desk.rests() == pytest.approx(10.0)
        desk.wait(10)
    assert desk.hosts.records.get("a.test").took == [1.0, 1.0]
    assert desk.hosts.records.get("a.test").pages == 2


# --- downloads that somebody waits for


def in_turn(desk, url, during):
    """Ask for the turn of *url*'s host while *during* goes on in the scheduler."""

    async def run():
        task = asyncio.ensure_future(desk.side_downloads.turn(Request(url)))
        await asyncio.sleep(0)
        during()
        return await task

    return asyncio.run(run())


def test_a_download_aside_waits_for_its_host_and_goes_before_the_urls_there(desk):
    desk.rig.push(entry("a.test", 0), entry("a.test", 1))
    first = desk.next()

    def during():
        assert desk.next() is None
        desk.end(first, page())
        assert desk.rests() == pytest.approx(3.0)
        desk.wait(3)
        assert desk.next() is None  # the turn is given, and no Request goes to the engine

    fetch = in_turn(desk, "http://a.test/aside", during)
    assert fetch.lease.entry.url == "http://a.test/aside"
    assert desk.next() is None
    request = fetch.bind(Request("http://a.test/aside"))
    desk.end(request, page())
    assert desk.rests() == pytest.approx(3.0)
    desk.wait(3)
    assert desk.next().url == "http://a.test/1"
    assert desk.counts("outcome/") == {"http_200": 1}
    assert desk.counts("aside/") == {"http_200": 1}
    assert len(desk.side_downloads) == 0


def test_a_download_aside_obeys_robots_txt(obedient):
    def during():
        robots = obedient.next()
        assert robots.url == "http://a.test/robots.txt"
        obedient.end(robots, page(200, b"User-agent: *\nDisallow: /aside\n"))
        obedient.wait(3)
        assert obedient.next() is None

    with pytest.raises(IgnoreRequest, match="robots_denied"):
        in_turn(obedient, "http://a.test/aside", during)
    assert obedient.counts("aside/") == {"robots_denied": 1}
    assert len(obedient.frontier) == obedient.frontier.leased == 0


def test_a_download_aside_that_nobody_waits_for_any_more_is_dropped(desk):
    async def run():
        task = asyncio.ensure_future(desk.side_downloads.turn(Request("http://a.test/aside")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert len(desk.frontier) == 1
    assert desk.next() is None
    assert len(desk.frontier) == desk.frontier.leased == 0


def test_a_download_aside_that_is_cancelled_just_when_its_turn_comes_gives_it_back(desk):
    desk.rig.push(entry("a.test", 0))

    async def run():
        request = Request("http://a.test/aside")
        task = asyncio.ensure_future(desk.side_downloads.turn(request))
        await asyncio.sleep(0)
        assert desk.next() is None
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # As the engine does in any case.
        desk.completion.done(request)

    asyncio.run(run())
    assert desk.frontier.leased == 0
    assert desk.next() is None  # nobody waits any more
    assert desk.next().url == "http://a.test/0"
    desk.expire(-1.0)


def test_a_download_aside_is_lost_with_its_process_and_dropped_by_the_next(desk):
    async def run():
        task = asyncio.ensure_future(desk.side_downloads.turn(Request("http://a.test/aside")))
        await asyncio.sleep(0)
        desk.crash()
        task.cancel()

    asyncio.run(run())
    assert len(desk.frontier) == 1
    assert desk.next() is None
    assert len(desk.frontier) == desk.frontier.leased == 0


def test_a_host_that_somebody_waits_for_can_be_asked_for_before_all_others(desk):
    desk.rig.push(*(entry(f"{name}.test", n) for n in range(2) for name in "bcd"))

    def during():
        desk.rig.push(entry("a.test", 0))
        lease = desk.side_downloads.acquire()
        assert lease.entry.url == "http://a.test/aside"
        assert desk.side_downloads.acquire() is None
        assert desk.dispatcher.dispatch(lease) is None

    fetch = in_turn(desk, "http://a.test/aside", during)
    fetch.end_download(None)
    assert desk.side_downloads.acquire() is None
    assert desk.frontier.check() == []
    assert [desk.next().url for _ in range(4)] == [f"http://{name}.test/0" for name in "bcda"]
    desk.expire(-1.0)


def test_urls_that_are_hard_to_judge_do_not_hold_the_reactor(obedient):
    # A robots.txt that takes as long as any for a URL.
    rules = b"".join(b"Allow: *%x\n" % number for number in range(40_000))
    obedient.rig.push(*(Entry(f"http://a.test/{'q' * 2000}/{n}", "a.test") for n in range(64)))
    obedient.end(obedient.next(), page(200, b"User-agent: *\nDisallow: /\n" + rules))
    obedient.wait(3)
    alarms = []
    agent = SimpleNamespace(
        dispatcher=obedient.dispatcher,
        completion=obedient.completion,
        shards=obedient.shards,
        links=SimpleNamespace(awaits_seeds=False),
        pauses={},
        live=SimpleNamespace(workers=1),
    )
    scheduler = SimpleNamespace(
        agent=agent,
        _crawler=SimpleNamespace(engine=SimpleNamespace(scraper=SimpleNamespace(slot=None))),
        _alarm=SimpleNamespace(set=alarms.append),
    )
    assert MercatorScheduler.next_request(scheduler) is None
    denied = obedient.counts("outcome/")["robots_denied"]
    assert 0 < denied < 64
    # It goes on with the rest at once.
    assert alarms[0] <= time.monotonic()
    while len(obedient.frontier):
        MercatorScheduler.next_request(scheduler)
    assert obedient.counts("outcome/") == {"robots_denied": 64}


def test_when_the_crawl_is_closed_who_waits_is_told_and_pages_in_process_go_back(desk):
    desk.rig.push(entry("a.test", 0))
    request = desk.next()

    def close():
        desk.completion.put_back_pages()
        desk.side_downloads.close()

    with pytest.raises(IgnoreRequest, match="being closed"):
        in_turn(desk, "http://a.test/aside", close)
    desk.end(request, page())
    assert desk.counts("outcome/") == {}
    assert len(desk.frontier) == 2
    with pytest.raises(IgnoreRequest, match="being closed"):
        asyncio.run(desk.side_downloads.turn(Request("http://b.test/")))
