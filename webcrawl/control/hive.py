"""Commands to a hive, sent through a journal in its Redis that all drones read.

The journal is a Redis hash of the commands by number. Each number is larger than all earlier ones:
it is the time in microseconds, or one more than the highest number. Each drone carries out the
lasting commands in the order of their numbers and writes them to its own journal. One-time
commands, such as a checkpoint, delay no other commands. A drone that joins later carries out only
the lasting commands among those it missed: one-time commands were meant for the drones that were
running then. The hash expires an hour after the last command.

Lasting commands, and what ``scrapy purge`` excludes, are also in HIVE_STORE under such numbers, for
drones that enter the hive or are cut off from Redis. Each drone reads them then, and every minute,
and adds those of its own journal that are missing there. So what Redis or the store loses is not
lost. The store is read by a thread, so a store that hangs does not delay commands in Redis.

Of several commands that change the same thing, the one with the highest number counts, even if it
ends the change. Drones remember it. So a drone that was away cannot bring back a change that was
ended. The numbers of an emptied Redis may be too low, because its clock may be behind. Then the
drones answer with the number that overrides the command, and it is sent again with a higher one.
Answers are kept in separate hashes, for an hour as well.

``seeds`` pushes to the hive's list of live seeds, and ``stop`` tells all drones to stop.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from webcrawl.clock import now
from webcrawl.configuration.decoding import json_decoder
from webcrawl.control.control import CommandAnswer, Control
from webcrawl.control.table import Seeds, Stop, parse
from webcrawl.crawl.job.control_journal import Request, decode_request
from webcrawl.errors import UnreachableError
from webcrawl.hive.bus.live_seeds import SeedSource
from webcrawl.hive.membership.connection import (
    UNREACHABLE,
    is_cancelled,
    reason_of,
)
from webcrawl.hive.membership.keys import Keys
from webcrawl.hive.membership.membership import Membership
from webcrawl.hive.store.store import CheckpointStore
from webcrawl.hosts.politeness.exclusions import purge_rules
from webcrawl.storage.numbered import number_of

_PAUSE = "hive_commands"
_READ_EVERY_SECS = 1.0
_READ_STORE_EVERY_SECS = 60.0
# The longest pause between two looks at the store while Redis or the store cannot be read.
_MAX_RETRY_SECS = 5.0
_POLL_SECS = 0.1
# How long commands and answers stay in Redis.
_KEPT_SECS = 3600
# How long to wait for answers of drones; Redis must answer within a quarter of this.
_ANSWER_SECS = 15.0
# Appends an entry and returns its number, which is at least the second argument. The third one says
# for how many seconds the hash is kept. A Redis without free memory refuses a script that does not
# begin with a deletion.
_APPEND = """
redis.call('HDEL', KEYS[1], '')
local highest = tonumber(redis.call('HGET', KEYS[1], 'highest') or 0) or 0
local time = redis.call('TIME')
local number = math.max(highest + 1, time[1] * 1000000 + time[2], ARGV[2])
number = string.format('%.0f', number)
redis.call('HSET', KEYS[1], 'highest', number, number, ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return number
"""
# The names of entries; other fields of the hash are ignored.
_NUMBER = re.compile(rb"[1-9][0-9]{0,15}")
_decode_answer = json_decoder(CommandAnswer)
logger = logging.getLogger(__name__)


class HiveControl:
    """Reads the commands to a hive, and passes them to the *control* of its drone *name*.

    *client* and *keys* are those of the hive's Redis, *store* is HIVE_STORE. The crawl is paused
    until the commands that the drone has missed are applied.
    """

    def __init__(
        self, *, client: Any, keys: Keys, store: CheckpointStore, name: str, control: Control
    ) -> None:
        self._client = client
        self._keys = keys
        self._store = store
        self._name = name
        self._control = control
        self._pauses = control.process.pauses
        self._pauses.hold(_PAUSE, "Commands to the hive have not been read yet.")
        # Numbers of the commands that this drone has begun to handle, now or in earlier runs.
        self._handled = {*self._lasting_entries()}
        # Commands that are being carried out, or whose answers are not in Redis yet.
        self._running: set[asyncio.Task[None]] = set()
        # The commands in Redis when they were last read, by number.
        self._sent: dict[int, bytes] = {}
        # The highest number in Redis at that time, as Redis returns it: None if there was no
        # command yet. At first b"", which differs from each answer, so that all are read.
        self._highest_number: bytes | None = b""
        # Whether Redis has been read, so that later commands are meant for this drone, too.
        self._has_read_redis = False
        # Makes lasting commands take effect in the order of their numbers.
        self._lasting_lock = asyncio.Lock()
        # The commands that ``_keep_reading_store``, which runs in a thread, has found in the store,
        # by name; and why these may be incomplete.
        self._stored: dict[str, bytes] = {}
        self._store_trouble = "HIVE_STORE has not answered yet"
        # What ``scrapy purge`` has excluded, by name of the object in the store, and why one of
        # these objects cannot be used.
        self._purged: dict[str, str] = {}
        self._purge_trouble = ""
        # Why Redis cannot be read; "" if it can.
        self._redis_trouble = ""
        # Set when the thread should read the store now.
        self._store_due = threading.Event()
        self._is_closed = False

    async def run(self) -> None:
        """Read and handle commands until cancelled."""
        # A thread of its own, because a store that hangs would block one of the loop's threads.
        threading.Thread(target=self._keep_reading_store, name="commands", daemon=True).start()
        try:
            # Often at first, because the crawl is paused until the commands have been read.
            secs = _POLL_SECS
            while not is_cancelled():
                await self._read()
                await asyncio.sleep(secs)
                secs = min(2 * secs, _READ_EVERY_SECS)
        finally:
            # The thread notices that it is closed when it is woken.
            self._is_closed = True
            self._store_due.set()
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)

    def _keep_reading_store(self) -> None:
        """Read the store, and add this drone's commands that it lacks, until closed."""
        secs = _POLL_SECS
        while not self._is_closed:
            # Cleared first: if it is set meanwhile, the store is read again immediately.
            self._store_due.clear()
            try:
                commands = self._store.commands
                self._stored = commands.read(self._stored)
                entries = self._lasting_entries()
                for number in entries.keys() - {*map(number_of, self._stored)}:
                    commands.add(*entries[number], number=number)
                self._store_trouble = ""
            except Exception as error:  # noqa: BLE001  # it is shown, and may go away
                self._store_trouble = reason_of(error)
            is_in_trouble = self._store_trouble or self._redis_trouble
            self._store_due.wait(secs if is_in_trouble else _READ_STORE_EVERY_SECS)
            secs = min(2 * secs, _MAX_RETRY_SECS)

    def _lasting_entries(self) -> dict[int, tuple[str, bytes]]:
        """Return the last change of each key in this drone's journal: its key and its entry.

        They are keyed by their numbers in the journal of the hive. Changes that were sent to this
        drone alone have none and are left out.
        """
        return {
            change.order: (
                key,
                msgspec.json.encode(
                    Request(change.name, change.arguments, change.reason, origin=change.origin)
                ),
            )
            for key, change in self._control.journal.last.items()
            if change.order
        }

    async def _read(self) -> None:
        """Start handling the new commands in Redis and in the store."""
        # The thread first sets what it has read, then the trouble. Here the trouble is taken first:
        # if there is none, what is taken next is complete.
        trouble = self._store_trouble
        stored = self._stored
        trouble = self._exclude_purged(stored) or trouble
        sent = await self._read_redis()
        self._start_new(sent, stored)
        # A checkpoint, for example, takes longer: later commands do not wait for it.
        if self._running:
            ended, self._running = await asyncio.wait(self._running, timeout=_POLL_SECS)
            for task in ended:
                task.result()  # raises an unexpected error

        # The crawl stays paused until all commands that were missed are known and applied.
        if trouble := trouble or self._redis_trouble:
            if _PAUSE in self._pauses.names:
                self._pauses.hold(_PAUSE, f"Commands to the hive cannot be read yet: {trouble}.")
        elif not self._running:
            self._pauses.lift(_PAUSE)
        if not self._redis_trouble:
            self._has_read_redis = True

    async def _read_redis(self) -> dict[int, bytes]:
        """Return the commands in Redis by number; {} if Redis cannot be read."""
        try:
            highest = await self._client.execute_command("HGET", self._keys.commands, "highest")
            # Each new command raises the highest number.
            if highest != self._highest_number:
                fields = await self._client.execute_command("HGETALL", self._keys.commands)
                numbers = filter(_NUMBER.fullmatch, fields)
                self._sent = {int(number): fields[number] for number in numbers}
                self._highest_number = highest
            self._redis_trouble = ""
        except UNREACHABLE as error:
            # Commands may now be sent through the store only.
            if not self._redis_trouble:
                self._store_due.set()
            self._redis_trouble = f"Redis cannot be used: {reason_of(error)}"
            return {}
        return self._sent

    def _start_new(self, sent: dict[int, bytes], stored: dict[str, bytes]) -> None:
        """Start handling the new commands among *sent*, in Redis, and *stored*, in the store."""
        # The other objects in the store, *.txt, are what was purged.
        entries = sent | {
            number_of(name): entry for name, entry in stored.items() if not name.endswith(".txt")
        }
        for number in sorted(entries.keys() - self._handled):
            self._handled.add(number)
            is_missed = number not in sent or not self._has_read_redis
            handling = self._handle(number, entries[number], is_missed=is_missed)
            self._running.add(asyncio.ensure_future(handling))

    def _exclude_purged(self, stored: dict[str, bytes]) -> str:
        """Exclude what was purged according to *stored*; say which object cannot be used."""
        trouble = ""
        purged_before = len(self._purged)
        # Objects with this suffix are what ``scrapy purge`` has excluded, once and for all.
        for name, data in stored.items():
            if name.endswith(".txt") and name not in self._purged:
                try:
                    text = data.decode()
                    purge_rules(text)  # raises if there is a bad line
                    self._purged[name] = text
                except ValueError as error:
                    trouble = f"commands/{name} in HIVE_STORE: {error}"
        if trouble and trouble != self._purge_trouble:
            logger.warning("What was purged cannot be excluded: %s", trouble)
        self._purge_trouble = trouble
        if len(self._purged) > purged_before:
            process = self._control.process
            rules = process.parts.services.rules
            rules.hosts.open_purged(process.job.path, self._purged.values())
        return trouble

    async def _handle(self, number: int, data: bytes, *, is_missed: bool) -> None:
        """Carry out the command *number* as ``_carry_out`` does, and write the answer to Redis."""
        answer = msgspec.json.encode(await self._carry_out(number, data, is_missed=is_missed))
        # The thread adds lasting commands to the store.
        self._store_due.set()
        key = self._keys.answers(number)
        is_written = False
        while not is_written:
            try:
                await self._client.execute_command("HSET", key, self._name, answer)
                await self._client.execute_command("EXPIRE", key, _KEPT_SECS)
                is_written = True
            except UNREACHABLE:
                await asyncio.sleep(_READ_EVERY_SECS)

    async def _carry_out(self, number: int, data: bytes, *, is_missed: bool) -> CommandAnswer:
        """Carry out the command *number*, encoded in *data*, and return the answer.

        A one-time command that *is_missed* was sent before this drone read commands: it is not
        carried out. The answer to a command that is overridden has the number of the later one.
        """
        try:
            request = decode_request(data)
            command = parse(request.name, request.arguments)
            if not command.state_key:
                if is_missed:
                    said = "Not carried out, because this drone has just joined the hive."
                    return CommandAnswer(said, refused=True)
                return await self._control.run(request, hive=str(number))

            # Of commands that change the same thing, the one with the highest number counts.
            async with self._lasting_lock:
                last_change = self._control.journal.last.get(command.fill(command.state_key))
                last_number = last_change.order if last_change else 0
                if number <= last_number:
                    said = "A later command overrides this one: send it again."
                    return CommandAnswer(said, last_number, refused=True)
                return await self._control.run(request, hive=str(number))
        except ValueError as error:  # CommandError, UndecodableError
            self._control.refused += 1
            logger.warning("Command %s to the hive was refused: %s", number, error)
            return CommandAnswer(str(error), refused=True)


async def send_to_hive(
    client: Any, keys: Keys, *, request: Request, source: SeedSource
) -> list[CommandAnswer]:
    """Send *request* to the hive of *keys* and return the answer of each of its drones.

    A drone that does not answer, for example because it is cut off from Redis, gets an answer that
    says so. *client* is connected to the hive's Redis. Seeds are pushed to *source*. Raises
    UnreachableError if no drone is running, or one of UNREACHABLE.
    """
    command = parse(request.name, request.arguments)
    membership = Membership(client=client, keys=keys, drone="", lease_secs=_ANSWER_SECS)
    beat = await membership.look()
    no_drone = f"No drone of the hive {keys.name} is running and reaches its Redis"
    if not beat.alive:
        owners = f"; it has shards of {', '.join(sorted(beat.members))}" if beat.members else ""
        raise UnreachableError(f"{no_drone}{owners}.")

    entry = msgspec.json.encode(request)
    if isinstance(command, Seeds):
        await client.execute_command(*source.push([line.encode() for line in command.lines]))
        return [CommandAnswer("seeds: added to the live seeds of the hive")]
    if isinstance(command, Stop):
        await membership.order(stopping=True)
        said = "stop: all drones are stopping with a checkpoint"
        if cut_off := beat.members - beat.alive:
            said += f", except those that do not answer: {', '.join(sorted(cut_off))}"
        return [CommandAnswer(said, refused=bool(cut_off))]

    async def append(lowest: int) -> int:
        return int(
            await client.execute_command(
                "EVAL", _APPEND, 1, keys.commands, entry, lowest, _KEPT_SECS
            )
        )

    deadline = now() + _ANSWER_SECS
    numbers = [await append(0)]
    answers: dict[str, CommandAnswer] = {}
    names = {name: report.figures.name if report else None for name, report in beat.reports.items()}
    silent = beat.members
    while silent and now() < deadline:
        await asyncio.sleep(_POLL_SECS)
        later = 0
        # A drone's first answer counts. It is read last, so that it is there if a later one was.
        for number in reversed(numbers):
            fields = await client.execute_command("HGETALL", keys.answers(number))
            for name, data in fields.items():
                with suppress(ValueError):
                    answer = _decode_answer(data)
                    if answer.refused and answer.n:
                        later = max(later, answer.n)
                    else:
                        answers[name.decode()] = answer
        # A drone knows a later command with this number (see the module): send the command again.
        if later >= numbers[-1]:
            numbers.append(await append(later + 1))
        latest = await membership.look()
        # Drones that have left the hive need not answer.
        silent = beat.members & latest.members - answers.keys()
    if not (silent or answers):  # all drones have ended
        raise UnreachableError(f"{no_drone}.")

    missing = CommandAnswer(
        "has not answered; a lasting command will take effect when it is back or reads HIVE_STORE",
        refused=True,
    )
    return [
        replace(answers.get(name, missing), drone=names.get(name) or name)
        for name in sorted(silent | answers.keys())
    ]
