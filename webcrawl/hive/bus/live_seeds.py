"""Live seeds: URLs that are pushed to a list in Redis while a crawl or a hive runs.

They work as in scrapy-redis: ``lpush web:start_urls https://a.test``, where ``web`` is the spider's
name. The list can also be a set or sorted set (highest score first), by its settings. An item is a
line of a seed list, or a JSON object with ``url`` and optionally ``rank``. An object with more keys
is a Request, built as scrapy-redis does: from ``method``, ``meta``, and form data of all other
keys. Unlike there, it is filtered like any other Request, because a repeated submission would be
fetched again. Anyone who can push is not necessarily the owner of the crawl. So only the meta keys
of ``_Meta`` are used, among them ``data`` for values that a callback needs; a warning names the
others. A URL with ``visit`` in meta, as pushed by ``scrapy frontier --refetch``, was finished
before.

The process with shard 0 reads items in batches; a crawl of one process always has it. A batch is
moved atomically from the list to a hash next to it, in the same slot. It is deleted there when a
checkpoint that began after its submission has been published. The next holder of shard 0 submits
the remaining batches again, so each item is submitted at least once. Items pushed to a crawl that
has ended wait for the next run.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

import msgspec
from msgspec import UNSET, UnsetType
from scrapy import FormRequest, Request
from scrapy_redis.defaults import START_URLS_KEY

from webcrawl.configuration.decoding import UndecodableError, check_depth, converter, json_decoder
from webcrawl.configuration.values import flag, whole
from webcrawl.crawl.seeds import BadLine, Seed, parse_line
from webcrawl.errors import FatalError
from webcrawl.frontier import NO_URLS, Entry
from webcrawl.hive.membership.connection import UNREACHABLE, RedisClient, is_cancelled
from webcrawl.randomness import random_hex
from webcrawl.revisit.history import history_of
from webcrawl.urls import SCHEMES, normalize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy.settings import BaseSettings
    from scrapy.statscollectors import StatsCollector

    from webcrawl.crawl.process import Process

logger = logging.getLogger(__name__)

# Items in a batch, and in batches between two checkpoints; more wait in the list.
_MAX_BATCH = 10_000
_MAX_ITEMS = 100_000
_POLL_SECS = 1.0
# The pause after a failure of Redis is this many times as long as that after an empty list.
_RETRIES = 5
_MAX_ITEM_BYTES = 1 << 16  # JSON with form data
_MAX_VIA_CHARS = 1 << 11
_MAX_LOGGED = 20
_LOGGED_BYTES = 80
_MAX_RANK = 0xFFFF_FFFF
_MAX_DEPTH = 1 << 31
_MAX_NESTING = 100  # levels of JSON

# Scripts that take items from a list, set or sorted set, as scrapy-redis does.
_POPS = {
    "": """
local items = redis.call('LRANGE', KEYS[1], 0, ARGV[2] - 1)
redis.call('LTRIM', KEYS[1], #items, -1)
""",
    "REDIS_START_URLS_AS_SET": """
local items = redis.call('SPOP', KEYS[1], ARGV[2])
""",
    "REDIS_START_URLS_AS_ZSET": """
local items = redis.call('ZREVRANGE', KEYS[1], 0, ARGV[2] - 1)
redis.call('ZREMRANGEBYRANK', KEYS[1], -ARGV[2], -1)
""",
}
_KEEP = """
if #items > 0 then
  redis.call('HSET', KEYS[2], ARGV[1], cmsgpack.pack(items))
end
return items
"""

_READ_TAKEN = """
local batches = redis.call('HGETALL', KEYS[1])
for i = 2, #batches, 2 do
  local is_whole, items = pcall(cmsgpack.unpack, batches[i])
  is_whole = is_whole and type(items) == 'table'
  for _, item in ipairs(is_whole and items or {}) do
    is_whole = is_whole and type(item) == 'string'
  end
  batches[i] = is_whole and items or {batches[i]}
end
return batches
"""


class _Visit(msgspec.Struct, forbid_unknown_fields=True):
    """Fields of an entry that is to be visited again."""

    history: Annotated[bytes, msgspec.Meta(min_length=1, max_length=512)]
    kind: Annotated[str, msgspec.Meta(max_length=20)] = ""
    via: Annotated[str, msgspec.Meta(max_length=_MAX_VIA_CHARS)] = ""


class _Meta(msgspec.Struct, omit_defaults=True):
    """Keys of meta that an item may set."""

    cookiejar: str | int | UnsetType = UNSET
    data: Any = UNSET
    depth: Annotated[int, msgspec.Meta(ge=0, le=_MAX_DEPTH)] | UnsetType = UNSET
    dont_cache: bool | UnsetType = UNSET
    dont_merge_cookies: bool | UnsetType = UNSET
    dont_redirect: bool | UnsetType = UNSET
    dont_retry: bool | UnsetType = UNSET
    handle_httpstatus_all: bool | UnsetType = UNSET
    handle_httpstatus_list: list[int] | UnsetType = UNSET
    max_retry_times: Annotated[int, msgspec.Meta(ge=0)] | UnsetType = UNSET
    visit: _Visit | UnsetType = UNSET


class _Item(msgspec.Struct):
    """Fields of a JSON item, except form data."""

    url: str
    rank: int | None = None
    method: Annotated[str, msgspec.Meta(pattern="^[A-Za-z]+$", max_length=16)] = "GET"
    meta: _Meta = msgspec.field(default_factory=_Meta)


_decode_item = json_decoder(_Item)
_decode_fields = json_decoder(dict[str, Any])
_as_form = converter(dict[str, str | list[str]])
_NO_FORM = frozenset(_Item.__struct_fields__)
_META_KEYS = frozenset(_Meta.__struct_fields__)


class SeedSource(NamedTuple):
    """Source of live seeds: the *key*, and the script *pops* that takes a *batch* of items."""

    key: str
    pops: str
    batch: int

    @classmethod
    def from_settings(cls, settings: BaseSettings, spider: str) -> Self:
        """Make it from REDIS_START_URLS_KEY, _AS_SET, _AS_ZSET and _BATCH_SIZE, or FatalError."""
        key = str(settings.get("REDIS_START_URLS_KEY", START_URLS_KEY))
        try:
            key %= {"name": spider}
        except (TypeError, ValueError, KeyError) as error:
            raise FatalError(
                f"REDIS_START_URLS_KEY must be a key, with %(name)s for the spider, not {key!r}."
            ) from error
        kinds = [name for name in _POPS if name and flag(settings, name)]
        if len(kinds) > 1:
            raise FatalError(f"Only one of {' and '.join(kinds)} can be set.")
        batch = whole(settings, "REDIS_START_URLS_BATCH_SIZE", at_least=1)
        if batch > _MAX_BATCH:
            raise FatalError(
                f"REDIS_START_URLS_BATCH_SIZE must be at most {_MAX_BATCH}, not {batch}."
            )
        return cls(key, _POPS["".join(kinds)], batch)

    def push(self, items: Sequence[bytes]) -> list[Any]:
        """Return the Redis command that pushes *items*."""
        if "SPOP" in self.pops:
            return ["SADD", self.key, *items]
        if "ZREM" in self.pops:
            return ["ZADD", self.key, *chain.from_iterable((0, item) for item in items)]
        return ["RPUSH", self.key, *items]


class LiveSeeds:
    """Reader of live seeds from *source* for *process*; looks every *poll* seconds."""

    def __init__(
        self,
        *,
        client: RedisClient,
        source: SeedSource,
        process: Process,
        stats: StatsCollector,
        poll: float = _POLL_SECS,
    ) -> None:
        self._client = client
        self._key, pops, self._batch = source
        self._take_script = pops + _KEEP
        # The braces put the hash into the slot of the list.
        self._taken_key = f"{{{self._key}}}:taken"
        self._process = process
        self._stats = stats
        self._poll = poll
        # Batches submitted since the last published checkpoint, and before it. The next checkpoint
        # is certain to have only the older ones.
        self._new: set[bytes] = set()
        self._older: set[bytes] = set()
        self._has_read_taken = False
        #: Whether this process, which holds shard 0, found no items when it last looked.
        self.is_idle = False

    def begin(self) -> None:
        """Submit all batches that no checkpoint has; this process has come to hold shard 0."""
        self._new, self._older = set(), set()
        self._has_read_taken = self.is_idle = False

    async def run(self) -> None:
        """Read items until cancelled. Waits while Redis is down."""
        is_down = False
        while not is_cancelled():
            pause = self._poll
            batches = len(self._new) + len(self._older)
            if batches * self._batch >= _MAX_ITEMS:
                self._process.checkpoints.start()
            elif self._process.intake.may_read_seeds():
                try:
                    pause = 0.0 if await self._read() else self._poll
                    is_down = False
                except UNREACHABLE as error:
                    # A batch may have been moved to the hash although the answer was lost.
                    self._has_read_taken = False
                    pause = _RETRIES * self._poll
                    if not is_down:
                        logger.warning("Live seeds of %s cannot be read: %s", self._key, error)
                    is_down = True
            await asyncio.sleep(pause)

    async def published(self) -> None:
        """Delete the batches that the newly published checkpoint of shard 0 has.

        If Redis cannot be reached, the next call does it.
        """
        done, self._older, self._new = self._older, self._new, set()
        if self._process.stop.is_over:  # the last checkpoint has all batches
            done, self._older = done | self._older, set()
        if done:
            try:
                await self._client.execute_command("HDEL", self._taken_key, *sorted(done))
            except UNREACHABLE as error:
                self._older |= done
                logger.warning("Live seeds are kept until the next checkpoint: %s", error)

    async def _read(self) -> bool:
        """Read a batch and return whether there was one."""
        if not self._has_read_taken:
            flat = await self._client.execute_command("EVAL", _READ_TAKEN, 1, self._taken_key)
            batches = dict(zip(flat[::2], flat[1::2], strict=True))
            self._has_read_taken = True
            for name, items in batches.items():
                if name not in self._new | self._older:
                    self._take(name, items)
            return True
        name = random_hex("live seeds").encode()
        items = await self._client.execute_command(
            "EVAL", self._take_script, 2, self._key, self._taken_key, name, self._batch
        )
        self.is_idle = not items
        if items:
            self._take(name, items)
        return bool(items)

    def _take(self, name: bytes, items: Sequence[bytes]) -> None:
        if not self._process.intake.may_read_seeds():
            # The shard was handed over: its next holder finds the items in the hash.
            self._has_read_taken = False
            return
        found: list[Seed | Request | Entry] = []
        for item in items:
            try:
                found += found_in(item)
            except BadLine as bad:
                self._stats.inc_value("seeds/live_bad")
                if self._stats.get_value("seeds/live_bad") <= _MAX_LOGGED:
                    logger.warning("%s: %s: %r", self._key, bad, item[:_LOGGED_BYTES])
        self._process.intake.submit_seeds([item for item in found if isinstance(item, Seed)])
        for each in found:
            if isinstance(each, Request):
                self._process.intake.enqueue(each)
            elif isinstance(each, Entry):
                self._process.intake.visit(each)
        self._stats.inc_value("seeds/live", len(found))
        self._new.add(name)


def found_in(item: bytes) -> list[Seed | Request | Entry]:
    """Parse an *item*: a seed, a Request or an entry; an empty item has none. Raises BadLine.

    A seed without a rank gets rank 1, the highest.
    """
    rank = None
    if len(item) > _MAX_ITEM_BYTES:
        raise BadLine(f"longer than {_MAX_ITEM_BYTES} bytes")
    if item.lstrip()[:1] == b"{":
        try:
            given, fields = _decode_item(item), _decode_fields(item)
            check_depth(fields, _MAX_NESTING)
        except UndecodableError as error:
            raise BadLine(f"not a valid JSON object with a url: {error}") from None
        ignored = fields.pop("meta", {}).keys() - _META_KEYS
        if ignored:
            logger.warning(
                "Live seed %s: ignored meta keys that are not allowed: %s",
                given.url[:_LOGGED_BYTES],
                ", ".join(sorted(ignored))[:_LOGGED_BYTES],
            )
        item, rank = given.url.encode(), given.rank
        if given.meta != _Meta() or fields.keys() - {"url", "rank"}:
            return [_request(given, fields)]
    parsed = parse_line(item)
    if parsed is None:
        return []
    url, listed = parsed
    rank = (listed if rank is None else rank) or 1
    return [Seed(url, min(max(rank, 1), _MAX_RANK), "redis", 0)]


def visit_item(entry: Entry) -> bytes:
    """Return the item that visits *entry*, which has a history."""
    visit = {"history": entry.history, "kind": entry.kind, "via": entry.via[:_MAX_VIA_CHARS]}
    item = {"url": entry.url, "meta": {"depth": entry.depth, "visit": visit}}
    return msgspec.json.encode(item)


def _entry(url: str, meta: _Meta, visit: _Visit) -> Entry:
    depth = meta.depth if isinstance(meta.depth, int) else 0
    entry = Entry(url, "", depth, via=visit.via, kind=visit.kind, history=visit.history)
    if history_of(entry) is None:
        raise BadLine("not a valid visit: its history cannot be read")
    if visit.kind in NO_URLS | {"request"}:
        raise BadLine("not a valid visit: its kind is not a link")
    return entry


def _request(given: _Item, fields: dict[str, Any]) -> Request | Entry:
    form = {name: value for name, value in fields.items() if name not in _NO_FORM}
    url = normalize(given.url, schemes=SCHEMES)
    if url is None:
        raise BadLine("not a valid request: this crawler cannot fetch its URL")
    if isinstance(given.meta.visit, _Visit):
        return _entry(url, given.meta, given.meta.visit)
    try:
        form = _as_form(form)
    except UndecodableError as error:
        raise BadLine(f"not a valid request: form data must be text: {error}") from None
    meta = msgspec.to_builtins(given.meta)
    return FormRequest(url, method=given.method.upper(), meta=meta, formdata=form)
