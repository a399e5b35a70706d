"""Revisit policies: when a URL is visited again, given the history of its document.

Sources:

- Nutch's AdaptiveFetchSchedule;
- Cho and Garcia-Molina, "Estimating Frequency of Change" (2003), for maximum likelihood with visits
  at irregular times;
- Busa-Fekete and others, arXiv 2502.02430 (WWW 2025), for the value of a visit and the threshold
  that it has to reach.
"""

from __future__ import annotations

import math
from typing import Protocol, Self

from scrapy.crawler import Crawler
from scrapy.utils.datatypes import LocalCache

from webcrawl.configuration.values import positive_number
from webcrawl.revisit.history import CHANGED, History

# Nutch's nutch-default.xml, db.fetch.schedule.adaptive.inc_rate and .dec_rate.
_LONGER = 0.4
_SHORTER = 0.2
# What is assumed about a page before its first visit: half a change, in half of the first interval.
_PRIOR = 0.5
_MAX_HOSTS = 1 << 16
# How far a visit may move the threshold of its host. With smaller steps, hosts with few pages would
# get too few visits in their first months.
_STEP = 0.1
# The longest interval, as a multiple of *secs*. With a lower maximum, pages that never change would
# take visits that others need.
_LONGEST = 5.0


class RevisitPolicy(Protocol):
    """Interface of a revisit policy. Called in the event loop after each useful visit of a URL."""

    def interval(self, history: History, found: str, *, host: str, importance: float) -> float:
        """Return the seconds until the next visit of a URL of *host* with *history*.

        *found* is the result of the last visit (revisit/history.py), "" for the first fetch.
        *importance* is above 0 and at most 1, according to RANKS_FILE. REVISIT_MIN_SECS and
        REVISIT_MAX_SECS limit the result.
        """


class Uniform:
    """Policy that visits all URLs equally often, every *secs* seconds."""

    def __init__(self, secs: float) -> None:
        self._secs = secs

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build from REVISIT_FIRST_SECS. Raises FatalError for a bad value."""
        return cls(positive_number(crawler.settings, "REVISIT_FIRST_SECS"))

    def interval(self, history: History, found: str, *, host: str, importance: float) -> float:  # noqa: ARG002  # the interface
        """Return the constant interval; see ``RevisitPolicy.interval``."""
        return self._secs


class Adaptive(Uniform):
    """Nutch's policy: intervals get 20 % shorter after a change and 40 % longer otherwise."""

    def interval(self, history: History, found: str, *, host: str, importance: float) -> float:  # noqa: ARG002  # the interface
        """Return the last interval, shortened or lengthened; see ``RevisitPolicy.interval``."""
        if not history.interval:
            return self._secs
        return history.interval * (1 - _SHORTER if found == CHANGED else 1 + _LONGER)


class Greedy(Uniform):
    """Policy that visits pages where it is worth most: on average, each page once every *secs*.

    The value of a visit is the time for which it keeps the page fresh, times the page's importance.
    A visit is due when its value reaches the host's threshold. The threshold is adjusted until the
    host gets that number of visits on average. Thresholds are in memory only, and adjust again
    after a restart.

    A page of importance 1 that changes more often than once every *secs* is visited at least that
    often, although it is stale again soon. Otherwise its copy would grow old without limit.
    """

    def __init__(self, secs: float) -> None:
        super().__init__(secs)
        # The threshold of each host, the least recently used one first.
        self._thresholds: LocalCache[str, float] = LocalCache(_MAX_HOSTS)

    def interval(self, history: History, found: str, *, host: str, importance: float) -> float:  # noqa: ARG002  # the interface
        """Return the seconds until a visit is worth it; see ``RevisitPolicy.interval``."""
        rate = change_rate(history, prior_secs=self._secs)
        # With a new host's threshold, its first page is visited after exactly *secs*.
        threshold = self._thresholds.pop(host, None) or importance * visit_value(rate, self._secs)
        max_secs = _LONGEST * self._secs
        if rate * self._secs >= 1:
            max_secs = min(self._secs / importance, max_secs)
        secs = _secs_until_visit_value(rate, threshold / importance, max_secs=max_secs)
        # The mean interval before a visit is the number of pages divided by the visits per second.
        # So the host gets the right number of visits if the intervals are *self._secs* on average.
        # A longer one lowers the threshold, a shorter one raises it.
        self._thresholds[host] = threshold * math.exp(_STEP * (1 - secs / self._secs))
        return secs


def change_rate(history: History, *, prior_secs: float) -> float:
    """Return the most likely number of changes of a document per second, given *history*.

    The result is exact if all intervals before a change are equal. For a document without visits, a
    change within *prior_secs* is assumed to be as likely as none.

    If n intervals of c seconds had a change each, and s seconds in all had none, the likelihood of
    a rate r is (1 - exp(-r c))^n exp(-r s). It is largest for exp(r c) - 1 = n c / s. Here n c is
    ``changed_secs`` and s is ``same_secs``.
    """
    changes = history.changes + _PRIOR
    changed_secs = history.changed_secs + _PRIOR * prior_secs
    same_secs = history.same_secs + _PRIOR * prior_secs
    return changes / changed_secs * math.log1p(changed_secs / same_secs)


def visit_value(rate: float, secs: float) -> float:
    """Return the value of a visit *secs* after the last one, in seconds of freshness.

    *rate* is the page's number of changes per second (arXiv 2502.02430, section 4).
    """
    expected_changes = rate * secs
    return (1 - math.exp(-expected_changes) * (1 + expected_changes)) / rate


def _secs_until_visit_value(rate: float, threshold: float, *, max_secs: float) -> float:
    """Return the seconds after which a visit has the value *threshold*, at most *max_secs*.

    *rate* is the page's number of changes per second.
    """
    if visit_value(rate, max_secs) <= threshold:
        return max_secs

    # The value grows with time, so the answer is found by bisection.
    low = 0.0
    high = max_secs
    for _ in range(40):
        middle = (low + high) / 2
        if visit_value(rate, middle) < threshold:
            low = middle
        else:
            high = middle
    return high
