"""URL space: how many URLs a host may have waiting, by its pages of new content.

A host has *base* URLs for free, and *per_page* more for each page of new content. Its account has
the URLs that wait in the frontier, and those that were fetched in vain: with content already seen,
or 404. URLs that do not fit are held, and let in as pages come::

    waiting + fruitless < base + per_page * fresh

So an ordinary site of any size is crawled to its end, as long as one in *per_page* of its URLs
leads to something new; a host that only names more URLs has *base* of them fetched. URLs that
robots.txt denies, that redirect, or that fail because of the host or the network are on no account
once they have ended. When nothing else is left to fetch, a host with any room may have as many
waiting as it had of these so far: held URLs are not passed over for each of them.

``fresh`` and ``fruitless`` are in the host's record. Waiting URLs are counted in memory, for recent
hosts: after a restart, or a long time without the host, its count begins at 0, so it has a little
more than it should. URLs that a crash has let in twice are taken off when nothing else is left.
Invariant: a host whose account has room is never held for good; ``may_relent`` reports it when
nothing else is left.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

    from webcrawl.hosts.records import HostRecord

# Hosts whose counts are in memory, 0.3 kB each.
_HOSTS: Final = 1 << 14
# Seconds between two looks at what is held, and for each URL that is: a look takes some 5 us, so it
# is at most a twentieth of the time.
_LOOK_EVERY: Final = 10.0
_LOOK_EVERY_PER_URL: Final = 1e-4


class UrlSpaceRecords(Protocol):
    """Protocol of the store of the accounts: ``HostRecords``."""

    def get(self, host: str) -> HostRecord: ...

    def put(self, record: HostRecord) -> None: ...


class _Account(msgspec.Struct, gc=False):
    """The account of one host."""

    waiting: int = 0
    fresh: int = 0
    fruitless: int = 0
    # URLs that ended as neither; as many may wait since nothing else was left to fetch.
    neutral: int = 0
    advance: int = 0


class UrlSpace:
    """The accounts of all hosts. *base* 0: nothing is held. Raises what the records raise."""

    def __init__(
        self, *, records: UrlSpaceRecords, base: int, clock: Callable[[], float], per_page: int = 10
    ) -> None:
        self._records = records
        self._base = base
        self._per_page = per_page
        self._clock = clock
        self._accounts: OrderedDict[str, _Account] = OrderedDict()
        self._looked_at = 0.0
        # URLs held since the last look; whether there may be room for one of them some day, and
        # whether some of those that took its room have ended since.
        self._held = 0
        self._held_for_room = False
        self._has_room = False

    def holds(self, host: str) -> bool:
        """Whether there is no room for another URL of *host*. 0.5 us; 10 us for one that is not in
        memory."""
        if not self._base:
            return False
        account = self._account(host)
        room = self._base + self._per_page * account.fresh - account.fruitless
        if room > 0 and account.waiting < max(room, account.advance):
            return False
        self._held += 1
        self._held_for_room |= room > 0
        return True

    def let_in(self, host: str) -> None:
        """Count one more waiting URL."""
        if self._base:
            self._account(host).waiting += 1

    def let_out(self, host: str) -> None:
        """Uncount a URL that has left the frontier without an answer."""
        if self._base:
            account = self._account(host)
            account.waiting = max(0, account.waiting - 1)
            self._has_room = True

    def ended(self, host: str, *, fresh: bool, fruitless: bool) -> None:
        """Move a URL that has ended: with new content, in vain, or neither."""
        self.let_out(host)
        if not self._base:
            return
        account = self._account(host)
        if not (fresh or fruitless):
            account.neutral += 1
        else:
            record = self._records.get(host)
            account.fresh = record.fresh = record.fresh + fresh
            account.fruitless = record.fruitless = record.fruitless + fruitless
            self._records.put(record)

    def news(self) -> bool:
        """Whether the held URLs should be passed over again: now and then, if there is room."""
        if not (self._held_for_room and self._has_room):
            return False
        pause = max(_LOOK_EVERY, _LOOK_EVERY_PER_URL * self._held)
        if self._clock() < self._looked_at + pause:
            return False
        self._look()
        return True

    @property
    def may_relent(self) -> bool:
        """Whether some of the held URLs find room when all that waits has ended."""
        return self._held_for_room

    def relent(self) -> None:
        """Note that nothing waits in the frontier, and that a pass over the held URLs begins.

        It also takes off URLs that a crash has let in twice.
        """
        for account in self._accounts.values():
            account.waiting = 0
            account.advance = account.neutral
        self._look()

    def _look(self) -> None:
        self._looked_at = self._clock()
        self._held = 0
        self._held_for_room = self._has_room = False

    def _account(self, host: str) -> _Account:
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
