"""The rules of many origins in bounded memory."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from scrapy.settings import Settings

from webcrawl.errors import FatalError
from webcrawl.robots import cache as cache_module
from webcrawl.robots.cache import RobotsCache
from webcrawl.robots.rules import MAX_BYTES

if TYPE_CHECKING:
    from conftest import FakeClock

DAY = 24 * 3600
FORBIDDING = b"User-agent: *\nDisallow: /x\nCrawl-delay: 7\n"


def cache_with(clock: FakeClock, **changes: int) -> RobotsCache:
    values = {"size": 100, "max_bytes": 1 << 20, "expire": DAY, "retry": 600, **changes}
    return RobotsCache(user_agent="webcrawl", clock=clock, **values)


def test_an_unknown_origin_has_no_rules(clock):
    assert cache_with(clock).get("http://a.test:80") is None


def test_rules_are_those_of_their_own_origin(clock):
    cache = cache_with(clock)
    cache.put("http://a.test:80", 200, FORBIDDING)
    cache.put("https://a.test:443", 404, FORBIDDING)
    assert not cache.get("http://a.test:80").allowed("http://a.test/x")
    assert cache.get("http://a.test:80").crawl_delay == 7
    assert cache.get("https://a.test:443").allowed("https://a.test/x")
    assert cache.get("http://a.test:8080") is None
    assert len(cache) == 2


def test_put_returns_the_rules_it_remembers(clock):
    cache = cache_with(clock)
    assert cache.put("http://a.test", 200, FORBIDDING) is cache.get("http://a.test")


def test_rules_are_forgotten_after_a_day(clock):
    cache = cache_with(clock)
    cache.put("http://a.test", 200, FORBIDDING)
    clock.advance(DAY - 1)
    assert cache.get("http://a.test") is not None
    clock.advance(1)
    assert cache.get("http://a.test") is None
    assert (len(cache), cache.size_bytes) == (0, 0)


@pytest.mark.parametrize("status", [429, 503, None])
def test_a_failure_is_forgotten_sooner(clock, status):
    cache = cache_with(clock)
    assert cache.put("http://a.test", status).failed
    clock.advance(599)
    assert not cache.get("http://a.test").allowed("http://a.test/")
    clock.advance(1)
    assert cache.get("http://a.test") is None


def test_a_new_answer_replaces_the_old_one(clock):
    cache = cache_with(clock)
    cache.put("http://a.test", 200, FORBIDDING)
    cache.put("http://a.test", 404)
    assert cache.get("http://a.test").allowed("http://a.test/x")
    assert (len(cache), cache.size_bytes) == (1, 0)


def test_the_origin_unused_for_longest_is_forgotten_first(clock):
    cache = cache_with(clock, size=3)
    for name in "abc":
        cache.put(name, 200, FORBIDDING)
    cache.get("a")
    cache.put("d", 200, FORBIDDING)
    assert [name for name in "abcd" if cache.get(name) is not None] == ["a", "c", "d"]


def test_files_take_no_more_bytes_than_the_bound(clock):
    cache = cache_with(clock, max_bytes=10_000)
    rng = random.Random(1)
    for n in range(50):
        body = b"".join(b"Disallow: /%x\n" % rng.getrandbits(64) for _ in range(100))
        cache.put(f"http://{n}.test", 200, b"User-agent: *\n" + body)
        assert cache.size_bytes <= 10_000
    assert 1 < len(cache) < 50
    assert cache.get("http://49.test") is not None


def test_only_so_much_of_a_file_is_kept_as_is_read(clock):
    cache = cache_with(clock, max_bytes=MAX_BYTES)
    body = b"User-agent: *\n" + random.Random(1).randbytes(2 * MAX_BYTES)
    cache.put("http://a.test", 200, body)
    assert cache.size_bytes <= MAX_BYTES + 1000
    assert cache.get("http://a.test") is not None or len(cache) == 0


def test_rules_are_the_same_when_they_were_packed_meanwhile(clock, monkeypatch):
    monkeypatch.setattr(cache_module, "_PARSED", 2)
    cache = cache_with(clock)
    made = cache.put("http://a.test", 200, FORBIDDING)
    cache.put("http://failed.test", 503)
    for n in range(5):
        cache.put(f"http://{n}.test", 200, FORBIDDING)
    again = cache.get("http://a.test")
    assert again is not made
    assert (again.crawl_delay, again.allowed("http://a.test/x")) == (7, False)
    assert cache.get("http://failed.test").failed


def test_large_files_do_not_stay_parsed(clock, monkeypatch):
    monkeypatch.setattr(cache_module, "_PARSED_BYTES", 1000)
    cache = cache_with(clock)
    large = FORBIDDING + b"# filler\n" * 200
    made = cache.put("http://a.test", 200, large)
    assert cache.get("http://a.test") is not made
    small = cache.put("http://b.test", 200, FORBIDDING)
    assert cache.get("http://b.test") is small


class CacheMachine(RuleBasedStateMachine):
    """The cache against a list of what was put, in order of use."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.cache = RobotsCache(
            user_agent="webcrawl", size=4, max_bytes=1 << 20, expire=100, retry=10,
            clock=lambda: self.now,
        )  # fmt: skip
        self.model: dict[str, tuple[float, int]] = {}

    origins = st.sampled_from("abcdef")

    @rule(origin=origins, status=st.sampled_from([200, 404, 503]))
    def put(self, origin: str, status: int) -> None:
        self.cache.put(origin, status, FORBIDDING)
        self.model.pop(origin, None)
        self.model[origin] = (self.now + (10 if status == 503 else 100), status)
        if len(self.model) > 4:
            del self.model[next(iter(self.model))]

    @rule(origin=origins)
    def get(self, origin: str) -> None:
        found = self.cache.get(origin)
        expires, status = self.model.pop(origin, (self.now, 0))
        if expires <= self.now:
            assert found is None
            return
        self.model[origin] = (expires, status)
        assert found is not None
        assert found.failed == (status == 503)
        assert found.allowed("http://a.test/x") == (status == 404)

    @rule(seconds=st.sampled_from([1, 9, 50]))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @invariant()
    def sizes_are_right(self) -> None:
        assert len(self.cache) == len(self.model)
        files = sum(status == 200 for _, status in self.model.values())
        assert (self.cache.size_bytes > 0) == (files > 0)


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = hypothesis_settings(max_examples=60, stateful_step_count=40)


def test_the_cache_is_built_from_the_settings(clock):
    cache = RobotsCache.from_settings(Settings({"USER_AGENT": "webcrawl/1.0"}))
    assert cache.user_agent == "webcrawl"
    assert cache.put("http://a.test", 404) is cache.get("http://a.test")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ROBOTS_CACHE_SIZE", 0),
        ("ROBOTS_CACHE_BYTES", 1000),
        ("ROBOTS_EXPIRE_SECS", 0),
        ("ROBOTS_RETRY_SECS", "soon"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name(name, value):
    with pytest.raises(FatalError, match=f"^{name} must be"):
        RobotsCache.from_settings(Settings({name: value}))
