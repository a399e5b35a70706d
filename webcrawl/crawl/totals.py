"""Counts of the whole crawl: those of its earlier runs, and this one's so far.

A part of the job: saved with every checkpoint, so that ``kill -9`` takes the counts since the last
one. In the stats, a count of the whole crawl stands under ``crawl/`` and the name it has in a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from scrapy.statscollectors import StatsCollector

#: What the names of the totals begin with.
PREFIX: Final = "crawl/"
_SECS: Final = "elapsed_time_seconds"
#: The beginnings of the names of what is counted in each run from 0 on.
COUNTED: Final = (
    *("outcome/", "retry/", "robots/", "aside/", "redirects/", "critical/", "outage/", "pauses/"),
    *(
        "contacts",
        "fetch/",
        "links/",
        "urls/refused/",
        "seeds/refused/",
        "seen/submitted",
        "seen/new",
        "warc/",
    ),
    *("content/duplicates", "content/tested", "politeness/"),
    *("checkpoint/count", "scheduler/", "dupefilter/", "item_", "response_received_count"),
)

# totals := msgpack map of names, without PREFIX, and numbers
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(dict[str, int | float]).decode


class Totals:
    """*stats* are those of this run, *clock* gives epoch seconds."""

    def __init__(self, *, stats: StatsCollector, clock: Callable[[], float]) -> None:
        self._stats = stats
        self._clock = clock
        self._earlier: Mapping[str, int | float] = {}
        self._began = 0.0

    def open(self, saved: bytes | None) -> None:
        """This run begins; *saved* is ``snapshot`` of the last one, None of a crawl without."""
        self._earlier = {} if saved is None else _decode(saved)
        self._began = self._clock()

    def publish(self) -> None:
        """Put the totals into the stats."""
        for name, number in self._sums().items():
            self._stats.set_value(PREFIX + name, number)

    def snapshot(self) -> bytes:
        """See ``job.Part``."""
        return _encode(self._sums())

    def written(self) -> list[Path]:
        """All of it is in the snapshot."""
        return []

    def forget(self) -> None:
        """Nothing is on disk."""

    def _sums(self) -> dict[str, int | float]:
        sums = dict(self._earlier)
        for name, value in list(self._stats.get_stats().items()):
            if name.startswith(COUNTED) and type(value) in {int, float}:
                sums[name] = sums.get(name, 0) + value
        sums[_SECS] = round(self._earlier.get(_SECS, 0) + self._clock() - self._began, 1)
        return sums
