"""Serve a simulated internet on this machine, to try a crawl on.

Serves HTTP, HTTPS, FTP, Gopher and DNS on loopback addresses. FTP and Gopher are served by the
shares of hosts that you give with --world ftp=0.02 and --world gopher=0.02.

With a COMMAND, serves until COMMAND ends. In COMMAND, {seeds}, {dns}, {log} and {gopher} are
replaced by the seeds file, the name server, the access log and the Gopher port.

Seeds file and access log belong to one simulated web: FILE.web next to each describes it, and
another web is refused there. Free ports are chosen unless you give them. They are saved next to the
seeds file and used again if they are still free, because the URLs of a resumed crawl contain them.

Examples:
  scrapy simweb --hosts 500 --seed 7
  scrapy simweb -- scrapy crawl web -a seeds={seeds} -s DNS_SERVERS={dns}
    -s ALLOW_PRIVATE_ADDRESSES=1

Exit codes:
  as of COMMAND (128 + the signal's number if a signal ended it), or without one
  0  stopped by Ctrl-C, SIGTERM or --seconds
  1  the server died
  2  unusable options
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from webcrawl.commands import Group, Options, Settings, make_command
from webcrawl.errors import FatalError
from webcrawl.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webcrawl.simweb import SimWebProcess, World

_DIRECTORY = Path("crawls/simweb")
_PORTS = ("http_port", "https_port", "ftp_port", "gopher_port")
# How often we check that the server and the command are still running.
_POLL_SECS = 0.1


def _options(group: Group) -> None:
    from webcrawl.simweb import PRESETS

    add = group.add_argument
    add("--hosts", type=int, metavar="N", help="number of hosts (default: 2000)")
    add("--seed", type=int, metavar="N", help="the same seed gives the same web (default: 1)")
    add(
        "--profile",
        dest="preset",
        choices=sorted(PRESETS),
        default="mercator",
        help="mercator: the web of the year 2000, with faults (default); today: larger pages, "
        "gzip; clean: no faults; bench: a million equal pages; bench-today: a million pages "
        "like today's; broad: 20,000 hosts, many new links; graph: 100 small pages per host",
    )
    ports = "default: as in the last run, or a free port; 0 for any free port"
    add("--http-port", type=int, metavar="PORT", help=ports)
    add("--https-port", type=int, metavar="PORT", help=ports)
    add(
        "--dns-port",
        type=int,
        metavar="PORT",
        default=0,
        help="UDP port of the name server on 127.0.0.1 (default: any free port)",
    )
    add(
        "--access-log",
        type=Path,
        metavar="FILE",
        help="append all requests to FILE (default: access.log next to the seeds file)",
    )
    add(
        "--seeds-file",
        type=Path,
        metavar="FILE",
        default=_DIRECTORY / "seeds.txt",
        help=f"write the seeds to FILE (default: {_DIRECTORY}/seeds.txt)",
    )
    add("--truth", type=Path, metavar="FILE", help="write the URLs that a crawl has to find")
    add("--seconds", type=float, default=math.inf, metavar="N", help="stop after N seconds")
    add(
        "--world",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a parameter of World in webcrawl/simweb/world.py, such as mean_pages=20, "
        "faults.stall=0 (share of hosts with this fault), ftp=0.02 or gopher=0.02 (may be "
        "repeated)",
    )
    # Our --profile replaces Scrapy's, but Scrapy still reads the value of its own.
    group.set_defaults(profile=None)


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    from webcrawl.simweb import SimWebError

    command = args[1:] if args[:1] == ["--"] else args
    try:
        with _signals() as signals:
            return _serve(command, opts, signals, settings)
    except SimWebError as error:
        raise FatalError(str(error)) from error


def _serve(command: list[str], opts: Options, signals: list[int], settings: Settings) -> int:
    from webcrawl.simweb import write_seeds, write_truth

    if command and command[0].startswith("-"):
        raise FatalError(f"there is no option {command[0]}; put a command after --")
    if not opts.seconds > 0:
        raise FatalError(f"--seconds must be positive, not {opts.seconds:g}")
    if not 0 <= opts.dns_port <= 65535:
        raise FatalError(f"--dns-port must be from 0 to 65535, not {opts.dns_port}")
    log_path: Path = opts.access_log or opts.seeds_file.with_name("access.log")
    for path in (log_path, opts.seeds_file, opts.truth):
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
    _keep_webs_apart(opts, (opts.seeds_file, log_path))
    noted = opts.seeds_file.with_name("ports.json")
    with _started(opts, noted, log_path=log_path, dns_port=opts.dns_port) as web:
        noted.write_text(json.dumps({name: getattr(web.world, name) for name in _PORTS}))
        write_seeds(web.world, opts.seeds_file)
        if opts.truth is not None:
            agent = settings["ROBOTSTXT_USER_AGENT"] or settings["USER_AGENT"]
            write_truth(web.world, agent, opts.truth)
        if command:
            names = {"seeds": opts.seeds_file, "dns": web.dns, "log": log_path}
            names |= {"gopher": web.world.gopher_port}
            return _run_command(_filled(command, names), web, opts.seconds, signals)
        _describe(web, log_path, opts)
        return _wait(web, opts.seconds, signals)


def _keep_webs_apart(opts: Options, paths: tuple[Path, ...]) -> None:
    """Record which web *paths* belong to. Raises FatalError if one belongs to another web."""
    world = _world(opts, {})
    ours = repr(dataclasses.replace(world, http_port=0, https_port=0, ftp_port=0, gopher_port=0))
    files = [path for path in paths if path.is_file() or not path.exists()]
    notes = {path: Path(f"{path}.web") for path in files}
    for path, note in notes.items():
        if path.exists() and note.exists() and note.read_text() != ours:
            raise FatalError(
                f"{path} belongs to another simulated web ({note}): name other files with "
                "--seeds-file and --access-log, or delete both."
            )
    for note in notes.values():
        note.write_text(ours)


def _started(opts: Options, noted: Path, **options: Any) -> SimWebProcess:
    """Start the server on the ports in the file *noted*, or on others if one is in use."""
    from webcrawl.configuration.decoding import UndecodableError, json_decoder
    from webcrawl.simweb import SimWebError, start_in_process

    decode = json_decoder(dict[str, int])
    with contextlib.suppress(OSError, UndecodableError, SimWebError):
        return start_in_process(_world(opts, decode(noted.read_bytes())), **options)
    return start_in_process(_world(opts, dict.fromkeys(_PORTS, 0)), **options)


def _world(opts: Options, ports: dict[str, int]) -> World:
    """Return the world of the options, on *ports* where the options name none."""
    from webcrawl.simweb import Faults, World, preset

    base = preset(opts.preset)
    kinds = {f.name: type(getattr(base, f.name)) for f in dataclasses.fields(World) if f.init}
    kinds |= {f"faults.{f.name}": float for f in dataclasses.fields(Faults)}
    del kinds["faults"], kinds["names"]
    given: dict[str, Any] = {}
    numbers = ("hosts", "seed", "http_port", "https_port")
    own = [f"{name}={value}" for name in numbers if (value := getattr(opts, name)) is not None]
    noted = [f"{name}={port}" for name, port in ports.items()]
    for text in noted + own + opts.world:
        name, separator, value = text.partition("=")
        if name not in kinds or not separator:
            known = ", ".join(kinds)
            raise FatalError(f"--world takes NAME=VALUE, not {text!r}; the names are {known}")
        try:
            given[name] = kinds[name](value)
        except ValueError:
            kind = "a whole number" if kinds[name] is int else "a number"
            raise FatalError(f"--world {name} needs {kind}, not {value!r}") from None
    faults = {one.removeprefix("faults."): given.pop(one) for one in [*given] if "." in one}
    return preset(opts.preset, **given, faults=dataclasses.replace(base.faults, **faults))


def _filled(command: list[str], names: dict[str, object]) -> list[str]:
    """Return *command* with its placeholders replaced; other braces stay."""
    pattern = re.compile("{(" + "|".join(names) + ")}")
    return [pattern.sub(lambda match: str(names[match[1]]), word) for word in command]


def _describe(web: SimWebProcess, log_path: Path, opts: Options) -> None:
    """Print the names, addresses and files of the server, and the command to crawl it."""
    world = web.world
    options = ["-s", f"DNS_SERVERS={web.dns}", "-s", "ALLOW_PRIVATE_ADDRESSES=1"]
    if world.gopher:
        options += ["-s", f"GOPHER_PORTS={world.gopher_port}"]
    crawl = shlex.join(
        ["scrapy", "crawl", "web", "-a", f"seeds={opts.seeds_file}", *options],
    )
    last = world.host(world.hosts - 1).name
    addresses = world.address_list()
    ports = f"HTTP on port {world.http_port}"
    if world.https_share:
        ports += f", HTTPS on port {world.https_port}"
    own = [
        f"{name} on port {port}"
        for name, share, port in (
            ("FTP", world.ftp, world.ftp_port),
            ("Gopher", world.gopher, world.gopher_port),
        )
        if share
    ]
    others = f"\n              {', '.join(own)}, on an address for each host" if own else ""
    truth = f"\n  truth       {opts.truth}" if opts.truth else ""
    print(
        f"The simulated internet is up: {counted(world.hosts, 'host')}, seed {world.seed}, "
        f"{opts.preset}.\n"
        f"  names       site00000.sim.test to {last}, by DNS on {web.dns} (UDP)\n"
        f"  addresses   {addresses[0]} to {addresses[-1]}, {ports}{others}\n"
        f"  seeds       {opts.seeds_file} ({counted(world.seed_hosts, 'URL')})\n"
        f"  access log  {log_path}{truth}\n"
        f"  crawl it    {crawl}\n"
        "Stop it with Ctrl-C.",
        flush=True,
    )


@contextlib.contextmanager
def _signals() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM in a list, instead of their usual effect."""
    received: list[int] = []
    old = {
        number: signal.signal(number, lambda number, _: received.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield received
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _wait(web: SimWebProcess, seconds: float, signals: list[int]) -> int:
    """Serve until a signal arrives or *seconds* have passed."""
    end = time.monotonic() + seconds
    while not signals and time.monotonic() < end:
        if web.wait(_POLL_SECS):
            sys.stderr.write("simweb: the server died\n")
            return 1
    return 0


def _run_command(command: list[str], web: SimWebProcess, seconds: float, signals: list[int]) -> int:
    """Run *command* to its end and return its exit code.

    It gets SIGTERM after *seconds*, and then all the time it needs. All *signals* are passed on to
    it and its children.
    """
    if signals:
        return 128 + signals[0]
    end = time.monotonic() + seconds
    # Commands of this Python environment are found even if it is not activated.
    our_bin = str(Path(sys.executable).parent)
    environment = os.environ | {"PATH": os.environ.get("PATH", "") + os.pathsep + our_bin}
    try:
        # In its own process group: otherwise a Ctrl-C at the terminal would reach it twice, once
        # directly and once through us, and Scrapy stops immediately at the second one.
        process = subprocess.Popen(  # noqa: S603 (running what the user asks for is the point)
            command, env=environment, process_group=0
        )
    except OSError as error:
        raise FatalError(f"cannot run {command[0]}: {error.strerror}") from error
    died = False
    while True:
        while signals:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signals.pop(0))
        try:
            code = process.wait(_POLL_SECS)
            break
        except subprocess.TimeoutExpired:
            pass
        if not web.running and not died:
            died = True
            sys.stderr.write("simweb: the server died; the command continues without it\n")
        if time.monotonic() >= end:
            end = math.inf
            signals.append(signal.SIGTERM)
    if died:
        return code or 1
    return code if code >= 0 else 128 - code


Command = make_command(_run, syntax="[options] [-- COMMAND ...]", options=_options)
