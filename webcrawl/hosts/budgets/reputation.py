"""Reputation budgets: a domain's share of the crawl grows with the domains that link to it.

This is IRLbot's defence against spam farms and endless sites (STAR and BEAST; Lee, Leonard, Wang
and Loguinov 2008). A million pages cost nothing, nor do a million hosts in one registered domain;
links from many other registered domains cost money. A domain's budget is

    base x (1 + domains that link to it, +1 if it is in the seed list) x 2^round

pages. URLs beyond it are parked. The next round begins, and all budgets double, when everything
within the budgets has been fetched, except on hosts that are far off (``Supply``): failing, slow,
or with long rests. So a site of n pages is crawled after log2(n / base) rounds at the latest, each
of which serves all sites first. An endless site gets no more than its share. No round begins just
for URLs whose hosts are far off. After the last round the remaining URLs stay parked; a crawl that
is run again with more rounds continues. URLs of a domain with new links to it are admitted while
hosts rest, without a round.

The counts are those of the domains (hosts/records/host_counters.py). URLs that were admitted and
not fetched, such as those that robots.txt forbids, count as well. They stop counting when a round,
or a pass over the parked URLs, begins while nothing waits and nothing is being fetched. The same is
true of URLs admitted twice because of ``kill -9``. Invariant: a budget never shrinks, so an
admitted URL is not checked again.

URLs of origins that never answered while their host has on another one (hosts/politeness/delays.py)
do not use this budget: they have one of their own, equally large.

Requests that a spider made itself (they have an ``extra``) are always admitted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from webcrawl.configuration.values import whole
from webcrawl.frontier import Supply
from webcrawl.frontier.admission import Gate
from webcrawl.urls.registered_domain import registered_domain

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.settings import BaseSettings

    from webcrawl.clock import TimeSource
    from webcrawl.frontier import Entry
    from webcrawl.hosts.records.host_counters import HostCounter, HostCounters

# Seconds between two passes over the held URLs: for domains that got new links, and for hosts that
# are no longer far off. More for each held URL: as one takes about 5 us, passes use at most a
# twentieth of the time.
_PASS_SECS = 1.0
_FAR_PASS_SECS = 10.0
_PASS_SECS_PER_URL = 1e-4
# Budgets are doubled at most this often, which gives more pages than there are.
_MAX_ROUNDS = 40


@dataclass(slots=True)
class ReputationBudget:
    """Pages of a domain for each other domain that links to it, and how often they are doubled.

    May change during a crawl.
    """

    base: int
    rounds: int

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        """Read REPUTATION_BASE_PAGES and REPUTATION_ROUNDS. Raises FatalError for a bad value."""
        rounds = whole(settings, "REPUTATION_ROUNDS", at_least=0)
        return cls(whole(settings, "REPUTATION_BASE_PAGES", at_least=0), min(rounds, _MAX_ROUNDS))


class ReputationGate(Gate):
    """Gate of reputation: holds URLs beyond the budget of their domain.

    *domains* must be open before the first call. *is_far* tells whether a host is far off,
    *is_unproven* whether the origin of a URL never answered.
    """

    name = "reputation"

    def __init__(
        self,
        *,
        domains: HostCounters,
        budget: ReputationBudget,
        is_far: Callable[[str], bool],
        is_unproven: Callable[[str], bool],
        clock: TimeSource,
    ) -> None:
        self._domains = domains
        self._settings = budget
        self._is_far = is_far
        self._is_unproven = is_unproven
        self._clock = clock
        # URLs held since the last pass, and whether one of them has a host that is not far off.
        self._held = 0
        self._holds_near_host = False
        self._note_pass()

    def holds(self, entry: Entry) -> bool:
        if entry.extra:
            return False
        counter = self._domains.find(registered_domain(entry.host))
        budget = self._budget(counter, entry)
        # Most domains have room for either kind of origin.
        if max(counter.pages, counter.admitted, counter.unproven) < budget:
            return False
        if self._used(counter, self._is_unproven(entry.url)) < budget:
            return False
        self._held += 1
        self._holds_near_host = self._holds_near_host or not self._is_far(entry.host)
        return True

    def stops(self, entry: Entry) -> bool:  # noqa: ARG002  # part of the interface
        """Return False: a URL that was admitted stays so."""
        return False

    def let_in(self, entry: Entry) -> None:
        if entry.extra:
            return
        domain = registered_domain(entry.host)
        counter = self._domains.find(domain)
        unproven = self._is_unproven(entry.url)
        used = self._used(counter, unproven)
        if not self._is_counted(counter):
            counter.admitted = counter.unproven = 0
            counter.round = self._domains.counted_since
        if unproven:
            counter.unproven = used + 1
        else:
            counter.admitted = used + 1
        self._domains.put(domain, counter)

    def let_out(self, entry: Entry) -> None:
        domain = registered_domain(entry.host)
        counter = self._domains.find(domain)
        if entry.extra or not self._is_counted(counter):
            return
        if self._is_unproven(entry.url):
            counter.unproven = max(0, counter.unproven - 1)
        else:
            counter.admitted = max(0, counter.admitted - 1)
        self._domains.put(domain, counter)

    def _budget(self, counter: HostCounter, entry: Entry) -> int:
        linking = counter.in_degree + (1 if entry.rank else 0)
        return (self._settings.base * (1 + linking)) << self._domains.current_round

    def _used(self, counter: HostCounter, unproven: bool) -> int:
        """Return the number of URLs admitted, of *unproven* origins or of others.

        If nothing has been under way since they were counted, it is the number fetched by then.
        """
        if unproven:
            return counter.unproven if self._is_counted(counter) else 0
        return max(counter.admitted, counter.pages) if self._is_counted(counter) else counter.pages

    def _is_counted(self, counter: HostCounter) -> bool:
        return counter.round == self._domains.counted_since

    def needs_pass(self, supply: Supply) -> bool:
        """Return whether domains have new links to them, or the next round is due."""
        if self._domains.current_round != self._round:  # another shard has begun one
            self._note_pass()
            return True
        wait = max(_PASS_SECS, _PASS_SECS_PER_URL * self._held)
        if supply >= Supply.SOON and self._has_grown and self._clock() >= self._passed_at + wait:
            self._note_pass()
            return True
        if supply is not Supply.LATER or not self._has_rounds:
            return False
        if self._holds_near_host:
            domains = self._domains
            domains.begin_round(domains.current_round + 1, counted_since=domains.counted_since)
        elif not self._held or self._clock() < self._passed_at + max(_FAR_PASS_SECS, wait):
            return False
        self._note_pass()
        return True

    @property
    def can_release_more(self) -> bool:
        """Whether a round, new links or uncounted URLs may make room.

        It becomes False eventually: rounds are numbered, and each linking domain counts once.
        """
        unsettled = self._domains.counted_since < self._domains.current_round
        return self._has_rounds or self._has_grown or unsettled

    def release_more(self) -> None:
        """Begin the next round, if there is one; URLs that were not fetched no longer count."""
        number = self._domains.current_round + self._has_rounds
        self._domains.begin_round(number, counted_since=number)
        self._note_pass()

    @property
    def _has_rounds(self) -> bool:
        return self._domains.current_round < self._settings.rounds

    @property
    def _has_grown(self) -> bool:
        """Whether budgets have grown by new links since the last pass over the held URLs."""
        return self._domains.linked != self._linked

    def _note_pass(self) -> None:
        """Note that a pass over the held URLs begins."""
        self._passed_at = self._clock()
        self._linked = self._domains.linked
        self._round = self._domains.current_round
        self._held = 0
        self._holds_near_host = False

    def stats(self) -> dict[str, int]:
        return {
            "reputation/round": self._domains.current_round,
            "reputation/links": self._domains.linked,
        }
