"""The reports that drones send with each heartbeat, and the state of the whole hive.

A ``Report`` is msgpack with field names, so that drones of different versions can read it: a
missing field gets its default, and an unknown field is skipped. The ``HiveState`` is a hash of
strings in Redis. Times are epoch seconds; those in the state are by Redis' clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
from scrapy.statscollectors import StatsCollector

from webcrawl.clock import TimeSource
from webcrawl.configuration.decoding import (
    Count,
    Seconds,
    UndecodableError,
    converter,
    msgpack_decoder,
)
from webcrawl.crawl.figures.counts import Counts
from webcrawl.crawl.health import Health
from webcrawl.crawl.job.state_directory import DRONES
from webcrawl.crawl.job.totals import PREFIX
from webcrawl.hive.membership.keys import stream_id_key

# Rates are averages over the last seconds.
_RATE_SECS = 60.0
# Hosts must have waited at so many heartbeats before shards are moved: those of a lease.
_READY_BEATS = 5
# The value of a ``frontier.supply.Supply``. A reputation round: budgets are shifted left by it.
_Supply: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=3)]
_Round: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=64)]
_Moves: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^(\S+ \S+ [1-9][0-9]{0,3}( |$))*$")]


class DroneFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a drone that are shown to people.

    Which shards move depends on some of them.
    """

    #: The name shown to people, such as "drone 3", or "".
    name: str = ""
    #: Host and port of the drone's metrics, or "".
    metrics: str = ""
    #: Pages and given-up URLs of the held shards, including those of earlier holders.
    pages: Count = 0
    given_up: Count = 0
    #: Pages and visits per second in the last minute.
    rate: Seconds = 0.0
    #: Number of waiting URLs, and of requests and pages in process.
    waiting: Count = 0
    in_process: Count = 0
    #: How many hosts waited only for the drone to contact them, at least, at the last heartbeats.
    ready: Count = 0
    #: Bytes in the outboxes that are not sent yet; seconds that the last message spent in Redis.
    unsent: Count = 0
    lag: Seconds = 0.0
    #: What limits the drone, in words.
    diagnosis: str = ""
    #: In which settings the hive differed from this drone when it joined, in words.
    differs: str = ""


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State of a drone at one heartbeat."""

    #: The number of the heartbeat.
    number: Count = 0
    #: The shards that the drone has claimed, with their tokens.
    leases: dict[Count, Count] = {}
    #: Whether no shard has work left, all messages are sent and all seeds are read.
    idle: bool = False
    #: Whether it takes no shards yet, because it waits for HIVE_STORE or may still be refused.
    waits: bool = False
    #: Number of batches sent and received.
    activity: Count = 0
    #: By adopted shard, the stream ID up to which it has read its stream.
    positions: dict[int, str] = {}
    #: The lowest supply of the held shards (``frontier.supply.Supply``); their reputation round.
    supply: _Supply = 0
    round: _Round = 0
    #: The round since which admitted URLs are counted.
    counted_since: _Round = 0
    #: Hashes of the settings that all drones must share, and of all that are compared.
    settings: tuple[str, str] = ("", "")
    figures: DroneFigures = DroneFigures()


class HiveState(msgspec.Struct, frozen=True, kw_only=True):
    """State of the whole hive. All fields after ``shards`` are orders of the queen."""

    #: A random word that identifies the data in Redis. It changes, or is "", when data was lost.
    born: str = ""
    born_at: Seconds = 0.0
    #: When the current run began: a drone joined and no other drone was alive.
    begun_at: Seconds = 0.0
    #: HIVE_LEASE_SECS of that run; the default if an earlier version began it.
    lease_secs: Seconds = 10.0
    #: HIVE_SHARDS.
    shards: Annotated[int, msgspec.Meta(ge=0, le=4096)] = 0
    #: The number of the last checkpoint that all drones were told to make.
    checkpoint: Count = 0
    #: Up to how many shards a drone claims; 0 if that is not decided yet.
    share: Count = 0
    #: For each pair of drones of which the first hands over shards to the second, their names and
    #: that it hands over one in so many; all separated by spaces.
    moves: _Moves = ""
    #: The name of the drone that idle drones wait for, or "".
    busiest: str = ""
    #: The lowest supply of all shards, and their reputation round.
    supply: _Supply = 0
    round: _Round = 0
    counted_since: _Round = 0
    #: Whether any drone has pages, so that the network and the name servers work.
    has_pages: bool = False
    #: The numbers of pages and given-up URLs of all shards, in words.
    done: str = ""
    #: Whether the crawl has finished; drones end with a checkpoint.
    finished: bool = False
    #: Whether the crawl is being stopped; drones end with a checkpoint.
    stopping: bool = False


def drone_name(jobdir: Path) -> str:
    """Return the name shown for the drone in *jobdir*, or "" unless ``scrapy hive`` started it."""
    return f"drone {jobdir.name}" if jobdir.parent.name == DRONES else ""


@dataclass(slots=True, kw_only=True, eq=False)
class Gauge:
    """Collects a drone's figures from the *health* and *stats* of its crawl.

    *name* is the drone's name; *clock* returns seconds.
    """

    name: str
    health: Health
    stats: StatsCollector
    clock: TimeSource
    # The times of the last readings, the number of pages and visits until each, and that of ready
    # hosts.
    _readings: deque[tuple[float, int, int]] = field(default_factory=deque)

    def read(self, *, unsent: int, lag: float, differs: str = "") -> DroneFigures:
        """Return the current figures. Takes a millisecond and reads nothing from disk."""
        read_at = self.clock()
        self.health.publish()
        stats = self.stats.get_stats()
        # The rate is from the counts of this run, because those of the held shards jump when shards
        # come and go.
        run_counts = Counts.of(stats)
        shard_counts = Counts.of(stats, PREFIX)

        readings = self._readings
        activity = self.health.activity()
        finished = run_counts.pages + run_counts.visits
        readings.append((read_at, finished, activity.ready))
        # The first reading that stays is the last one before the window, if there is any.
        while len(readings) > 2 and readings[1][0] <= read_at - _RATE_SECS:
            readings.popleft()
        window_start, finished_then, _ = readings[0]
        secs = max(read_at - window_start, 1.0)

        doctor = self.health.doctor
        return DroneFigures(
            name=self.name,
            metrics=str(stats.get("metrics/address", "")),
            pages=shard_counts.pages,
            given_up=shard_counts.total_given_up,
            rate=round((finished - finished_then) / secs, 2),
            waiting=activity.waiting,
            in_process=activity.in_process,
            ready=min(ready for _, _, ready in [*readings][-_READY_BEATS:]),
            unsent=unsent,
            lag=lag,
            diagnosis=doctor.diagnosis().brief if doctor else "",
            differs=differs,
        )


encode_report = msgspec.msgpack.Encoder().encode
_decode = msgpack_decoder(Report)
_as_state = converter(HiveState, strict=False)


def decode_report(data: bytes) -> Report | None:
    """Decode the report in *data*; return None if it is not a valid report."""
    try:
        report = _decode(data)
        for position in report.positions.values():
            stream_id_key(position)
    except ValueError:
        return None
    return report


def encode_state(fields: Mapping[str, Any]) -> dict[str, str]:
    """Encode *fields* of a ``HiveState`` as strings for Redis."""
    return {
        name: str(int(value) if isinstance(value, bool) else value)
        for name, value in fields.items()
    }


def decode_state(fields: Mapping[str, str]) -> HiveState:
    """Decode a ``HiveState``. UndecodableError if a value is invalid, or the hive has no shards."""
    state = _as_state(fields)
    if state.born and not state.shards:
        raise UndecodableError("a hive without shards")
    return state
