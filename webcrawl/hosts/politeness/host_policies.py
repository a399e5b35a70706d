"""Host policies: special rules for single hosts, from HOSTS_POLICY_FILE.

The file is TOML, with a table for each host ("=www.example.org"), domain ("example.org": the name
and all names below it) or pattern ("shop-*.example.org"). Only the most specific table applies to a
host: that of the single host, or else the one whose name has the most characters other than ``*``.
The file is read again when it changes (storage/watched_rules.py); a version with an error changes
nothing.

Invariants: without ``owner_allows`` a table only makes the crawl slower; with it, it still never
allows what robots.txt denies. Headers, cookies and the proxy are only sent over the network
(net/http/request.py), and do not appear in Requests, WARC files, logs or messages. Headers, cookies
and the proxy's password are sent only to verified servers, unless the table says otherwise.
"""

from __future__ import annotations

import fnmatch
import logging
import re
import tomllib
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import msgspec

from webcrawl.clock import TimeSource, now
from webcrawl.configuration.secrets import masked_url
from webcrawl.configuration.values import words
from webcrawl.errors import FatalError
from webcrawl.frontier.admission import Gate
from webcrawl.frontier.delay_policy import REMEMBERED_TIMES, HostFacts
from webcrawl.frontier.host_parts import MAX_PARTS
from webcrawl.hosts.politeness.delays import profile_of
from webcrawl.hosts.politeness.exclusions import host_in
from webcrawl.net.http.request import NOTHING_ADDED, Additions, additions
from webcrawl.storage.watched_rules import RulesFile
from webcrawl.urls import host_of, origin_of
from webcrawl.urls.host import domain_among

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from webcrawl.frontier import DelayPolicy, Entry, Supply
    from webcrawl.hosts.host_rules import HostRules

logger = logging.getLogger(__name__)

SETTING = "HOSTS_POLICY_FILE"
_MAX_CHARACTERS = 8 << 20
_MAX_TABLES = 10_000
_MAX_PATTERNS = 100
_MAX_STARS = 3
_SHOWN_TABLES = 20
# Why URLs are withheld, and what to do.
_REMEDY = (
    "header fields, cookies and a proxy's password are sent only over TLS with a valid "
    "certificate; verify = false in the table (for the proxy: proxy_verify = false) sends them "
    "anyway"
)
_PATTERN = re.compile(r"[a-z0-9.*_-]{1,253}")
_CACHED_HOSTS = 1 << 14
_NO_TIMES = (0.0,) * REMEMBERED_TIMES


class HostPolicy(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, repr_omit_defaults=True
):
    """One table of the file: the rules for a host, domain or pattern.

    delay: minimum number of seconds between two contacts. With *owner_allows* it replaces the delay
        policy and Crawl-delay, but not Retry-After and back-off.
    parallel: number of parts of the host, each contacted by one request at a time
        (frontier/host_parts.py); needs *owner_allows*. Each part waits that many times longer, as
        delays apply to the host.
    budget: maximum number of pages, in place of BUDGET_HOST_PAGES; 0 for no limit.
    headers, cookies: sent with each request over http and https.
    verify: whether headers and cookies are sent only over TLS with a valid certificate. None means
        the same, with a warning at the start.
    proxy: URL of the proxy for http and https; the proxy looks up the host.
    proxy_verify: whether the proxy's password is sent only over TLS with a valid certificate.
    link_kinds: the kinds among LINK_KINDS that are followed.
    render: whether pages are rendered, "0", "auto" or "all", in place of RENDER; None for that.
    alias: the host with the same site, from which URLs are fetched instead; "" for none.
    owner_allows: whether the owner has agreed to more than the Crawl-delay of robots.txt allows.
    """

    delay: Annotated[float, msgspec.Meta(ge=0, le=86_400)] | None = None
    parallel: Annotated[int, msgspec.Meta(ge=1, le=MAX_PARTS)] = 1
    budget: Annotated[int, msgspec.Meta(ge=0)] | None = None
    headers: dict[str, str] = {}
    cookies: dict[str, str] = {}
    verify: bool | None = None
    proxy: str = ""
    proxy_verify: bool = True
    link_kinds: frozenset[str] | None = None
    render: Literal["0", "auto", "all"] | None = None
    alias: str = ""
    owner_allows: bool = False

    def __repr__(self) -> str:  # the fields may be secret
        return "HostPolicy(...)"


NO_POLICY = HostPolicy()


class TableLimits(NamedTuple):
    """Settings that limit the values in tables.

    *key* is POLITENESS_KEY, *kinds* are LINK_KINDS, *floor* is the shortest pause in seconds
    without ``owner_allows``, and *renders* says whether RENDER is not 0.
    """

    key: str
    kinds: frozenset[str]
    floor: float
    renders: bool


class HostTables:
    """The tables of one version of the file."""

    def __init__(self) -> None:
        # The lines read so far, and their size in characters.
        self._lines: list[str] = []
        self._size = 0
        # The tables, and what they add to requests, by their normalized names.
        self.tables: dict[str, HostPolicy] = {}
        self.added: dict[str, Additions] = {}
        # Origins that cannot be verified. The next version of the file tries them again.
        self._unverified: set[str] = set()
        # The names that are patterns: characters other than "*", pattern, name; longest first.
        self._patterns: list[tuple[int, re.Pattern[str], str]] = []
        #: Return the name of the table for a host; see ``_name_of``.
        self.name_of = lru_cache(_CACHED_HOSTS)(self._name_of)

    def __len__(self) -> int:
        """Return the number of tables."""
        return len(self.tables)

    def add(self, line: str) -> None:
        """Add the next *line* of the file; ``complete`` parses all lines together."""
        self._size += len(line) + 1
        if self._size <= _MAX_CHARACTERS:
            self._lines.append(line)

    def complete(self, limits: TableLimits) -> None:
        """Parse the lines, after the last one was added.

        Raises ValueError if they are not valid. Its message is the end of a sentence, and contains
        no value of a table.
        """
        if self._size > _MAX_CHARACTERS:
            raise ValueError("it has more than 8 MiB")

        try:
            tables = tomllib.loads("\n".join(self._lines))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            # Only the line number is shown, as the rest of the message may quote a secret.
            place = re.search(r"\(at [^()]*\)$", str(error))
            raise ValueError(f"it is not valid TOML {place[0] if place else ''}".rstrip()) from None

        self._lines.clear()
        if len(tables) > _MAX_TABLES:
            raise ValueError(f"it has more than {_MAX_TABLES} tables")
        for title, table in tables.items():
            try:
                self._add(title, table, limits)
            except (ValueError, msgspec.ValidationError) as error:
                raise ValueError(f"table {title[:80]!r}: {error}") from None
        for policy in self.tables.values():
            leading = self.tables.get(self.name_of(policy.alias), NO_POLICY).alias
            if leading not in {"", policy.alias}:
                raise ValueError(f"{policy.alias} is an alias itself, of {leading}")

    def _add(self, title: str, table: object, limits: TableLimits) -> None:
        """Check *table*, named *title* in the file, and add it. Raises ValueError if not valid."""
        subtables = {"headers", "cookies"}
        if not isinstance(table, dict) or any(
            isinstance(value, dict) and name not in subtables for name, value in table.items()
        ):
            raise ValueError('each table must begin with its name in quotes: ["example.org"]')

        policy = msgspec.convert(table, HostPolicy)
        delay = policy.delay
        floor = limits.floor
        if delay is not None and delay < floor and not policy.owner_allows:
            raise ValueError(
                f"a delay of {delay:g} s, below POLITENESS_MIN_DELAY ({floor:g} s), "
                "needs owner_allows = true"
            )
        if policy.parallel > 1 and not (policy.owner_allows and limits.key == "host"):
            raise ValueError('parallel needs owner_allows = true, and POLITENESS_KEY "host"')
        missing = ", ".join(sorted((policy.link_kinds or frozenset()) - limits.kinds))
        if missing:
            raise ValueError(f"link_kinds must be among LINK_KINDS, which does not have {missing}")

        if policy.alias and host_in(policy.alias) != policy.alias:
            raise ValueError(f"alias: {policy.alias!r} is not a host")

        added = additions(
            policy.headers,
            policy.cookies,
            policy.proxy,
            verify=policy.verify is not False,
            proxy_verify=policy.proxy_verify,
        )
        name = _normalized_name(title)
        if name in self.tables:
            raise ValueError("there is another table for the same hosts")
        if "*" in name:
            pattern = re.compile(fnmatch.translate(name))
            self._patterns.append((len(name.replace("*", "")), pattern, name))
            self._patterns.sort(key=lambda pattern: -pattern[0])
            if len(self._patterns) > _MAX_PATTERNS:
                raise ValueError(f"there are more than {_MAX_PATTERNS} patterns")
        self.tables[name] = policy
        self.added[name] = added

    def note_unverified(self, origin: str, error: Exception) -> None:
        """Withhold requests to *origin*, because of *error*, until the file changes."""
        if len(self._unverified) >= _CACHED_HOSTS:
            self._unverified.clear()
        self._unverified.add(origin)
        reason = masked_url(str(error))
        logger.warning("%s. URLs of %s wait until %s changes: %s", reason, origin, SETTING, _REMEDY)

    def is_withheld(self, url: str) -> bool:
        """Return whether *url* must not be requested, as credentials for it must not be sent."""
        added = self.added.get(self.name_of(host_of(url)), NOTHING_ADDED)
        if url.partition(":")[0] in added.withheld:
            return True
        # An origin may have failed with credentials of an earlier version of the file, although
        # this version sends none.
        needs_tls = added.withheld or (added.proxy is not None and added.proxy.is_verified)
        return bool(needs_tls) and origin_of(url) in self._unverified

    def _name_of(self, host: str) -> str:
        """Return the name of the most specific table for *host*, "" if there is none."""
        if f"={host}" in self.tables:
            return f"={host}"
        domain = domain_among(self.tables, host) or ""
        for size, pattern, name in self._patterns:
            if domain and size <= len(domain):
                break  # the domain is at least as specific as all remaining patterns
            if pattern.match(host):
                return name
        return domain


def policy_file(settings: BaseSettings, *, clock: TimeSource = now) -> RulesFile[HostTables]:
    """Return the tables of HOSTS_POLICY_FILE, to be checked against LINK_KINDS and POLITENESS_*.

    Raises FatalError for a bad value of these settings.
    """
    profile = profile_of(settings)
    kinds = frozenset(words(settings, "LINK_KINDS"))
    renders = str(settings["RENDER"]) != "0"
    path = settings.get(SETTING)
    limits = TableLimits(profile.key, kinds, profile.floor, renders)
    return RulesFile(
        path=path,
        setting=SETTING,
        no_effect="changes nothing",
        bad_line_is_fatal=True,
        make_rules=HostTables,
        clock=clock,
        complete_rules=partial(_complete, path=path, limits=limits),
    )


class CredentialGate(Gate):
    """Gate that holds URLs whose credentials must not be sent, until *file* changes."""

    name = "unverified"
    spares_visits = False

    def __init__(self, file: RulesFile[HostTables]) -> None:
        self._file = file
        self._tables = file.rules

    def must_wait(self, entry: Entry) -> bool:
        """Return whether the credentials for *entry* must not be sent."""
        return self._file.rules.is_withheld(entry.url)

    def advance(self, supply: Supply) -> bool:  # noqa: ARG002  # part of the interface
        """Have the held URLs checked again if the file has changed; return whether it has."""
        before = self._tables
        self._tables = self._file.rules
        return before is not self._tables


@dataclass(frozen=True, kw_only=True, eq=False)
class HostDelays:
    """Delay policy for single hosts: *policy*, changed by a host's delay and pace in *rules*.

    A pace is a factor for pauses. A pace below 1 makes no pause shorter than the floor of *policy*
    and Crawl-delay, or shorter than the delay that the owner has agreed to.
    """

    policy: DelayPolicy
    rules: HostRules

    def rest(self, host: str, facts: HostFacts) -> float:
        """Return how many seconds *host* rests, given *facts*; see ``DelayPolicy.rest``."""
        if not self.rules.has_delays:
            return self.policy.rest(facts)

        table = self.rules.host_policy(host)  # from HOSTS_POLICY_FILE
        pause_factor = self.rules.pace_of(host)  # set by a command; 1.0 without one
        if table is NO_POLICY and pause_factor == 1.0:
            return self.policy.rest(facts)

        # Retry-After and back-off are left out at first: the operator cannot change them.
        pause = self.policy.rest(facts._replace(retry_after=0.0, failures=0))
        if table.delay is not None:
            pause = table.delay if table.owner_allows else max(table.delay, pause)
        if pause_factor != 1.0:
            # A factor below 1 shortens the pause to the minimum. If it is shorter already, as an
            # owner may allow, it stays as it is.
            shortest = min(pause, self._min_pause(facts, table))
            pause = max(pause * pause_factor, shortest)
        # The host is contacted by this many parts, each with pauses of its own. Together they send
        # as many requests as one part with the pause so far.
        pause *= table.parallel
        if facts.failures or facts.retry_after:
            return max(pause, self.policy.rest(facts))
        return pause

    def _min_pause(self, facts: HostFacts, table: HostPolicy) -> float:
        """Return the shortest pause that a pace may lead to."""
        if table.owner_allows and table.delay is not None:
            return table.delay
        # The policy's floor: what it requires after downloads that took no time.
        lowest = self.policy.rest(HostFacts(_NO_TIMES, facts.crawl_delay))
        return max(table.delay or 0.0, lowest)


def _complete(rules: HostTables, *, path: Path | str | None, limits: TableLimits) -> None:
    """Parse *rules*, which were read from *path*.

    Warns if others can read the secrets in it, if these may be withheld, or if its ``render`` has
    no effect.
    """
    try:
        rules.complete(limits)
    except ValueError as error:
        raise FatalError(f"{SETTING} {path} cannot be used: {error}.") from error
    if path and any(rules.added.values()) and Path(path).stat().st_mode & 0o044:
        message = "%s %s has secrets, but others can read it: run chmod go-r %s"
        logger.warning(message, SETTING, path, path)
    # A table that sets "verify" is not named, as its author has decided about this. But a proxy
    # without TLS gets no password whatever "verify" says, so all URLs of the table are withheld.
    names = [
        name
        for name, added in rules.added.items()
        if "https" in added.withheld or (added.withheld and rules.tables[name].verify is None)
    ]
    if names:
        logger.warning("%s %s: %s: %s", SETTING, path, ", ".join(names[:_SHOWN_TABLES]), _REMEDY)
    if not limits.renders and any(one.render in {"auto", "all"} for one in rules.tables.values()):
        logger.warning(
            "%s %s: render has no effect, because RENDER is 0. Set RENDER=auto; to render no other "
            'hosts, add a table ["*"] with render = "0"', SETTING, path
        )  # fmt: skip


def _normalized_name(title: str) -> str:
    """Normalize *title*, the name of a table: a host, a domain, or a pattern with *.

    The result can be compared with the results of `host_of`; a leading "=" is kept. Raises
    ValueError if *title* is none of these.
    """
    if "*" in title:
        if not _PATTERN.fullmatch(title.lower()) or title.count("*") > _MAX_STARS:
            raise ValueError(
                f"a pattern may contain letters, digits, -, . and at most {_MAX_STARS} *"
            )
        return title.lower()

    host = host_in(title.removeprefix("="))
    if not host:
        raise ValueError("it is not a host, domain or pattern")
    return f"={host}" if title.startswith("=") else host
