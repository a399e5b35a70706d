"""Aliases: other names of a site that is crawled under one name.

Hosts may serve the same site: ``www`` and the bare name, country names, staging copies, mirrors.
Two hosts are a pair if three of their first pages have the same path and title. One of them then is
on trial: of its URLs, one path in eight is fetched from both names, and the others are parked. If
three different documents are the same and none differs, it is an alias. Otherwise the trial ends,
at the latest when an hour is over or nothing else is left to fetch.

Documents are compared word by word, without the host's own name and that in a canonical link. About
four of the words may differ: a time, a counter, a token. The host that the other one names as its
redirect target or in a canonical link leads, else the one in the seed list, else the one of which
more pages were fetched.

The parked URLs of an alias are submitted with the name that leads, so no page is lost to which only
links of the other name lead. If the name that leads does not have a page, the URL of the other name
is fetched, too. Some paths are still fetched from both names, the fewer the more were the same. If
one differs, the alias ends and its URLs are released.

The alias also ends if robots.txt, an exclusion or an owner's statement allows one name less than
the other. After an exclusion or purge, its URLs stay parked until a command frees them.

Tables in HOSTS_POLICY_FILE name aliases as well (``alias``). These are not checked.

Invariants: memory is bounded, the hosts used least recently are forgotten first; paths to compare
are chosen by the job's secret seed; what the gate holds is held or released by the table as it is
now. Everything is saved with checkpoints; after ``kill -9`` a pair may have to be found again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import eq
from pathlib import Path
from typing import Literal

import msgspec
from scrapy.utils.datatypes import LocalCache

from webcrawl.clock import TimeSource
from webcrawl.configuration.decoding import Epoch, UndecodableError, msgpack_decoder
from webcrawl.frontier import Entry, Supply
from webcrawl.frontier.admission import Gate
from webcrawl.hosts.host_rules import HostRules
from webcrawl.hosts.robots.lookup import RobotsSearch, RobotsStatus
from webcrawl.items import Page
from webcrawl.seen.fingerprint import document_fingerprint, fingerprint
from webcrawl.urls import host_of

#: ``Entry.kind`` of a URL that is fetched in place of one with another name.
ALIAS = "alias"
#: ``Entry.kind`` of a URL that the name that leads does not have, so this name is tried.
RETRIED = "alias_retried"

# So many of the first pages of a host are looked at, and so many with different titles are a pair.
_FIRST = 32
_ALIKE = 3
# One path in so many is compared. An alias needs so many documents that are the same.
_ONE_IN = 8
_SAME = 3
# Once so many paths were the same, one in so many is compared, a multiple of the above.
_SURE = 8
_LATER_ONE_IN = 64
# So many pages of an alias may be ahead of the same ones of the host that leads.
_AHEAD = 4
# Samples that are remembered of a host, and of one that has another name.
_SAMPLES = 32
_COMPARED = 256
# The words of a document are spread over so many parts, of which three in four must be the same.
_PARTS = 16
# Aliases of a shard, 0.3 kB each.
_ALIASES = 1 << 12
# Longest time of a trial, and how long URLs wait for its result to be applied, in seconds.
_TRIAL_SECS = 3600.0
_RESULT_SECS = 30.0
# The sample of a page that a host does not have.
_MISSING = b""
# Header fields in which owners say what may be done with a page, see rights/vocabulary.py.
_STATING = frozenset({b"x-robots-tag", b"tdm-reservation", b"tdm-policy", b"content-usage"})
# The URL of a canonical link, whose attributes may be in any order.
_CANONICAL = re.compile(
    rb"<link(?=[^>]*\brel=[\"']?canonical\b)[^>]*\bhref=[\"']?(https?://[^\s\"'>]*)"
)
_HEAD_BYTES = 1 << 12
_TITLE_BYTES = 512
#: The reason why the host leads that a table in HOSTS_POLICY_FILE names.
BY_RULE = "HOSTS_POLICY_FILE"
_MISSING_STATUSES = frozenset({404, 410})
# Seconds between two checks of exclusions and other rules. Commands also release URLs at once.
_RULES_SECS = 5.0
_VERSION = 2

State = Literal["trial", "alias", "held", "ended"]
_IN_FORCE = frozenset({"trial", "alias"})


class Alias(msgspec.Struct):
    """Another name of the site of the host *leading*, which leads by *reason*.

    It is on trial since *since*, epoch seconds, or was. In the state "held" or "ended" it is not an
    alias any more because of *ended_by*; if "held", its URLs stay parked. *checked* counts the
    pages that were found the same on both, *saved* the URLs held since the last pass over all. URLs
    known only from other domains are left out, because some are held twice.
    """

    leading: str
    reason: str
    state: State = "alias"
    since: Epoch = 0.0
    ended_by: str = ""
    checked: int = 0
    saved: int = 0


class HostPages(msgspec.Struct):
    """Samples of a host's documents by the fingerprints of their paths, and what makes it lead.

    *documents* is their number in all. *rank* is that in the seed list, 0 if it is not there. The
    last host to which its pages redirect, or which their canonical links name, is *named*.
    """

    documents: int = 0
    rank: int = 0
    named: str = ""
    samples: dict[int, bytes] = {}

    def note_name(self, name: str, own: str) -> None:
        """Record that a page of the host *own* names the host *name*."""
        if name != own:
            self.named = name


class AliasSnapshot(msgspec.Struct, array_like=True, frozen=True):
    """Snapshot of the table."""

    version: int
    aliases: dict[str, Alias]
    hosts: dict[str, HostPages]


class Aliases(Gate):
    """Gate that holds URLs of aliases, and the table of a shard that finds them; a part of it.

    Without *learns* only aliases of *rules* are known. *submit* is called with the URL of the name
    that leads and the entry of the URL that is held.
    """

    name = "alias_of"
    is_last_resort = True

    def __init__(
        self,
        *,
        learns: bool,
        rules: HostRules,
        submit: Callable[[str, Entry], None],
        clock: TimeSource,
    ) -> None:
        self.learns = learns
        self._rules = rules
        self._submit = submit
        self._clock = clock
        #: What owners allow: robots.txt, and the files about data mining. Set when both are built.
        self.searches: Sequence[RobotsSearch] = ()
        self.aliases: dict[str, Alias] = {}
        self._hosts: LocalCache[str, HostPages] = LocalCache()
        # Host that leads -> its other names, also of aliases that have ended.
        self._names: dict[str, list[str]] = {}
        # (path and title) of the first pages -> a host that has them.
        self._places: LocalCache[int, str] = LocalCache()
        # Two hosts -> the titles of pages that both have at the same path.
        self._pairs: LocalCache[tuple[str, str], set[int]] = LocalCache()
        # Held entries whose URLs are still to be submitted with the name that leads.
        self._moved: list[tuple[str, Entry]] = []
        # When the next pass over the parked URLs is due.
        self._pass_at = math.inf
        self._rules_at = 0.0
        # The versions of the rules that the last pass went by.
        self._seen_rules = self._rules_version
        self._counters = dict.fromkeys(("aliases/found", "aliases/ended", "aliases/moved"), 0)

    # --- the gate

    def alias_of(self, host: str) -> Alias | None:
        """Return why URLs of *host* are parked; None if they are not."""
        leading = self._rules.host_policy(host).alias
        alias = self.aliases.get(host)
        if leading == host:
            return None
        if leading:
            is_known = alias is not None and (alias.reason, alias.leading) == (BY_RULE, leading)
            return alias if is_known else Alias(leading, BY_RULE)
        if alias is None or alias.state == "ended" or alias.reason == BY_RULE or not self.learns:
            return None
        return alias

    def tells_apart(self, entry: Entry) -> bool:
        """Return whether the host of *entry* is an alias: some of its URLs are fetched to check."""
        return self.alias_of(host_of(entry.url)) is not None

    @property
    def is_idle(self) -> bool:  # type: ignore[override]  # it changes
        """Return whether no alias is known."""
        return not (self.aliases or self._rules.policies.rules.tables)

    def must_wait(self, entry: Entry) -> bool:
        """Return whether *entry* is parked because its host is an alias."""
        if self.is_idle:
            return False
        host = host_of(entry.url)
        alias = self.alias_of(host)
        if alias is None or entry.extra or entry.kind == RETRIED:
            return False
        is_check = self._is_check(alias, host, entry.url)
        return not (is_check or self._rules.may_pass(self.name, entry.url))

    def note_held(self, entry: Entry, count: int) -> None:
        """Have the URL of *entry* fetched from the host that leads."""
        host = host_of(entry.url)
        alias = self.alias_of(host)
        if alias is not None:
            alias.saved += 0 if entry.foreign else count
            if host in self.aliases or len(self.aliases) < _ALIASES:
                self.aliases[host] = alias  # one of HOSTS_POLICY_FILE may be new
            if alias.state != "trial":
                self._move(host, alias, entry)

    def let_in(self, entry: Entry, count: int = 1) -> None:  # noqa: ARG002  # part of the interface
        """Have a URL that is fetched to check fetched from the host that leads as well."""
        if not self.aliases:
            return
        host = host_of(entry.url)
        alias = self.alias_of(host)
        if alias is not None and entry.kind != RETRIED and self._is_check(alias, host, entry.url):
            self._move(host, alias, entry)

    def _move(self, host: str, alias: Alias, entry: Entry) -> None:
        """Have the URL of *entry* fetched from the host that leads, if owners allow both alike."""
        url = _renamed(entry.url, host, alias.leading)
        if alias.reason != BY_RULE and alias.state in _IN_FORCE:
            why = self._difference(entry.url, url)
            if why:
                self._end(host, why)
        if alias.state in _IN_FORCE:
            self._moved.append((url, entry))

    def _is_check(self, alias: Alias, host: str, url: str) -> bool:
        """Return whether *url* of *host* is fetched to check *alias*."""
        if alias.state not in _IN_FORCE or alias.reason == BY_RULE:
            return False
        one_in = _ONE_IN if alias.checked < _SURE else _LATER_ONE_IN
        if _path_fingerprint(url, host) % one_in:
            return False
        pages = self._hosts.get(host)
        return pages is None or len(pages.samples) < alias.checked + _AHEAD

    def advance(self, supply: Supply) -> bool:  # noqa: ARG002  # part of the interface
        """Submit URLs with the names that lead; return whether some state has changed."""
        if self._moved:
            self._submit_moved()
        now = self._clock()
        if now >= self._rules_at:
            self._rules_at = now + _RULES_SECS
            self._check_rules(now)
        if now < self._pass_at:
            return False
        self._begin_pass()
        return True

    def _begin_pass(self) -> None:
        """Count held URLs from 0, because all are checked again."""
        self._pass_at = math.inf
        for name, alias in [*self.aliases.items()]:
            alias.saved = 0
            if alias.reason == BY_RULE:
                del self.aliases[name]

    def _check_rules(self, now: float) -> None:
        """End long trials and aliases of excluded hosts; note whether rules have changed."""
        for name, alias in [*self.aliases.items()]:
            exclusions = map(self._rules.exclusion_of, (name, alias.leading))
            if alias.state in _IN_FORCE and alias.reason != BY_RULE and any(exclusions):
                self._end(name, "exclusion")
            elif alias.state == "trial" and now > alias.since + _TRIAL_SECS:
                self._end(name, "time")
        rules = self._rules_version
        if rules != self._seen_rules:
            self._seen_rules = rules
            self._pass_at = now

    @property
    def _rules_version(self) -> tuple[object, ...]:
        """Objects that are replaced when rules for aliases change."""
        return self._rules.policies.rules, *self._rules.commanded(self.name)

    @property
    def can_release_more(self) -> bool:
        """Return whether some URLs are still to be submitted, or hosts are on trial."""
        is_trial = any(alias.state == "trial" for alias in self.aliases.values())
        return bool(self._moved) or is_trial or self._pass_at < math.inf

    def release_more(self) -> None:
        """End all trials, because nothing else is left to fetch."""
        for name, alias in [*self.aliases.items()]:
            if alias.state == "trial":
                self._end(name, "nothing else is left to fetch")
        self._begin_pass()

    def _submit_moved(self) -> None:
        moved = self._moved
        self._moved = []
        self._counters["aliases/moved"] += len(moved)
        for url, entry in moved:
            self._submit(url, entry)

    # --- what pages show

    def note_page(self, page: Page, entry: Entry, document: int) -> None:
        """Compare *page*, the first visit of *entry*, whose document has this fingerprint, or 0."""
        if not self.learns:
            return
        host = host_of(page.url)
        pages = self._pages_of(host, entry.rank)
        if page.redirect_target:
            pages.note_name(host_of(page.redirect_target), host)
            return
        if not document and page.status not in _MISSING_STATUSES:
            return

        pages.documents += bool(document)
        path = _path_fingerprint(page.url, host)
        is_first = bool(document) and pages.documents <= _FIRST
        # The first pages are left out: most hosts of a broad crawl have no others.
        is_sample = path % _ONE_IN == 0 and pages.documents >= _ALIKE
        is_sample = is_sample or entry.kind in {ALIAS, RETRIED}
        if is_sample and not (host in self.aliases or self.is_leading(page.url)):
            is_sample = len(pages.samples) < _SAMPLES
        if not (is_first or is_sample):
            return
        body, _ = page.shown
        names = [host]
        canonical = _canonical_host(body) if document else ""
        if canonical:
            pages.note_name(canonical, host)
            # The longest first, as one may be the end of the other.
            names = sorted({host, canonical}, key=len, reverse=True)
        if is_sample:
            if len(pages.samples) >= _COMPARED:
                del pages.samples[next(iter(pages.samples))]
            pages.samples[path] = _sample_of(page, body, names) if document else _MISSING
            self._compare(host)
            for name in self._names.get(host, ()):
                if self.aliases[name].state == "trial":
                    self._moved.append((_renamed(page.url, host, name), entry))
        if is_first:
            self._look_for_pair(host, path, _title_of(body, names))

    def _pages_of(self, host: str, rank: int) -> HostPages:
        pages = self._hosts.get(host)
        if pages is None:
            pages = self._hosts[host] = HostPages(rank=rank)
        self._hosts.move_to_end(host)
        return pages

    def _look_for_pair(self, host: str, path: int, title: int) -> None:
        """Look for a host with the first pages of *host*; one of them has *path* and *title*."""
        other = self._places.get(path ^ title)
        if other is None:
            self._places[path ^ title] = host
        elif other != host:
            pair = (min(host, other), max(host, other))
            titles = self._pairs.get(pair)
            if titles is None:
                titles = self._pairs[pair] = set()
            if title not in titles:
                titles.add(title)
                if len(titles) == _ALIKE:
                    self._begin_trial(host, other)

    def _begin_trial(self, host: str, other: str) -> None:
        """Begin to find out whether *host* and *other* are names of one site."""
        ours = self._hosts[host]
        theirs = self._hosts.get(other)
        if theirs is None:
            return
        leads, reason = _leads(host, ours, other, theirs)
        name, leading = (other, host) if leads else (host, other)
        chief = self.alias_of(leading)
        if chief is not None:
            leading = chief.leading
        is_known = name in self.aliases or self.alias_of(name) is not None
        if leading == name or is_known or len(self.aliases) >= _ALIASES:
            return
        if not self._difference(f"http://{name}/", f"http://{leading}/"):
            self.aliases[name] = Alias(leading, reason, "trial", since=self._clock())
            self._names.setdefault(leading, []).append(name)
            self._compare(name)

    def _compare(self, host: str) -> None:
        """Compare the samples of *host* with those of its other names; begin or end aliases."""
        for name, alias in self._in_force(host):
            if name not in self._hosts or alias.leading not in self._hosts:
                continue
            ours = self._hosts[name].samples
            theirs = self._hosts[alias.leading].samples
            common = ours.keys() & theirs.keys()
            if not all(_is_same(ours[path], theirs[path]) for path in common):
                self._end(name, "difference")
                continue
            alias.checked = len(common)
            documents = {ours[path] for path in common} - {_MISSING}
            has_enough = len(documents) >= _SAME and len(ours) <= len(common) + 1
            if alias.state == "trial" and has_enough:
                alias.state = "alias"
                self._counters["aliases/found"] += 1
                self._pass_at = min(self._pass_at, self._clock() + _RESULT_SECS)

    def _in_force(self, host: str) -> list[tuple[str, Alias]]:
        """Return the aliases in force in which *host* is the alias or leads."""
        names = [host, *self._names.get(host, ())]
        pairs = [(name, self.aliases[name]) for name in names if name in self.aliases]
        return [pair for pair in pairs if pair[1].state in _IN_FORCE and pair[1].reason != BY_RULE]

    def _end(self, name: str, why: str) -> None:
        """End the alias or trial *name*; after an exclusion the URLs of an alias stay parked."""
        alias = self.aliases[name]
        if alias.state == "trial":
            del self.aliases[name]
            self._names[alias.leading].remove(name)
        else:
            self._counters["aliases/ended"] += 1
        alias.state = "held" if why == "exclusion" else "ended"
        alias.ended_by = why
        self._pass_at = min(self._pass_at, self._clock() + _RESULT_SECS)

    def is_leading(self, url: str) -> bool:
        """Return whether the host of *url* leads, so that another name may have had its pages."""
        return bool(self._names.get(host_of(url)))

    # --- what owners and operators allow

    def _difference(self, url: str, other: str) -> str:
        """Return why *url* and *other* may not be fetched alike; "" if they may."""
        exclusions = [self._rules.exclusion_of(host_of(each), each) for each in (url, other)]
        if exclusions.count(None) == 1:
            return "exclusion"
        for search in self.searches:
            ours, theirs = (_allowed(search, each) for each in (url, other))
            if ours and theirs and ours != theirs:
                return search.path
        return ""

    def retried(self, entry: Entry) -> list[Entry]:
        """Return what to fetch because *entry*, of the name that leads, could not be fetched."""
        host = host_of(entry.url)
        names = [name for name, alias in self._in_force(host) if alias.leading == host]
        return [
            Entry(
                url=_renamed(entry.url, host, name),
                host=name,
                depth=entry.depth,
                via=entry.url,
                kind=RETRIED,
                discovered_at=self._clock(),
            )
            for name in names
        ]

    def stats(self) -> dict[str, int]:
        """Return the counters, and the number of aliases in force."""
        known = sum(alias.state == "alias" for alias in self.aliases.values())
        return {**self._counters, "aliases/known": known}

    # --- the part of the shard

    def resize(self, hosts: int) -> None:
        """Remember the first pages of at most *hosts* hosts, from the next page on."""
        self._hosts.limit = hosts
        self._places.limit = hosts * 8
        self._pairs.limit = hosts

    def open(self, saved: bytes | None) -> None:
        """Restore the table from *saved*; one that cannot be read is found again."""
        try:
            state = _decode(saved) if saved else None
        except UndecodableError:
            state = None
        if state is not None and state.version == _VERSION:
            self.aliases = state.aliases
            for name, alias in self.aliases.items():
                alias.saved = 0  # the pass with which a run begins counts again
                self._names.setdefault(alias.leading, []).append(name)
            self._hosts.update(state.hosts)

    def snapshot(self) -> bytes:
        """Return the table, encoded for ``open``."""
        return _encode(AliasSnapshot(_VERSION, self.aliases, dict(self._hosts)))

    def written(self) -> list[Path]:
        return []

    def forget(self) -> None:
        """Do nothing: there are no files."""

    def close(self) -> None:
        """Do nothing: there are no files."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgpack_decoder(AliasSnapshot)


def other_names(
    tables: Iterable[Mapping[str, Alias]], is_meant: Callable[[str], bool]
) -> list[str]:
    """Return the other names, in *tables*, of the sites of hosts for which *is_meant* is true."""
    pairs = [
        (name, alias.leading)
        for table in tables
        for name, alias in table.items()
        if alias.state not in {"trial", "ended"}
    ]
    leading = {pair[1] for pair in pairs if any(map(is_meant, pair))}
    names = {name for pair in pairs if pair[1] in leading for name in pair}
    return sorted(name for name in names if not is_meant(name))


def _leads(host: str, ours: HostPages, other: str, theirs: HostPages) -> tuple[bool, str]:
    """Return whether *host* leads, not *other*, and the reason."""
    is_named = theirs.named == host
    if is_named != (ours.named == other):
        return is_named, "redirect or canonical link"
    if bool(ours.rank) != bool(theirs.rank):
        return bool(ours.rank), "seeds"
    return ours.documents > theirs.documents, "more pages"


def _is_same(sample: bytes, other: bytes) -> bool:
    """Return whether two samples are of the same document, but for a few words."""
    same: int = sum(map(eq, sample, other))
    return 4 * same >= 3 * max(len(sample), len(other))


def _allowed(search: RobotsSearch, url: str) -> tuple[object, ...]:
    """Return what *search* knows is allowed of *url*; () if nothing."""
    finding = search.verdict_on(url)
    if finding.status not in {RobotsStatus.ALLOWED, RobotsStatus.DENIED}:
        return ()
    return finding.status, *(statement.text for statement in finding.statements)


def _path_fingerprint(url: str, host: str) -> int:
    """Return the fingerprint of *url* without scheme and *host*."""
    return fingerprint(url.partition("://")[2].removeprefix(host))


def _renamed(url: str, host: str, other: str) -> str:
    """Return *url* of *host* as a URL of the host *other*."""
    return url.replace(f"://{host}", f"://{other}", 1)


def _canonical_host(body: bytes) -> str:
    """Return the host that the canonical link in *body* names; "" if there is none."""
    # To search for a word is 20 times faster than an expression.
    word = body.find(b"canonical", 0, _HEAD_BYTES)
    if word < 0:
        return ""
    link = _CANONICAL.search(body, max(0, body.rfind(b"<link", 0, word)), body.find(b">", word) + 1)
    return "" if link is None else host_of(link[1].decode("ascii", "replace").lower())


def _title_of(body: bytes, names: Iterable[str]) -> int:
    """Return the fingerprint of the title of *body*, else of its first bytes, without *names*."""
    start = max(body.find(b"<title", 0, _HEAD_BYTES), 0)
    title = body[start : start + _TITLE_BYTES].partition(b"</title")[0]
    return document_fingerprint(_without(names, title)[:64])


def _sample_of(page: Page, body: bytes, names: Iterable[str]) -> bytes:
    """Return a digest of the words in *body* without *names*, of which some may be compared.

    What the owner says in the header about the use of the page is part of each word.
    """
    said = b"".join(value for field, value in page.headers if field.lower() in _STATING)
    words = _without(names, body).split()
    parts = (b" ".join([said, *words[part::_PARTS]]) for part in range(min(_PARTS, len(words))))
    return bytes(document_fingerprint(part) & 255 for part in parts)


def _without(names: Iterable[str], body: bytes) -> bytes:
    for name in names:
        body = body.replace(name.encode(), b"")
    return body
