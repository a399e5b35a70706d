"""Rules cache: the robots.txt files of many hosts, on disk and, while they are in use, in memory.

Each origin (scheme, host and port) has an entry of its own, since a robots.txt applies to a single
origin (RFC 9309, section 2.3). An answer is valid for this long:

* A file, or the lack of one (4xx), for *expire* seconds, a day by default (2.4).
* A failure (429, 5xx, no answer) disallows everything, and is retried after *retry* seconds. If
  there was a file before, it continues to be followed in the meantime (2.4).
* A host that has been failing for 30 days in a row counts as having no robots.txt (2.3.1.4). Only
  time during which the crawl checked the host counts.

Times are epoch seconds, since they survive the process. If the clock is set back, an answer from
the future is treated as just fetched.

Invariant: at most *size* rules, and little more than *max_bytes* of them, are in memory. The least
recently used are evicted first, and read from the store again when needed. No call blocks for
longer than the store does, plus the time to parse one file.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Self

import msgspec
from scrapy.settings import BaseSettings

from webcrawl.clock import TimeSource, wall_time
from webcrawl.configuration.values import positive_number
from webcrawl.hosts.records import HostRecords
from webcrawl.hosts.records.records_reader import RecordsReader
from webcrawl.hosts.robots.robots_record import (
    COMMON_BYTES,
    COMMON_FILES,
    RobotsRecord,
    pack,
    record_after,
    unpack,
)
from webcrawl.hosts.robots.rules import RobotsRules, data_mining_rules, is_unreachable
from webcrawl.identity.names import product_tokens
from webcrawl.rights.policy import TDM_PATH
from webcrawl.rights.purposes import purpose_of
from webcrawl.rights.statements import ROBOTS_TXT, Statement
from webcrawl.urls import origin_of

logger = logging.getLogger(__name__)

# RFC 9309, section 2.3.1.4: "for example, 30 days".
_UNREACHABLE_SECS = 30 * 24 * 3600.0
# Seconds after a failure until robots.txt is requested again.
_RETRY_SECS = 600.0
# Number of rules in memory, for the hosts in use. Reading others again takes 0.05 ms.
_READY = 2**13
_READY_BYTES = 64 * 2**20  # five of the largest possible files, or 30,000 typical ones
_cached_rules = lru_cache(maxsize=COMMON_FILES)(RobotsRules.from_outcome)


class RobotsFacts(NamedTuple):
    """Facts about the last answer for an origin's robots.txt. Times are epoch seconds."""

    status: int | None  # of the answer, None if there was none
    fetched_at: float  # when it came
    expires_at: float  # when robots.txt will be fetched again


class _Ready(msgspec.Struct, frozen=True, gc=False):
    """Parsed rules in memory, valid from *since* until shortly before *until*.

    *read_at* is when the file was received, which is earlier if the last try failed.
    """

    rules: RobotsRules
    since: float
    until: float
    read_at: float


@dataclass(kw_only=True, eq=False)
class RobotsCache:
    """Cache of the rules of all origins; *size* and *max_bytes* limit those in memory.

    *tokens* are the crawler's product tokens, the most specific first. *expire*, *retry* and
    *unreachable_limit* are the seconds for which answers are valid; see the module's docstring.
    With *is_for_data_mining* the files are not robots.txt but those at TDM_PATH, in which owners
    say whether text and data mining is allowed. These only make statements about *purpose*.
    """

    store: HostRecords | RecordsReader
    tokens: tuple[str, ...]
    size: int
    max_bytes: int
    expire: float
    retry: float
    clock: TimeSource
    unreachable_limit: float = _UNREACHABLE_SECS
    purpose: str = ""
    is_for_data_mining: bool = False

    def __post_init__(self) -> None:
        # Least recently used first. Finding the first key of a plain dict would take 2 us.
        self._ready: OrderedDict[str, _Ready] = OrderedDict()
        # The approximate size of these rules.
        self._bytes = 0
        # The sitemaps of rules in memory, by origin, until ``take_sitemaps`` returns them.
        self._new_sitemaps: dict[str, tuple[str, ...]] = {}
        # The last origin for which ``get`` found nothing, so that ``last_rules`` need not read the
        # store.
        self._last_unknown = ""

    def resize(self, *, size: int, max_bytes: int) -> None:
        """Change the limits; excess rules are evicted when the next ones are added."""
        self.size = size
        self.max_bytes = max_bytes

    @classmethod
    def from_settings(
        cls,
        settings: BaseSettings,
        *,
        store: HostRecords | RecordsReader,
        clock: TimeSource = wall_time,
        is_for_data_mining: bool = False,
    ) -> Self:
        """Create a cache as ROBOTS_EXPIRE_SECS, CRAWL_PURPOSE and the user agent in *settings* say.

        *clock* returns epoch seconds. *is_for_data_mining* as in the class. Raises
        FatalError for a bad value.
        """
        expire = positive_number(settings, "ROBOTS_EXPIRE_SECS")
        return cls(
            store=store,
            tokens=product_tokens(settings),
            size=_READY,
            max_bytes=_READY_BYTES,
            expire=expire,
            retry=expire if is_for_data_mining else _RETRY_SECS,
            clock=clock,
            purpose=purpose_of(settings),
            is_for_data_mining=is_for_data_mining,
        )

    def get(self, origin: str) -> RobotsRules | None:
        """Return the rules of *origin* (``scheme://host:port``), or None if they must be fetched.

        They must be fetched if none are known, or if the last answer is no longer valid.
        """
        now = self.clock()
        ready = self._ready.get(origin)
        if ready is not None and ready.since <= now < ready.until:
            self._ready.move_to_end(origin)
            return ready.rules

        entry = self._entry(origin, now)
        if entry is None or now >= self._expires_at(entry):
            self._forget(origin)
            self._last_unknown = origin if entry is None else ""
            return None
        return self._remember(origin, entry)

    def last_rules(self, origin: str) -> RobotsRules | None:
        """Return the last known rules of *origin*, even if they must be fetched again, or None.

        If they have expired, they are parsed in each call.
        """
        ready = self._ready.get(origin)
        if ready is not None:
            return ready.rules
        if origin == self._last_unknown:
            return None
        entry = self._entry(origin, self.clock())
        return None if entry is None else self._rules(entry)

    def statements(self, url: str, line: str) -> list[Statement]:
        """Return what the owner of *url* says about its use, if the crawl has a purpose.

        Call it after ``get`` or ``put``. *line* is that of robots.txt which decides about *url*.
        """
        ready = self._ready.get(origin_of(url)) if self.purpose else None
        if ready is None:
            return []
        found = ready.rules.statements(url, at=ready.read_at, purpose=self.purpose)
        return (
            found
            if self.is_for_data_mining
            else [Statement(ROBOTS_TXT, line, ready.read_at), *found]
        )

    def put(self, origin: str, status: int | None, body: bytes = b"") -> RobotsRules:
        """Store the last answer for the robots.txt of *origin*, and return the rules to follow.

        *status* is None if there was no answer, or if the body was incomplete, as a part of a file
        would allow too much.
        """
        now = self.clock()
        entry = record_after(
            self._entry(origin, now) if is_unreachable(status) else None,
            status,
            body,
            now=now,
            longest_gap=max(self.expire, self.retry),
        )

        rules = self._remember(origin, entry)
        self._last_unknown = ""
        # Stored only after parsing, so that a file that cannot be parsed in time is not stored.
        self.store.put_robots(self._key(origin), pack(entry))
        if rules.bad_delay:
            logger.warning(
                "%s/robots.txt: Crawl-delay %r is not a number and is ignored",
                origin,
                rules.bad_delay,
            )
        return rules

    def forgive(self, origin: str) -> None:
        """Let the robots.txt of *origin* be fetched again now, if it could not be reached."""
        entry = self._entry(origin, self.clock())
        if entry is not None and entry.failing:
            self._forget(origin)
            # As if that had been long ago, so that it is retried now.
            never = msgspec.structs.replace(entry, fetched_at=0.0, failing_for=0.0)
            self.store.put_robots(self._key(origin), pack(never))

    def take_sitemaps(self, origin: str) -> tuple[str, ...]:
        """Return the sitemaps of *origin* if its rules were parsed since the last call, else ()."""
        return self._new_sitemaps.pop(origin, ())

    @property
    def shortest_secs(self) -> float:
        """The shortest time for which an answer is valid, in seconds."""
        return min(self.expire, self.retry)

    def facts(self, origin: str) -> RobotsFacts | None:
        """Return facts about the last answer for the robots.txt of *origin*, or None."""
        entry = self._entry(origin, self.clock())
        if entry is None:
            return None
        return RobotsFacts(entry.status, entry.fetched_at, self._expires_at(entry))

    def _entry(self, origin: str, now: float) -> RobotsRecord | None:
        """Return the record of *origin* from the store; one from the future is dated *now*."""
        entry = unpack(self.store.robots(self._key(origin)))
        if entry is not None and entry.fetched_at > now:  # the clock was set back
            entry = msgspec.structs.replace(entry, fetched_at=now)
            self.store.put_robots(self._key(origin), pack(entry))
        return entry

    def _key(self, origin: str) -> str:
        """Return the name of the file of *origin* in the store."""
        return origin + TDM_PATH if self.is_for_data_mining else origin

    def _is_given_up(self, entry: RobotsRecord) -> bool:
        """Return whether the host of *entry* has failed too long: it counts as having no file."""
        return entry.failing_for >= self.unreachable_limit

    def _expires_at(self, entry: RobotsRecord) -> float:
        """Return when robots.txt must be fetched again, epoch seconds."""
        is_retried = entry.failing and not self._is_given_up(entry)
        return entry.fetched_at + (self.retry if is_retried else self.expire)

    def _rules(self, entry: RobotsRecord) -> RobotsRules:
        """Return the rules that follow from *entry*; rules that many hosts have are shared."""
        status = entry.status
        if self._is_given_up(entry):
            status = 404  # as if there were no file
        elif entry.file is not None:
            status = 200  # the file is followed even if the last try has failed
        file = entry.file or b""
        if self.is_for_data_mining:
            return data_mining_rules(status, file)
        # Many hosts have the same short file, so these files are parsed once. Longer ones would
        # only displace them in that cache.
        is_common = len(file) <= COMMON_BYTES
        parse = _cached_rules if is_common else RobotsRules.from_outcome
        return parse(status, file, tokens=self.tokens, purpose=self.purpose)

    def _remember(self, origin: str, entry: RobotsRecord) -> RobotsRules:
        """Parse the rules of *origin* from *entry*, keep them in memory, and return them."""
        self._forget(origin)
        rules = self._rules(entry)
        read_at = entry.file_at or entry.fetched_at
        self._ready[origin] = _Ready(rules, entry.fetched_at, self._expires_at(entry), read_at)
        self._bytes += rules.size_bytes
        if rules.sitemaps:
            self._new_sitemaps[origin] = rules.sitemaps

        # The newest rules stay, however large, or they would be parsed again for every URL.
        while len(self._ready) > self.size or (
            self._bytes > self.max_bytes and len(self._ready) > 1
        ):
            self._forget(next(iter(self._ready)))
        return rules

    def _forget(self, origin: str) -> None:
        """Remove the rules of *origin* from memory."""
        ready = self._ready.pop(origin, None)
        if ready is not None:
            self._new_sitemaps.pop(origin, None)
            self._bytes -= ready.rules.size_bytes
