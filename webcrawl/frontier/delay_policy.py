"""Delay policies: how long a host rests after a contact.

A policy is consulted at each release, and during recovery for contacts whose end is unknown. It
must keep two invariants, so that a host is not contacted too early after a contact was cut off by a
crash:

- the rest never decreases when one of the facts grows;
- the rest after several downloads is no longer than after the longest of them alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

# "Save the last five times, average them" (Mischel, on queue management).
REMEMBERED_TIMES = 5
# Any back-off multiplied by 2 to this power exceeds every ceiling; a larger power would overflow.
_MAX_DOUBLINGS = 40


class HostFacts(NamedTuple):
    """Facts about one host for a delay policy. All in seconds, except *failures*.

    times: how long the latest downloads from the host took, newest last, including the one that has
        just ended; at most REMEMBERED_TIMES.
    crawl_delay: the delay between two contacts that the host's robots.txt asks for; 0 if none.
    retry_after: the delay that the host's last answer asked for; 0 if none.
    failures: number of consecutive contacts, up to the last one, that failed or were answered with
        429 or 503.
    """

    times: Sequence[float]
    crawl_delay: float = 0.0
    retry_after: float = 0.0
    failures: int = 0


class DelayPolicy(Protocol):
    """Interface of a delay policy."""

    def rest(self, facts: HostFacts) -> float:
        """Return how many seconds to rest after a contact, given *facts*.

        See the module's invariants for how the result may depend on the facts.
        """
        ...


@dataclass(kw_only=True)
class LargestDelay:
    """Delay policy that takes the longest of all delays that apply.

    All values are in seconds, and may change during a crawl.

    - *factor* times the average of the last download times, at most *ceiling*: "we wait 10 times
      as long as it took us to download a URL from a host before contacting that host again"
      (Mercator, section 3.1), averaged (Mischel). The ceiling keeps a stalled download from
      putting a host aside for hours.
    - *floor*, so that fast hosts are not hammered (Nielsen: 70 s for each domain).
    - *unmeasured* while fewer than five downloads are known (Mischel: one minute).
    - Crawl-delay and Retry-After, unchanged.
    - *backoff* after a failure, doubled with each failure that follows, at most *backoff_max*: the
      penalty box.

    >>> polite = LargestDelay(factor=10, floor=3, ceiling=120, backoff=10, backoff_max=3600)
    >>> [polite.rest(HostFacts([took])) for took in (0.01, 0.5, 5.0, 60.0)]
    [3, 5.0, 50.0, 120]
    >>> polite.rest(HostFacts([0.1, 0.1, 0.1, 0.1, 2.1]))
    5.0
    >>> polite.rest(HostFacts([0.1], crawl_delay=30)), polite.rest(HostFacts([0.1], failures=3))
    (30, 40.0)
    """

    factor: float
    floor: float
    ceiling: float
    unmeasured: float = 0.0
    backoff: float = 0.0
    backoff_max: float = 0.0

    def rest(self, facts: HostFacts) -> float:
        times, crawl_delay, retry_after, failures = facts
        average = sum(times) / len(times) if times else 0.0
        rest = max(
            self.floor,
            min(self.factor * average, self.ceiling),
            crawl_delay,
            retry_after,
        )
        # The average of fewer downloads is not trusted yet.
        if self.unmeasured and len(times) < REMEMBERED_TIMES:
            rest = max(rest, self.unmeasured)
        if failures:
            doubled = self.backoff * 2.0 ** min(failures - 1, _MAX_DOUBLINGS)
            rest = max(rest, min(doubled, self.backoff_max))
        return rest


def cut_off(policy: DelayPolicy, took: float) -> float:
    """Return how long to rest, by *policy*, after a cut-off contact of at most *took* seconds."""
    return policy.rest(HostFacts((took,)))
