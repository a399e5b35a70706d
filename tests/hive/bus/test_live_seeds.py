"""Live seeds from a list in a real Redis: each is submitted, whatever dies."""

import asyncio
import contextlib
import json
from base64 import b64encode
from types import SimpleNamespace

import pytest
from patience import LIMIT_SECS
from redis_server import RedisServer
from scrapy.settings import Settings
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler
from text_tables import cases, each

from webcrawl.control.sending import _live_seeds
from webcrawl.crawl.seeds import BadLine
from webcrawl.errors import FatalError
from webcrawl.frontier import Entry
from webcrawl.hive.bus.live_seeds import LiveSeeds, SeedSource, parse_item, visit_item
from webcrawl.hive.membership.connection import client_of
from webcrawl.revisit.history import History, encode_history

KEY = "web:start_urls"
TAKEN = "{web:start_urls}:taken"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with RedisServer(tmp_path_factory.mktemp("redis") / "r", appendonly=True) as server:
        yield server


class Reader:
    """A process that reads live seeds by *settings*, and what it has submitted."""

    def __init__(self, client, settings):
        self.urls = []
        self.holds = True
        self.stop = SimpleNamespace(is_over=False)
        self.begun = 0
        # It is all of the parts that the reader needs.
        self.intake = self.checkpoints = self
        self.stats = MemoryStatsCollector(get_crawler())
        source = SeedSource.from_settings(settings, "web")
        self.seeds = LiveSeeds(client=client, source=source, process=self, stats=self.stats)
        self.seeds.poll_secs = 0.01
        self._task = None

    def submit_seeds(self, seeds):
        self.urls += [seed.url for seed in seeds]

    def enqueue(self, request):
        self.urls.append(request.url)

    def may_read_seeds(self):
        return self.holds

    def start(self):
        self.begun += 1

    async def __aenter__(self):
        self.seeds.begin()
        self._task = asyncio.create_task(self.seeds.run())
        return self

    async def __aexit__(self, *_):
        self._task.cancel()
        await asyncio.wait([self._task])

    async def published(self, times=1):
        for _ in range(times):
            await self.seeds.delete_published()

    async def gets(self, number):
        """Push one more URL and wait until it is submitted."""
        with self.server.client() as client:
            client.lpush(KEY, *urls(number))
        await self.until(len(self.urls) + 1)

    async def until(self, count):
        async with asyncio.timeout(LIMIT_SECS):
            while len(self.urls) < count or not self.seeds.is_idle:  # noqa: ASYNC110  # by its polls
                await asyncio.sleep(0.01)


@pytest.fixture
def reader(server):
    with server.client() as client:
        client.flushall()

    @contextlib.asynccontextmanager
    async def made(**more):
        settings = Settings({"REDIS_URL": server.url, "REDIS_START_URLS_KEY": KEY, **more})
        client = client_of(settings)
        try:
            async with Reader(client, settings) as reader:
                reader.server = server
                yield reader
        finally:
            await client.aclose()

    return made


def push(server, *items):
    with server.client() as client:
        client.lpush(KEY, *items)


def left(server):
    """How many items are in the list, and batches beside it."""
    with server.client() as client:
        return client.llen(KEY), client.hlen(TAKEN)


def urls(*numbers):
    return [f"https://site{number}.test/" for number in numbers]


@pytest.mark.cures("{} live seeds are waiting: let the hive run, then push the rest.")
async def test_commands_push_no_more_than_a_hive_reads_soon(server, reader, tmp_path, monkeypatch):
    monkeypatch.setattr("webcrawl.control.sending._MAX_LIVE_SEEDS", 3)
    given = {"REDIS_URL": server.url, "REDIS_START_URLS_KEY": KEY, "JOBDIR": str(tmp_path)}

    def push_some(*items):
        with _live_seeds(Settings(given)) as push_items:
            push_items([item.encode() for item in items])

    with pytest.raises(FatalError, match="4 live seeds are waiting: let the hive run"):
        await asyncio.to_thread(push_some, *urls(*range(4)))
    async with reader() as one:
        await one.until(4)
        await asyncio.to_thread(push_some, *urls(4, 5, 6))
        await one.until(7)
        assert sorted(one.urls) == urls(*range(7))


async def test_what_is_pushed_is_submitted(server, reader):
    push(server, *urls(*range(1_200)))
    async with reader() as one:
        await one.until(1_200)
        assert sorted(one.urls) == sorted(urls(*range(1_200)))
        push(server, "later.test", json.dumps({"url": "https://json.test/a", "meta": {"data": 1}}))
        await one.until(1_202)
        assert set(one.urls[1_200:]) == {"http://later.test/", "https://json.test/a"}
    assert one.stats.get_value("seeds/live") == 1_202


async def test_seeds_are_kept_until_a_checkpoint_that_surely_has_them(server, reader):
    async with reader() as one:
        await one.gets(1)
        assert left(server) == (0, 1)
        # It may have been begun before.
        await one.published()
        assert left(server) == (0, 1)
        await one.gets(2)
        await one.published()
        assert left(server) == (0, 1)
        await one.published()
        assert left(server) == (0, 0)


async def test_the_next_holder_submits_what_no_checkpoint_has(server, reader):
    async with reader() as one:
        await one.gets(1)
        await one.published()
        await one.gets(2)
        await one.published()
    async with reader() as other:
        await other.until(1)
        assert other.urls == urls(2)
        await other.published(2)
    assert left(server) == (0, 0)


async def test_without_shard_0_nothing_is_taken(server, reader):
    async with reader() as one:
        await one.until(0)
        one.holds = False
        push(server, *urls(1))
        await asyncio.sleep(0.1)
        assert (one.urls, left(server)) == ([], (1, 0))
        one.holds = True
        one.seeds.begin()
        await one.until(1)


async def test_redis_may_go_away_and_come_back(server, reader, caplog):
    async with reader() as one:
        await one.gets(1)
        server.kill()
        await one.published(2)
        while "cannot be read" not in caplog.text:  # noqa: ASYNC110  # the log
            await asyncio.sleep(0.01)
        server.start()
        await one.gets(2)
        assert sorted(set(one.urls)) == urls(1, 2)
        await one.published(3)
    assert left(server) == (0, 0)
    assert caplog.text.count("Live seeds of web:start_urls cannot be read") == 1


async def test_what_is_no_seed_is_named_and_counted(server, reader, caplog):
    push(server, b"\xff", "{}", "{", "mailto:a@b.test", "x" * 70_000, *urls(1), "", "# a comment")
    async with reader() as one:
        await one.until(1)
    assert one.stats.get_value("seeds/live_bad") == 5
    assert "web:start_urls: not a valid JSON object with a url" in caplog.text
    assert "longer than 65536 bytes" in caplog.text


async def test_a_key_that_is_no_list_is_named(server, reader, caplog):
    with server.client() as client:
        client.sadd(KEY, *urls(1))
    async with reader():
        async with asyncio.timeout(LIMIT_SECS):
            while "cannot be read" not in caplog.text:  # noqa: ASYNC110  # the log
                await asyncio.sleep(0.01)
    assert "WRONGTYPE" in caplog.text


@cases(
    "item url rank",
    """
        b"a.test"                                 | http://a.test/ | 1
        b"17,a.test"                              | http://a.test/ | 17
        b' {"url": "a.test", "rank": 5}'          | http://a.test/ | 5
        b'{"url": "3,a.test"}'                    | http://a.test/ | 3
        b'{"url": "a.test", "rank": 99999999999}' | http://a.test/ | 0xFFFF_FFFF
        b'{"url": "7,a.test", "meta": {}}'        | http://a.test/ | 7
    """,
)
def test_an_item_is_a_line_or_json(item, url, rank):
    (seed,) = parse_item(item)
    assert (seed.url, seed.rank) == (url, rank)


@cases(
    "more method url body meta",
    """
        {"meta": {"data": {"job": 7}}} | GET | https://a.test/?b=1 | b"" | {"data": {"job": 7}}
        {"meta": {"dont_redirect": True, "handle_httpstatus_list": [404], "depth": 0}}
        | GET | https://a.test/?b=1 | b""
        | {"dont_redirect": True, "handle_httpstatus_list": [404], "depth": 0}
        {"page": "2"} | GET | https://a.test/?page=2 | b"" | {}
        {"method": "post", "page": "2", "rank": 9} | POST | https://a.test/?b=1 | b"page=2" | {}
    """,
)
def test_an_item_with_more_is_a_request_as_scrapy_redis_makes_it(more, method, url, body, meta):
    (request,) = parse_item(json.dumps({"url": "https://a.test/?b=1", **more}).encode())
    assert (request.method, request.url, request.body) == (method, url, body)
    assert (request.meta, request.dont_filter) == (meta, False)


@cases(
    "item why",
    r"""
        b'{"urls": []}'                    | not a valid JSON object with a url: .* `url`
        b'{"url": "https://a.test/", "meta": [1]}'  | not a valid JSON object .*`\$\.meta`
        b'{"url": "https://a.test/", "meta": null}' | not a valid JSON object .*`\$\.meta`
        b'{"url": "https://a.test/", "page": 2}'    | form data must be text: .* got `int`
        b'{"url": "a.test", "page": "2"}'
        | not a valid request: this crawler cannot fetch its URL
        b'{"url": "file:///etc/passwd", "page": "2"}' | not a valid request: this crawler
        b'{"url": "https://a.test/", "method": "GET / HTTP/1.1"}' | url: .*`\$\.method`
        b'{"url": "https://a.test/", "method": 1}'    | url: Expected `str`, got `int`
        b'{"url": "https://a.test/", "rank": "x"}'    | url: Expected `int \| null`
        b'{"url": "https://a.test/", "meta": {"depth": "x"}}' | Expected `int`.*\.meta\.depth`
        b'{"url": "https://a.test/", "meta": {"depth": 1000000000000000000000000000000}}'
        | \.meta\.depth`
        b'{"url": "https://a.test/\xff"}' | not a valid JSON object with a url: 'utf-8' codec
        DEEP                              | url: (maximum recursion|Stack overflow)
        b'{"url": "https://a.test/", "meta": {"dont_retry": 1}}' | `bool`.*\.meta\.dont_retry`
    """,
    {"DEEP": b'{"url": "https://a.test/", "meta": {"data": ' + b"[" * 60_000},
)
def test_an_item_that_is_no_request_is_refused_with_the_reason(item, why):
    with pytest.raises(BadLine, match=why):
        parse_item(item)


# The example of scrapy-redis' README, section Features.
README = (
    '{"url": "https://exaple.com", "meta": {"job-id":"123xsd", "start-date":"dd/mm/yy"}, '
    '"url_cookie_key":"fertxsas" }'
)


@cases(
    "item url named",
    """
        README        | https://exaple.com/?url_cookie_key=fertxsas | job-id, start-date
        proxy         | https://a.test/                             | proxy
        bindaddress   | https://a.test/                             | bindaddress
        fetch         | https://a.test/                             | fetch
        large_body    | https://a.test/                             | large_body
        download_slot | https://a.test/                             | download_slot
        LONG          | https://a.test/                             | CUT
    """,
    {"README": README, "LONG": "x" * 60_000, "CUT": "x" * 80},
)
def test_meta_keys_that_are_not_allowed_are_left_out_and_named(item, url, named, caplog):
    if item != README:
        item = f'{{"url": "https://a.test/", "meta": {{"{item}": 1}}}}'
    (one,) = parse_item(item.encode())
    assert one.url == url
    assert not getattr(one, "meta", None)
    (message,) = caplog.messages
    assert message.endswith(f"that are not allowed: {named}")


def test_meta_keys_that_are_allowed_stay_beside_those_that_are_not(caplog):
    item = {"url": "https://a.test/", "meta": {"mine": 1, "data": {"proxy": "x"}, "depth": 2}}
    (request,) = parse_item(json.dumps(item).encode())
    assert request.meta == {"data": {"proxy": "x"}, "depth": 2}
    assert "mine" in caplog.text


@each("kind", "SET", "ZSET")
async def test_seeds_come_from_a_set_or_sorted_set_too(server, reader, kind):
    with server.client() as client:
        if kind == "SET":
            client.sadd(KEY, *urls(*range(20)))
        else:
            client.zadd(KEY, {f"https://site{number}.test/": number for number in range(20)})
    more = {f"REDIS_START_URLS_AS_{kind}": True, "REDIS_START_URLS_BATCH_SIZE": 7}
    async with reader(**more) as one:
        await one.until(20)
        assert sorted(one.urls) == sorted(urls(*range(20)))
        if kind == "ZSET":
            assert one.urls == urls(*reversed(range(20)))
        with server.client() as client:
            assert (client.exists(KEY), client.hlen(TAKEN)) == (0, 3)


async def test_the_last_checkpoint_of_a_crawl_has_all_seeds(server, reader):
    async with reader() as one:
        await one.gets(1)
        one.stop.is_over, one.holds = True, False
        await one.published()
    assert left(server) == (0, 0)


async def test_with_many_batches_in_no_checkpoint_one_is_begun(server, reader):
    push(server, *urls(*range(100_001)))
    async with reader(REDIS_START_URLS_BATCH_SIZE=10_000) as one:
        async with asyncio.timeout(LIMIT_SECS):
            while not one.begun:  # noqa: ASYNC110  # by its polls
                await asyncio.sleep(0.01)
        assert (len(one.urls), left(server)) == (100_000, (1, 10))
        await one.published(2)
        await one.until(100_001)


def source_of(**settings):
    given = {"REDIS_START_URLS_KEY": "%(name)s:start_urls", **settings}
    return SeedSource.from_settings(Settings(given), "web")


HISTORY = encode_history(History(stored_at=5.0, content=1 << 63, etag='W/"x"'))


def test_an_item_is_a_visit_of_what_was_finished_before():
    entry = Entry("http://a.test/x", "", 3, via="http://b.test/", kind="sitemap", history=HISTORY)
    assert parse_item(visit_item(entry)) == [entry]


@cases(
    "visit why",
    """
        {}                         | missing required field `history`
        {"history": ""}            | Expected `bytes` of length >= 1
        LONG                       | Expected `bytes` of length <= 512
        {"history": "eA=="}        | "not a valid visit: "
        {"kind": "robots"}         | not a valid visit: its kind is not that of a link
        {"kind": "request"}        | not a valid visit: its kind is not that of a link
        {"url": "http://b.test/"}  | unknown field `url`
    """,
    {"LONG": {"history": "eHh4" * 171}},
)
def test_a_visit_that_cannot_be_is_refused_with_the_reason(visit, why):
    if visit and "history" not in visit:
        visit = {"history": b64encode(HISTORY).decode(), **visit}
    with pytest.raises(BadLine) as error:
        parse_item(json.dumps({"url": "http://a.test/", "meta": {"visit": visit}}).encode())
    assert why in str(error.value)


def test_the_list_is_named_as_in_scrapy_redis():
    assert source_of().key == KEY
    assert source_of(REDIS_START_URLS_KEY="mine").key == "mine"


@cases(
    "settings sentence",
    """
        {"REDIS_START_URLS_KEY": "%(spider)s"} | REDIS_START_URLS_KEY must be a key
        {"REDIS_START_URLS_AS_SET": True, "REDIS_START_URLS_AS_ZSET": True}
        | Only one of REDIS_START_URLS_AS_SET and REDIS_START_URLS_AS_ZSET
        {"REDIS_START_URLS_BATCH_SIZE": 0} | must be a whole number of at least 1
        {"REDIS_START_URLS_BATCH_SIZE": 10_001} | must be at most 10000, not 10001
    """,
)
def test_a_setting_of_live_seeds_that_cannot_be_is_refused(settings, sentence):
    with pytest.raises(FatalError, match=sentence):
        source_of(**settings)
