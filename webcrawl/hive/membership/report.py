"""Reports that drones send with each beat, and the state of the whole hive.

A `Report` is a drone's, in msgpack with names, so that drones of different versions read each
other's: a field that is missing has its default, one that is not known is passed over. The `State`
is a hash in Redis, in words. Times are epoch seconds; those of the state are by Redis' clock.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import msgspec

from webcrawl.configuration.decoding import (
    Count,
    Seconds,
    UndecodableError,
    converter,
    msgpack_decoder,
)
from webcrawl.crawl.figures.counts import Counts
from webcrawl.crawl.job.totals import PREFIX
from webcrawl.hive.membership.keys import order_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from scrapy.statscollectors import StatsCollector

    from webcrawl.clock import TimeSource
    from webcrawl.crawl.health import Health

#: Where the job directories of the drones of `scrapy hive` are.
DRONES = "drones"
# Over which rates are taken.
_SECS = 60.0
# As `frontier.supply.Supply`; rounds, by which budgets are shifted.
_Supply: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=3)]
_Round: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=64)]


class DroneFigures(msgspec.Struct, frozen=True, kw_only=True):
    """A drone in its report, for people: nothing is decided by it."""

    #: What people call it; "" where it has no number.
    name: str = ""
    #: Host and port of its metrics; "" if it has none.
    metrics: str = ""
    #: Of the shards that it holds, whichever drones had them: pages, and URLs given up.
    pages: Count = 0
    given_up: Count = 0
    #: Pages and visits per second, in the last minute.
    rate: Seconds = 0.0
    #: URLs in its frontiers; contacts and pages under way.
    waiting: Count = 0
    in_process: Count = 0
    #: Bytes in its outboxes that were not sent yet; seconds that what came last was in Redis.
    unsent: Count = 0
    lag: Seconds = 0.0
    #: Links that its pages had: to their own shards, sent to others, and spared by the cache.
    kept: Count = 0
    sent: Count = 0
    spared: Count = 0
    #: Links that it received, and the batches that they came in.
    received: Count = 0
    batches: Count = 0
    #: What binds it, in words.
    diagnosis: str = ""


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A drone's state at one beat."""

    #: Of the beat: it grows with each.
    number: Count = 0
    #: The shards that it has claimed, with their tokens.
    leases: dict[Count, Count] = {}
    #: Whether none of them has work, all outboxes are sent and no seeds are left to read.
    idle: bool = False
    #: It grows with each batch sent and each batch received.
    activity: Count = 0
    #: Of each shard that it has adopted, the ID in its stream up to which it has read.
    positions: dict[int, str] = {}
    #: The least supply of its shards (`frontier.supply.Supply`), and the reputation round it is of.
    supply: _Supply = 0
    round: _Round = 0
    #: The round since which admitted URLs are counted.
    counted_since: _Round = 0
    figures: DroneFigures = DroneFigures()


class HiveState(msgspec.Struct, frozen=True, kw_only=True):
    """State of the whole hive; all but the first four are the queen's orders."""

    #: A random word of this Redis' data: another one, or "", when Redis lost them.
    born: str = ""
    born_at: Seconds = 0.0
    #: When a drone came and none was alive.
    begun_at: Seconds = 0.0
    #: HIVE_SHARDS.
    shards: Annotated[int, msgspec.Meta(ge=0, le=4096)] = 0
    #: Of the last checkpoint that all drones were to make.
    checkpoint: Count = 0
    #: How many shards a drone should hold at most; 0: not decided yet.
    share: Count = 0
    #: The name of the drone that others wait for, as they have nothing left; "" if none do.
    busiest: str = ""
    #: The least supply of all shards, and the reputation round that all are in.
    supply: _Supply = 0
    round: _Round = 0
    counted_since: _Round = 0
    #: The crawl has ended. Drones end with a checkpoint.
    finished: bool = False
    #: The crawl is to be stopped. Drones end with a checkpoint.
    stopping: bool = False


def drone_name(jobdir: Path) -> str:
    """The name for people of the drone in *jobdir*, which `scrapy hive` has made; "" of another."""
    return f"drone {jobdir.name}" if jobdir.parent.name == DRONES else ""


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Gauge:
    """Reader of the *health* of a crawl that is open, and of its *stats*.

    *name* is the drone's, *clock* gives seconds.
    """

    name: str
    health: Health
    stats: StatsCollector
    clock: TimeSource
    # When it was read, with the pages and visits until then.
    _readings: deque[tuple[float, int]] = field(default_factory=deque)

    def read(self, *, unsent: int, lag: float) -> DroneFigures:
        """The figures now, with those of the bus. A millisecond; touches no disk."""
        at = self.clock()
        self.health.publish()
        stats = self.stats.get_stats()
        # Shards that come and go are no reason for a rate.
        run, counts = Counts.of(stats), Counts.of(stats, PREFIX)
        readings = self._readings
        readings.append((at, run.pages + run.visits))
        while len(readings) > 2 and readings[1][0] <= at - _SECS:
            readings.popleft()
        began, then = readings[0]
        secs = max(at - began, 1.0)
        activity = self.health.activity()
        return DroneFigures(
            name=self.name,
            metrics=str(stats.get("metrics/address", "")),
            pages=counts.pages,
            given_up=sum(counts.given_up.values()),
            rate=round((run.pages + run.visits - then) / secs, 2),
            waiting=activity.waiting,
            in_process=activity.in_process,
            unsent=unsent,
            lag=lag,
            kept=int(stats.get("hive/links/kept", 0)),
            sent=int(stats.get("hive/links/sent", 0)),
            spared=int(stats.get("hive/links/spared", 0)),
            received=int(stats.get("hive/links/received", 0)),
            batches=int(stats.get("hive/batches/received", 0)),
            diagnosis=self.health.diagnosis().brief,
        )


encode_report = msgspec.msgpack.Encoder().encode
_decode = msgpack_decoder(Report)
_as_state = converter(HiveState, strict=False)


def decode_report(data: bytes) -> Report | None:
    """None for what is no report."""
    try:
        report = _decode(data)
        for position in report.positions.values():
            order_of(position)
    except ValueError:
        return None
    return report


def encode_state(fields: Mapping[str, Any]) -> dict[str, str]:
    """*fields* of a ``HiveState`` as they are in Redis."""
    words = ((name, int(one) if isinstance(one, bool) else one) for name, one in fields.items())
    return {name: str(word) for name, word in words}


def decode_state(fields: Mapping[str, str]) -> HiveState:
    """The other way; UndecodableError for a value that is none, and of a hive without shards."""
    state = _as_state(fields)
    if state.born and not state.shards:
        raise UndecodableError("a hive without shards")
    return state
