"""Division of MEMORY_BUDGET, in bytes, among the caches and buffers of variable size.

Each cache or buffer is a row of TABLE: the bytes of one unit, and its share of the budget. Rows
whose names are in capitals are also settings. If the user sets one, it keeps that value: its bytes
are subtracted first, and the other rows share the rest by weight. So the budget is kept with any
settings, and a larger budget makes all other rows larger in proportion.

As many bytes as the files of BLOCKLISTS have are set aside for their rules.

The sizes are for all shards of the process together. Each shard gets an equal part of those rows
that every shard needs, but not less than it needs to work. So many shards may use more than the
budget.

The budget does not limit the whole process. In addition there are the interpreter with all modules
(135 MB), the pages in progress (CONCURRENT_REQUESTS, PAGE_MAX_BYTES), and parts with fixed limits,
at most 190 MB: 64 for robots.txt in use, 48 for the ranks of more than 65,000 seeds, 22 for pauses
of hosts, 6 for host counters, 8 for log buffers, 13 for decoded host records, 24 for SQLite and the
filter of its keys.
"""

from __future__ import annotations

from typing import NamedTuple

from scrapy.settings import BaseSettings

from webcrawl.configuration.blocklists import blocklist_bytes
from webcrawl.configuration.values import whole_number
from webcrawl.errors import FatalError


class BudgetRow(NamedTuple):
    """Share of one cache or buffer in MEMORY_BUDGET.

    *unit* is the size of one unit in bytes. *weight* is the share in percent if the user sets none
    of the rows. The row gets between *at_least* and *at_most* units; the user may set as few as
    *at_least_given*. *of_shard* is the minimum for one of many shards, or 0 if all shards share one
    cache.
    """

    unit: int
    weight: int
    at_least: int
    at_most: int = 1 << 40
    at_least_given: int = 1
    of_shard: int = 0


# The bytes were measured in CPython 3.11 (2026-11-20) with tracemalloc and keys of 30 bytes.
TABLE = {
    # The buffer T: 16 bytes in the table, 9 for the order, the same for T', and 30 while T' is
    # sorted and looked up.
    "SEEN_BUFFER_SIZE": BudgetRow(
        unit=80, weight=20, at_least=1 << 12, at_most=1 << 24, of_shard=1 << 10
    ),
    # An idle https connection after a page of 50 kB takes 78 kB (2026-11-23), more than half of it
    # OpenSSL's receive buffer; in addition four http connections with 8 kB each.
    "NET_KEEPALIVE_CONNECTIONS": BudgetRow(
        unit=110_000, weight=24, at_least=8, at_most=512, at_least_given=0
    ),
    # Limits the number of back-end queues. One with 16 URLs in memory takes 4,472 bytes, one with 4
    # takes 1,330, and one that has spilled to disk 14,000.
    "queues": BudgetRow(unit=4500, weight=27, at_least=600, at_most=100_000, of_shard=16),
    # Records of hosts (Mercator: 2**18): 1,121 bytes with an address and one fetch time, 1,247 with
    # five (2026-11-25). Reading one from disk again takes 12 us.
    "hosts": BudgetRow(unit=1200, weight=22, at_least=1 << 10, of_shard=1 << 6),
    # Origins (Mercator: 2**18): 191 bytes, and 200 for the compressed robots.txt. These are of
    # hosts not in use; parsing their rules again takes four times as long as reading them from
    # disk.
    "robots": BudgetRow(unit=400, weight=2, at_least=1 << 9, of_shard=1 << 5),
    # Host names with their addresses, or the lack of them. Looking up a host again whose last page
    # was long ago takes 0.07 ms.
    "names": BudgetRow(unit=400, weight=1, at_least=1 << 8),
    # 157 bytes with CLOCK (see seen/caches). The default is at most the size that Broder et al.
    # found sufficient. With 195,225 the hit rate on a crawl-like stream is 65.3 % instead of 64.5
    # %, but the table no longer fits the processor's cache and all submissions take 8 % longer.
    "SEEN_CACHE_SIZE": BudgetRow(
        unit=160, weight=4, at_least=1 << 10, at_most=1 << 16, of_shard=1 << 8
    ),
}
assert sum(row.weight for row in TABLE.values()) == 100


def size_of(settings: BaseSettings, name: str) -> int:
    """Return the number of units of *name*, a key of TABLE: the user's value, or its share.

    Raises FatalError if any value of TABLE is invalid or the budget is too small.
    """
    return sizes(settings)[name]


def part_of(name: str, size: int, *, shards: int) -> int:
    """Return how many of the *size* units of *name* each of *shards* gets.

    >>> [part_of("SEEN_BUFFER_SIZE", 1 << 20, shards=shards) for shards in (1, 3, 64, 4096)]
    [1048576, 262144, 16384, 1024]
    """
    minimum = TABLE[name].of_shard
    if shards == 1 or not minimum:  # with 0, all shards share one cache
        return size
    part = max(size // shards, min(minimum, size))
    return _power_of_two_below(part) if name == "SEEN_BUFFER_SIZE" else part


def sizes(settings: BaseSettings) -> dict[str, int]:
    """Return the number of units of each row of TABLE, as ``size_of`` does for one."""
    budget = whole_number(settings, "MEMORY_BUDGET", at_least=1)
    user_sizes = {
        name: whole_number(settings, name, at_least=row.at_least_given)
        for name, row in TABLE.items()
        if name.isupper() and settings.get(name) is not None
    }
    list_bytes = blocklist_bytes(settings)
    user_bytes = list_bytes + sum(size * TABLE[name].unit for name, size in user_sizes.items())
    others = {name: row for name, row in TABLE.items() if name not in user_sizes}
    weights = sum(row.weight for row in others.values())
    # The budget must be large enough that every other row gets its minimum. A row gets the share
    # weight / weights, so its minimum needs at_least * unit * weights / weight bytes, rounded up.
    needed = user_bytes + max(
        (-(-row.at_least * row.unit * weights // row.weight) for row in others.values()), default=0
    )
    if budget < needed:
        names = [*["BLOCKLISTS"] * bool(list_bytes), *user_sizes]
        clause = f", {user_bytes} of them for {', '.join(names)}" if names else ""
        raise FatalError(f"MEMORY_BUDGET must be at least {needed} bytes{clause}; it is {budget}.")

    shares = {
        name: min((budget - user_bytes) * row.weight // (weights * row.unit), row.at_most)
        for name, row in others.items()
    }
    if "SEEN_BUFFER_SIZE" in shares:
        shares["SEEN_BUFFER_SIZE"] = _power_of_two_below(shares["SEEN_BUFFER_SIZE"])
    return user_sizes | shares


def _power_of_two_below(size: int) -> int:
    """Return the largest power of two up to *size*.

    The hash table of T has a power of two of slots, so any other size would leave many empty.
    """
    return 1 << size.bit_length() - 1
