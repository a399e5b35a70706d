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
        size = len(body)
        if self._waiting_bytes + size > _MAX_WAITING_BYTES:
            _warn("HIVE_STORE is too slow")
            return
        self._waiting_bytes += size
        store = partial(self._store.put_body, body, self._keep_secs)
        self._run(self._transfer(store, on_stored, size=size))

    def take(
        self, name: str, on_read: Callable[[bytes], None], *, on_lost: Callable[[], None]
    ) -> None:
        """Read the body *name* and delete it. Call *on_read* with it, or *on_lost*."""
        self._run(self._transfer(partial(self._store.take_body, name), on_read, on_lost))

    async def _transfer(
        self,
        work: Callable[[], _T],
        on_done: Callable[[_T], None],
        on_lost: Callable[[], None] = lambda: None,
        *,
        size: int = 0,
    ) -> None:
        """Run *work* in a thread, and call *on_done* with its result, or *on_lost* if it fails.

        *size* is that of a body that is in memory until then.
        """
        try:
            async with self._transfers:
                result = await asyncio.to_thread(work)
        except OSError as error:
            _warn(error)
            on_lost()
            return
        finally:
            self._waiting_bytes -= size
        on_done(result)


def _warn(reason: object) -> None:
    logger.warning("An answer for a page that is rendered was lost: %s", reason)
