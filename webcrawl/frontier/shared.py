"""Shared clocks: rests that several hosts have in common, such as that of their address.

Used by the frontier: a host in process claims the clock it shares before it is contacted, and
gives it back with its own release. The invariant: a shared clock is held by at most one host, and
is claimed only when its rest is over. Its rest is kept among those of the hosts (hosts.py) under a
name that no host has, so it is journaled, bounded in memory and recovered as theirs are.

A host that finds the clock taken has to come again, and of a thousand hosts with one address only
one would succeed: each gets another time, one usual rest after the one before it.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from webcrawl.frontier.delay_policy import cut_off
from webcrawl.frontier.done_log import Contact, Release

if TYPE_CHECKING:
    from collections.abc import Collection

    from webcrawl.clock import TimeSource
    from webcrawl.frontier.delay_policy import DelayPolicy
    from webcrawl.frontier.done_log import DoneLog
    from webcrawl.frontier.rests import HostClocks

# No host name has it.
_MARK = "@"
# Seconds between the times at which two hosts come again, however short the usual rest is.
_SHORTEST_PACE = 0.1
# Clocks whose last given time is known. Of one that is forgotten two hosts get the same time.
_GIVEN = 65_536


def clock_name(key: str) -> str:
    """The name of the shared clock *key* in the done log, the snapshot and the host clocks."""
    return _MARK + key


class Claim(NamedTuple):
    """The shared clock *name* is held since *at*, epoch seconds."""

    name: str
    at: float


@dataclasses.dataclass(kw_only=True, eq=False)
class SharedClocks:
    """Which host holds which clock. Times are epoch seconds. Not thread-safe.

    *rests* has the rests of all clocks, *log* is the done log. After a crash a clock rests for as
    long as *delay* says.
    """

    clock: TimeSource
    log: DoneLog
    rests: HostClocks
    delay: DelayPolicy
    _claims: dict[str, Claim] = dataclasses.field(default_factory=dict, init=False)
    _held: set[str] = dataclasses.field(default_factory=set, init=False)
    # name -> the last time at which a host is to come again.
    _given: OrderedDict[str, float] = dataclasses.field(default_factory=OrderedDict, init=False)

    def __len__(self) -> int:
        """Clocks that are held."""
        return len(self._held)

    @property
    def claims(self) -> Collection[Claim]:
        """All clocks that are held."""
        return self._claims.values()

    def claim(self, host: str, key: str) -> float:
        """See ``Frontier.claim``."""
        name = clock_name(key)
        claim = self._claims.get(host)
        if claim is not None:
            if claim.name != name:
                raise ValueError(f"{host} holds the shared clock {claim.name}, not {name}")
            return 0.0
        now = self.clock()
        wait = self._wait(name, now)
        if not wait:
            self.log.write(Contact(name, now, 0.0))
            self.rests.take(name)
            self._held.add(name)
            self._claims[host] = Claim(name, now)
        return wait

    def _wait(self, name: str, now: float) -> float:
        """0.0 when *name* may be claimed now; otherwise in how many seconds to try again."""
        pace = max(cut_off(self.delay, 0.0), _SHORTEST_PACE)
        if name in self._held:
            free_at = now + pace
        else:
            rest = self.rests.find(name)
            if rest is None or rest[0] <= now:
                return 0.0
            free_at = rest[0]
        last = self._given.pop(name, None)
        at = free_at if last is None else max(last + pace, free_at)
        self._given[name] = at
        if len(self._given) > _GIVEN:
            self._given.popitem(last=False)
        return at - now

    def release(self, host: str, *, rest: float) -> None:
        """The clock that *host* holds, if it holds one, rests for *rest* seconds."""
        claim = self._claims.get(host)
        if claim is None:
            return
        now = self.clock()
        # As for hosts: only what a restart could not guess must be on disk now.
        assumed = cut_off(self.delay, now - claim.at)
        self.log.release(Release(claim.name, now + rest, 0.0), at_once=rest > assumed)
        del self._claims[host]
        self._held.discard(claim.name)
        self.rests.remember(claim.name, now + rest, 0.0, now=now)
