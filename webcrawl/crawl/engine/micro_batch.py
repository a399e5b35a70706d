"""Micro-batching: pages that arrive within 2 ms run each stage back to back.

Without that they alternate as their packets come, each in another part of the crawl. The same code
for one page after another stays in the processor's caches.
"""

from __future__ import annotations

import asyncio

#: Seconds until all have come that came together: a broad crawl's turn of the loop takes 20 to 50
#: ms, and the next one begins when that is over.
TOGETHER_SECS = 0.002


class MicroBatch:
    """One stage, before which pages of one loop wait for each other."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    def wait(self) -> asyncio.Future[None]:
        """To be awaited before the step; the others go on if one of them is cancelled."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_later(TOGETHER_SECS, self._begin)
        waiter = loop.create_future()
        self._waiting.append(waiter)
        return waiter

    def _begin(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():  # else it was cancelled
                waiter.set_result(None)
