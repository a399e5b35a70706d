"""Status of a hive as Redis has it: a table with a line for each drone, and one for all."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
from typing import TYPE_CHECKING, Final

from webcrawl.clock import now
from webcrawl.crawl.counts import short
from webcrawl.errors import FatalError
from webcrawl.hive.connection import UNREACHABLE, close
from webcrawl.hive.membership import Membership
from webcrawl.hive.report import DroneFigures

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from redis.asyncio import Redis, RedisCluster

    from webcrawl.hive.keys import Keys
    from webcrawl.hive.membership import Beat
    from webcrawl.hive.supervisor import Supervisor

_COLUMNS: Final = ("shards", "pages", "/s", "given up", "waiting", "in process", "to send", "lag")
# The longest wait for Redis is half of it.
_PATIENCE_SECS: Final = 4.0
_POLL_SECS: Final = 0.3


@dataclasses.dataclass(frozen=True, slots=True)
class DroneStatus:
    """A drone in numbers, without *figures* if there is no report that can be read."""

    name: str
    shards: int = 0
    figures: DroneFigures | None = None
    is_queen: bool = False
    note: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class HiveStatus:
    """A hive in numbers; *secs* since it was founded, *orphans* are shards that nothing holds."""

    secs: float
    shards: int
    orphans: int
    drones: Sequence[DroneStatus]
    note: str = ""


def status_of(beat: Beat) -> HiveStatus:
    """What *beat*, with all reports, says."""
    drones = []
    for name in sorted(beat.alive):
        held = sum(owner.drone == name for owner in beat.owners.values())
        report = beat.reports.get(name)
        is_queen = name == beat.queen
        if report is None:
            note = "its report cannot be read: another version"
            drones.append(DroneStatus(name, held, is_queen=is_queen, note=note))
            continue
        note = "idle" if report.idle else report.figures.hindrance
        drones.append(DroneStatus(name, held, report.figures, is_queen, note))
    state = beat.state
    held = sum(drone.shards for drone in drones)
    note = "finished" if state.finished else "stopping" if state.stopping else ""
    return HiveStatus(beat.now - state.born_at, state.shards, state.shards - held, drones, note)


def table(name: str, status: HiveStatus, *, secs: float | None = None) -> list[str]:
    """The table of the hive *name*, its head first; *secs* if not those since it was founded."""
    drones = status.drones
    minutes, seconds = divmod(int(status.secs if secs is None else secs), 60)
    head = f"hive {name}  {minutes // 60}:{minutes % 60:02}:{seconds:02}"
    if status.shards:
        head += f"  {status.shards:,} shards"
    if status.orphans and status.shards:
        head += f", {status.orphans:,} of them without a drone"
    if status.note:
        head += f"  {status.note}"
    figures = [drone.figures for drone in drones if drone.figures is not None]
    all_of = DroneStatus(
        "all",
        sum(drone.shards for drone in drones),
        DroneFigures(
            pages=sum(one.pages for one in figures),
            given_up=sum(one.given_up for one in figures),
            rate=sum(one.rate for one in figures),
            waiting=sum(one.waiting for one in figures),
            in_process=sum(one.in_process for one in figures),
            unsent=sum(one.unsent for one in figures),
            lag=max((one.lag for one in figures), default=0.0),
        ),
    )
    width = max(len(drone.name) for drone in (*drones, all_of))
    rows = [("", *_COLUMNS, ""), *map(_row, (*drones, all_of))]
    return [
        head,
        *(
            (
                f"{first:<{width}}{shards:>8}{pages:>9}{rate:>7}{given_up:>10}{waiting:>9}"
                f"{in_process:>12}{unsent:>9}{lag:>8}  {note}"
            ).rstrip()
            for first, shards, pages, rate, given_up, waiting, in_process, unsent, lag, note in rows
        ),
    ]


def _row(drone: DroneStatus) -> tuple[str, ...]:
    figures = drone.figures
    note = ", ".join(filter(None, ("queen" if drone.is_queen else "", drone.note)))
    if figures is None:
        return (drone.name, *(f"{drone.shards:,}" if drone.shards else "", *[""] * 7), note)
    return (
        drone.name,
        f"{drone.shards:,}",
        short(figures.pages),
        f"{figures.rate:,.0f}",
        short(figures.given_up),
        short(figures.waiting),
        f"{figures.in_process:,}",
        f"{figures.unsent / 1000:,.0f} kB" if figures.unsent else "0",
        f"{figures.lag:.1f} s",
        note,
    )


class LocalTable:
    """The table of a supervisor's hive, in which its own drones have their numbers for names.

    Those that have not reported are in it with what is known of them here.
    """

    def __init__(
        self,
        *,
        keys: Keys,
        connect: Callable[[str], Redis | RedisCluster],
        clock: Callable[[], float],
    ) -> None:
        self._keys = keys
        self._connect = connect
        self._clock = clock
        self._began = clock()
        self._client: Redis | RedisCluster | None = None
        # What each drone has reported last.
        self._last: dict[str, DroneStatus] = {}

    async def __call__(self, supervisor: Supervisor) -> list[str]:
        """The lines; at most as long as Redis is waited for."""
        if self._client is None:
            self._client = self._connect(supervisor.redis_url)
        try:
            found = await look(self._client, self._keys)
        except UNREACHABLE:
            found = HiveStatus(0, 0, 0, (), "Redis does not answer")
        except FatalError:  # no drone has founded it yet
            found = HiveStatus(0, 0, 0, (), "starts")
        own = {_id_of(child.pid): child for child in supervisor.drones if child.pid is not None}
        named = [
            dataclasses.replace(drone, name=own[start].name)
            for drone in found.drones
            if (start := drone.name.rpartition("-")[0]) in own
        ]
        others = [drone for drone in found.drones if drone.name.rpartition("-")[0] not in own]
        self._last |= {drone.name: drone for drone in named}
        seen = {drone.name for drone in named}
        silent = [
            dataclasses.replace(
                self._last.get(child.name) or DroneStatus(child.name),
                shards=0,
                is_queen=False,
                note=(child.progress if child.pid else "") or child.state,
            )
            for child in supervisor.drones
            if child.name not in seen
        ]
        drones = [*sorted([*named, *silent], key=_number), *others]
        orphans = found.orphans if found.drones else 0  # when all have ended it is no news
        found = dataclasses.replace(found, drones=drones, orphans=orphans)
        return table(supervisor.hive.name, found, secs=self._clock() - self._began)

    async def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            await close(self._client)


def _id_of(process: int) -> str:
    return f"{socket.gethostname()}-{process}"


def _number(drone: DroneStatus) -> int:
    return int(drone.name.rpartition(" ")[2])


async def look(client: Redis | RedisCluster, keys: Keys) -> HiveStatus:
    """The hive as it is now. FatalError if there is none; one of UNREACHABLE after some seconds."""
    membership = Membership(client=client, keys=keys, drone="", lease_secs=_PATIENCE_SECS)
    beat = await membership.look()
    if not beat.born:
        raise FatalError(f"There is no hive {keys.name} in this Redis.")
    return status_of(beat)


async def stop_and_wait(
    client: Redis | RedisCluster, keys: Keys, *, secs: float, clock: Callable[[], float] = now
) -> Sequence[str]:
    """Have all drones end with checkpoints; those that are still there after *secs*. Raises
    likewise."""
    membership = Membership(client=client, keys=keys, drone="", lease_secs=_PATIENCE_SECS)
    until = clock() + secs
    if not await membership.stop():
        raise FatalError(f"There is no hive {keys.name} in this Redis.")
    while (left := (await membership.look()).alive) and clock() < until:  # noqa: ASYNC110  # elsewhere
        await asyncio.sleep(_POLL_SECS)
    return sorted(left)
