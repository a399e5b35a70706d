"""URL space: limits the waiting URLs of a host by its pages of new content.

A host has *base* URLs for free, and _PER_PAGE more for each page of new content. Its account
counts the URLs that wait in the frontier, and those fetched without result: with content already
seen, or 404. URLs that do not fit are held, and admitted as pages come::

    waiting + fruitless < base + _PER_PAGE * fresh

So an ordinary site of any size is crawled completely, as long as one in _PER_PAGE of its URLs
leads to something new. A host that only names more URLs has *base* of them fetched. URLs that
robots.txt denies, that redirect, or that fail because of the host or the network do not count once
they have ended. When nothing else is left to fetch, a host with any room may have as many waiting
as it had of these so far. That saves a pass over the held URLs for each of them.

URLs that other sites have named (``Entry.foreign``) have an account of their own, of the same kind,
so that no page can use up the room of another site.

URLs found on pages that may be soft errors (hosts/politeness/walls.py) have an account of their
own, with _PER_PAGE URLs for free. There, everything that is not new content is fruitless.

``fresh`` and ``fruitless`` are in the host's record. Waiting URLs are counted in memory, for recent
hosts. After a restart, or a long time without the host, their count begins at 0, so the host gets a
little more than it should. URLs that a crash has admitted twice stop counting when nothing else is
left.

Invariant: a host whose account has room is never held for good; ``can_release_more`` reports it
when nothing else is left.
"""

from __future__ import annotations

import math
from collections import OrderedDict

import msgspec

from webcrawl.clock import TimeSource
from webcrawl.frontier import Entry, Supply
from webcrawl.frontier.admission import Gate
from webcrawl.hosts.budgets.traps.exception_rules import ExceptionRules
from webcrawl.hosts.records import HostRecords
from webcrawl.storage.watched_rules import RulesFile
from webcrawl.urls import host_of
from webcrawl.urls.host import host_and_origin

# Hosts whose counts are in memory, 0.3 kB each.
_HOSTS = 1 << 14
# Number of URLs that a page with new content makes room for.
_PER_PAGE = 10
# Seconds between two passes over the held URLs: a minimum, and more for each URL. As one takes
# about 5 us, passes use at most a twentieth of the time.
_PASS_SECS = 10.0
_PASS_SECS_PER_URL = 1e-4


class _Account(msgspec.Struct, gc=False):
    """The account of one host: how many URLs wait, and what has become of earlier ones.

    *fresh* and *fruitless* are as in the host's record.
    """

    waiting: int = 0
    fresh: int = 0
    fruitless: int = 0
    # URLs that ended as neither of the two.
    neutral: int = 0
    # As many URLs may wait although there is less room: *neutral* when nothing else was left.
    advance: int = 0


class UrlSpace(Gate):
    """The accounts of all hosts, and the gate that holds URLs for which they have no room.

    Accounts are by host name, even if the politeness key is not. Hosts of the *exceptions*, and
    requests that a spider made itself (they have an ``extra``), are always admitted. With *base* 0
    nothing is held. Raises what the records raise.
    """

    name = "url_space"
    stops_admitted = False

    def __init__(
        self,
        *,
        records: HostRecords,
        exceptions: RulesFile[ExceptionRules],
        base: int,
        clock: TimeSource,
    ) -> None:
        self._records = records
        self._exceptions = exceptions
        self._reloads_seen = exceptions.reloads
        self._base = base
        self._clock = clock
        # By the names that ``_name`` returns; least recently used first.
        self._accounts: OrderedDict[str, _Account] = OrderedDict()
        # Time of the last pass over the held URLs.
        self._passed_at = 0.0
        # Number of URLs held since then.
        self._held = 0
        # Whether one of them only waits for others of its host to end, which take its room now.
        self._held_for_room = False
        # Whether any URL has ended since the last pass, so that there may be room again.
        self._has_room = False

    def room(self, entry: Entry) -> float:
        """Return how many more URLs fit. 0.8 us; 10 us for a host that is not in memory."""
        if not self._base or entry.extra:
            return math.inf
        account = self._account(_name(entry))
        max_waiting = self._max_waiting(entry, account)
        if max_waiting > 0:
            max_waiting = max(max_waiting, account.advance) - account.waiting
        # Exempt URLs are admitted all the same. Tested last, because most URLs fit.
        if max_waiting < 1 and self._exceptions.rules.is_exempt(host_of(entry.url)):
            return math.inf
        return max_waiting

    def note_held(self, entry: Entry, count: int) -> None:
        """Record that *count* URLs of the group of *entry* wait for room."""
        self._held += count
        self._held_for_room |= self._max_waiting(entry, self._account(_name(entry))) > 0

    def _max_waiting(self, entry: Entry, account: _Account) -> int:
        """Return how many URLs may wait at a time; see the module's docstring."""
        # URLs with a negative score were found on pages that may be soft errors.
        base = self._base if entry.score >= 0 else _PER_PAGE
        return base + _PER_PAGE * account.fresh - account.fruitless

    def let_in(self, entry: Entry, count: int = 1) -> None:
        """Add *count* waiting URLs of the group of *entry* to their host's account."""
        if self._base and not entry.extra:
            self._account(_name(entry)).waiting += count

    def let_out(self, entry: Entry) -> None:
        """Remove a URL that has left the frontier without an answer from its host's account."""
        if self._base and not entry.extra:
            account = self._account(_name(entry))
            account.waiting = max(0, account.waiting - 1)
            self._has_room = True

    def note_end(self, entry: Entry, *, fresh: bool, fruitless: bool) -> None:
        """Count a URL that has ended: with new content, without result, or neither."""
        self.let_out(entry)
        if not self._base:
            return
        name = _name(entry)
        account = self._account(name)
        # On pages that may be soft errors, everything that is not new content is fruitless.
        fruitless |= entry.score < 0 and not fresh
        if not (fresh or fruitless):
            account.neutral += 1
        else:
            record = self._records.get(name)
            record.fresh += fresh
            record.fruitless += fruitless
            account.fresh = record.fresh
            account.fruitless = record.fruitless
            self._records.put(record)

    def advance(self, supply: Supply) -> bool:  # noqa: ARG002  part of the interface
        """Return whether the exceptions have changed or, at intervals, there is room again."""
        has_changed = self._exceptions.reloads != self._reloads_seen
        self._reloads_seen = self._exceptions.reloads
        interval = max(_PASS_SECS, _PASS_SECS_PER_URL * self._held)
        is_due = self._clock() >= self._passed_at + interval
        if self._held_for_room and self._has_room and is_due:
            self._note_pass()
            return True
        return has_changed

    @property
    def can_release_more(self) -> bool:
        """Whether some of the held URLs will find room when all waiting ones have ended."""
        return self._held_for_room

    def release_more(self) -> None:
        """Note that nothing waits in the frontier, and that a pass over the held URLs begins.

        This also stops counting URLs that a crash has admitted twice.
        """
        for account in self._accounts.values():
            account.waiting = 0
            account.advance = account.neutral
        self._note_pass()

    def _note_pass(self) -> None:
        self._passed_at = self._clock()
        self._held = 0
        self._held_for_room = False
        self._has_room = False

    def _account(self, host: str) -> _Account:
        """Return the account of *host*, a result of ``_name``; create it from the host's record."""
        account = self._accounts.get(host)
        if account is None:
            record = self._records.get(host)
            account = _Account(fresh=record.fresh, fruitless=record.fruitless)
            self._accounts[host] = account
            if len(self._accounts) > _HOSTS:
                self._accounts.popitem(last=False)
        else:
            self._accounts.move_to_end(host)
        return account


def _name(entry: Entry) -> str:
    """Return the name of the record with the account of *entry*: its host, or a marked one."""
    host, _ = host_and_origin(entry.url)
    if entry.foreign:
        return f"{host}!"
    return host if entry.score >= 0 else f"{host}?"
