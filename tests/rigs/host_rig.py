"""Host records in memory, for a test of what reads and writes them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

from webcrawl.hosts.records import HostRecord
from webcrawl.hosts.records.host_counters import HostCounter
from webcrawl.hosts.robots.rules_cache import AnswerTimes, RobotsCache

if TYPE_CHECKING:
    from collections.abc import Callable


class Records:
    """Host records in a dictionary."""

    def __init__(self) -> None:
        self.hosts: dict[str, HostRecord] = {}
        self.packed: dict[str, bytes] = {}
        self.domains = SimpleNamespace(
            link=lambda *_: None, find=lambda _: HostCounter(), put=lambda *_: None
        )

        self.rests = self.failure = None

    def resize(self, **_: int) -> None:
        """All fits."""

    def get(self, host: str) -> HostRecord:
        return self.hosts.get(host) or HostRecord(host)

    def put(self, record: HostRecord) -> None:
        self.hosts[record.host] = record

    def robots(self, origin: str) -> bytes | None:
        return self.packed.get(origin)

    def put_robots(self, origin: str, data: bytes) -> None:
        self.packed[origin] = data


def robots_cache(
    records: Records, *, clock: Callable[[], float], expire: float = 86_400.0
) -> RobotsCache:
    return RobotsCache(
        store=records,
        user_agent="webcrawl",
        size=100,
        max_bytes=1 << 20,
        times=AnswerTimes(expire, 600.0),
        clock=clock,
    )
