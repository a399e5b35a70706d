"""Trap state: the learned patterns of a URL, and the URL space of its host.

Read from the host records; the exceptions are those of the settings at hand.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from webcrawl.clock import now
from webcrawl.hosts.budgets.traps.keeper import exceptions_in
from webcrawl.hosts.budgets.traps.pattern_record import HostPatterns, decode
from webcrawl.urls import host_of
from webcrawl.urls.filters.pattern import patterns_of

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from webcrawl.jobs.inspect.job_view import ShardView


class PatternState(msgspec.Struct, frozen=True, omit_defaults=True):
    """One pattern of the URL.

    *seen* of its last *pages* documents had content already seen; it is parked until
    *parked_until*, epoch seconds, 0: it is not.
    """

    pattern: str
    seen: int = 0
    pages: int = 0
    parked_until: float = 0.0


class TrapState(msgspec.Struct, frozen=True):
    """The patterns of the URL and the counts of its host.

    *patterns* are the URL's own and the wider one, if it has one; *excepted*: the exceptions have
    one of them. *fresh* pages of the host had new content, *fruitless* answers none.
    """

    patterns: list[PatternState]
    excepted: bool
    fresh: int
    fruitless: int


def trap_state(shard: ShardView, url: str, *, settings: BaseSettings) -> TrapState:
    """Of *url*, normalized. FatalError when the exceptions cannot be read, CorruptRecordError."""
    host = host_of(url)
    data = shard.records.traps(host)
    known = HostPatterns() if data is None else decode(data)
    name = settings.get("TRAP_EXCEPTIONS_FILE") or ""
    exceptions = exceptions_in(Path(name) if name else None, clock=now)
    exceptions.open()
    patterns = [pattern for pattern in patterns_of(url) if pattern]
    record = shard.records.record(host)
    return TrapState(
        patterns=[_state(known, pattern) for pattern in patterns],
        excepted=exceptions.rules.excepts(host, *patterns),
        fresh=0 if record is None else record.fresh,
        fruitless=0 if record is None else record.fruitless,
    )


def _state(known: HostPatterns, pattern: str) -> PatternState:
    record = known.find(pattern)
    if record is None:
        return PatternState(pattern)
    pages = record.seen + record.fresh
    return PatternState(pattern, record.seen, pages, record.parked_until)
