"""Control of one process: a command's life, from the words it came as to its answer."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from webcrawl.clock import wall_time
from webcrawl.control.table import CommandError, State, Visit, parse
from webcrawl.crawl.job.control_journal import Change, Journal, Request
from webcrawl.crawl.steering import Steering
from webcrawl.errors import FatalError
from webcrawl.frontier import decode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webcrawl.control.table import ControlCommand
    from webcrawl.crawl.process import Process

logger = logging.getLogger(__name__)

# Changes in force.
_MOST_IN_FORCE = 1000


class CommandAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to a command: a sentence.

    *n* is its number in the journal, 0 of what changes nothing; *drone* the one in a hive that
    answers, which may have *refused*. The others are those of ``state``: *parked* are URLs by their
    reason.
    """

    said: str
    n: int = 0
    drone: str = ""
    refused: bool = False
    in_force: list[Change] = []
    settings: dict[str, Any] = {}
    parked: dict[str, int] = {}


class Control:
    """The commands to the crawl of *process*, whose command line is *named*."""

    def __init__(self, process: Process, *, named: str) -> None:
        self._process = process
        self._steering = Steering(process)
        self._named = named
        self._reported = process.health.reported
        job = process.job
        self.journal = Journal(job.path)
        self._deciding, self._writing = asyncio.Lock(), asyncio.Lock()
        self._again: asyncio.Task[None] | None = None
        self._sent = 0
        #: Commands that came by Redis and could not be read, or not be carried out.
        self.refused = 0

    async def open(self) -> None:
        """Put in force what earlier processes have left so, and begin what they have not done.
        FatalError, OSError."""
        journal = self.journal
        await asyncio.to_thread(journal.read)
        for change in journal.in_force.values():
            try:
                parse(change.name, change.arguments).put(self._steering, change)
            except CommandError as error:
                if change.name == "set":  # of a setting that there is no more
                    logger.warning("Not in force: %s (%s)", change.told, error)
                    continue
                raise FatalError(
                    f"The journal of commands has one of another version: {error}"
                ) from error
            logger.warning("In force: %s", change.told)
        self._reported.append(self)
        self._again = asyncio.ensure_future(self._do_again([*journal.undone.values()]))
        files = self._process.parts.state.rules_files
        for file in files.values():
            file.on_change = partial(self._reload, file.setting)

    def close(self) -> None:
        """What is not done is left to the next process."""
        if self._again is not None:
            self._again.cancel()

    async def _do_again(self, changes: list[Change]) -> None:
        for change in changes:
            logger.warning("Done again, as it has no answer: %s", change.told)
            try:
                await self._do(parse(change.name, change.arguments), change)
            except CommandError as error:
                logger.warning("%s", error)

    def _reload(self, setting: str) -> asyncio.Task[None]:
        """Have the file of *setting*, which has changed, read as by a command."""
        return asyncio.ensure_future(self._run_reload(setting))

    async def _run_reload(self, setting: str) -> None:
        request = Request("reload", {"setting": setting}, origin="a change of the file")
        with suppress(CommandError):  # it is logged, and looked at again with the next change
            await self.run(request)

    async def run(self, request: Request, *, hive: str = "") -> CommandAnswer:
        """Carry out *request*; its effect is durable when this returns. *hive* is its number in
        the journal of a hive. CommandError with one sentence."""
        command = parse(request.name, request.arguments)
        if isinstance(command, State):
            return self._state()
        if isinstance(command, Visit):
            for entry in command.entries:
                self._process.intake.visit(decode(entry))
            return CommandAnswer("visited")
        if self._process.stop.is_ending:
            raise CommandError("The crawl is ending: send it to the next run.")
        async with self._deciding:
            change = Change(
                **msgspec.structs.asdict(request) | {"arguments": msgspec.to_builtins(command)},
                at=round(wall_time(), 3),
                n=self.journal.number + 1,
                lasts=command.fill(command.lasts),
                ends=command.ends,
                undo=command.undo and f"{self._named} {command.fill(command.undo)}",
                again=command.again,
                hive=hive,
            )
            await self._begin(command, change)
        done = "in force" if change.lasts else await self._do(command, change)
        if command.outcome and not hive:
            retry = f"scrapy frontier {self._process.job.path} --retry {command.outcome}"
            done += f"; to fetch the URLs that ended so, stop the crawl and run {retry}"
        return CommandAnswer(f"{change.command}: {done}", change.n)

    async def _begin(self, command: ControlCommand, change: Change) -> None:
        """Journal *change*, and have the crawl go by it if it lasts."""
        in_force = self.journal.in_force
        if change.ends and change.lasts not in in_force:
            if change.hive:  # a drone that was away may still have it in force
                await self._write(change)
            raise CommandError(f"{change.command}: nothing of it is in force; state says what is.")
        is_new = not change.ends and change.lasts and change.lasts not in in_force
        if is_new and len(in_force) >= _MOST_IN_FORCE:
            raise CommandError(f"{_MOST_IN_FORCE:,} are in force: use the files of rules.")
        try:
            command.check(self._steering)
        except FatalError as error:
            raise CommandError(str(error)) from error
        await self._write(change)
        command.put(self._steering, change)
        self._sent += 1
        logger.info("Command %d: %s", change.n, change.told)

    async def _do(self, command: ControlCommand, change: Change) -> str:
        """Do what is done once; what was done. No answer is kept before a checkpoint has it."""
        try:
            done = await command.work(self._process)
        except (CommandError, FatalError) as error:
            if not self._process.stop.is_ending:  # else the next process may do it
                await self._write(Change(at=round(wall_time(), 3), n=change.n, answer=f"{error}"))
            raise CommandError(str(error)) from error
        except OSError as error:
            self._process.stop.fail(error)
            raise CommandError(f"The disk does not take it: {error}.") from error
        process = self._process
        if command.again and (
            process.stop.is_ending or not await process.checkpoints.make_another()
        ):
            raise CommandError("No checkpoint has it yet: the next run of the crawl does the rest.")
        await self._write(Change(at=round(wall_time(), 3), n=change.n, answer=done))
        return done

    async def _write(self, line: Change) -> None:
        async with self._writing:
            try:
                await asyncio.to_thread(self.journal.append, line)
            except OSError as error:
                self._process.stop.fail(error)
                raise CommandError(f"It cannot be journaled: {error}.") from error

    def _state(self) -> CommandAnswer:
        health, changes = self._process.health, [*self.journal.in_force.values()]
        told = [health.state().told(), str(health.diagnosis()), *(one.told for one in changes)]
        return CommandAnswer(
            "\n".join(told),
            in_force=changes,
            settings=self._steering.settings,
            parked=self._steering.parked,
        )

    def stats(self) -> Mapping[str, int | str]:
        """The numbers of commands in this run, and what is in force."""
        told = "; ".join(change.command for change in self.journal.in_force.values())
        return {
            "control/commands": self._sent,
            "control/refused": self.refused,
            "control/now": told,
        }
