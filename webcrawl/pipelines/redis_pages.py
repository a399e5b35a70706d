"""Pages in a Redis list, by scrapy-redis' RedisPipeline, for programs on other machines.

Settings: REDIS_URL, REDIS_ITEMS_KEY, REDIS_ITEMS_SERIALIZER of scrapy-redis. A
page is a JSON object: its fields, ``body`` in base64, ``headers`` as pairs.

While the list has 5,000 pages the crawl pauses, as it does for a full disk; pages that
are under way then come on top. So none waits in here, where ITEM_TIMEOUT_SECS would end it; with
another scheduler, as in a replay, it does. A page that Redis does not take, as it is away or full,
ends the crawl and is fetched again by the next run; a page may come twice, it is never lost.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import warnings
from typing import TYPE_CHECKING, Any, Self

import msgspec
from redis.exceptions import RedisError
from scrapy_redis.pipelines import RedisPipeline, default_serialize

from webcrawl.configuration.secrets import masked_error
from webcrawl.errors import FatalError, RemoteStoreError
from webcrawl.items import Page
from webcrawl.pipelines.module import ProcessingModule

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)


_LOOK_EVERY_SECS = 0.2
# Pages that may wait in the list: 200 MB.
_MOST = 5000
_PAUSE = "redis"
# The exchange as it was on the wire is for archives.
_FIELDS = {
    field.name: field.metadata.get("serializer", lambda value: value)
    for field in dataclasses.fields(Page)
    if not field.name.startswith(("wire_", "request_", "origin", "links_found", "repeats", "_"))
}


def as_json(item: Any) -> bytes:
    """A Page as JSON; what is none, as scrapy-redis writes it."""
    if not isinstance(item, Page):
        return str(default_serialize(item)).encode()
    return msgspec.json.encode({name: say(getattr(item, name)) for name, say in _FIELDS.items()})


class RedisPages(ProcessingModule):
    """Appends each Page to the list of *pipeline*."""

    name = "redis"

    def __init__(self, *, pipeline: Any) -> None:
        self._pipeline = pipeline
        self._key = ""
        self._looking: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler, **_: Any) -> Self:
        settings = crawler.settings
        try:
            with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
                # A parameter of scrapy-redis' own.
                pipeline = RedisPipeline.from_settings(settings)
        except (TypeError, ValueError) as error:
            why = masked_error(error, settings.get("REDIS_URL"))
            raise FatalError(f"REDIS_URL or REDIS_PARAMS cannot be used: {why}.") from None
        if not settings.get("REDIS_ITEMS_SERIALIZER"):
            pipeline.serialize = as_json
        return super().from_crawler(crawler, pipeline=pipeline)

    async def open(self) -> None:
        """See how long the list is. FatalError if Redis does not say."""
        self._key = self._pipeline.item_key(None, self._crawler.spidercls)
        try:
            length = await self._ask("llen", self._key)
        except RemoteStoreError as error:
            raise FatalError(f"{error}: start it, or mend REDIS_URL.") from error
        self._hold_if_full(length)

    def process(self, page: Page) -> Coroutine[Any, Any, None]:
        return self._push(self._pipeline.serialize(page))

    async def close(self) -> None:
        """Leave the list to its consumers."""
        if self._looking is not None:
            self._looking.cancel()
        await asyncio.to_thread(self._pipeline.server.close)

    async def _push(self, data: bytes) -> None:
        self._hold_if_full(await self._ask("rpush", self._key, data))
        if self._pauses is None and self._looking is not None:
            await asyncio.shield(self._looking)

    async def _ask(self, command: str, *arguments: Any) -> int:
        """The answer of Redis, from a thread: the client blocks. RemoteStoreError."""
        try:
            return int(await asyncio.to_thread(getattr(self._pipeline.server, command), *arguments))
        except (RedisError, OSError, TypeError) as error:  # the last for what REDIS_PARAMS has
            raise RemoteStoreError(f"Redis at REDIS_URL takes no pages ({error})") from error

    def _hold_if_full(self, length: int) -> None:
        self.stats.set("waiting", length)
        if length < _MOST or self._looking is not None:
            return
        sentence = (
            f"{length:,} pages wait in the list {self._key} of Redis ({_MOST:,} are the most): "
            "start more consumers, and the crawl goes on by itself."
        )
        logger.warning("The crawl pauses: %s", sentence)
        if self._pauses is not None:
            self._pauses.hold(_PAUSE, sentence)
        self._looking = asyncio.ensure_future(self._look())

    async def _look(self) -> None:
        """Look after the list until it is shorter by a tenth, and let the crawl go on."""
        length = _MOST
        while length > _MOST * 9 // 10:
            await asyncio.sleep(_LOOK_EVERY_SECS)
            try:
                length = await self._ask("llen", self._key)
            except RemoteStoreError as error:
                logger.warning("%s", error)
                break  # the next page ends the crawl, if it is still so
        self._looking = None
        self.stats.set("waiting", length)
        if self._pauses is not None:
            self._pauses.lift(_PAUSE)
        logger.info("The crawl goes on: %s pages wait in the list %s", f"{length:,}", self._key)

    @property
    def _pauses(self) -> Any:
        """Those of the crawl; None with another scheduler."""
        assert self._crawler.engine is not None
        process = getattr(self._crawler.engine.scheduler, "process", None)
        return None if process is None else process.pauses
