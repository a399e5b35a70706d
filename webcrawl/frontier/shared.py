"""Shared clocks: pauses that several hosts have in common, such as those with one address.

A host in process claims the clock that it shares before it is contacted, and gives it back when it
is released itself. The invariant: a shared clock is held by at most one host, and is claimed only
when its rest is over. The rest of a clock is stored with those of the hosts (rests.py), under a
name that no host can have, so it is journaled, bounded in memory and recovered in the same way.

A host that finds the clock taken has to try again. If a thousand hosts with one address did so at
the same time, only one would succeed. So each is told a different time, one usual rest after the
time that the previous host was told.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from webcrawl.clock import TimeSource
from webcrawl.frontier.delay_policy import DelayPolicy, cut_off
from webcrawl.frontier.done_log import Contact, DoneLog, Release
from webcrawl.frontier.rests import HostClocks

# Not allowed in host names.
_MARK = "@"
# Minimum number of seconds between the times at which two hosts try again.
_SHORTEST_PACE = 0.1
# Number of clocks whose last assigned time is remembered. If a clock is forgotten, two of its hosts
# may be told the same time.
_MAX_ASSIGNED = 65_536


def clock_name(key: str) -> str:
    """Return the name of the shared clock *key* in the done log and the snapshot."""
    return _MARK + key


class Claim(NamedTuple):
    """A host's claim on the shared clock *name*, held since *at*, epoch seconds."""

    name: str
    at: float


@dataclass(kw_only=True, eq=False)
class SharedClocks:
    """The shared clocks, and which host holds which. Times are epoch seconds. Not thread-safe.

    *rests* stores the rests of all clocks, and *log* is the done log. After a crash, a clock rests
    for as long as the policy *delay* says.
    """

    clock: TimeSource
    log: DoneLog
    rests: HostClocks
    delay: DelayPolicy
    # host -> its claim, and the names of all clocks that are held.
    _claims: dict[str, Claim] = field(default_factory=dict, init=False)
    _held: set[str] = field(default_factory=set, init=False)
    # name -> the latest time at which a host was told to try again.
    _assigned: OrderedDict[str, float] = field(default_factory=OrderedDict, init=False)

    def __len__(self) -> int:
        """Return the number of clocks that are held."""
        return len(self._held)

    @property
    def claims(self) -> Collection[Claim]:
        """All clocks that are held."""
        return self._claims.values()

    def claim(self, host: str, key: str) -> float:
        """Claim the clock *key* for *host*; return 0.0 if that worked, or how many seconds to wait.

        Raises ValueError if *host* holds another clock. See ``Contacts.claim``.
        """
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
            self.rests.take(name)  # its rest is over, and ``release`` stores the next one
            self._held.add(name)
            self._claims[host] = Claim(name, now)
        return wait

    def _wait(self, name: str, now: float) -> float:
        """Return 0.0 if *name* may be claimed now, otherwise in how many seconds to try again."""
        # The shortest rest of a clock, and so the time between two claims of it.
        pace = max(cut_off(self.delay, 0.0), _SHORTEST_PACE)
        if name in self._held:
            free_at = now + pace
        else:
            rest = self.rests.find(name)
            if rest is None or rest[0] <= now:
                return 0.0
            free_at = rest[0]

        # One pace after the time that was told the previous host, so that only one host comes then.
        last_assigned = self._assigned.pop(name, None)
        retry_at = free_at if last_assigned is None else max(last_assigned + pace, free_at)
        self._assigned[name] = retry_at
        if len(self._assigned) > _MAX_ASSIGNED:  # forget the clock that was refused longest ago
            self._assigned.popitem(last=False)
        return retry_at - now

    def release(self, host: str, *, rest: float) -> None:
        """Release the clock that *host* holds, if any, and let it rest for *rest* seconds."""
        claim = self._claims.get(host)
        if claim is None:
            return

        now = self.clock()
        # After a crash, a claim without a logged release counts as a cut-off contact, whose rest
        # follows from its time. Only a longer rest must be on disk before this returns.
        assumed = cut_off(self.delay, now - claim.at)
        # Clocks ask for no minimum rest of their own, in contrast to hosts.
        min_rest = 0.0
        self.log.release(Release(claim.name, now + rest, min_rest), at_once=rest > assumed)
        del self._claims[host]
        self._held.discard(claim.name)
        self.rests.remember(claim.name, now + rest, min_rest, now=now)
