"""Learned traps: counts duplicates by URL pattern, per host, and holds URLs of parked patterns.

``learn`` is called for each document that the content-seen test has judged. The package's docstring
has the invariants. A host that is not in memory is read from the store, 10 us.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from webcrawl.frontier.admission import Gate
from webcrawl.hosts.budgets.traps.pattern_record import (
    HostPatterns,
    PatternRecord,
    TrapCounts,
    decode,
    decode_counts,
    encode,
)
from webcrawl.urls import host_of
from webcrawl.urls.filters.pattern import is_broad, is_root, patterns_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from webcrawl.frontier import Entry, Supply
    from webcrawl.hosts.budgets.traps.trap_files import ExceptionRules, Notes
    from webcrawl.hosts.records.fact_cache import FactCache
    from webcrawl.storage.watched_rules import RulesFile

# Hosts whose patterns are held, decoded, and patterns kept for one host: 30 MB if all of them are
# of an unknown kind.
_HOSTS: Final = 4096
# Hosts that are known to have none: 0.1 kB each.
_UNKNOWN_HOSTS: Final = 1 << 16
_PATTERNS_PER_HOST: Final = 32
_PARKED_PER_HOST: Final = 24
_LONGEST_EXAMPLE: Final = 300
# The share of a pattern's recent pages whose content must have been seen before.
_MIN_SHARE: Final = 0.9
# Patterns into which a whole site may fit take so many times the evidence.
_BROAD: Final = 4
# The counts are halved when there are so many times as many pages as it takes: the recent ones
# decide, and a list that has come to its end after 1,000 pages is found out.
_RECENT: Final = 4
# Of the evidence that it took, the part that parks a pattern again which was tried again.
_TRIAL: Final = 10
_LEAST_TRIAL: Final = 3
# A day: a site may have been away, saying so to every request.
_RETRY_SECS: Final = 86_400.0
# A pattern is parked for at most 2**6 times the first period.
_MOST_DOUBLINGS: Final = 6
# Seconds between two looks at what is held, for each URL that is: a look takes some 6 us, so it is
# about a twentieth of the time, however many patterns there are and whenever they are due.
_LOOK_EVERY_PER_URL: Final = 1e-4

# The store's key for what is known of all hosts together; no host has such a name.
_ALL: Final = "*"


class LearnedTraps(Gate):
    """The patterns of all hosts, and the gate that holds the URLs of parked ones.

    *min_duplicates* pages with content seen before, nine in ten of the recent ones, park a pattern
    for *retry_secs*, then for twice as long, and so on. With 0 *min_duplicates* nothing is learned,
    and nothing held. Nor are requests that a spider made itself (they have an ``extra``).

    All methods raise what the store raises: OSError, CorruptRecordError.
    """

    name = "learned_trap"

    def __init__(
        self,
        *,
        store: FactCache[bytes],
        exceptions: RulesFile[ExceptionRules],
        notes: Notes,
        min_duplicates: int,
        retry_secs: float = _RETRY_SECS,
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._exceptions = exceptions
        self._notes = notes
        self._min_duplicates = min_duplicates
        self._retry_secs = retry_secs
        self._clock = clock
        # The least recently used comes first.
        self._hosts: OrderedDict[str, HostPatterns] = OrderedDict()
        self._unknown: set[str] = set()
        self._all = TrapCounts()
        self._heard_of = 0
        # When the first of the patterns that held a URL is to be tried again, epoch seconds; when
        # what is held was last looked at, and how many URLs were held since.
        self._due_at = float("inf")
        self._looked_at = 0.0
        self._held = 0

    def open(self) -> None:
        """Take up the state of the store. One look-up."""
        data = self._store.get(_ALL)
        if data is not None:
            self._all = decode_counts(data)

    def stats(self) -> dict[str, int]:
        """All but ``hosts`` are of the whole crawl."""
        return {
            "traps/parked": self._all.parked,
            "traps/learned": self._all.learned,
            "traps/tried_again": self._all.tried_again,
            "traps/hosts": len(self._hosts),
        }

    # --- learning

    def learn(self, url: str, *, seen: bool) -> None:
        """Note that the document of *url*, normalized, was *seen* under another URL before, or is
        new.

        0.4 us for new content on a host without duplicates, 5 to 20 us for others.
        """
        if not self._min_duplicates:
            return
        host = host_of(url)
        known = self._known(host)
        if known is None:
            if not seen:
                return
            self._unknown.discard(host)
            known = self._hold(host, HostPatterns())
        before = self._all.parked, self._all.tried_again
        patterns = patterns_of(url)
        excepted = self._exceptions.rules.excepts(host, *patterns)
        for pattern in patterns:
            if not pattern or is_root(pattern):
                continue
            record = known.find(pattern)
            if record is None:
                if not seen:
                    continue
                record = PatternRecord(pattern)
            else:
                known.patterns.remove(record)
                self._free_if_due(record)
            known.patterns.append(record)
            if not record.parked_until:
                record.seen += seen
                record.fresh += not seen
                self._judge(record, url, excepted=excepted)
        self._drop_surplus(known)
        if known.patterns:
            self._store.put(host, encode(known))
        if before != (self._all.parked, self._all.tried_again):
            self._store.put(_ALL, encode(self._all))

    def _judge(self, record: PatternRecord, url: str, *, excepted: bool) -> None:
        """Park *record* if it is time to, unless *url* is excepted."""
        enough = self._min_duplicates * (_BROAD if is_broad(record.pattern) else 1)
        if record.times:
            enough = max(_LEAST_TRIAL, enough // _TRIAL)
        pages = record.seen + record.fresh
        if not excepted and record.seen >= max(enough, _MIN_SHARE * pages):
            self._park(record, url)
        elif pages >= _RECENT * enough:
            record.seen //= 2
            record.fresh //= 2
            record.times = 0

    def _park(self, record: PatternRecord, url: str) -> None:
        now = self._clock()
        record.parked_until = now + self._retry_secs * 2**record.times
        record.times = min(record.times + 1, _MOST_DOUBLINGS)
        self._due_at = min(self._due_at, record.parked_until)
        self._all.parked += 1
        self._all.learned += 1
        self._notes.parked(
            record.pattern,
            seen=record.seen,
            of=record.seen + record.fresh,
            example=url[:_LONGEST_EXAMPLE],
            at=now,
        )

    def _free_if_due(self, record: PatternRecord) -> bool:
        """Whether *record* was parked, and is due now."""
        now = self._clock()
        if not 0 < record.parked_until <= now:
            return False
        record.parked_until = 0.0
        record.seen = record.fresh = 0
        self._all.parked -= 1
        self._all.tried_again += 1
        self._notes.tried(record.pattern, at=now)
        return True

    def _drop_surplus(self, known: HostPatterns) -> None:
        """Drop the records that have waited longest for a page: free patterns, or parked ones if
        they would leave no room to learn others."""
        while len(known.patterns) > _PATTERNS_PER_HOST:
            parked = [one for one in known.patterns if one.parked_until]
            full = len(parked) > _PARKED_PER_HOST
            last = next(one for one in known.patterns if full == bool(one.parked_until))
            known.patterns.remove(last)
            if full:
                # Nothing holds its URLs any more.
                self._all.parked -= 1
                self._due_at = 0.0

    # --- holding

    def holds(self, entry: Entry) -> bool:
        """Whether *entry* has a parked pattern and is not excepted. 0.4 us for a host without
        patterns, 4 us for others."""
        if not self._min_duplicates or entry.extra:
            return False
        host = host_of(entry.url)
        known = self._known(host)
        if known is None:
            return False
        while (record := self._parked(known, host, entry.url)) and self._free_if_due(record):
            self._store.put(host, encode(known))
            self._store.put(_ALL, encode(self._all))
        if record is None:
            return False
        self._due_at = min(self._due_at, record.parked_until)
        self._held += 1
        return True

    def _parked(self, known: HostPatterns, host: str, url: str) -> PatternRecord | None:
        """The record of a pattern of *url* that is parked or due, unless it is excepted."""
        patterns = patterns_of(url)
        for record in known.patterns:
            if record.parked_until and record.pattern in patterns:
                excepted = self._exceptions.rules.excepts(host, *patterns)
                return None if excepted else record
        return None

    def needs_pass(self, supply: Supply) -> bool:  # noqa: ARG002  part of the interface
        """Whether the exceptions have changed, or a pattern is due or was dropped. True once, and
        then when there is more.

        URLs that an earlier process has held are passed over once in any case.
        """
        changed = self._exceptions.reloads != self._heard_of
        self._heard_of = self._exceptions.reloads
        now = self._clock()
        if now >= self._due_at and now >= self._looked_at + _LOOK_EVERY_PER_URL * self._held:
            self.release_more()
            return True
        return changed

    @property
    def can_release_more(self) -> bool:
        """Whether ``needs_pass`` withholds news because the last pass was not long ago."""
        return self._clock() >= self._due_at

    def release_more(self) -> None:
        """Note that a pass over the held URLs begins; those that stay held set the time of the
        next."""
        self._due_at = float("inf")
        self._looked_at, self._held = self._clock(), 0

    def _known(self, host: str) -> HostPatterns | None:
        """The patterns of *host*, None if there are none."""
        hosts = self._hosts
        known = hosts.get(host)
        if known is not None:
            hosts.move_to_end(host)
            return known
        if host in self._unknown:
            return None
        data = self._store.get(host)
        if data is None:
            if len(self._unknown) >= _UNKNOWN_HOSTS:
                self._unknown.clear()
            self._unknown.add(host)
            return None
        return self._hold(host, decode(data))

    def _hold(self, host: str, known: HostPatterns) -> HostPatterns:
        self._hosts[host] = known
        if len(self._hosts) > _HOSTS:
            self._hosts.popitem(last=False)
        return known
