"""Try a crawl on a simulated web, in virtual time.

Runs the crawl command after "--" with its own settings and processing modules, in one process, for
some thousand requests. The hosts of its seeds and others that they link to are simulated, and so
are latencies, name servers and robots.txt. Virtual time skips all waiting. A rehearsal shows
whether settings, scope and modules do what you want before you crawl for a week. It does not
predict what the real hosts contain. The same --seed gives the same crawl.

All output goes to the rehearsal's directory, which the next rehearsal clears. Anything that would
send data elsewhere is switched off. Modules find REHEARSAL=True in the settings.

Examples:
  scrapy rehearse -- crawl web -a seeds=example.org -s URL_SCOPE=domain
  scrapy rehearse --contacts 5000 --seed 2 -- crawl web -a seeds=seeds.txt

Exit codes:
  the same as the crawl command; 2 if it cannot be rehearsed
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings
from scrapy.spiderloader import get_spider_loader

from webcrawl.commands import AddOption, Options, Settings, make_command
from webcrawl.configuration.secrets import masked_url
from webcrawl.errors import FatalError
from webcrawl.wording import COMMAND, counted

_DIRECTORY = Path("crawls/rehearsal")
_ORDERS_FILE = "rehearsal.json"
# Settings that send data elsewhere or need other processes.
_SWITCHED_OFF = ("HIVE", "OUTPUT_STORE", "REDIS_URL", "REDIS_HOST")
_MAX_HOSTS = 100_000
# Simulated hosts for each host of the seeds, and their minimum number.
_HOSTS_PER_SEED_HOST = 3
_MIN_HOSTS = 200


def _options(add: AddOption) -> None:
    """Add the options of ``scrapy rehearse``."""
    from webcrawl.jobs.arguments import whole

    add(
        "--seed",
        type=whole(0),
        default=1,
        metavar="N",
        help="number of the simulated web; each number is another web (default: 1)",
    )
    add(
        "--contacts",
        type=whole(1),
        default=30_000,
        metavar="N",
        help="stop after N requests (default: 30000)",
    )
    add(
        "--directory",
        type=Path,
        default=_DIRECTORY,
        metavar="DIR",
        help=f"directory for all output (default: {_DIRECTORY})",
    )


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    """Run the crawl command in *args* on a simulated web; return its exit code."""
    import msgspec

    from webcrawl.hive.launch.job_directories import is_crawl
    from webcrawl.sim.__main__ import Orders
    from webcrawl.storage.atomic import write_atomic

    command = args[1:] if args[:1] == ["--"] else args
    directory: Path = opts.directory.absolute()
    options, words = _split_command(command)
    crawl = _crawl_settings(words[1], options, settings)
    _clear(directory)
    arguments = dict(argument.partition("=")[::2] for argument in options.a)  # NAME=VALUE
    urls = _seed_urls(words[1], arguments, crawl, directory)
    hosts = len({urlsplit(url).hostname for url in urls})
    overrides, switched_off = _overrides(
        directory, crawl, has_own_feeds=bool(options.output or options.overwrite)
    )
    orders = Orders(
        seed=opts.seed,
        contacts=opts.contacts,
        hosts=max(_MIN_HOSTS, _HOSTS_PER_SEED_HOST * hosts),
        urls=urls,
        settings=overrides,
        command=[
            *words,
            *(f"-s{setting}" for setting in options.set),
            *(f"-a{name}={value}" for name, value in arguments.items()),
            *(f"-o{_feed_file(directory, uri)}" for uri in options.output),
            *(f"-O{_feed_file(directory, uri)}" for uri in options.overwrite),
        ],
        access_log=directory / "access.log",
    )

    path = directory / _ORDERS_FILE
    write_atomic(path, msgspec.json.encode(orders, enc_hook=str))
    print(
        f"rehearsal: simulating the {counted(hosts, 'host')} of the seeds and "
        f"{orders.hosts - hosts} others, their pages, robots.txt and name servers, the network and "
        f"the time (seed {opts.seed}). No real host is contacted."
    )
    if switched_off:
        print(f"rehearsal: switched off: {', '.join(switched_off)}")
    sys.stdout.flush()

    code = _run_module("webcrawl.sim", str(path))
    if is_crawl(Path(overrides["JOBDIR"])):  # otherwise the command was refused
        _run_module("scrapy", "report", overrides["JOBDIR"])
    return code


def _run_module(*words: str) -> int:
    """Run a module, with arguments in *words*, in a new process, and return its exit code.

    The process has the same import path as this one.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", *words]
    return subprocess.run(command, env=environment, check=False).returncode  # noqa: S603  # our own


def _clear(directory: Path) -> None:
    """Empty *directory*. Raises FatalError if it contains anything except a rehearsal."""
    if directory.exists():
        if any(directory.iterdir()) and not (directory / _ORDERS_FILE).exists():
            raise FatalError(
                f"{directory} is not a rehearsal's directory: choose another with --directory."
            )
        shutil.rmtree(directory)
    directory.mkdir(parents=True)
    (directory / _ORDERS_FILE).touch()  # marks the directory, even if the rehearsal fails early


def _split_command(command: list[str]) -> tuple[Options, list[str]]:
    """Split *command* into the options that a rehearsal must change, and all other words.

    Raises FatalError if it is not a crawl command.
    """
    # The name stands in error messages, before the crawl command.
    parser = argparse.ArgumentParser(f"{COMMAND} rehearse -- scrapy", add_help=False)
    parser.add_argument("-s", "--set", action="append", default=[])
    parser.add_argument("-a", action="append", default=[])
    parser.add_argument("-o", "--output", action="append", default=[])
    parser.add_argument("-O", "--overwrite-output", dest="overwrite", action="append", default=[])
    options, words = parser.parse_known_args(command)
    if words[:1] != ["crawl"] or len(words) < 2:
        raise FatalError(
            f"Put a crawl command after --, such as: {COMMAND} rehearse -- crawl web ..."
        )
    return options, words


def _crawl_settings(spider: str, options: Options, settings: Settings) -> Settings:
    """Return the settings that a crawl of *spider* would have with *options*.

    *settings* are those of the project. Raises FatalError for an unknown spider or a bad value.
    """
    crawl = settings.copy()
    loader = get_spider_loader(crawl)
    if spider not in loader.list():
        raise FatalError(f"There is no spider {spider}: {COMMAND} list shows them.")
    loader.load(spider).update_settings(crawl)
    for assignment in options.set:
        name, _, value = assignment.partition("=")
        try:
            crawl.set(name, value, priority="cmdline")
        except (TypeError, ValueError) as error:  # invalid JSON
            raise FatalError(f"{name}={value} cannot be read: {error}.") from error
    return crawl


def _feed_file(directory: Path, uri: str) -> Path:
    """Return the file in *directory* to which a feed goes instead of *uri*."""
    return directory / "feeds" / Path(uri).name


def _seed_urls(
    spider: str, arguments: dict[str, str], crawl: Settings, directory: Path
) -> list[str]:
    """Return the URLs with which the crawl starts: its seeds or the start_urls of *spider*.

    Seeds from standard input are saved to a file in *directory*, which then replaces "-" in
    *arguments*. Raises FatalError if there are no seeds or too many.
    """
    from webcrawl.crawl.seeds.seed_reader import SPOOL_NAME, STDIN, SeedReader, split_sources

    if "seeds" not in arguments:
        urls = list(getattr(get_spider_loader(crawl).load(spider), "start_urls", []))
    else:
        sources = split_sources(arguments["seeds"])
        replacements = {STDIN: str(directory / SPOOL_NAME)}
        arguments["seeds"] = ",".join(replacements.get(source, source) for source in sources)
        reader = SeedReader(sources=sources, spool_dir=directory, stdin=sys.stdin.buffer)
        reader.open(None)
        urls = []
        while seeds := reader.read(_MAX_HOSTS):
            urls += [seed.url for seed in seeds]
            if len(urls) > _MAX_HOSTS:
                raise FatalError(
                    f"A rehearsal takes at most {_MAX_HOSTS:,} seeds: shorten the list."
                )
        reader.close()
    if not urls:
        raise FatalError("A rehearsal must know the seeds: give them with -a seeds=...")
    return urls


def _overrides(
    directory: Path, crawl: BaseSettings, *, has_own_feeds: bool
) -> tuple[dict[str, Any], list[str]]:
    """Return settings that keep all output in *directory*, and the names of what is switched off.

    *crawl* has the settings of the crawl. With *has_own_feeds*, feeds of the command line replace
    those of the settings.
    """
    overrides: dict[str, Any] = {"REHEARSAL": True, "JOBDIR": str(directory / "job")}
    # The loop of virtual time has no sockets.
    overrides |= {"METRICS_PORT": 0, "MONITOR_PORT": 0, "WEBSUB_PORT": 0}
    switched_off = [name for name in _SWITCHED_OFF if crawl.get(name)]
    overrides |= dict.fromkeys(switched_off)  # None is as if they were not set
    if (crawl.getpriority("LOG_LEVEL") or 0) < SETTINGS_PRIORITIES["spider"]:
        overrides["LOG_LEVEL"] = "WARNING"  # one progress line per ten virtual seconds is too much
    # Put all directories and files that settings name into *directory*.
    for name in crawl.keys() - overrides.keys():
        value = crawl[name]
        if (
            name.endswith(("_DIR", "_STORE", "LOG_FILE"))
            and isinstance(value, str | Path)
            and value
        ):
            overrides[name] = str(directory / name.lower())

    feeds = {}  # those that are files, now in *directory*
    for uri, options in crawl.getdict("FEEDS").items():
        target = urlsplit(str(uri))
        if target.scheme in ("", "file"):
            feeds[str(_feed_file(directory, target.path))] = options
        else:
            switched_off.append(f"the feed {masked_url(str(uri))}")
    if feeds != crawl.getdict("FEEDS") and not has_own_feeds:
        overrides["FEEDS"] = feeds
    return overrides, switched_off


Command = make_command(_run, _options, syntax="[options] -- crawl SPIDER ...")
