"""Appends pages to a Redis list, with scrapy-redis' RedisPipeline, for other programs.

Settings: REDIS_URL, and REDIS_ITEMS_KEY and REDIS_ITEMS_SERIALIZER of scrapy-redis. A page becomes
a JSON object of its fields, with ``body`` in base64 and ``headers`` as pairs.

While the list has 5,000 pages or more, the crawl pauses, as it does for a full disk; downloads in
progress are still added. Pages therefore do not wait in this module, where ITEM_TIMEOUT_SECS would
end them. With another scheduler, as in a replay, they do wait. If Redis is down or full, the crawl
ends, and the next run fetches the page again. A page may be added twice, but is never lost.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import warnings
from typing import TYPE_CHECKING, Any, Self

import msgspec
from redis.exceptions import AuthenticationError, RedisError, ResponseError
from scrapy_redis.pipelines import RedisPipeline, default_serialize

from webcrawl.configuration.secrets import masked_error
from webcrawl.errors import FatalError, RemoteStoreError, UnreachableError
from webcrawl.items import Page
from webcrawl.pipelines.module import ProcessingModule
from webcrawl.wording import counted

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)


_WATCH_EVERY_SECS = 0.2
# The crawl pauses when the list has this many pages, about 200 MB.
_MAX_WAITING = 5000
_PAUSE = "redis"
# Redis refuses the password or the key, or REDIS_PARAMS is not valid.
_PERMANENT_ERRORS = (AuthenticationError, ResponseError, TypeError)
# The raw bytes of the exchange are left out, as only archives need them.
_FIELDS = {
    field.name: field.metadata.get("serializer", lambda value: value)
    for field in dataclasses.fields(Page)
    if not field.name.startswith(("wire_", "warc_", "request_", "_"))
    and field.name not in ("origin", "links_found", "repeats")
}


def as_json(item: Any) -> bytes:
    """Return *item* as JSON if it is a Page, otherwise as scrapy-redis serializes it."""
    if not isinstance(item, Page):
        return str(default_serialize(item)).encode()
    return msgspec.json.encode(
        {name: serialize(getattr(item, name)) for name, serialize in _FIELDS.items()}
    )


class RedisPages(ProcessingModule):
    """Processing module that appends each Page to the Redis list of *pipeline*."""

    name = "redis"

    def __init__(self, *, pipeline: Any) -> None:
        self._pipeline = pipeline
        self._key = ""  # the name of the list; ``open`` sets it
        # Runs while the list is full, and ends when the crawl may continue.
        self._watching: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler, **_: Any) -> Self:
        """Make the module with a pipeline of scrapy-redis. Raises FatalError for bad settings."""
        settings = crawler.settings
        try:
            with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
                # scrapy-redis itself passes a deprecated parameter, so warnings are ignored.
                pipeline = RedisPipeline.from_settings(settings)
        except (TypeError, ValueError) as error:
            why = masked_error(error, settings.get("REDIS_URL"))
            raise FatalError(f"REDIS_URL or REDIS_PARAMS cannot be used: {why}.") from None
        if not settings.get("REDIS_ITEMS_SERIALIZER"):
            pipeline.serialize = as_json
        return super().from_crawler(crawler, pipeline=pipeline)

    async def open(self) -> None:
        """Get the length of the list. Raises FatalError if Redis does not answer."""
        self._key = self._pipeline.item_key(None, self._crawler.spidercls)
        try:
            length = await self._run_command("llen", self._key)
        except RemoteStoreError as error:
            is_permanent = isinstance(error.__cause__, _PERMANENT_ERRORS)
            error_class = FatalError if is_permanent else UnreachableError
            raise error_class(f"{error}: start Redis, or correct REDIS_URL.") from error
        self._hold_if_full(length)

    def process(self, page: Page) -> Coroutine[Any, Any, None]:
        return self._push(self._pipeline.serialize(page))

    async def close(self) -> None:
        """Close the connection; the list stays for its consumers."""
        if self._watching is not None:
            self._watching.cancel()
        await asyncio.to_thread(self._pipeline.server.close)

    async def _push(self, data: bytes) -> None:
        """Append *data*; if the list is full and the crawl cannot pause, wait for consumers."""
        self._hold_if_full(await self._run_command("rpush", self._key, data))
        if self._pauses is None and self._watching is not None:
            await asyncio.shield(self._watching)

    async def _run_command(self, command: str, *arguments: Any) -> int:
        """Run the Redis *command* with *arguments* and return its result.

        Runs in a thread, because the client blocks. Raises RemoteStoreError.
        """
        try:
            return int(await asyncio.to_thread(getattr(self._pipeline.server, command), *arguments))
        # A TypeError is raised if REDIS_PARAMS is not valid.
        except (RedisError, OSError, TypeError) as error:
            raise RemoteStoreError(f"Redis at REDIS_URL does not accept pages ({error})") from error

    def _hold_if_full(self, length: int) -> None:
        """If the list, which has *length* pages, is full, pause the crawl until it is shorter."""
        self.stats.set("waiting", length)
        if length < _MAX_WAITING or self._watching is not None:  # it is already paused
            return
        sentence = (
            f"{length:,} pages wait in the Redis list {self._key} (the limit is {_MAX_WAITING:,}): "
            "start more consumers; the crawl then continues by itself."
        )
        logger.warning("The crawl pauses: %s", sentence)
        if self._pauses is not None:  # with another scheduler, ``_push`` waits
            self._pauses.hold(_PAUSE, sentence)
        self._watching = asyncio.ensure_future(self._watch())

    async def _watch(self) -> None:
        """Check the list until it is 10 % below its limit, then let the crawl continue."""
        length = _MAX_WAITING
        while length > _MAX_WAITING * 9 // 10:
            await asyncio.sleep(_WATCH_EVERY_SECS)
            try:
                length = await self._run_command("llen", self._key)
            except RemoteStoreError as error:
                logger.warning("%s", error)
                break  # if Redis stays down, the next page ends the crawl
        self._watching = None
        self.stats.set("waiting", length)
        if self._pauses is not None:
            self._pauses.lift(_PAUSE)
        logger.info("The crawl continues: %s in the list %s", counted(length, "page"), self._key)

    @property
    def _pauses(self) -> Any:
        """The pauses of the crawl; None with another scheduler."""
        assert self._crawler.engine is not None
        process = getattr(self._crawler.engine.scheduler, "process", None)
        return None if process is None else process.pauses
