"""Projection: when a crawl will be done with what is known, or how fresh it can keep it.

Samples are taken over time. Each says how long what is known then would last: all of it at the
present rate, or the queue of one host at its rests (the politeness tail), whichever takes longer.
How that end has moved since earlier samples says how much more is being found. The range begins as
if the end moved as it did when it moved least, and ends as if it moved as it did when most. Pure:
values in, a range out; memory is bounded, and a new process begins anew.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import NamedTuple

# With fewer samples nothing is said; one is kept for so many parts of the time so far.
_FEWEST, _PARTS = 7, 64
# The present rate is that of so many seconds, of this share of the time so far, or of so many URLs.
_RATE_SECS, _RATE_SHARE, _RATE_URLS = 60.0, 0.1, 20
# The shares of the time so far over which the movement of the end is looked at.
_WINDOWS = (0.125, 0.25, 0.5)
# An end that moves away by so many seconds in each second is not in sight. More than the next is
# not reckoned with, nor that it comes nearer faster than the last.
_HOPELESS, _AWAY, _NEARER = 0.9, 0.85, -3.0
# What is added to the range: a share of it, and seconds.
_MARGIN, _LAST_SECS = 0.07, 20.0
_WEEK, _NEAR = 7 * 86_400.0, 7200.0


class Sample(NamedTuple):
    """A crawl at one moment, *at* epoch seconds.

    *finished* URLs came to their end, *known* are still to come. The longest queue of a host takes
    from *least* to *most* seconds, and budgets end all within *bound*; tries of URLs that failed
    may lengthen it by the share *again* of the whole time. *ready* is the share of hosts that wait
    for a worker and not for their rest. *due* URLs are finished and wait for their next visit.
    """

    at: float
    finished: int
    known: float
    least: float
    most: float
    bound: float = math.inf
    again: float = 0.0
    ready: float = 0.0
    due: int = 0


class Range(NamedTuple):
    """Epoch seconds between which the end is expected; *latest* is 0 if not at this rate."""

    earliest: float
    latest: float

    def words(self, now: float) -> str:
        """The range as it is told at *now*."""
        if not self.latest:
            return "end not at this rate"
        if self.latest - now < _NEAR:
            return "end in {:.0f} to {:.0f} min".format(*((at - now) / 60 for at in self))
        low, high = (f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}" for at in self)
        return f"end between {low} and {high} UTC"


class Projection:
    """Takes samples, one each some seconds, and has a range once they span a minute."""

    def __init__(self) -> None:
        self._samples: list[Sample] = []

    def add(self, sample: Sample) -> None:
        """Take in *sample*; the last one goes if it is near to the one before it."""
        some = self._samples
        if len(some) > 1 and sample.at - some[-2].at < (sample.at - some[0].at) / _PARTS:
            some.pop()
        some.append(sample)

    def range(self) -> Range | None:
        """When the crawl will have come to its end; None while nothing can be said."""
        rate = self._rate()
        if not rate or self._samples[-1].due:
            return None
        now, work = self._samples[-1], self._samples[-1].known / rate
        secs = now.at - self._samples[0].at
        moves = sorted(self._move(share * secs, rate) for share in _WINDOWS)
        least = (1 - _MARGIN) * max(now.least, work) / (1 - max(min(moves[0], 0.0), _NEARER))
        # A queue does not get shorter by its host's rests while the host waits for a worker.
        most = max(now.most, work) + now.ready * min(now.most, work)
        most /= 1 - max(min(moves[-1], _AWAY), 0.0)
        if work <= now.bound < most:
            most = now.bound
        elif moves[1] >= _HOPELESS:
            return Range(now.at + least, 0.0)
        most += _MARGIN * most + now.again * (secs + most) + _LAST_SECS
        return Range(now.at + least, now.at + most)

    def words(self) -> str:
        """The range, or how fresh the present rate can keep what is visited again; "" while nothing
        can be said."""
        rate = self._rate()
        if not rate:
            return ""
        now = self._samples[-1]
        if (found := self.range()) is not None:
            return found.words(now.at)
        urls = now.due + now.known
        if rate * _WEEK >= urls:
            return f"all {urls:,.0f} URLs can be seen within {urls / rate / 3600:,.1f} hours"
        return f"{rate * _WEEK / urls:.0%} of {urls:,.0f} URLs can be seen within 7 days"

    def stats(self) -> dict[str, float | str]:
        """By their names in the crawl's stats; both ends are 0 while nothing can be said."""
        earliest, latest = self.range() or (0.0, 0.0)
        ends = {"projection/earliest": round(earliest, 1), "projection/latest": round(latest, 1)}
        return {"projection/now": self.words(), **ends}

    def _rate(self) -> float:
        """URLs finished per second; 0.0 while that is not known."""
        samples = self._samples
        if len(samples) < _FEWEST:
            return 0.0
        now = samples[-1]
        place = self._before(max(_RATE_SECS, _RATE_SHARE * (now.at - samples[0].at)))
        while place and now.finished - samples[place].finished < _RATE_URLS:
            place -= 1
        return (now.finished - samples[place].finished) / (now.at - samples[place].at)

    def _before(self, secs: float) -> int:
        """The place of the last sample that is *secs* old, or of the first."""
        at = self._samples[-1].at - secs
        return max((i for i, one in enumerate(self._samples) if one.at <= at), default=0)

    def _move(self, secs: float, rate: float) -> float:
        """By how many seconds the end has moved away in each second since *secs* ago."""
        then, now = self._samples[self._before(max(secs, _RATE_SECS))], self._samples[-1]
        left, before = (max(one.known / rate, one.least) for one in (now, then))
        return 1 + (left - before) / (now.at - then.at)
