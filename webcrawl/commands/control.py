"""Send a command to a running crawl.

"scrapy control JOBDIR help" lists the commands and their arguments. A change lasts until another
command ends it, even if the crawl is restarted or killed. Each command is recorded in
JOBDIR/logs/control.jsonl with its time, origin and reason. The command "drop" cannot be undone: on
a terminal it first says how many URLs are parked, and asks for confirmation.

Examples:
  scrapy control crawls/web help
  scrapy control crawls/web pause --reason "disk check"

Exit codes:
  0  done
  1  you answered no
  2  the command was refused or not confirmed, or the crawl is not running
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from webcrawl.commands import (
    AddOption,
    Options,
    Settings,
    UsageError,
    make_command,
    print_answer,
    take_job,
)
from webcrawl.wording import COMMAND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webcrawl.control.control import CommandAnswer
    from webcrawl.crawl.job.control_journal import Request


def _options(add: AddOption) -> None:
    """Add the options of ``scrapy control``."""
    add("--reason", default="", metavar="WHY", help="the reason, recorded with the command")
    add("--with-aliases", action="store_true", help="exclude the other names of the site, too")
    add("--yes", action="store_true", help="do not ask before a drop")


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    """Send the command in *args* to a running crawl, or list the commands; return the exit code."""
    from msgspec.structs import replace

    from webcrawl.control.sending import send_to_crawl
    from webcrawl.control.table import COMMANDS, usage
    from webcrawl.crawl.job.control_journal import Request

    words = take_job(args, settings)
    if not words or words[0] == "help":
        for name, command in COMMANDS.items():
            print(f"{usage(name):<24} {command.__doc__}")
        return 0
    request = _request(words, opts.reason)
    if opts.with_aliases and request.name != "exclude":
        raise UsageError("--with-aliases is for exclude")
    must_ask = request.name == "drop" and sys.stdin.isatty() and not (opts.yes or opts.json)
    if must_ask and not _is_confirmed(request, send_to_crawl(settings, Request("state"))):
        return 1
    answers = send_to_crawl(settings, request)
    if opts.with_aliases:
        names = {name for answer in answers for name in answer.aliases}
        for name in sorted(names):
            answers += send_to_crawl(settings, replace(request, arguments={"host": name}))
    return _print_answers(answers, as_json=opts.json)


def _is_confirmed(request: Request, answers: list[CommandAnswer]) -> bool:
    """Say how many URLs are parked, and return whether the user confirms the drop *request*.

    *answers* are those of the crawl to the command state.
    """
    host, reason = (request.arguments.get(name, "") for name in ("host", "reason"))
    # A hive gives an answer for each drone.
    parked = sum(answer.parked.get(reason, 0) for answer in answers)
    if not parked:
        return True
    print(f"{parked:,} URLs are parked with reason {reason}. Those of {host} will be given up.")
    return input("Give them up? [y/N] ").lower() in {"y", "yes"}


def _print_answers(answers: list[CommandAnswer], *, as_json: bool) -> int:
    """Print *answers* and return the exit code."""
    lines = (f"{answer.drone}: {answer.said}\n".removeprefix(": ") for answer in answers)
    result = answers if answers[0].drone or len(answers) > 1 else answers[0]
    print_answer(result, "".join(lines), as_json=as_json)
    return 2 if any(answer.refused for answer in answers) else 0


def _request(words: Sequence[str], reason: str) -> Request:
    """Return the request for the command and arguments in *words*, with its *reason*.

    If the last argument is a list, it takes all remaining words. Raises UsageError.
    """
    from webcrawl.configuration.old_names import unknown
    from webcrawl.control.table import COMMANDS, usage
    from webcrawl.crawl.job.control_journal import Request

    name, *values = words
    if name not in COMMANDS:
        raise UsageError(unknown("command", name, COMMANDS))
    fields = COMMANDS[name].__struct_fields__  # the names of its arguments, in their order
    arguments: dict[str, Any] = dict(zip(fields, values, strict=False))
    if "..." in usage(name):
        arguments[fields[-1]] = values[len(fields) - 1 :]
    elif len(values) > len(fields):
        raise UsageError(f"usage: {COMMAND} control JOBDIR {usage(name)}")
    return Request(name, arguments, reason)


Command = make_command(
    _run, _options, syntax="[options] [JOBDIR] COMMAND [ARGUMENT ...]", json=True
)
