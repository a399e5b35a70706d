"""Pages of one drone get what hosts of another one have: by the real bus, with answers of tests."""

import asyncio
import contextlib
import itertools
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from bus_rig import BusDrone
from patience import LIMIT_SECS
from records_rig import PatientExecutor, opened
from redis_server import RedisServer
from s3_server import s3_environment, s3_server
from scrapy.settings import Settings
from text_tables import each

from webcrawl.crawl.links.url_rules import redirect_filters_of
from webcrawl.crawl.shard.shards import Shards
from webcrawl.frontier import Entry
from webcrawl.hive.adoption import receive_subresource
from webcrawl.hive.bus.large_bodies import LargeBodies
from webcrawl.hive.bus.splitter import HostSplitter
from webcrawl.hive.membership.keys import Keys
from webcrawl.hive.store.store import CheckpointStore
from webcrawl.net.guard import PRIVATE_ADDRESS
from webcrawl.render.builder import SubresourceRequests
from webcrawl.render.engine import Answer, Subresource
from webcrawl.render.passes import Passes
from webcrawl.render.store import FILE, RenderStore, stored_answers
from webcrawl.urls import host_of

NAMES = itertools.count()
FRESH = [("cache-control", "max-age=600")]
STALE = [("cache-control", "no-cache")]


def hosts(number):
    """Hosts of shard *number* of two."""
    number_of = Shards(number=2).number_of
    return (host for n in itertools.count() if number_of(host := f"site{n}.test") == number)


PAGES = [f"http://{host}/" for host in itertools.islice(hosts(0), 2)]
SCRIPT = f"http://{next(hosts(1))}/app.js"


async def until(is_so):
    async with asyncio.timeout(LIMIT_SECS):
        while not is_so():  # noqa: ASYNC110  # many events can end it
            await asyncio.sleep(0.01)


class Renderer:
    """The pages of *drone*, which holds one shard of two, and what they ask of hosts."""

    def __init__(self, drone, path, url):
        [(number, _)] = drone.shards.items()
        self.number = number
        self.entries = []
        self.counted = []
        self.tasks = []
        settings = Settings()
        settings.setmodule("webcrawl.settings")
        path.mkdir()
        self.records = opened(path / "hosts", PatientExecutor())
        self.shards = Shards(number=2)
        self.hold(number)
        self.bodies = LargeBodies(CheckpointStore(url=url), keep_secs=100.0, run=self.run)
        self.splitter = HostSplitter(
            self.shards, outboxes=drone.outboxes, cache=drone.cache, bodies=self.bodies
        )
        self.requests = SubresourceRequests(
            filters=redirect_filters_of(settings, schemes=frozenset({"http"})),
            rules=SimpleNamespace(key_of=host_of),
            shards=self.shards,
        )
        self.passes = Passes(
            store=RenderStore(path=path / "rendering"),
            workers=[SimpleNamespace(start=lambda: "", stop=lambda: None)],
            answer_of=lambda data: Answer(200, [], data),
            submit=self.requests.submit,
            on_end=self.requests.end,
            audience_of=lambda url, page: "",
            verdicts=None,
            wait_secs=100.0,
            clock=lambda: 1_000.0,
            count=self.counted.append,
            shard_of=lambda url: self.shards.number_of(host_of(url)),
            tell=self.splitter.tell,
        )
        self.requests.ask = self.passes.ask
        self.passes.open(forgets=True, take_up=lambda url, key: True)
        for inbox in drone.inboxes.values():
            inbox.on_subresource = partial(receive_subresource, self.passes, self.bodies)

    def hold(self, number):
        frontier = SimpleNamespace(
            contacts=SimpleNamespace(), requeue=lambda entry, ahead: self.entries.append(entry)
        )
        ranks = SimpleNamespace(rank=lambda host: 0)
        hosts = SimpleNamespace(records=self.records)
        self.shards.add(SimpleNamespace(number=number, frontier=frontier, hosts=hosts, ranks=ranks))

    def run(self, coroutine):
        self.tasks.append(asyncio.ensure_future(coroutine))

    def keep(self, url, *needs, place=""):
        """A page, which a pass finds to need *needs*."""
        self.passes.keep(Entry(url, host_of(url)), b"<p>as fetched", 0, place)
        self.passes._need(url, self.passes._pages[url], [wanted(need) for need in needs])

    def end(self, outcome, answer, number=-1):
        """The request of an entry ends."""
        entry = self.entries[number]
        self.passes.end_subresource(entry.request, entry.via, outcome, answer, was_sent=True)

    def waits(self, url):
        return bool(self.passes._pages[url].pending)

    def finds(self, url, need=SCRIPT):
        """What an engine finds in a pass over the page *url*."""
        return stored_answers(str(self.passes.store.path / FILE))(url)(wanted(need))

    def requested(self, url):
        """How many requests count for the domain of the page *url*."""
        return self.records.domains.find(host_of(url)).requested

    async def close(self):
        await asyncio.gather(*self.tasks)
        self.passes.close()
        self.records._executor.run()
        self.records.close()


def wanted(url):
    return Subresource(url, "script", fields=(("accept", "*/*"),))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with RedisServer(tmp_path_factory.mktemp("redis") / "r", appendonly=True) as server:
        yield server


@pytest.fixture
def hive(tmp_path, server):
    """Return a function that starts two drones: a has the pages, b the script. The directory
    "store" is HIVE_STORE, or its parent is that of a bucket."""

    @contextlib.asynccontextmanager
    async def made(url=str(tmp_path / "store")):
        keys = Keys(f"sub{next(NAMES)}")
        drones = [
            BusDrone(tmp_path / f"bus{number}", url=server.url, keys=keys, held=[number], shards=2)
            for number in range(2)
        ]
        for number, drone in enumerate(drones):
            (tmp_path / f"bus{number}").mkdir()
            await drone.start()
            await drone.beat()
        renderers = [
            Renderer(drone, tmp_path / f"renderer{number}", url)
            for number, drone in enumerate(drones)
        ]
        try:
            yield renderers
            assert [drone.failures for drone in drones] == [[], []]
        finally:
            for renderer in renderers:
                await renderer.close()
            for drone in drones:
                await drone.kill()

    return made


def run(main):
    asyncio.run(main())


@pytest.fixture
def s3(tmp_path, monkeypatch):
    """A server of a bucket in *tmp_path*."""
    (tmp_path / "store").mkdir()
    with s3_server(tmp_path) as server:
        for name, value in s3_environment(server.server_port).items():
            monkeypatch.setenv(name, value)
        yield


def bodies_in(path):
    return [one for one in path.rglob("bodies/*") if one.is_file()]


@pytest.mark.usefixtures("s3")
@each("size url", (10, "s3://store/hive"), (5_000_000, "s3://store/hive"), (100_000, None))
def test_an_answer_comes_back_in_a_message_or_through_the_store(hive, tmp_path, size, url):
    """Which is empty afterwards, and Redis never has more than a name."""

    async def main():
        async with hive(url or str(tmp_path / "store")) as (a, b):
            a.keep(PAGES[0], SCRIPT)
            await until(lambda: b.entries)
            assert (b.entries[0].url, b.entries[0].via) == (SCRIPT, PAGES[0])
            b.end("http_200", Answer(200, FRESH, b"x" * size, "public"))
            await until(lambda: not a.waits(PAGES[0]))
            assert a.finds(PAGES[0]).body == b"x" * size
            assert (a.entries, a.requested(PAGES[0]), a.requests.sent) == ([], 1, 1)
            assert b.requests.sent == 0
            was_stored = any(tmp_path.rglob("bodies"))
            assert (was_stored, bodies_in(tmp_path)) == (size > 1 << 16, [])

    run(main)


@each("damage", Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-1]))
def test_an_answer_that_the_store_has_lost_is_asked_for_again(hive, tmp_path, damage):
    async def main():
        async with hive() as (a, b):
            a.keep(PAGES[0], SCRIPT)
            await until(lambda: b.entries)
            async with contextlib.AsyncExitStack() as stack:
                for _ in range(2):  # a reads nothing meanwhile
                    await stack.enter_async_context(a.bodies._transfers)
                b.end("http_200", Answer(200, FRESH, b"x" * 100_000))
                await until(lambda: not b.splitter.stats()["hive/outbox/unsent"] and a.tasks)
                damage(*bodies_in(tmp_path))
            await until(lambda: not a.waits(PAGES[0]))
            assert a.finds(PAGES[0]).body == b"x" * 100_000
            assert (len(b.entries), bodies_in(tmp_path)) == (1, [])

    run(main)


def test_answers_wait_for_a_slow_store_in_bounded_memory(hive):
    async def main():
        async with hive() as (a, _):
            async with contextlib.AsyncExitStack() as stack:
                for _ in range(2):
                    await stack.enter_async_context(a.bodies._transfers)
                names = []
                for _ in range(20):
                    a.bodies.put(bytes(5_000_000), names.append)
                assert len(a.tasks) == (64 << 20) // 5_000_000
            await asyncio.gather(*a.tasks)
            assert len(names) == len(a.tasks)
            a.bodies.put(b"x", names.append)
            await asyncio.gather(*a.tasks)
            assert len(names) == len(a.tasks)

    run(main)


def test_a_page_is_rendered_without_what_is_too_large(hive, tmp_path):
    async def main():
        async with hive() as (a, b):
            a.keep(PAGES[0], SCRIPT)
            await until(lambda: b.entries)
            b.end("http_200", Answer(200, FRESH, bytes(5_000_001)))
            await until(lambda: not a.waits(PAGES[0]))
            assert a.finds(PAGES[0]) == "body_lost"

    run(main)


@each("outcome", "robots_denied", PRIVATE_ADDRESS)
def test_a_refusal_comes_back_with_its_reason(hive, outcome):
    async def main():
        async with hive() as (a, b):
            a.keep(PAGES[0], SCRIPT, place="public")
            await until(lambda: b.entries)
            assert b.passes.store.place_of(PAGES[0]) == "public"
            entry = b.entries[0]
            b.passes.end_subresource(entry.request, entry.via, outcome, None)
            await until(lambda: not a.waits(PAGES[0]))
            assert a.finds(PAGES[0]) == outcome
            assert a.requested(PAGES[0]) == 0  # nothing was sent

    run(main)


def test_pages_of_two_domains_share_a_request(hive):
    async def main():
        async with hive() as (a, b):
            for page in PAGES:
                a.keep(page, SCRIPT)
            await until(lambda: len(b.entries) == 2)  # the first in turn gets the answer for both
            assert len({entry.request for entry in b.entries}) == 1
            b.end("http_200", Answer(200, FRESH, b"x"))
            await until(lambda: not any(map(a.waits, PAGES)))
            assert {a.finds(page).body for page in PAGES} == {b"x"}

    run(main)


def test_an_answer_for_one_page_is_not_shared(hive):
    async def main():
        async with hive() as (a, b):
            for page in PAGES:
                a.keep(page, SCRIPT)
            await until(lambda: len(b.entries) == 2)
            b.end("http_200", Answer(200, [("cache-control", "private")], b"for the second"))
            await until(lambda: not a.waits(PAGES[1]))
            assert a.waits(PAGES[0])
            b.end("http_200", Answer(200, [("cache-control", "private")], b"for the first"), 0)
            await until(lambda: not a.waits(PAGES[0]))
            assert [a.finds(page).body for page in PAGES] == [b"for the first", b"for the second"]

    run(main)


def test_what_is_asked_for_again_is_requested_once(hive):
    """Also an answer that was never fresh is given again to the same page, and to no other."""

    async def main():
        async with hive() as (a, b):
            a.keep(PAGES[0], SCRIPT)
            await until(lambda: b.entries)
            a.passes.resume({1})
            a.keep(PAGES[1], SCRIPT)
            await until(lambda: len(b.entries) == 2)
            assert b.entries[0].request == b.entries[1].request
            b.end("http_200", Answer(200, STALE, b"x"))
            await until(lambda: not any(map(a.waits, PAGES)))
            before = len(b.entries)
            # As after its first answer was lost with a process that had the page.
            a.passes._delete(PAGES[0])
            a.passes.store._rows("DELETE FROM requests")
            a.keep(PAGES[0], SCRIPT)
            await until(lambda: not a.waits(PAGES[0]))
            assert (a.finds(PAGES[0]).body, len(b.entries)) == (b"x", before)

    run(main)


def test_a_page_that_was_fetched_again_gets_a_new_answer(hive):
    async def main():
        async with hive() as (a, b):
            for since, body in ((1_000.0, b"old"), (2_000.0, b"new")):
                a.passes._clock = lambda since=since: since
                a.keep(PAGES[0], SCRIPT)
                await until(lambda: b.entries)
                b.end("http_200", Answer(200, STALE, body))
                await until(lambda: not a.waits(PAGES[0]))
                assert a.finds(PAGES[0]).body == body
                b.entries.clear()

    run(main)


def test_what_a_lost_shard_owed_is_asked_of_its_next_holder(hive):
    async def main():
        async with hive() as (a, b):
            a.keep(PAGES[0], SCRIPT)
            await until(lambda: b.entries)
            lost = b.entries[0].request
            b.passes.forget_shard(1)
            assert b.passes.store.pending_request(lost) is None
            # It comes back to the same process, as another lease.
            b.entries.clear()
            a.passes.resume({0})
            a.passes.resume({1})
            await until(lambda: b.entries)
            b.end("http_200", Answer(200, FRESH, b"x"))
            await until(lambda: not a.waits(PAGES[0]))
            assert a.requested(PAGES[0]) == 1

    run(main)


def test_a_shard_that_comes_to_its_asker_is_asked_here(hive):
    async def main():
        async with hive() as (a, b):
            a.keep(PAGES[0], SCRIPT)
            await until(lambda: b.entries)
            a.hold(1)
            a.passes.resume({1})
            assert [(entry.url, entry.via) for entry in a.entries] == [(SCRIPT, PAGES[0])]
            a.end("http_200", Answer(200, FRESH, b"here"))
            assert not a.waits(PAGES[0])
            b.end("http_200", Answer(200, FRESH, b"late"))  # nothing waits for it
            await until(lambda: not b.splitter.stats()["hive/outbox/unsent"])
            assert a.finds(PAGES[0]).body == b"here"

    run(main)


def test_pages_go_with_their_shard_and_may_come_back(hive):
    async def main():
        async with hive() as (a, b):
            a.keep(PAGES[0], SCRIPT)
            await until(lambda: b.entries)
            a.passes.forget_shard(0)
            assert not a.passes.has_pages
            assert a.passes.store.pending() == []
            a.keep(PAGES[0], SCRIPT)
            b.end("http_200", Answer(200, FRESH, b"x"))
            await until(lambda: not a.waits(PAGES[0]))
            assert a.finds(PAGES[0]).body == b"x"
            assert len({entry.request for entry in b.entries}) == 1

    run(main)


def test_guests_are_forgotten_when_their_page_waits_no_more(hive):
    async def main():
        async with hive() as (a, b):
            a.keep(PAGES[0], SCRIPT)
            await until(lambda: b.entries)
            b.passes._clock = lambda: 1_100.0
            b.passes.work()
            assert b.passes.store.pending_request(b.entries[0].request) is None

    run(main)


def test_forged_content_is_counted(hive):
    async def main():
        async with hive() as (a, b):
            a.splitter.tell(PAGES[0], SCRIPT, b"\xc1")
            await until(lambda: b.counted)
            assert b.counted == ["render/unreadable"]
            assert not b.entries

    run(main)
