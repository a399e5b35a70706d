"""Commands to a hive: by a stream in its Redis, which is its journal, to all drones.

Each drone carries out the entries in their order and has them in its own journal, with their IDs;
so it knows how far it came. One that comes later, or comes back, takes of what it has missed only
what lasts: what is done once was for the drones of then. If Redis has lost an entry, a drone puts
there again what is in force with it. Answers are in a hash beside the stream, for an hour.

Seeds go to the list of live seeds of the hive, and the end of it is an order to all drones.
"""

from __future__ import annotations

import asyncio
import getpass
import logging
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from webcrawl.clock import now
from webcrawl.configuration.decoding import json_decoder
from webcrawl.control.control import CommandAnswer, Control
from webcrawl.control.table import Seeds, State, Stop, parse
from webcrawl.crawl.job.control_journal import Request, decode_request
from webcrawl.errors import FatalError
from webcrawl.hive.membership.connection import UNREACHABLE, BackOff, client_of, close, no_answer
from webcrawl.hive.membership.keys import Keys, order_of
from webcrawl.hive.membership.membership import Membership

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from webcrawl.hive.bus.live_seeds import SeedSource

_LOOK_EVERY_SECS = 1.0
# Looks between two whether the stream is still there.
_LOOKS = 8
_POLL_SECS = 0.1
_ANSWERS_SECS = 3600
# How long drones may take to answer; Redis, a quarter of it.
_PATIENCE_SECS = 15.0
# Of pairs of an ID and the entry that had it.
_RESTORE = """
for i = 1, #ARGV, 2 do
  if #redis.call('XRANGE', KEYS[1], ARGV[i], ARGV[i]) == 0 then
    redis.call('XADD', KEYS[1], '*', 'entry', ARGV[i + 1])
  end
end
"""
_decode_answer = json_decoder(CommandAnswer)
logger = logging.getLogger(__name__)


class HiveControl:
    """Way of the commands to the hive of *settings* to the *control* of its drone *name*."""

    def __init__(self, settings: BaseSettings, *, name: str, control: Control) -> None:
        self._client: Any = client_of(settings)
        self._keys = Keys(settings["HIVE"])
        self._name = name
        self._control = control
        self._last = "0-0"
        self._taking: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Put in force what the drone has missed. FatalError."""
        try:
            await self._restore()
            await self._look(missed=True)
        except UNREACHABLE as error:
            raise no_answer(error) from error
        self._taking = asyncio.ensure_future(self._keep_looking())

    async def close(self) -> None:
        """Take no more."""
        if self._taking is not None:
            self._taking.cancel()
        await close(self._client)

    async def _keep_looking(self) -> None:
        back_off, looks = BackOff(), 0
        while True:
            await asyncio.sleep(_LOOK_EVERY_SECS)
            looks += 1
            try:
                if looks % _LOOKS == 0:
                    await self._restore()
                await self._look()
                back_off.reset()
            except UNREACHABLE:
                await back_off.wait()

    async def _look(self, *, missed: bool = False) -> None:
        found = await self._client.execute_command("XRANGE", self._keys.control, "-", "+")
        done = max(self._last, self._control.journal.hive or self._last, key=order_of)
        for number, fields in ((number.decode(), fields) for number, fields in found):
            if order_of(number) > order_of(done):
                await self._take(number, fields.get(b"entry", b""), missed=missed)
            self._last = max(self._last, number, key=order_of)

    async def _take(self, number: str, data: bytes, *, missed: bool) -> None:
        try:
            request = decode_request(data)
            command = parse(request.name, request.arguments)
            if isinstance(command, Seeds | Stop) or (missed and not command.lasts):
                return
            answer = await self._control.run(request, hive=number)
        except ValueError as error:  # CommandError, UndecodableError
            answer = CommandAnswer(str(error), refused=True)
            self._control.refused += 1
            logger.warning("Command %s to the hive is refused: %s", number, error)
        key = self._keys.answers(number)
        data = msgspec.json.encode(answer)
        await self._client.execute_command("HSET", key, self._name, data)
        await self._client.execute_command("EXPIRE", key, _ANSWERS_SECS)

    async def _restore(self) -> None:
        kept: list[str | bytes] = []
        for one in self._control.journal.in_force.values():
            again = Request(one.name, one.arguments, one.reason, origin=one.origin)
            kept += [one.hive or "0-1", msgspec.json.encode(again)]
        if kept:
            await self._client.execute_command("EVAL", _RESTORE, 1, self._keys.control, *kept)


async def send_to_hive(
    client: Any, keys: Keys, *, request: Request, source: SeedSource
) -> list[CommandAnswer]:
    """The answers of the drones of a hive that are alive, each with its name; *source* is where its
    live seeds are pushed to. FatalError, one of UNREACHABLE."""
    command = parse(request.name, request.arguments)
    membership = Membership(client=client, keys=keys, drone="", lease_secs=_PATIENCE_SECS)
    beat = await membership.look()
    if not beat.alive:
        raise FatalError(f"No drone of the hive {keys.name} runs.")
    user = f"{getpass.getuser()}@{socket.gethostname()}"
    origin = f"{request.origin or 'scrapy control'}, user {user}"
    entry = msgspec.json.encode(replace(request, origin=origin))
    number = (await client.execute_command("XADD", keys.control, "*", "entry", entry)).decode()
    if isinstance(command, Seeds):
        await client.execute_command(*source.push([line.encode() for line in command.lines]))
        return [CommandAnswer("seeds: pushed to the live seeds of the hive")]
    if isinstance(command, Stop):
        await membership.stop()
        return [CommandAnswer("stop: all drones end with checkpoints")]
    answers: dict[str, CommandAnswer] = {}
    until = now() + _PATIENCE_SECS
    while beat.alive - answers.keys() and now() < until:
        await asyncio.sleep(_POLL_SECS)
        found = await client.execute_command("HGETALL", keys.answers(number))
        for name, data in found.items():
            with suppress(ValueError):
                answers[name.decode()] = _decode_answer(data)
    if isinstance(command, State):
        await client.execute_command("XDEL", keys.control, number)
    late = CommandAnswer(
        "has not answered yet: what lasts is in force when it is back", refused=True
    )
    names = {name: report and report.figures.name for name, report in beat.reports.items()}
    return [
        replace(answers.get(name, late), drone=names.get(name) or name)
        for name in sorted(beat.alive | answers.keys())
    ]
