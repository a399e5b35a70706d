"""Host totals: what each host gave, of any number of hosts, and what they amount to.

Hosts are kept in memory up to a bound; beyond it they are added to a temporary SQLite file, which
SQLite deletes by itself.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

RAW_ADDRESSES: Final = "raw IP addresses"
# 90 MB.
_MOST_IN_MEMORY: Final = 200_000
_SHOWN: Final = 10
# A mean of fewer fetches says little of a host.
_FETCHES: Final = 3

_CREATE: Final = (
    "CREATE TABLE hosts (host TEXT PRIMARY KEY, pages INT, bytes INT, fetches INT, secs REAL) "
    "WITHOUT ROWID"
)
_ADD: Final = (
    "INSERT INTO hosts VALUES (?, ?, ?, ?, ?) ON CONFLICT (host) DO UPDATE SET "
    "pages = pages + excluded.pages, bytes = bytes + excluded.bytes, "
    "fetches = fetches + excluded.fetches, secs = secs + excluded.secs"
)


class HostRow:
    """What is summed of one host; *ended_at* is when its last fetch was done, 0 if not known."""

    __slots__ = ("bytes", "ended_at", "fetches", "pages", "secs")

    def __init__(self) -> None:
        self.pages = self.bytes = self.fetches = 0
        self.secs = self.ended_at = 0.0


class HostFigures(NamedTuple):
    """One host: *secs* is the mean of its fetches."""

    host: str
    pages: int
    bytes: int
    fetches: int
    secs: float


class Servers(NamedTuple):
    """What all hosts that were contacted amount to.

    *with_pages* and *with_bytes* are the hosts that have at least 1, 2, 4, ... of them.
    """

    number: int
    with_pages: list[int]
    with_bytes: list[int]
    hosts_by_tld: Counter[str]
    pages_by_tld: Counter[str]
    largest: list[HostFigures]
    slowest: list[HostFigures]


class HostTotals:
    """The rows of all hosts. A spill ends what is known of ``ended_at``."""

    def __init__(self, *, most_in_memory: int = _MOST_IN_MEMORY) -> None:
        self._most = most_in_memory
        self._rows: dict[str, HostRow] = {}
        self._database: sqlite3.Connection | None = None

    def row(self, host: str) -> HostRow:
        """The row of *host*, to be changed before the next call."""
        row = self._rows.get(host)
        if row is None:
            if len(self._rows) >= self._most:
                self._spill()
            row = self._rows[host] = HostRow()
        return row

    def _spill(self) -> None:
        if self._database is None:
            self._database = sqlite3.connect("", isolation_level=None)
            self._database.execute("PRAGMA cache_size = -65536")
            self._database.execute(_CREATE)
        with self._database as database:
            database.execute("BEGIN")
            database.executemany(_ADD, sorted(self._in_memory()))
        self._rows.clear()

    def _in_memory(self) -> Iterator[tuple[str, int, int, int, float]]:
        for host, row in self._rows.items():
            yield host, row.pages, row.bytes, row.fetches, row.secs

    def _all(self) -> Iterator[tuple[str, int, int, int, float]]:
        if self._database is None:
            return self._in_memory()
        self._spill()
        return self._database.execute("SELECT * FROM hosts")

    def close(self) -> None:
        """Free what it holds."""
        self._rows.clear()
        if self._database is not None:
            self._database.close()
            self._database = None

    def servers(self) -> Servers:
        """What they amount to; reads all, a million in three seconds."""
        pages_by_bits, bytes_by_bits = [0] * 65, [0] * 65
        hosts_by_tld: Counter[str] = Counter()
        pages_by_tld: Counter[str] = Counter()
        largest: list[tuple[int, HostFigures]] = []
        slowest: list[tuple[bool, float, HostFigures]] = []
        count = 0
        for host, pages, size, fetches, secs in self._all():
            if not fetches:
                continue
            count += 1
            pages_by_bits[pages.bit_length()] += 1
            bytes_by_bits[min(size.bit_length(), 64)] += 1
            tld = tld_of(host)
            hosts_by_tld[tld] += 1
            pages_by_tld[tld] += pages
            figures = HostFigures(host, pages, size, fetches, secs / fetches)
            _keep(largest, (pages, figures))
            _keep(slowest, (fetches >= _FETCHES, figures.secs, figures))
        return Servers(
            count,
            _at_least(pages_by_bits),
            _at_least(bytes_by_bits),
            hosts_by_tld,
            pages_by_tld,
            [figures for pages, figures in sorted(largest, reverse=True) if pages],
            [figures for _, _, figures in sorted(slowest, reverse=True)],
        )


def tld_of(host: str) -> str:
    """The top-level domain of *host*.

    >>> [tld_of(host) for host in ("a.example.com", "10.0.0.1", "2001:db8::1", "localhost")]
    ['.com', 'raw IP addresses', 'raw IP addresses', '.localhost']
    """
    last = host.rpartition(".")[2]
    return RAW_ADDRESSES if ":" in host or last.isdecimal() else f".{last}"


def _keep(heap: list, one: tuple) -> None:  # type: ignore[type-arg]  # of any tuples in order
    (heapq.heappush if len(heap) < _SHOWN else heapq.heappushpop)(heap, one)


def _at_least(by_bits: list[int]) -> list[int]:
    """From the hosts with a number of k bits, those with at least 2**(k-1)."""
    counts = [sum(by_bits[bits:]) for bits in range(1, len(by_bits))]
    while counts and not counts[-1]:
        counts.pop()
    return counts
