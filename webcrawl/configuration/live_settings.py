"""Settings that may change while a crawl runs: read at each use, so a new value holds at once."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(slots=True, kw_only=True)
class LiveSettings:
    """One object for the whole process.

    workers: CONCURRENT_REQUESTS.
    lease_secs: FRONTIER_LEASE_SECS.
    grace_secs: SHUTDOWN_GRACE_SECS.
    item_secs: ITEM_TIMEOUT_SECS.
    """

    workers: int
    lease_secs: float
    grace_secs: float
    item_secs: float
