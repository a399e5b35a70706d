"""Doctor of a running crawl: finds the cause that limits it now, and adds up seconds by cause."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, NamedTuple

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

# The cause that held for most of the last 20 s is named (two progress lines).
_SECS = 20.0
# Advice considers this many looks, about a minute.
_ADVICE_LOOKS = 60
_MIN_LOOKS = 3
# Other causes with less than this share of that time do not matter for the advice.
_MIN_SHARE = 0.1


class _Look(NamedTuple):
    """One look: seconds since the previous one, the cause, and the values that led to it."""

    secs: float
    cause: Cause
    activity: CrawlActivity
    use: ProcessUse


class Doctor:
    """Doctor of one process. Call ``look`` about once a second.

    *clock* returns epoch seconds. All calls are O(1), except ``diagnosis``, which reads the looks
    of the last 20 s.
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
        self._looks: deque[_Look] = deque(maxlen=_ADVICE_LOOKS)
        self._named = Cause.STARTING
        self._since = self._at

    def look(self, activity: CrawlActivity, lag: float) -> None:
        """Find and record the cause that limits a crawl with this *activity*.

        *lag* tells how many seconds late this call is, which is the delay of the event loop.
        """
        use = self._meter.look(lag)
        activity = activity._replace(blocked_by=self.module_times.take())
        self.latencies.lag.add(lag)
        time = self._clock()
        secs, self._at = time - self._at, time

        # A single late look does not prove that the disk is slow: one page may have taken long.
        lags = sorted(look.use.lag for look in [*self._looks][-_MIN_LOOKS:]) or [lag]
        cause = cause_of(activity, use._replace(lag=min(lag, lags[len(lags) // 2])))
        self.secs[cause] += secs
        self._looks.append(_Look(secs, cause, activity, use))

        is_certain = cause in CERTAIN
        recent: defaultdict[Cause, float] = defaultdict(float)
        for look in self._last_looks():
            # A certain cause that does not hold now is over, so its time does not count.
            recent[look.cause] += look.secs * (look.cause not in CERTAIN)
        named = cause if is_certain else max(recent, key=recent.__getitem__)
        if named is not self._named:
            self._named, self._since = named, time - (secs if is_certain else recent[named])

    def _last_looks(self) -> list[_Look]:
        """Return the looks of the last 20 s, which decide what cause is named; the latest first."""
        last, secs = [], 0.0
        for look in reversed(self._looks):
            if secs >= _SECS:
                break
            last.append(look)
            secs += look.secs
        return last

    @property
    def sees_nothing_left(self) -> bool:
        """Return whether the crawl had nothing left to do when last checked."""
        return self._named is Cause.NOTHING_LEFT

    def diagnosis(self) -> Diagnosis:
        """Return what limits the crawl now, with evidence and advice."""
        looks = [look for look in self._last_looks() if look.cause is self._named]
        if not looks:
            return Diagnosis(self._named, self._since, "the crawl has just started")

        # The evidence is from the last check, except for averages of CPU use and of the numbers of
        # requests and pages. Numbers that are subtracted must come from the same checks.
        activity, uses = looks[0].activity, zip(*(look.use for look in looks), strict=True)
        use = ProcessUse(*(sum(column) / len(looks) for column in uses))
        averages = {
            name: round(sum(getattr(look.activity, name) for look in looks) / len(looks))
            for name in ("on_wire", "in_process")
        }
        activity = activity._replace(**averages)

        # More workers are not advised if they would soon meet another limit, or if the slow hosts
        # are left over from an outage.
        recent: defaultdict[Cause, float] = defaultdict(float)
        for look in self._looks:
            recent[look.cause] += look.secs
        shared_secs = sum(recent[cause] for cause in SHARED)
        would_not_help = (
            shared_secs > _MIN_SHARE * sum(recent.values()) or recent[Cause.OUTAGE] >= 1
        )
        is_advised = not (would_not_help and self._named is Cause.WORKERS)
        return Diagnosis(
            self._named,
            self._since,
            evidence_of(self._named, activity, use),
            advice_of(self._named, activity, use) if is_advised else "",
        )

    def stats(self) -> dict[str, float | str]:
        """Return diagnosis, seconds by cause, latencies and projection, by their stats keys."""
        secs = {f"doctor/{cause}_secs": round(secs, 1) for cause, secs in self.secs.items()}
        measured = {**self.latencies.stats(), **self.projection.stats()}
        return {"doctor/now": str(self.diagnosis()), **secs, **measured}
