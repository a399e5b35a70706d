"""How well the doctor names what binds a crawl, and whether its advice helps.

    PYTHONPATH=. python benchmarks/bench_doctor.py [--real] [WORLD ...]

Each world is made so that one cause binds its crawl, or two. What the doctor says after a minute is
compared with that; if it names a setting, the crawl is repeated with that changed, and the advice
is true if that fetches at least a tenth more pages a second, to the end or to the last page. Most
worlds are simulated, in virtual time: half a minute of CPU each. With --real the others: crawls of
a minute and a quarter, one at a time, as they need a core for the crawler and one for its servers.
"""

# ruff: noqa: E501  # one world a line
from __future__ import annotations

import asyncio
import dataclasses
import os
import random
import re
import stat
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec
from stats_lines import EXTENSION, NAME

import webcrawl.spiders.web
from webcrawl.crawl.figures.counts import Counts
from webcrawl.crawl.process import Process
from webcrawl.sim.loop import BEGAN
from webcrawl.sim.network import Route
from webcrawl.sim.process import SETTINGS, simulate
from webcrawl.sim.web import DNS, SimulatedWeb
from webcrawl.simweb import chance, preset, start_in_process
from webcrawl.simweb.world import Faults as Hosts

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[1]
ASKED_SECS, END_SECS = 60.0, 75.0
BETTER = 1.1
MORE_HOSTS = 4
AGREED = '["sim.test"]\nowner_allows = true\ndelay = 0.2\n'
ONE_BY_ONE = "one_request_a_host"
# What they advise is not of a crawl: a network that works, space on a disk, a command.
UNJUDGED = ("outage", "paused")
USUAL = {
    "POLITENESS_MIN_DELAY": 1,
    "POLITENESS_DELAY_FACTOR": 1,
    "REPUTATION_BASE_PAGES": 0,
    "CLOSESPIDER_TIMEOUT": END_SECS,
    "CRAWLER_CONTACT": "https://example.org/crawler",
    "EXTENSIONS": f'{{"webcrawl.extensions.disk_guard.DiskGuard": null, "{EXTENSION}": 0}}',
    "LOG_LEVEL": "WARNING",
    "MEMUSAGE_ENABLED": 0,
}


class Net(NamedTuple):
    """The network: seconds until a name is found, names found in a second, and the share of answers
    that are lost; seconds more to each server, bytes a second from it; what becomes of all
    contacts after some seconds, or of those to the name server alone; and the answer of ANSWERS to
    all but robots.txt at a share of the addresses, or a connection that is closed in its place."""

    dns_secs: float = 0.0
    dns_rate: float = 0.0
    dns_loss: float = 0.0
    latency: float = 0.0
    bandwidth: float = 0.0
    fault: str = ""
    fault_at: float = 0.0
    only_dns: bool = False
    refusal: str = ""
    refusing: float = 0.0


@dataclasses.dataclass(frozen=True)
class World:
    """*truth* binds: a cause, or either of two. *more* is what an advised setting may be changed
    to, by its name, DNS_SERVERS to another network. Where more hosts or seeds are advised it gets
    four times as many; owners who agree are asked by a table AGREED, and the worse of both counts.
    A real one may have a disk that takes *disk_secs* for a write and ten times as many for a sync.
    The seeds of a simulated one come after *seeds_at* seconds, and its operator pauses it at
    *paused_at*."""

    truth: str
    web: dict[str, Any]
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    net: Net = Net()  # noqa: RUF009  # a value
    more: dict[str, Any] = dataclasses.field(default_factory=dict)
    is_real: bool = False
    disk_secs: float = 0.0
    seeds_at: float = 0.0
    paused_at: float = 0.0


def web(hosts: int, mean: int, most: int = 0, **others: Any) -> dict[str, Any]:
    return {"hosts": hosts, "mean_pages": mean, "max_pages": most or 2 * mean} | others


def rest(secs: float) -> dict[str, float]:
    return {"POLITENESS_MIN_DELAY": secs}


def workers(number: int, **others: Any) -> dict[str, Any]:
    return {"CONCURRENT_REQUESTS": number} | others


def real(
    truth: str, settings: dict[str, Any], disk: float = 0.0, *, more: Any = (), **of_web: Any
) -> World:
    fast = {"POLITENESS_MIN_DELAY": 0, "POLITENESS_DELAY_FACTOR": 0} | settings
    made = {"name": "bench", "hosts": 400, "mean_pages": 500, "max_pages": 2000} | of_web
    return World(truth, made, fast, more=dict(more), is_real=True, disk_secs=disk)


SEEDS: dict[str, Any] = {"seed_share": 1.0}
BIG = web(120, 60, **SEEDS)
NEW = BIG | {"pages_per_connection": 1}
# Hosts that throttle are slow, and have URLs left when others have none.
LEFT = web(60, 80, faults=Hosts(throttle=0.3), throttle_secs=15, **SEEDS)
ONE_PAGE = web(3000, 1, 2, **SEEDS)
PATIENT = {"DNS_QUERY_TIMEOUT_SECS": 60}
REVISIT = {"REVISIT": 1, "REVISIT_FIRST_SECS": "48h"}
PAGES = {"BUDGET_HOST_PAGES": 10**6}
FEW = web(30, 60, addresses=250, **SEEDS)
ANSWERS = {
    "429": b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n",
    "503": b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
    "challenge": b"HTTP/1.1 403 Forbidden\r\nCf-Mitigated: challenge\r\nContent-Length: 0\r\n\r\n",
    "login": b"HTTP/1.1 302 Found\r\nLocation: /login?next=%b\r\nContent-Length: 0\r\n\r\n",
}
WORLDS: dict[str, World] = {
    # politeness
    "one host": World("politeness", web(1, 500)),
    "five hosts": World("politeness", web(5, 200)),
    "30 hosts, rest 10": World("politeness", web(30, 60), rest(10)),
    "300 hosts, rest 20": World("politeness", web(300, 10), rest(20)),
    "100 hosts, 70 s": World("politeness", web(100, 20), {"POLITENESS_PROFILE": "nielsen"} | rest(70)),
    "Crawl-delay 10": World("politeness", web(60, 20, crawl_delays=1.0, max_crawl_delay=10), {}),
    "slow, factor 10": World("politeness", web(40, 40), {"POLITENESS_DELAY_FACTOR": 10}, Net(latency=1)),
    "throttling hosts": World("politeness refusals", web(60, 15, faults=Hosts(throttle=0.6), throttle_secs=5)),
    # workers
    "2 of 500 hosts": World("workers", web(500, 10, **SEEDS), workers(2), Net(latency=0.1)),
    "1 worker": World("workers", web(50, 40, **SEEDS), workers(1), Net(latency=0.2)),
    "4 workers": World("workers", BIG, workers(4), Net(latency=0.15)),
    "10, slow servers": World("workers", web(300, 10, **SEEDS), workers(10), Net(latency=0.5)),
    "20, slow lines": World("workers", BIG, workers(20), Net(bandwidth=5000)),
    "8, stalling hosts": World("workers", web(300, 10, faults=Hosts(stall=0.3), stall_secs=60, **SEEDS), workers(8)),
    "16, rest 0.5": World("workers", web(200, 20, **SEEDS), workers(16) | rest(0.5), Net(latency=0.4)),
    # budgets
    "10 pages a host": World("budgets", LEFT, {"BUDGET_HOST_PAGES": 10}, more=PAGES),
    "15 pages a host": World("budgets", LEFT, {"BUDGET_HOST_PAGES": 15}, more=PAGES),
    "15 pages a domain": World("budgets", LEFT, {"BUDGET_DOMAIN_PAGES": 15}, more={"BUDGET_DOMAIN_PAGES": 10**6}),
    "100 kB a host": World("budgets", LEFT, {"BUDGET_HOST_BYTES": 100_000}, more={"BUDGET_HOST_BYTES": 10**9, "BUDGET_HOST_PAGES": 0}),
    # outage
    "network mute": World("outage", NEW, net=Net(fault="mute", fault_at=25)),
    "network refuses": World("outage", NEW, net=Net(fault="refused", fault_at=25)),
    "connections drop": World("outage refusals", NEW, net=Net(fault="dropped", fault_at=25)),
    "no name servers": World("outage", web(2000, 3, **SEEDS), workers(20), Net(latency=0.2, fault="mute", fault_at=25, only_dns=True)),
    # name servers
    "5 names a second": World("name_servers", ONE_PAGE, PATIENT, Net(dns_rate=5), more={"DNS_SERVERS": Net()}),
    "15 names a second": World("name_servers", ONE_PAGE, PATIENT, Net(dns_rate=15), more={"DNS_SERVERS": Net()}),
    "names in 3 s": World("name_servers", ONE_PAGE, workers(30) | PATIENT, Net(dns_secs=3), more={"DNS_SERVERS": Net()}),
    "half of names lost": World("name_servers", ONE_PAGE, workers(40), Net(dns_loss=0.5, dns_secs=0.5), more={"DNS_SERVERS": Net()}),
    # rates
    "BANDWIDTH 1M": World("bandwidth", BIG, {"BANDWIDTH_MAX": 1_000_000}, more={"BANDWIDTH_MAX": 10**9}),
    "BANDWIDTH 300k": World("bandwidth", BIG, {"BANDWIDTH_MAX": 300_000}, more={"BANDWIDTH_MAX": 10**9}),
    "3 contacts/s": World("contact_rate", BIG, {"CONTACTS_MAX": 3}, more={"CONTACTS_MAX": 30}),
    "10 contacts/s": World("contact_rate", BIG, {"CONTACTS_MAX": 10}, more={"CONTACTS_MAX": 60}),
    # nothing left
    "all seen, visits later": World("nothing_left", web(10, 3, 5), REVISIT),
    "100 hosts, visits": World("nothing_left refusals", web(100, 1, 2, errors=0.0, **SEEDS), REVISIT),
    "one page, visits": World("nothing_left", web(1, 1, 2), REVISIT),
    # two causes
    "2: workers, names": World("workers name_servers", ONE_PAGE, workers(5) | PATIENT, Net(dns_rate=10, latency=0.2), {"DNS_SERVERS": Net(latency=0.2)}),
    "2: workers, bandwidth": World("workers bandwidth", BIG, workers(10, BANDWIDTH_MAX=2_000_000), Net(latency=0.3), {"BANDWIDTH_MAX": 10**9}),
    "2: workers, contacts": World("workers contact_rate", BIG, workers(5, CONTACTS_MAX=8), Net(latency=0.15), {"CONTACTS_MAX": 60}),
    "2: budgets, politeness": World("budgets politeness", web(20, 100, **SEEDS), {"BUDGET_HOST_PAGES": 40}, more=PAGES),
    "2: rounds, politeness": World("budgets politeness", web(8, 100), {"REPUTATION_BASE_PAGES": 4, "REPUTATION_ROUNDS": 3}, more={"REPUTATION_ROUNDS": 20}),
    "2: names, contacts": World("name_servers contact_rate", ONE_PAGE, {"CONTACTS_MAX": 12} | PATIENT, Net(dns_rate=12), {"DNS_SERVERS": Net(), "CONTACTS_MAX": 60}),
    "2: outage, workers": World("outage workers", web(300, 10, **SEEDS), workers(4), Net(latency=0.2, fault="mute", fault_at=40)),
    "2: budget, visits later": World("budgets nothing_left", web(20, 50, **SEEDS), {"BUDGET_HOST_PAGES": 3} | REVISIT, more=PAGES),
    "2: politeness, bandwidth": World("politeness bandwidth", web(40, 60), {"BANDWIDTH_MAX": 4_000_000}, more={"BANDWIDTH_MAX": 10**9}),
    "2: workers, politeness": World("workers politeness", web(40, 60, **SEEDS), workers(12), Net(latency=0.15)),
    # hosts that refuse
    "429 from most": World("refusals", FEW, net=Net(refusal="429", refusing=0.7)),
    "503 from most": World("refusals", FEW, net=Net(refusal="503", refusing=0.7)),
    "challenges": World("refusals", FEW, net=Net(refusal="challenge", refusing=0.7)),
    "logins": World("refusals", FEW, net=Net(refusal="login", refusing=0.7)),
    "most hang up": World("refusals", FEW, net=Net(refusal="none", refusing=0.7)),
    "429 from nearly all": World("refusals", FEW, net=Net(refusal="429", refusing=0.95)),
    "only refusing ones left": World("refusals", web(60, 8, **SEEDS), net=Net(refusal="503", refusing=0.4)),
    # pauses and starts
    "paused by control": World("paused", FEW, paused_at=30),
    "disk full": World(
        "paused", FEW, {"EXTENSIONS": f'{{"{EXTENSION}": 0}}', "DISK_MIN_FREE_BYTES": 10**18}
    ),
    "seeds after 70 s": World("starting", FEW, seeds_at=70),
    # one request at a time
    "slow answers": World("one_request_a_host", web(8, 400, **SEEDS), rest(0) | {"POLITENESS_DELAY_FACTOR": 0}, Net(latency=1)),
    "slow lines": World("one_request_a_host", web(12, 200, **SEEDS), rest(0.2) | {"POLITENESS_DELAY_FACTOR": 0}, Net(bandwidth=2000)),
    # budgets, and nothing else
    "3 pages a host, visits": World("budgets", web(30, 50, **SEEDS), {"BUDGET_HOST_PAGES": 3} | REVISIT, more=PAGES),
    "5 pages a domain, visits": World("budgets", web(30, 50, **SEEDS), {"BUDGET_DOMAIN_PAGES": 5} | REVISIT, more={"BUDGET_DOMAIN_PAGES": 10**6}),
    "50 kB a host, visits": World("budgets", web(30, 50, **SEEDS), {"BUDGET_HOST_BYTES": 50_000} | REVISIT, more={"BUDGET_HOST_BYTES": 10**9}),
    # real
    "CPU, small pages": real("cpu", {}),
    "CPU, large pages": real("cpu", {}, name="bench-today"),
    "CPU, 50 workers": real("cpu", workers(50)),
    "disk 20 ms": real("disk", {}, 0.02),
    "disk 100 ms": real("disk", {}, 0.1),
    "real BANDWIDTH 5M": real("bandwidth", {"BANDWIDTH_MAX": 5_000_000}, more={"BANDWIDTH_MAX": 10**9}),
}  # fmt: skip


class Servers(SimulatedWeb):
    """Those of a world, reached over *net*."""

    def __init__(self, world: World, net: Net, times: int) -> None:
        web = world.web | {"hosts": times * world.web["hosts"]}
        made = preset(**{"name": "clean", "network": 44, "seed": 3, **web})
        super().__init__(made, log=None)
        self._net = net
        self._random = random.Random(1).random
        self._free_at = 0.0

    def route(self, address: str) -> Route:
        net, usual = self._net, super().route(address)
        if address != DNS[0]:
            latency = usual.latency + net.latency
            return Route(latency, net.bandwidth or usual.bandwidth)
        if net.dns_rate:
            self._free_at = max(self._free_at, self._time()) + 1 / net.dns_rate
        wait = max(self._free_at - self._time(), 0.0)
        return Route((net.dns_secs + wait) / 2)

    def protocol(self, address: str, port: int) -> asyncio.Protocol:
        match self._fault(address):
            case "refused":
                raise ConnectionRefusedError(111, "Connection refused")
            case "mute":
                raise TimeoutError
            case "dropped":
                return _Dropping()
        at = chance.unit(chance.draw(9, chance.FAULT, int(address.replace(".", ""))))
        if address != DNS[0] and at < self._net.refusing:
            return _Refusing(ANSWERS.get(self._net.refusal, b""))
        return super().protocol(address, port)

    def answer(self, address: str, port: int, question: bytes) -> bytes | None:
        is_lost = self._random() < self._net.dns_loss
        return None if is_lost or self._fault(address) else super().answer(address, port, question)

    def _fault(self, address: str) -> str:
        net = self._net
        hits = self._time() >= net.fault_at and (address == DNS[0] or not net.only_dns)
        return net.fault if hits else ""


class _Dropping(asyncio.Protocol):
    """A connection that is accepted and dropped."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).close()


class _Refusing(asyncio.Protocol):
    """A connection with *answer* to each request, but for that of robots.txt."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        target = data.split(b" ", 2)[1]
        if target == b"/robots.txt":
            self._transport.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        elif self._answer:
            self._transport.write(self._answer.replace(b"%b", target))
        else:
            self._transport.close()


def slow_down(secs: float) -> None:
    """From now on a write to a file takes *secs*, and a sync ten times as many."""
    write, sync = os.write, os.fsync

    def slow_write(fd: int, data: Any) -> int:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            time.sleep(secs)
        return write(fd, data)

    def slow_sync(fd: int) -> None:
        time.sleep(10 * secs)
        sync(fd)

    vars(os).update(write=slow_write, fsync=slow_sync)


async def later(secs: float, work: Callable[[], object]) -> None:
    """What *work* does, after *secs*: a list of seeds that takes its time."""
    await asyncio.sleep(secs)
    work()


def pause_after(secs: float) -> None:
    """Do what `scrapy control pause` does, *secs* after the crawl has begun."""
    usual = Process.open

    def opened(process: Process, **options: Any) -> None:
        usual(process, **options)
        told = "Paused by command; scrapy control resume continues."
        asyncio.get_running_loop().call_later(secs, process.pauses.hold, "control", told)

    Process.open = opened  # type: ignore[method-assign,assignment]  # for this process alone


def crawl_here(name: str, net: Net, times: int, command: list[str]) -> None:
    """Run Scrapy's *command* in this process, which a world is made of."""
    world = WORLDS[name]
    if world.is_real:
        slow_down(world.disk_secs) if world.disk_secs else None
    else:
        simulate(3, Servers(world, net, times))
        if world.seeds_at:
            vars(webcrawl.spiders.web)["_in_daemon_thread"] = partial(later, world.seeds_at)
        if world.paused_at:
            pause_after(world.paused_at)
    from scrapy.cmdline import execute  # it may be that of a simulated process

    execute(["scrapy", *command])


class Seen(NamedTuple):
    """What the doctor said after a minute, and pages a second."""

    cause: str
    advice: str
    evidence: str
    pages: float


def crawled(name: str, directory: Path, net: Net, settings: dict[str, Any], times: int = 1) -> Seen:
    """The crawl of a world with so many *times* its hosts, over *net*, with other *settings*."""
    directory.mkdir()
    world, job, seeds = WORLDS[name], directory / "job", directory / "seeds"
    given = USUAL | world.settings | settings | {"JOBDIR": job}
    options = {"name": "clean", "network": 44, "seed": 3, **world.web}
    options["hosts"] *= times
    process = None
    if world.is_real:
        made = preset(**{**options, "network": 127, "http_port": 0, "https_port": 0})
        process = start_in_process(made, log_path=None)
        given |= {"DNS_SERVERS": process.dns, "ALLOW_PRIVATE_ADDRESSES": 1}
        made = process.world
    else:
        made = preset(**options)
        given |= SETTINGS
    seeds.write_text("\n".join(made.seeds()) + "\n")
    command = ["crawl", "web", "-a", f"seeds={seeds}"]
    command += [word for one, value in given.items() for word in ("-s", f"{one}={value}")]
    order = msgspec.json.encode([name, net, times, command]).decode()
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    run = [sys.executable, __file__, "--crawl", order]
    try:
        done = subprocess.run(
            run, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
    finally:
        if process is not None:
            process.stop()
    if not (job / NAME).exists():
        sys.exit(f"{name}: {done.stderr[-2000:]}")
    return seen(job)


def seen(job: Path) -> Seen:
    """What the diagnoses and the stats of a crawl say."""
    diagnoses, stats = (
        [msgspec.json.decode(line) for line in (job / name).read_bytes().splitlines()]
        for name in ("logs/stats.jsonl", NAME)
    )
    first = min(line["at"] for line in (*diagnoses, *stats))
    began = min(BEGAN, first) if first < BEGAN + 1000 else first - 7
    told = [line for line in diagnoses if line["at"] - began >= ASKED_SECS - 11]
    pages = [(one["at"] - began, Counts.of(one).pages) for one in stats]
    most = max([count for _, count in pages], default=0)
    rate = most / next((secs for secs, count in pages if count == most), 1.0)
    if not told:
        return Seen("(ended)", "", "", rate)
    asked = next((one for one in told if one["at"] - began >= ASKED_SECS - 1), told[-1])
    diagnosis = asked["doctor"]["diagnosis"]
    return Seen(diagnosis["cause"], diagnosis.get("advice", ""), diagnosis["evidence"], rate)


def judge(name: str, directory: Path) -> tuple[str, bool, float | None]:
    """A row of the table, whether the cause was right, and how many times as fast the advised
    setting made it; None if there was no advice."""
    world = WORLDS[name]
    first = crawled(name, directory / "as-is", world.net, {})
    ratio = None
    if "add hosts" in first.advice or "add seeds" in first.advice:
        second = crawled(name, directory / "more", world.net, {}, MORE_HOSTS)
        ratio = second.pages / max(first.pages, 0.01)
        if "owners agree" in first.advice:
            table = directory / "hosts.toml"
            parallel = "parallel = 4\n" if first.cause == ONE_BY_ONE else ""
            table.write_text(AGREED + parallel)
            agreed = {"HOSTS_POLICY_FILE": table}
            second = crawled(name, directory / "agreed", world.net, agreed)
            ratio = min(ratio, second.pages / max(first.pages, 0.01))
    elif first.advice and first.cause not in UNJUDGED:
        words = re.findall(r"[A-Z][A-Z_]{5,}", first.advice)
        number = re.search(r"=(\d+)", first.advice)
        more = dict.fromkeys(words, number[1]) if number else {}
        more |= {one: value for one, value in world.more.items() if one in words or more == {}}
        net: Any = more.pop("DNS_SERVERS", world.net)
        second = crawled(
            name, directory / "advised", net, {} if number is None and not more else more
        )
        ratio = second.pages / max(first.pages, 0.01)
    is_right = first.cause in world.truth.split()
    told = "" if ratio is None else f"{ratio:.2f}"
    mark = "" if is_right else "**"
    row = (
        name,
        world.truth,
        f"{mark}{first.cause}{mark}",
        f"{first.pages:.1f}",
        first.advice,
        told,
        first.evidence,
    )
    return f"| {' | '.join(row)} |", is_right, ratio


def main(*arguments: str) -> None:
    is_real = "--real" in arguments
    names = [one for one in arguments if one in WORLDS]
    names = names or [one for one, world in WORLDS.items() if world.is_real == is_real]
    print("| world | truth | named | pages/s | advice | times as fast | evidence |")
    print(f"|{'---|' * 7}")
    tally: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(1 if is_real else 2) as pool:
        paths = [Path(scratch, str(number)) for number in range(len(names))]
        for path in paths:
            path.mkdir()
        for name, (row, is_right, ratio) in zip(names, pool.map(judge, names, paths), strict=True):
            print(row, flush=True)
            kind = "of two causes" if " " in WORLDS[name].truth else "of one cause"
            tally[f"worlds {kind}"] += 1
            tally[f"right {kind}"] += is_right
            if ratio is not None:
                tally["advice"] += 1
                tally["true advice"] += ratio >= BETTER
    print(", ".join(f"{name}: {count}" for name, count in sorted(tally.items())))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--crawl"]:
        order = msgspec.json.decode(sys.argv[2], type=tuple[str, Net, int, list[str]])
        crawl_here(*order)
    else:
        main(*sys.argv[1:])
