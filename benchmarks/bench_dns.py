"""Names resolved per second from a name server that takes 200 ms for each answer.

    python benchmarks/bench_dns.py [--rounds 3] [--names 4000] [--thread-names 300]

The rows, each in a process of its own on the same event loop, uvloop:

* ``getaddrinfo``: Twisted's own resolver, the C library in the reactor's threads, of which there
  are as many as Scrapy starts (REACTOR_THREADPOOL_MAXSIZE, 10);
* ``scrapy``: Scrapy's default, CachingThreadedResolver, in the same threads;
* ``webcrawl``: this project's resolver, which finds the name server in /etc/resolv.conf as well.

No name is asked for twice. The threads get fewer names, since more would change nothing but the
wait. The C library asks only the name servers of /etc/resolv.conf, on port 53. So the benchmark
starts itself again in a mount and a network namespace of its own (unshare(1)), where that file
names the simulated web's name server; where it may not do that, it says so and measures nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import json
import os
import resource
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import uvloop

from webcrawl.net.dns.resolver import Resolver
from webcrawl.simweb import Faults, World, start_in_process

ROWS = ("getaddrinfo", "scrapy", "webcrawl")
NAMES_AT_ONCE = 2000  # asked for before the first answer is there
_SIOCSIFFLAGS = 0x8914
_UP = 1


def _world(hosts: int) -> World:
    return World(hosts=hosts, http_port=0, https_share=0.0, faults=Faults.none())


# --- one row, one round: in a process of its own ---------------------------------------------


def _measure(row: str, numbers: range, hosts: int) -> None:
    world = _world(hosts)
    expected = {world.host(n).name: world.host(n).address for n in numbers}
    before = _cpu()
    if row == "webcrawl":
        took, found = uvloop.run(_by_webcrawl(list(expected)))
    else:
        took, found = _by_threads(list(expected), caching=row == "scrapy")
    cpu = _cpu() - before
    wrong = sum(found[name] != address for name, address in expected.items())
    print(json.dumps({"took": took, "cpu": cpu, "names": len(numbers), "wrong": wrong}))


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def _by_webcrawl(names: list[str]) -> tuple[float, dict[str, str]]:
    from scrapy.settings import Settings

    resolver = Resolver.from_settings(Settings())
    room = asyncio.Semaphore(NAMES_AT_ONCE)

    async def resolve(name: str) -> str:
        async with room:
            return (await resolver.resolve(name))[0]

    begin = time.perf_counter()
    addresses = await asyncio.gather(*map(resolve, names))
    took = time.perf_counter() - begin
    await resolver.close()
    return took, dict(zip(names, addresses, strict=True))


def _by_threads(names: list[str], *, caching: bool) -> tuple[float, dict[str, str]]:
    from scrapy.settings import default_settings as defaults
    from scrapy.utils.reactor import install_reactor

    install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor", "uvloop.Loop")
    from scrapy.resolver import CachingThreadedResolver
    from twisted.internet import reactor
    from twisted.internet.defer import Deferred, gatherResults

    found: dict[str, str] = {}
    begin = took = 0.0
    if caching:
        CachingThreadedResolver(
            reactor, defaults.DNSCACHE_SIZE, defaults.DNS_TIMEOUT
        ).install_on_reactor()

    class Receiver:
        """Takes the first address of one name, as HostnameEndpoint does."""

        def __init__(self, name: str) -> None:
            self.name = name
            self.done: Deferred[None] = Deferred()

        def resolutionBegan(self, resolution: object) -> None:
            pass

        def addressResolved(self, address: object) -> None:
            found.setdefault(self.name, address.host)

        def resolutionComplete(self) -> None:
            found.setdefault(self.name, "")
            self.done.callback(None)

    def start() -> None:
        nonlocal begin
        begin = time.perf_counter()
        waiting = []
        for name in names:
            receiver = Receiver(name)
            reactor.nameResolver.resolveHostName(receiver, name)
            waiting.append(receiver.done)
        gatherResults(waiting).addCallback(stop)

    def stop(_: object) -> None:
        nonlocal took
        took = time.perf_counter() - begin
        reactor.stop()

    reactor.suggestThreadPoolSize(defaults.REACTOR_THREADPOOL_MAXSIZE)
    reactor.callWhenRunning(start)
    reactor.run()
    return took, found


# --- all rounds: in the namespaces ------------------------------------------------------------


def _run_all(args: argparse.Namespace) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        up = struct.pack("16sh14x", b"lo", _UP)
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, up)
    counts = {row: args.names if row == "webcrawl" else args.thread_names for row in ROWS}
    hosts = args.rounds * sum(counts.values())
    results: dict[str, list[dict[str, float]]] = {row: [] for row in ROWS}
    with tempfile.TemporaryDirectory() as directory:
        _mount(directory, "/etc/resolv.conf", "nameserver 127.0.0.1\n")
        # No cache of this machine's between the C library and the name server.
        _mount(directory, "/etc/nsswitch.conf", "hosts: files dns\n")
        world = _world(hosts)
        with start_in_process(world, log_path=None, dns_port=53, dns_latency=args.latency):
            first = 0
            for turn in range(args.rounds):
                for row in ROWS:
                    command = [
                        *(sys.executable, __file__, "--row", row, "--first", str(first)),
                        *("--count", str(counts[row]), "--hosts", str(hosts)),
                    ]
                    out = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
                    result = json.loads(out)
                    results[row].append(result)
                    first += counts[row]
                    print(
                        f"round {turn + 1}  {row:12} {result['names']:5} names in "
                        f"{result['took']:6.2f} s, {result['wrong']} of them wrong",
                        flush=True,
                    )
    _print_table(results, args.latency)


def _mount(directory: str, path: str, text: str) -> None:
    file = Path(directory) / Path(path).name
    file.write_text(text)
    subprocess.run(["mount", "--bind", str(file), path], check=True)


def _print_table(results: dict[str, list[dict[str, float]]], latency: float) -> None:
    rates = {
        row: statistics.median((r["names"] - r["wrong"]) / r["took"] for r in rounds)
        for row, rounds in results.items()
    }
    print(f"\nmedian of {len(results['webcrawl'])} rounds, {latency * 1000:.0f} ms a query")
    print(f"{'resolver':12} {'names/s':>9} {'ratio':>7} {'CPU ms/name':>12}")
    for row, rounds in results.items():
        cpu = statistics.median(1000 * r["cpu"] / r["names"] for r in rounds)
        print(f"{row:12} {rates[row]:9.1f} {rates[row] / rates['scrapy']:7.1f} {cpu:12.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--names", type=int, default=4000)
    parser.add_argument("--thread-names", type=int, default=300)
    parser.add_argument("--latency", type=float, default=0.2)
    for name in ("--row", "--inside"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    for name in ("--first", "--count", "--hosts"):
        parser.add_argument(name, type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.row:
        _measure(args.row, range(args.first, args.first + args.count), args.hosts)
    elif args.inside:
        _run_all(args)
    else:
        apart = ["unshare", "--map-root-user", "--mount", "--net"]
        probe = [*apart, "mount", "--bind", "/etc/nsswitch.conf", "/etc/resolv.conf"]
        try:
            subprocess.run(probe, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as e:
            why = getattr(e, "stderr", "") or str(e)
            sys.exit(
                "bench_dns measures nothing here: it cannot have a mount and a network namespace "
                f"with an /etc/resolv.conf of its own ({why.strip()}). Run it as root on Linux."
            )
        os.execvp("unshare", [*apart, sys.executable, *sys.argv, "--inside", "yes"])


if __name__ == "__main__":
    main()
