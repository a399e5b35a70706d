"""``scrapy hive up|status|stop --hosts FILE``: its options, and what it prints.

A part of the command hive (commands/hive.py), none by itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError
from scrapy.utils.conf import closest_scrapy_cfg

from webcrawl.configuration.values import whole
from webcrawl.errors import FatalError
from webcrawl.wording import visible

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from scrapy.settings import Settings

    from webcrawl.hive.launch.scrapyd_hosts import Outcome


def add_options(group: argparse._ArgumentGroup) -> None:
    """Those that only this needs: -a and --drones are the command's."""
    group.add_argument(
        "--hosts",
        type=Path,
        metavar="FILE",
        help="up, status, stop: the machines' scrapyds, as http://user:password@machine:6800, a "
        "line each",
    )
    group.add_argument(
        "--timeout",
        type=float,
        default=120.0,
        metavar="SECS",
        help="for each of these machines; of stop, for all drones to end (default: 120)",
    )


def run(args: list[str], opts: argparse.Namespace, settings: Settings) -> int:
    """The exit code. FatalError, UsageError."""
    if args[:1] not in (["up"], ["status"], ["stop"]) or len(args) != 1 + (args[0] == "up"):
        raise UsageError(
            "say: scrapy hive up --hosts FILE SPIDER -a NAME=VALUE -s NAME=VALUE, or "
            "scrapy hive status|stop --hosts FILE -s HIVE=NAME"
        )
    is_good = True
    for outcome in _outcomes(args, opts, settings):
        print(visible(f"{outcome.machine}  {outcome.text}"), flush=True)
        is_good &= outcome.is_good
    return 0 if is_good else 1


def _outcomes(args: list[str], opts: argparse.Namespace, settings: Settings) -> Iterator[Outcome]:
    from webcrawl.hive.configuration import check_hive_settings
    from webcrawl.hive.launch.scrapyd_hosts import Order, build_egg, read_hosts, status, stop, up

    hive = check_hive_settings(settings).name
    machines = read_hosts(opts.hosts)
    if args[0] != "up":
        return (status if args[0] == "status" else stop)(machines, hive, secs=opts.timeout)
    order = Order(
        hive=hive,
        spider=args[1],
        arguments=opts.spargs or [],
        settings=opts.set,
        drones=opts.drones or 1,
        metrics_port=whole(settings, "METRICS_PORT", at_least=0),
    )
    order.check()
    if not settings.get("REDIS_URL"):
        raise FatalError("REDIS_URL is not set, which all machines must reach: -s REDIS_URL=URL.")
    store = str(settings.get("HIVE_STORE") or "")
    if "://" not in store and not Path(store).is_absolute():
        raise FatalError(
            f"HIVE_STORE must be a URL or a whole path, the same on all machines, not {store!r}."
        )
    egg = build_egg(Path(closest_scrapy_cfg()).parent)
    return up(machines, order, egg=egg, secs=opts.timeout)
