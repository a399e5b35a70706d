"""Control of one process: checks, journals, carries out and answers commands."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from shlex import quote
from typing import Any

import msgspec

from webcrawl.clock import wall_time
from webcrawl.control.table import CommandError, ControlCommand, Exclude, State, Visit, parse
from webcrawl.crawl.job.control_journal import Change, Journal, Request
from webcrawl.crawl.process import Process
from webcrawl.crawl.steering import Steering
from webcrawl.errors import FatalError
from webcrawl.frontier import decode
from webcrawl.hosts.aliases import other_names
from webcrawl.wording import COMMAND

logger = logging.getLogger(__name__)


class CommandAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """Answer to a command.

    *said* is a sentence. *n* is the command's number in the journal, or 0 if it changes nothing.
    *refused* says whether the command was refused. In a hive, *drone* names the drone that answers.
    If a later command overrides this one, *n* is the number of the later one in the hive. *aliases*
    are other names of what ``exclude`` excludes. Only the command ``state`` sets the other fields;
    *parked* has the number of parked URLs by reason.
    """

    said: str
    n: int = 0
    drone: str = ""
    refused: bool = False
    aliases: list[str] = []
    in_force: list[Change] = []
    settings: dict[str, Any] = {}
    parked: dict[str, int] = {}


class Control:
    """Carries out commands to the crawl of *process*.

    *command_line* is the command line with which users send commands, for hints in answers.
    """

    def __init__(self, process: Process, *, command_line: str) -> None:
        self.process = process
        self._steering = Steering(process)
        self._command_line = command_line
        # The parts of the process whose ``stats`` are reported; ``open`` adds this one.
        self._reported = process.health.reported
        job = process.job
        self.journal = Journal(job.path)
        # Held from when a command gets its number until it is journaled and applied, so that the
        # journal has the commands in the order in which they took effect.
        self._decision_lock = asyncio.Lock()
        # Held while a thread appends one line to the journal: a command, or an answer.
        self._write_lock = asyncio.Lock()
        # The task that repeats commands of an earlier process; None before ``open``.
        self._redoing: asyncio.Task[None] | None = None
        # Number of commands accepted in this run.
        self._accepted_count = 0
        #: Number of commands from Redis that could not be decoded or carried out.
        self.refused = 0

    async def open(self) -> None:
        """Apply the lasting commands in the journal, and start redoing unfinished other commands.

        Raises FatalError or OSError.
        """
        journal = self.journal
        await asyncio.to_thread(journal.read)
        for change in journal.in_force.values():
            try:
                parse(change.name, change.arguments).apply(self._steering, change)
            except CommandError as error:
                if change.name == "set":  # a setting that no longer exists
                    logger.warning("Not in force: %s (%s)", change.as_sentence, error)
                    continue
                raise FatalError(
                    f"The journal has a command of another version of webcrawl: {error}"
                ) from error
            logger.warning("In force: %s", change.as_sentence)

        self._reported.append(self)
        self._redoing = asyncio.ensure_future(self._redo([*journal.pending.values()]))
        files = self.process.parts.state.rules_files
        for prefix, file in files.items():
            # The command ``reload`` names a setting, but the blocklists' setting has many files. By
            # default a file that changes is just read again.
            if prefix.startswith("blocklists/"):
                continue
            file.on_change = partial(self._reload, file.setting)

    def close(self) -> None:
        """Stop redoing unfinished commands; the next process redoes them."""
        if self._redoing is not None:
            self._redoing.cancel()

    async def _redo(self, changes: list[Change]) -> None:
        """Carry out *changes*, one-time commands that an earlier process did not answer."""
        for change in changes:
            logger.warning("Repeating a command that was not finished: %s", change.as_sentence)
            try:
                await self._carry_out(parse(change.name, change.arguments), change)
            except CommandError as error:
                logger.warning("%s", error)

    def _reload(self, setting: str) -> asyncio.Task[None]:
        """Start the command ``reload`` for the file of *setting*, which has changed."""
        return asyncio.ensure_future(self._run_reload(setting))

    async def _run_reload(self, setting: str) -> None:
        """Run the command ``reload`` for the file of *setting*."""
        request = Request("reload", {"setting": setting}, origin="a change of the file")
        with suppress(CommandError):  # already logged; the next change of the file is read, too
            await self.run(request)

    async def run(self, request: Request, *, hive: str = "") -> CommandAnswer:
        """Carry out *request* and return the answer; the effect is durable when this returns.

        *hive* is the number of the request in the journal of a hive. Raises CommandError.
        """
        command = parse(request.name, request.arguments)
        # These two are not journaled: ``state`` changes nothing, and after a batch of ``visit``
        # comes a command that makes a checkpoint.
        if isinstance(command, State):
            return self._state()
        if isinstance(command, Visit):
            for entry in command.entries:
                self.process.intake.visit(decode(entry))
            return CommandAnswer("visited")
        if self.process.stop.is_ending:
            raise CommandError("The crawl is ending; send the command to the next run.")

        async with self._decision_lock:
            # The request, with the arguments as they were understood.
            change = Change(
                **msgspec.structs.asdict(request) | {"arguments": msgspec.to_builtins(command)},
                at=round(wall_time(), 3),  # epoch seconds, with milliseconds
                n=self.journal.number + 1,
                state_key=command.fill(command.state_key),
                ends=command.ends,
                undo=command.undo and f"{self._command_line} {command.fill(command.undo)}",
                redo_if_unanswered=command.redo_if_unanswered,
                hive=hive,
            )
            await self._accept(command, change)

        result = "in force" if change.state_key else await self._carry_out(command, change)
        # URLs that the command gives up, or that it may fetch again, have this outcome.
        if command.outcome and not hive:
            jobdir = quote(str(self.process.job.path))
            retry_command = f"{COMMAND} frontier {jobdir} --retry {command.outcome}"
            result += f"; to fetch those given up this way, stop the crawl and run {retry_command}"
        aliases = self._other_names(command) if isinstance(command, Exclude) else []
        if aliases:
            result += f"; the same site has the names {', '.join(aliases)}, whose URLs stay parked"
        return CommandAnswer(f"{change.command}: {result}", change.n, aliases=aliases)

    def _other_names(self, command: Exclude) -> list[str]:
        """Return the other names of the sites that *command* excludes."""
        tables = (shard.aliases.aliases for shard in self.process.shards if shard.aliases)
        return other_names(tables, command.is_for_host)

    async def _accept(self, command: ControlCommand, change: Change) -> None:
        """Check *command*, append its *change* to the journal, and apply it.

        There is nothing to apply for one-time commands, which ``_carry_out`` executes. Raises
        CommandError if the command is refused.
        """
        if change.ends and change.state_key not in self.journal.in_force:
            # Other drones of a hive may still have the change in force. So the end is journaled
            # although there is nothing to end here: it must override older commands.
            if change.hive:
                await self._write(change)
            raise CommandError(f"{change.command}: nothing to end; state shows what is in force.")
        try:
            command.check(self._steering)
        except FatalError as error:
            raise CommandError(str(error)) from error
        await self._write(change)
        command.apply(self._steering, change)
        self._accepted_count += 1
        logger.info("Command %d: %s", change.n, change.as_sentence)

    async def _carry_out(self, command: ControlCommand, change: Change) -> str:
        """Carry out a one-time command and return what was done, as a clause.

        The answer is journaled only after a checkpoint has saved the effect. Raises CommandError.
        """
        try:
            result = await command.execute(self.process)
        except (CommandError, FatalError) as error:
            if not self.process.stop.is_ending:  # otherwise the next process may succeed
                await self._write(Change(at=round(wall_time(), 3), n=change.n, answer=f"{error}"))
            raise CommandError(str(error)) from error
        except OSError as error:
            self.process.stop.fail(error)
            raise CommandError(f"The disk cannot be written: {error}.") from error

        # A command that is redone if it has no answer must not be answered before its effect is
        # saved: the answer would be kept, and the effect could be lost.
        process = self.process
        if command.redo_if_unanswered and (
            process.stop.is_ending or not await process.checkpoints.make_another()
        ):
            raise CommandError("No checkpoint has saved it yet: the next run will finish it.")
        await self._write(Change(at=round(wall_time(), 3), n=change.n, answer=result))
        return result

    async def _write(self, line: Change) -> None:
        """Append *line* to the journal. An error of the disk ends the crawl."""
        async with self._write_lock:
            try:
                await asyncio.to_thread(self.journal.append, line)
            except OSError as error:
                self.process.stop.fail(error)
                raise CommandError(f"The command cannot be journaled: {error}.") from error

    def _state(self) -> CommandAnswer:
        """Answer the command ``state``."""
        health = self.process.health
        changes = [*self.journal.in_force.values()]
        lines = [
            health.state().in_words(),
            *([str(health.doctor.diagnosis())] if health.doctor else []),
            *(change.as_sentence for change in changes),
        ]
        return CommandAnswer(
            "\n".join(lines),
            in_force=changes,
            settings=self._steering.settings,
            parked=self._steering.parked,
        )

    def stats(self) -> Mapping[str, int | str]:
        """Return the number of commands accepted and refused in this run, and those in force."""
        in_force = "; ".join(change.command for change in self.journal.in_force.values())
        return {
            "control/commands": self._accepted_count,
            "control/refused": self.refused,
            "control/now": in_force,
        }
