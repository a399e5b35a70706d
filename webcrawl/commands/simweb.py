"""Serve a simulated internet on this machine, to try out crawls.

Serves HTTP, HTTPS, FTP, Gopher and DNS on loopback addresses. By default no host serves FTP or
Gopher; set their shares with --world ftp=0.02 and --world gopher=0.02.

With a COMMAND, serves until COMMAND ends. In COMMAND, {seeds}, {dns}, {log} and {gopher} are
replaced by the seeds file, the name server, the access log and the Gopher port.

The seeds file and the access log belong to one simulated web: FILE.web next to each describes it,
and another web is refused there. Free ports are chosen unless you give them. They are saved next to
the seeds file and used again if they are still free, because URLs of a resumed crawl contain them.

Examples:
  scrapy simweb --hosts 500 --seed 7
  scrapy simweb -- scrapy crawl web -a seeds={seeds} -s DNS_SERVERS={dns}
    -s ALLOW_PRIVATE_ADDRESSES=1

Exit codes:
  the same as COMMAND (128 + the signal's number if a signal ended it); without one:
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

from webcrawl.commands import AddOption, Options, Settings, make_command
from webcrawl.errors import FatalError
from webcrawl.wording import counted

if TYPE_CHECKING:
    from webcrawl.simweb import SimWebProcess, World

_DIRECTORY = Path("crawls/simweb")
_PORTS = ("http_port", "https_port", "ftp_port", "gopher_port")
# Interval of the checks whether the server and the command are still running.
_POLL_SECS = 0.1


def _options(add: AddOption) -> None:
    """Add the options of ``scrapy simweb``."""
    from webcrawl.jobs.arguments import duration, whole
    from webcrawl.simweb import PRESETS

    add("--hosts", type=int, metavar="N", help="number of hosts (default: 2000)")
    add("--seed", type=int, metavar="N", help="the same seed gives the same web (default: 1)")
    add(
        "--profile",
        dest="preset",
        choices=sorted(PRESETS),
        default="mercator",
        help="mercator: the web of the year 2000, with faults (default); today: larger pages, "
        "gzip; clean: no faults; guarded: three in ten hosts refuse crawlers; bench: a million "
        "equal pages; bench-today: a million pages like today's; broad: 20,000 hosts, many new "
        "links; graph: 100 small pages per host; rights: owners say what pages may be used for; "
        "rendered: small sites of all kinds that need a browser; partly-rendered: like clean, but "
        "a tenth of the pages need a browser",
    )
    ports = "default: as in the last run, or a free port; 0 for any free port"
    add("--http-port", type=int, metavar="PORT", help=ports)
    add("--https-port", type=int, metavar="PORT", help=ports)
    add(
        "--dns-port",
        type=whole(0, 65_535),
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
    add("--seconds", type=duration, default=math.inf, metavar="N", help="stop after N seconds")
    add(
        "--world",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a parameter of World in webcrawl/simweb/world.py, such as mean_pages=20, "
        "faults.stall=0 (share of hosts with this fault), ftp=0.02 or gopher=0.02 (may be "
        "repeated)",
    )


def _run(args: list[str], opts: Options, settings: Settings) -> int:  # noqa: ARG001  # of all commands
    """Serve a simulated web, for the command in *args* if there is one; return the exit code."""
    from webcrawl.simweb import SimWebError

    command = args[1:] if args[:1] == ["--"] else args
    try:
        return _serve(command, opts, _collect_signals())
    except SimWebError as error:
        raise FatalError(str(error)) from error


def _serve(command: list[str], opts: Options, signals: list[int]) -> int:
    """Serve the simulated web until *command* ends, or until stopped; return the exit code.

    *signals* is the list that gets each SIGINT and SIGTERM.
    """
    from webcrawl.simweb import write_seeds

    if command and command[0].startswith("-"):
        raise FatalError(f"there is no option {command[0]}; put a command after --")

    log_path: Path = opts.access_log or opts.seeds_file.with_name("access.log")
    for path in (log_path, opts.seeds_file):
        path.parent.mkdir(parents=True, exist_ok=True)
    _refuse_other_web(opts, (opts.seeds_file, log_path))
    ports_file = opts.seeds_file.with_name("ports.json")

    with _start_server(opts, ports_file, log_path=log_path, dns_port=opts.dns_port) as web:
        ports_file.write_text(json.dumps({name: getattr(web.world, name) for name in _PORTS}))
        write_seeds(web.world, opts.seeds_file)
        if command:
            placeholders = {"seeds": opts.seeds_file, "dns": web.dns, "log": log_path}
            placeholders |= {"gopher": web.world.gopher_port}
            return _run_command(
                _fill_placeholders(command, placeholders), web, opts.seconds, signals
            )
        _describe(web, log_path, opts)
        return _serve_until_stopped(web, opts.seconds, signals)


def _refuse_other_web(opts: Options, paths: tuple[Path, ...]) -> None:
    """Record which simulated web *paths* belong to, in a note next to each.

    Raises FatalError if one belongs to another web.
    """
    world = _world_of_options(opts, {})
    # On other ports it is still the same web.
    description = repr(
        dataclasses.replace(world, http_port=0, https_port=0, ftp_port=0, gopher_port=0)
    )
    # Devices and pipes, such as /dev/null, belong to no web.
    files = [path for path in paths if path.is_file() or not path.exists()]
    notes = {path: Path(f"{path}.web") for path in files}

    for path, note in notes.items():
        if path.exists() and note.exists() and note.read_text() != description:
            raise FatalError(
                f"{path} belongs to another simulated web ({note}): name other files with "
                "--seeds-file and --access-log, or delete both."
            )
    for note in notes.values():
        note.write_text(description)


def _start_server(opts: Options, ports_file: Path, **options: Any) -> SimWebProcess:
    """Start the server on the ports recorded in *ports_file*, or on others if one is in use.

    *options* as for ``start_in_process``.
    """
    from webcrawl.configuration.decoding import UndecodableError, json_decoder
    from webcrawl.simweb import SimWebError, start_in_process

    decode = json_decoder(dict[str, int])
    # This fails in the first run, which finds no ports, and if a recorded port is in use. If it
    # fails for another reason, the second call fails, too.
    with contextlib.suppress(OSError, UndecodableError, SimWebError):
        return start_in_process(_world_of_options(opts, decode(ports_file.read_bytes())), **options)
    return start_in_process(_world_of_options(opts, dict.fromkeys(_PORTS, 0)), **options)


def _world_of_options(opts: Options, ports: dict[str, int]) -> World:
    """Return the world that *opts* describe; *ports* are used where the options name none.

    Raises FatalError for an invalid parameter.
    """
    from webcrawl.simweb import Faults, World, preset

    base = preset(opts.preset)
    # The parameters that may be given, and the type of each. Faults are a part of the world.
    types = {f.name: type(getattr(base, f.name)) for f in dataclasses.fields(World)}
    types |= {f"faults.{f.name}": float for f in dataclasses.fields(Faults)}
    del types["faults"], types["names"]

    parameters: dict[str, Any] = {}
    numbers = ("hosts", "seed", "http_port", "https_port")
    from_options = [
        f"{name}={value}" for name in numbers if (value := getattr(opts, name)) is not None
    ]
    from_ports = [f"{name}={port}" for name, port in ports.items()]
    # Of two values of a parameter, the later one is used.
    for text in from_ports + from_options + opts.world:
        name, separator, value = text.partition("=")
        if name not in types or not separator:
            known = ", ".join(types)
            raise FatalError(f"--world takes NAME=VALUE, not {text!r}; the names are {known}")
        try:
            parameters[name] = types[name](value)
        except ValueError:
            expected = "a whole number" if types[name] is int else "a number"
            raise FatalError(f"--world {name} needs {expected}, not {value!r}") from None
    faults = {
        name.removeprefix("faults."): parameters.pop(name) for name in [*parameters] if "." in name
    }
    return preset(opts.preset, **parameters, faults=dataclasses.replace(base.faults, **faults))


def _fill_placeholders(command: list[str], names: dict[str, object]) -> list[str]:
    """Return *command* with the placeholders in *names* replaced; other braces stay."""
    pattern = re.compile("{(" + "|".join(names) + ")}")
    return [pattern.sub(lambda match: str(names[match[1]]), word) for word in command]


def _describe(web: SimWebProcess, log_path: Path, opts: Options) -> None:
    """Print the names, addresses and files of the server, and the command to crawl it."""
    world = web.world
    options = ["-s", f"DNS_SERVERS={web.dns}", "-s", "ALLOW_PRIVATE_ADDRESSES=1"]
    if world.gopher:
        options += ["-s", f"GOPHER_PORTS={world.gopher_port}"]
    crawl = shlex.join(["scrapy", "crawl", "web", "-a", f"seeds={opts.seeds_file}", *options])
    last_name = world.host(world.hosts - 1).name
    addresses = world.address_list()
    # Name, whether there are such hosts, and port.
    services = (
        ("HTTP", True, world.http_port),
        ("HTTPS", world.https_share, world.https_port),
        ("FTP", world.ftp, world.ftp_port),
        ("Gopher", world.gopher, world.gopher_port),
    )
    ports = ", ".join(f"{name} on port {port}" for name, is_served, port in services if is_served)
    print(
        f"The simulated internet is up: {counted(world.hosts, 'host')}, seed {world.seed}, "
        f"{opts.preset}.\n"
        f"  names       site00000.sim.test to {last_name}, by DNS on {web.dns} (UDP)\n"
        f"  addresses   {addresses[0]} to {addresses[-1]}, {ports}\n"
        f"  seeds       {opts.seeds_file} ({counted(world.seed_hosts, 'URL')})\n"
        f"  access log  {log_path}\n"
        f"  crawl it    {crawl}\n"
        "Stop it with Ctrl-C.",
        flush=True,
    )


def _collect_signals() -> list[int]:
    """Return a list that gets each SIGINT and SIGTERM, which have no other effect from now on."""
    received: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: received.append(number))
    return received


def _serve_until_stopped(web: SimWebProcess, seconds: float, signals: list[int]) -> int:
    """Serve until a signal arrives or *seconds* have passed; return 1 if the server dies."""
    end = time.monotonic() + seconds
    while not signals and time.monotonic() < end:
        if web.wait(_POLL_SECS):
            sys.stderr.write("simweb: the server died\n")
            return 1
    return 0


def _run_command(command: list[str], web: SimWebProcess, seconds: float, signals: list[int]) -> int:
    """Run *command* until it ends, and return its exit code.

    After *seconds* it receives SIGTERM, and then has all the time it needs. All *signals* are
    passed on to it and its children.
    """
    if signals:  # stopped before the command was started; the code is that of a shell
        return 128 + signals[0]
    deadline = time.monotonic() + seconds
    # Commands of this Python environment are found even if it is not activated.
    bin_directory = str(Path(sys.executable).parent)
    environment = os.environ | {"PATH": os.environ.get("PATH", "") + os.pathsep + bin_directory}
    try:
        # The command gets its own process group. Otherwise Ctrl-C at the terminal would reach it
        # twice, directly and through this process, and Scrapy stops immediately at the second one.
        process = subprocess.Popen(  # noqa: S603 (running what the user asks for is the point)
            command, env=environment, process_group=0
        )
    except OSError as error:
        raise FatalError(f"cannot run {command[0]}: {error.strerror}") from error

    server_died = False
    while True:
        while signals:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signals.pop(0))
        try:
            code = process.wait(_POLL_SECS)
            break
        except subprocess.TimeoutExpired:
            pass
        if not web.running and not server_died:
            server_died = True
            sys.stderr.write("simweb: the server died; the command continues without it\n")
        if time.monotonic() >= deadline:
            deadline = math.inf  # the signal is sent once
            signals.append(signal.SIGTERM)
    if server_died:
        return code or 1
    return code if code >= 0 else 128 - code  # -N means that signal N ended it


Command = make_command(_run, _options, syntax="[options] [-- COMMAND ...]")
