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

An origin may never have responded although its host has on another origin
(hosts/politeness/delays.py). URLs of such origins do not use this budget, but a separate one of the
same size. No round starts for them while other URLs can be fetched.

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

# Minimum number of seconds between two passes over the held URLs: for domains with new links, and
# for hosts that are no longer far off. The third number is for each held URL. Checking a URL takes
# about 5 us, so passes use at most a twentieth of the time.
_PASS_SECS = 1.0
_FAR_PASS_SECS = 10.0
_PASS_SECS_PER_URL = 1e-4
# Budgets are doubled at most this often, which allows more pages than the web has.
_MAX_ROUNDS = 40


@dataclass(slots=True)
class ReputationBudget:
    """Pages that a domain gets for each domain that links to it, and how often they are doubled.

    It may be changed during a crawl.
    """

    base: int
    rounds: int

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        """Build from REPUTATION_BASE_PAGES and REPUTATION_ROUNDS; raise FatalError if invalid."""
        rounds = whole(settings, "REPUTATION_ROUNDS", at_least=0)
        return cls(whole(settings, "REPUTATION_BASE_PAGES", at_least=0), min(rounds, _MAX_ROUNDS))


class ReputationGate(Gate):
    """Gate that holds URLs that are over the reputation budget of their domain.

    *domains* must be open before the first call. *is_far* returns whether a host is far off,
    *is_unproven* whether the origin of a URL has never responded.
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
        # Number of URLs held since the last pass.
        self._held = 0
        # Whether one of them has a host that is not far off.
        self._holds_near_host = False
        self._start_pass()

    def holds(self, entry: Entry) -> bool:
        """Return whether the domain of *entry* has used up its budget."""
        if entry.extra:
            return False
        counter = self._domains.find(registered_domain(entry.host))
        budget = self._budget(counter, entry)
        # A quick test first: most domains are within both budgets.
        if max(counter.pages, counter.admitted, counter.unproven) < budget:
            return False
        is_unproven = self._is_unproven(entry.url)
        if self._used(counter, is_unproven) < budget:
            return False
        self._held += 1
        if not (self._holds_near_host or is_unproven or self._is_far(entry.host)):
            self._holds_near_host = True
        return True

    def stops(self, entry: Entry) -> bool:  # noqa: ARG002  # part of the interface
        """Return False, because a URL that was admitted is not held later."""
        return False

    def let_in(self, entry: Entry) -> None:
        """Count *entry*, which was admitted to the frontier."""
        if entry.extra:
            return
        domain = registered_domain(entry.host)
        counter = self._domains.find(domain)
        is_unproven = self._is_unproven(entry.url)
        used = self._used(counter, is_unproven)
        if not self._is_valid(counter):
            counter.admitted = counter.unproven = 0
            counter.round = self._domains.counted_since
        if is_unproven:
            counter.unproven = used + 1
        else:
            counter.admitted = used + 1
        self._domains.put(domain, counter)

    def let_out(self, entry: Entry) -> None:
        """Stop counting *entry*, which was admitted, but is parked or dropped now."""
        domain = registered_domain(entry.host)
        counter = self._domains.find(domain)
        if entry.extra or not self._is_valid(counter):
            return
        # It was counted as admitted if no origin of its host had responded at that time.
        if counter.unproven and self._is_unproven(entry.url):
            counter.unproven -= 1
        else:
            counter.admitted = max(0, counter.admitted - 1)
        self._domains.put(domain, counter)

    def _budget(self, counter: HostCounter, entry: Entry) -> int:
        """Return the present budget, in pages, of the domain of *entry*."""
        linking = counter.in_degree + (1 if entry.rank else 0)
        return (self._settings.base * (1 + linking)) << self._domains.current_round

    def _used(self, counter: HostCounter, is_unproven: bool) -> int:
        """Return how many URLs of a domain count towards its budget: those that were admitted.

        With *is_unproven*, count URLs of unproven origins, otherwise those of other origins. If the
        counts of admitted URLs are not valid any more, only the pages that were fetched count.
        """
        if is_unproven:
            return counter.unproven if self._is_valid(counter) else 0
        fetched = counter.pages - counter.parts
        return max(counter.admitted, fetched) if self._is_valid(counter) else fetched

    def _is_valid(self, counter: HostCounter) -> bool:
        """Return whether the admitted URLs in *counter* still count."""
        return counter.round == self._domains.counted_since

    def needs_pass(self, supply: Supply) -> bool:
        """Return whether the held URLs are checked again: after new links, or in a new round."""
        if self._domains.current_round != self._round:  # another shard has started a round
            self._start_pass()
            return True

        wait = max(_PASS_SECS, _PASS_SECS_PER_URL * self._held)
        if supply >= Supply.SOON and self._has_grown and self._clock() >= self._passed_at + wait:
            self._start_pass()
            return True

        if supply is not Supply.LATER or not self._has_rounds:
            return False
        if self._holds_near_host:
            domains = self._domains
            domains.begin_round(domains.current_round + 1, counted_since=domains.counted_since)
        elif not self._held or self._clock() < self._passed_at + max(_FAR_PASS_SECS, wait):
            return False
        self._start_pass()
        return True

    @property
    def can_release_more(self) -> bool:
        """Return whether more URLs may be admitted: after a round, new links or a new count.

        It becomes False eventually, because the number of rounds is limited and each linking domain
        counts once.
        """
        may_count_again = self._domains.counted_since < self._domains.current_round
        return self._has_rounds or self._has_grown or may_count_again

    def release_more(self) -> None:
        """Start the next round, if there is one; URLs that were not fetched no longer count."""
        number = self._domains.current_round + self._has_rounds
        self._domains.begin_round(number, counted_since=number)
        self._start_pass()

    @property
    def _has_rounds(self) -> bool:
        return self._domains.current_round < self._settings.rounds

    @property
    def _has_grown(self) -> bool:
        """Return whether new links have increased budgets since the last pass over held URLs."""
        return self._domains.linked != self._linked

    def _start_pass(self) -> None:
        """Record that a pass over the held URLs is starting."""
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
