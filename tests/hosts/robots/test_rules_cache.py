"""Tests of the rules of many origins, over restarts, failures and clock changes."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import FakeClock
from host_rig import Records
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from scrapy.settings import Settings
from strategies import examples
from text_tables import each

from webcrawl.hosts.records import HostRecords
from webcrawl.hosts.robots.rules_cache import RobotsCache

DAY = 86_400.0
RETRY = 600.0
A = "http://a.test:80"
X = "http://a.test/x"
FORBIDDING = b"User-agent: *\nDisallow: /x\nCrawl-delay: 7\n"


@pytest.fixture
def store():
    return Records()


@pytest.fixture
def clock():
    return FakeClock(1.7e9)


def opened(store, clock, **changes):
    values = {"size": 100, "max_bytes": 1 << 20, **changes}
    return RobotsCache(
        store=store, tokens=("webcrawl",), expire=DAY, retry=RETRY,
        clock=clock, **values,
    )  # fmt: skip


def allows(rules):
    return rules.decide(X).allow


@pytest.fixture
def cache(store, clock):
    return opened(store, clock)


def test_rules_are_those_of_their_own_origin(cache):
    cache.put(A, 200, FORBIDDING)
    cache.put("https://a.test:443", 404, FORBIDDING)
    assert not allows(cache.get(A))
    assert cache.get(A).crawl_delay == 7
    assert cache.get("https://a.test:443").decide("https://a.test/x").allow
    assert cache.get("http://a.test:8080") is None
    assert len(cache._ready) == 2


def test_a_delay_that_is_not_a_number_is_logged_once_and_ignored(cache, store, clock, caplog):
    body = b"User-agent: *\nDisallow: /x\nCrawl-delay: s\x1b[2Joon\n"
    assert cache.put(A, 200, body).crawl_delay is None
    assert caplog.messages == [
        f"{A}/robots.txt: Crawl-delay 's\\x1b[2Joon' is not a number and is ignored"
    ]
    assert not allows(cache.get(A))
    assert not allows(opened(store, clock).get(A))  # read again, from the store
    cache.put(A, 200, b"User-agent: *\nCrawl-delay: 0,5\n")
    assert len(caplog.messages) == 1
    assert cache.get(A).crawl_delay == 0.5


def test_sitemaps_are_returned_once_each_time_the_file_is_parsed(store, clock):
    file = FORBIDDING + b"Sitemap: http://a.test/1.xml\nSitemap: http://b.test/2.xml\n"
    cache = opened(store, clock, size=1)
    assert cache.take_sitemaps(A) == ()
    cache.put(A, 200, file)
    named = ("http://a.test/1.xml", "http://b.test/2.xml")
    assert cache.take_sitemaps(A) == named
    assert cache.take_sitemaps(A) == ()
    cache.get(A)
    assert cache.take_sitemaps(A) == ()
    again = opened(store, clock, size=1)
    again.get(A)
    assert again.take_sitemaps(A) == named
    # What is not asked for is forgotten with the rules, and told when they are read again.
    again.put(A, 200, file)
    again.put("http://b.test:80", 404)
    assert again.take_sitemaps(A) == ()
    again.get(A)
    assert again.take_sitemaps(A) == named


def test_a_failure_that_is_forgiven_is_fetched_again_at_once_and_a_file_is_not(cache, store, clock):
    cache.forgive(A)
    cache.put(A, 200, FORBIDDING)
    cache.forgive(A)
    assert cache.get(A).crawl_delay == 7
    clock.advance(DAY)
    cache.put(A, None)
    assert cache.get(A) is not None
    cache.forgive(A)
    assert cache.get(A) is opened(store, clock).get(A) is None
    assert cache.last_rules(A).crawl_delay == 7


@each("first", 200, 404, None)
def test_after_thirty_days_of_failures_a_host_counts_as_without_robots_txt(cache, clock, first):
    cache.put(A, first, FORBIDDING)
    clock.advance(DAY)
    # The time counts from the first failure on.
    for _ in range(29 if first is None else 30):
        assert not allows(cache.put(A, 503))
        clock.advance(DAY)
        assert cache.get(A) is None
    rules = cache.put(A, None)
    assert (rules.failed, allows(rules), rules.crawl_delay) == (False, True, None)


def test_garbage_in_the_store_counts_as_unknown(cache, store, clock):
    cache.put(A, 200, FORBIDDING)
    for damaged in (b"", b"garbage", store.packed[A][:-1]):
        store.packed[A] = damaged
        again = opened(store, clock)
        assert again.get(A) is None
        assert again.facts(A) is None
        assert again.put(A, 503).failed


def test_facts_tell_how_the_rules_came_about(cache, store, clock):
    start = clock.now
    cache.put(A, 200, FORBIDDING)
    assert cache.facts(A) == (200, start, start + DAY)
    clock.advance(DAY)
    cache.put(A, 503)
    clock.advance(RETRY)
    cache.put(A, None)
    assert opened(store, clock).facts(A) == (None, clock.now, clock.now + RETRY)


def test_rules_survive_a_restart_in_the_host_records(tmp_path, clock):
    with ThreadPoolExecutor(max_workers=1) as executor:
        records = HostRecords(path=tmp_path / "hosts", size=9, robots_size=9, executor=executor)
        records.open()
        cache = opened(records, clock)
        cache.put(A, 200, FORBIDDING)
        cache.put("http://b.test", 404)
        records.close()
        records.open()
        again = opened(records, clock)
        assert again.get(A).decide(X).line == "Disallow: /x"
        assert allows(again.get("http://b.test"))
        assert again.get("http://c.test") is None
        records.close()


def test_the_rules_unused_for_longest_leave_memory_first_but_not_the_store(store, clock):
    cache = opened(store, clock, size=3)
    long = FORBIDDING + b"#" * 1024
    made = {name: cache.put(name, 200, long) for name in "abc"}
    assert cache.get("a") is made["a"]
    made["d"] = cache.put("d", 200, long)
    assert [name for name in "acd" if cache.get(name) is made[name]] == ["a", "c", "d"]
    again = cache.get("b")
    assert again is not made["b"]
    assert not allows(again)
    assert len(cache._ready) == 3


def test_hosts_with_the_same_short_file_share_its_rules(store, clock):
    cache = opened(store, clock)
    rules = cache.put("a", 200, FORBIDDING)
    assert cache.put("b", 200, FORBIDDING) is cache.get("b") is rules
    assert cache.put("c", 200, FORBIDDING.replace(b"x", b"y")) is not rules
    assert cache.put("d", 500, FORBIDDING) is not rules


def test_rules_take_no_more_memory_than_the_bound_but_for_one_file(store, clock):
    cache = opened(store, clock, max_bytes=20_000)
    for n in range(20):
        cache.put(f"http://{n}.test", 200, FORBIDDING)
        assert cache._bytes <= 20_000
    assert 1 < len(cache._ready) < 20
    large = b"User-agent: *\n" + b"".join(b"Disallow: /%d\n" % n for n in range(1000))
    made = cache.put(A, 200, large)
    assert made.size_bytes > 20_000
    # Or it would be parsed again for each URL.
    assert cache.get(A) is made
    assert len(cache._ready) == 1
    cache.put("http://0.test", 404)
    assert cache._bytes <= 20_000


class CacheMachine(RuleBasedStateMachine):
    """The cache, closed and opened at will, against the answers each origin gave."""

    EXPIRE, RETRY, LIMIT = 100.0, 10.0, 250.0
    origins = st.sampled_from("abc")

    def __init__(self):
        super().__init__()
        self.now = 1e6
        self.store = Records()
        # By origin: failing, its seconds, whether there is a file, when it was asked.
        self.model = {}
        self.reopen()

    @rule()
    def reopen(self):
        self.cache = RobotsCache(
            store=self.store, tokens=("webcrawl",), size=2, max_bytes=1 << 20,
            expire=self.EXPIRE, retry=self.RETRY, unreachable_limit=self.LIMIT,
            clock=lambda: self.now,
        )  # fmt: skip

    @rule(origin=origins, status=st.sampled_from([200, 404, 503, 503, 503, None]))
    def put(self, origin, status):
        self.look(origin)
        self.cache.put(origin, status, FORBIDDING)
        if status in (200, 404):
            self.model[origin] = (False, 0.0, status == 200, self.now)
            return
        failing, seconds, file, asked = self.model.get(origin, (False, 0.0, False, self.now))
        if failing:
            seconds += min(self.now - asked, self.EXPIRE)
        self.model[origin] = (True, seconds, file, self.now)

    @rule(origin=origins)
    def forget(self, origin):
        self.store.packed.pop(origin, None)
        self.model.pop(origin, None)
        self.reopen()

    @rule(seconds=st.sampled_from([1, 9, 50, 99, 120]))
    def wait(self, seconds):
        self.now += seconds

    @rule(seconds=st.sampled_from([1, 500]))
    def set_the_clock_back(self, seconds):
        self.now -= seconds
        for origin in "abc":
            self.look(origin)

    @rule(origin=origins)
    def look(self, origin):
        rules = self.cache.get(origin)
        if origin not in self.model:
            assert rules is None
            return
        failing, seconds, file, asked = self.model[origin]
        if asked > self.now:
            asked = self.now
            self.model[origin] = (failing, seconds, file, asked)
        gave_up = seconds >= self.LIMIT
        lasts = self.RETRY if failing and not gave_up else self.EXPIRE
        if self.now >= asked + lasts:
            assert rules is None
            return
        assert rules.failed == (failing and not file and not gave_up)
        assert allows(rules) == (gave_up or not (failing or file))
        assert rules.decide("http://a.test/").allow == (not rules.failed)

    @invariant()
    def memory_is_bounded(self):
        assert len(self.cache._ready) <= 2
        assert (self.cache._bytes > 0) == (len(self.cache._ready) > 0)


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = examples(150, stateful_step_count=40)


SETTINGS = {"USER_AGENT": "webcrawl/1.0", "ROBOTS_EXPIRE_SECS": DAY}


def test_the_cache_is_built_from_the_settings(store, clock):
    cache = RobotsCache.from_settings(Settings(SETTINGS), store=store, clock=clock)
    assert not allows(cache.put(A, 200, b"User-agent: webcrawl\nDisallow: /x"))
    assert cache.facts(A) == (200, clock.now, clock.now + DAY)
    clock.advance(DAY)
    cache.put(A, 503)
    assert cache.facts(A) == (503, clock.now, clock.now + 600)
