"""Send a command to a running crawl.

"scrapy control JOBDIR help" names the commands with their arguments. What a command changes holds
until another one ends it, over restarts and kill -9; it is in JOBDIR/logs/control.jsonl with its
time, origin and reason. exclude and drop say first about how many URLs they take, and ask on a
terminal. Exit code: 0 done, 1 not wanted, 2 refused, or no such crawl runs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from webcrawl.commands import job_first, offline, print_answer

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from typing import Any

    from scrapy.settings import Settings


def _options(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--reason", default="", metavar="WHY", help="to be kept with the command")
    add("--preview", action="store_true", help="only say what the command would take")
    add("--yes", action="store_true", help="do not ask")
    add("--json", action="store_true", help="for machines")


def _run(args: list[str], opts: argparse.Namespace, settings: Settings) -> int:
    from webcrawl.control.control import Request
    from webcrawl.control.unix_socket import send

    words = job_first(args, settings)
    if not words or words[0] == "help":
        print(_help())
        return 0
    name, *words = words
    request = Request(name, _arguments(name, words), opts.reason)
    jobdir = Path(settings["JOBDIR"])
    if opts.preview or not (opts.yes or opts.json):
        about = send(jobdir, Request(name, request.arguments, preview=True))
        if opts.preview:
            print_answer(about, lambda: f"{about.said}\n", as_json=opts.json)
            return 0
        if about.urls is not None:
            print(f"{name} takes about {about.urls:,} URLs")
            if sys.stdin.isatty() and input("Go on? [y/N] ").lower() not in {"y", "yes"}:
                return 1
    answer = send(jobdir, request)
    print_answer(answer, lambda: f"{answer.said}\n", as_json=opts.json)
    return 0


def _arguments(name: str, words: Sequence[str]) -> dict[str, Any]:
    """*words* as the arguments of the command *name*; its last one takes all the rest if it is a
    list. UsageError."""
    from msgspec.structs import fields

    from webcrawl.control.table import COMMANDS

    if name not in COMMANDS:
        raise UsageError(f"there is no command {name!r}; scrapy control help names all")
    found: dict[str, Any] = {}
    left = [*words]
    for field in fields(COMMANDS[name]):
        if _is_list(field.type):
            found[field.name], left = left, []
        elif left:
            found[field.name] = left.pop(0)
        elif field.required:
            raise UsageError(f"say: scrapy control JOBDIR {_usage(name)}")
    if left:
        raise UsageError(f"say: scrapy control JOBDIR {_usage(name)}")
    return found


def _is_list(kind: Any) -> bool:
    return "list[" in str(kind)


def _usage(name: str) -> str:
    from msgspec.structs import fields

    from webcrawl.control.table import COMMANDS

    words = [
        one.name.upper() + " ..." * _is_list(one.type) if one.required else f"[{one.name.upper()}]"
        for one in fields(COMMANDS[name])
    ]
    return " ".join([name, *words])


def _help() -> str:
    from webcrawl.control.table import COMMANDS

    lines = [
        (_usage(name), (kind.__doc__ or "").partition("\n")[0]) for name, kind in COMMANDS.items()
    ]
    return "\n".join(f"{usage:<24} {what}" for usage, what in lines)


Command = offline(_run, syntax="[options] [JOBDIR] COMMAND [ARGUMENT ...]", options=_options)
