"""How soon the frontier has a URL to fetch: what merges, passes and rounds of budgets go by."""

from __future__ import annotations

import enum


class Supply(enum.IntEnum):
    """How soon the frontier has a URL to fetch.

    A host that fails, asks for a long rest, or is slow, is far off: no worker waits for it.
    """

    NOW = 0
    SOON = 1  # all hosts rest or are in process, not all of them are far off
    LATER = 2  # what waits or is under way is of hosts that are far off
    NONE = 3  # nothing waits, nothing is under way
