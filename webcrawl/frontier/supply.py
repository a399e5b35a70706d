"""How soon the frontier has a URL to fetch; merges, passes and budget rounds depend on it."""

from __future__ import annotations

import enum

from webcrawl.frontier.back_queue import BackQueue
from webcrawl.frontier.entry import SUBRESOURCE
from webcrawl.frontier.parts import FrontierParts

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


def supply_of(parts: FrontierParts) -> Supply:
    """Return how soon a frontier made of *parts* will have a URL to fetch.

    The time that this takes is proportional to the number of hosts contacted in the last second.
    """
    back = parts.back
    leases = parts.leases
    now = parts.clock()
    earliest = back.line.earliest(now)
    if parts.front.size or (earliest is not None and earliest <= now):
        return Supply.NOW

    # Hosts that have been in process for longer are far off: a long contact is followed by a long
    # rest. The others are not, unless they are known to be, or have only subresources.
    recent_leases = leases.since(now - _RECENT_SHARE * parts.soon)
    if back.has_near_pages or not all(
        back.is_far(lease.key)
        or (lease.entry.kind == SUBRESOURCE and not _has_pages(back.table.get(lease.key)))
        for lease in recent_leases
    ):
        return Supply.SOON
    return Supply.LATER if back.size or leases else Supply.NONE


def _has_pages(queue: BackQueue | None) -> bool:
    """Return whether other URLs than subresources wait in *queue*."""
    return queue is not None and queue.has_pages
