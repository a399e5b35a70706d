"""Projection: when a crawl will end, or how fresh it can keep its pages.

Samples are taken over time. Each says how long the URLs known at that time would take: all of them
at the present rate, or the longest queue of one host with its pauses, whichever takes longer. How
far that end has moved since earlier samples shows how much more is being found. The range begins
with the smallest movement seen and ends with the largest. A projection only computes; its memory is
bounded, and a new process starts without samples.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import NamedTuple

# A projection needs this many samples. One sample is kept for each of these parts of the time.
_MIN_SAMPLES, _PARTS = 7, 64
# The present rate is measured over these seconds, this share of the time, or these URLs.
_RATE_SECS, _RATE_SHARE, _RATE_URLS = 60.0, 0.1, 20
# Shares of the time so far over which the movement of the end is measured.
_WINDOWS = (0.125, 0.25, 0.5)
# If the end moves away by the first number of seconds per second, no end is predicted. Movements
# are limited to the other two.
_HOPELESS, _AWAY, _NEARER = 0.9, 0.85, -3.0
# Added to the range: a share of it, and seconds.
_MARGIN, _LAST_SECS = 0.07, 20.0
_WEEK, _NEAR = 7 * 86_400.0, 7200.0


class Sample(NamedTuple):
    """Progress of a crawl at one moment.

    at: epoch seconds.
    finished: URLs that are finished.
    known: URLs still to be fetched.
    min_secs, max_secs: seconds that the longest queue of a host will take.
    bound: seconds within which the budgets end the crawl.
    again: share of the whole time that retries of failed URLs may add.
    ready: share of hosts that wait for a worker and not for their pause.
    due: finished URLs that wait for their next visit.
    """

    at: float
    finished: int
    known: float
    min_secs: float
    max_secs: float
    bound: float = math.inf
    again: float = 0.0
    ready: float = 0.0
    due: int = 0


class Range(NamedTuple):
    """Epoch seconds between which the end is expected; *latest* is 0 if no end is in sight."""

    earliest: float
    latest: float

    def words(self, now: float) -> str:
        """Return the range in words, as seen at *now*."""
        if not self.latest:
            return "no end at this rate"
        if self.latest - now < _NEAR:
            return "end in {:.0f} to {:.0f} min".format(*((at - now) / 60 for at in self))
        low, high = (f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}" for at in self)
        return f"end between {low} and {high} UTC"


class Projection:
    """Estimate of a crawl's end or freshness, from samples over at least a minute."""

    def __init__(self) -> None:
        self._samples: list[Sample] = []

    def add(self, sample: Sample) -> None:
        """Add *sample*; it replaces the last one if that is close to the one before it."""
        samples = self._samples
        if len(samples) > 1 and sample.at - samples[-2].at < (sample.at - samples[0].at) / _PARTS:
            samples.pop()
        samples.append(sample)

    def range(self) -> Range | None:
        """Return when the crawl will end; None while that cannot be estimated."""
        rate = self._rate()
        if not rate or self._samples[-1].due:
            return None
        now, work = self._samples[-1], self._samples[-1].known / rate
        secs = now.at - self._samples[0].at
        moves = sorted(self._move(share * secs, rate) for share in _WINDOWS)
        min_left = (1 - _MARGIN) * max(now.min_secs, work) / (1 - max(min(moves[0], 0.0), _NEARER))
        # A host that waits for a worker does not work off its queue during its pauses.
        max_left = max(now.max_secs, work) + now.ready * min(now.max_secs, work)
        max_left /= 1 - max(min(moves[-1], _AWAY), 0.0)
        if work <= now.bound < max_left:
            max_left = now.bound
        elif moves[1] >= _HOPELESS:
            return Range(now.at + min_left, 0.0)
        max_left += _MARGIN * max_left + now.again * (secs + max_left) + _LAST_SECS
        return Range(now.at + min_left, now.at + max_left)

    def words(self) -> str:
        """Return the range in words, or how fresh a crawl that revisits can keep its pages.

        "" while that cannot be estimated.
        """
        rate = self._rate()
        if not rate:
            return ""
        now = self._samples[-1]
        if (found := self.range()) is not None:
            return found.words(now.at)
        urls = now.due + now.known
        secs = urls / rate
        if secs > _WEEK:
            return f"{_WEEK / secs:.0%} of {urls:,.0f} URLs can be visited within 7 days"
        hours = f"{secs / 3600:,.1f} hours" if secs >= _NEAR else f"{max(secs / 60, 1):.0f} min"
        return f"all {urls:,.0f} URLs can be visited within {hours}"

    def stats(self) -> dict[str, float | str]:
        """Return the projection by its stats keys; both ends are 0 while it is not known."""
        earliest, latest = self.range() or (0.0, 0.0)
        ends = {"projection/earliest": round(earliest, 1), "projection/latest": round(latest, 1)}
        return {"projection/now": self.words(), **ends}

    def _rate(self) -> float:
        """Return the URLs finished per second; 0.0 while that is not known."""
        samples = self._samples
        if len(samples) < _MIN_SAMPLES:
            return 0.0
        now = samples[-1]
        place = self._before(max(_RATE_SECS, _RATE_SHARE * (now.at - samples[0].at)))
        while place and now.finished - samples[place].finished < _RATE_URLS:
            place -= 1
        return (now.finished - samples[place].finished) / (now.at - samples[place].at)

    def _before(self, secs: float) -> int:
        """Return the index of the last sample that is *secs* old, or of the first."""
        at = self._samples[-1].at - secs
        return max((i for i, one in enumerate(self._samples) if one.at <= at), default=0)

    def _move(self, secs: float, rate: float) -> float:
        """Return by how many seconds per second the end has moved away in the last *secs*."""
        then, now = self._samples[self._before(max(secs, _RATE_SECS))], self._samples[-1]
        now_left, then_left = (max(one.known / rate, one.min_secs) for one in (now, then))
        return 1 + (now_left - then_left) / (now.at - then.at)
