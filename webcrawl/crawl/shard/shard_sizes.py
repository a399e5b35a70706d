"""Sizes of one shard: its part of what the shards of a process may keep in memory together."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final, Self

from webcrawl.configuration.memory_budget import part_of

if TYPE_CHECKING:
    from collections.abc import Mapping

# What is no setting: for all shards of a process, and the least that one of them has.
_RESTS: Final = (1 << 16, 1 << 10)
_DECODED: Final = (1 << 14, 1 << 8)
_DOCUMENTS: Final = (1 << 16, 1 << 10)
_RULES: Final = (1 << 13, 1 << 6)
_RULES_BYTES: Final = (1 << 26, 1 << 20)
_NEW_RANKS: Final = (1 << 15, 1 << 10)
_DATABASE_KIB: Final = (1 << 13, 1 << 7)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ShardSizes:
    """What each of some shards may keep in memory.

    seen_buffer, seen_cache, queues, hosts, robots: its parts of SEEN_BUFFER_SIZE, SEEN_CACHE_SIZE,
        FRONTIER_BACK_QUEUES_MAX, HOSTS_CACHE_SIZE and ROBOTS_CACHE_SIZE.
    rests: of hosts without a queue, 0.5 kB each.
    decoded: host records, 0.8 kB each, and as many counters of domains, 0.4 kB each.
    documents: fingerprints that the content-seen test has not moved to disk, 0.1 kB each.
    rules, rules_bytes: robots.txt files in use.
    new_ranks: hosts of seeds that are not in the sorted table yet, 0.1 kB each.
    database_kib: pages of the host records' file that SQLite keeps; the filter of its keys has
        twice as much, the log half as much, and what is logged twice in memory.
    """

    seen_buffer: int
    seen_cache: int
    queues: int
    hosts: int
    robots: int
    rests: int
    decoded: int
    documents: int
    rules: int
    rules_bytes: int
    new_ranks: int
    database_kib: int

    @classmethod
    def of(cls, settings: Mapping[str, int], shards: int) -> Self:
        """Those of each of *shards* in a process; *settings* as ``memory_budget.sizes`` has them
        for all."""

        def part(name: str) -> int:
            return part_of(name, settings[name], shards=shards)

        def even(sizes: tuple[int, int]) -> int:
            return max(sizes[0] // shards, sizes[1])

        return cls(
            seen_buffer=part("SEEN_BUFFER_SIZE"),
            seen_cache=part("SEEN_CACHE_SIZE"),
            queues=part("FRONTIER_BACK_QUEUES_MAX"),
            hosts=part("HOSTS_CACHE_SIZE"),
            robots=part("ROBOTS_CACHE_SIZE"),
            rests=even(_RESTS),
            decoded=even(_DECODED),
            documents=even(_DOCUMENTS),
            rules=even(_RULES),
            rules_bytes=even(_RULES_BYTES),
            new_ranks=even(_NEW_RANKS),
            database_kib=even(_DATABASE_KIB),
        )
