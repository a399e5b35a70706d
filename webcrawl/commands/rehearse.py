"""Rehearse a crawl in virtual time against a simulated web.

Runs COMMAND, a crawl with its settings and processing modules as they are, for some thousand
contacts in one process, in a time that jumps over all waiting: the hosts of its seeds, and others
that they link to, are simulated, as are latencies, name servers and robots.txt. Shows whether
settings, scope and modules do what they are meant to do, before a week of crawling; it is no
forecast of what the real hosts have. The same seed gives the same crawl.

All that is written goes below the rehearsal's directory, which an earlier rehearsal leaves to the
next one; what would be sent elsewhere is switched off. Modules find REHEARSAL=True in the settings.
Example: scrapy rehearse --contacts 5000 -- crawl web -a seeds=example.org -s URL_SCOPE=domain

Exit code: that of COMMAND, 2 for one that cannot be rehearsed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from scrapy.settings import SETTINGS_PRIORITIES

from webcrawl.commands import offline
from webcrawl.errors import FatalError
from webcrawl.wording import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from scrapy.settings import BaseSettings, Settings

_DIRECTORY: Final = Path("crawls/rehearsal")
_ORDERS: Final = "rehearsal.json"
# What is sent elsewhere, or needs others.
_OFF: Final = ("HIVE", "OUTPUT_STORE", "REDIS_URL", "REDIS_HOST")
_MOST_HOSTS: Final = 100_000
# Hosts that are simulated besides those of the seeds, for each of these and at least.
_OTHERS, _FEWEST = 3, 200


def _options(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--seed", type=int, default=1, metavar="N", help="another one is another web (default: 1)")
    add(
        "--contacts",
        type=int,
        default=30_000,
        metavar="N",
        help="stop after N requests (default: 30000)",
    )
    add(
        "--directory",
        type=Path,
        default=_DIRECTORY,
        metavar="DIR",
        help=f"where all is written (default: {_DIRECTORY})",
    )


def _run(args: list[str], opts: argparse.Namespace, settings: Settings) -> int:
    from webcrawl.sim.__main__ import Orders
    from webcrawl.storage.atomic import write_atomic

    command = args[1:] if args[:1] == ["--"] else args
    if command[:1] != ["crawl"] or len(command) < 2 or opts.contacts < 1 or opts.seed < 0:
        raise FatalError("it takes a crawl after --, as in: scrapy rehearse -- crawl web -a ...")
    directory: Path = opts.directory.absolute()
    _clear(directory)
    crawl = _settings_of(command, settings)
    urls = _seeds(command, crawl, directory)
    hosts = len({urlsplit(url).hostname for url in urls})
    own = list(_own_files(command, directory))
    overrides, off = _below(directory, crawl, has_own_feeds=own != command)
    orders = Orders(
        seed=opts.seed,
        contacts=opts.contacts,
        hosts=max(_FEWEST, _OTHERS * hosts),
        urls=urls,
        settings=overrides,
        command=own,
        access_log=directory / "access.log",
    )
    path = directory / _ORDERS
    write_atomic(path, _encoded(orders))
    print(
        f"rehearsal: {counted(hosts, 'host')} of the seeds and {orders.hosts - hosts} others are "
        "simulated, with their pages, robots.txt and name servers, the network and the time (seed "
        f"{opts.seed}); nothing is sent to real ones."
    )
    if off:
        print(f"rehearsal: switched off: {', '.join(off)}")
    sys.stdout.flush()
    code = _run_module("webcrawl.sim", str(path))
    _run_module("scrapy", "report", overrides["JOBDIR"])
    return code


def _run_module(*words: str) -> int:
    """The exit code of a module in a process of its own, which finds what is found here."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", *words]
    return subprocess.run(command, env=environment, check=False).returncode  # noqa: S603  # our own


def _encoded(orders: object) -> bytes:
    import msgspec

    return msgspec.json.encode(orders, enc_hook=str)


def _clear(directory: Path) -> None:
    """An empty *directory*. FatalError if there is something else in it than a rehearsal."""
    if directory.exists():
        if any(directory.iterdir()) and not (directory / _ORDERS).exists():
            raise FatalError(f"{directory} holds something else: name another with --directory.")
        shutil.rmtree(directory)
    directory.mkdir(parents=True)


def _settings_of(command: list[str], settings: Settings) -> Settings:
    """The *settings* of the crawl that *command* runs."""
    from scrapy.spiderloader import get_spider_loader

    crawl = settings.copy()
    loader = get_spider_loader(crawl)
    if command[1] not in loader.list():
        raise FatalError(f"there is no spider {command[1]}: scrapy list shows them.")
    loader.load(command[1]).update_settings(crawl)
    for name, value in _values(command, "-s"):
        try:
            crawl.set(name, value, priority="cmdline")
        except ValueError as error:  # of JSON
            raise FatalError(f"{name}={value} cannot be read: {error}.") from error
    return crawl


def _values(command: list[str], option: str) -> Iterator[tuple[str, str]]:
    """The NAME=VALUE of *option* in *command*, as pairs."""
    for word, value in pairwise([*command, ""]):
        if word == option:
            name, _, text = value.partition("=")
            yield name, text
        elif word.startswith(f"{option}") and word != option and "=" in word:
            name, _, text = word.removeprefix(option).partition("=")
            yield name, text


def _seeds(command: list[str], crawl: Settings, directory: Path) -> list[str]:
    """The URLs from which the crawl starts: its seeds, or those of a spider of Scrapy."""
    from scrapy.spiderloader import get_spider_loader

    from webcrawl.crawl.seeds.seed_reader import SeedReader, split_sources

    seeds = dict(_values(command, "-a")).get("seeds")
    if seeds is None:
        urls = list(getattr(get_spider_loader(crawl).load(command[1]), "start_urls", []))
    else:
        reader = SeedReader(
            sources=split_sources(seeds), spool_dir=directory, stdin=sys.stdin.buffer
        )
        reader.open(None)
        urls = []
        while found := reader.read(_MOST_HOSTS):
            urls += [seed.url for seed in found]
            if len(urls) > _MOST_HOSTS:
                raise FatalError(
                    f"a rehearsal takes {_MOST_HOSTS:,} seeds: give it the first ones."
                )
        reader.close()
    if not urls:
        raise FatalError("a rehearsal needs to know the seeds: name them with -a seeds=...")
    return urls


def _below(
    directory: Path, crawl: BaseSettings, *, has_own_feeds: bool
) -> tuple[dict[str, Any], list[str]]:
    """Settings by which all is written below *directory*, and what is switched off. Feeds of the
    command line take the place of those of settings."""
    given: dict[str, Any] = {"REHEARSAL": True, "JOBDIR": str(directory / "job")}
    off = [name for name in _OFF if crawl.get(name)]
    given |= dict.fromkeys(off)
    if (crawl.getpriority("LOG_LEVEL") or 0) < SETTINGS_PRIORITIES["spider"]:
        given["LOG_LEVEL"] = "WARNING"  # a line every ten seconds is much where time jumps
    for name in crawl.keys() - given.keys():
        value = crawl[name]
        if (
            name.endswith(("_DIR", "_STORE", "LOG_FILE"))
            and isinstance(value, str | Path)
            and value
        ):
            given[name] = str(directory / name.lower())
    feeds = {}
    for uri, options in crawl.getdict("FEEDS").items():
        where = urlsplit(str(uri))
        if where.scheme in ("", "file"):
            feeds[str(directory / "feeds" / Path(where.path).name)] = options
        else:
            off.append(f"the feed {uri}")
    if feeds != crawl.getdict("FEEDS") and not has_own_feeds:
        given["FEEDS"] = feeds
    return given, off


def _own_files(command: list[str], directory: Path) -> Iterator[str]:
    """*command*, with the files of its feeds in *directory*."""
    before = ""
    for word in command:
        is_file = before in {"-o", "-O", "--output", "--overwrite-output"}
        yield str(directory / "feeds" / Path(word).name) if is_file else word
        before = word


Command = offline(_run, syntax="[options] -- crawl SPIDER ...", options=_options)
