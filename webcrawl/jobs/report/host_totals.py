"""Totals of each host and of all hosts, for any number of hosts."""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RAW_ADDRESSES = "raw IP addresses"
_CREATE = (
    "CREATE TABLE hosts (host TEXT PRIMARY KEY, pages INT, bytes INT, fetches INT, secs REAL, "
    "walls INT) WITHOUT ROWID"
)
_ADD = (
    "INSERT INTO hosts VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (host) DO UPDATE SET "
    "pages = pages + excluded.pages, bytes = bytes + excluded.bytes, "
    "fetches = fetches + excluded.fetches, secs = secs + excluded.secs, "
    "walls = walls + excluded.walls"
)
_LARGEST = "SELECT host, pages, bytes FROM hosts WHERE pages > 0 ORDER BY pages DESC, host LIMIT 10"
# A mean of fewer than three fetches says little about a host.
_SLOWEST = (
    "SELECT host, fetches, secs / fetches AS mean FROM hosts "
    "ORDER BY fetches >= 3 DESC, mean DESC, host LIMIT 10"
)
_WALLED = (
    "SELECT host, walls, fetches FROM hosts WHERE walls > 0 ORDER BY walls DESC, host LIMIT 10"
)


class Servers(NamedTuple):
    """Totals of all hosts that were contacted.

    number: number of hosts.
    with_pages: numbers of hosts that have at least 1, 2, 4, ... pages.
    with_bytes: numbers of hosts that have at least 1, 2, 4, ... bytes.
    hosts_by_tld: numbers of hosts by top-level domain.
    pages_by_tld: numbers of pages by top-level domain.
    largest: the hosts with the most pages, each with its pages and bytes.
    slowest: the slowest hosts, each with its fetches and their mean time in seconds.
    walled: the hosts with the most walls, each with the URLs that ended at one, and its fetches.
    """

    number: int
    with_pages: list[int]
    with_bytes: list[int]
    hosts_by_tld: Counter[str]
    pages_by_tld: Counter[str]
    largest: list[tuple[str, int, int]]
    slowest: list[tuple[str, int, float]]
    walled: list[tuple[str, int, int]]


class HostTotals:
    """Totals of each host, as rows of a temporary SQLite file.

    Takes up to 64 MB of memory. SQLite deletes the file itself. All methods raise sqlite3.Error.
    """

    def __init__(self) -> None:
        self._database = sqlite3.connect("")
        self._database.execute("PRAGMA cache_size = -65536")
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute(_CREATE)

    def add(self, hosts: Mapping[str, Sequence[float]]) -> None:
        """Add the pages, bytes, fetches, seconds and walls of each of *hosts*."""
        rows = [(host, *hosts[host]) for host in sorted(hosts)]
        with self._database:
            self._database.executemany(_ADD, rows)

    def close(self) -> None:
        """Free the memory and delete the file."""
        self._database.close()

    def servers(self) -> Servers:
        """Return the totals of all hosts. Reads a million hosts in three seconds."""
        pages_by_bits, bytes_by_bits = [0] * 65, [0] * 65
        hosts_by_tld: Counter[str] = Counter()
        pages_by_tld: Counter[str] = Counter()
        execute = self._database.execute
        for host, pages, size in execute("SELECT host, pages, bytes FROM hosts"):
            pages_by_bits[pages.bit_length()] += 1
            bytes_by_bits[size.bit_length()] += 1
            tld = tld_of(host)
            hosts_by_tld[tld] += 1
            pages_by_tld[tld] += pages
        return Servers(
            hosts_by_tld.total(),
            _at_least(pages_by_bits),
            _at_least(bytes_by_bits),
            hosts_by_tld,
            pages_by_tld,
            execute(_LARGEST).fetchall(),
            execute(_SLOWEST).fetchall(),
            execute(_WALLED).fetchall(),
        )


def tld_of(host: str) -> str:
    """Return the top-level domain of *host*.

    >>> [tld_of(host) for host in ("a.example.com", "10.0.0.1", "2001:db8::1", "localhost")]
    ['.com', 'raw IP addresses', 'raw IP addresses', '.localhost']
    """
    last = host.rpartition(".")[2]
    return RAW_ADDRESSES if ":" in host or last.isdecimal() else f".{last}"


def _at_least(by_bits: list[int]) -> list[int]:
    """Return the numbers of hosts with a value of at least 1, 2, 4, ...

    *by_bits* has the number of hosts by the number of bits of their value.
    """
    counts = [sum(by_bits[bits:]) for bits in range(1, len(by_bits))]
    while counts and not counts[-1]:
        counts.pop()
    return counts
