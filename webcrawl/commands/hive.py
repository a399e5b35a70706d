"""Run one crawl in several processes.

scrapy hive plan says what a large crawl takes: machines, traffic, disk, memory, cost; every
assumption is an option. Exit code: 0 done, 2 unusable input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from webcrawl.commands import offline, print_answer

if TYPE_CHECKING:
    import argparse

    from scrapy.settings import Settings


def _options(group: argparse._ArgumentGroup) -> None:
    import dataclasses

    from webcrawl.hive.plan import Assumptions

    add = group.add_argument
    add("--json", action="store_true", help="for machines")
    for field in dataclasses.fields(Assumptions):
        add(
            "--" + field.name.replace("_", "-"),
            type=float,
            default=field.default,
            metavar="N",
            help=f"plan: {field.metadata['about']}; default {field.default:.10g}",
        )


def _run(args: list[str], opts: argparse.Namespace, settings: Settings) -> int:  # noqa: ARG001
    if args == ["plan"]:
        return _plan(opts)
    raise UsageError("say: scrapy hive plan [options]", print_help=False)


def _plan(opts: argparse.Namespace) -> int:
    import dataclasses

    from webcrawl.hive.plan import Assumptions, plan, plan_text

    names = [field.name for field in dataclasses.fields(Assumptions)]
    given = Assumptions(**{name: getattr(opts, name) for name in names})
    result = plan(given)
    print_answer(result, lambda: plan_text(result, given), as_json=opts.json)
    return 0


Command = offline(_run, syntax="plan [options]", options=_options)
