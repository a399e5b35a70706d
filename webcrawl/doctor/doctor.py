"""Doctor of a running crawl: seconds by cause, and the cause that limits it now."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, TypeAlias

from webcrawl.doctor.diagnosis import (
    CERTAIN,
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

    #: Seconds since the last look, the cause found, and the figures from which it was found.
    _Look: TypeAlias = tuple[float, Cause, CrawlActivity, ProcessUse]

# The cause that held for most of this time is named (two progress lines). Advice uses a minute.
_SECS, _ADVICE_SECS = 20.0, 60.0
_MIN_LOOKS = 3
# Share of that time from which on another cause matters for the advice.
_NEAR = 0.1


class Doctor:
    """Doctor of one process.

    *clock* returns epoch seconds. Call ``look`` about once a second. All calls are O(1), except
    ``diagnosis``, which reads the last looks.
    """

    def __init__(self, *, clock: TimeSource, latencies: Latencies) -> None:
        self.latencies = latencies
        self.projection = Projection()
        #: Seconds of this run in which each cause held.
        self.secs: defaultdict[Cause, float] = defaultdict(float)
        self._clock = clock
        self._meter = ProcessMeter(clock=clock)
        #: Measures how long the processing modules hold the event loop.
        self.module_times = ModuleTimes(clock=clock)
        self._at = clock()
        self._looks: deque[_Look] = deque()
        self._recent: defaultdict[Cause, float] = defaultdict(float)
        self._named = Cause.STARTING
        self._since = self._at

    def look(self, activity: CrawlActivity, lag: float) -> None:
        """Find the cause for *activity*; this call comes *lag* seconds late."""
        use = self._meter.look(lag)
        activity = activity._replace(blocked_by=self.module_times.take())
        self.latencies.lag.add(lag)
        at = self._clock()
        secs, self._at = at - self._at, at
        # A single late look does not prove a slow disk: a page may take a while.
        late = sorted(one.lag for *_, one in [*self._looks][-_MIN_LOOKS:]) or [lag]
        cause = cause_of(activity, use._replace(lag=min(lag, late[len(late) // 2])))
        self.secs[cause] += secs
        self._recent[cause] += secs
        self._looks.append((secs, cause, activity, use))
        first = self._looks[0]
        while (
            len(self._looks) > _MIN_LOOKS and sum(self._recent.values()) - first[0] >= _ADVICE_SECS
        ):
            self._recent[first[1]] -= first[0]
            self._looks.popleft()
            first = self._looks[0]
        is_certain = cause in CERTAIN
        recent: defaultdict[Cause, float] = defaultdict(float)
        for took, one, *_ in self._last():
            recent[one] += took * (one not in CERTAIN)  # it is just as certain that they ended
        named = cause if is_certain else max(recent, key=recent.__getitem__)
        if named is not self._named:
            self._named, self._since = named, at - (secs if is_certain else recent[named])

    def _last(self) -> list[_Look]:
        """Return the looks that decide which cause is named, the latest first."""
        last, secs = [], 0.0
        for look in reversed(self._looks):
            if secs >= _SECS:
                break
            last.append(look)
            secs += look[0]
        return last

    @property
    def sees_nothing_left(self) -> bool:
        """Whether the crawl had nothing left to do at the last look."""
        return self._named is Cause.NOTHING_LEFT

    def diagnosis(self) -> Diagnosis:
        """Return what limits the crawl now."""
        looks = [look for look in self._last() if look[1] is self._named]
        if not looks:
            return Diagnosis(self._named, self._since, "the crawl has just started")
        activity, uses = looks[0][2], zip(*(one for *_, one in looks), strict=True)
        use = ProcessUse(*(sum(column) / len(looks) for column in uses))
        busy = sum(look[2].on_wire for look in looks) / len(looks)
        activity = activity._replace(on_wire=round(busy))
        shared = sum(self._recent[cause] for cause in SHARED)
        # Then more workers would not help: they would soon meet the other limit, or the slow hosts
        # are left over from an outage.
        is_near = shared > _NEAR * sum(self._recent.values()) or self._recent[Cause.OUTAGE] >= 1
        is_advised = not (is_near and self._named is Cause.WORKERS)
        return Diagnosis(
            self._named,
            self._since,
            evidence_of(self._named, activity, use),
            advice_of(self._named, activity, use) if is_advised else "",
        )

    def stats(self) -> dict[str, float | str]:
        """Return diagnosis, seconds by cause, latencies and projection, by their stats keys."""
        secs = {f"doctor/{cause}_secs": round(secs, 1) for cause, secs in self.secs.items()}
        known = {**self.latencies.stats(), **self.projection.stats()}
        return {"doctor/now": str(self.diagnosis()), **secs, **known}
