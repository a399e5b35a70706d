"""Messages with large bodies of subresources, which have keys of their own instead of a stream."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from webcrawl.hive.membership.connection import UNREACHABLE, RedisClient, reason_of
from webcrawl.hive.membership.keys import Keys
from webcrawl.randomness import random_hex

logger = logging.getLogger(__name__)


class LargeBodies:
    """Bodies in the Redis of *client*, each for *keep_secs* or until it is read.

    *run* runs a coroutine as a task.
    """

    def __init__(
        self,
        client: RedisClient,
        keys: Keys,
        *,
        keep_secs: float,
        run: Callable[[Coroutine[None, None, None]], object],
    ) -> None:
        self._client = client
        self._keys = keys
        self._keep_secs = max(1, round(keep_secs))
        self._run = run

    def put(self, body: bytes, then: Callable[[str], None]) -> None:
        """Store *body*, and call *then* with its name."""
        name = random_hex("bodies")
        command = ("SET", self._keys.body(name), body, "EX", self._keep_secs)
        self._run(self._call(command, lambda _: then(name)))

    def get(self, name: str, then: Callable[[bytes], None]) -> None:
        """Take the body *name* out of Redis, and call *then* with it."""
        self._run(self._call(("GETDEL", self._keys.body(name)), then))

    async def _call(
        self, command: tuple[str | bytes | int, ...], then: Callable[[Any], None]
    ) -> None:
        """Send *command* to Redis, and call *then* with the answer.

        If there is none, the page waits until it asks again, or for RENDER_WAIT_SECS.
        """
        try:
            answer = await self._client.execute_command(*command)
        except UNREACHABLE as error:
            logger.warning("An answer for a page that is rendered was lost: %s", reason_of(error))
            return
        if answer is not None:  # it was not read before
            then(answer)
