"""Messages with large bodies of subresources, which go through HIVE_STORE instead of Redis."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TypeVar

from webcrawl.hive.store.store import CheckpointStore

logger = logging.getLogger(__name__)
_T = TypeVar("_T")

# Other work with the store must not have to wait for a free thread.
_MAX_TRANSFERS = 2


class LargeBodies:
    """Bodies in *store*, each for *keep_secs*. *run* runs a coroutine as a task."""

    def __init__(
        self,
        store: CheckpointStore,
        *,
        keep_secs: float,
        run: Callable[[Coroutine[None, None, None]], object],
    ) -> None:
        self._store = store
        self._keep_secs = keep_secs
        self._run = run
        self._transfers = asyncio.Semaphore(_MAX_TRANSFERS)

    def put(self, body: bytes, then: Callable[[str], None]) -> None:
        """Store *body*, and call *then* with its name."""
        self._run(self._call(partial(self._store.put_body, body, self._keep_secs), then))

    def get(self, name: str, then: Callable[[bytes], None]) -> None:
        """Read the body *name*, and call *then* with it."""
        self._run(self._call(partial(self._store.body, name), then))

    async def _call(self, work: Callable[[], _T], then: Callable[[_T], None]) -> None:
        """Run *work* in a thread, and call *then* with its result.

        If it fails, the page waits until it asks again, or for RENDER_WAIT_SECS.
        """
        async with self._transfers:
            try:
                result = await asyncio.to_thread(work)
            except OSError as error:
                logger.warning("An answer for a page that is rendered was lost: %s", error)
                return
        then(result)
