"""Revisit policies: when a URL is visited again, by the history of its document.

Sources: Nutch's AdaptiveFetchSchedule; Cho and Garcia-Molina, "Estimating Frequency of Change"
(2003), for visits at irregular times by maximum likelihood.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

from webcrawl.configuration.values import positive
from webcrawl.revisit.history import CHANGED

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from webcrawl.revisit.history import History

# Nutch's nutch-default.xml, db.fetch.schedule.adaptive.inc_rate and .dec_rate.
_LONGER, _SHORTER = 0.4, 0.2


class RevisitPolicy(Protocol):
    """Interface of a policy. Called in the event loop for each URL that was answered."""

    def interval(self, history: History, found: str) -> float:
        """Seconds until the next visit of a URL with *history*, of which the last visit has *found*
        (revisit/history.py), empty for the first fetch. REVISIT_MIN_SECS and REVISIT_MAX_SECS
        bound it."""
        ...


class Uniform:
    """Visits all URLs as often, every *secs*."""

    def __init__(self, secs: float) -> None:
        self._secs = secs

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(positive(crawler.settings, "REVISIT_FIRST_SECS"))

    def interval(self, history: History, found: str) -> float:  # noqa: ARG002  # the interface
        return self._secs


class Adaptive(Uniform):
    """Nutch's: the interval is a fifth shorter after a change and two fifths longer after none."""

    def interval(self, history: History, found: str) -> float:
        if not history.interval:
            return self._secs
        return history.interval * (1 - _SHORTER if found == CHANGED else 1 + _LONGER)
