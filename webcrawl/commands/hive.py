"""Run one crawl in several processes of this machine.

"hive --drones N SPIDER" runs N drones. Each drone is a "scrapy crawl SPIDER" with
the same -a and -s options. A Redis is started for them unless REDIS_URL names one. Ctrl-C stops all
drones with checkpoints; a second Ctrl-C stops them immediately. Run the same command again to
resume. "hive status" shows the hive and "hive stop" stops it with checkpoints, from another
terminal (with JOBDIR) or machine (with -s REDIS_URL and -s HIVE).

On several machines, drones with the same -s HIVE, -s REDIS_URL and -s HIVE_STORE are one hive, all
of which "hive status" shows and "hive stop" stops.

Examples:
  scrapy hive --drones 4 web -a seeds=seeds.txt -s JOBDIR=crawls/hive
  scrapy hive status crawls/hive

Exit codes:
  the same as "scrapy crawl", and also
  1  a drone died too often or did not stop in time
  2  there is no such hive
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from webcrawl.commands import (
    AddOption,
    Options,
    Settings,
    UsageError,
    choose_job,
    make_command,
    print_answer,
    refuse_options,
)
from webcrawl.configuration.values import number, port_number
from webcrawl.wording import COMMAND, escape_controls

_TIMEOUT_SECS = 120.0


def _options(add: AddOption) -> None:
    """Add the options of ``scrapy hive``."""
    from webcrawl.jobs.arguments import duration

    add(
        "--drones",
        type=int,
        metavar="N",
        help="processes to run on this machine",
    )
    add(
        "-a",
        dest="spargs",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a spider argument (may be repeated)",
    )
    add(
        "--timeout",
        type=duration,
        metavar="SECS",
        help="with stop: how long to wait for the drones to end (default: 120)",
    )


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    """Run, show or stop a hive; return the exit code."""
    from webcrawl.configuration.old_names import unknown

    if args[:1] == ["up"]:
        raise UsageError(unknown("command", "up", ("status", "stop"), command="hive"))
    use = args[0] if args[:1] in (["status"], ["stop"]) else ""
    if use:
        refuse_options(opts, use, ("drones", "spargs"))
    if use != "stop":
        refuse_options(opts, use or "drones", ("timeout",))
    if use != "status":
        refuse_options(opts, use or "drones", ("json",))
    if opts.timeout is None:
        opts.timeout = _TIMEOUT_SECS
    if use:
        choose_job(args[1:], settings)  # sets JOBDIR, which both read
        return (_status if use == "status" else _stop)(opts, settings)
    if opts.drones is not None and len(args) == 1:
        return _run_here(args[0], opts, settings)
    raise UsageError(
        f"usage: {COMMAND} hive --drones N SPIDER -a NAME=VALUE -s NAME=VALUE, or {COMMAND} hive "
        "status|stop"
    )


def _run_here(spider: str, opts: Options, settings: Settings) -> int:
    """Run the drones of a hive on this machine and return the exit code."""
    from webcrawl.crawl.engine.user_messages import print_error
    from webcrawl.errors import FatalError
    from webcrawl.hive.launch.child_process import PERMANENT_ERRORS
    from webcrawl.hive.launch.crawl_stats import hive_summary
    from webcrawl.hive.launch.status import find_status, table
    from webcrawl.hive.launch.supervisor import LocalHive, Supervisor
    from webcrawl.hive.membership.asking import hive_name
    from webcrawl.monitor.launch import MonitorProcess
    from webcrawl.states import CrawlState

    name = hive_name(settings)
    monitor_port = port_number(settings, "MONITOR_PORT")
    every = number(settings, "STATISTICS_INTERVAL_SECS", at_least=0) or math.inf  # 0 means never
    hive = LocalHive(
        name=name,
        jobdir=Path(settings["JOBDIR"]),
        drones=opts.drones,
        spider=spider,
        arguments=opts.spargs,
        settings=opts.set,
        redis_url=settings.get("REDIS_URL") or "",
        store=settings.get("HIVE_STORE") or "",
        metrics_port=port_number(settings, "METRICS_PORT"),
    )

    async def table_text() -> str:
        """Return the table of the hive, as ``scrapy hive status`` prints it."""
        try:
            return "\n".join(table(name, await find_status(name, settings)))
        except FatalError:  # no drone runs yet
            return f"hive {name}  {CrawlState.STARTING}"

    supervisor = Supervisor(
        hive=hive,
        say=lambda text: print_error(f"{text}\n"),
        table=table_text,
        table_secs=every,
        monitor=MonitorProcess(settings) if monitor_port else None,
    )
    code = asyncio.run(supervisor.run())
    if code not in PERMANENT_ERRORS:  # for those, a better message was printed
        print_error(hive_summary(hive.jobdir, [*map(hive.directory, range(hive.drones))]))
    return code


def _status(opts: Options, settings: Settings) -> int:
    """Print the state of a hive: as recorded in its Redis or, while that is away, in JOBDIR."""
    from webcrawl.crawl.job.ports import ports_of
    from webcrawl.hive.launch.status import find_status, table
    from webcrawl.hive.membership.asking import hive_name

    name = hive_name(settings)
    status = asyncio.run(find_status(name, settings))
    port = ports_of(Path(settings["JOBDIR"])).get("monitor")
    rows = [*table(name, status), *([f"the monitor is on port {port}"] if port else [])]
    print_answer(status, "\n".join((*rows, "")), as_json=opts.json)
    return 0


def _stop(opts: Options, settings: Settings) -> int:
    """Stop all drones of a hive with checkpoints, and wait for them."""
    from webcrawl.hive.launch.status import stop_and_wait
    from webcrawl.hive.launch.supervisor import end_leftover_redis, held_locks
    from webcrawl.hive.membership.asking import ask_hive, hive_name

    name = hive_name(settings)
    jobdir = Path(settings["JOBDIR"])
    # A hive on this machine has its own Redis, which ends with it. Locks then show who still runs.
    is_local = not settings.get("REDIS_URL")
    processes = partial(held_locks, jobdir) if is_local else None

    async def stop() -> Sequence[str]:
        """Stop the drones; return the names of those that are still running."""
        ask = partial(stop_and_wait, secs=opts.timeout, processes=processes)
        try:
            return await ask_hive(name, settings, ask)
        finally:
            if is_local:
                await end_leftover_redis(jobdir)

    if still_running := asyncio.run(stop()):
        names = ", ".join(still_running)
        sys.stderr.write(
            f"hive: still running after {opts.timeout:g} s: {escape_controls(names)}\n"
        )
        return 1
    print(f"hive {name}: all drones have stopped, with checkpoints")
    return 0


Command = make_command(
    _run,
    _options,
    syntax="--drones N SPIDER | status|stop [JOBDIR]",
    json=True,
)
