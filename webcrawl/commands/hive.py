"""Run one crawl in several processes.

With --drones N it runs N drones of the SPIDER on this machine, each a scrapy crawl with the
arguments -a and the settings -s, and a Redis for them unless REDIS_URL names one. Ctrl-C stops all
with checkpoints, twice at once; the same command goes on.

With --hosts FILE, which names the scrapyds of many machines: up deploys this checkout and runs a
drone of the SPIDER on each, or --drones, with the arguments -a and the settings -s, among them
HIVE, REDIS_URL and HIVE_STORE. status asks all of them, stop cancels all, with checkpoints; both
need -s HIVE=NAME. A machine that does not answer is named and does not hold up the others.

scrapy hive plan says what a large crawl takes: machines, traffic, disk, memory, cost; every
assumption is an option. Exit code: that of scrapy crawl, 1 also if a drone died too often, or if
not all is well on each machine.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from webcrawl.commands import hive_hosts, offline, print_answer
from webcrawl.configuration.values import number

if TYPE_CHECKING:
    import argparse

    from scrapy.settings import Settings


def _options(group: argparse._ArgumentGroup) -> None:
    import dataclasses

    from webcrawl.hive.plan import Assumptions

    add = group.add_argument
    add("--drones", type=int, metavar="N", help="drones on this machine, or on each")
    add(
        "-a",
        dest="spargs",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an argument of the spider (may be repeated)",
    )
    hive_hosts.add_options(group)
    add("--json", action="store_true", help="for machines")
    for field in dataclasses.fields(Assumptions):
        add(
            "--" + field.name.replace("_", "-"),
            type=float,
            default=field.default,
            metavar="N",
            help=f"plan: {field.metadata['about']}; default {field.default:.10g}",
        )


def _run(args: list[str], opts: argparse.Namespace, settings: Settings) -> int:
    if opts.hosts:
        return hive_hosts.run(args, opts, settings)
    if args == ["plan"]:
        return _plan(opts)
    if opts.drones and len(args) == 1:
        return _run_here(args[0], opts, settings)
    raise UsageError(
        "say: scrapy hive --drones N SPIDER -a NAME=VALUE -s NAME=VALUE, "
        "scrapy hive up|status|stop --hosts FILE, or scrapy hive plan",
        print_help=False,
    )


def _run_here(spider: str, opts: argparse.Namespace, settings: Settings) -> int:
    import asyncio

    from webcrawl.clock import now
    from webcrawl.hive.status import local_table
    from webcrawl.hive.supervisor import LocalHive, Supervisor
    from webcrawl.hive.terminal import TerminalView

    hive = LocalHive(
        name=str(settings.get("HIVE") or spider),
        jobdir=Path(settings["JOBDIR"]),
        drones=opts.drones,
        spider=spider,
        arguments=opts.spargs,
        settings=opts.set,
        redis_url=settings.get("REDIS_URL") or "",
    )
    began = now()
    supervisor = Supervisor(
        hive=hive,
        view=TerminalView(
            stream=sys.stderr,
            every=number(settings, "STATISTICS_INTERVAL_SECS", 10.0, at_least=0.1),
            clock=now,
        ),
        clock=now,
        table=lambda one: local_table(one, now() - began),
    )
    return asyncio.run(supervisor.run())


def _plan(opts: argparse.Namespace) -> int:
    import dataclasses

    from webcrawl.hive.plan import Assumptions, plan, plan_text

    names = [field.name for field in dataclasses.fields(Assumptions)]
    given = Assumptions(**{name: getattr(opts, name) for name in names})
    result = plan(given)
    print_answer(result, lambda: plan_text(result, given), as_json=opts.json)
    return 0


Command = offline(_run, syntax="--drones N SPIDER [options] | plan [options]", options=_options)
