"""The doctor of a running crawl: seconds by cause, and the cause that binds it now."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, TypeAlias

from webcrawl.doctor.diagnosis import (
    AT_ONCE,
    SHARED,
    Cause,
    Diagnosis,
    advice_of,
    cause_of,
    evidence_of,
)
from webcrawl.doctor.module_times import ModuleTimes
from webcrawl.doctor.process_meter import ProcessMeter, ProcessUse
from webcrawl.doctor.projection import Projection

if TYPE_CHECKING:
    from webcrawl.clock import TimeSource
    from webcrawl.doctor.activity import CrawlActivity
    from webcrawl.doctor.histogram import Latencies

    #: Seconds since the one before, and what was judged by what.
    _Look: TypeAlias = tuple[float, Cause, CrawlActivity, ProcessUse]

# What is named held the most of this time: two progress lines. Advice goes by a minute.
_SECS, _ADVICE_SECS = 20.0, 60.0
_FEWEST = 3
# A share of that time in which something else held that counts.
_NEAR = 0.1


class Doctor:
    """Doctor of one process.

    *clock* gives epoch seconds; ``look`` is to be called about once a second. O(1) but for
    ``diagnosis``, which reads the last looks.
    """

    def __init__(self, *, clock: TimeSource, latencies: Latencies) -> None:
        self.latencies = latencies
        self.projection = Projection()
        #: Seconds of this run that each cause has held.
        self.secs: defaultdict[Cause, float] = defaultdict(float)
        self._clock = clock
        self._meter = ProcessMeter(clock=clock)
        #: Times of the processing modules, which it is given to watch.
        self.module_times = ModuleTimes(clock=clock)
        self._at = clock()
        self._looks: deque[_Look] = deque()
        self._recent: defaultdict[Cause, float] = defaultdict(float)
        self._named = Cause.STARTING
        self._since = self._at

    def look(self, activity: CrawlActivity, lag: float) -> None:
        """The crawl's *activity* now, *lag* seconds later than it should be known."""
        use = self._meter.look(lag)
        activity = activity._replace(blocked_by=self.module_times.take())
        self.latencies.lag.add(lag)
        at = self._clock()
        secs, self._at = at - self._at, at
        # One late look is no disk: a page may take a while.
        late = sorted(one.lag for *_, one in [*self._looks][-_FEWEST:]) or [lag]
        cause = cause_of(activity, use._replace(lag=min(lag, late[len(late) // 2])))
        self.secs[cause] += secs
        self._recent[cause] += secs
        self._looks.append((secs, cause, activity, use))
        first = self._looks[0]
        while len(self._looks) > _FEWEST and sum(self._recent.values()) - first[0] >= _ADVICE_SECS:
            self._recent[first[1]] -= first[0]
            self._looks.popleft()
            first = self._looks[0]
        # No matter of more or less.
        is_known = cause in AT_ONCE
        lately: defaultdict[Cause, float] = defaultdict(float)
        for took, one, *_ in self._last():
            lately[one] += took * (one not in AT_ONCE)  # which hold no longer, as certainly
        named = cause if is_known else max(lately, key=lately.__getitem__)
        if named is not self._named:
            self._named, self._since = named, at - (secs if is_known else lately[named])

    def _last(self) -> list[_Look]:
        """The looks that count for what is named, the last first."""
        last, secs = [], 0.0
        for look in reversed(self._looks):
            if secs >= _SECS:
                break
            last.append(look)
            secs += look[0]
        return last

    @property
    def sees_nothing_left(self) -> bool:
        """Whether nothing was left when it looked last."""
        return self._named is Cause.NOTHING_LEFT

    def diagnosis(self) -> Diagnosis:
        """What binds the crawl now."""
        looks = [look for look in self._last() if look[1] is self._named]
        if not looks:
            return Diagnosis(self._named, self._since, "the crawl has just begun")
        activity, uses = looks[0][2], zip(*(one for *_, one in looks), strict=True)
        use = ProcessUse(*(sum(column) / len(looks) for column in uses))
        busy = sum(look[2].on_wire for look in looks) / len(looks)
        activity = activity._replace(on_wire=round(busy))
        shared = sum(self._recent[cause] for cause in SHARED)
        # More workers would soon meet what has bound the crawl for a while already, or what is
        # slow is left of an outage.
        is_near = shared > _NEAR * sum(self._recent.values()) or self._recent[Cause.OUTAGE] >= 1
        is_advised = not (is_near and self._named is Cause.WORKERS)
        return Diagnosis(
            self._named,
            self._since,
            evidence_of(self._named, activity, use),
            advice_of(self._named, activity, use) if is_advised else "",
        )

    def stats(self) -> dict[str, float | str]:
        """What binds the crawl, seconds by cause, latencies, and its projection, by their names in
        its stats."""
        secs = {f"doctor/{cause}_secs": round(secs, 1) for cause, secs in self.secs.items()}
        known = {**self.latencies.stats(), **self.projection.stats()}
        return {"doctor/now": str(self.diagnosis()), **secs, **known}
