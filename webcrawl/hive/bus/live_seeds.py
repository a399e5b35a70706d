"""Live seeds: URLs that are pushed to a list in Redis while a crawl or a hive goes on.

As with scrapy-redis: ``lpush web:start_urls https://a.test``, ``web`` being the spider's name; or a
set or sorted set (highest score first), as its settings say. An item is a line as a seed list has
it, or a JSON object with ``url``, and ``rank`` if it has one. One
with more is a Request, as scrapy-redis makes it: of ``method``, ``meta``, and form data of all
others; but it is filtered like any, or one that is submitted again would be fetched again. Who can
push is not the owner of the crawl: of meta only the keys of `_Meta` are taken, ``data`` being for
what a callback needs, and a warning names the others. A URL with ``visit`` in meta, as ``scrapy
frontier --refetch`` pushes it, was finished before.

The process with shard 0, which a crawl of one process has, takes them in batches. A batch goes, in
one step, from the list to a hash beside it in the same slot, and from there when a checkpoint that
was begun after the batch was submitted has been published. Whoever comes to hold shard 0 submits
what it finds there again, so each item is submitted at least once. Pushed to a crawl that has
ended, they wait for the next run.
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
_LARGEST_BATCH = 10_000
_MOST_ITEMS = 100_000
_POLL_SECS = 1.0
# The pause after a failure of Redis, in pauses of an empty list.
_RETRIES = 5
_LONGEST = 1 << 16  # of JSON with form data
_LONGEST_VIA = 1 << 11
_MOST_LOGGED = 20
_LOGGED_BYTES = 80
_MAX_RANK = 0xFFFF_FFFF
_MAX_DEPTH = 1 << 31
_MOST_DEEP = 100  # of JSON, how deep it is nested

# What takes items from a list, set or sorted set, as scrapy-redis does.
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

_TAKEN = """
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
    """Fields of an entry that is visited again."""

    history: Annotated[bytes, msgspec.Meta(min_length=1, max_length=512)]
    kind: Annotated[str, msgspec.Meta(max_length=20)] = ""
    via: Annotated[str, msgspec.Meta(max_length=_LONGEST_VIA)] = ""


class _Meta(msgspec.Struct, omit_defaults=True):
    """The keys of meta that are taken from an item."""

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
    """Fields of an item in JSON besides form data."""

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
    """Where live seeds are pushed to: a *key*, and what *pops* a *batch* of items there."""

    key: str
    pops: str
    batch: int

    @classmethod
    def from_settings(cls, settings: BaseSettings, spider: str) -> Self:
        """By scrapy-redis' REDIS_START_URLS_KEY, _AS_SET, _AS_ZSET and _BATCH_SIZE. FatalError."""
        key = str(settings.get("REDIS_START_URLS_KEY", START_URLS_KEY))
        try:
            key %= {"name": spider}
        except (TypeError, ValueError, KeyError) as error:
            raise FatalError(
                f"REDIS_START_URLS_KEY must be a key, with %(name)s for the spider, not {key!r}."
            ) from error
        kinds = [name for name in _POPS if name and flag(settings, name)]
        if len(kinds) > 1:
            raise FatalError(f"{' and '.join(kinds)} exclude each other.")
        batch = whole(settings, "REDIS_START_URLS_BATCH_SIZE", at_least=1)
        if batch > _LARGEST_BATCH:
            raise FatalError(
                f"REDIS_START_URLS_BATCH_SIZE must be at most {_LARGEST_BATCH}, not {batch}."
            )
        return cls(key, _POPS["".join(kinds)], batch)

    def push(self, items: Sequence[bytes]) -> list[Any]:
        """The command that pushes *items*."""
        if "SPOP" in self.pops:
            return ["SADD", self.key, *items]
        if "ZREM" in self.pops:
            return ["ZADD", self.key, *chain.from_iterable((0, item) for item in items)]
        return ["RPUSH", self.key, *items]


class LiveSeeds:
    """Reader of live seeds from *source* for *process*.

    After a look that found nothing *poll* seconds pass.
    """

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
        # The braces put it into the slot of the list.
        self._taken = f"{{{self._key}}}:taken"
        self._process = process
        self._stats = stats
        self._poll = poll
        # Batches that were submitted: since the last checkpoint was published, and before. Only of
        # these the next one is certain to have all.
        self._new: set[bytes] = set()
        self._older: set[bytes] = set()
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
            batches = len(self._new) + len(self._older)
            if batches * self._batch >= _MOST_ITEMS:
                self._process.checkpoints.start()
            elif self._process.intake.may_read_seeds():
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
        """A checkpoint of shard 0 is published: forget the batches that it has. If Redis cannot be
        reached the next one does it."""
        done, self._older, self._new = self._older, self._new, set()
        if self._process.stop.is_over:  # the last one, which has all
            done, self._older = done | self._older, set()
        if done:
            try:
                await self._client.execute_command("HDEL", self._taken, *sorted(done))
            except UNREACHABLE as error:
                self._older |= done
                logger.warning("Live seeds are kept until the next checkpoint: %s", error)

    async def _read(self) -> bool:
        """Read a batch; whether there was one."""
        if not self._is_known:
            flat = await self._client.execute_command("EVAL", _TAKEN, 1, self._taken)
            batches = dict(zip(flat[::2], flat[1::2], strict=True))
            self._is_known = True
            for name, items in batches.items():
                if name not in self._new | self._older:
                    self._take(name, items)
            return True
        name = random_hex("live seeds").encode()
        items = await self._client.execute_command(
            "EVAL", self._take_script, 2, self._key, self._taken, name, self._batch
        )
        self.is_idle = not items
        if items:
            self._take(name, items)
        return bool(items)

    def _take(self, name: bytes, items: Sequence[bytes]) -> None:
        if not self._process.intake.may_read_seeds():
            # The shard is gone: its next holder finds them in the hash.
            self._is_known = False
            return
        found: list[Seed | Request | Entry] = []
        for item in items:
            try:
                found += found_in(item)
            except BadLine as bad:
                self._stats.inc_value("seeds/live_bad")
                if self._stats.get_value("seeds/live_bad") <= _MOST_LOGGED:
                    logger.warning("%s: %s: %r", self._key, bad, item[:_LOGGED_BYTES])
        self._process.intake.submit_seeds([one for one in found if isinstance(one, Seed)])
        for one in found:
            if isinstance(one, Request):
                self._process.intake.enqueue(one)
            elif isinstance(one, Entry):
                self._process.intake.visit(one)
        self._stats.inc_value("seeds/live", len(found))
        self._new.add(name)


def found_in(item: bytes) -> list[Seed | Request | Entry]:
    """The seeds, Requests or entries of an *item*, none of an empty one. The host of a seed without
    a rank is among the first. BadLine."""
    rank = None
    if len(item) > _LONGEST:
        raise BadLine(f"longer than {_LONGEST} bytes")
    if item.lstrip()[:1] == b"{":
        try:
            given, fields = _decode_item(item), _decode_fields(item)
            check_depth(fields, _MOST_DEEP)
        except UndecodableError as error:
            raise BadLine(f"not a JSON object with a url: {error}") from None
        ignored = fields.pop("meta", {}).keys() - _META_KEYS
        if ignored:
            logger.warning(
                "Live seed %s: meta keys that are not allowed are left out: %s",
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
    """The item of *entry*, which has a history."""
    visit = {"history": entry.history, "kind": entry.kind, "via": entry.via[:_LONGEST_VIA]}
    item = {"url": entry.url, "meta": {"depth": entry.depth, "visit": visit}}
    return msgspec.json.encode(item)


def _entry(url: str, meta: _Meta, visit: _Visit) -> Entry:
    depth = meta.depth if isinstance(meta.depth, int) else 0
    entry = Entry(url, "", depth, via=visit.via, kind=visit.kind, history=visit.history)
    if history_of(entry) is None:
        raise BadLine("no visit: its history cannot be read")
    if visit.kind in NO_URLS | {"request"}:
        raise BadLine("no visit: of what is no link")
    return entry


def _request(given: _Item, fields: dict[str, Any]) -> Request | Entry:
    form = {name: value for name, value in fields.items() if name not in _NO_FORM}
    url = normalize(given.url, schemes=SCHEMES)
    if url is None:
        raise BadLine("no request: not a URL that this crawler fetches")
    if isinstance(given.meta.visit, _Visit):
        return _entry(url, given.meta, given.meta.visit)
    try:
        form = _as_form(form)
    except UndecodableError as error:
        raise BadLine(f"no request, as form data is text: {error}") from None
    meta = msgspec.to_builtins(given.meta)
    return FormRequest(url, method=given.method.upper(), meta=meta, formdata=form)
