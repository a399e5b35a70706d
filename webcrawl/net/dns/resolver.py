"""Resolver: looks up host names, many at a time, in one thread (Mercator, section 3.3).

Called by the preconditions before a worker is used for a host, and by the dialer. Queries are sent
to the name servers over UDP, without the operating system's resolver and its threads. A truncated
answer is fetched again over TCP.

Invariants: at most one lookup of a name is in progress, however many callers wait for it.
Cancelling one of them does not affect the others. All parts of a crawler use the same resolver
(`resolver_of`), and so share its cache and lookups. Nothing survives a restart.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from scrapy import signals
from scrapy.crawler import Crawler

from webcrawl.clock import TimeSource, now
from webcrawl.configuration.memory_budget import size_of
from webcrawl.configuration.values import positive_number
from webcrawl.net.dns import wire as dnswire
from webcrawl.net.dns.hosts_file import hosts_of
from webcrawl.net.dns.query import DnsResult, NameServers, Unanswered
from webcrawl.net.dns.servers import SystemServers, server_address
from webcrawl.net.latencies import latencies_of
from webcrawl.randomness import secret_generator

# Seconds for which answers are cached. A host's pages are fetched seconds apart. Addresses that
# expire sooner would be looked up every time, and addresses in use do not disappear within a
# minute.
_MIN_TTL = 60
_MAX_TTL = 24 * 3600
# A failed lookup says little about the name: BIND caches it for 1 s, Unbound for 5.
_FAILURE_TTL = 5
# The minimum for negative answers, so that a name that was just looked up is still in the cache.
_MIN_NEGATIVE_TTL = 30
# Maximum number of aliases in a chain that need another question, as the answer has no address for
# them.
_MAX_ALIASES = 8
# Number of attempts in total, each with twice the time of the one before.
_TRIES = 3
# Number of addresses of one name that are kept; a hostile answer could have 512.
_MAX_KEPT = 16


class DnsError(OSError):
    """Base class of the errors for hosts without a usable address."""


class NameNotFoundError(DnsError):
    """The name does not exist (NXDOMAIN). This is final, if the name servers can be trusted."""


class NoAddressError(NameNotFoundError):
    """The name exists but has no address. This is final."""


class InvalidNameError(NameNotFoundError):
    """The name is not valid, so no name server is queried for it. This is final."""


class LookupFailedError(DnsError):
    """No name server returned a usable answer: SERVFAIL, REFUSED, unreachable. It is temporary."""


class LookupTimeoutError(LookupFailedError):
    """No name server answered in time. This is temporary."""


# A cached answer: the addresses, or the class of the error and its message. If there are addresses,
# the class is _FOUND, and there is no error.
_Result = tuple[tuple[str, ...], type[DnsError], str]
_FOUND: type[DnsError] = DnsError
_NO_NAME: _Result = ((), NameNotFoundError, "no such name")
_NO_ADDRESS: _Result = ((), NoAddressError, "no address")
_CLOSED: _Result = ((), LookupFailedError, "the resolver is closed")
# Stats that are counted by the questions.
_COUNTED = ("queries", "query_timeouts", "over_tcp", "unwanted_answers")


@dataclass(kw_only=True, eq=False, repr=False)
class Resolver:
    """Resolves host names to addresses. Its first lookup binds it to the running event loop.

    *servers* answer for all names except those in *hosts*, whose addresses are known
    (hosts_file.py). The cache has at most *cache_size* names, which expire by *clock*. *took* is
    called after each lookup at the servers with the seconds that it took.
    """

    servers: NameServers
    cache_size: int
    hosts: Mapping[str, list[str]] = field(default_factory=dict)
    clock: TimeSource = now
    took: Callable[[float], object] = lambda _: None
    # Stats: lookups, and those answered from the cache; calls of ``cached_result``, and those for
    # names that were not known; and names that ``remember`` has added to the cache.
    lookups: int = 0
    cache_hits: int = 0
    checks: int = 0
    checks_unknown: int = 0
    remembered: int = 0
    # The time of expiry and the result, by name. Least recently used first. A plain dict could keep
    # the same order, but finding its first key gets slower and slower as keys move to the end.
    _cache: OrderedDict[str, tuple[float, _Result]] = field(default_factory=OrderedDict)
    # The callbacks of each lookup in progress, with the time at which it started.
    _waiters: dict[str, tuple[float, list[Callable[[_Result], object]]]] = field(
        default_factory=dict
    )
    _closed: bool = False
    # Number of finished lookups, by the class in their result.
    _results: Counter[type[DnsError]] = field(default_factory=Counter)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Resolver:
        """Create a resolver from the settings of *crawler*.

        They are DNS_SERVERS, DNS_QUERY_TIMEOUT_SECS, HOSTS_FILE, and the share of names in
        MEMORY_BUDGET. Without DNS_SERVERS, the name servers of /etc/resolv.conf are used. Raises
        FatalError with one sentence for an invalid value.
        """
        settings = crawler.settings
        addresses = [server_address(text) for text in settings.getlist("DNS_SERVERS")]
        servers = NameServers(
            servers=(lambda: addresses) if addresses else SystemServers().current_servers,
            timeout=positive_number(settings, "DNS_QUERY_TIMEOUT_SECS"),
            tries=_TRIES,
            rng=secret_generator("message ids"),
        )
        return cls(
            servers=servers,
            cache_size=size_of(settings, "names"),
            hosts=hosts_of(settings),
            took=latencies_of(crawler).dns.add,
        )

    async def resolve(self, host: str) -> list[str]:
        """Return the addresses of *host*, at least one, in the order of the answer.

        These are its IPv4 addresses, or the IPv6 addresses of a host that has no others. Address
        literals (IPv6 with or without brackets) are returned as they are. localhost is never looked
        up (RFC 6761).

        Raises NameNotFoundError, NoAddressError, LookupFailedError or LookupTimeoutError.
        """
        waiter: asyncio.Future[_Result] = asyncio.get_running_loop().create_future()

        def finish(result: _Result) -> None:
            if not waiter.done():  # it may have been cancelled
                waiter.set_result(result)

        self._find(host, finish)
        addresses, error, why = await waiter
        if addresses:
            return list(addresses)
        raise error(f"{host}: {why}")

    def look_up(self, host: str, then: Callable[[Sequence[str]], object]) -> None:
        """Look up *host*, and call *then* with its addresses, or with () if `resolve` would raise.

        *then* is called in a later iteration of the event loop.
        """
        call_soon = asyncio.get_running_loop().call_soon
        self._find(host, lambda result: call_soon(then, result[0]))

    def probe(self, host: str, then: Callable[[bool], object]) -> None:
        """Query the name servers for *host*, even if it is cached; call *then* with the result.

        The result is whether they work. They do not if none of them answers, or if they deny that
        the host, its top-level domain and com exist: without a network, some deny every name.
        *then* is called in a later iteration of the event loop, but not after ``close``.
        """
        call_soon = asyncio.get_running_loop().call_soon
        name = _key(host)
        # Asked from the last to the first. Home routers do not pass on questions for addresses of
        # top-level domains.
        questions = [
            ("com", dnswire.SOA),
            (name.rpartition(".")[2], dnswire.SOA),
            (name, dnswire.A),
        ]

        def ask_next() -> None:
            asked, qtype = questions.pop()
            self.servers.ask(dnswire.wire_name(asked), qtype, handle_answer)

        def handle_answer(answer: DnsResult) -> None:
            is_denial = not isinstance(answer, Unanswered) and answer.rcode == dnswire.NXDOMAIN
            if is_denial and questions:
                ask_next()
            elif not self._closed:
                # Only the first question, about the host, must be answered: servers of a private
                # network may answer for its own names only.
                is_mute = isinstance(answer, Unanswered) and len(questions) > 1
                call_soon(then, not (is_denial or is_mute))

        if not self._closed:
            ask_next()

    def forget(self) -> None:
        """Forget all cached answers, because the name servers may have been wrong."""
        self._cache.clear()

    def cached_result(self, host: str) -> list[str] | DnsError | None:
        """Return the result of `resolve` for *host* if it needs no query, else None.

        A cached negative answer or failure is returned, not raised. This is called for every URL
        that is handed out.
        """
        self.checks += 1
        entry = self._known_result(host)
        if entry is None:
            self.checks_unknown += 1
            return None
        addresses, error, why = entry[1]
        return list(addresses) if addresses else error(f"{host}: {why}")

    def remember(self, host: str, addresses: Sequence[str], ttl: float) -> None:
        """Cache *addresses*, which an earlier run looked up, as those of *host* for *ttl* seconds.

        Answers of this run are newer and are not replaced.
        """
        if not self.ttl(host):
            self.remembered += 1
            self._cache_result(_key(host), (tuple(addresses), _FOUND, ""), min(ttl, _MAX_TTL))

    def ttl(self, host: str) -> float:
        """Return how many more seconds the answer of `cached_result` is valid; 0.0 without one."""
        entry = self._known_result(host)
        return 0.0 if entry is None else entry[0] - self.clock()

    async def close(self) -> None:
        """End the lookups in progress with an error, and close the sockets."""
        self._closed = True
        await self.servers.close()

    def counts(self) -> dict[str, int]:
        """Return the counts so far, by the names of the stats under ``dns/``."""
        sent = self.servers.counts
        return {
            "lookups": self.lookups,
            "cache_hits": self.cache_hits,
            "checks": self.checks,
            "checks_unknown": self.checks_unknown,
            "remembered": self.remembered,
            "found": self._results[_FOUND],
            "not_found": self._results[NameNotFoundError],
            "no_address": self._results[NoAddressError],
            "failed": self._results[LookupFailedError],
            "timed_out": self._results[LookupTimeoutError],
            **{name: sent[name] for name in _COUNTED},
        }

    def _known_result(self, host: str) -> tuple[float, _Result] | None:
        """Return the result for *host* if it needs no query, and when it expires; else None."""
        time = self.clock()
        # Most hosts are already spelled as in the cache; ``_key`` takes longer.
        name = host
        entry = self._cache.get(host)
        if entry is None:
            name = _key(host)
            if name in self.hosts:
                return time + _MAX_TTL, (tuple(self.hosts[name]), _FOUND, "")
            if (result := _literal(name)) is not None:
                return time + _MAX_TTL, result
            entry = self._cache.get(name)
        if entry is None or entry[0] <= time:
            return None
        self._cache.move_to_end(name)
        return entry

    def _find(self, host: str, then: Callable[[_Result], object]) -> None:
        """Call *then* with the result for *host*.

        Starts a lookup if the result is not known and no lookup is in progress. *then* may be
        called before this returns.
        """
        name = _key(host)
        known = self._known_result(host)
        # Addresses and names in *hosts* are known without a lookup, and are not counted.
        self.lookups += name in self._cache or known is None
        if known is not None:
            self.cache_hits += name in self._cache
            then(known[1])
        elif self._closed:
            then(_CLOSED)
        elif name in self._waiters:
            self._waiters[name][1].append(then)
        else:
            try:
                wire_name = dnswire.wire_name(name)
            except ValueError as e:
                result = ((), InvalidNameError, f"not a host name: {e}")
                self._cache_result(name, result, _MAX_TTL)
                then(result)
                return
            self._waiters[name] = self.clock(), [then]
            self._ask(name, wire_name, dnswire.A, aliases=0, ttl=_MAX_TTL)

    def _ask(self, key: str, name: bytes, qtype: int, *, aliases: int, ttl: int) -> None:
        """Query the name servers for *name*, and finish the lookup *key* with the answer.

        If the host *key* has no IPv4 address, its IPv6 addresses are queried next. So far,
        *aliases* aliases were followed, with *ttl* as the shortest time to live.
        """

        def finish(answer: DnsResult) -> None:
            if isinstance(answer, Unanswered):
                error = LookupTimeoutError if answer.timed_out else LookupFailedError
                self._finish(key, ((), error, answer.why), _FAILURE_TTL)
            elif answer.alias is not None and aliases < _MAX_ALIASES:
                self._ask(key, answer.alias, qtype, aliases=aliases + 1, ttl=min(ttl, answer.ttl))
            elif answer.addresses:
                cached_secs = max(_MIN_TTL, min(ttl, answer.ttl))
                self._finish(key, (answer.addresses[:_MAX_KEPT], _FOUND, ""), cached_secs)
            else:
                cached_secs = max(_MIN_NEGATIVE_TTL, min(ttl, answer.ttl))
                if answer.rcode == dnswire.NXDOMAIN:
                    self._finish(key, _NO_NAME, cached_secs)
                elif qtype == dnswire.AAAA or self._closed:
                    self._finish(key, _NO_ADDRESS, cached_secs)
                else:
                    host = dnswire.wire_name(key)
                    self._ask(key, host, dnswire.AAAA, aliases=0, ttl=cached_secs)

        self.servers.ask(name, qtype, finish)

    def _finish(self, key: str, result: _Result, ttl: float) -> None:
        """End the lookup *key*: cache *result* for *ttl* seconds, and pass it to all waiters."""
        self._results[result[1]] += 1
        if not self._closed:
            self._cache_result(key, result, ttl)
        began, waiters = self._waiters.pop(key)
        self.took(self.clock() - began)
        for then in waiters:
            then(result)

    def _cache_result(self, key: str, result: _Result, ttl: float) -> None:
        """Store *result* in the cache as *key* for *ttl* seconds."""
        self._cache[key] = (self.clock() + ttl, result)
        self._cache.move_to_end(key)
        if len(self._cache) > self.cache_size:
            self._cache.popitem(last=False)


_resolvers: WeakKeyDictionary[Crawler, Resolver] = WeakKeyDictionary()


def resolver_of(crawler: Crawler) -> Resolver:
    """Return the only resolver of *crawler*, which the first call creates from its settings.

    It is closed when the engine stops. Its counts are added to the stats as ``dns/...`` when the
    spider closes. Raises FatalError with one sentence for an invalid setting.
    """
    resolver = _resolvers.get(crawler)
    if resolver is None:
        resolver = Resolver.from_crawler(crawler)
        _resolvers[crawler] = resolver

        def spider_closed() -> None:
            for name, count in resolver.counts().items():
                crawler.stats.set_value(f"dns/{name}", count)

        # The references are not weak, as nothing else refers to these receivers.
        crawler.signals.connect(spider_closed, signal=signals.spider_closed, weak=False)
        crawler.signals.connect(resolver.close, signal=signals.engine_stopped, weak=False)
    return resolver


def _key(host: str) -> str:
    """Return the name of *host* in the cache: in lower case, without a final dot."""
    return host.removesuffix(".").lower()


def _literal(name: str) -> _Result | None:
    """Return the address of *name* if it is an address or localhost; None for any other name.

    Names that end in a number and are not an address are invalid. The WHATWG URL Standard treats
    them as broken IPv4 addresses, and no top-level domain is a number.
    """
    if name == "localhost" or name.endswith(".localhost"):
        return ("127.0.0.1",), _FOUND, ""
    if ":" in name:
        name = name.removeprefix("[").removesuffix("]")
    elif not name[-1:].isdigit():
        return None
    try:
        return (str(ipaddress.ip_address(name)),), _FOUND, ""
    except ValueError:
        if ":" in name or name.rpartition(".")[2].isdecimal():
            return (), InvalidNameError, "not a host name: not a valid address"
        return None
