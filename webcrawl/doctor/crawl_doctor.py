"""Doctor of a running crawl, which examines one of its processes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from webcrawl.clock import now
from webcrawl.doctor.doctor import Doctor
from webcrawl.doctor.outlook import Paces, sample_of
from webcrawl.doctor.record import Record

if TYPE_CHECKING:
    from webcrawl.crawl.process import Process
    from webcrawl.doctor.diagnosis import Diagnosis


class CrawlDoctor(Doctor):
    """``DOCTOR_CLASS``: the doctor of *process*, as ``Examiner`` describes it."""

    def __init__(self, *, process: Process) -> None:
        settings = process.parts.services.crawler.settings
        super().__init__(clock=now, is_drone=bool(settings["HIVE"]))
        self._process = process
        self._paces = Paces(clock=now)

    def diagnosis(self) -> Diagnosis:
        """Return what limits the crawl now, with evidence and advice."""
        if self.sees_nothing_left and self._process.shards.has_pending:
            # A crawl that has nothing to do is rarely examined, but now there are URLs again.
            self.look(self._process.health.activity(), 0.0)
        return super().diagnosis()

    def record(self) -> Record:
        """Return the current findings as a record that can be stored."""
        health = self._process.health
        activity = health.activity()
        diagnosis = self.diagnosis()
        shown = self.shown_activity or activity
        return Record(
            state=health.state(),
            diagnosis=diagnosis,
            projection=self.projection.explained(),
            shards=Counter(str(shard.state) for shard in self._process.shards),
            waiting=activity.waiting,
            in_process=activity.in_process,
            workers=activity.workers,
            busy=activity.on_wire,
            ready=shown.ready,
            resting=shown.resting,
            due=activity.due,
            fresh=activity.fresh,
            next_visit=health.next_visit_at or 0.0,
            lag=round(self.mean_lag, 4),
            parked=dict(activity.parked),
            tail=self.projection.tail(),
        )

    def update_projection(self) -> str:
        """Take a sample of the crawl and return its projection as text; "" while there is none.

        The text says when the crawl will end or, for a crawl with revisits, how fresh it can be
        kept.
        """
        process = self._process
        if process.stop.is_open:  # a crawl that ends is slower than it would be
            quotas = process.parts.services.live.quotas
            is_idle = bool(process.pauses or process.health.waits_for)
            sample = sample_of(process.shards, quotas, self._paces)
            self.projection.add(sample, is_idle=is_idle)
            if is_idle:
                self._paces.clear()
        return self.projection.words()
