"""Projection: estimates when a crawl will end, or how fresh it can keep its pages.

Samples are taken over time. From each follows how long the URLs known at that time would take:
either all of them at the present rate, or the longest queue of one host with its pauses, whichever
takes longer. Because new URLs are found, that estimated end moves away. Its movements since earlier
samples are extrapolated: the smallest gives the start of the range, the largest its end. Memory is
bounded, and a new process starts without samples.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import NamedTuple

from webcrawl.configuration.decoding import Seconds  # msgspec reads it

# A projection needs this many samples. The time so far is divided into parts, and one sample is
# kept for each.
_MIN_SAMPLES = 7
_PARTS = 64
# The present rate is measured over the longest of: these seconds, this share of the time so far,
# and the time for this many URLs; over less if the crawl has not run for so long.
_RATE_SECS = 1800.0
_RATE_SHARE = 0.1
_RATE_URLS = 20
# Shares of the time so far over which the movement of the end is measured, and the least time.
_WINDOWS = (0.125, 0.25, 0.5)
_MIN_WINDOW_SECS = 60.0
# Movements of the estimated end, in seconds per second; positive if it moves away. From the first
# value on, no end is predicted. Otherwise movements are limited to the range of the other two.
_NO_END = 0.9
_MAX_MOVEMENT = 0.85
_MIN_MOVEMENT = -3.0
# Added to the range: a share of it, and seconds.
_MARGIN = 0.07
_LAST_SECS = 20.0
_WEEK = 7 * 86_400.0
# Times up to this many seconds are shown in minutes.
_NEAR = 7200.0


class Tail(NamedTuple):
    """Host whose *urls* take longest: about *secs*, at the time per URL that was measured."""

    host: str
    urls: int
    secs: Seconds


class Sample(NamedTuple):
    """Progress of a crawl at one moment.

    at: epoch seconds.
    finished: URLs that are finished.
    known: number of URLs still to be fetched.
    min_secs, max_secs: bounds of the time that the longest queue of a host will take, in seconds.
    bound: seconds after which the budgets end the crawl at the latest.
    again: share of the whole time that retries of failed URLs may add.
    ready: share of the hosts that wait for a worker, not for the end of their pause.
    due: number of finished URLs that wait for their next visit.
    tail: the host whose queue takes longest.
    held: number of parked URLs that are not among *known*.
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
    tail: Tail | None = None
    held: int = 0


class Range(NamedTuple):
    """The range, in epoch seconds, of a crawl's expected end.

    *latest* is 0 if the crawl has no end at the present rate.
    """

    earliest: float
    latest: float

    def words(self, now: float) -> str:
        """Return the range in words, for a reader at the time *now*."""
        if not self.latest:
            return "no end at this rate"
        if self.latest - now < _NEAR:
            return "end in {:.0f} to {:.0f} min".format(*((at - now) / 60 for at in self))
        earliest, latest = (f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}" for at in self)
        return f"end between {earliest} and {latest} UTC"


class Projection:
    """Estimates a crawl's end or freshness, from samples taken over at least a minute."""

    def __init__(self) -> None:
        self._samples: list[Sample] = []

    def add(self, sample: Sample, *, is_idle: bool = False) -> None:
        """Add *sample*. It replaces the last one if it is close to the last but one.

        *is_idle* says that the crawl waits or is paused. If it has finished nothing since the last
        sample, the time since then is left out.
        """
        samples = self._samples
        if is_idle and samples and sample.finished == samples[-1].finished:
            idle = sample.at - samples[-1].at
            self._samples = [one._replace(at=one.at + idle) for one in samples]
            return
        if len(samples) > 1 and sample.at - samples[-2].at < (sample.at - samples[0].at) / _PARTS:
            samples.pop()
        samples.append(sample)

    def range(self) -> Range | None:
        """Return the expected end of the crawl; None if it cannot be estimated yet.

        Also None for a crawl with repeat visits, which does not end.
        """
        rate = self._rate()
        if not rate or self._samples[-1].due:
            return None

        now = self._samples[-1]
        work_secs = now.known / rate
        secs_so_far = now.at - self._samples[0].at
        smallest, middle, largest = sorted(
            self._movement(share * secs_so_far, rate) for share in _WINDOWS
        )

        # If the end moves away by m seconds per second, t seconds of work take t / (1 - m). The
        # earliest end assumes that it does not move away, the latest that it does not come nearer.
        min_left = (1 - _MARGIN) * max(now.min_secs, work_secs)
        min_left /= 1 - max(min(smallest, 0.0), _MIN_MOVEMENT)
        # The queue of a host that waits for a worker does not shrink in the meantime. So for the
        # share of such hosts, both times add up.
        max_left = max(now.max_secs, work_secs) + now.ready * min(now.max_secs, work_secs)
        max_left /= 1 - max(min(largest, _MAX_MOVEMENT), 0.0)
        if work_secs <= now.bound < max_left:  # the budgets end the crawl earlier
            max_left = now.bound
        elif middle >= _NO_END:
            return Range(now.at + min_left, 0.0)
        max_left += _MARGIN * max_left + now.again * (secs_so_far + max_left) + _LAST_SECS

        return Range(now.at + min_left, now.at + max_left)

    def words(self) -> str:
        """Return the expected end in words, or how fresh a crawl with repeat visits stays.

        Returns "" while that cannot be estimated.
        """
        rate = self._rate()
        if not rate:
            return ""
        now = self._samples[-1]
        if (end := self.range()) is not None:
            return end.words(now.at)

        urls = now.due + now.known
        secs = urls / rate
        if secs > _WEEK:
            return f"{_WEEK / secs:.0%} of {urls:,.0f} URLs can be visited within 7 days"
        hours = f"{secs / 3600:,.1f} hours" if secs >= _NEAR else f"{max(secs / 60, 1):.0f} min"
        return f"all {urls:,.0f} URLs can be visited within {hours}"

    def explained(self) -> str:
        """Return ``words`` with what they are computed from."""
        words = self.words()
        if not words:
            return ""
        now = self._samples[-1]
        rate = self._rate()
        minutes = (now.at - self._rate_begin().at) / 60
        basis = f"{rate:,.1f} URLs finished per second in the last {minutes:,.0f} min"
        basis += f"; {now.known:,.0f} known URLs left"
        if now.held:
            basis += f", not counting {now.held:,} parked ones"
        match self.range():
            case Range(latest=0.0):
                tail = self.tail()
                of_host = f" of {tail.host}" if tail else ""
                basis += f"; as many new URLs{of_host} are found as are finished"
            case Range():
                basis += "; 9 of 10 simulated crawls ended within their range"
        return f"{words} ({basis})"

    def tail(self) -> Tail | None:
        """Return the host whose queue takes longer than all URLs at the present rate, if any.

        Its end at its present pace is within the range, because both follow from the same sample.
        """
        rate = self._rate()
        now = self._samples[-1] if rate else None
        if now is None or now.tail is None or now.tail.secs <= now.known / rate:
            return None
        return now.tail

    def stats(self) -> dict[str, float | str]:
        """Return the projection, keyed by names in the stats. Without an estimate, the end is 0."""
        earliest, latest = self.range() or (0.0, 0.0)
        ends = {"projection/earliest": round(earliest, 1), "projection/latest": round(latest, 1)}
        return {"projection/now": self.words(), **ends}

    def _rate(self) -> float:
        """Return the number of URLs finished per second; 0.0 while there are too few samples."""
        samples = self._samples
        if len(samples) < _MIN_SAMPLES:
            return 0.0
        now = samples[-1]
        begin = self._rate_begin()
        return (now.finished - begin.finished) / (now.at - begin.at)

    def _rate_begin(self) -> Sample:
        """Return the sample from which on the rate is measured."""
        secs_so_far = self._samples[-1].at - self._samples[0].at
        return self._sample_before(max(_RATE_SECS, _RATE_SHARE * secs_so_far))

    def _sample_before(self, secs: float) -> Sample:
        """Return the latest sample that is at least *secs* old, or else the first one.

        It is older if too few URLs were finished since.
        """
        now = self._samples[-1]
        for sample in reversed(self._samples):
            if now.at - sample.at >= secs and now.finished - sample.finished >= _RATE_URLS:
                return sample
        return self._samples[0]

    def _movement(self, secs: float, rate: float) -> float:
        """Return how fast the estimated end has moved away in the last *secs*.

        The result is in seconds per second. *rate* is the number of URLs finished per second.
        """
        then = self._sample_before(max(secs, _MIN_WINDOW_SECS))
        now = self._samples[-1]
        # Had the rate changed since, the end would seem to jump by all that is left.
        rate = (now.finished - then.finished) / (now.at - then.at) or rate
        now_left, then_left = (max(sample.known / rate, sample.min_secs) for sample in (now, then))
        # If as much is left as before, the end has moved by as much time as has passed.
        return 1 + (now_left - then_left) / (now.at - then.at)
