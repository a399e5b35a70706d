"""Reads the status of a hive from its Redis, formats it as a table, and stops hives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

import msgspec
from redis.asyncio import Redis
from scrapy.settings import Settings

from webcrawl.clock import now
from webcrawl.crawl.figures.counts import format_elapsed, format_short, per_second
from webcrawl.crawl.job.state_directory import DRONES
from webcrawl.errors import FatalError, UnreachableError
from webcrawl.hive.launch.crawl_stats import stats_of
from webcrawl.hive.launch.supervisor import held_locks
from webcrawl.hive.membership.asking import ask_hive
from webcrawl.hive.membership.connection import UNREACHABLE
from webcrawl.hive.membership.keys import Keys
from webcrawl.hive.membership.membership import Beat, Membership
from webcrawl.hive.membership.report import DroneFigures, drone_name
from webcrawl.states import CrawlState
from webcrawl.wording import counted

# The columns of the table and their widths.
_COLUMNS = {
    "shards": 8,
    "pages": 9,
    "/s": 7,
    "given up": 10,
    "waiting": 9,
    "in process": 12,
    "to send": 9,
    "lag": 8,
}
# The figures that are added up in the last row.
_SUMMED = ("pages", "given_up", "rate", "waiting", "in_process", "unsent")
# How long to wait for Redis.
_PATIENCE_SECS = 4.0
_POLL_SECS = 0.3


class DroneStatus(msgspec.Struct, frozen=True):
    """Status of one drone; *figures* is None if it has no readable report."""

    name: str
    shards: int = 0
    figures: DroneFigures | None = None
    is_queen: bool = False
    note: str = ""


class HiveStatus(msgspec.Struct, frozen=True):
    """Status of a hive, *secs* after its start; *orphans* counts the shards without a drone."""

    secs: float
    shards: int
    orphans: int
    drones: Sequence[DroneStatus]
    note: str = ""


def status_of(beat: Beat) -> HiveStatus:
    """Return the status of the hive described by *beat*, which must have all reports."""
    drones = []
    reports = {drone: report for drone, report in beat.reports.items() if report}
    names = {drone: report.figures.name for drone, report in reports.items()}
    # If not all drones have the same settings, notes show which ones do, by a part of their hash.
    has_differences = len({report.settings for report in reports.values()}) > 1
    for name in sorted(beat.alive):
        held = sum(owner.drone == name for owner in beat.owners.values())
        figures = None
        note = "its report cannot be read: it runs another version"
        if report := reports.get(name):
            figures = report.figures
            note = figures.diagnosis or (CrawlState.WAITING if report.idle else "")
            if has_differences:
                note = f"{note}, settings {report.settings[1][:6]}, {figures.differs}".strip(", ")
        shown_name = names.get(name) or name
        # Drones of different machines may have the same name, such as "drone 1".
        if sum(other == shown_name for other in names.values()) > 1:
            shown_name = f"{shown_name} ({name})"
        drones.append(DroneStatus(shown_name, held, figures, name == beat.queen, note))

    state = beat.state
    held = sum(drone.shards for drone in drones)
    note = "finished" if state.finished else "stopping" if state.stopping else ""
    return HiveStatus(beat.now - state.born_at, state.shards, state.shards - held, drones, note)


def table(name: str, status: HiveStatus) -> list[str]:
    """Format *status* of the hive *name* as lines of a table."""
    headline = f"hive {name}  {format_elapsed(status.secs)}"
    if status.shards:
        headline += f"  {counted(status.shards, 'shard')}"
    if status.orphans and status.shards:
        headline += f", {status.orphans:,} of them without a drone"
    if status.note:
        headline += f"  {status.note}"

    figures = [drone.figures for drone in status.drones if drone.figures is not None]
    sums = {name: sum(getattr(drone, name) for drone in figures) for name in _SUMMED}
    lag = max((drone.lag for drone in figures), default=0.0)
    shards = sum(drone.shards for drone in status.drones)
    drones = [*status.drones, DroneStatus("all", shards, DroneFigures(**sums, lag=lag))]

    width = max(len(drone.name) for drone in drones)
    return [
        headline,
        " " * width + "".join(f"{name:>{wide}}" for name, wide in _COLUMNS.items()),
        *(line for drone in drones for line in _rows_of(drone, width)),
    ]


def _rows_of(drone: DroneStatus, width: int) -> Iterator[str]:
    """Yield the rows of *drone*: its figures, and its notes if it has any."""
    figures = drone.figures
    values = [f"{drone.shards:,}" if drone.shards or figures else ""]
    if figures is not None:
        values += [
            format_short(figures.pages),
            per_second(figures.rate),
            format_short(figures.given_up),
            format_short(figures.waiting),
            f"{figures.in_process:,}",
            f"{figures.unsent / 1000:,.0f} kB" if figures.unsent else "0",
            f"{figures.lag:.1f} s",
        ]
    # Without figures, the other cells are empty.
    cells = zip_longest(values, _COLUMNS.values(), fillvalue="")
    metrics = f"metrics at {figures.metrics}" if figures and figures.metrics else ""
    row = f"{drone.name:<{width}}" + "".join(f"{value:>{wide}}" for value, wide in cells)
    yield row.rstrip()
    if note := ", ".join(filter(None, ("queen" if drone.is_queen else "", drone.note, metrics))):
        yield f"  {note}"


async def look(client: Redis, keys: Keys) -> HiveStatus:
    """Return the current status of the hive with *keys*.

    Raises FatalError if there is no such hive, or one of UNREACHABLE.
    """
    membership = Membership(client=client, keys=keys, drone="", lease_secs=_PATIENCE_SECS)
    beat = await membership.look()
    if not beat.state.born:
        raise FatalError(f"There is no hive {keys.name} in this Redis.")
    return status_of(beat)


async def find_status(name: str, settings: Settings) -> HiveStatus:
    """Return the status of the hive *name*: from its Redis or, while that is away, from JOBDIR.

    Raises FatalError if there is no such hive.
    """
    try:
        return await ask_hive(name, settings, look)
    except UnreachableError:
        status = _local_status(Path(settings["JOBDIR"]))
        if not status.drones:
            raise
        return status


def _local_status(jobdir: Path) -> HiveStatus:
    """Return the status of the drones that run in *jobdir*, from their files."""
    drones = [
        DroneStatus(drone_name(path) or path.name, note=str(stats_of(path).get("pauses/now", "")))
        for path in (jobdir, *jobdir.glob(f"{DRONES}/*/"))
        if held_locks(path, "LOCK")
    ]
    # The age of the hive and its numbers of shards are only in Redis.
    return HiveStatus(0, 0, 0, drones, "Redis does not answer")


async def stop_and_wait(
    client: Redis,
    keys: Keys,
    *,
    secs: float,
    processes: Callable[[], Iterable[str]] | None = None,
) -> Sequence[str]:
    """Stop all drones with checkpoints, and return the names of those still running after *secs*.

    A drone that owns shards without a lease may still be running (``Beat.members``). For a hive on
    this machine, whose Redis ends with its drones, *processes* returns the processes that are
    running. Raises the same exceptions as ``look``.
    """
    membership = Membership(client=client, keys=keys, drone="", lease_secs=_PATIENCE_SECS)
    deadline = now() + secs
    await look(client, keys)
    await membership.order(stopping=True)
    while True:
        running = set(processes()) if processes else set()
        try:
            beat = await membership.look()
            running |= beat.alive
            # On this machine, *processes* already has the drones that are cut off.
            if processes is None:
                cut_off = beat.members - beat.alive
                running |= {f"{drone} (without a lease: killed, or cut off)" for drone in cut_off}
        except UNREACHABLE:  # the hive's own Redis has ended, after the drones
            if processes is None:
                raise
        if not running or now() >= deadline:
            return sorted(running)
        await asyncio.sleep(_POLL_SECS)
