"""Request codec: stores ordinary Scrapy Requests in the frontier, as bytes.

A link needs only its URL. A Request that a spider yielded may carry a callback, meta, headers and a
body. It is saved in its plain form (plain_requests.py) if it has one, and pickled otherwise.
Unpickling can run any code. Job directories are trusted not to misuse this, as in Scrapy itself.
Redis and HIVE_STORE are not, so a hive neither writes nor reads pickles.

A Request that cannot be pickled (a lock in meta, a callback that is not a method of the spider) is
kept in memory under a name, until the process ends. A restart loses only these Requests, and counts
them.
"""

from __future__ import annotations

import itertools
import logging
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from scrapy import Request, Spider
from scrapy.statscollectors import StatsCollector
from scrapy.utils.request import RequestFingerprinterProtocol, request_from_dict

from webcrawl.clock import wall_time
from webcrawl.configuration.decoding import MOST
from webcrawl.crawl.lease.plain_requests import PLAIN, NotPlainError, from_plain, to_plain
from webcrawl.crawl.links.submission import forward_fingerprint
from webcrawl.frontier import Entry
from webcrawl.items import Page
from webcrawl.net.http.large_bodies import LARGE_BODY
from webcrawl.randomness import random_hex
from webcrawl.seen.fingerprint import fingerprint
from webcrawl.urls import normalize

logger = logging.getLogger(__name__)

# Keys that the crawler puts into the meta of the requests it sends. They must not reach another
# request when a spider copies the meta of a response.
INTERNAL_META = frozenset(
    {
        "fetch",
        LARGE_BODY,
        "download_latency",
        "download_seconds",
        "tls",
        "wire_address",
        "wire_body",
        "wire_head",
        "wire_proxy",
        "wire_headers",
        "wire_reason",
        "wire_request",
        "wire_request_headers",
    }
)

# Prefix of the names of Requests in memory. No pickle begins with it.
_MEMORY_PREFIX = b"memory/"


class LostRequestError(LookupError):
    """Raised for a request that was only in the memory of a dead process, or whose code is gone.

    *stat* is the name of the stat that counts such requests.
    """

    stat = "scheduler/lost"


class PickleRefusedError(LostRequestError):
    """Raised for a pickled request in a hive, which does not read pickles."""

    stat = "hive/requests/refused"


@dataclass(kw_only=True, eq=False)
class RequestCodec:
    """Packs Requests to bytes and back, for one spider.

    *key_of* returns a URL's politeness key, *comparison_form* the form in which URLs are compared.
    With *in_memory*, all Requests stay in memory as they are, as in Scrapy without JOBDIR. With
    *only_plain*, in a hive, Requests without a plain form are refused.
    """

    spider: Spider
    stats: StatsCollector
    fingerprinter: RequestFingerprinterProtocol
    key_of: Callable[[str], str]
    comparison_form: Callable[[str], str]
    in_memory: bool = False
    only_plain: bool = False
    _in_memory: dict[bytes, Request] = field(default_factory=dict, init=False)
    # Part of all names, so that names from an earlier process never match a request of this one.
    _process: bytes = field(default_factory=lambda: random_hex("requests").encode(), init=False)
    _numbers: Iterator[int] = field(default_factory=itertools.count, init=False)
    _warned: bool = field(default=False, init=False)

    def entry(self, request: Request, page: Page | None = None) -> Entry:
        """Return *request* as an entry of the frontier, without a rank, see ``Shard.enqueue``.

        *page* is the page during whose processing the request was made, if any. The request is then
        one level deeper than the page, unless its meta has a depth.
        """
        if page is not None:
            request.meta.setdefault("depth", page.depth + 1)
        depth = request.meta.get("depth", 0)
        return Entry(
            url=request.url,
            host=self.key_of(request.url),
            depth=depth if type(depth) is int and 0 < depth <= MOST else 0,
            via="" if page is None else page.url,
            kind="request",
            discovered_at=wall_time(),
            extra=self.pack(request),
        )

    def fingerprint(self, request: Request) -> int:
        """Return the fingerprint of *request*, never 0; a GET without a body has that of a link.

        If a middleware has made the request to follow redirects, a URL of that chain may already
        have the fingerprint of a link, see ``forward_fingerprint``.
        """
        if request.method == "GET" and not request.body:
            url = normalize(request.url)
            if url is not None:
                redirect_chain = request.meta.get("redirect_urls") or ()
                chain_forms = {
                    fingerprint(self.comparison_form(str(hop))) for hop in redirect_chain
                }
                return forward_fingerprint(url, fingerprint(self.comparison_form(url)), chain_forms)
        return int.from_bytes(self.fingerprinter.fingerprint(request)[:8], "little") or 1

    def pack(self, request: Request) -> bytes:
        """Encode *request* as bytes, without the crawler's own meta keys.

        Raises NotPlainError for a request that a hive cannot send.
        """
        if self.in_memory:
            return self._keep_in_memory(request)

        try:
            attributes = request.to_dict(spider=self.spider)
            attributes["meta"] = _without_internal(request.meta)
            return self._encode(attributes)
        except Exception as error:  # objects in meta may raise anything
            if self.only_plain:
                raise NotPlainError(str(error)) from error
            if not self._warned:
                self._warned = True
                logger.warning(
                    "%s cannot be saved (%s): it is only in memory and will not survive a "
                    "restart; further ones are not logged, but counted in the stat "
                    "scheduler/unserializable",
                    request,
                    error,
                    extra={"spider": self.spider},
                )

            self.stats.inc_value("scheduler/unserializable")
            return self._keep_in_memory(request)

    def _encode(self, attributes: dict[str, Any]) -> bytes:
        """Return the plain form of the Request with *attributes*, or a pickle if it has none.

        In a hive, raises NotPlainError instead of making a pickle.
        """
        try:
            return to_plain(attributes, self.spider)
        except NotPlainError:
            if self.only_plain:
                raise
            return pickle.dumps(attributes, protocol=4)

    def _keep_in_memory(self, request: Request) -> bytes:
        """Keep *request* in memory, and return the name that stands for it."""
        name = b"%b%b/%d" % (_MEMORY_PREFIX, self._process, next(self._numbers))
        self._in_memory[name] = request
        return name

    def unpack(self, packed: bytes) -> Request:
        """Return the Request encoded in *packed*. May be repeated until ``forget``.

        Raises LostRequestError if a restart lost the Request, if its callback or its class is gone,
        or if it must not be decoded.
        """
        if packed.startswith(_MEMORY_PREFIX) or self.in_memory:
            return self._find_in_memory(packed)
        is_plain = packed.startswith(PLAIN)
        if self.only_plain and not is_plain:
            raise PickleRefusedError("it is pickled, and a hive reads plain data only")
        try:
            if is_plain:
                # ``pack`` stores no internal keys, but in a hive others may write to the store.
                request = from_plain(packed, self.spider)
                return request.replace(meta=_without_internal(request.meta))
            attributes = pickle.loads(packed)  # noqa: S301  # of a job directory, which is trusted
            return request_from_dict(attributes, spider=self.spider)
        except Exception as error:
            raise LostRequestError(str(error)) from error

    def _find_in_memory(self, name: bytes) -> Request:
        """Return the Request kept under *name*; a copy if it was sent before."""
        try:
            request = self._in_memory[name]
        except KeyError:
            raise LostRequestError("it was only in the memory of an earlier process") from None
        if INTERNAL_META.isdisjoint(request.meta):
            return request
        return request.replace(meta=_without_internal(request.meta))

    def forget(self, packed: bytes) -> None:
        """Forget the request *packed*, because it is finished."""
        self._in_memory.pop(packed, None)


def _without_internal(meta: dict[str, Any]) -> dict[str, Any]:
    """Return *meta* without the crawler's own keys."""
    return {name: value for name, value in meta.items() if name not in INTERNAL_META}
