"""Visits: schedules the next visit of a finished URL, and updates the history in its entry.

A fetch that shows nothing about the document (a challenge, a soft error, an outage) does not count
as a visit. The history is kept, and the URL is due again after a quarter of its interval, doubled
each time. URLs that have moved or are gone are visited less and less: their interval doubles with
each visit. So does that of URLs that robots.txt has denied for a day.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from msgspec.structs import replace
from scrapy.crawler import Crawler

from webcrawl.configuration.values import number, part_of
from webcrawl.errors import FatalError
from webcrawl.frontier import NO_URLS, Entry
from webcrawl.revisit.history import CHANGED, FAILED, GONE, MOVED, History, encode_history
from webcrawl.revisit.policies import RevisitPolicy
from webcrawl.signals import UNCHANGED

_DAY = 86_400
# Limits of intervals in seconds: the frontier stores only the hour of a visit (due.py), and cannot
# store times beyond the year 9892.
_SHORTEST = 3600.0
_LONGEST = 100 * 365.0 * _DAY
_MAX_DOUBLINGS = 10
_MAX_VISITS = 64
_SITEMAP = "sitemap"
# Factor by which the interval of a sitemap grows while it has not changed.
_LONGER = 1.4
# Outcomes after which a URL is never visited again.
_FINAL_OUTCOMES = (
    *("excluded", "address_forbidden", "bad_url", "poison", "replaced", "unreadable"),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Visits:
    """Schedules the next visits of URLs.

    policy: chooses the intervals.
    first: interval of a URL that never had a useful response, in seconds.
    shortest, longest: limits of all intervals, in seconds.
    importance: returns the importance of a URL, for the policy.
    """

    policy: RevisitPolicy
    first: float
    shortest: float
    longest: float
    importance: Callable[[str], float] = lambda _: 1.0

    @classmethod
    def from_crawler(
        cls, crawler: Crawler, *, importance: Callable[[str], float] = lambda _: 1.0
    ) -> Self:
        """Build from the REVISIT_* settings. Raises FatalError for a bad value."""
        settings = crawler.settings
        name = "REVISIT_POLICY"
        first, shortest, longest = (
            number(settings, f"REVISIT_{limit}_SECS", at_least=_SHORTEST)
            for limit in ("FIRST", "MIN", "MAX")
        )
        if shortest > longest:
            raise FatalError("REVISIT_MIN_SECS must be at most REVISIT_MAX_SECS.")
        if longest > _LONGEST:
            raise FatalError(f"REVISIT_MAX_SECS must be at most {_LONGEST:.0f}: a hundred years.")
        return cls(
            policy=part_of(crawler, name, settings[name], like=RevisitPolicy),
            first=first,
            shortest=shortest,
            longest=longest,
            importance=importance,
        )

    def next(
        self, entry: Entry, history: History, change: str, *, outcome: str, at: float
    ) -> tuple[Entry, float] | None:
        """Return the entry of the next visit of *entry*, and when it is due; None for no visit.

        *history* has the document of the last fetch, which ended at the epoch seconds *at*.
        *change* is the result of that visit, "" for a new document, *outcome* its outcome.
        """
        if entry.extra or entry.kind in NO_URLS or outcome.startswith(_FINAL_OUTCOMES):
            return None

        now = int(at)
        if outcome == "robots_denied":
            history = replace(history, denied_at=history.denied_at or now)
            secs = float(_DAY)
            if change == GONE:  # it has been denied for a day
                history, secs = self._with_longer_interval(history)
        elif change == FAILED:
            # The history is kept, because the response showed nothing about the document.
            quarter = (history.interval or self.first) / 4
            secs = quarter * 2.0 ** min(history.failures, _MAX_DOUBLINGS)
            history = replace(history, failures=history.failures + 1)
        else:
            return self.after(entry, _with_visit(history, now, change), change, now)

        return self._schedule(entry, history, secs, now)

    def after(self, entry: Entry, history: History, change: str, now: int) -> tuple[Entry, float]:
        """Return the next visit like ``next``, after a visit with a useful response.

        For visits because of a hint this is called directly, because they do not show how often the
        document changes.
        """
        history = replace(history, at=now, failures=0, denied_at=0)
        if change in (MOVED, GONE):
            history, secs = self._with_longer_interval(history)
        elif entry.kind == _SITEMAP:  # visited often, because its hints are useful
            secs = _LONGER * history.interval if change == UNCHANGED else self.shortest
        else:
            secs = self.policy.interval(
                history, change, host=entry.host, importance=self.importance(entry.url)
            )

        history = replace(history, interval=round(self._bound(secs)))
        return self._schedule(entry, history, secs, now)

    def _with_longer_interval(self, history: History) -> tuple[History, float]:
        """Return *history* without its document, and its doubled interval in seconds."""
        secs = self._bound(2.0 * (history.interval or self.first))
        return replace(history.without_document(), interval=round(secs)), secs

    def _schedule(
        self, entry: Entry, history: History, secs: float, now: int
    ) -> tuple[Entry, float]:
        """Return the entry of a visit that is due *secs* seconds after *now*, and that time."""
        next_visit = replace(
            entry, attempts=0, chain=b"", foreign=0, history=encode_history(history)
        )
        return next_visit, now + self._bound(secs)

    def _bound(self, secs: float) -> float:
        return min(max(secs, self.shortest), self.longest)


def _with_visit(history: History, now: int, change: str) -> History:
    """Return *history* after one more visit, made at the time *now* with the result *change*.

    Old visits count less and less: after 64 visits, all counts are halved.
    """
    secs = max(now - history.at, 0) if history.at else 0
    if history.visits >= _MAX_VISITS:
        history = replace(
            history,
            visits=history.visits // 2,
            changes=history.changes // 2,
            changed_secs=history.changed_secs // 2,
            same_secs=history.same_secs // 2,
        )

    history = replace(history, visits=history.visits + 1)
    if change == CHANGED:
        return replace(
            history, changes=history.changes + 1, changed_secs=history.changed_secs + secs
        )
    return replace(history, same_secs=history.same_secs + secs)
