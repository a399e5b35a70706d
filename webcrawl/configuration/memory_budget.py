"""MEMORY_BUDGET: bytes of memory, divided among the caches and buffers of variable size.

Each of them is a row of TABLE: the bytes of one of its units, and its share of the budget. Rows in
capitals are settings, too: one that the user gives keeps its value, and its bytes are taken off
before the others share the rest by their weights. So the budget holds whatever is given, and more
memory makes all of them larger in proportion.

Rows of a shard are those of all shards of the process together: each of them has its part, but not
less than it needs to work, so that many shards may take more than the budget.

It does not bound the process. Besides it there are the interpreter with all modules (135 MB), the
pages under way (CONCURRENT_REQUESTS, PAGE_MAX_BYTES), and parts with bounds of their own, at most
190 MB: 64 for robots.txt in use, 48 for the ranks of more than 65,000 seeds, 22 for rests of hosts,
6 for host counters, 8 for what is logged, 13 for decoded host records, 24 for SQLite and the filter
of its keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from webcrawl.configuration.values import whole
from webcrawl.errors import FatalError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


class BudgetRow(NamedTuple):
    """The share of one cache or buffer in MEMORY_BUDGET.

    Each of its units has *unit* bytes; *weight* is its share in per cent if no setting is given. It
    gets *at_least* to *at_most* units; the user may give as few as *at_least_given*. *of_shard* is
    the least that one of many shards has of it; 0 for what all shards have in common.
    """

    unit: int
    weight: int
    at_least: int
    at_most: int = 1 << 40
    at_least_given: int = 1
    of_shard: int = 0


# Bytes were measured with CPython 3.11 (2026-11-20): with tracemalloc, keys of 30 bytes.
TABLE = {
    # T: 16 in the table, 9 for the order, as much for T', 30 while that is sorted and looked up.
    "SEEN_BUFFER_SIZE": BudgetRow(
        unit=80, weight=20, at_least=1 << 12, at_most=1 << 24, of_shard=1 << 10
    ),
    # An idle connection by https after a page of 50 kB: 78 kB (2026-11-23), more than half of them
    # OpenSSL's buffer for what came; and four by http, 8 kB each.
    "NET_KEEPALIVE_CONNECTIONS": BudgetRow(
        unit=110_000, weight=24, at_least=8, at_most=512, at_least_given=0
    ),
    # How far back-end queues grow. One with 16 URLs in memory takes 4,472, with 4 it takes 1,330,
    # and 14,000 if it has spilled.
    "queues": BudgetRow(unit=4500, weight=27, at_least=600, at_most=100_000, of_shard=16),
    # Records of hosts (Mercator: 2**18): 1,121 with an address and one fetch time, 1,247 with five
    # (2026-11-25). To read one from disk again takes 12 us.
    "hosts": BudgetRow(unit=1200, weight=22, at_least=1 << 10, of_shard=1 << 6),
    # Origins (Mercator: 2**18): 191, and 200 for the bytes of robots.txt, compressed. Of hosts that
    # are not in use: to parse their rules again takes four times as long as to read them from disk.
    "robots": BudgetRow(unit=400, weight=2, at_least=1 << 9, of_shard=1 << 5),
    # Names whose addresses, or lack of them, are remembered: one more look-up of a host that had
    # its last page long ago is 0.07 ms.
    "names": BudgetRow(unit=400, weight=1, at_least=1 << 8),
    # 157 with CLOCK (see seen/caches). By default at most what Broder et al. found enough: with
    # 195,225 it knows 65.3 % of a crawl-like stream instead of 64.5 %, but looking up costs so much
    # more, as less of it is in the processor's own cache, that all submissions take 8 % longer.
    "SEEN_CACHE_SIZE": BudgetRow(
        unit=160, weight=4, at_least=1 << 10, at_most=1 << 16, of_shard=1 << 8
    ),
}
assert sum(row.weight for row in TABLE.values()) == 100


def size_of(settings: BaseSettings, name: str) -> int:
    """The units of *name*, a key of TABLE: as they are given, or by its share.

    Raises FatalError with one sentence for a value that cannot be, of any of them, and for a budget
    that is too small.
    """
    return sizes(settings)[name]


def part_of(name: str, size: int, *, shards: int) -> int:
    """The share of one of *shards* in *size*, the units of *name* for all of them.

    >>> [part_of("SEEN_BUFFER_SIZE", 1 << 20, shards=shards) for shards in (1, 3, 64, 4096)]
    [1048576, 262144, 16384, 1024]
    """
    least = TABLE[name].of_shard
    if shards == 1 or not least:
        return size
    part = max(size // shards, min(least, size))
    return _filling(part) if name == "SEEN_BUFFER_SIZE" else part


def sizes(settings: BaseSettings) -> dict[str, int]:
    """The units of all in TABLE; otherwise as ``size_of``."""
    budget = whole(settings, "MEMORY_BUDGET", at_least=1)
    given = {
        name: whole(settings, name, at_least=row.at_least_given)
        for name, row in TABLE.items()
        if name.isupper() and settings.get(name) is not None
    }
    taken = sum(size * TABLE[name].unit for name, size in given.items())
    others = {name: row for name, row in TABLE.items() if name not in given}
    weights = sum(row.weight for row in others.values())
    needed = taken + max(
        (-(-row.at_least * row.unit * weights // row.weight) for row in others.values()), default=0
    )
    if budget < needed:
        why = f", {taken} of them for {', '.join(given)}" if given else ""
        raise FatalError(f"MEMORY_BUDGET must be at least {needed} bytes{why}; it is {budget}.")
    shares = {
        name: min((budget - taken) * row.weight // (weights * row.unit), row.at_most)
        for name, row in others.items()
    }
    if "SEEN_BUFFER_SIZE" in shares:
        shares["SEEN_BUFFER_SIZE"] = _filling(shares["SEEN_BUFFER_SIZE"])
    return given | shares


def _filling(size: int) -> int:
    """The power of two that is not above *size*: the table of T has a power of two of slots, and
    any other size would leave much of it empty."""
    return 1 << size.bit_length() - 1
