"""Commands to a hive, sent through a journal in its Redis that all drones read.

The journal is a Redis hash of the commands by number. Each number is larger than all earlier ones:
it is the time in microseconds, or one more than the highest number. Each drone carries out the
commands in the order of their numbers and writes them to its own journal. A drone that joins later,
or returns, carries out only the lasting commands among those it missed: one-time commands were
meant for the drones that were running then.

Of several commands that change the same thing, the one with the highest number counts, even if it
ends the change. Drones remember it, and restore it under its number if Redis has lost it. So a
drone that was away cannot bring back a change that was ended. An emptied Redis assigns no numbers
until a drone has restored the highest one, because its clock may be behind. Answers are kept in
separate hashes for an hour.

``seeds`` pushes to the hive's list of live seeds, and ``stop`` tells all drones to stop.
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
from webcrawl.control.table import Seeds, Stop, parse
from webcrawl.crawl.job.control_journal import Request, decode_request
from webcrawl.errors import FatalError
from webcrawl.hive.membership.connection import (
    UNREACHABLE,
    BackOff,
    client_of,
    close,
    is_cancelled,
)
from webcrawl.hive.membership.keys import Keys
from webcrawl.hive.membership.membership import Membership

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.settings import BaseSettings

    from webcrawl.hive.bus.live_seeds import SeedSource
    from webcrawl.hosts.politeness.pauses import Pauses

_PAUSE = "hive_commands"
_READ_EVERY_SECS = 1.0
_POLL_SECS = 0.1
_ANSWERS_SECS = 3600
# How long to wait for answers of drones; Redis must answer within a quarter of this.
_ANSWER_SECS = 15.0
# Appends an entry and returns its number; nil while the highest number is not known.
_APPEND = """
local highest = tonumber(redis.call('HGET', KEYS[1], 'highest') or '')
if not highest then
  return false
end
local time = redis.call('TIME')
local number = string.format('%.0f', math.max(highest + 1, time[1] * 1000000 + time[2]))
redis.call('HSET', KEYS[1], 'highest', number, number, ARGV[1])
return number
"""
# Restores lost entries. Arguments: the highest number, then pairs of a number and its entry.
_RESTORE = """
local highest = tonumber(redis.call('HGET', KEYS[1], 'highest') or '') or 0
redis.call('HSET', KEYS[1], 'highest', string.format('%.0f', math.max(highest, ARGV[1])))
for i = 2, #ARGV, 2 do
  redis.call('HSETNX', KEYS[1], ARGV[i], ARGV[i + 1])
end
"""
_MAX_DIGITS = 16
_OVERRIDDEN = CommandAnswer("A later command overrides this one: send it again.", refused=True)
_decode_answer = json_decoder(CommandAnswer)
logger = logging.getLogger(__name__)


class HiveControl:
    """Reads the commands to a hive, and passes them to the *control* of its drone *name*."""

    def __init__(
        self, settings: BaseSettings, *, name: str, control: Control, pauses: Pauses
    ) -> None:
        self._client: Any = client_of(settings)
        self._keys = Keys(settings["HIVE"])
        self._name = name
        self._control = control
        self._pauses = pauses
        # Numbers of the journal's entries that were handled.
        self._handled: set[int] = set()
        self._reading: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Apply the lasting commands that the drone has missed, and start reading new ones.

        While Redis is away, the crawl is paused.
        """
        try:
            await self._read_commands(missed=True)
        except UNREACHABLE:
            self._pauses.hold(_PAUSE, "Commands to the hive cannot be read from Redis.")
        self._reading = asyncio.ensure_future(self._keep_reading())

    async def close(self) -> None:
        """Stop reading commands."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        await close(self._client)

    async def _keep_reading(self) -> None:
        """Read new commands every second until cancelled."""
        back_off = BackOff()
        while not is_cancelled():
            await asyncio.sleep(_READ_EVERY_SECS)
            try:
                await self._read_commands(missed=_PAUSE in self._pauses.names)
                self._pauses.lift(_PAUSE)
                back_off.reset()
            except UNREACHABLE:
                await back_off.wait()

    async def _read_commands(self, *, missed: bool) -> None:
        """Handle the commands that were not handled yet; *missed* as in ``_handle``."""
        fields = await self._client.execute_command("HGETALL", self._keys.commands)
        entries = {_number(field): entry for field, entry in fields.items() if _number(field)}
        await self._restore(entries, highest=_number(fields.get(b"highest", b"")))
        for number in sorted(entries.keys() - self._handled):
            self._handled.add(number)
            await self._handle(number, entries[number], missed=missed)

    async def _handle(self, number: int, data: bytes, *, missed: bool) -> None:
        """Carry out the command *number*, encoded in *data*, and store the answer in Redis.

        With *missed* the drone was away when it was sent: it is skipped if it is a one-time command
        or overridden by a later one.
        """
        try:
            request = decode_request(data)
            command = parse(request.name, request.arguments)
            last_change = self._control.journal.last.get(command.fill(command.state_key))
            is_overridden = last_change is not None and number <= last_change.order
            if missed and (is_overridden or not command.state_key):
                return
            answer = _OVERRIDDEN
            if not is_overridden:
                answer = await self._control.run(request, hive=str(number))
        except ValueError as error:  # CommandError, UndecodableError
            answer = CommandAnswer(str(error), refused=True)
            self._control.refused += 1
            logger.warning("Command %s to the hive was refused: %s", number, error)

        key = self._keys.answers(number)
        data = msgspec.json.encode(answer)
        await self._client.execute_command("HSET", key, self._name, data)
        await self._client.execute_command("EXPIRE", key, _ANSWERS_SECS)

    async def _restore(self, entries: Mapping[int, bytes], *, highest: int) -> None:
        """Restore entries of this drone's journal that Redis has lost.

        *entries* has the entries that are in Redis, and *highest* is the highest number there.
        """
        last_changes = {
            change.order: change for change in self._control.journal.last.values() if change.order
        }
        self._handled |= last_changes.keys()
        lost, highest_known = last_changes.keys() - entries.keys(), max(self._handled, default=1)
        if not lost and highest_known <= highest:
            return

        arguments: list[int | bytes] = [highest_known]
        for number in sorted(lost):
            change = last_changes[number]
            request = Request(change.name, change.arguments, change.reason, origin=change.origin)
            arguments += [number, msgspec.json.encode(request)]
        await self._client.execute_command("EVAL", _RESTORE, 1, self._keys.commands, *arguments)


def _number(field: bytes) -> int:
    """Return the name *field* of an entry as a number; 0 if it is not a number."""
    return int(field) if len(field) <= _MAX_DIGITS and field.isdigit() else 0


async def send_to_hive(
    client: Any, keys: Keys, *, request: Request, source: SeedSource
) -> list[CommandAnswer]:
    """Send *request* to the hive of *keys* and return the answer of each of its drones.

    A drone that does not answer, for example because it is cut off from Redis, gets an answer that
    says so. *client* is connected to the hive's Redis. Seeds are pushed to *source*. Raises
    FatalError, or one of UNREACHABLE.
    """
    command = parse(request.name, request.arguments)
    membership = Membership(client=client, keys=keys, drone="", lease_secs=_ANSWER_SECS)
    beat = await membership.look()
    if not beat.alive:
        raise FatalError(f"No drone of the hive {keys.name} is running and reaches its Redis.")

    user = f"{getpass.getuser()}@{socket.gethostname()}"
    origin = f"{request.origin or 'scrapy control'}, user {user}"
    entry = msgspec.json.encode(replace(request, origin=origin))
    if isinstance(command, Seeds):
        await client.execute_command(*source.push([line.encode() for line in command.lines]))
        return [CommandAnswer("seeds: added to the live seeds of the hive")]
    if isinstance(command, Stop):
        await membership.stop()
        said = "stop: all drones are stopping with a checkpoint"
        if cut_off := beat.members - beat.alive:
            said += f", except those that do not answer: {', '.join(sorted(cut_off))}"
        return [CommandAnswer(said, refused=bool(cut_off))]

    deadline = now() + _ANSWER_SECS
    while not (number := await client.execute_command("EVAL", _APPEND, 1, keys.commands, entry)):
        if now() > deadline:
            raise FatalError(
                f"Redis was emptied, and no drone of the hive {keys.name} has restored the "
                "commands yet: send this command again later."
            )
        await asyncio.sleep(_POLL_SECS)
    number = int(number)

    answers: dict[str, CommandAnswer] = {}
    names = {name: report and report.figures.name for name, report in beat.reports.items()}
    silent = beat.members
    while silent and now() < deadline:
        await asyncio.sleep(_POLL_SECS)
        fields = await client.execute_command("HGETALL", keys.answers(number))
        for name, data in fields.items():
            with suppress(ValueError):
                answers[name.decode()] = _decode_answer(data)
        latest = await membership.look()
        silent = beat.members & latest.members - answers.keys()
    if not command.state_key:
        await client.execute_command("HDEL", keys.commands, number)

    missing = CommandAnswer(
        "has not answered; a lasting command will take effect when it is back", refused=True
    )
    return [
        replace(answers.get(name, missing), drone=names.get(name) or name)
        for name in sorted(silent | answers.keys())
    ]
