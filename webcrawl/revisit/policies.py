"""Revisit policies: when a URL is visited again, by the history of its document.

Sources: Nutch's AdaptiveFetchSchedule; Cho and Garcia-Molina, "Estimating Frequency of Change"
(2003), for visits at irregular times by maximum likelihood; Busa-Fekete and others, arXiv
2502.02430 (WWW 2025), for the value of a visit and the threshold that it has to reach.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol, Self

from webcrawl.configuration.values import positive
from webcrawl.revisit.history import CHANGED

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from webcrawl.revisit.history import History

# Nutch's nutch-default.xml, db.fetch.schedule.adaptive.inc_rate and .dec_rate.
_LONGER, _SHORTER = 0.4, 0.2
# Half a change in as many intervals of the beginning: what is taken to be known of a page before.
_PRIOR = 0.5
_MOST_HOSTS = 1 << 16
# By how much a host's threshold moves with a visit, and how many times *secs* an interval counts
# at most: with fewer a host would have fewer visits, as long ones are many.
_STEP = 0.05
_LONGEST = 5.0


class RevisitPolicy(Protocol):
    """Interface of a policy. Called in the event loop for each URL that was answered."""

    def interval(self, history: History, found: str, *, host: str, importance: float) -> float:
        """Seconds until the next visit of a URL of *host* with *history*, of which the last visit
        has *found* (revisit/history.py), empty for the first fetch. *importance* is above 0 and at
        most 1, by RANKS_FILE. REVISIT_MIN_SECS and REVISIT_MAX_SECS bound it."""
        ...


class Uniform:
    """Visits all URLs as often, every *secs*."""

    def __init__(self, secs: float) -> None:
        self._secs = secs

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """By REVISIT_FIRST_SECS; FatalError for one that cannot be."""
        return cls(positive(crawler.settings, "REVISIT_FIRST_SECS"))

    def interval(self, history: History, found: str, *, host: str, importance: float) -> float:  # noqa: ARG002  # the interface
        """See ``RevisitPolicy.interval``."""
        return self._secs


class Adaptive(Uniform):
    """Nutch's: the interval is a fifth shorter after a change and two fifths longer after none."""

    def interval(self, history: History, found: str, *, host: str, importance: float) -> float:  # noqa: ARG002  # the interface
        """See ``RevisitPolicy.interval``."""
        if not history.interval:
            return self._secs
        return history.interval * (1 - _SHORTER if found == CHANGED else 1 + _LONGER)


class Greedy(Uniform):
    """As many visits of a host as every *secs* of each page, made where they are worth most.

    A visit is worth what it adds to the time for which a page is fresh, by the page's importance,
    and is due when that comes to the host's threshold, which moves until the visits of the host are
    as many as they may be. Thresholds are in memory, and are found anew after a restart.
    """

    def __init__(self, secs: float) -> None:
        super().__init__(secs)
        self._thresholds: dict[str, float] = {}

    def interval(self, history: History, found: str, *, host: str, importance: float) -> float:  # noqa: ARG002  # the interface
        """See ``RevisitPolicy.interval``."""
        rate = change_rate(history, prior_secs=self._secs)
        threshold = self._thresholds.pop(host, None) or importance * worth(rate, self._secs)
        secs = _time_of(rate, threshold / importance, most=100 * self._secs)
        # The mean interval before a visit is the number of pages by that of visits in a second.
        self._thresholds[host] = threshold * math.exp(
            _STEP * (1 - min(secs / self._secs, _LONGEST))
        )
        if len(self._thresholds) > _MOST_HOSTS:
            del self._thresholds[next(iter(self._thresholds))]
        return secs


def change_rate(history: History, *, prior_secs: float) -> float:
    """The changes of a document in a second, most likely by *history*: exact for visits whose
    intervals before a change are equal. Of a document without visits one change in *prior_secs* is
    taken to be as likely as none."""
    changes = history.changes + _PRIOR
    changed_secs = history.changed_secs + _PRIOR * prior_secs
    same_secs = history.same_secs + _PRIOR * prior_secs
    return changes / changed_secs * math.log1p(changed_secs / same_secs)


def worth(rate: float, secs: float) -> float:
    """What a visit is worth, *secs* after the last one, of a page that changes *rate* times a
    second: seconds of freshness (2502.02430, section 4)."""
    expected = rate * secs
    return (1 - math.exp(-expected) * (1 + expected)) / rate


def _time_of(rate: float, threshold: float, *, most: float) -> float:
    """After how many seconds, at most *most*, a visit is worth *threshold*."""
    low, high = 0.0, most
    if worth(rate, most) <= threshold:
        return most
    for _ in range(40):
        middle = (low + high) / 2
        if worth(rate, middle) < threshold:
            low = middle
        else:
            high = middle
    return high
