"""Reputation budgets: a domain's share of the crawl grows with the domains that link to it.

This is IRLbot's defence against spam farms and endless sites (STAR and BEAST; Lee, Leonard, Wang
and Loguinov 2008). A million pages cost their owner nothing, nor do a million hosts in one
registered domain; links from many other registered domains cost money. A domain's budget is

    base x (1 + domains that link to it, +1 if it is in the seed list) x 2^round

pages. URLs over the budget are parked. When everything within the budgets has been fetched, the
next round starts, and all budgets double. This does not wait for hosts that are far off
(``Supply``): failing, slow, or with long pauses. So a site of n pages is crawled after
log2(n / base) rounds at the latest, each of which serves all sites first. An endless site gets no
more than its share. No round starts only for URLs whose hosts are far off. After the last round the
remaining URLs stay parked; if the crawl is run again with more rounds, it continues. When a domain
gets new links, its parked URLs are admitted while hosts pause, without a new round.

The counts are kept per domain (hosts/records/host_counters.py). URLs that were admitted but not
fetched, such as those that robots.txt forbids, also count. They stop counting when a round, or a
pass over the parked URLs, starts while no URL waits or is being fetched. The same is true of URLs
that were admitted twice because of ``kill -9``. URLs of an origin that is given up stop counting
when they end. Invariant: a budget never shrinks, so an admitted URL is not checked again.

URLs that other domains have named (``Entry.foreign``) do not use this budget, but one of an eighth
of its size, so that nobody can use up the budget of another site.

An origin may never have responded although its host has on another origin
(hosts/politeness/delays.py). URLs of such origins do not use this budget, but a separate one of the
same size. No round starts for them while other URLs can be fetched.

Requests that a spider made itself (they have an ``extra``) are always admitted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from scrapy.settings import BaseSettings

from webcrawl.clock import TimeSource
from webcrawl.configuration.values import whole_number
from webcrawl.frontier import Entry, Supply
from webcrawl.frontier.admission import Gate
from webcrawl.hosts.records.host_counters import HostCounter, HostCounters
from webcrawl.urls.registered_domain import registered_domain

# Minimum number of seconds between two passes over the held URLs: for domains with new links, and
# for hosts that are no longer far off. The third number is for each held URL. Checking a URL takes
# about 5 us, so passes use at most a twentieth of the time.
_PASS_SECS = 1.0
_FAR_PASS_SECS = 10.0
_PASS_SECS_PER_URL = 1e-4
# Budgets are doubled at most this often, which allows more pages than the web has.
_MAX_ROUNDS = 40
# The budget of foreign URLs is this part of the other one.
_FOREIGN_SHARE = 0.125


@dataclass
class ReputationBudget:
    """Pages that a domain gets for each domain that links to it, and how often they are doubled.

    It may be changed during a crawl.
    """

    base: int
    rounds: int

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        """Build from REPUTATION_BASE_PAGES and REPUTATION_ROUNDS; raise FatalError if invalid."""
        rounds = whole_number(settings, "REPUTATION_ROUNDS", at_least=0)
        base_pages = whole_number(settings, "REPUTATION_BASE_PAGES", at_least=0)
        return cls(base_pages, min(rounds, _MAX_ROUNDS))


@dataclass(kw_only=True, eq=False)
class ReputationGate(Gate):
    """Gate that holds URLs that are over the reputation budget of their domain.

    *domains* must be open before the first call. *is_far* returns whether a host is far off,
    *is_unproven* whether the origin of a URL has never responded.
    """

    name = "reputation"
    stops_admitted = False

    domains: HostCounters
    budget: ReputationBudget
    is_far: Callable[[str], bool]
    is_unproven: Callable[[str], bool]
    clock: TimeSource

    def __post_init__(self) -> None:
        # Number of URLs held since the last pass.
        self._held = 0
        # Whether one of them has a host that is not far off, and an origin that is not unproven.
        self._holds_near_host = False
        # Sets the time of the last pass, and the links and the round that it took into account.
        self._start_pass()

    def room(self, entry: Entry) -> float:
        """Return how many more pages the domain of *entry* has in its present budget."""
        if entry.extra:
            return math.inf
        counter = self._counter_of(registered_domain(entry.host))
        linking = counter.in_degree + (1 if entry.rank else 0)
        budget = (self.budget.base * (1 + linking)) << self.domains.current_round
        if entry.foreign:
            return math.ceil(budget * _FOREIGN_SHARE) - counter.foreign
        return budget - self._budget_used(counter, self.is_unproven(entry.url))

    def note_held(self, entry: Entry, count: int) -> None:
        """Record that *count* URLs of the group of *entry* wait for a new round or new links."""
        self._held += count
        if not (self._holds_near_host or self.is_unproven(entry.url) or self.is_far(entry.host)):
            self._holds_near_host = True

    def let_in(self, entry: Entry, count: int = 1) -> None:
        """Count *count* URLs of the group of *entry*, which were admitted to the frontier."""
        if entry.extra:
            return
        domain = registered_domain(entry.host)
        counter = self._counter_of(domain)
        is_unproven = self.is_unproven(entry.url)
        used = self._budget_used(counter, is_unproven)
        if entry.foreign:
            counter.foreign += count
        elif is_unproven:
            counter.unproven = used + count
        else:
            counter.admitted = used + count
        self.domains.put(domain, counter)

    def let_out(self, entry: Entry) -> None:
        """Stop counting *entry*, which was admitted, but is parked or dropped now."""
        if entry.extra:
            return
        domain = registered_domain(entry.host)
        counter = self._counter_of(domain)
        # It was counted as admitted if no origin of its host had responded at that time.
        if entry.foreign:
            counter.foreign = max(0, counter.foreign - 1)
        elif counter.unproven and self.is_unproven(entry.url):
            counter.unproven -= 1
        else:
            counter.admitted = max(0, counter.admitted - 1)
        self.domains.put(domain, counter)

    def _budget_used(self, counter: HostCounter, is_unproven: bool) -> int:
        """Return how many URLs of a domain count towards its budget: those that were admitted.

        With *is_unproven*, count URLs of unproven origins, otherwise those of other origins. Pages
        that were fetched before counting began count, too.
        """
        return (
            counter.unproven
            if is_unproven
            else max(counter.admitted, counter.pages - counter.parts)
        )

    def _counter_of(self, domain: str) -> HostCounter:
        """Return the counter of *domain*, without admitted URLs that do not count any more."""
        counter = self.domains.find(domain)
        if counter.round != self.domains.counted_since:
            # Need not be stored: it would be done again.
            counter.admitted = 0
            counter.unproven = 0
            counter.foreign = 0
            counter.round = self.domains.counted_since
        return counter

    def advance(self, supply: Supply) -> bool:
        """Have the held URLs checked again after new links or in a new round; return whether."""
        if self.domains.current_round != self._round:  # another shard has started a round
            self._start_pass()
            return True

        wait = max(_PASS_SECS, _PASS_SECS_PER_URL * self._held)
        if supply >= Supply.SOON and self._has_grown and self.clock() >= self._passed_at + wait:
            self._start_pass()
            return True

        # Only now is everything within the budgets fetched, except on hosts that are far off.
        if supply is not Supply.LATER or not self._has_rounds:
            return False
        if self._holds_near_host:
            domains = self.domains
            domains.begin_round(domains.current_round + 1, counted_since=domains.counted_since)
        # No round starts for hosts that are far off, but check whether they still are.
        elif not self._held or self.clock() < self._passed_at + max(_FAR_PASS_SECS, wait):
            return False
        self._start_pass()
        return True

    @property
    def can_release_more(self) -> bool:
        """Return whether more URLs may be admitted: after a round, new links or a new count.

        It becomes False eventually, because the number of rounds is limited and each linking domain
        counts once.
        """
        may_count_again = self.domains.counted_since < self.domains.current_round
        return self._has_rounds or self._has_grown or may_count_again

    def release_more(self) -> None:
        """Start the next round, if there is one; URLs that were not fetched no longer count."""
        number = self.domains.current_round + (1 if self._has_rounds else 0)
        self.domains.begin_round(number, counted_since=number)
        self._start_pass()

    @property
    def _has_rounds(self) -> bool:
        return self.domains.current_round < self.budget.rounds

    @property
    def _has_grown(self) -> bool:
        """Return whether new links have increased budgets since the last pass over held URLs."""
        return self.domains.linked != self._linked

    def _start_pass(self) -> None:
        """Record that a pass over the held URLs is starting."""
        self._passed_at = self.clock()
        self._linked = self.domains.linked
        self._round = self.domains.current_round
        self._held = 0
        self._holds_near_host = False

    def stats(self) -> dict[str, int]:
        return {
            "reputation/round": self.domains.current_round,
            "reputation/links": self.domains.linked,
        }
