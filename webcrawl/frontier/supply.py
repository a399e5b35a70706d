"""How soon the frontier has a URL to fetch; merges, passes and budget rounds depend on it."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from webcrawl.frontier.entry import SUBRESOURCE

if TYPE_CHECKING:
    from webcrawl.frontier.back_end import BackEnd
    from webcrawl.frontier.front_end import FrontEnd
    from webcrawl.frontier.leases import LeaseTable

# A contact that lasts longer than this fraction of *soon* is followed by a long rest.
_RECENT_SHARE = 0.1


class Supply(enum.IntEnum):
    """How soon the frontier has a URL to fetch.

    A host is far off if it fails (even on one origin only), asks for a long rest, or is slow. No
    worker waits for it. A host of which only subresources wait counts as far off, too, so that
    budgets of pages do not wait for these.
    """

    NOW = 0
    SOON = 1  # all hosts rest or are in process, and some of them are not far off
    LATER = 2  # all hosts with pages that wait or are being fetched are far off
    NONE = 3  # nothing waits, nothing is being fetched


def supply_of(
    front: FrontEnd, back: BackEnd, leases: LeaseTable, *, now: float, soon: float
) -> Supply:
    """Return how soon after *now* a frontier made of these parts will have a URL to fetch.

    A host is far off if more than *soon* seconds lie between two contacts. The time that this takes
    is proportional to the number of hosts contacted in the last second.
    """
    earliest = back.earliest()
    if front.size or (earliest is not None and earliest <= now):
        return Supply.NOW

    # Hosts in process since earlier are far off: a long contact is followed by a long rest.
    recent_leases = leases.since(now - _RECENT_SHARE * soon)
    if back.has_near_pages or not all(
        back.is_far(lease.key)
        or (lease.entry.kind == SUBRESOURCE and not back.has_pages(lease.key))
        for lease in recent_leases
    ):
        return Supply.SOON
    return Supply.LATER if back.size or leases else Supply.NONE
