"""Doctor of a running crawl: finds the cause that limits it now, and adds up seconds by cause."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
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
    from collections.abc import Iterable

    from webcrawl.clock import TimeSource
    from webcrawl.crawl.figures.activity import CrawlActivity

# The cause that held for most of the last 20 s is named (two progress lines).
_SECS = 20.0
# Advice considers this many looks, about a minute.
_ADVICE_LOOKS = 60
_MIN_LOOKS = 3
# These causes depend on which hosts are paused just now, so they change in turns. Another one of
# them is named once it has held this many times longer in the last minute.
_OF_PAUSED_HOSTS = frozenset({Cause.POLITENESS, Cause.REFUSALS, Cause.ONE_REQUEST})
_MUCH_LONGER = 3.0
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

    *clock* returns epoch seconds. *is_drone* says whether it is a process of a hive. All
    calls are O(1), except ``diagnosis``, which reads the looks of the last 20 s.
    """

    def __init__(self, *, clock: TimeSource, is_drone: bool = False) -> None:
        self.projection = Projection()
        #: Seconds of this run in which each cause held.
        self.secs: defaultdict[Cause, float] = defaultdict(float)
        self._clock = clock
        self._is_drone = is_drone
        self._meter = ProcessMeter(clock=clock)
        # How long the processing modules hold the event loop.
        self._module_times = ModuleTimes(clock=clock)
        #: Wraps a module's ``process_item``, to measure its time.
        self.watch = self._module_times.watch
        self._at = clock()  # the time of the last look
        self._looks: deque[_Look] = deque(maxlen=_ADVICE_LOOKS)  # the latest last
        self._named = Cause.STARTING  # the cause that a diagnosis names, and since when it holds
        self._since = self._at

    def look(self, activity: CrawlActivity, lag: float) -> None:
        """Find and record the cause that limits a crawl with this *activity*.

        *lag* tells how many seconds late this call is, which is the delay of the event loop.
        """
        use = self._meter.look(lag)
        activity = activity._replace(blocked_by=self._module_times.take())
        time = self._clock()
        # A single late look does not prove that the disk is slow: one page may have taken long. So
        # the median of the looks before must be as late.
        lags = sorted(earlier.use.lag for earlier in [*self._looks][-_MIN_LOOKS:]) or [lag]
        median_lag = lags[len(lags) // 2]
        cause = cause_of(activity, use._replace(lag=min(lag, median_lag)))
        if cause is None:  # the next cause gets this time, too
            if self.sees_nothing_left:
                self._named = Cause.STARTING
                self._since = time
            return

        secs = time - self._at
        self._at = time
        self.secs[cause] += secs
        self._looks.append(_Look(secs, cause, activity, use))

        if cause in CERTAIN:
            # It is named at once, and holds since the look before.
            named = cause
            held_secs = secs
        else:
            # The cause is named that held longest of late, and it began to hold before it is named.
            # A certain cause does not hold any more, so its time does not count.
            recent = _secs_by_cause(self._last_looks())
            named = max(recent.keys() - CERTAIN, key=recent.__getitem__)
            held_secs = recent[named]
            minute = _secs_by_cause(self._looks)
            if {named, self._named} <= _OF_PAUSED_HOSTS and (
                minute[named] < _MUCH_LONGER * minute[self._named]
            ):
                named = self._named
        if named is not self._named:
            self._named = named
            self._since = time - held_secs

    def _evidence(self) -> list[_Look]:
        """Return the last looks in which the named cause held, the latest first."""
        last = [look for look in self._last_looks() if look.cause is self._named]
        return last or [look for look in reversed(self._looks) if look.cause is self._named][:1]

    @property
    def shown_activity(self) -> CrawlActivity | None:
        """Return the activity from which the evidence is; None if there is none."""
        looks = self._evidence()
        return looks[0].activity if looks else None

    def _last_looks(self) -> list[_Look]:
        """Return the looks of the last 20 s, which decide what cause is named; the latest first."""
        last = []
        secs = 0.0
        for look in reversed(self._looks):
            if secs >= _SECS:
                break
            last.append(look)
            secs += look.secs
        return last

    @property
    def mean_lag(self) -> float:
        """Return the mean delay of the event loop in the last 20 s, in seconds."""
        lags = [look.use.lag for look in self._last_looks()]
        return sum(lags) / max(len(lags), 1)

    @property
    def sees_nothing_left(self) -> bool:
        """Return whether the crawl had nothing left to do when last checked."""
        return self._named is Cause.NOTHING_LEFT

    def diagnosis(self) -> Diagnosis:
        """Return what limits the crawl now, with evidence and advice."""
        looks = self._evidence()
        if not looks:
            return Diagnosis(self._named, self._since, "there are no requests yet")

        # The evidence is from the last check, except for averages of CPU use and of the numbers of
        # requests and pages. Numbers that are subtracted must come from the same checks.
        activity = looks[0].activity
        uses = zip(*(look.use for look in looks), strict=True)
        use = ProcessUse(*(sum(column) / len(looks) for column in uses))
        averages = {
            name: round(sum(getattr(look.activity, name) for look in looks) / len(looks))
            for name in ("on_wire", "in_process")
        }
        activity = activity._replace(**averages)

        # More workers are not advised if they would soon meet another limit, or if the slow hosts
        # are left over from an outage.
        recent = _secs_by_cause(self._looks)
        shared_secs = sum(recent[cause] for cause in SHARED)
        would_not_help = (
            shared_secs > _MIN_SHARE * sum(recent.values()) or recent[Cause.OUTAGE] >= 1
        )
        is_advised = not (would_not_help and self._named is Cause.WORKERS)
        evidence = evidence_of(self._named, activity, use)
        # Which hosts refuse changes with each look, and the advice should not.
        refusing = sum((Counter(look.activity.refusing) for look in self._looks), Counter())
        activity = activity._replace(refusing=refusing)
        return Diagnosis(
            self._named,
            self._since,
            evidence,
            advice_of(self._named, activity, use, is_drone=self._is_drone) if is_advised else "",
        )

    def stats(self) -> dict[str, float | str]:
        """Return diagnosis, seconds by cause and projection, by their stats keys."""
        secs = {f"doctor/{cause}_secs": round(secs, 1) for cause, secs in self.secs.items()}
        return {"doctor/now": str(self.diagnosis()), **secs, **self.projection.stats()}


def _secs_by_cause(looks: Iterable[_Look]) -> defaultdict[Cause, float]:
    """Return for how many seconds each cause held in *looks*."""
    secs: defaultdict[Cause, float] = defaultdict(float)
    for look in looks:
        secs[look.cause] += look.secs
    return secs
