"""Ordinary Scrapy Requests in the frontier: what cannot be told by the URL alone, as bytes.

A link needs no more than its URL. A Request that a spider yielded may carry a callback, meta,
headers, a body; these are packed with msgpack (never pickle: a job directory is data, and
reading it must not run code). What msgpack cannot hold is kept in memory under a name, so that
the request works as long as this process lives; a restart loses exactly these, counted.
"""

from __future__ import annotations

import itertools
import logging
import secrets
import time
from typing import TYPE_CHECKING, Any

import msgspec
from scrapy.utils.request import request_from_dict

from webcrawl.frontier import Entry
from webcrawl.seen.fingerprint import fingerprint
from webcrawl.urls import host_of, normalize

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request, Spider
    from scrapy.statscollectors import StatsCollector
    from scrapy.utils.request import RequestFingerprinterProtocol

logger = logging.getLogger(__name__)

# Put into meta by the crawler for the request it handed out; must not travel to the next one
# when a spider copies the meta of a response.
INTERNAL_META = frozenset(
    {
        "fetch",
        "download_latency",
        "download_seconds",
        "wire_body",
        "wire_headers",
        "wire_reason",
        "wire_request_headers",
    }
)


class LostRequestError(LookupError):
    """The request was only in the memory of a process that is gone."""


class RequestCodec:
    """Packs Requests to bytes and back, for one spider."""

    def __init__(
        self,
        *,
        spider: Spider,
        stats: StatsCollector,
        fingerprinter: RequestFingerprinterProtocol,
    ) -> None:
        self._spider = spider
        self._stats = stats
        self._fingerprinter = fingerprinter
        self._in_memory: dict[str, dict[str, Any]] = {}
        # The names of an earlier process must never meet a request of this one.
        self._process = secrets.token_hex(8)
        self._numbers = itertools.count()
        self._warned = False

    def entry(self, request: Request, *, rank_of: Callable[[str], int]) -> Entry:
        """*request* as the frontier keeps it; *rank_of* tells the rank of a host."""
        host = host_of(request.url)
        return Entry(
            url=request.url,
            host=host,
            depth=request.meta.get("depth", 0),
            rank=rank_of(host),
            kind="request",
            discovered_at=time.time(),
            extra=self.pack(request),
        )

    def fingerprint(self, request: Request) -> int:
        """A plain GET is the same document as a link to its URL; anything else is its own."""
        if request.method == "GET" and not request.body:
            url = normalize(request.url)
            if url is not None:
                return fingerprint(url)
        return int.from_bytes(self._fingerprinter.fingerprint(request)[:8], "little") or 1

    def pack(self, request: Request) -> bytes:
        """*request* as bytes, without the crawler's own meta keys.

        Raises ValueError as Scrapy does when a callback is not a method of the spider.
        """
        parts = request.to_dict(spider=self._spider)
        parts["meta"] = {k: v for k, v in parts["meta"].items() if k not in INTERNAL_META}
        try:
            return msgspec.msgpack.encode(parts)
        except (TypeError, OverflowError) as error:
            if not self._warned:
                self._warned = True
                logger.warning(
                    "%s cannot be saved (%s): it lives in memory only and will not survive a "
                    "restart; no more of these will be logged, see the stat "
                    "scheduler/unserializable",
                    request,
                    error,
                    extra={"spider": self._spider},
                )
            self._stats.inc_value("scheduler/unserializable")
            name = f"{self._process}/{next(self._numbers)}"
            self._in_memory[name] = parts
            return msgspec.msgpack.encode(name)

    def unpack(self, packed: bytes) -> Request:
        """The Request that was packed; raises LostRequestError when a restart lost it."""
        parts = msgspec.msgpack.decode(packed)
        if isinstance(parts, str):
            try:
                parts = self._in_memory.pop(parts)
            except KeyError:
                raise LostRequestError(f"request {parts} was lost with its process") from None
        return request_from_dict(parts, spider=self._spider)
