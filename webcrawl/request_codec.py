"""Ordinary Scrapy Requests in the frontier: what cannot be told by the URL alone, as bytes.

A link needs no more than its URL. A Request that a spider yielded may carry a callback, meta,
headers, a body; these are packed with msgpack (never pickle: a job directory is data, and
reading it must not run code). The invariant: what comes back is what went in, or nothing does.
What msgpack would not give back as it was (an item in meta, a callback that is no method of the
spider) is kept in memory under a name, so that the request works as long as this process lives; a
restart loses exactly these, counted.
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
from webcrawl.links import forwarded
from webcrawl.seen.fingerprint import fingerprint
from webcrawl.urls import normalize

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


# Extension types of msgpack that stand for Python's: ext := type i8 | msgpack array
_TUPLE, _SET = 1, 2
_SCALARS = frozenset({type(None), bool, int, float, str, bytes})


class LostRequestError(LookupError):
    """The request was only in the memory of a process that is gone, or its code is."""


class RequestCodec:
    """Packs Requests to bytes and back, for one spider."""

    def __init__(
        self,
        *,
        spider: Spider,
        stats: StatsCollector,
        fingerprinter: RequestFingerprinterProtocol,
        key_of: Callable[[str], str],
        form: Callable[[str], str],
    ) -> None:
        """*key_of* gives a URL's politeness key, *form* what it is compared by."""
        self._spider = spider
        self._stats = stats
        self._fingerprinter = fingerprinter
        self._key_of = key_of
        self._form = form
        self._in_memory: dict[str, Request] = {}
        # The names of an earlier process must never meet a request of this one.
        self._process = secrets.token_hex(8)
        self._numbers = itertools.count()
        self._warned = False

    def entry(self, request: Request, *, rank_of: Callable[[str], int]) -> Entry:
        """*request* as the frontier keeps it; *rank_of* tells the rank of a host."""
        host = self._key_of(request.url)
        depth = request.meta.get("depth", 0)
        return Entry(
            url=request.url,
            host=host,
            depth=depth if isinstance(depth, int) else 0,
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
                led = request.meta.get("redirect_urls") or ()
                forms = {fingerprint(self._form(str(one))) for one in led}
                return forwarded(url, fingerprint(self._form(url)), forms)
        return int.from_bytes(self._fingerprinter.fingerprint(request)[:8], "little") or 1

    def pack(self, request: Request) -> bytes:
        """*request* as bytes, without the crawler's own meta keys."""
        meta = {k: v for k, v in request.meta.items() if k not in INTERNAL_META}
        try:
            parts = request.to_dict(spider=self._spider)
            parts["meta"] = meta
            return msgspec.msgpack.encode(_faithful(parts))
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
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
            self._in_memory[name] = request.replace(meta=meta)
            return msgspec.msgpack.encode(name)

    def unpack(self, packed: bytes) -> Request:
        """The Request that was packed, as often as it is asked for until ``forget``.

        Raises LostRequestError when a restart lost it, or when the spider no longer has its
        callback, or its class is gone.
        """
        parts = _decode(packed)
        if isinstance(parts, str):
            try:
                return self._in_memory[parts].copy()
            except KeyError:
                raise LostRequestError(f"request {parts} was lost with its process") from None
        try:
            return request_from_dict(parts, spider=self._spider)
        except (AttributeError, ImportError, NameError, TypeError, ValueError) as error:
            raise LostRequestError(str(error)) from error

    def forget(self, packed: bytes) -> None:
        """The packed request had its end."""
        parts = _decode(packed) if self._in_memory else None
        if isinstance(parts, str):
            self._in_memory.pop(parts, None)


def _faithful(value: Any) -> Any:
    """*value* such that msgpack gives it back as it was; TypeError when it would not.

    msgspec would also take dataclasses, enums, dates and more, and give back something else.
    """
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is list:
        return [_faithful(one) for one in value]
    if kind is dict:
        if not all(type(key) in _SCALARS for key in value):
            raise TypeError("a key of a dictionary is neither text nor number")
        return {key: _faithful(one) for key, one in value.items()}
    if kind is tuple or kind is set:
        packed = msgspec.msgpack.encode([_faithful(one) for one in value])
        return msgspec.msgpack.Ext(_TUPLE if kind is tuple else _SET, packed)
    raise TypeError(f"{kind.__name__} {value!r:.80} is not plain data")


def _from_extension(code: int, data: memoryview) -> Any:
    return (tuple if code == _TUPLE else set)(_decode(data))


_decode = msgspec.msgpack.Decoder(ext_hook=_from_extension).decode
