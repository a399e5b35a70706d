"""The journal of commands to a hive, over losses of its Redis: real drones' controls, no crawl."""

import asyncio
import contextlib
import json
import threading
from types import SimpleNamespace

import msgspec
import pytest
from patience import LIMIT_SECS
from process_rig import close as close_process
from process_rig import process_in
from published_shard import FACTS
from redis.exceptions import RedisError
from redis_server import RedisServer
from text_tables import each

from webcrawl.control import hive as hive_module
from webcrawl.control.control import Control
from webcrawl.control.hive import HiveControl, send_to_hive
from webcrawl.crawl.job.control_journal import Change, Journal, Request, encode, in_force
from webcrawl.errors import UnreachableError
from webcrawl.hive.membership.connection import client_of
from webcrawl.hive.membership.keys import Keys
from webcrawl.hive.membership.membership import Membership
from webcrawl.hive.membership.report import Report
from webcrawl.hive.store.store import CheckpointStore
from webcrawl.storage.numbered import number_of
from webcrawl.storage.object_store import ObjectStore

KEYS = Keys("t")
# A number of the year 2100, and one as webcrawl had it before, by a clock that was right.
NUMBERS = ["4102444800000000", "1795391642000-3"]


async def until(holds):
    async with asyncio.timeout(LIMIT_SECS):
        while not holds():  # noqa: ASYNC110  # of drones that know nothing of the test
            await asyncio.sleep(0.01)


class Hive:
    """The Redis at *server*, and drones by name with directories below *path*."""

    def __init__(self, path, server, clock):
        self._path = path
        self._clock = clock
        self.server = server
        self.store = CheckpointStore(url=str(path / "t.store"))
        self._drones = {}

    async def __aenter__(self):
        self._client = client_of(self._process("none").parts.services.crawler.settings)
        return self

    async def __aexit__(self, *_):
        for name in [*reversed(self._drones)]:  # a signal's handler is given back in this order
            await self.leave(name)
        await self._client.aclose()

    def _process(self, name):
        job = self.job(name)
        redis = {"REDIS_URL": self.server.url, "REDIS_PARAMS": {"socket_timeout": LIMIT_SECS}}
        return process_in(job, clock=self._clock, HIVE="t", **redis)

    def job(self, name):
        return self._path / name

    def has_journal(self, name, **fields):
        """The drone *name* has paused earlier."""
        (self.job(name) / "logs").mkdir(parents=True)
        pause = Change(name="pause", at=1.0, n=1, state_key="pause", origin="a test", **fields)
        (self.job(name) / "logs/control.jsonl").write_bytes(encode(pause) + b"\n")

    async def join(self, name, *, awaits_commands=True):
        process = self._process(name)
        process.parts.services.crawler.engine.scraper = SimpleNamespace(slot=None)
        process.open(awaits_seeds=False, on_merged=lambda: None)
        control = Control(process, command_line="scrapy control")
        await control.open()
        client = client_of(process.parts.services.crawler.settings)
        commands = HiveControl(
            client=client, keys=KEYS, store=self.store, name=name, control=control
        )
        await self.enter(name)
        reading = asyncio.ensure_future(commands.run())
        self._drones[name] = process, control, reading, client
        if awaits_commands:
            await until(lambda: "hive_commands" not in process.pauses.names)

    async def enter(self, name):
        """The drone *name* is alive."""
        membership = Membership(client=self._client, keys=KEYS, drone=name, lease_secs=600)
        await membership.enter(1)
        await membership.beat(Report())

    async def leave(self, name):
        process, control, reading, client = self._drones.pop(name)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await client.aclose()
        control.close()
        close_process(process)
        await self.end_lease(name)

    async def end_lease(self, name):
        await self._client.delete(KEYS.lease(name))

    async def lose(self):
        """Redis has lost all its data; the drones enter it again."""
        await self._client.flushall()
        for name in self._drones:
            await self.enter(name)

    async def send(self, name, **arguments):
        request = Request(name, arguments, origin="a test")
        answers = await send_to_hive(self._client, KEYS, request=request, source=None)
        return [answer.said for answer in answers]

    async def answer_to(self, number, name):
        """What the drone *name* answers to the command *number*."""
        key = KEYS.answers(number)
        async with asyncio.timeout(LIMIT_SECS):
            while True:
                with contextlib.suppress(OSError, RedisError):  # it is starting
                    if answer := await self._client.hget(key, name):
                        return json.loads(answer)["said"]
                await asyncio.sleep(0.01)

    def publish_by(self, name, published):
        """Checkpoints of the drone *name* await *published*, as uploads to the store."""
        self._drones[name][0].checkpoints.on_published = published

    async def entries(self):
        """The commands in Redis, by number."""
        fields = await self._client.hgetall(KEYS.commands)
        return {int(name): json.loads(data) for name, data in fields.items() if name.isdigit()}

    async def set_highest(self, number):
        await self._client.hset(KEYS.commands, "highest", number)

    async def kept_secs(self):
        """For how long Redis keeps the commands."""
        return await self._client.ttl(KEYS.commands)

    async def commands_read(self):
        """How often all commands were read from Redis."""
        calls = await self._client.info("commandstats")
        return calls.get("cmdstat_hgetall", {"calls": 0})["calls"]

    @contextlib.contextmanager
    def hanging_store(self):
        """The store does not answer, like NFS without its server; yields whether a call waits."""
        answers = threading.Event()
        waiting = []

        def hanging(method):
            def call(*arguments, **options):
                waiting.append(method)
                answers.wait()
                return method(*arguments, **options)

            return call

        with pytest.MonkeyPatch.context() as patch:
            for name in ("names", "read", "write"):
                patch.setattr(ObjectStore, name, hanging(getattr(ObjectStore, name)))
            try:
                yield lambda: bool(waiting)
            finally:
                answers.set()

    async def is_stored(self, key):
        """Returns once the store has the last command for *key*."""

        def names():
            return {json.loads(one)["name"] for one in self.store.commands.read({}).values()}

        await until(lambda: key in names())

    async def has(self, name, keys):
        """Returns once the commands with these *keys* are in force in the drone *name*."""
        await until(lambda: [*self._drones[name][1].journal.in_force] == keys)

    def is_excluded(self, name, host, url=""):
        rules = self._drones[name][0].parts.services.rules.hosts
        return rules.exclusion_of(host, url) is not None

    def said_of(self, name):
        return " ".join(self._drones[name][0].pauses.sentences)

    def pauses(self, name):
        return self._drones[name][0].pauses.names

    async def settle(self, *paused):
        """After some looks these drones are *paused*, and nothing is written any more."""

        async def state():
            sizes = [await self._client.memory_usage(key) for key in await self._client.keys()]
            lines = [self.job(name).glob("logs/control.jsonl") for name in self._drones]
            return sum(sizes), [one.stat().st_size for found in lines for one in found]

        def held():
            journals = {name: control.journal for name, (_, control, *_) in self._drones.items()}
            return {name for name, journal in journals.items() if journal.in_force}

        await until(lambda: held() == {*paused})
        states = [None, await state()]
        async with asyncio.timeout(LIMIT_SECS):  # or they write on and on
            while states[-1] != states[-2]:
                await asyncio.sleep(20 * hive_module._READ_EVERY_SECS)  # of each drone
                states.append(await state())
        assert held() == {*paused}


@pytest.fixture
def hive_at(tmp_path, clock, monkeypatch):
    monkeypatch.setattr(hive_module, "_READ_EVERY_SECS", 0.02)
    monkeypatch.setattr(hive_module, "_MAX_RETRY_SECS", 0.05)
    # No test waits until a drone counts as silent, and Redis may be as slow as this machine.
    monkeypatch.setattr(hive_module, "_ANSWER_SECS", LIMIT_SECS)
    CheckpointStore(url=str(tmp_path / "t.store")).enter(FACTS, "")
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(RedisServer(tmp_path / "redis"))
        yield Hive(tmp_path, server, clock)


async def test_what_was_ended_does_not_come_back_with_a_drone_that_was_away(hive_at):
    async with hive_at as hive:
        await hive.join("a")
        await hive.join("b")
        assert await hive.send("pause") == ["pause: in force"] * 2
        await hive.leave("b")
        await hive.send("resume")
        # By the journals of all, too.
        assert not in_force([hive.job("a"), hive.job("b")])
        await hive.lose()
        await hive.settle()
        await hive.join("b")
        await hive.settle()


async def test_a_drone_keeps_the_end_of_what_it_never_had(hive_at):
    async with hive_at as hive:
        hive.has_journal("away", hive="1795391642000000")
        await hive.join("a")
        assert "nothing to end" in (await hive.send("resume"))[0]
        await hive.lose()
        await hive.settle()
        await hive.join("away")
        await hive.settle()


@each("number", *NUMBERS)
async def test_commands_count_in_a_redis_whose_clock_is_behind(hive_at, number):
    async with hive_at as hive:
        for name in "ab":
            hive.has_journal(name, hive=number)
        await hive.join("a")
        await hive.join("b")
        for _ in range(2):
            await hive.settle("a", "b")
            assert await hive.send("resume") == ["resume: in force"] * 2
            await hive.settle()
            assert await hive.send("pause") == ["pause: in force"] * 2
            await hive.lose()
        await hive.join("c")
        await hive.settle("a", "b", "c")


async def test_a_command_to_an_emptied_redis_is_sent_again_with_a_higher_number(hive_at):
    async with hive_at as hive:
        hive.has_journal("a", hive="4102444800000000")
        await hive.join("a")
        sent = None
        for _ in range(3):  # between two looks of the drone, or not
            await hive.lose()
            sent = await hive.send("pause")
            assert sent == ["pause: in force"]
        journal = Journal(hive.job("a"))
        journal.read()
        assert journal.last["pause"].order > 4102444800000000


async def test_commands_in_the_store_reach_drones_that_enter_or_are_without_redis(hive_at):
    async with hive_at as hive:
        await hive.join("a")
        assert await hive.send("pause") == ["pause: in force"]
        await hive.is_stored("pause")
        await hive.leave("a")
        await hive.lose()
        await hive.join("b")
        await hive.settle("b")

        hive.server.kill()
        request = Request("resume", {}, origin="a test")
        hive.store.commands.add("pause", msgspec.json.encode(request))
        await hive.has("b", [])
        hive.server.start()  # it is empty
        await hive.lose()
        await hive.settle()
        assert await hive.send("pause") == ["pause: in force"]  # by a higher number
        await hive.settle("b")


async def test_a_drone_excludes_what_was_purged_elsewhere(hive_at):
    async with hive_at as hive:
        hive.store.commands.add("x", b"purged.test\n", suffix=".txt")
        await hive.join("a")
        assert hive.is_excluded("a", "www.purged.test")
        hive.server.kill()
        hive.store.commands.add("y", b"http://other.test/x\n", suffix=".txt")
        await until(lambda: hive.is_excluded("a", "other.test", "http://other.test/x"))
        assert hive.is_excluded("a", "www.purged.test")
        assert not hive.is_excluded("a", "other.test")
        hive.server.start()


async def test_a_store_that_is_away_pauses_a_drone_that_enters_and_no_other(hive_at, tmp_path):
    async with hive_at as hive:
        await hive.join("a")
        (tmp_path / "t.store").rename(tmp_path / "away")
        assert await hive.send("pause") == ["pause: in force"]
        assert await hive.send("resume") == ["resume: in force"]
        await hive.join("b", awaits_commands=False)
        assert hive.pauses("b") == ["hive_commands"]
        assert hive.pauses("a") == []
        (tmp_path / "away").rename(tmp_path / "t.store")
        await until(lambda: not hive.pauses("b"))
        await hive.is_stored("resume")


async def test_a_store_that_hangs_stops_no_commands_in_redis(hive_at):
    async with hive_at as hive:
        await hive.join("a")
        with hive.hanging_store() as hangs:
            assert await hive.send("pause") == ["pause: in force"]  # so the store is due
            await until(hangs)
            assert await hive.send("resume") == ["resume: in force"]
            await hive.join("b", awaits_commands=False)
            # It answers, although it cannot know yet what it has missed.
            assert len(await hive.send("state")) == 2
            await until(lambda: hive.pauses("b") == ["hive_commands"])
            await until(lambda: "HIVE_STORE has not answered yet" in hive.said_of("b"))
        await until(lambda: not hive.pauses("b"))
        await hive.is_stored("resume")


async def test_a_drone_answers_a_command_that_it_finds_in_the_store_first(hive_at):
    async with hive_at as hive:
        await hive.join("a")
        hive.server.kill()
        entry = msgspec.json.encode(Request("pause", {}, origin="a test"))
        name = hive.store.commands.add("pause", entry)  # by a drone that was faster
        await hive.has("a", ["pause"])
        hive.server.start()
        assert await hive.answer_to(number_of(name), "a") == "pause: in force"


async def test_commands_that_an_older_backup_of_the_store_lacks_are_added_again(hive_at, tmp_path):
    async with hive_at as hive:
        await hive.join("a")
        assert await hive.send("pause") == ["pause: in force"]
        await hive.is_stored("pause")
        for path in (tmp_path / "t.store/commands").iterdir():
            path.unlink()
        hive.server.kill()  # so the store is read soon
        await hive.is_stored("pause")
        hive.server.start()


async def test_a_purge_that_cannot_be_read_is_named_and_holds_up_no_command(hive_at, caplog):
    async with hive_at as hive:
        name = hive.store.commands.add("x", b"\xff\n", suffix=".txt")
        entry = msgspec.json.encode(Request("pause", {}, origin="a test"))
        hive.store.commands.add("pause", entry)
        hive.store.commands.add("y", b"purged.test\n", suffix=".txt")
        await hive.join("a", awaits_commands=False)
        await hive.has("a", ["pause"])
        assert hive.is_excluded("a", "purged.test")
        assert "hive_commands" in hive.pauses("a")
        await until(lambda: f"commands/{name} in HIVE_STORE: " in hive.said_of("a"))
        assert caplog.text.count(name) == 1
        hive.store.commands.objects.delete([f"commands/{name}"])
        hive.server.kill()  # so the store is read soon
        await until(lambda: name not in hive.said_of("a"))
        hive.server.start()
        await until(lambda: "hive_commands" not in hive.pauses("a"))


async def test_a_command_that_all_drones_leave_unanswered_is_not_sent(hive_at):
    async with hive_at as hive:
        await hive.enter("a")
        sending = asyncio.ensure_future(hive.send("pause"))
        await asyncio.sleep(0.3)
        await hive.end_lease("a")
        with pytest.raises(UnreachableError, match="No drone of the hive t is running"):
            await sending


async def test_a_checkpoint_that_waits_for_the_store_delays_no_command(hive_at):
    async with hive_at as hive:
        await hive.join("a")
        uploaded = asyncio.Event()
        hive.publish_by("a", uploaded.wait)
        checkpoint = asyncio.ensure_future(hive.send("checkpoint"))
        await asyncio.sleep(10 * hive_module._READ_EVERY_SECS)
        try:
            assert await hive.send("pause") == ["pause: in force"]
            assert await hive.send("resume") == ["resume: in force"]
            assert not checkpoint.done()
        finally:
            uploaded.set()
        assert await checkpoint == ["checkpoint: made"]


async def test_a_drone_that_has_just_joined_answers_that_it_carries_out_no_earlier_command(hive_at):
    async with hive_at as hive:
        await hive.enter("a")  # it has a lease, and has not looked at Redis
        sending = asyncio.ensure_future(hive.send("checkpoint"))
        while not await hive.entries():  # noqa: ASYNC110  # in Redis
            await asyncio.sleep(0.01)
        await hive.join("a")
        assert await sending == ["Not carried out, because this drone has just joined the hive."]


async def test_redis_keeps_commands_for_an_hour_and_is_read_only_when_there_is_another(
    hive_at,
):
    async with hive_at as hive:
        await hive.join("a")
        for _ in range(3):
            for name in ("exclude", "allow"):
                answers = await hive.send(name, host="a.test")
                assert "in force" in answers[0]
        assert await hive.send("exclude", host="b.test") == ["exclude b.test: in force"]
        await hive.send("state")
        assert 3500 < await hive.kept_secs() <= 3600
        before = await hive.commands_read()
        await asyncio.sleep(20 * hive_module._READ_EVERY_SECS)
        assert await hive.commands_read() <= before + 1
        await hive.join("b")
        assert hive.is_excluded("b", "b.test")
        assert not hive.is_excluded("b", "a.test")


async def test_what_another_drone_overrides_counts_where_it_was_carried_out(hive_at, tmp_path):
    """Of drones whose journals differ, one has ended it with the first number."""
    async with hive_at as hive:
        hive.has_journal("a", hive="1795391642000000")
        hive.has_journal("b", hive="4102444800000000")
        await hive.join("a")
        (tmp_path / "t.store").rename(tmp_path / "away")  # so neither reads what the other had
        await hive.join("b", awaits_commands=False)
        assert await hive.send("resume") == ["resume: in force"] * 2


async def test_the_answer_of_a_drone_counts_that_comes_after_the_command_was_sent_again(
    hive_at, tmp_path
):
    async with hive_at as hive:
        hive.has_journal("a", hive="1795391642000000")
        hive.has_journal("b", hive="4102444800000000")
        (tmp_path / "t.store").rename(tmp_path / "away")  # so neither reads what the other had
        await hive.enter("a")
        await hive.join("b", awaits_commands=False)
        sending = asyncio.ensure_future(hive.send("resume"))
        while len(await hive.entries()) < 2:  # noqa: ASYNC110  # in Redis
            await asyncio.sleep(0.01)
        await hive.join("a", awaits_commands=False)
        assert await sending == ["resume: in force"] * 2


async def test_a_highest_number_that_cannot_be_read_is_left_out(hive_at):
    async with hive_at as hive:
        await hive.set_highest("x")
        await hive.join("a")
        assert await hive.send("pause") == ["pause: in force"]
