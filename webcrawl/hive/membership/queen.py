"""Duties of the queen: shares, the hive's supply and reputation round, the end of the crawl.

The queen is the drone that holds the queen's lease (membership.py), and is not special otherwise.
Its decisions here follow from the reports of all drones, so the next queen decides the same.
Cluster-wide checkpoints are decided in drone.py.

The crawl has ended when nothing waits in any shard and no message is on its way. This is detected
in three steps, after Mattern's double counting ("Algorithms for distributed termination detection",
1987, section 4). First, all shards have holders, and all drones are idle. Second, the last message
of each stream has been received. Third, all drones have reported again after that, with the same
counts and leases. A message on its way at the second step would be in an outbox, so its drone would
not be idle; or in a stream, and not received; or it would have changed a count by the third step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from webcrawl.frontier import Supply
from webcrawl.hive.membership.keys import order_of
from webcrawl.hive.membership.membership import Owner

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from webcrawl.hive.membership.membership import Beat
    from webcrawl.hive.membership.report import Report

# So many drones can begin a hive together without handing over a shard.
_DRONES_AT_FIRST = 8
# How many new reports prove that a drone has reported after the second step.
_LATER_REPORTS = 2


class _Quiet(NamedTuple):
    """State of a hive that stays the same while nothing happens.

    drones: the count of each. positions: what each shard has received.
    """

    drones: Mapping[str, int]
    owners: Mapping[int, Owner]
    positions: Mapping[int, str]


def share_of(shards: int, drones: int, *, is_new: bool = False) -> int:
    """Return the largest number of shards for a drone, such that all shards are held.

    In a hive that *is_new* other drones are about to join, so it is no more than the drone will
    keep then.
    """
    share = -(-shards // max(drones, 1))
    return min(share, max(1, shards // _DRONES_AT_FIRST)) if is_new else share


def supply_of(reports: Collection[Report]) -> tuple[Supply, int, int]:
    """Return the hive's supply of URLs, the reputation round, and the round counted since.

    The supply is the lowest of all drones, but only if all are in the same round. So a shard does
    not begin a round because of reports of the last one.
    """
    number = max((report.round for report in reports), default=0)
    since = max((report.counted_since for report in reports), default=0)
    if any(report.round != number for report in reports):
        return Supply.SOON, number, since
    return min((Supply(report.supply) for report in reports), default=Supply.NONE), number, since


def busiest_of(reports: Mapping[str, Report | None]) -> str:
    """Return the name of the drone with the most URLs if others have none left, else ""."""
    known = {
        report.figures.name or name: report
        for name, report in reports.items()
        if report is not None
    }
    waiting = {name: report.figures.waiting for name, report in known.items() if not report.idle}
    if len(waiting) == len(known):
        return ""
    return max(waiting, key=waiting.__getitem__, default="")


class EndDetection:
    """Detection of the crawl's end; *last_ids* returns the last message ID of each stream.

    Its state is lost with the queen; the next one starts over.
    """

    def __init__(self, last_ids: Callable[[Collection[int]], Awaitable[Mapping[int, str]]]) -> None:
        self._last_ids = last_ids
        self._seen: _Quiet | None = None
        # The numbers of the reports at the third step.
        self._numbers: dict[str, int] = {}

    async def look(self, beat: Beat) -> bool:
        """Return whether the crawl has ended. Called with each heartbeat of the queen.

        Raises one of UNREACHABLE.
        """
        quiet = _quiet(beat)
        if quiet is None or quiet != self._seen:
            self._seen = None
            self._numbers.clear()
            if quiet is not None and await self._is_received(quiet.positions):
                self._seen = quiet
            return False
        numbers = {
            drone: report.number for drone, report in beat.reports.items() if report is not None
        }
        if not self._numbers:
            self._numbers = numbers
            return False
        return all(
            numbers[drone] >= self._numbers[drone] + _LATER_REPORTS for drone in quiet.drones
        )

    async def _is_received(self, positions: Mapping[int, str]) -> bool:
        last = await self._last_ids([*positions])
        return all(
            order_of(last.get(number, "0-0")) <= order_of(at) for number, at in positions.items()
        )


def _quiet(beat: Beat) -> _Quiet | None:
    """Return the state of an idle hive, or None if anything is going on."""
    if len(beat.owners) < beat.state.shards:
        return None
    drones: dict[str, int] = {}
    reported: dict[int, Owner] = {}
    positions: dict[int, str] = {}
    for drone in {owner.drone for owner in beat.owners.values()}:
        report = beat.reports.get(drone)
        if report is None or not report.idle:
            return None
        drones[drone] = report.activity
        reported |= {number: Owner(token, drone) for number, token in report.leases.items()}
        positions |= report.positions
    # If a shard is just being handed over, owners and reports differ.
    if reported != beat.owners or positions.keys() != reported.keys():
        return None
    return _Quiet(drones, reported, positions)
