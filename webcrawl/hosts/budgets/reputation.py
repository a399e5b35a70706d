"""Reputation budgets: a domain's share of the crawl grows with the number of domains linking to it.

IRLbot's defence against spam farms and endless sites (STAR and BEAST; Lee, Leonard, Wang and
Loguinov 2008). Anybody can make a million pages, and a million hosts in one registered domain; to
be linked from many other registered domains costs money. A domain's budget is

    base x (1 + domains that link to it, +1 if it is in the seed list) x 2^round

pages. What is beyond it is parked. When everything within the budgets has been fetched, but for
hosts that are far off (``Supply``) as they fail, are slow or want to be let alone, the next round
begins, and all budgets double. So a site of n pages is crawled after log2(n / base) rounds at the
latest, each of which gives all sites their turn first, and no site holds up the others; and what is
endless gets its share and no more. No round begins for the sake of URLs whose hosts are far off.
After the last round the rest stays parked, and a crawl that is run again with more rounds goes on.
Domains that have become better known are let in while hosts rest, without a round.

The counts are the domains' tallies (hosts/records/tallies.py). What was let in and not fetched,
such as URLs that robots.txt forbids, counts until a round, or a look at all that is parked, begins
when nothing waits and nothing is under way; so does what ``kill -9`` made to be let in twice. The
invariant: a budget never shrinks, so what was let in once need not be asked again.

Requests that a spider made itself (they have an ``extra``) pass: nobody put them in its way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from webcrawl.frontier import Supply
from webcrawl.frontier.admission import Gate
from webcrawl.urls.registered_domain import registered_domain

if TYPE_CHECKING:
    from collections.abc import Callable

    from webcrawl.frontier import Entry
    from webcrawl.hosts.records.tallies import Tallies, Tally

# Seconds between two looks at what is held for domains that have become better known, and for each
# URL that is held: a look takes some 5 us, so it is at most a twentieth of the time.
_LOOK_EVERY: Final = 1.0
_LOOK_EVERY_PER_URL: Final = 1e-4


class ReputationGate(Gate):
    """Holds what is beyond its domain's budget of *base* pages for each domain that links there.

    There are *rounds* doublings. *domains* must be open when it is asked. *is_far* says whether a
    host is far off, *clock* gives epoch seconds.
    """

    name = "reputation"

    def __init__(
        self,
        *,
        domains: Tallies,
        base: int,
        rounds: int,
        is_far: Callable[[str], bool],
        clock: Callable[[], float],
    ) -> None:
        self._domains = domains
        self._base = base
        self._rounds = rounds
        self._is_far = is_far
        self._clock = clock
        # URLs held since the last look, and whether one of them is of a host that is not far off.
        self._held = 0
        self._holds_near = False
        self._look()

    def holds(self, entry: Entry) -> bool:
        if entry.extra:
            return False
        tally = self._domains.find(registered_domain(entry.host))
        if self._used(tally) < self._budget(tally, entry):
            return False
        self._held += 1
        self._holds_near = self._holds_near or not self._is_far(entry.host)
        return True

    def stops(self, entry: Entry) -> bool:  # noqa: ARG002  # part of the interface
        """Never: it was let in."""
        return False

    def let_in(self, entry: Entry) -> None:
        if entry.extra:
            return
        domain = registered_domain(entry.host)
        tally = self._domains.find(domain)
        tally.admitted = self._used(tally) + 1
        tally.round = self._domains.counted_since
        self._domains.changed(domain)

    def let_out(self, entry: Entry) -> None:
        domain = registered_domain(entry.host)
        tally = self._domains.find(domain)
        if not entry.extra and self._is_counted(tally) and tally.admitted:
            tally.admitted -= 1
            self._domains.changed(domain)

    def _budget(self, tally: Tally, entry: Entry) -> int:
        linking = tally.in_degree + (1 if entry.rank else 0)
        return (self._base * (1 + linking)) << self._domains.current_round

    def _used(self, tally: Tally) -> int:
        """What was let in; after nothing was under way, what was fetched by then."""
        return max(tally.admitted, tally.pages) if self._is_counted(tally) else tally.pages

    def _is_counted(self, tally: Tally) -> bool:
        return tally.round == self._domains.counted_since

    def news(self, supply: Supply) -> bool:
        """Domains have become better known, or it is time for the next round."""
        pause = max(_LOOK_EVERY, _LOOK_EVERY_PER_URL * self._held)
        if supply >= Supply.SOON and self._has_grown and self._clock() >= self._looked_at + pause:
            self._look()
            return True
        if supply is Supply.LATER and self._has_rounds and self._holds_near:
            domains = self._domains
            domains.begin_round(domains.current_round + 1, counted_since=domains.counted_since)
            self._look()
            return True
        return False

    @property
    def may_relent(self) -> bool:
        """It has an end: rounds are numbered, and each bit of who links is set once."""
        unsettled = self._domains.counted_since < self._domains.current_round
        return self._has_rounds or self._has_grown or unsettled

    def relent(self) -> None:
        """Begin the next round, if there is one; what was not fetched is free again."""
        number = self._domains.current_round + self._has_rounds
        self._domains.begin_round(number, counted_since=number)
        self._look()

    @property
    def _has_rounds(self) -> bool:
        return self._domains.current_round < self._rounds

    @property
    def _has_grown(self) -> bool:
        """Whether budgets have grown by themselves since what is held was looked at."""
        return self._domains.linked != self._linked

    def _look(self) -> None:
        """What is held is going to be looked at."""
        self._looked_at = self._clock()
        self._linked = self._domains.linked
        self._held = 0
        self._holds_near = False

    def stats(self) -> dict[str, int]:
        return {
            "reputation/round": self._domains.current_round,
            "reputation/links": self._domains.linked,
        }
