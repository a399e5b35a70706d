"""The gates at which URLs of traps wait: parked patterns, and hosts that outgrow their pages.

Asked by the Admission for each URL on its way. What they go by is in
``webcrawl.hosts.budgets.traps``. Requests that a spider made itself (they have an ``extra``) are no
links that anybody put in its way: they pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.frontier.admission import Gate
from webcrawl.urls import host_of

if TYPE_CHECKING:
    from webcrawl.frontier import Entry, Supply
    from webcrawl.hosts.budgets.traps import LearnedTraps, UrlSpace
    from webcrawl.hosts.budgets.traps.learned import Exceptions


class LearnedTrapGate(Gate):
    """URLs of a parked pattern wait until it is tried again, or somebody frees it."""

    name = "learned_trap"

    def __init__(self, traps: LearnedTraps) -> None:
        self._traps = traps

    def holds(self, entry: Entry) -> bool:
        """0.4 us for a host without patterns, 3 us for others."""
        return not entry.extra and self._traps.holds(entry.url)

    def news(self, supply: Supply) -> bool:  # noqa: ARG002  part of the protocol
        """A pattern's time is over, or the exceptions have changed."""
        return self._traps.news()

    @property
    def may_relent(self) -> bool:
        """A pattern's time is over."""
        return self._traps.may_relent

    def relent(self) -> None:
        """What is held is looked at now."""
        self._traps.relent()


class UrlSpaceGate(Gate):
    """URLs of a host wait that are more than its pages have earned, unless it is excepted. By its
    name, whatever its politeness key is."""

    name = "url_space"

    def __init__(self, space: UrlSpace, exceptions: Exceptions) -> None:
        self._space = space
        self._exceptions = exceptions
        self._heard_of = exceptions.reloads

    def holds(self, entry: Entry) -> bool:
        """0.8 us."""
        if entry.extra:
            return False
        host = host_of(entry.url)
        return self._space.holds(host) and not self._exceptions.rules.excepts(host)

    def stops(self, entry: Entry) -> bool:  # noqa: ARG002  part of the protocol
        """What was let in is on its host's account already."""
        return False

    def let_in(self, entry: Entry) -> None:
        """It waits, on its host's account."""
        if not entry.extra:
            self._space.let_in(host_of(entry.url))

    def let_out(self, entry: Entry) -> None:
        """Another gate has stopped it."""
        if not entry.extra:
            self._space.let_out(host_of(entry.url))

    def news(self, supply: Supply) -> bool:  # noqa: ARG002  part of the protocol
        """There is room again where there was none, or the exceptions have changed."""
        changed = self._exceptions.reloads != self._heard_of
        self._heard_of = self._exceptions.reloads
        return self._space.news() or changed

    @property
    def may_relent(self) -> bool:
        """All that waited has ended: there is room."""
        return self._space.may_relent

    def relent(self) -> None:
        """What is held is looked at now."""
        self._space.relent()
