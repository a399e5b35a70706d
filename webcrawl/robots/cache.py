"""What many hosts allow, remembered for a day in bounded memory.

Called by whoever leases hosts: `get` before a fetch, `put` after robots.txt was fetched. One
origin (scheme, host and port) is one entry, since a robots.txt speaks for no other (RFC 9309,
section 2.3).

Invariant: never more than *size* entries and *max_bytes* of files, however many hosts are asked
for; the origin unused for longest is forgotten first, and its robots.txt will be fetched again.
Nothing survives a restart.
"""

from __future__ import annotations

import time
import zlib
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from webcrawl.robots.rules import MAX_BYTES, Rules, user_agent_token
from webcrawl.setting_values import positive, whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.settings import BaseSettings

# Defaults of the settings of the same names.
ROBOTS_CACHE_SIZE = 2**17  # origins; 0.5 kB each, with small files
ROBOTS_CACHE_BYTES = 64 * 2**20  # of compressed files
ROBOTS_EXPIRE_SECS = 24 * 3600.0  # RFC 9309, section 2.4: no longer than a day
ROBOTS_RETRY_SECS = 600.0  # after a failure, during which the whole host is disallowed

# Files kept parsed: those of the hosts in use. Parsed, a file is about 25 times as large, hence
# the second bound, on the sum of their sizes.
_PARSED: Final = 4096
_PARSED_BYTES: Final = 2 * 2**20


class _Entry(NamedTuple):
    """One origin: when it expires, the answer it was made from."""

    expires_at: float
    status: int | None
    packed: bytes  # compressed; empty where the status alone tells


class RobotsCache:
    """Rules by origin, packed; those used last are kept ready as well."""

    def __init__(
        self,
        *,
        user_agent: str,
        size: int,
        max_bytes: int,
        expire: float,
        retry: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """*user_agent* is a product token, see `user_agent_token`; the times are in seconds."""
        self.user_agent = user_agent
        self._size = size
        self._max_bytes = max_bytes
        self._expire = expire
        self._retry = retry
        self._clock = clock
        # Both in order of use, longest ago first.
        self._entries: dict[str, _Entry] = {}
        self._parsed: dict[str, Rules] = {}
        self._bytes = 0
        self._parsed_bytes = 0

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        """Build by ROBOTS_CACHE_SIZE, ROBOTS_CACHE_BYTES, ROBOTS_EXPIRE_SECS, ROBOTS_RETRY_SECS
        and the user agent of the settings. Raises FatalError with one sentence.
        """
        return cls(
            user_agent=user_agent_token(settings),
            size=whole(settings, "ROBOTS_CACHE_SIZE", ROBOTS_CACHE_SIZE, at_least=1),
            max_bytes=whole(settings, "ROBOTS_CACHE_BYTES", ROBOTS_CACHE_BYTES, at_least=MAX_BYTES),
            expire=positive(settings, "ROBOTS_EXPIRE_SECS", ROBOTS_EXPIRE_SECS),
            retry=positive(settings, "ROBOTS_RETRY_SECS", ROBOTS_RETRY_SECS),
        )

    def get(self, origin: str) -> Rules | None:
        """Return the rules of *origin* (``scheme://host:port``), None when they must be fetched.

        None for an origin that is unknown, was forgotten, or whose time has come: a day after an
        answer, ROBOTS_RETRY_SECS after a failure.
        """
        entry = self._entries.pop(origin, None)
        if entry is None:
            return None
        if entry.expires_at <= self._clock():
            self._bytes -= len(entry.packed)
            self._forget_parsed(origin)
            return None
        self._entries[origin] = entry
        rules = self._forget_parsed(origin)
        if rules is None:
            body = zlib.decompress(entry.packed) if entry.packed else b""
            rules = Rules.from_outcome(entry.status, body, user_agent=self.user_agent)
        self._remember_parsed(origin, rules)
        return rules

    def put(self, origin: str, status: int | None, body: bytes = b"") -> Rules:
        """Remember what fetching the robots.txt of *origin* gave, and return the rules.

        *status* and *body* are as for `Rules.from_outcome`: those of the last answer, the status
        None when there was none.
        """
        rules = Rules.from_outcome(status, body, user_agent=self.user_agent)
        said = status is not None and 200 <= status <= 299
        packed = zlib.compress(body[:MAX_BYTES], 6) if said and body else b""
        self._forget(origin)
        lasts = self._retry if rules.failed else self._expire
        self._entries[origin] = _Entry(self._clock() + lasts, status, packed)
        self._bytes += len(packed)
        while len(self._entries) > self._size or self._bytes > self._max_bytes:
            self._forget(next(iter(self._entries)))
        self._remember_parsed(origin, rules)
        return rules

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size_bytes(self) -> int:
        """The bytes of all files as they are kept; keys and bookkeeping take about 0.4 kB each."""
        return self._bytes

    def _forget(self, origin: str) -> None:
        entry = self._entries.pop(origin, None)
        if entry is not None:
            self._bytes -= len(entry.packed)
            self._forget_parsed(origin)

    def _remember_parsed(self, origin: str, rules: Rules) -> None:
        self._parsed[origin] = rules
        self._parsed_bytes += rules.size_bytes
        while len(self._parsed) > _PARSED or self._parsed_bytes > _PARSED_BYTES:
            self._forget_parsed(next(iter(self._parsed)))

    def _forget_parsed(self, origin: str) -> Rules | None:
        rules = self._parsed.pop(origin, None)
        if rules is not None:
            self._parsed_bytes -= rules.size_bytes
        return rules
