"""Commands to a hive, sent through a journal in its Redis that all drones read.

The journal is a Redis hash of the commands by number. Each number is larger than all earlier ones:
it is the time in microseconds, or one more than the highest number. Each drone carries out the
commands in the order of their numbers and writes them to its own journal. A drone that joins later,
or returns, carries out only the lasting commands among those it missed: one-time commands were
meant for the drones that were running then.

Lasting commands, and what ``scrapy purge`` excludes, are also in HIVE_STORE under such numbers, for
drones that enter the hive or are cut off from Redis. Each drone reads them then, and every minute,
and adds those of its own journal that are missing there. So what Redis loses is not lost.

Of several commands that change the same thing, the one with the highest number counts, even if it
ends the change. Drones remember it. So a drone that was away cannot bring back a change that was
ended. An emptied Redis assigns no numbers
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
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from webcrawl.clock import now
from webcrawl.configuration.decoding import json_decoder
from webcrawl.control.control import CommandAnswer, Control
from webcrawl.control.table import Seeds, Stop, parse
from webcrawl.crawl.job.control_journal import Request, decode_request
from webcrawl.errors import FatalError, UnreachableError
from webcrawl.hive.configuration import store_url
from webcrawl.hive.membership.connection import (
    UNREACHABLE,
    BackOff,
    client_of,
    close,
    is_cancelled,
)
from webcrawl.hive.membership.keys import Keys
from webcrawl.hive.membership.membership import Membership
from webcrawl.hive.store.store import CheckpointStore
from webcrawl.storage.numbered import number_of

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from webcrawl.hive.bus.live_seeds import SeedSource
    from webcrawl.hosts.politeness.pauses import Pauses

_PAUSE = "hive_commands"
_READ_EVERY_SECS = 1.0
_READ_STORE_EVERY_SECS = 60.0
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
# Restores the highest number.
_RESTORE = """
local highest = tonumber(redis.call('HGET', KEYS[1], 'highest') or '') or 0
redis.call('HSET', KEYS[1], 'highest', string.format('%.0f', math.max(highest, ARGV[1])))
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
        self._store = CheckpointStore(url=store_url(settings))
        # Names of the commands that the store has, the texts of its purges, and when to look again.
        self._stored: set[str] = set()
        self._purged: list[str] = []
        self._store_due_at = 0.0
        self._reading: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Start reading commands. The crawl is paused until those that were missed are applied."""
        message = "Commands to the hive cannot be read from Redis or HIVE_STORE yet."
        self._pauses.hold(_PAUSE, message)
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
            if await self._read(missed=_PAUSE in self._pauses.names):
                self._pauses.lift(_PAUSE)
                back_off.reset()
                await asyncio.sleep(_READ_EVERY_SECS)
            else:
                await back_off.wait()

    async def _read(self, *, missed: bool) -> bool:
        """Handle new commands in the store, if it is due, and in Redis; *missed* as in ``_handle``.

        Returns whether both could be read. While Redis cannot be, the store is always due.
        """
        is_complete = True
        try:
            if now() >= self._store_due_at:
                await self._read_store()
        except (ValueError, *UNREACHABLE):  # or a damaged object
            is_complete = False
        try:
            await self._read_commands(missed=missed)
        except UNREACHABLE:
            is_complete = False
            self._store_due_at = 0.0
        return is_complete

    async def _read_store(self) -> None:
        """Handle the commands in the store that the drone has missed, and add those it lacks."""
        found = await asyncio.to_thread(lambda: self._store.commands.read_new(self._stored))
        if purged := [data.decode() for name, data in found.items() if name.endswith(".txt")]:
            self._purged += purged
            self._control.exclude_purged(self._purged)
        for name, data in found.items():
            if not name.endswith(".txt") and number_of(name) not in self._handled:
                self._handled.add(number_of(name))
                await self._handle(number_of(name), data, missed=True)

        self._stored |= found.keys()
        entries = self._lasting_entries()
        for number in entries.keys() - {*map(number_of, self._stored)}:
            add = partial(self._store.commands.add, *entries[number], number=number)
            self._stored.add(await asyncio.to_thread(add))
        self._store_due_at = now() + _READ_STORE_EVERY_SECS

    def _lasting_entries(self) -> dict[int, tuple[str, bytes]]:
        """Return the last change of each key in this drone's journal: its key and its entry."""
        entries = {}
        for key, change in self._control.journal.last.items():
            request = Request(change.name, change.arguments, change.reason, origin=change.origin)
            if change.order:
                entries[change.order] = key, msgspec.json.encode(request)
        return entries

    async def _read_commands(self, *, missed: bool) -> None:
        """Handle the commands in Redis that were not handled yet; *missed* as in ``_handle``."""
        fields = await self._client.execute_command("HGETALL", self._keys.commands)
        entries = {_number(field): entry for field, entry in fields.items() if _number(field)}
        self._handled |= self._lasting_entries().keys()
        highest_known = max(self._handled, default=1)
        if highest_known > _number(fields.get(b"highest", b"")):
            key = self._keys.commands
            await self._client.execute_command("EVAL", _RESTORE, 1, key, highest_known)
        for number in sorted(entries.keys() - self._handled):
            self._handled.add(number)
            answer = await self._handle(number, entries[number], missed=missed)
            if answer is not None:
                self._store_due_at = 0.0
                key = self._keys.answers(number)
                data = msgspec.json.encode(answer)
                await self._client.execute_command("HSET", key, self._name, data)
                await self._client.execute_command("EXPIRE", key, _ANSWERS_SECS)

    async def _handle(self, number: int, data: bytes, *, missed: bool) -> CommandAnswer | None:
        """Carry out the command *number*, encoded in *data*, and return the answer.

        With *missed* the drone was away when it was sent: it is skipped if it is a one-time command
        or overridden by a later one.
        """
        try:
            request = decode_request(data)
            command = parse(request.name, request.arguments)
            last_change = self._control.journal.last.get(command.fill(command.state_key))
            is_overridden = last_change is not None and number <= last_change.order
            if missed and (is_overridden or not command.state_key):
                return None
            if is_overridden:
                return _OVERRIDDEN
            return await self._control.run(request, hive=str(number))
        except ValueError as error:  # CommandError, UndecodableError
            self._control.refused += 1
            logger.warning("Command %s to the hive was refused: %s", number, error)
            return CommandAnswer(str(error), refused=True)


def _number(field: bytes) -> int:
    """Return the name *field* of an entry as a number; 0 if it is not a number."""
    return int(field) if len(field) <= _MAX_DIGITS and field.isdigit() else 0


def named(request: Request) -> Request:
    """Return *request* with the user and machine that send it."""
    user = f"{getpass.getuser()}@{socket.gethostname()}"
    return replace(request, origin=f"{request.origin or 'scrapy control'}, user {user}")


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
        owners = f"; it has shards of {', '.join(sorted(beat.members))}" if beat.members else ""
        raise UnreachableError(
            f"No drone of the hive {keys.name} is running and reaches its Redis{owners}."
        )

    entry = msgspec.json.encode(named(request))
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
        "has not answered; a lasting command will take effect when it is back or reads HIVE_STORE",
        refused=True,
    )
    return [
        replace(answers.get(name, missing), drone=names.get(name) or name)
        for name in sorted(silent | answers.keys())
    ]
