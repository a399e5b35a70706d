"""Counts of the whole crawl: those of its earlier runs plus those of this run so far.

Contacts and their results are counted by the shards (``FrontierCounts``). These counts
survive ``kill -9``, and in a hive they move with the shard, so that each page is counted once. The
other counts are a part of the job, saved with every checkpoint: ``kill -9`` loses the counts since
the last one. In the stats, a count of the whole crawl has the prefix ``crawl/`` before its
usual name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
from scrapy.statscollectors import StatsCollector

from webcrawl.clock import TimeSource
from webcrawl.configuration.decoding import Seconds, msgpack_decoder

#: Prefix of the names of the totals.
PREFIX = "crawl/"
_SECS = "elapsed_time_seconds"
#: Stat of the number of runs that were cut off; the counts of their last minute are lost.
CUT_OFF = "job/cut_off"
#: Prefixes of the stats that are counted from 0 in each run.
COUNTED = (
    *("outcome/", "retry/", "robots/", "side_downloads/", "redirects/", "critical/", "outage/"),
    *("pauses/", "contacts", "fetch/", "links/", "urls/refused/", "seeds/refused/"),
    *("seen/submitted", "seen/new", "warc/"),
    *("content/duplicates", "content/tested", "politeness/"),
    *("checkpoint/count", "scheduler/", "dupefilter/", "item_", "response_received_count"),
    *("walls/", "hosts/contacted", "visits/", "doctor/", "refused/", "render/"),
)
#: Prefixes of the stats that the shards count.
OF_SHARDS = ("outcome/", "visits/", "contacts", "fetch/bytes", "content/duplicates")


def sum_counts(*counts: Mapping[str, float]) -> dict[str, float]:
    """Add up *counts*, name by name."""
    sums: dict[str, float] = {}
    for names in counts:
        for name, number in names.items():
            sums[name] = sums.get(name, 0) + number
    return sums


# totals := msgpack map of names, without PREFIX, and numbers
_encode = msgspec.msgpack.Encoder().encode
_decode = msgpack_decoder(dict[str, int | Seconds])


def of_older_job(saved: bytes | None) -> dict[str, float]:
    """Return those counts in *saved* that the shards keep today.

    *saved* has the totals of a job from before 2026-11-24, or is None.
    """
    counts = {} if saved is None else _decode(saved)
    return {name: number for name, number in counts.items() if name.startswith(OF_SHARDS)}


@dataclass(kw_only=True, eq=False)
class Totals:
    """Totals of the whole crawl. A part that checkpoints save.

    *stats* has the counts of this run. *clock* returns epoch seconds, *of_shards* the counts of the
    shards. *is_over* says whether a snapshot is the last one of this run.
    """

    stats: StatsCollector
    clock: TimeSource
    of_shards: Callable[[], dict[str, float]]
    is_over: Callable[[], bool]

    def __post_init__(self) -> None:
        # Counts of the earlier runs, and the time at which this run started; set by ``open``.
        self._earlier_runs: Mapping[str, float] = {}
        self._started_at = 0.0
        # The counts of the shards that ``publish`` has put into the stats.
        self._published: dict[str, float] = {}

    def open(self, saved: bytes | None) -> None:
        """Start counting this run; *saved* is the last ``snapshot``, or None for a new crawl."""
        self._earlier_runs = {} if saved is None else _decode(saved)
        self._started_at = self.clock()

    def publish(self) -> None:
        """Put the totals into the stats."""
        # Set the counts of a shard that has left to 0: they now belong to another process.
        self._published = dict.fromkeys(self._published, 0) | self.of_shards()
        for name, number in sum_counts(self._sum_of_runs(), self._published).items():
            self.stats.set_value(PREFIX + name, number)

    def snapshot(self) -> bytes:
        """Return the encoded totals, to be saved in a checkpoint (see ``Part``).

        Until the last snapshot of the run, they say that the run was cut off: that is true if the
        next run starts from them.
        """
        sums = self._sum_of_runs()
        return _encode(sums if self.is_over() else sum_counts(sums, {CUT_OFF: 1}))

    def written(self) -> list[Path]:
        """Return no files: everything is in the snapshot."""
        return []

    def forget(self) -> None:
        """Delete nothing: the totals have no files of their own."""

    def _sum_of_runs(self) -> dict[str, float]:
        """Return the counts of all runs, except those that the shards keep."""
        counted = {
            name: value
            for name, value in list(self.stats.get_stats().items())
            if name.startswith(COUNTED)
            and not name.startswith(OF_SHARDS)
            and type(value) in {int, float}
        }
        sums = sum_counts(self._earlier_runs, counted)
        sums[_SECS] = round(self._earlier_runs.get(_SECS, 0) + self.clock() - self._started_at, 1)
        return sums
