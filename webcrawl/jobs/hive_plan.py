"""Calculator of a large crawl: machines, traffic, disk, memory and cost of so many pages.

The assumptions are in ``ASSUMPTIONS``, measured or published; docs/scale.md says where they come
from, shows a result, and where the design bends.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from webcrawl.crawl.figures.counts import size
from webcrawl.errors import FatalError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: By name: the default, and what it is.
ASSUMPTIONS: Final[Mapping[str, tuple[float, str]]] = {
    "page_kb": (242, "kB of a page in the mean (Chan 2025: 242; Nielsen 2012: 51)"),
    "packed": (0.2, "of it on the wire and in the WARC, compressed"),
    "contacts": (1.3, "contacts for a page: robots.txt, redirects, failures, too"),
    "contact_secs": (11, "seconds of a contact (1), and that its host rests after it (10)"),
    "host_pages": (9.5, "pages of a host in the mean: what a broad crawl takes"),
    "found": (10, "new URLs for each page that is fetched (IRLbot: 6.5)"),
    "drone_pages": (98.3, "pages a second of a drone"),
    "drones": (12, "drones of a machine, one each for three quarters of 16 cores"),
    "drone_gb": (0.94, "GB of memory of a drone: MEMORY_BUDGET and 0.4"),
    "page_links": (6.16, "links of a page that go by Redis"),
    "link_bytes": (180, "bytes of a link in a stream, alone in its message"),
    "link_us": (5, "µs of Redis for an entry, to write and read it"),
    "wait": (0.5, "seconds that links to a shard wait to become one entry"),
    "beats": (0.5, "beats a second of a drone (5 in HIVE_LEASE_SECS)"),
    "beat_us": (0.6, "µs of Redis for each shard in a beat"),
    "checkpoint": (60, "seconds between two checkpoints"),
    "url_bytes": (65, "bytes of a waiting URL on disk"),
    "seen_bytes": (16, "bytes of a URL in the eliminator, while it merges"),
    "host_bytes": (200, "bytes of a host's record"),
    "fact_bytes": (500, "bytes of host records that change with a page"),
    "log_bytes": (308, "bytes of a contact in logs/info.jsonl"),
    "store_puts": (3, "requests to HIVE_STORE for each shard of a checkpoint: pack, names, look"),
    # Published lists of S3 and EBS gp3 in us-east-1, but for the first two; put down 2026-11-25.
    "machine_price": (1.51, "dollars of a machine-hour (Chan's: $462 for 12, 25.5 h)"),
    "redis_price": (0.5, "dollars of an hour of Redis"),
    "out_price": (0.09, "dollars of a GB sent; what is received costs nothing"),
    "store_price": (0.023, "dollars of a GB of pages that is stored, for a month"),
    "disk_price": (0.08, "dollars of a GB of disk for a month; 0 if machines come with enough"),
    "put_price": (5e-6, "dollars of a request to HIVE_STORE"),
}
#: Crawls that were done: pages, hours, machines, kB of a page, dollars. Michael Nielsen, "How to
#: crawl a quarter billion webpages in 40 hours"; Andrew Chan, "Crawling a billion web pages in just
#: over 24 hours, in 2025".
DONE: Final = {
    "Nielsen 2012": (250_113_669, 39 + 25 / 60, 20, 51, 580),
    "Chan 2025": (1.005e9, 25.5, 12, 242, 462),
}

_MOST_SHARDS: Final = 4096
# Shards of a drone, so that those of one that is gone can be divided among many.
_SHARDS_EACH: Final = 4
# Bytes: of a request, of an answer that is no page or of a page's header, of a shard in a beat.
_REQUEST_BYTES: Final = 1500
_SHORT_ANSWER_BYTES: Final = 2000
_BEAT_BYTES: Final = 55
# What changes of host records in a shard until all are copied again (hosts/records/database.py).
_CHANGES_BYTES: Final = 1 << 24
# The bound of all streams together (sender.py).
_STREAMS_BYTES: Final = 1 << 30


def plan(pages: float, hours: float, given: Mapping[str, float]) -> dict[str, Any]:
    """The needs of a crawl of *pages* in *hours*, by names, with the assumptions *given* instead of
    the defaults: *..._bytes* in all, *..._rate* a second, costs in dollars; ``bends`` are sentences
    on what of the design does not carry it, and what then. FatalError for a number that cannot
    be."""
    values = {"pages": pages, "hours": hours}
    values |= {name: default for name, (default, _) in ASSUMPTIONS.items()} | dict(given)
    for name, value in values.items():
        if not (0 if name.endswith("price") else 1e-6) <= value <= 1e15:
            raise FatalError(f"{name} must be a number from 1e-6 to 1e15, not {value:g}.")
    a, p = SimpleNamespace(**values), SimpleNamespace(assumptions=values)
    secs = hours * 3600
    p.page_rate = pages / secs
    p.drones = math.ceil(p.page_rate / a.drone_pages)
    p.machines = math.ceil(p.drones / a.drones)
    p.shards = 64 if p.drones > 1 else 1
    while 1 < p.shards < min(_SHARDS_EACH * p.drones, _MOST_SHARDS):
        p.shards *= 2
    p.memory_bytes = p.drones * a.drone_gb * 1e9
    contacts, packed = pages * a.contacts, pages * a.page_kb * 1e3 * a.packed
    p.received_bytes = packed + max(0, contacts - pages) * _SHORT_ANSWER_BYTES
    p.sent_bytes = contacts * _REQUEST_BYTES
    p.hosts = pages / a.host_pages
    p.busy_hosts = p.page_rate * a.contacts * a.contact_secs
    p.host_pages_most = secs / a.contact_secs
    p.link_rate = p.page_rate * a.page_links if p.drones > 1 else 0.0
    p.beat_rate = p.drones * a.beats
    link_bytes, beats = p.link_rate * a.link_bytes, p.beat_rate * p.shards
    p.redis_byte_rate = 2 * link_bytes + beats * _BEAT_BYTES
    entries = min(p.link_rate, p.drones * p.shards / a.wait)
    p.redis_cores = (entries * a.link_us + beats * a.beat_us) / 1e6
    # A batch stays until the next checkpoint of its target, half an interval in the mean, is
    # published.
    p.redis_bytes = min(1.5 * link_bytes * a.checkpoint, _STREAMS_BYTES)
    urls, records = pages * max(1, a.found), p.hosts * a.host_bytes
    p.warc_bytes = packed + pages * _SHORT_ANSWER_BYTES
    p.frontier_bytes = (urls - pages) * a.url_bytes
    p.seen_bytes = (urls + pages) * a.seen_bytes
    p.other_bytes = 2 * records + contacts * a.log_bytes
    p.disk_bytes = p.warc_bytes + p.frontier_bytes + p.seen_bytes + p.other_bytes
    # What is appended goes there once; changes of host records with a copy of all of a shard's,
    # half of them in the mean, after as many bytes of changes at most.
    copied = records / 2 / p.shards
    record_rate = p.page_rate * a.fact_bytes * (1 + copied / min(copied, _CHANGES_BYTES))
    p.store_byte_rate = (p.frontier_bytes + urls * a.seen_bytes) / secs + record_rate
    p.machines_cost = p.machines * hours * a.machine_price
    p.redis_cost = hours * a.redis_price if p.drones > 1 else 0.0
    p.traffic_cost = p.sent_bytes / 1e9 * a.out_price
    p.storage_cost = packed / 1e9 * a.store_price
    p.disk_cost = p.disk_bytes / 1e9 * a.disk_price * hours / 730
    p.store_requests = p.shards * secs / a.checkpoint * a.store_puts if p.drones > 1 else 0.0
    p.requests_cost = p.store_requests * a.put_price
    bends = {
        f"{p.drones:,} drones share {_MOST_SHARDS:,} shards, fewer than {_SHARDS_EACH} each: more "
        "cores for a drone, or several hives over parts of the seeds": (
            p.drones * _SHARDS_EACH > _MOST_SHARDS
        ),
        f"say -s HIVE_SHARDS={p.shards}: {_SHARDS_EACH} shards or more a drone": p.shards > 64,
        f"politeness: a host gives at most {p.host_pages_most:,.0f} pages in that time": (
            a.host_pages > p.host_pages_most
        ),
        # It works on one core.
        "one Redis is too slow: Redis Cluster, or fewer beats (HIVE_LEASE_SECS=60)": (
            p.redis_cores > 0.7
        ),
        "streams are full between checkpoints: links wait in outboxes, on disk": (
            p.redis_bytes == _STREAMS_BYTES
        ),
        "the network of a machine is too slow (10 Gbit/s): more, smaller machines": (
            p.received_bytes / secs / p.machines > 10e9 / 8
        ),
        "most of what is written to HIVE_STORE are copies of host records: more HIVE_SHARDS": (
            record_rate > max(1e8, p.store_byte_rate / 2)
        ),
    }
    p.bends = [sentence for sentence, is_so in bends.items() if is_so]
    return vars(p)


def plan_text(result: Mapping[str, Any]) -> str:
    """*result* for people."""
    p, a = SimpleNamespace(**result), SimpleNamespace(**result["assumptions"])
    mbits = p.received_bytes * 8 / a.hours / 3600 / p.machines / 1e6
    cost = p.machines_cost + p.redis_cost + p.traffic_cost + p.disk_cost + p.requests_cost
    rows = [
        ("goal", f"{a.pages:,.0f} pages in {a.hours:g} h: {p.page_rate:,.0f}/s"),
        ("machines", f"{p.machines:,}, with {p.drones:,} drones and {p.shards:,} shards"),
        ("", f"{size(p.memory_bytes / p.machines)} of memory each"),
        ("network", f"{size(p.received_bytes)} received, {mbits:,.0f} Mbit/s a machine"),
        ("", f"{size(p.sent_bytes)} sent"),
        ("hosts", f"{p.hosts:,.0f}, of which {p.busy_hosts:,.0f} are in turn at a time"),
        ("", f"{p.host_pages_most:,.0f} pages of one at most"),
        ("Redis", f"{p.link_rate:,.0f} links/s, {size(p.redis_byte_rate)}/s both ways"),
        ("", f"{p.redis_cores:.2f} of a core, {p.beat_rate:,.0f} beats/s"),
        ("", f"{size(p.redis_bytes)} of memory"),
        ("disk", f"{size(p.warc_bytes)} of WARC"),
        ("", f"{size(p.frontier_bytes)} of waiting URLs"),
        ("", f"{size(p.seen_bytes)} of fingerprints"),
        ("", f"{size(p.other_bytes)} of records and logs"),
        ("", f"{size(p.disk_bytes / p.machines)} a machine"),
        ("HIVE_STORE", f"{size(p.store_byte_rate)}/s written, {p.store_requests:,.0f} requests"),
        ("cost", f"${p.machines_cost:>9,.0f}  machines"),
        ("", f"${p.redis_cost:>9,.0f}  Redis"),
        ("", f"${p.traffic_cost:>9,.0f}  traffic"),
        ("", f"${p.disk_cost:>9,.0f}  disk"),
        ("", f"${p.requests_cost:>9,.0f}  requests to HIVE_STORE"),
        ("", f"${p.storage_cost:>9,.0f}  storage of the pages for a month"),
        ("", f"${cost + p.storage_cost:>9,.0f}  in all"),
        *(("" if number else "bends", text) for number, text in enumerate(p.bends)),
    ]
    lines = [
        *(f"{name:>10}  {value}" for name, value in rows),
        "",
        (
            f"{'':>14}{'pages':>16}{'hours':>8}{'machines':>10}{'kB a page':>11}{'pages/s':>9}"
            f"{'cost':>9}{'a million':>11}"
        ),
    ]
    # Nielsen's table. The storage of its pages is not in it.
    this = (a.pages, a.hours, p.machines, a.page_kb, cost)
    for name, (pages, hours, machines, page_kb, dollars) in {**DONE, "this plan": this}.items():
        lines.append(
            f"{name:>14}{pages:>16,.0f}{hours:>8.1f}{machines:>10,}{page_kb:>11,.0f}"
            f"{pages / hours / 3600:>9,.0f}{f'${dollars:,.0f}':>9}"
            f"{f'${dollars / pages * 1e6:,.2f}':>11}"
        )
    lines += ["", "Assumptions, prices of 2026-11-25, to be changed with -a NAME=VALUE:"]
    for name, (_, what) in ASSUMPTIONS.items():
        lines.append(f"{name:>14} {result['assumptions'][name]:>6g}  {what}")
    return "\n".join([*lines, ""])
