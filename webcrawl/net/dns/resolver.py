"""Asynchronous look-ups of host names, many in parallel, in one thread (Mercator, section 3.3).

Called by the preconditions before a worker is spent on a host, and by the dialer. Queries go to the
name servers over UDP, without the operating system's resolver and its threads; a truncated answer
is fetched again over TCP.

Invariants: at most one look-up of a name and type is under way, however many wait for it; a waiter
that is cancelled cancels no other. Every part of a crawler gets the same resolver (`resolver_of`),
so that they share its cache and its look-ups. Nothing survives a restart.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from scrapy import signals

from webcrawl.clock import TimeSource, now
from webcrawl.configuration.memory_budget import size_of
from webcrawl.configuration.values import part_of, positive
from webcrawl.doctor.histogram import latencies_of
from webcrawl.errors import FatalError
from webcrawl.net.dns import wire as dnswire
from webcrawl.net.dns.client import ClientQuestions, DnsClient
from webcrawl.net.dns.hosts_file import hosts_of
from webcrawl.net.dns.query import DnsResult, NameServers, Unanswered
from webcrawl.net.dns.servers import SystemServers, server_address
from webcrawl.randomness import secret_generator

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scrapy.crawler import Crawler

# Defaults of the settings of the same names.

# A host's pages are fetched seconds apart: addresses that expire sooner would be asked for every
# time, and addresses in use do not die within a minute.
_MIN_TTL = 60
_MAX_TTL = 24 * 3600
# A failed look-up says little about the name: BIND remembers it for 1 s, Unbound for 5.
_FAILURE_TTL = 5
# Whatever the TTL of a negative answer: who has just resolved a name must find it cached.
_MIN_NEGATIVE_TTL = 30
# Aliases that leave one answer and need another question.
_MAX_ALIASES = 8
# Questions in all, each with twice the time of the one before.
_TRIES = 3
# Addresses of one name that are kept; a hostile answer could have 512.
_MAX_KEPT = 16


class DnsError(OSError):
    """A host has no usable address."""


class NameNotFoundError(DnsError):
    """The name does not exist (NXDOMAIN). Final, if the name servers can be believed."""


class NoAddressError(NameNotFoundError):
    """The name exists and has no address. Final."""


class InvalidNameError(NameNotFoundError):
    """The name cannot exist: no name server is asked for it. Final."""


class LookupFailedError(DnsError):
    """No name server gave a usable answer: SERVFAIL, REFUSED, unreachable. May pass."""


class LookupTimeoutError(LookupFailedError):
    """No name server answered in time. May pass."""


# An answer to be kept: the addresses, or the class of the error and its words.
_Result = tuple[tuple[str, ...], type[DnsError], str]
_NO_NAME: _Result = ((), NameNotFoundError, "no such name")
_NO_ADDRESS: _Result = ((), NoAddressError, "no address")
_CLOSED: _Result = ((), LookupFailedError, "the resolver is closed")
# Counted by the questions.
_COUNTED = ("queries", "query_timeouts", "over_tcp", "unwanted_answers")
# What a name's key in the cache ends in when its value is about IPv6; no name has a slash.
_IPV6 = "/6"


@dataclass(kw_only=True, eq=False, repr=False)
class Resolver:
    """Turns names into addresses. Bound to the running loop by its first look-up.

    *servers* answer for all names but *hosts*, whose addresses are known (hosts_file.py). Names
    expire from the cache, bounded to *cache_size* names, by *clock*. *took* is called with the
    seconds of each look-up that they were asked for.
    """

    servers: NameServers | ClientQuestions
    cache_size: int
    hosts: Mapping[str, list[str]] = field(default_factory=dict)
    clock: TimeSource = now
    took: Callable[[float], object] = lambda _: None
    lookups: int = 0
    cache_hits: int = 0
    checks: int = 0
    checks_unknown: int = 0
    remembered: int = 0
    # In order of use, longest ago first; IPv6 under a key of its own. A key's value is the time of
    # expiry and the result. A plain dict keeps that order too, but finding its first key takes ever
    # longer as keys move to the end.
    _cache: OrderedDict[str, tuple[float, _Result]] = field(default_factory=OrderedDict)
    # With the time since when each is looked up.
    _waiters: dict[str, tuple[float, list[Callable[[_Result], object]]]] = field(
        default_factory=dict
    )
    _closed: bool = False
    _results: Counter[type[DnsError]] = field(default_factory=Counter)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Resolver:
        """Build a resolver by DNS_SERVERS or DNS_CLIENT_CLASS, DNS_QUERY_TIMEOUT_SECS, HOSTS_FILE
        and the share of names in MEMORY_BUDGET.

        The name servers of /etc/resolv.conf when neither is set; none but those named when it is.
        Raises FatalError with one sentence for a value that cannot work.
        """
        settings = crawler.settings
        named = [server_address(s) for s in settings.getlist("DNS_SERVERS")]
        timeout = positive(settings, "DNS_QUERY_TIMEOUT_SECS")
        servers: NameServers | ClientQuestions
        if path := settings.get("DNS_CLIENT_CLASS"):
            if named:
                raise FatalError("DNS_SERVERS are not asked where DNS_CLIENT_CLASS is: set one.")
            client = part_of(crawler, "DNS_CLIENT_CLASS", path, like=DnsClient)
            servers = ClientQuestions(client, timeout=timeout, tries=_TRIES)
        else:
            servers = NameServers(
                servers=(lambda: named) if named else SystemServers().current,
                timeout=timeout,
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

        The IPv4 addresses, or the IPv6 ones of a host that has no other. Address literals (IPv6
        with or without brackets) come back as they are; localhost is never asked for (RFC 6761).

        Raises NameNotFoundError, NoAddressError, LookupFailedError or LookupTimeoutError.
        """
        entry = self._cache.get(host)
        if entry is not None and entry[1][0] and entry[0] > self.clock():
            # As below, without a future: of a host that is contacted the name was just looked up.
            self._cache.move_to_end(host)
            self.lookups += 1
            self.cache_hits += 1
            return list(entry[1][0])
        name = _key(host)
        known = self._without_lookup(name)
        if known is not None:
            return known
        waiter: asyncio.Future[_Result] = asyncio.get_running_loop().create_future()

        def done(result: _Result) -> None:
            if not waiter.done():
                waiter.set_result(result)

        self._find(name, done)
        addresses, error, why = await waiter
        if addresses:
            return list(addresses)
        raise error(f"{host}: {why}")

    def look_up(self, host: str, then: Callable[[Sequence[str]], object]) -> None:
        """Call *then*, in a later turn of the loop, with what `resolve` would return; with nothing
        where it would raise."""
        call_soon = asyncio.get_running_loop().call_soon
        name = _key(host)
        try:
            known = self._without_lookup(name)
        except InvalidNameError:
            call_soon(then, ())
            return
        if known is not None:
            call_soon(then, known)
        else:
            self._find(name, lambda result: call_soon(then, result[0]))

    def probe(self, host: str, then: Callable[[bool], object]) -> None:
        """Query the name servers for *host*, cached or not, and call *then*, in a later turn of the
        loop, with whether they find it. It is not called after ``close``."""
        call_soon = asyncio.get_running_loop().call_soon

        def done(answer: DnsResult) -> None:
            found = not isinstance(answer, Unanswered) and (answer.addresses or answer.alias)
            if not self._closed:
                call_soon(then, bool(found))

        if not self._closed:
            self.servers.ask(dnswire.wire_name(_key(host)), dnswire.A, done)

    def cached(self, host: str) -> list[str] | DnsError | None:
        """Return what `resolve` would find without asking anybody; None if it had to ask.

        A negative answer or a failure that is still remembered is returned, not raised. Called
        for every URL that is handed out.
        """
        self.checks += 1
        entry = self._cache.get(host)
        if entry is None or entry[1][1] is NoAddressError:
            return self._cached_otherwise(host)
        if entry[0] <= self.clock():
            self.checks_unknown += 1
            return None
        self._cache.move_to_end(host)
        addresses, error, why = entry[1]
        return list(addresses) if addresses else error(f"{host}: {why}")

    def remember(self, host: str, addresses: Sequence[str], ttl: float) -> None:
        """Take *addresses* as the answer for *host* for *ttl* seconds, without a query.

        For what an earlier run found out. What was looked up in this one is newer and stays.
        """
        name = _key(host)
        if self.ttl(host):
            return
        self.remembered += 1
        ipv4 = tuple(address for address in addresses if ":" not in address)
        ttl = min(ttl, _MAX_TTL)
        if ipv4:
            self._keep(name, (ipv4, DnsError, ""), ttl)
        else:
            self._keep(name, _NO_ADDRESS, ttl)
            self._keep(name + _IPV6, (tuple(addresses), DnsError, ""), ttl)

    def ttl(self, host: str) -> float:
        """Return for how many seconds more the answer of `cached` holds; 0.0 if it has none."""
        entry = self._cache.get(host)
        if entry is not None and entry[1][0]:
            return max(0.0, entry[0] - self.clock())
        name = _key(host)
        try:
            if self._without_lookup(name) is not None:
                return _MAX_TTL
        except NameNotFoundError:
            return _MAX_TTL
        entry = self._known(name)
        return 0.0 if entry is None else max(0.0, entry[0] - self.clock())

    async def close(self) -> None:
        """Fail the look-ups under way and close the sockets. Idempotent."""
        self._closed = True
        await self.servers.close()

    def counts(self) -> dict[str, int]:
        """Return what was done so far, by the names of the stats under ``dns/``."""
        sent = self.servers.counts
        return {
            "lookups": self.lookups,
            "cache_hits": self.cache_hits,
            "checks": self.checks,
            "checks_unknown": self.checks_unknown,
            "remembered": self.remembered,
            "found": self._results[DnsError],
            "not_found": self._results[NameNotFoundError],
            "no_address": self._results[NoAddressError],
            "failed": self._results[LookupFailedError],
            "timed_out": self._results[LookupTimeoutError],
            **{name: sent[name] for name in _COUNTED},
        }

    def _cached_otherwise(self, host: str) -> list[str] | DnsError | None:
        """The result of `cached` for names that are not in the cache just as they are written."""
        name = _key(host)
        try:
            known = self._without_lookup(name)
        except NameNotFoundError as e:
            return e
        if known is not None:
            return known
        entry = self._known(name)
        if entry is None or entry[0] <= self.clock():
            self.checks_unknown += 1
            return None
        for key in (name, name + _IPV6):
            if key in self._cache:
                self._cache.move_to_end(key)
        addresses, error, why = entry[1]
        return list(addresses) if addresses else error(f"{host}: {why}")

    def _without_lookup(self, name: str) -> list[str] | None:
        """The addresses of a name that needs no look-up; otherwise as ``_literal``."""
        if name in self.hosts:
            return [*self.hosts[name]]
        literal = _literal(name)
        return None if literal is None else [literal]

    def _known(self, name: str) -> tuple[float, _Result] | None:
        """The remembered answer for *name* and until when, by IPv6 where it has no IPv4 address."""
        entry = self._cache.get(name)
        if entry is not None and entry[1][1] is NoAddressError:
            ipv6 = self._cache.get(name + _IPV6)
            return ipv6 and (min(entry[0], ipv6[0]), ipv6[1])
        return entry

    def _find(self, name: str, then: Callable[[_Result], object]) -> None:
        def by_ipv4(result: _Result) -> None:
            if result[1] is NoAddressError:
                self._addresses(name + _IPV6, name, dnswire.AAAA, then)
            else:
                then(result)

        self._addresses(name, name, dnswire.A, by_ipv4)

    def _addresses(
        self, key: str, host: str, qtype: int, then: Callable[[_Result], object]
    ) -> None:
        """Call *then* with the result of *key*, perhaps at once; of the one look-up of it, which
        starts here if it is not under way."""
        self.lookups += 1
        entry = self._cache.get(key)
        if entry is not None and entry[0] > self.clock():
            self._cache.move_to_end(key)
            self.cache_hits += 1
            then(entry[1])
        elif self._closed:
            then(_CLOSED)
        elif key in self._waiters:
            self._waiters[key][1].append(then)
        else:
            try:
                name = dnswire.wire_name(host)
            except ValueError as e:
                result = ((), InvalidNameError, f"not a host name: {e}")
                self._keep(key, result, _MAX_TTL)
                then(result)
                return
            self._waiters[key] = self.clock(), [then]
            self._ask(key, name, qtype, aliases=0, ttl=_MAX_TTL)

    def _ask(self, key: str, name: bytes, qtype: int, *, aliases: int, ttl: int) -> None:
        def done(answer: DnsResult) -> None:
            if isinstance(answer, Unanswered):
                error = LookupTimeoutError if answer.timed_out else LookupFailedError
                self._finish(key, ((), error, answer.why), _FAILURE_TTL)
            elif answer.alias is not None and aliases < _MAX_ALIASES:
                self._ask(key, answer.alias, qtype, aliases=aliases + 1, ttl=min(ttl, answer.ttl))
            elif answer.addresses:
                kept = max(_MIN_TTL, min(ttl, answer.ttl))
                self._finish(key, (answer.addresses[:_MAX_KEPT], DnsError, ""), kept)
            else:
                result = _NO_NAME if answer.rcode == dnswire.NXDOMAIN else _NO_ADDRESS
                self._finish(key, result, max(_MIN_NEGATIVE_TTL, answer.ttl))

        self.servers.ask(name, qtype, done)

    def _finish(self, key: str, result: _Result, ttl: float) -> None:
        self._results[result[1]] += 1
        if not self._closed:
            self._keep(key, result, ttl)
        began, waiters = self._waiters.pop(key)
        self.took(self.clock() - began)
        for then in waiters:
            then(result)

    def _keep(self, key: str, result: _Result, ttl: float) -> None:
        self._cache[key] = (self.clock() + ttl, result)
        self._cache.move_to_end(key)
        if len(self._cache) > self.cache_size:
            self._cache.popitem(last=False)


_resolvers: WeakKeyDictionary[Crawler, Resolver] = WeakKeyDictionary()


def resolver_of(crawler: Crawler) -> Resolver:
    """The one resolver of *crawler*, made from its settings by the first call and closed when the
    engine stops; its counts are in the stats as ``dns/...`` when the spider closes.

    Raises FatalError with one sentence for a setting that cannot work.
    """
    resolver = _resolvers.get(crawler)
    if resolver is None:
        resolver = _resolvers[crawler] = Resolver.from_crawler(crawler)

        def spider_closed() -> None:
            assert crawler.stats is not None
            for name, count in resolver.counts().items():
                crawler.stats.set_value(f"dns/{name}", count)

        # Not weakly: nothing else holds these receivers.
        crawler.signals.connect(spider_closed, signal=signals.spider_closed, weak=False)
        crawler.signals.connect(resolver.close, signal=signals.engine_stopped, weak=False)
    return resolver


def _key(host: str) -> str:
    return host.removesuffix(".").lower()


def _literal(name: str) -> str | None:
    """Return the address of a name that needs no look-up, None for any other.

    Raises InvalidNameError for names that end in a number and are no address: WHATWG URL reads
    those as broken IPv4 addresses, and no top-level domain is a number.
    """
    if name == "localhost" or name.endswith(".localhost"):
        return "127.0.0.1"
    if ":" in name:
        name = name.removeprefix("[").removesuffix("]")
    elif not name[-1:].isdigit():
        return None
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        if ":" in name or name.rpartition(".")[2].isdecimal():
            raise InvalidNameError(f"not a host name: {name!r} is no address") from None
        return None
