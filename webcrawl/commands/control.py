"""Send a command to a running crawl.

"scrapy control JOBDIR help" names the commands with their arguments. What a command changes holds
until another one ends it, over restarts and kill -9; it is in JOBDIR/logs/control.jsonl with its
time, origin and reason. On a terminal drop, which cannot be undone, says first how many URLs are
parked, and asks. Exit code: 0 done, 1 not wanted, 2 refused, or no such crawl runs.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from webcrawl.commands import Group, Options, Settings, UsageError, job_first, offline, print_answer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from webcrawl.control.control import CommandAnswer
    from webcrawl.crawl.job.control_journal import Request


def _options(group: Group) -> None:
    add = group.add_argument
    add("--reason", default="", metavar="WHY", help="to be kept with the command")
    add("--yes", action="store_true", help="do not ask")


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    from webcrawl.control.sending import send_to_crawl

    words = job_first(args, settings)
    if not words or words[0] == "help":
        print(_help(), end="")
        return 0
    request = _request(words, opts.reason)
    asks = request.name == "drop" and sys.stdin.isatty() and not (opts.yes or opts.json)
    if asks and not _is_wanted(request, settings):
        return 1
    return _tell(send_to_crawl(settings, request), as_json=opts.json)


def _is_wanted(request: Request, settings: Settings) -> bool:
    """Whether the user wants the drop *request*, having been told how many URLs are parked."""
    from webcrawl.control.sending import send_to_crawl
    from webcrawl.crawl.job.control_journal import Request

    host, reason = (request.arguments.get(name, "") for name in ("host", "reason"))
    parked = sum(one.parked.get(reason, 0) for one in send_to_crawl(settings, Request("state")))
    if not parked:
        return True
    print(f"{parked:,} URLs are parked for {reason}. Those of {host} will be given up.")
    return input("Give them up? [y/N] ").lower() in {"y", "yes"}


def _tell(answers: list[CommandAnswer], *, as_json: bool) -> int:
    lines = (f"{one.drone}: {one.said}\n".removeprefix(": ") for one in answers)
    result = answers if answers[0].drone else answers[0]
    print_answer(result, lambda: "".join(lines), as_json=as_json)
    return 2 if any(answer.refused for answer in answers) else 0


def _request(words: Sequence[str], reason: str) -> Request:
    """The command that *words* are; a list as the last argument takes all the rest. UsageError."""
    from webcrawl.control.table import COMMANDS, usage
    from webcrawl.crawl.job.control_journal import Request

    name, *rest = words
    if name not in COMMANDS:
        raise UsageError(f"there is no command {name!r}: scrapy control help")
    fields = COMMANDS[name].__struct_fields__
    found: dict[str, Any] = dict(zip(fields, rest, strict=False))
    if "..." in usage(name):
        found[fields[-1]] = rest[len(fields) - 1 :]
    elif len(rest) > len(fields):
        raise UsageError(f"say: scrapy control JOBDIR {usage(name)}")
    return Request(name, found, reason)


def _help() -> str:
    from webcrawl.control.table import COMMANDS, usage

    return "".join(f"{usage(name):<24} {kind.__doc__}\n" for name, kind in COMMANDS.items())


Command = offline(
    _run, syntax="[options] [JOBDIR] COMMAND [ARGUMENT ...]", options=_options, json=True
)
