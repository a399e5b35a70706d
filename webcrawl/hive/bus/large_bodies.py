"""Large bodies of subresources, which go through HIVE_STORE instead of Redis."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from webcrawl.hive.store.store import CheckpointStore

# The bodies of larger answers are not sent: their pages are rendered without them.
_MAX_BYTES = 5_000_000


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

    def put(self, body: bytes, then: Callable[[str], None]) -> None:
        """Store *body*, and call *then* with its name; "" if it cannot be stored."""

        async def put() -> None:
            try:
                name = await asyncio.to_thread(self._store.put_body, body, self._keep_secs)
            except OSError:
                name = ""
            then(name)

        if len(body) > _MAX_BYTES:
            then("")
        else:
            self._run(put())

    def get(self, name: str, then: Callable[[bytes | None], None]) -> None:
        """Read the body *name*, and call *then* with it; None if it cannot be read."""

        async def get() -> None:
            try:
                body = await asyncio.to_thread(self._store.body, name)
            except OSError:
                body = None
            then(body)

        self._run(get())
