"""Table of commands: their arguments with limits, and what each of them changes or does.

``scrapy control``, its help, the monitor's forms and the messages on the socket are all derived
from this table. The docstring of a class is its help text; its name in lower case is the command.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import FieldInfo, asdict, fields, force_setattr

from webcrawl.crawl.job.control_journal import Change
from webcrawl.crawl.lease.outcome_log import DROPPED
from webcrawl.crawl.process import Process
from webcrawl.crawl.seeds import Seed, parse_line
from webcrawl.crawl.steering import CHANGEABLE, Steering
from webcrawl.hosts.politeness.exclusions import host_in
from webcrawl.urls.host import domain_among
from webcrawl.wording import counted

# Number of parked URLs that are examined in one turn of the event loop.
_SLICE = 64

Word = Annotated[str, Meta(max_length=253)]
Line = Annotated[str, Meta(max_length=4096)]
Times = Annotated[float, Meta(gt=1, le=1000)]
# The reasons why URLs are parked. Those of a failing origin stay parked until its pause is over.
Rule = Literal[
    "alias_of",
    "depth",
    "domain_budget",
    "host_budget",
    "learned_trap",
    "reputation",
    "url_space",
]
Reason = Literal[Rule, "failing_origin"]


class CommandError(ValueError):
    """Raised when a command is refused and has changed nothing; the text is one sentence."""


class ControlCommand(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A command with its arguments.

    state_key: names what the command changes while it is in force; "" for one-time commands.
    undo: the command that ends the change.
    ends: whether the command ends a change that another command has made.
    redo_if_unanswered: whether the next process carries it out again if it has no answer.
    outcome: the outcome of URLs given up because of this command, or of the one that it ends.
    """

    state_key: ClassVar[str] = ""
    undo: ClassVar[str] = ""
    ends: ClassVar[bool] = False
    redo_if_unanswered: ClassVar[bool] = False
    outcome: ClassVar[str] = ""

    def fill(self, template: str) -> str:
        """Return *template*, a ``state_key`` or ``undo``, with the arguments filled in."""
        return template.format_map({name: value or "all" for name, value in asdict(self).items()})

    def check(self, steering: Steering) -> None:
        """Raise FatalError if the command cannot be applied. Changes nothing."""

    def apply(self, steering: Steering, change: Change) -> None:
        """Apply a lasting command; *change* is its line in the journal."""

    async def execute(self, process: Process) -> str:
        """Carry out a one-time command and return what was done, as a clause.

        Raises CommandError or FatalError if it cannot be done, and OSError.
        """
        raise NotImplementedError


class _HostCommand(ControlCommand, frozen=True):
    """Command for a host, for a domain with all hosts below it, or for "all", which becomes ""."""

    host: Word

    def __post_init__(self) -> None:
        host = "" if self.host in {"all", ""} else host_in(self.host.removesuffix("."))
        if host is None:
            raise ValueError(f"{self.host!r} is not a host or domain")
        force_setattr(self, "host", host)

    def is_for_host(self, host: str) -> bool:
        """Return whether the command applies to *host*."""
        return domain_among({self.host}, host) is not None


# --- lasting commands


class Pause(ControlCommand, frozen=True):
    """Stop contacting hosts, until resume."""

    state_key = "pause"
    undo = "resume"

    def apply(self, steering: Steering, change: Change) -> None:
        steering.pause(f"Paused: {change.as_sentence}.")


class Resume(ControlCommand, frozen=True):
    """Contact hosts again after pause."""

    state_key = "pause"
    ends = True

    def apply(self, steering: Steering, change: Change) -> None:  # noqa: ARG002  # same signature as others
        steering.resume()


class Unset(ControlCommand, frozen=True):
    """Restore the value that a setting had when the crawl was started."""

    state_key = "set {name}"
    ends = True
    name: Word

    def __post_init__(self) -> None:
        if self.name not in CHANGEABLE:
            raise ValueError(f"{self.name} cannot be changed; these can: {', '.join(CHANGEABLE)}")

    def new_value(self) -> str | None:
        """Return the new value, or None for the value when the crawl was started."""
        return None

    def check(self, steering: Steering) -> None:
        steering.change_setting(self.name, self.new_value(), only_check=True)

    def apply(self, steering: Steering, change: Change) -> None:  # noqa: ARG002  # same signature as others
        steering.change_setting(self.name, self.new_value())


class Set(Unset, frozen=True):
    """Change a setting of the running crawl."""

    ends = False
    undo = "unset {name}"
    value: Annotated[str, Meta(max_length=100)]

    def new_value(self) -> str:
        return self.value


class _HostRule(_HostCommand, frozen=True):
    """Command that sets or ends a rule for hosts."""

    def apply(self, steering: Steering, change: Change) -> None:
        steering.host_rule(change.name, source=change.as_sentence, **asdict(self))


class Exclude(_HostRule, frozen=True):
    """Send no more requests to a host, or to a domain and all hosts below it."""

    state_key = "exclude {host}"
    undo = "allow {host}"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.host:
            raise ValueError("to stop requests to all hosts, use pause")


class Allow(_HostRule, frozen=True):
    """Undo exclude; hosts in EXCLUSION_FILE stay excluded."""

    state_key = "exclude {host}"
    ends = True
    outcome = "excluded"


class Slower(_HostRule, frozen=True):
    """Multiply the pauses of a host, a domain or all hosts by TIMES."""

    state_key = "pace {host}"
    undo = "usual {host}"
    times: Times


class Faster(Slower, frozen=True):
    """Divide the pauses by TIMES, but never below the minimum delay or Crawl-delay."""


class Usual(_HostRule, frozen=True):
    """Undo slower or faster."""

    state_key = "pace {host}"
    ends = True


class Free(_HostRule, frozen=True):
    """Fetch URLs of a host, a domain or all hosts that are parked for REASON, from now on."""

    state_key = "free {host} {reason}"
    undo = "hold {host} {reason}"
    reason: Rule


class Hold(Free, frozen=True):
    """Undo free; URLs are parked for REASON again."""

    ends = True


# --- one-time commands


class Seeds(ControlCommand, frozen=True):
    """Add URLs or domains, written as in a seed list."""

    redo_if_unanswered = True
    lines: Annotated[list[Line], Meta(min_length=1, max_length=500)]

    def __post_init__(self) -> None:
        self.parse_seeds()  # raises for a bad line

    def parse_seeds(self) -> list[Seed]:
        """Return the seeds in ``lines``. Raises BadLine, a ValueError."""
        lines = filter(None, (parse_line(line.encode()) for line in self.lines))
        return [Seed(url, max(rank or 1, 1)) for url, rank in lines]

    async def execute(self, process: Process) -> str:
        process.intake.submit_seeds(self.parse_seeds())
        return f"{counted(len(self.parse_seeds()), 'seed')} submitted"


class Checkpoint(ControlCommand, frozen=True):
    """Make a checkpoint now."""

    done: ClassVar[str] = "made"

    async def execute(self, process: Process) -> str:
        if not await process.checkpoints.make_another():
            raise CommandError("The checkpoint could not be made; see the log.")
        return self.done


class _Visits(Checkpoint, frozen=True):
    """Command for repeat visits; before it is sent, sending.py sends the URLs to visit."""

    done = "its visits are saved in a checkpoint"


class Refetch(_Visits, frozen=True):
    """Fetch pages again: all, older-than AGE, or those whose URL matches a pattern with *."""

    what: Annotated[list[Word], Meta(min_length=1, max_length=2)]


class Due(_Visits, frozen=True):
    """Fetch these URLs again, if they were fetched before."""

    urls: Annotated[list[Line], Meta(min_length=1, max_length=500)]


class Visit(ControlCommand, frozen=True):
    """Queue the given entries of finished URLs for another visit.

    ``Refetch`` and ``Due`` are carried out with such commands.
    """

    entries: list[bytes]


class Drop(_HostCommand, frozen=True):
    """Give up URLs of a host, a domain or all hosts that are parked for REASON."""

    redo_if_unanswered = True
    outcome = DROPPED
    reason: Reason

    async def execute(self, process: Process) -> str:
        """Give up the parked URLs in batches, and return how many there were."""
        completion = process.parts.leases.completion
        dropped = 0
        for shard in process.shards:
            parked = shard.frontier.parked.counts.get(self.reason, 0)
            # Each call examines the next slice of the queue; other tasks run in between.
            for _ in range(0, parked, _SLICE):
                if not process.stop.is_ending:
                    dropped += completion.drop_parked(shard, self.reason, _SLICE, self.is_for_host)
                    await asyncio.sleep(0)
        return f"{counted(dropped, 'URL')} given up"


class Reload(ControlCommand, frozen=True):
    """Read a rules file again now; changed files are also read automatically."""

    setting: Literal["EXCLUSION_FILE", "HOSTS_POLICY_FILE", "RANKS_FILE", "TRAP_EXCEPTIONS_FILE"]

    async def execute(self, process: Process) -> str:
        files = process.parts.state.rules_files
        file = next(file for file in files.values() if file.setting == self.setting)
        if error := await asyncio.wrap_future(file.read_again()):
            raise CommandError(f"{error.removesuffix('.')}.")
        return f"{counted(len(file.rules), 'rule')} in force"


class Stop(ControlCommand, frozen=True):
    """Stop with a checkpoint; to resume, start the crawl with the same command again."""

    async def execute(self, process: Process) -> str:
        process.stop.ask("control_stopped")
        return "the crawl is stopping with a checkpoint"


class State(ControlCommand, frozen=True):
    """Show what the crawl is doing, what limits it, and the commands in force."""


COMMANDS: Mapping[str, type[ControlCommand]] = {
    command.__name__.lower(): command
    for command in (
        *(State, Pause, Resume, Set, Unset, Exclude, Allow, Slower, Faster, Usual, Free, Hold),
        *(Seeds, Refetch, Due, Drop, Reload, Checkpoint, Stop),
    )
}


def usage(name: str) -> str:
    """Return the syntax of the command *name*, with its arguments."""
    words = (
        f"{argument.name.upper()}{' ...' * is_list(argument)}"
        for argument in fields(COMMANDS[name])
    )
    return " ".join([name, *words])


def is_list(field: FieldInfo) -> bool:
    """Return whether the argument *field* takes several words."""
    return "list" in str(field.type)


def parse(name: str, arguments: Mapping[str, Any]) -> ControlCommand:
    """Return the command *name* with *arguments*; numbers may be strings. Raises CommandError."""
    command_class = Visit if name == "visit" else COMMANDS.get(name)
    if command_class is None:
        raise CommandError(f"{name[:40]!r} is not a command. Commands: {', '.join(COMMANDS)}.")
    try:
        return msgspec.convert(arguments, command_class, strict=False)
    except ValueError as error:
        raise CommandError(f"{name}: {error}.") from error
