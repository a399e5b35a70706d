"""How soon the frontier has a URL to fetch: what merges, passes and rounds of budgets go by."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from webcrawl.frontier.back_end import BackEnd
    from webcrawl.frontier.front_end import FrontEnd
    from webcrawl.frontier.leases import LeaseTable

# A contact that lasts longer than this share of what is soon is followed by a long rest.
_FRESH = 0.1


class Supply(enum.IntEnum):
    """How soon the frontier has a URL to fetch.

    A host that fails, if only on one of its origins, asks for a long rest, or is slow, is far off:
    no worker waits for it.
    """

    NOW = 0
    SOON = 1  # all hosts rest or are in process, not all of them are far off
    LATER = 2  # what waits or is under way is of hosts that are far off
    NONE = 3  # nothing waits, nothing is under way


def supply_of(
    front: FrontEnd, back: BackEnd, leases: LeaseTable, *, now: float, soon: float
) -> Supply:
    """The supply *now*; a host is far off when more than *soon* seconds lie between two contacts.
    O(hosts contacted in the last second)."""
    earliest = back.earliest()
    if front.size or (earliest is not None and earliest <= now):
        return Supply.NOW
    fresh = leases.since(now - _FRESH * soon)
    if back.near or not all(back.is_far(lease.key) for lease in fresh):
        return Supply.SOON
    return Supply.LATER if back.size or leases else Supply.NONE
