"""Live seeds: URLs that are pushed to a list in Redis while a crawl or a hive runs.

They work as in scrapy-redis: ``lpush web:start_urls https://a.test``, where ``web`` is the spider's
name. With scrapy-redis' settings, the list can also be a set or a sorted set (highest score first).
An item is a line of a seed list, or a JSON object with ``url`` and optionally ``rank``. An object
with more keys is a Request, built as scrapy-redis does: from ``method``, ``meta``, and form data of
all other keys. Unlike in scrapy-redis, it is filtered like any other Request, because a batch that
is submitted again would otherwise be fetched again. People who can push items may not own the
crawl. So only the meta keys of ``_Meta`` are used, among them ``data`` for values that a callback
needs; a warning names the others. An item with ``visit`` in meta, as pushed by ``scrapy frontier
--refetch``, is a URL that was finished before.

The process with shard 0 reads items in batches; a single-process crawl always has shard 0. A batch
is moved atomically from the list to a hash next to it. It is deleted from there when a checkpoint
that began after its submission has been published. The next holder of shard 0 submits the remaining
batches again, so each item is submitted at least once. Items pushed after the end of a crawl wait
for its next run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from itertools import chain
from typing import Annotated, Any, NamedTuple, Self

import msgspec
from msgspec import UNSET, UnsetType
from redis.asyncio import Redis
from scrapy import FormRequest, Request
from scrapy.settings import BaseSettings
from scrapy.statscollectors import StatsCollector
from scrapy_redis.defaults import START_URLS_KEY

from webcrawl.configuration.decoding import UndecodableError, check_depth, converter, json_decoder
from webcrawl.configuration.values import flag, whole_number
from webcrawl.crawl.process import Process
from webcrawl.crawl.seeds import BadLine, Seed, parse_line
from webcrawl.errors import FatalError
from webcrawl.frontier import NO_URLS, Entry
from webcrawl.hive.membership.connection import UNREACHABLE, is_cancelled, reason_of
from webcrawl.randomness import random_hex
from webcrawl.revisit.history import history_of
from webcrawl.urls import SCHEMES, normalize

logger = logging.getLogger(__name__)

# Most items in a batch, and in all batches between two checkpoints; further items stay in the list.
_MAX_BATCH = 10_000
_MAX_ITEMS = 100_000
# After a failure of Redis, the pause is this many times as long as after an empty list.
_FAILURE_PAUSES = 5
_MAX_ITEM_BYTES = 1 << 16  # enough for JSON with form data
_MAX_VIA_CHARS = 1 << 11
_MAX_LOGGED = 20
_LOGGED_BYTES = 80
_MAX_RANK = 0xFFFF_FFFF
_MAX_DEPTH = 1 << 31
_MAX_NESTING = 100  # levels of JSON

# Scripts that take items from a list, set or sorted set as scrapy-redis does, by the setting that
# chooses it.
_POP_SCRIPTS = {
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
# Stores the taken items in the hash until a checkpoint has them.
_KEEP_SCRIPT = """
if #items > 0 then
  redis.call('HSET', KEYS[2], ARGV[1], cmsgpack.pack(items))
end
return items
"""

# Returns all batches in the hash. A damaged batch is returned as a single item, to be reported.
_READ_UNSAVED_SCRIPT = """
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
    """Value of ``visit``: the fields of an entry to be visited again."""

    history: Annotated[bytes, msgspec.Meta(min_length=1, max_length=512)]
    kind: Annotated[str, msgspec.Meta(max_length=20)] = ""
    via: Annotated[str, msgspec.Meta(max_length=_MAX_VIA_CHARS)] = ""


class _Meta(msgspec.Struct, omit_defaults=True):
    """The meta keys that an item may set."""

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
    """Fields of a JSON item, without its form data."""

    url: str
    rank: int | None = None
    method: Annotated[str, msgspec.Meta(pattern="^[A-Za-z]+$", max_length=16)] = "GET"
    meta: _Meta = msgspec.field(default_factory=_Meta)


_decode_item = json_decoder(_Item)
_decode_fields = json_decoder(dict[str, Any])
_to_form = converter(dict[str, str | list[str]])
_NO_FORM = frozenset(_Item.__struct_fields__)
_META_KEYS = frozenset(_Meta.__struct_fields__)


class SeedSource(NamedTuple):
    """Where live seeds come from: the Redis *key*, and how to take items from it.

    *pop_script* takes up to *batch* items.
    """

    key: str
    pop_script: str
    batch: int

    @classmethod
    def from_settings(cls, settings: BaseSettings, spider: str) -> Self:
        """Return the source for the spider named *spider*, as set by REDIS_START_URLS_….

        Raises FatalError for invalid values.
        """
        # As in scrapy-redis, %(name)s in the key stands for the name of the spider.
        key = str(settings.get("REDIS_START_URLS_KEY", START_URLS_KEY))
        try:
            key %= {"name": spider}
        except (TypeError, ValueError, KeyError) as error:
            raise FatalError(
                f"REDIS_START_URLS_KEY must be a key, with %(name)s for the spider, not {key!r}."
            ) from error
        kinds = [name for name in _POP_SCRIPTS if name and flag(settings, name)]
        if len(kinds) > 1:
            raise FatalError(f"Only one of {' and '.join(kinds)} can be set.")
        batch = whole_number(settings, "REDIS_START_URLS_BATCH_SIZE", at_least=1)
        if batch > _MAX_BATCH:
            raise FatalError(
                f"REDIS_START_URLS_BATCH_SIZE must be at most {_MAX_BATCH}, not {batch}."
            )
        # There is one kind, or none, which means a list.
        return cls(key, _POP_SCRIPTS["".join(kinds)], batch)

    def push(self, items: Sequence[bytes]) -> list[Any]:
        """Return the Redis command that pushes *items* to this source."""
        if "SPOP" in self.pop_script:
            return ["SADD", self.key, *items]
        if "ZREM" in self.pop_script:
            return ["ZADD", self.key, *chain.from_iterable((0, item) for item in items)]
        return ["RPUSH", self.key, *items]


class LiveSeeds:
    """Reads live seeds from *source*, in the Redis of *client*, into *process*.

    *stats* counts the items.
    """

    #: While there are none, it checks for new ones after so many seconds.
    poll_secs = 1.0

    def __init__(
        self,
        *,
        client: Redis,
        source: SeedSource,
        process: Process,
        stats: StatsCollector,
    ) -> None:
        self._client = client
        self._key, pop_script, self._batch_size = source
        self._take_script = pop_script + _KEEP_SCRIPT
        # The hash in Redis that has the submitted batches, by name, until a checkpoint has them.
        # Until 0.5, a Redis Cluster needed the braces; the name stays the same.
        self._unsaved_key = f"{{{self._key}}}:taken"
        self._process = process
        self._stats = stats
        # Names of the batches in the hash that this process has submitted: since the last
        # checkpoint was published, and before. Only the latter are certain to be in the next one,
        # because a checkpoint may have begun before a recent batch was submitted.
        self._recent_batches: set[bytes] = set()
        self._settled_batches: set[bytes] = set()
        # Whether the hash may have batches that this process has not submitted. An earlier holder
        # of the shard or a lost answer of Redis may have left them there.
        self._should_read_unsaved = True
        #: Whether this process, which holds shard 0, found no items when it last looked.
        self.is_idle = False

    def begin(self) -> None:
        """Start reading for shard 0, which this process now holds.

        First, the batches that are not in a checkpoint are submitted again.
        """
        self._recent_batches = set()
        self._settled_batches = set()
        self._should_read_unsaved = True
        self.is_idle = False

    async def run(self) -> None:
        """Read items until cancelled. Waits while Redis is down."""
        is_down = False
        while not is_cancelled():
            pause = self.poll_secs
            # Batches stay in Redis until a checkpoint has them. If there are many, no more are read
            # until it is published.
            unsaved_batches = len(self._recent_batches) + len(self._settled_batches)
            if unsaved_batches * self._batch_size >= _MAX_ITEMS:
                self._process.checkpoints.start()
            elif self._process.intake.may_read_seeds():
                try:
                    pause = 0.0 if await self._read() else self.poll_secs
                    is_down = False
                except UNREACHABLE as error:
                    # Redis may have moved a batch from the list to the hash, and only its answer
                    # with the items was lost. So the hash is read again.
                    self._should_read_unsaved = True
                    pause = _FAILURE_PAUSES * self.poll_secs
                    if not is_down:
                        message = "Live seeds of %s cannot be read: %s"
                        logger.warning(message, self._key, reason_of(error))
                    is_down = True
            await asyncio.sleep(pause)

    async def delete_published(self) -> None:
        """Delete the batches that are in the newly published checkpoint of shard 0.

        If Redis cannot be reached, the next call deletes them.
        """
        # See ``_settled_batches``: newer batches may have come after the checkpoint had begun.
        finished = self._settled_batches
        self._settled_batches = self._recent_batches
        self._recent_batches = set()
        if self._process.stop.is_over:  # the last checkpoint has all batches
            finished = finished | self._settled_batches
            self._settled_batches = set()
        if finished:
            try:
                await self._client.execute_command("HDEL", self._unsaved_key, *sorted(finished))
            except UNREACHABLE:
                self._settled_batches |= finished

    async def _read(self) -> bool:
        """Read the next batch, and return whether there may be another."""
        if self._should_read_unsaved:
            flat_pairs = await self._client.execute_command(
                "EVAL", _READ_UNSAVED_SCRIPT, 1, self._unsaved_key
            )
            batches = dict(zip(flat_pairs[::2], flat_pairs[1::2], strict=True))
            self._should_read_unsaved = False
            # After an outage, this may include batches that this process has submitted itself.
            for name, items in batches.items():
                if name not in self._recent_batches | self._settled_batches:
                    self._submit_batch(name, items)
            return True

        name = random_hex("live seeds").encode()
        items = await self._client.execute_command(
            "EVAL", self._take_script, 2, self._key, self._unsaved_key, name, self._batch_size
        )
        self.is_idle = not items
        if items:
            self._submit_batch(name, items)
        return bool(items)

    def _submit_batch(self, name: bytes, items: Sequence[bytes]) -> None:
        """Submit the *items* of the batch *name*; invalid items are logged and skipped."""
        if not self._process.intake.may_read_seeds():
            # The shard was handed over: its next holder finds the items in the hash.
            self._should_read_unsaved = True
            return
        parsed: list[Seed | Request | Entry] = []
        for item in items:
            try:
                parsed += parse_item(item)
            except BadLine as bad:
                self._stats.inc_value("seeds/live_bad")
                if self._stats.get_value("seeds/live_bad") <= _MAX_LOGGED:
                    logger.warning("%s: %s: %r", self._key, bad, item[:_LOGGED_BYTES])

        self._process.intake.submit_seeds([item for item in parsed if isinstance(item, Seed)])
        for parsed_item in parsed:
            if isinstance(parsed_item, Request):
                self._process.intake.enqueue(parsed_item)
            elif isinstance(parsed_item, Entry):
                self._process.intake.visit(parsed_item)
        self._stats.inc_value("seeds/live", len(parsed))
        self._recent_batches.add(name)


def parse_item(item: bytes) -> list[Seed | Request | Entry]:
    """Parse an *item*, and return its seed, Request or entry; [] if it is empty. Raises BadLine.

    A seed without a rank gets rank 1, the highest.
    """
    # An item in JSON that is just a seed is reduced to its URL and rank, and parsed like a line.
    rank = None
    if len(item) > _MAX_ITEM_BYTES:
        raise BadLine(f"longer than {_MAX_ITEM_BYTES} bytes")
    if item.lstrip()[:1] == b"{":
        try:
            json_item = _decode_item(item)
            fields = _decode_fields(item)
            check_depth(fields, _MAX_NESTING)
        except UndecodableError as error:
            raise BadLine(f"not a valid JSON object with a url: {error}") from None

        ignored = fields.pop("meta", {}).keys() - _META_KEYS
        if ignored:
            logger.warning(
                "Live seed %s: ignored meta keys that are not allowed: %s",
                json_item.url[:_LOGGED_BYTES],
                ", ".join(sorted(ignored))[:_LOGGED_BYTES],
            )
        item = json_item.url.encode()
        rank = json_item.rank
        if json_item.meta != _Meta() or fields.keys() - {"url", "rank"}:
            return [_request(json_item, fields)]

    parsed = parse_line(item)
    if parsed is None:
        return []
    url, line_rank = parsed
    rank = (line_rank if rank is None else rank) or 1
    return [Seed(url, min(max(rank, 1), _MAX_RANK))]


def visit_item(entry: Entry) -> bytes:
    """Return an item that makes a crawl visit *entry* again; the entry must have a history."""
    visit = {"history": entry.history, "kind": entry.kind, "via": entry.via[:_MAX_VIA_CHARS]}
    item = {"url": entry.url, "meta": {"depth": entry.depth, "visit": visit}}
    return msgspec.json.encode(item)


def _entry_to_visit(url: str, meta: _Meta, visit: _Visit) -> Entry:
    """Return the entry for *url* to be visited again. Raises BadLine if *visit* is invalid."""
    depth = meta.depth if isinstance(meta.depth, int) else 0
    entry = Entry(url, "", depth, via=visit.via, kind=visit.kind, history=visit.history)
    if history_of(entry) is None:
        raise BadLine("not a valid visit: its history cannot be read")
    if visit.kind in NO_URLS | {"request"}:
        raise BadLine("not a valid visit: its kind is not that of a link")
    return entry


def _request(json_item: _Item, fields: dict[str, Any]) -> Request | Entry:
    """Return the Request or the visit that *json_item* describes; *fields* are all of its fields.

    Raises BadLine.
    """
    form = {name: value for name, value in fields.items() if name not in _NO_FORM}
    url = normalize(json_item.url, schemes=SCHEMES)
    if url is None:
        raise BadLine("not a valid request: this crawler cannot fetch its URL")
    if isinstance(json_item.meta.visit, _Visit):
        return _entry_to_visit(url, json_item.meta, json_item.meta.visit)
    try:
        form = _to_form(form)
    except UndecodableError as error:
        raise BadLine(f"not a valid request: form data must be text: {error}") from None
    meta = msgspec.to_builtins(json_item.meta)
    return FormRequest(url, method=json_item.method.upper(), meta=meta, formdata=form)
