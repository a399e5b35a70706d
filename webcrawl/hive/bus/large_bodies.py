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
# Bodies that wait to be stored are in memory. While the store is slow, more of them are lost.
_MAX_WAITING_BYTES = 1 << 26


class LargeBodies:
    """Bodies in *store*, each until it is read, or for *keep_secs*.

    A body that is lost is reported in the log. *run* runs a coroutine as a task.
    """

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
        self._waiting_bytes = 0

    def put(self, body: bytes, on_stored: Callable[[str], None]) -> None:
        """Store *body*, and call *on_stored* with its name, unless it is lost."""
        if self._waiting_bytes + len(body) > _MAX_WAITING_BYTES:
            _warn("HIVE_STORE is too slow")
            return
        self._waiting_bytes += len(body)
        self._run(self._put(body, on_stored))

    async def _put(self, body: bytes, on_stored: Callable[[str], None]) -> None:
        try:
            name = await self._transfer(partial(self._store.put_body, body, self._keep_secs))
        finally:
            self._waiting_bytes -= len(body)
        if name is not None:
            on_stored(name)

    def take(
        self, name: str, on_read: Callable[[bytes], None], on_lost: Callable[[], None]
    ) -> None:
        """Delete the body *name* from the store; call *on_read* with it, or *on_lost*."""
        self._run(self._take(name, on_read, on_lost))

    async def _take(
        self, name: str, on_read: Callable[[bytes], None], on_lost: Callable[[], None]
    ) -> None:
        body = await self._transfer(partial(self._store.take_body, name))
        if body is None:
            on_lost()
        else:
            on_read(body)

    async def _transfer(self, work: Callable[[], _T]) -> _T | None:
        """Run *work* in a thread, and return its result, or None if it fails."""
        async with self._transfers:
            try:
                return await asyncio.to_thread(work)
            except OSError as error:
                _warn(error)
                return None


def _warn(reason: object) -> None:
    logger.warning("An answer for a page that is rendered was lost: %s", reason)
