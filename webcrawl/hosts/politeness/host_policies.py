"""Host policies: what an operator has agreed on with the owners of some hosts, HOSTS_POLICY_FILE.

TOML, a table for each host ("=www.example.org"), domain ("example.org": the name and all below it)
or pattern ("shop-*.example.org"). The most specific table applies, and applies whole: that of the
host alone, or else the one whose name has most characters beside ``*``. Read again when it changes
(storage/watched_rules.py); a version with an error changes nothing.

Invariants: without ``owner_allows`` a table only makes the crawl slower; with it, it never allows
what robots.txt denies. Headers, cookies and the proxy go to the wire (net/http/request.py) and
nowhere else: not into Requests, WARC files, logs or messages.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import logging
import re
import tomllib
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec

from webcrawl.clock import TimeSource, now
from webcrawl.configuration.values import words
from webcrawl.errors import FatalError
from webcrawl.frontier.delay_policy import REMEMBERED_TIMES, HostFacts
from webcrawl.frontier.host_parts import MOST_PARTS
from webcrawl.hosts.politeness.delays import profile_of
from webcrawl.hosts.politeness.exclusions import host_in
from webcrawl.net.http.request import Additions, additions
from webcrawl.storage.watched_rules import RulesFile
from webcrawl.urls.host import domain_among

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from webcrawl.frontier import DelayPolicy
    from webcrawl.hosts.host_rules import HostRules

logger = logging.getLogger(__name__)

SETTING = "HOSTS_POLICY_FILE"
_MAX_CHARACTERS = 8 << 20
_MAX_TABLES = 10_000
_MAX_PATTERNS = 100
_MAX_STARS = 3
_PATTERN = re.compile(r"[a-z0-9.*_-]{1,253}")
_CACHED_HOSTS = 1 << 14
_NO_TIMES = (0.0,) * REMEMBERED_TIMES


class HostPolicy(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, repr_omit_defaults=True
):
    """One table. ``name`` is its own, "" where none applies.

    delay: seconds between two contacts, at least; with *owner_allows* in place of what the delay
        policy and Crawl-delay ask for, but not of Retry-After and back-off.
    parallel: parts of the host, each contacted by one request at a time (frontier/host_parts.py);
        needs *owner_allows*. Each waits so many times longer, as delays are the host's.
    budget: pages, in place of BUDGET_HOST_PAGES; 0 for no limit.
    headers, cookies: sent with each request by http and https.
    proxy: URL of the one that http and https go by; it looks up the host.
    link_kinds: those of LINK_KINDS that are followed.
    owner_allows: the owner has agreed to more than robots.txt asks for by Crawl-delay.
    """

    delay: Annotated[float, msgspec.Meta(ge=0, le=86_400)] | None = None
    parallel: Annotated[int, msgspec.Meta(ge=1, le=MOST_PARTS)] = 1
    budget: Annotated[int, msgspec.Meta(ge=0)] | None = None
    headers: dict[str, str] = {}
    cookies: dict[str, str] = {}
    proxy: str = ""
    link_kinds: frozenset[str] | None = None
    owner_allows: bool = False

    def __repr__(self) -> str:  # it has secrets
        return "HostPolicy(...)"


NO_POLICY = HostPolicy()


class TableLimits(NamedTuple):
    """Settings that bound what tables may say.

    POLITENESS_KEY, LINK_KINDS, and the shortest pause in seconds without ``owner_allows``.
    """

    key: str
    kinds: frozenset[str]
    floor: float


class HostTables:
    """The tables of one version of the file."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0
        self.tables: dict[str, HostPolicy] = {}
        self.added: dict[str, Additions] = {}
        self._patterns: list[tuple[int, re.Pattern[str], str]] = []
        self.name_of = lru_cache(_CACHED_HOSTS)(self._name_of)

    def __len__(self) -> int:
        """The number of tables."""
        return len(self.tables)

    def add(self, line: str) -> None:
        """Take the next line of the file, which ``complete`` reads whole."""
        self._size += len(line) + 1
        if self._size <= _MAX_CHARACTERS:
            self._lines.append(line)

    def complete(self, limits: TableLimits) -> None:
        """All lines are there: read them. ValueError, with the end of a sentence and without any
        value of a table, for what cannot be."""
        if self._size > _MAX_CHARACTERS:
            raise ValueError("it has more than 8 MiB")
        try:
            found = tomllib.loads("\n".join(self._lines))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            place = re.search(r"\(at [^()]*\)$", str(error))  # the rest may quote a secret
            raise ValueError(f"it is no TOML {place[0] if place else ''}".rstrip()) from None
        self._lines.clear()
        if len(found) > _MAX_TABLES:
            raise ValueError(f"it has more than {_MAX_TABLES} tables")
        for title, table in found.items():
            try:
                self._add(title, table, limits)
            except (ValueError, msgspec.ValidationError) as error:
                raise ValueError(f"table {title[:80]!r}: {error}") from None

    def _add(self, title: str, table: object, limits: TableLimits) -> None:
        deeper = {"headers", "cookies"}
        if not isinstance(table, dict) or any(
            isinstance(value, dict) and name not in deeper for name, value in table.items()
        ):
            raise ValueError('a table begins with its name in quotes, as ["example.org"]')
        policy = msgspec.convert(table, HostPolicy)
        delay, floor = policy.delay, limits.floor
        if delay is not None and delay < floor and not policy.owner_allows:
            raise ValueError(
                f"a delay of {delay:g} s is below the {floor:g} s of POLITENESS_MIN_DELAY, "
                "which needs owner_allows = true"
            )
        if policy.parallel > 1 and not (policy.owner_allows and limits.key == "host"):
            raise ValueError('parallel needs owner_allows = true, and POLITENESS_KEY "host"')
        missing = ", ".join(sorted((policy.link_kinds or frozenset()) - limits.kinds))
        if missing:
            raise ValueError(f"link_kinds may name those of LINK_KINDS, which lacks {missing}")
        added = additions(policy.headers, policy.cookies, policy.proxy)
        name = _name_in(title)
        if name in self.tables:
            raise ValueError("there is another one for the same hosts")
        if "*" in name:
            pattern = re.compile(fnmatch.translate(name))
            self._patterns.append((len(name.replace("*", "")), pattern, name))
            self._patterns.sort(key=lambda one: -one[0])
            if len(self._patterns) > _MAX_PATTERNS:
                raise ValueError(f"there are more than {_MAX_PATTERNS} patterns")
        self.tables[name] = policy
        self.added[name] = added

    def _name_of(self, host: str) -> str:
        if f"={host}" in self.tables:
            return f"={host}"
        domain = domain_among(self.tables, host) or ""
        for size, pattern, name in self._patterns:
            if domain and size <= len(domain):
                break
            if pattern.match(host):
                return name
        return domain


def policy_file(settings: BaseSettings, *, clock: TimeSource = now) -> RulesFile[HostTables]:
    """Return HOSTS_POLICY_FILE with its tables, by LINK_KINDS and the settings of politeness.
    FatalError for a bad value."""
    profile, kinds = profile_of(settings), frozenset(words(settings, "LINK_KINDS"))
    limits, path = TableLimits(profile.key, kinds, profile.floor), settings.get(SETTING)
    return RulesFile(
        path=path,
        setting=SETTING,
        idle="changes nothing",
        is_whole=True,
        make=HostTables,
        clock=clock,
        complete=partial(_complete, path=path, limits=limits),
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HostDelays:
    """The delay policy *policy* with the delays and paces of *rules*, which go by the host.

    A pace below 1 makes no pause shorter than the floor of *policy* and Crawl-delay, or than the
    delay that the owner has agreed to.
    """

    policy: DelayPolicy
    rules: HostRules

    def rest(self, host: str, facts: HostFacts) -> float:
        """As ``DelayPolicy.rest``, for *host*."""
        if not self.rules.has_delays:
            return self.policy.rest(facts)
        table, pace = self.rules.of(host), self.rules.pace_of(host)
        if table is NO_POLICY and pace == 1.0:
            return self.policy.rest(facts)
        pause = self.policy.rest(facts._replace(retry_after=0.0, failures=0))
        if table.delay is not None:
            pause = table.delay if table.owner_allows else max(table.delay, pause)
        if pace != 1.0:
            pause = max(pause * pace, min(pause, self._least(facts, table)))
        pause *= table.parallel
        if facts.failures or facts.retry_after:
            return max(pause, self.policy.rest(facts))
        return pause

    def _least(self, facts: HostFacts, table: HostPolicy) -> float:
        """The pause that no pace makes shorter."""
        if table.owner_allows and table.delay is not None:
            return table.delay
        least = self.policy.rest(HostFacts(_NO_TIMES, facts.crawl_delay))
        return max(table.delay or 0.0, least)


def _complete(rules: HostTables, *, path: Path | str | None, limits: TableLimits) -> None:
    try:
        rules.complete(limits)
    except ValueError as error:
        raise FatalError(f"{SETTING} {path} cannot be used: {error}.") from error
    if path and any(rules.added.values()) and Path(path).stat().st_mode & 0o044:
        logger.warning("%s %s has secrets, and others may read it: chmod go-r", SETTING, path)


def _name_in(title: str) -> str:
    """The name of a table in the form of `host_of`, with its "=". ValueError if it is none."""
    if "*" in title:
        if not _PATTERN.fullmatch(title.lower()) or title.count("*") > _MAX_STARS:
            raise ValueError(f"a pattern has letters, digits, -, . and at most {_MAX_STARS} *")
        return title.lower()
    host = host_in(title.removeprefix("="))
    if not host:
        raise ValueError("it is no host, domain or pattern")
    return f"={host}" if title.startswith("=") else host
