"""The journal of commands to a hive, over losses of its Redis: real drones' controls, no crawl."""

import asyncio
import contextlib
from types import SimpleNamespace

import pytest
from process_rig import close as close_process
from process_rig import process_in
from redis_server import RedisServer

from webcrawl.control import hive as hive_module
from webcrawl.control.control import Control
from webcrawl.control.hive import HiveControl, send_to_hive
from webcrawl.crawl.job.control_journal import Change, Journal, Request, encode, in_force
from webcrawl.hive.membership.connection import client_of, close
from webcrawl.hive.membership.keys import Keys
from webcrawl.hive.membership.membership import Membership
from webcrawl.hive.membership.report import Report

KEYS = Keys("t")
# A number of the year 2100, and one as webcrawl had it before, by a clock that was right.
NUMBERS = ["4102444800000000", "1795391642000-3"]


class Hive:
    """The Redis at *server*, and drones by name with directories below *path*."""

    def __init__(self, path, server, clock):
        self._path = path
        self._clock = clock
        self._server = server
        self._drones = {}

    async def __aenter__(self):
        self._client = client_of(self._process("none").parts.services.crawler.settings)
        return self

    async def __aexit__(self, *_):
        for name in [*reversed(self._drones)]:  # a signal's handler is given back in this order
            await self.leave(name)
        await close(self._client)

    def _process(self, name):
        job = self.job(name)
        return process_in(job, clock=self._clock, HIVE="t", REDIS_URL=self._server.url)

    def job(self, name):
        return self._path / name

    def has_journal(self, name, **fields):
        """The drone *name* has paused earlier."""
        (self.job(name) / "logs").mkdir(parents=True)
        pause = Change(name="pause", at=1.0, n=1, state_key="pause", origin="a test", **fields)
        (self.job(name) / "logs/control.jsonl").write_bytes(encode(pause) + b"\n")

    async def join(self, name):
        process = self._process(name)
        process.parts.services.crawler.engine.scraper = SimpleNamespace(slot=None)
        process.open(awaits_seeds=False, on_merged=lambda: None)
        control = Control(process, command_line="scrapy control")
        await control.open()
        settings = process.parts.services.crawler.settings
        of_hive = HiveControl(settings, name=name, control=control, pauses=process.pauses)
        self._drones[name] = process, control, of_hive
        await self._enter(name)
        await of_hive.open()

    async def _enter(self, name):
        membership = Membership(client=self._client, keys=KEYS, drone=name, lease_secs=600)
        await membership.enter(1)
        await membership.beat(Report())

    async def leave(self, name):
        process, control, of_hive = self._drones.pop(name)
        await of_hive.close()
        control.close()
        close_process(process)
        await self._client.delete(KEYS.lease(name))

    async def lose(self):
        """Redis has lost all its data; the drones enter it again."""
        await self._client.flushall()
        for name in self._drones:
            await self._enter(name)

    async def send(self, name):
        request = Request(name, {}, origin="a test")
        answers = await send_to_hive(self._client, KEYS, request=request, source=None)
        return [answer.said for answer in answers]

    async def settle(self, *paused):
        """After some looks these drones are *paused*, and nothing is written any more."""

        async def state():
            sizes = [await self._client.memory_usage(key) for key in await self._client.keys()]
            lines = [self.job(name).glob("logs/control.jsonl") for name in self._drones]
            return sum(sizes), [one.stat().st_size for found in lines for one in found]

        states = [None]
        for _ in range(10):
            await asyncio.sleep(20 * hive_module._READ_EVERY_SECS)  # of each drone
            states.append(await state())
            if states[-1] == states[-2]:
                break
        assert states[-1] == states[-2], "they write on and on"
        held = {name for name, (_, control, _) in self._drones.items() if control.journal.in_force}
        assert held == {*paused}


@pytest.fixture
def hive_at(tmp_path, clock, monkeypatch):
    monkeypatch.setattr(hive_module, "_READ_EVERY_SECS", 0.02)
    monkeypatch.setattr(hive_module, "_ANSWER_SECS", 2.0)
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


@pytest.mark.parametrize("number", NUMBERS)
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


async def test_a_command_to_an_emptied_redis_waits_for_the_drones(hive_at, monkeypatch):
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
