"""Calculator of a large crawl: machines, traffic, disk, memory and cost of so many pages.

Everything it goes by is a field of ``Assumptions``, with what was measured (docs/performance.md) or
published as its default; docs/scale.md has a result and says where the design bends.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Final, NamedTuple

from webcrawl.errors import FatalError

_KB: Final = 1e3
_GB: Final = 1e9
_MOST_SHARDS: Final = 4096
# Shards of a drone, so that those of one that is gone can be divided among many.
_SHARDS_EACH: Final = 4
# Of one core's time, what one Redis should need at most: it works on one.
_REDIS_CORES: Final = 0.7
# What one machine's network carries.
_MACHINE_BYTES: Final = 10e9 / 8
# Bytes of a request, of an answer that is no page, and of a page's header.
_REQUEST_BYTES: Final = 1500
_SHORT_ANSWER_BYTES: Final = 2000
# Beats in a lease, and bytes of a shard in the answer to each.
_BEATS: Final = 5
_BEAT_BYTES: Final = 45
# The bound of all streams together (sender.py).
_STREAMS_BYTES: Final = 1 << 30


def _given(default: float, about: str, *, share: bool = False) -> Any:
    return dataclasses.field(default=default, metadata={"about": about, "share": share})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """What a crawl is to do, how fast it is, and what things cost.

    A field's metadata has what it is (``about``), and whether it is a ``share`` from 0 to 1.
    FatalError for a number that cannot be.
    """

    pages: float = _given(1e9, "pages to fetch")
    hours: float = _given(24, "hours that they may take")

    page_kb: float = _given(242, "kB of a page in the mean (Chan 2025: 242; Nielsen 2012: 51)")
    packed: float = _given(0.2, "of it on the wire and in the WARC, compressed", share=True)
    contacts: float = _given(1.3, "contacts for a page: robots.txt, redirects, failures, too")
    host_pages: float = _given(9.5, "pages of a host in the mean (Nielsen: 9.5 a domain)")
    links: float = _given(154, "links of a page (300 real pages: 154)")
    found: float = _given(10, "new URLs for each page that is fetched (IRLbot: 6.5)")
    latency: float = _given(1.0, "seconds of a contact")
    rest: float = _given(10, "seconds that a host rests after it (ten times the download)")

    speed: float = _given(178, "pages a CPU-second (bench, pages of today)")
    hive_speed: float = _given(0.85, "of that in a hive", share=True)
    core_speed: float = _given(
        0.65, "of the measured core, a hyperthread among busy ones", share=True
    )
    workers: float = _given(200, "workers of a drone (CONCURRENT_REQUESTS)")
    cores: float = _given(16, "cores (hyperthreads) of a machine")
    used: float = _given(0.8, "of them for drones, one each", share=True)
    memory_gb: float = _given(0.94, "GB of memory of a drone: MEMORY_BUDGET and 0.4")

    crossing: float = _given(0.2, "of the links lead to another registered domain", share=True)
    spared: float = _given(0.8, "of these the cache of links spares (Broder et al.)", share=True)
    link_bytes: float = _given(180, "bytes of a link in a stream, alone in its message")
    wait: float = _given(0.5, "seconds that links to a shard wait to become one entry")
    redis_us: float = _given(5, "µs of Redis for an entry, to write and read it (measured)")
    beat_us: float = _given(1.2, "µs of Redis for each shard in a beat (measured)")
    lease: float = _given(10, "seconds of a lease (HIVE_LEASE_SECS)")
    checkpoint: float = _given(60, "seconds between two checkpoints")

    url_bytes: float = _given(220, "bytes of a waiting URL on disk (10 million: 2.2 GB)")
    seen_bytes: float = _given(16, "bytes of a URL in the eliminator, while it merges")
    host_bytes: float = _given(200, "bytes of a host's record")
    log_bytes: float = _given(308, "bytes of a contact in logs/info.jsonl")

    machine_price: float = _given(1.51, "dollars of a machine-hour (Chan's: $462 for 12, 25.5 h)")
    redis_price: float = _given(0.5, "dollars of an hour of Redis")
    out_price: float = _given(0.09, "dollars of a GB sent; what is received costs nothing")
    store_price: float = _given(0.023, "dollars of a GB stored for a month")
    months: float = _given(1, "months that the pages are stored")

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            option = "--" + field.name.replace("_", "-")
            if not 0 <= value < math.inf:
                raise FatalError(f"{option} must be a number, and not negative: {value:g}.")
            if field.metadata["share"] and value > 1:
                raise FatalError(f"{option} is a share, from 0 to 1: {value:g}.")
            if value == 0 and field.name in _DIVISORS:
                raise FatalError(f"{option} must be more than 0.")


_DIVISORS: Final = {
    *("pages", "hours", "host_pages", "contacts", "latency", "workers", "wait", "lease"),
    *("speed", "hive_speed", "core_speed", "cores", "used", "checkpoint"),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a crawl needs: *…_bytes* in all, *…_rate* a second, *cost* in dollars by what for.

    *bends* are sentences on what of the design does not carry it, and what then.
    """

    pages: float
    hours: float
    page_rate: float
    drone_rate: float
    drones: int
    machines: int
    shards: int
    hosts: float
    busy_hosts: float
    host_pages_most: float
    received_bytes: float
    sent_bytes: float
    link_rate: float
    redis_byte_rate: float
    redis_cores: float
    beat_rate: float
    redis_bytes: float
    warc_bytes: float
    frontier_bytes: float
    seen_bytes: float
    other_bytes: float
    store_byte_rate: float
    memory_bytes: float
    cost: dict[str, float]
    bends: list[str]

    @property
    def secs(self) -> float:
        return self.hours * 3600

    @property
    def disk_bytes(self) -> float:
        return self.warc_bytes + self.frontier_bytes + self.seen_bytes + self.other_bytes

    @property
    def total_cost(self) -> float:
        return sum(self.cost.values())


def plan(given: Assumptions) -> Plan:
    """What *given* amounts to."""
    secs = given.hours * 3600
    page_rate = given.pages / secs
    by_core = given.speed * given.hive_speed * given.core_speed
    drone_rate = min(by_core, given.workers / (given.latency * given.contacts))
    drones = math.ceil(page_rate / drone_rate)
    machines = math.ceil(drones / max(1, math.floor(given.cores * given.used)))
    contacts = given.pages * given.contacts
    packed = given.pages * given.page_kb * _KB * given.packed
    hosts = given.pages / given.host_pages
    found = given.pages * max(1.0, given.found)
    shards = 64 if drones > 1 else 1
    while 1 < shards < min(_SHARDS_EACH * drones, _MOST_SHARDS):
        shards *= 2
    to_others = given.crossing * (1 - 1 / shards) * (1 - given.spared)
    link_rate = page_rate * given.links * to_others
    link_bytes = link_rate * given.link_bytes
    entry_rate = min(link_rate, drones * shards / given.wait)
    beat_rate = drones * _BEATS / given.lease
    frontier = (found - given.pages) * given.url_bytes
    records = hosts * given.host_bytes
    sent = contacts * _REQUEST_BYTES
    result = Plan(
        pages=given.pages,
        hours=given.hours,
        page_rate=page_rate,
        drone_rate=drone_rate,
        drones=drones,
        machines=machines,
        shards=shards,
        hosts=hosts,
        busy_hosts=page_rate * given.contacts * (given.latency + given.rest),
        host_pages_most=secs / (given.latency + given.rest),
        received_bytes=packed + (contacts - given.pages) * _SHORT_ANSWER_BYTES,
        sent_bytes=sent,
        link_rate=link_rate,
        redis_byte_rate=2 * link_bytes + beat_rate * shards * _BEAT_BYTES,
        redis_cores=(entry_rate * given.redis_us + beat_rate * shards * given.beat_us) / 1e6,
        beat_rate=beat_rate,
        # A batch stays until the next checkpoint of its target, half an interval in the mean, is
        # published.
        redis_bytes=min(1.5 * link_bytes * given.checkpoint, _STREAMS_BYTES),
        warc_bytes=packed + given.pages * _SHORT_ANSWER_BYTES,
        frontier_bytes=frontier,
        seen_bytes=found * given.seen_bytes + given.pages * given.seen_bytes,
        other_bytes=2 * records + contacts * given.log_bytes,
        # What is appended goes there once; records of hosts whole, half of them in the mean.
        store_byte_rate=(frontier + found * given.seen_bytes) / secs
        + records / 2 / given.checkpoint,
        memory_bytes=drones * given.memory_gb * _GB,
        cost={
            "machines": machines * given.hours * given.machine_price,
            "Redis": given.hours * given.redis_price if drones > 1 else 0.0,
            "sent": sent / _GB * given.out_price,
            "stored": packed / _GB * given.store_price * given.months,
        },
        bends=[],
    )
    result.bends.extend(_bends(result, given))
    return result


def _bends(result: Plan, given: Assumptions) -> list[str]:
    found = []
    if result.drones * _SHARDS_EACH > _MOST_SHARDS:
        found.append(
            f"{result.drones:,} drones share {_MOST_SHARDS:,} shards, fewer than "
            f"{_SHARDS_EACH} each: more cores for a drone, or several hives over parts of the seeds"
        )
    elif result.shards > 64:
        found.append(f"say -s HIVE_SHARDS={result.shards}: {_SHARDS_EACH} shards or more a drone")
    if given.host_pages > result.host_pages_most:
        found.append(
            f"politeness: a host gives at most {result.host_pages_most:,.0f} pages in that time"
        )
    if result.redis_cores > _REDIS_CORES:
        found.append("one Redis is too slow: Redis Cluster, or fewer beats (HIVE_LEASE_SECS=60)")
    if result.redis_bytes == _STREAMS_BYTES:
        found.append("streams are full between checkpoints: links wait in outboxes, on disk")
    if result.received_bytes / result.secs / result.machines > _MACHINE_BYTES:
        found.append("the network of a machine is too slow (10 Gbit/s): more, smaller machines")
    records = result.hosts * given.host_bytes / 2 / given.checkpoint
    if records > result.store_byte_rate / 2 and records > 1e8:
        found.append(
            "most of what is written to HIVE_STORE are records of hosts, whole with each checkpoint"
        )
    return found


class Crawl(NamedTuple):
    """A crawl that was done, for comparison; *bytes* are those of a page, *cost* is in dollars."""

    name: str
    pages: float
    hours: float
    machines: int
    page_bytes: float
    cost: float


#: Michael Nielsen, "How to crawl a quarter billion webpages in 40 hours"; Andrew Chan, "Crawling a
#: billion web pages in just over 24 hours, in 2025".
DONE: Final = (
    Crawl("Nielsen 2012", 250_113_669, 39 + 25 / 60, 20, 51e3, 580),
    Crawl("Chan 2025", 1.005e9, 25.5, 12, 242e3, 462),
)


def plan_text(result: Plan, given: Assumptions) -> str:
    """*result* for people."""
    mbits = result.received_bytes * 8 / result.secs / result.machines / 1e6
    rows = [
        ("goal", f"{result.pages:,.0f} pages in {result.hours:g} h: {result.page_rate:,.0f}/s"),
        ("machines", f"{result.machines:,} of {given.cores:g} cores"),
        ("drones", f"{result.drones:,}, {result.drone_rate:,.0f} pages/s each"),
        ("shards", f"{result.shards:,}"),
        ("memory", f"{_bytes(result.memory_bytes / result.machines)} a machine"),
        ("network", f"{_bytes(result.received_bytes)} received, {mbits:,.0f} Mbit/s a machine"),
        ("", f"{_bytes(result.sent_bytes)} sent"),
        ("hosts", f"{result.hosts:,.0f}, of which {result.busy_hosts:,.0f} are in turn at a time"),
        ("", f"{result.host_pages_most:,.0f} pages of one at most"),
        ("Redis", f"{result.link_rate:,.0f} links/s, {_bytes(result.redis_byte_rate)}/s both ways"),
        ("", f"{result.redis_cores:.2f} of a core, {result.beat_rate:,.0f} beats/s"),
        ("", f"{_bytes(result.redis_bytes)} of memory"),
        ("disk", f"{_bytes(result.warc_bytes)} of WARC"),
        ("", f"{_bytes(result.frontier_bytes)} of waiting URLs"),
        ("", f"{_bytes(result.seen_bytes)} of fingerprints"),
        ("", f"{_bytes(result.other_bytes)} of records and logs"),
        ("", f"{_bytes(result.disk_bytes / result.machines)} a machine"),
        ("HIVE_STORE", f"{_bytes(result.store_byte_rate)}/s written"),
    ]
    for number, (name, dollars) in enumerate(result.cost.items()):
        rows.append(("" if number else "cost", f"${dollars:>9,.0f}  {_COSTS[name]}"))
    rows.append(("", f"${result.total_cost:>9,.0f}  in all"))
    rows += [("" if number else "bends", text) for number, text in enumerate(result.bends)]
    lines = [f"{name:>10}  {value}" for name, value in rows]
    return "\n".join([*lines, "", *_comparison(result, given), ""])


_COSTS: Final = {
    "machines": "machines",
    "Redis": "Redis",
    "sent": "traffic",
    "stored": "storage of the pages",
}


def _comparison(result: Plan, given: Assumptions) -> list[str]:
    """Nielsen's table: crawls that were done, and this one without the storage of its pages."""
    cost = result.total_cost - result.cost["stored"]
    this = Crawl(
        "this plan", result.pages, result.hours, result.machines, given.page_kb * _KB, cost
    )
    lines = [
        (
            f"{'':>14}{'pages':>16}{'hours':>8}{'machines':>10}{'kB a page':>11}{'pages/s':>9}"
            f"{'a machine':>11}{'cost':>9}{'a million':>11}"
        )
    ]
    for one in (*DONE, this):
        rate = one.pages / one.hours / 3600
        lines.append(
            f"{one.name:>14}{one.pages:>16,.0f}{one.hours:>8.1f}{one.machines:>10,}"
            f"{one.page_bytes / _KB:>11,.0f}{rate:>9,.0f}{rate / one.machines:>11,.0f}"
            f"{f'${one.cost:,.0f}':>9}{f'${one.cost / one.pages * 1e6:,.2f}':>11}"
        )
    return lines


def _bytes(number: float) -> str:
    """
    >>> [_bytes(number) for number in (900, 12_345, 7.1e6, 2.25e12)]
    ['900 B', '12.3 kB', '7.1 MB', '2.25 TB']
    """
    unit = 0
    while number >= 1000 and unit < len(_UNITS) - 1:
        number, unit = number / 1000, unit + 1
    return f"{number:.3g} {_UNITS[unit]}" if number < 1000 else f"{number:,.0f} {_UNITS[unit]}"


_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")
