"""Micro-batching: pages that arrive within 2 ms go through each stage back to back.

Otherwise pages would be processed in the order of their packets, each in a different stage. Running
the same code for one page after another keeps it in the processor's caches.
"""

from __future__ import annotations

import asyncio

#: Seconds to wait for more pages. One turn of a broad crawl's event loop takes 20 to 50 ms, and the
#: batch starts after it.
TOGETHER_SECS = 0.002


class MicroBatch:
    """A stage that pages enter together: pages that arrive within 2 ms wait for each other."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    def wait(self) -> asyncio.Future[None]:
        """Return a future to await before entering the stage.

        If one page is cancelled, the others still continue.
        """
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_later(TOGETHER_SECS, self._release)
        waiter = loop.create_future()
        self._waiting.append(waiter)
        return waiter

    def _release(self) -> None:
        waiting = self._waiting
        self._waiting = []
        for waiter in waiting:
            if not waiter.done():  # otherwise it was cancelled
                waiter.set_result(None)
