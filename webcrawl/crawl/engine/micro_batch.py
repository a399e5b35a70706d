"""Micro-batching: pages that arrive within 2 ms go through each stage back to back.

Otherwise they would alternate as their packets arrive, each in another part of the crawl. Running
the same code for one page after another keeps it in the processor's caches.
"""

from __future__ import annotations

import asyncio

#: Seconds to wait for pages that arrive together: one turn of a broad crawl's loop takes 20 to 50
#: ms, and the batch starts when it is over.
TOGETHER_SECS = 0.002


class MicroBatch:
    """One stage, before which pages of one loop wait for each other."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    def wait(self) -> asyncio.Future[None]:
        """Return a future to await before the stage.

        If one is cancelled, the others still continue.
        """
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_later(TOGETHER_SECS, self._begin)
        waiter = loop.create_future()
        self._waiting.append(waiter)
        return waiter

    def _begin(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():  # otherwise it was cancelled
                waiter.set_result(None)
