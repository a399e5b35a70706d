"""Faults of servers and networks, drawn from a seed: what fails, how, and from when until when.

Names fail in episodes, each a pure function of the seed and the name. They lie before an end, after
which everything works: then a crawl can fetch all that there is. A ban has no end but that of all
faults: whoever waits for it waits for ever.
"""

import asyncio
import dataclasses
import functools
import math
import random
import re
from typing import Any, NamedTuple

from webcrawl.sim.web import DNS, SimulatedWeb
from webcrawl.simweb.host_spec import Behaviour, RobotsKind
from webcrawl.simweb.nameserver import reply
from webcrawl.simweb.replies import NONE, HostReply

_THROTTLE = ("behaviour", Behaviour.THROTTLE)
#: What a host is in place of what it was, to those who ask it, and to those who look it up.
HOST_FAULTS = (
    ("behaviour", Behaviour.SLOW),
    *(_THROTTLE,) * 3,
    ("behaviour", Behaviour.SERVER_ERROR),
    ("behaviour", Behaviour.RESET),
    ("behaviour", Behaviour.STALL),
    ("behaviour", Behaviour.GARBAGE),
    ("robots", RobotsKind.UNAVAILABLE),
    ("robots", RobotsKind.DENY_ALL),
)
NAME_FAULTS = (
    ("behaviour", Behaviour.SERVFAIL),
    ("behaviour", Behaviour.DNS_TIMEOUT),
)
#: What becomes of connections to an address: refused, accepted and dropped, never made, slow.
ADDRESS_FAULTS = ("refused", "dropped", "mute", "slow")
#: Of all addresses, and of the name server.
NETWORK_FAULTS = ("refused", "mute", "lossy")
_UNANSWERED = frozenset({"refused", "dropped", "mute"})
# Episodes of a name, the longest of them as a share of the time until the end, seconds by which the
# machine's clock is set.
_EPISODES = (0, 0, 0, 1, 2)
_LONGEST = 0.5
# Most begin early: a crawl may have ended soon.
_EARLY = 3
# The part of the time until the end in which what holds on begins.
_BEGINS = (0.02, 0.05)
_SET_SECS = 100_000.0
# What depends on the version of a document in its validators.
_OF_VERSION = re.compile(rb"(?<=[0-9a-f])-[0-9a-f]+(?=\"\r\n)|Last-Modified: .*\r\n")
_LOSS = 0.5
# Share of the seeds with a ban.
_BANNED = 0.1
# Share of the hosts that throttle from an early moment on.
_BUSY = 0.05


class Episode(NamedTuple):
    """*fault* of *name* from *begin* until *end*, in seconds of the simulation."""

    begin: float
    end: float
    name: str
    fault: Any


class ProcessFaults:
    """The faults of *seed*, the last of which ends at second *end* of the simulation; 0: none."""

    def __init__(self, seed, *, end):
        self._seed = seed
        #: When the last one ends.
        self.end = end

    @functools.cache  # noqa: B019  # one for a process
    def episodes(self, name, among):
        """The episodes of *name*, which may overlap."""
        rng = random.Random(f"{self._seed} {name}")
        found = []
        for _ in range(rng.choice(_EPISODES) if self.end else 0):
            begin = self.end * rng.random() ** _EARLY
            length = self.end * _LONGEST * rng.random() ** 3
            end = min(self.end, begin + length)
            found.append(Episode(begin, end, name, rng.choice(among)))
        if among is HOST_FAULTS and self.end and rng.random() < _BUSY:
            found.insert(0, Episode(self.end * rng.uniform(*_BEGINS), self.end, name, _THROTTLE))
        return found

    @functools.cached_property
    def bans(self):
        """The ban, if there is one: all addresses accept connections and drop them."""
        rng = random.Random(f"{self._seed} ban")
        if not self.end or rng.random() >= _BANNED:
            return []
        begin = self.end * rng.uniform(*_BEGINS)
        return [Episode(begin, math.inf, "ban", "dropped")]

    def _now(self, name, among, at):
        return next(
            (one.fault for one in self.episodes(name, among) if one.begin <= at < one.end), None
        )

    def host(self, host, at):
        """*host* as it answers *at* a time."""
        return _changed(host, self._now(host.name, HOST_FAULTS, at))

    def named(self, host, at):
        """*host* as it is found by its name *at* a time."""
        return _changed(host, self._now(f"name of {host.name}", NAME_FAULTS, at))

    def of(self, host):
        """All that ever fails of *host* and the way to it."""
        return [
            *self.episodes(host.name, HOST_FAULTS),
            *self.episodes(f"name of {host.name}", NAME_FAULTS),
            *self.episodes(host.address, ADDRESS_FAULTS),
            *self.episodes(DNS[0], ADDRESS_FAULTS),
            *self.episodes("network", NETWORK_FAULTS),
            *self.bans,
        ]

    def address(self, address, at):
        """The fault of *address*, empty for none."""
        network = self._now("network", NETWORK_FAULTS, at)
        return network or self._now(address, ADDRESS_FAULTS, at) or ""

    def is_banned(self, at):
        """Whether there is a ban *at* a time."""
        return any(one.begin <= at for one in self.bans)

    def route(self, address, route, at):
        """The way to *address*, which is *route* where nothing fails."""
        if self.address(address, at) == "slow":
            return route._replace(latency=route.latency + 1, bandwidth=2000)
        return route

    def wall(self, at):
        """Seconds by which the machine's clock is set wrongly *at* a time."""
        return sum(
            random.Random(f"{self._seed} {one.begin}").uniform(-_SET_SECS, _SET_SECS)
            for one in self.episodes("clock", ("set",))
            if one.begin <= at < one.end
        )


class FaultyWeb(SimulatedWeb):
    """Simulated web with *faults*."""

    def __init__(self, world, *, log, faults, lies=""):
        """*lies*: "same", validators stay as they are when their document changes, or "304", that
        answers all who have any."""
        super().__init__(world, log=log)
        self._lies = lies
        if lies:
            self._state.reply_to = self._lie(self._state.reply_to)
        self._faults = faults
        self._random = random.Random(world.seed).random
        state, at = self._state, self._state.find_at
        state.find = lambda header: self._as_now(header.partition(":")[0], faults.host)
        state.find_at = lambda address: faults.host(at(address), self._time())
        if faults.end:  # who throttles by a fault does so from its first request on
            state.secs_until_accepted = lambda _: world.throttle_secs

    def hang_up(self):
        """The process that was served is no more: what was being answered is logged."""
        for transport in [*self._state.connections]:
            transport.get_protocol().connection_lost(None)
        for task in [*self._state.tasks]:  # conversations
            task.get_coro().close()

    def route(self, address):
        return self._faults.route(address, super().route(address), self._time())

    def protocol(self, address, port):
        fault = self._faults.address(address, self._time())
        if fault == "refused":
            raise ConnectionRefusedError(111, "Connection refused")
        made = super().protocol(address, port)
        if fault == "mute":
            raise TimeoutError
        return _Dropping() if fault == "dropped" or self._faults.is_banned(self._time()) else made

    def answer(self, address, port, question):
        fault = self._faults.address(address, self._time())
        is_lost = fault == "lossy" and self._random() < _LOSS
        if (address, port) != DNS or fault in _UNANSWERED or is_lost:
            return None
        return reply(lambda name: self._as_now(name, self._faults.named), question)

    def _lie(self, reply_to):
        def lie(host, target, *, known=NONE, **asked):
            answer = reply_to(host, target, known=NONE, **asked)
            headers = answer.headers
            if self._lies == "same":
                headers = _OF_VERSION.sub(b"", headers)
            if known != NONE and answer.status == 200:
                return HostReply(304, headers, [])
            return answer._replace(headers=headers)

        return lie

    def _as_now(self, name, change):
        host = self.world.find(name)
        return host and change(host, self._time())


class _Dropping(asyncio.Protocol):
    """A connection that is accepted and dropped."""

    def connection_made(self, transport):
        transport.close()


def _changed(host, change):
    return dataclasses.replace(host, **dict([change])) if change else host
