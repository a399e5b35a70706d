"""Live seeds: URLs that are pushed to a list in Redis while the hive crawls.

As with scrapy-redis: ``lpush web:start_urls https://a.test``, ``web`` being the spider's name. An
item is a line as a seed list has it, or a JSON object with ``url``, and ``rank`` if it has one. One
with more is a Request, as scrapy-redis makes it: of ``method``, ``meta``, and form data of all
others; but it is filtered like any, or one that is submitted again would be fetched again. Who can
push is not the owner of the crawl: of meta only the keys of `_Meta` are taken, ``data`` being for
what a callback needs.

The drone with shard 0 takes them in batches. A batch goes, in one step, from the list to a hash
beside it in the same slot, and from there when a checkpoint that was begun after the batch was
submitted has been published. Whoever comes to hold shard 0 submits what it finds there again, so
each item is submitted at least once. Pushed to a crawl that has ended, they wait for the next run.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from scrapy import FormRequest, Request

from webcrawl.configuration.values import flag
from webcrawl.crawl.seeds import BadLine, Seed, parse_line
from webcrawl.errors import FatalError
from webcrawl.hive.membership.connection import UNREACHABLE, is_cancelled
from webcrawl.randomness import random_hex
from webcrawl.urls import SCHEMES, normalize

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from redis.asyncio import Redis, RedisCluster
    from scrapy.settings import BaseSettings
    from scrapy.statscollectors import StatsCollector

logger = logging.getLogger(__name__)

_BATCH: Final = 500
# Batches between two checkpoints; more wait in the list.
_MOST_BATCHES: Final = 200
_POLL_SECS: Final = 1.0
# The pause after a failure of Redis, in pauses of an empty list.
_RETRIES: Final = 5
_LONGEST: Final = 1 << 16  # of JSON with form data
_MOST_LOGGED: Final = 20
_LOGGED_BYTES: Final = 80
_MAX_RANK: Final = 0xFFFF_FFFF

_TAKE: Final = """
local items = redis.call('LRANGE', KEYS[1], 0, ARGV[2] - 1)
if #items > 0 then
  redis.call('LTRIM', KEYS[1], #items, -1)
  redis.call('HSET', KEYS[2], ARGV[1], cmsgpack.pack(items))
end
return items
"""

_TAKEN: Final = """
local batches = redis.call('HGETALL', KEYS[1])
for i = 2, #batches, 2 do
  batches[i] = cmsgpack.unpack(batches[i])
end
return batches
"""


class _Meta(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The keys of meta that an item may have."""

    cookiejar: str | int | msgspec.UnsetType = msgspec.UNSET
    data: Any = msgspec.UNSET
    depth: Annotated[int, msgspec.Meta(ge=0)] | msgspec.UnsetType = msgspec.UNSET
    dont_cache: bool | msgspec.UnsetType = msgspec.UNSET
    dont_merge_cookies: bool | msgspec.UnsetType = msgspec.UNSET
    dont_redirect: bool | msgspec.UnsetType = msgspec.UNSET
    dont_retry: bool | msgspec.UnsetType = msgspec.UNSET
    handle_httpstatus_all: bool | msgspec.UnsetType = msgspec.UNSET
    handle_httpstatus_list: list[int] | msgspec.UnsetType = msgspec.UNSET
    max_retry_times: Annotated[int, msgspec.Meta(ge=0)] | msgspec.UnsetType = msgspec.UNSET


class _Item(msgspec.Struct):
    """Fields of an item in JSON besides form data."""

    url: str
    rank: int | None = None
    method: Annotated[str, msgspec.Meta(pattern="^[A-Za-z]+$", max_length=16)] = "GET"
    meta: _Meta = msgspec.field(default_factory=_Meta)


_decode_item = msgspec.json.Decoder(_Item).decode
_decode_fields = msgspec.json.Decoder(dict[str, Any]).decode
_NO_FORM: Final = frozenset(_Item.__struct_fields__)


def list_key(settings: BaseSettings, spider: str) -> str:
    """The name of the list, from REDIS_START_URLS_KEY. FatalError for a set, as scrapy-redis can
    have it."""
    for name in ("REDIS_START_URLS_AS_SET", "REDIS_START_URLS_AS_ZSET"):
        if flag(settings, name):
            raise FatalError(f"{name} must be off: a hive takes live seeds from a list.")
    key = str(settings["REDIS_START_URLS_KEY"])
    try:
        return key % {"name": spider}
    except (TypeError, ValueError, KeyError) as error:
        raise FatalError(
            f"REDIS_START_URLS_KEY must be a key, with %(name)s for the spider, not {key!r}."
        ) from error


class LiveSeeds:
    """Reader of live seeds from the list *key*.

    *submit* takes seeds, *enqueue* a Request; they are on disk when these return. *may_read* says
    whether this process holds shard 0 and has room. After a look that found nothing *poll*
    seconds pass.
    """

    def __init__(
        self,
        *,
        client: Redis | RedisCluster,
        key: str,
        submit: Callable[[Sequence[Seed]], None],
        enqueue: Callable[[Request], object],
        may_read: Callable[[], bool],
        stats: StatsCollector,
        poll: float = _POLL_SECS,
    ) -> None:
        self._client = client
        self._key = key
        # The braces put it into the slot of the list.
        self._taken = f"{{{key}}}:taken"
        self._submit = submit
        self._enqueue = enqueue
        self._may_read = may_read
        self._stats = stats
        self._poll = poll
        # Batches that were submitted: since the last checkpoint was published, and before. Only of
        # these the next one is certain to have all.
        self._new: set[str] = set()
        self._older: set[str] = set()
        self._is_known = False
        #: Whether there was nothing to read when this process, which holds shard 0, last looked.
        self.is_idle = False

    def begin(self) -> None:
        """This process has come to hold shard 0: it submits all that no checkpoint has."""
        self._new, self._older = set(), set()
        self._is_known = self.is_idle = False

    async def run(self) -> None:
        """Read on and on. While Redis is down it waits."""
        is_down = False
        while not is_cancelled():
            pause = self._poll
            if self._may_read() and len(self._new) + len(self._older) < _MOST_BATCHES:
                try:
                    pause = 0.0 if await self._read() else self._poll
                    is_down = False
                except UNREACHABLE as error:
                    # What was taken may be in the hash, without an answer.
                    self._is_known = False
                    pause = _RETRIES * self._poll
                    if not is_down:
                        logger.warning("Live seeds of %s cannot be read: %s", self._key, error)
                    is_down = True
            await asyncio.sleep(pause)

    async def published(self) -> None:
        """A checkpoint of shard 0 is in HIVE_STORE: forget the batches that it has. Raises one of
        UNREACHABLE; then the next one does it."""
        done, self._older, self._new = self._older, self._new, set()
        if done:
            try:
                await self._client.execute_command("HDEL", self._taken, *sorted(done))
            except UNREACHABLE:
                self._older |= done
                raise

    async def _read(self) -> bool:
        """Read a batch; whether there was one."""
        if not self._is_known:
            flat = await self._client.execute_command("EVAL", _TAKEN, 1, self._taken)
            batches = dict(zip(flat[::2], flat[1::2], strict=True))
            self._is_known = True
            for name, items in batches.items():
                if name.decode() not in self._new | self._older:
                    self._take(name.decode(), items)
            return True
        name = random_hex("live seeds")
        items = await self._client.execute_command(
            "EVAL", _TAKE, 2, self._key, self._taken, name, _BATCH
        )
        self.is_idle = not items
        if items:
            self._take(name, items)
        return bool(items)

    def _take(self, name: str, items: Sequence[bytes]) -> None:
        if not self._may_read():
            # The shard is gone: its next holder finds them in the hash.
            self._is_known = False
            return
        found: list[Seed | Request] = []
        for item in items:
            try:
                found += found_in(item)
            except BadLine as bad:
                self._stats.inc_value("seeds/live_bad")
                if self._stats.get_value("seeds/live_bad") <= _MOST_LOGGED:
                    logger.warning("%s: %s: %r", self._key, bad, item[:_LOGGED_BYTES])
        self._submit([one for one in found if isinstance(one, Seed)])
        for one in found:
            if isinstance(one, Request):
                self._enqueue(one)
        self._stats.inc_value("seeds/live", len(found))
        self._new.add(name)


def found_in(item: bytes) -> list[Seed | Request]:
    """The seeds or Requests of an *item*, none of an empty one. The host of a seed without a rank
    is among the first. BadLine."""
    rank = None
    if len(item) > _LONGEST:
        raise BadLine(f"longer than {_LONGEST} bytes")
    if item.lstrip()[:1] == b"{":
        try:
            given, fields = _decode_item(item), _decode_fields(item)
        except msgspec.MsgspecError as error:
            raise BadLine(f"no JSON object with a url: {error}") from None
        item, rank = given.url.encode(), given.rank
        if fields.keys() - {"url", "rank"}:
            return [_request(given, fields)]
    parsed = parse_line(item)
    if parsed is None:
        return []
    url, listed = parsed
    rank = (listed if rank is None else rank) or 1
    return [Seed(url, min(max(rank, 1), _MAX_RANK), "redis", 0)]


def _request(given: _Item, fields: dict[str, Any]) -> Request:
    form = {name: value for name, value in fields.items() if name not in _NO_FORM}
    url = normalize(given.url, schemes=SCHEMES)
    if url is None:
        raise BadLine("no request: not a URL that this crawler fetches")
    try:
        form = msgspec.convert(form, dict[str, str | list[str]])
    except msgspec.ValidationError as error:
        raise BadLine(f"no request, as form data is text: {error}") from None
    meta = msgspec.to_builtins(given.meta)
    return FormRequest(url, method=given.method.upper(), meta=meta, formdata=form)
