"""Reputation budgets: a domain's share of the crawl grows with the number of domains linking to it.

IRLbot's defence against spam farms and endless sites (STAR and BEAST; Lee, Leonard, Wang and
Loguinov 2008). Anybody can make a million pages, and a million hosts in one registered domain; to
be linked from many other registered domains costs money. A domain's budget is

    base x (1 + domains that link to it, +1 if it is in the seed list) x 2^round

pages. What is beyond it is parked. When everything within the budgets has been fetched, those that
have become better known meanwhile are let in; then the next round begins, and all budgets double.
So a site of n pages is crawled after log2(n / base) rounds at the latest, each of which gives all
sites their turn first; and what is endless gets its share and no more. After the last round the
rest stays parked, and a crawl that is run again with more rounds goes on.

The counts are the domains' tallies (hosts/tallies.py). What was let in and not fetched, such as
URLs that robots.txt forbids, counts until the round ends; so does what ``kill -9`` made to be let
in twice. The invariant: a budget never shrinks, so what was let in once need not be asked again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.admission import Gate
from webcrawl.urls.registered_domain import registered_domain

if TYPE_CHECKING:
    from webcrawl.frontier import Entry
    from webcrawl.hosts.tallies import Tallies, Tally


class ReputationGate(Gate):
    """Holds what is beyond its domain's budget of *base* pages for each domain that links there.

    There are *rounds* doublings. *domains* must be open when it is asked.
    """

    name = "reputation"

    def __init__(self, *, domains: Tallies, base: int, rounds: int) -> None:
        self._domains = domains
        self._base = base
        self._rounds = rounds
        # The links known between domains when what is held was last looked at for their sake.
        self._linked = 0
        self._is_recounted = False

    def holds(self, entry: Entry) -> bool:
        tally = self._domains.find(registered_domain(entry.host))
        return self._used(tally) >= self._budget(tally, entry)

    def stops(self, entry: Entry) -> bool:  # noqa: ARG002  # part of the interface
        """Never: it was let in."""
        return False

    def let_in(self, entry: Entry) -> None:
        domain = registered_domain(entry.host)
        tally = self._domains.find(domain)
        tally.admitted = self._used(tally) + 1
        tally.round = self._domains.current_round
        self._domains.changed(domain)

    def let_out(self, entry: Entry) -> None:
        domain = registered_domain(entry.host)
        tally = self._domains.find(domain)
        if tally.round == self._domains.current_round and tally.admitted:
            tally.admitted -= 1
            self._domains.changed(domain)

    def _budget(self, tally: Tally, entry: Entry) -> int:
        linking = tally.in_degree + (1 if entry.rank else 0)
        return (self._base * (1 + linking)) << self._domains.current_round

    def _used(self, tally: Tally) -> int:
        """What was let in; when a round begins, what was fetched, as nothing is under way then."""
        in_round = tally.round == self._domains.current_round
        return max(tally.admitted, tally.pages) if in_round else tally.pages

    @property
    def may_relent(self) -> bool:
        return self._domains.current_round < self._rounds or self._has_grown

    @property
    def _has_grown(self) -> bool:
        """Whether budgets have grown by themselves. Once a round is enough to look after that, but
        in the last one: nothing that is within its budget must be left. It has an end, too, as
        each bit is set once."""
        is_last = self._domains.current_round >= self._rounds
        return self._domains.linked != self._linked and (is_last or not self._is_recounted)

    def relent(self) -> None:
        """Look again where budgets have grown by themselves; then begin the next round."""
        self._is_recounted = self._has_grown
        if not self._is_recounted:
            self._domains.current_round += 1
        self._linked = self._domains.linked

    def stats(self) -> dict[str, int]:
        return {
            "reputation/round": self._domains.current_round,
            "reputation/links": self._domains.linked,
        }
