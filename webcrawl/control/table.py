"""Table of commands: the arguments of each with their bounds, and what it changes or does.

All else is made from it: ``scrapy control`` with its help, what goes over a socket. A class'
docstring is its help, its name in lower case that of the command.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import asdict, fields, force_setattr

from webcrawl.crawl.lease.outcome_log import DROPPED
from webcrawl.crawl.seeds import Seed, parse_line
from webcrawl.crawl.steering import CHANGEABLE
from webcrawl.hosts.politeness.exclusions import host_in
from webcrawl.urls.host import domain_among
from webcrawl.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msgspec.structs import FieldInfo

    from webcrawl.crawl.job.control_journal import Change
    from webcrawl.crawl.process import Process
    from webcrawl.crawl.steering import Steering

# Entries of parked URLs that are looked at between two turns of the loop.
_SLICE = 64

Word = Annotated[str, Meta(max_length=253)]
Line = Annotated[str, Meta(max_length=4096)]
Times = Annotated[float, Meta(gt=1, le=1000)]
# For what URLs are parked. Those of a failing origin are not let in before its rest is over.
Rule = Literal["depth", "domain_budget", "host_budget", "learned_trap", "reputation", "url_space"]
Reason = Literal[Rule, "failing_origin"]


class CommandError(ValueError):
    """An error of a command, which has changed nothing; the text is one sentence."""


class ControlCommand(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A command.

    lasts: what it changes for as long as it is in force; "" of what is done once.
    undo: the command that ends it.
    ends: it ends what another one has changed.
    again: it is done again if it has no answer.
    outcome: the outcome of the URLs that it or the command before it has ended.
    """

    lasts: ClassVar[str] = ""
    undo: ClassVar[str] = ""
    ends: ClassVar[bool] = False
    again: ClassVar[bool] = False
    outcome: ClassVar[str] = ""

    def fill(self, template: str) -> str:
        """*template*, one of the first two, with the arguments."""
        return template.format_map({name: one or "all" for name, one in asdict(self).items()})

    def check(self, steering: Steering) -> None:
        """FatalError for what cannot be put in force; changes nothing."""

    def put(self, steering: Steering, change: Change) -> None:
        """Have the crawl go by it, if it lasts; *change* is its line in the journal."""

    async def work(self, process: Process) -> str:
        """Do what is done once; what was done, in a clause. CommandError, FatalError for what
        cannot be done, OSError."""
        raise NotImplementedError


class _OfHost(ControlCommand, frozen=True):
    """A command about a host, or a domain with all hosts below it, or "all", which becomes ""."""

    host: Word

    def __post_init__(self) -> None:
        host = "" if self.host in {"all", ""} else host_in(self.host.removesuffix("."))
        if host is None:
            raise ValueError(f"{self.host!r} is no host or domain")
        force_setattr(self, "host", host)

    def covers(self, host: str) -> bool:
        return domain_among({self.host}, host) is not None


# --- what lasts


class Pause(ControlCommand, frozen=True):
    """Contact no host any more, until resume."""

    lasts, undo = "pause", "resume"

    def put(self, steering: Steering, change: Change) -> None:
        steering.pause(f"Paused: {change.told}.")


class Resume(ControlCommand, frozen=True):
    """End pause."""

    lasts, ends = "pause", True

    def put(self, steering: Steering, change: Change) -> None:  # noqa: ARG002  # as others
        steering.resume()


class Unset(ControlCommand, frozen=True):
    """Give a setting the value back that the crawl was started with."""

    lasts, ends = "set {name}", True
    name: Word

    def __post_init__(self) -> None:
        if self.name not in CHANGEABLE:
            raise ValueError(f"{self.name} is none of {', '.join(CHANGEABLE)}")

    def new_value(self) -> str | None:
        """None stands for the value that the crawl was started with."""
        return None

    def check(self, steering: Steering) -> None:
        steering.change_setting(self.name, self.new_value(), only_check=True)

    def put(self, steering: Steering, change: Change) -> None:  # noqa: ARG002  # as others
        steering.change_setting(self.name, self.new_value())


class Set(Unset, frozen=True):
    """Change a setting."""

    ends, undo = False, "unset {name}"
    value: Annotated[str, Meta(max_length=100)]

    def new_value(self) -> str:
        return self.value


class _HostRule(_OfHost, frozen=True):
    """A rule of hosts, or the end of one."""

    def put(self, steering: Steering, change: Change) -> None:
        steering.host_rule(change.name, source=change.told, **asdict(self))


class Exclude(_HostRule, frozen=True):
    """Ask nothing more of a host, or of a domain and all below it."""

    lasts, undo = "exclude {host}", "allow {host}"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.host:
            raise ValueError("to ask nothing of any host, pause")


class Allow(_HostRule, frozen=True):
    """End exclude; lines of EXCLUSION_FILE stay."""

    lasts, ends, outcome = "exclude {host}", True, "excluded"


class Slower(_HostRule, frozen=True):
    """Make the pauses of a host or domain, or of all, so many times longer."""

    lasts, undo = "pace {host}", "usual {host}"
    times: Times


class Faster(Slower, frozen=True):
    """Make them so many times shorter, down to the floor, Crawl-delay or what its owner allows."""


class Usual(_HostRule, frozen=True):
    """End slower or faster."""

    lasts, ends = "pace {host}", True


class Free(_HostRule, frozen=True):
    """Let in what of a host or domain, or of all, is parked for a reason, from now on."""

    lasts, undo = "free {host} {reason}", "hold {host} {reason}"
    reason: Rule


class Hold(Free, frozen=True):
    """End free."""

    ends = True


# --- what is done once


class Seeds(ControlCommand, frozen=True):
    """Add URLs or domains, each as a line of a seed list has it."""

    again = True
    lines: Annotated[list[Line], Meta(min_length=1, max_length=500)]

    def __post_init__(self) -> None:
        self.found()  # BadLine is a ValueError

    def found(self) -> list[Seed]:
        lines = filter(None, (parse_line(line.encode()) for line in self.lines))
        return [Seed(url, max(rank or 1, 1), "control", 0) for url, rank in lines]

    async def work(self, process: Process) -> str:
        process.intake.submit_seeds(self.found())
        return f"{counted(len(self.found()), 'seed')} submitted"


class _Visits(ControlCommand, frozen=True):
    """A command for visits, which were found and handed over before it by sending.py."""

    async def work(self, process: Process) -> str:
        await _checkpoint(process)
        return "a checkpoint has its visits"


class Refetch(_Visits, frozen=True):
    """Visit again what was answered: all, older-than AGE, or a pattern of URLs with *."""

    what: Annotated[list[Word], Meta(min_length=1, max_length=2)]


class Due(_Visits, frozen=True):
    """Visit these URLs again, if they were answered."""

    urls: Annotated[list[Line], Meta(min_length=1, max_length=500)]


class Visit(ControlCommand, frozen=True):
    """Take these entries of finished URLs, as part of one of the two above."""

    entries: list[bytes]


class Drop(_OfHost, frozen=True):
    """Give up what of a host or domain, or of all, is parked for a reason."""

    again, outcome = True, DROPPED
    reason: Reason

    async def work(self, process: Process) -> str:
        completion, dropped = process.parts.leases.completion, 0
        for shard in process.shards:
            left = shard.frontier.parked.counts.get(self.reason, 0)
            for _ in range(0, left, _SLICE):
                if not process.stop.is_ending:
                    dropped += completion.drop_parked(shard, self.reason, _SLICE, self.covers)
                    await asyncio.sleep(0)
        return f"{counted(dropped, 'URL')} given up"


class Reload(ControlCommand, frozen=True):
    """Read a file of rules again, as is done by itself when it has changed."""

    setting: Literal["EXCLUSION_FILE", "HOSTS_POLICY_FILE", "RANKS_FILE", "TRAP_EXCEPTIONS_FILE"]

    async def work(self, process: Process) -> str:
        files = process.parts.state.rules_files
        file = next(one for one in files.values() if one.setting == self.setting)
        if error := await asyncio.wrap_future(file.read_again()):
            raise CommandError(f"{error.removesuffix('.')}.")
        return f"{counted(len(file.rules), 'rule')} in force"


class Checkpoint(ControlCommand, frozen=True):
    """Make a checkpoint now."""

    async def work(self, process: Process) -> str:
        await _checkpoint(process)
        return "made"


async def _checkpoint(process: Process) -> None:
    if not await process.checkpoints.make_another():
        raise CommandError("The checkpoint could not be made: the log has why.")


class Stop(ControlCommand, frozen=True):
    """End the crawl with a checkpoint; the command that started it goes on."""

    async def work(self, process: Process) -> str:
        process.stop.ask("control_stopped")
        return "it ends with a checkpoint"


class State(ControlCommand, frozen=True):
    """Say what the crawl does, what binds it, and what is in force."""


COMMANDS: Mapping[str, type[ControlCommand]] = {
    kind.__name__.lower(): kind
    for kind in (
        *(State, Pause, Resume, Set, Unset, Exclude, Allow, Slower, Faster, Usual, Free, Hold),
        *(Seeds, Refetch, Due, Drop, Reload, Checkpoint, Stop),
    )
}


def usage(name: str) -> str:
    """How the command *name* is typed."""
    words = (f"{one.name.upper()}{' ...' * is_list(one)}" for one in fields(COMMANDS[name]))
    return " ".join([name, *words])


def is_list(field: FieldInfo) -> bool:
    """Whether the argument *field* takes several words."""
    return "list" in str(field.type)


def parse(name: str, arguments: Mapping[str, Any]) -> ControlCommand:
    """The command *name* with *arguments*, whose numbers may be words. CommandError."""
    kind = Visit if name == "visit" else COMMANDS.get(name)
    if kind is None:
        raise CommandError(f"There is no command {name[:40]!r}: {', '.join(COMMANDS)}.")
    try:
        return msgspec.convert(arguments, kind, strict=False)
    except ValueError as error:
        raise CommandError(f"{name}: {error}.") from error
