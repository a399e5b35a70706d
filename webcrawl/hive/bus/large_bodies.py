"""Large bodies of subresources, which go through HIVE_STORE instead of Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TypeVar

from webcrawl.hive.store.store import CheckpointStore

_T = TypeVar("_T")

# The bodies of larger answers are not sent: their pages are rendered without them.
_MAX_BYTES = 5_000_000
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
        """Store *body*, and call *then* with its name; "" if it cannot be stored."""
        if len(body) > _MAX_BYTES:
            then("")
        else:
            self._run(self._call(partial(self._store.put_body, body, self._keep_secs), then, ""))

    def get(self, name: str, then: Callable[[bytes | None], None]) -> None:
        """Read the body *name*, and call *then* with it; None if it cannot be read."""
        self._run(self._call(partial(self._store.body, name), then, None))

    async def _call(
        self, work: Callable[[], _T], then: Callable[[_T], None], otherwise: _T
    ) -> None:
        """Run *work* in a thread, and call *then* with its result; with *otherwise* if it fails."""
        async with self._transfers:
            try:
                result = await asyncio.to_thread(work)
            except OSError:
                result = otherwise
        then(result)
