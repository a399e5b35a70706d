"""All that is known of hosts, and those who go by it: one object for the scheduler to hold.

Built by builder.py. ``open`` and ``close`` touch the disk; ``work`` is called with every slice of
background work. The records are durable by themselves (hosts/), they are no part of a checkpoint:
what ``kill -9`` takes of them is at most two seconds old and can be found out again, and the rests
of hosts are in the frontier's own log.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from webcrawl.errors import FatalError
from webcrawl.urls.politeness_key import KEYS

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor
    from pathlib import Path

    from webcrawl.clock import Clock
    from webcrawl.hosts.budgets.quotas import Ledger
    from webcrawl.hosts.budgets.traps.keeper import TrapKeeper
    from webcrawl.hosts.politeness.addresses import HostAddresses
    from webcrawl.hosts.politeness.delays import Politeness
    from webcrawl.hosts.politeness.exclusions import Exclusions
    from webcrawl.hosts.politeness.origin_rests import OriginRests
    from webcrawl.hosts.politeness.outage import Outage
    from webcrawl.hosts.politeness.pauses import Pauses
    from webcrawl.hosts.politeness.preconditions import HostPrelude
    from webcrawl.hosts.records import HostRecords
    from webcrawl.hosts.retry_policy import RetryPolicy
    from webcrawl.hosts.robots.lookup import RobotsSearch

# Seconds between two writes of what is new in the records.
_FLUSH_SECS = 1.0


@dataclasses.dataclass(slots=True, kw_only=True)
class HostKnowledge:
    """*executor* is the records' own: a merge of the eliminator, minutes long, must not make them
    wait. *addresses* is None when a proxy looks names up. *pauses* are the reasons for which no
    host is contacted at all. *key* is POLITENESS_KEY; *clock* is the shard's."""

    records: HostRecords
    clock: Clock
    executor: Executor
    exclusions: Exclusions
    addresses: HostAddresses | None
    robots: RobotsSearch
    politeness: Politeness
    retries: RetryPolicy
    ledger: Ledger
    prelude: HostPrelude
    traps: TrapKeeper
    pauses: Pauses
    outage: Outage
    origins: OriginRests
    key: str
    _flushed_at: float = 0.0

    @property
    def key_of(self) -> Callable[[str], str]:
        """Gives a URL's politeness key."""
        return KEYS[self.key]

    @property
    def shares_clocks(self) -> bool:
        """Whether a contact needs the clock of the address it goes to, too."""
        return self.key == "address"

    def open(self, *, key: str | None, jobdir: Path) -> None:
        """*key* is the POLITENESS_KEY of the crawl in *jobdir* so far, None for a new one.

        Raises FatalError, CorruptRecordError, NewerFormatError, OSError; then nothing is left open.
        """
        if key not in {None, self.key}:
            raise FatalError(
                f"JOBDIR {jobdir} holds a crawl with POLITENESS_KEY {key}, not {self.key}: go on "
                "with that, or choose another JOBDIR."
            )
        self.exclusions.open()
        self.records.open()
        self.traps.open()

    def work(self) -> None:
        """A moment's work now and then; OSError when the records cannot be written."""
        self.exclusions.reload_if_changed()
        self.traps.work()
        self.outage.work()
        now = self.clock()
        if now - self._flushed_at >= _FLUSH_SECS:
            self._flushed_at = now
            if self.records.failure is not None:
                raise self.records.failure
            self.records.flush()

    def close(self) -> None:
        """Break off look-ups and write what is new. Blocks. Calling it again does nothing."""
        if self.addresses is not None:
            self.addresses.close()
        self.exclusions.close()
        self.traps.close()
        self.executor.shutdown()
        self.records.close()

    def stats(self) -> dict[str, int]:
        """Under their names in the crawl's statistics."""
        rules = self.exclusions.stats()
        exclusions = {f"exclusions/{name}": n for name, n in rules.items()}
        return self.records.stats() | exclusions | self.traps.stats()
