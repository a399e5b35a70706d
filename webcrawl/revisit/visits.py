"""Visits: when a finished URL is due again, and the entry with the history of its document.

A fetch that says nothing about a document (a challenge, a soft error, an outage) is not a visit.
The history stays, and the URL is due again after a quarter of its interval, doubled each time. URLs
that have moved or are gone fade: their interval doubles with each visit. So do URLs that robots.txt
has denied for a day.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Self

from msgspec.structs import replace

from webcrawl.clock import TimeSource, wall_time
from webcrawl.configuration.values import number, part_of
from webcrawl.errors import FatalError
from webcrawl.frontier import NO_URLS
from webcrawl.revisit.history import CHANGED, FAILED, GONE, MOVED, encode_history
from webcrawl.revisit.policies import RevisitPolicy
from webcrawl.signals import UNCHANGED

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler

    from webcrawl.frontier import Entry
    from webcrawl.revisit.history import History

_DAY = 86_400
# Limits of intervals in seconds: the frontier only knows the hour of a visit (due.py), and times
# beyond the year 9892 cannot be stored.
_SHORTEST = 3600.0
_LONGEST = 100 * 365.0 * _DAY
_MAX_DOUBLINGS = 10
_MAX_VISITS = 64
_SITEMAP = "sitemap"
# Factor by which the interval of a sitemap grows while it has not changed.
_LONGER = 1.4
# Outcomes after which a URL is never visited again.
_FINAL_OUTCOMES = frozenset(
    {"excluded", "address_forbidden", "bad_url", "poison", "replaced", "unreadable"}
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Visits:
    """Scheduler of the next visits of URLs.

    The intervals of *policy* are limited to *shortest* and *longest* seconds; *first* is that of a
    URL without a useful answer. *importance* returns that of a URL, for policies. *clock* returns
    epoch seconds.
    """

    policy: RevisitPolicy
    first: float
    shortest: float
    longest: float
    importance: Callable[[str], float] = lambda _: 1.0
    clock: TimeSource = wall_time

    @classmethod
    def from_crawler(
        cls, crawler: Crawler, *, importance: Callable[[str], float] = lambda _: 1.0
    ) -> Self:
        """Build from the REVISIT_* settings. Raises FatalError for a bad value."""
        settings = crawler.settings
        name = "REVISIT_POLICY"
        first, shortest, longest = (
            number(settings, f"REVISIT_{one}_SECS", at_least=_SHORTEST)
            for one in ("FIRST", "MIN", "MAX")
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
        self, entry: Entry, known: History, found: str, *, outcome: str, at: float | None = None
    ) -> tuple[Entry, float] | None:
        """Return the entry of the next visit of *entry* and when it is due, or None.

        *known* is the history of its document after it was fetched *at* epoch seconds (None: now).
        *found* is what was found, empty for a new document, and *outcome* its outcome.
        """
        if entry.extra or entry.kind in NO_URLS or outcome in _FINAL_OUTCOMES:
            return None
        now = int(self.clock() if at is None else at)
        if outcome == "robots_denied":
            known, secs = replace(known, denied_at=known.denied_at or now), float(_DAY)
            if found == GONE:
                known, secs = self._faded(known)
        elif found == FAILED:
            quarter = (known.interval or self.first) / 4
            secs = quarter * 2.0 ** min(known.failures, _MAX_DOUBLINGS)
            known = replace(known, failures=known.failures + 1)
        else:
            return self.after(entry, _visited(known, now, found), found, now)
        return self._later(entry, known, secs, now)

    def after(self, entry: Entry, known: History, found: str, now: int) -> tuple[Entry, float]:
        """Return the next visit like ``next``, after a visit that gave a document.

        Visits because of a hint come here directly, as they do not show how often the document
        changes.
        """
        known = replace(known, at=now, failures=0, denied_at=0)
        if found in (MOVED, GONE):
            known, secs = self._faded(known)
        elif entry.kind == _SITEMAP:  # because of its hints
            secs = _LONGER * known.interval if found == UNCHANGED else self.shortest
        else:
            secs = self.policy.interval(
                known, found, host=entry.host, importance=self.importance(entry.url)
            )
        known = replace(known, interval=round(self._bounded(secs)))
        return self._later(entry, known, secs, now)

    def _faded(self, known: History) -> tuple[History, float]:
        """Return *known* without its document, and the doubled seconds until the next visit."""
        secs = self._bounded(2.0 * (known.interval or self.first))
        return replace(known.without_document(), interval=round(secs)), secs

    def _later(self, entry: Entry, known: History, secs: float, now: int) -> tuple[Entry, float]:
        later = replace(entry, attempts=0, chain=b"", history=encode_history(known))
        return later, now + self._bounded(secs)

    def _bounded(self, secs: float) -> float:
        return min(max(secs, self.shortest), self.longest)


def _visited(known: History, now: int, found: str) -> History:
    """Return *known* after a visit that *found* something; about the last 64 visits count."""
    secs = max(now - known.at, 0) if known.at else 0
    if known.visits >= _MAX_VISITS:
        known = replace(
            known,
            visits=known.visits // 2,
            changes=known.changes // 2,
            changed_secs=known.changed_secs // 2,
            same_secs=known.same_secs // 2,
        )
    known = replace(known, visits=known.visits + 1)
    if found == CHANGED:
        return replace(known, changes=known.changes + 1, changed_secs=known.changed_secs + secs)
    return replace(known, same_secs=known.same_secs + secs)
