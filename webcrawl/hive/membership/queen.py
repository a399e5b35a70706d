"""The queen's duties: shares, the hive's supply and reputation round, and the end of the crawl.

The queen is the drone that holds the queen's lease (membership.py), without being special
otherwise: what is decided here follows from the reports of all drones, so that the next queen comes
to the same. Decided beside it, in drone.py: cluster-wide checkpoints.

The crawl has ended when nothing waits in any shard and nothing is on its way between two. That is
found in three looks, after Mattern's double counting ("Algorithms for distributed termination
detection", 1987, section 4): all shards have holders, all of them idle; then the last message of
each stream has been received; then all drones have reported again, later than that, with the same
counts and leases. A message under way at the second look would be in an outbox, and its drone not
idle, or in a stream, and not received, or have changed a count by the third.
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

# As many drones may begin a hive together without handing over a shard.
_DRONES_AT_FIRST = 8
# Reports from the third look on that a drone must have made to have made one after the second.
_LATER = 2


class _Quiet(NamedTuple):
    """State of a hive that stays the same while nothing happens.

    drones: the count of each. positions: what each shard has received.
    """

    drones: Mapping[str, int]
    owners: Mapping[int, Owner]
    positions: Mapping[int, str]


def share_of(shards: int, drones: int, *, is_new: bool = False) -> int:
    """How many shards a drone holds at most, that all are held. Of a hive that *is_new*, which
    others are about to join, no more than it keeps when they have."""
    share = -(-shards // max(drones, 1))
    return min(share, max(1, shards // _DRONES_AT_FIRST)) if is_new else share


def supply_of(reports: Collection[Report]) -> tuple[Supply, int, int]:
    """How soon there is something to fetch anywhere, the reputation round, and the round since
    which URLs are counted: the least supply if all are in the same round, so that a shard does not
    begin the next one by what was reported in the last."""
    number = max((report.round for report in reports), default=0)
    since = max((report.counted_since for report in reports), default=0)
    if any(report.round != number for report in reports):
        return Supply.SOON, number, since
    return min((Supply(report.supply) for report in reports), default=Supply.NONE), number, since


def busiest_of(reports: Mapping[str, Report | None]) -> str:
    """The name of the drone with the most URLs if others have nothing left; "" otherwise."""
    known = {one.figures.name or name: one for name, one in reports.items() if one is not None}
    waiting = {name: one.figures.waiting for name, one in known.items() if not one.idle}
    if len(waiting) == len(known):
        return ""
    return max(waiting, key=waiting.__getitem__, default="")


class EndDetection:
    """Detection of the crawl's end; *last_ids* gives the last message of each stream.

    Nothing of it outlives the queen: the next one looks anew.
    """

    def __init__(self, last_ids: Callable[[Collection[int]], Awaitable[Mapping[int, str]]]) -> None:
        self._last_ids = last_ids
        self._seen: _Quiet | None = None
        # The numbers of the reports at the third look.
        self._numbers: dict[str, int] = {}

    async def look(self, beat: Beat) -> bool:
        """Whether the crawl has ended; called with each beat of the queen. Raises as Redis does."""
        quiet = _quiet(beat)
        if quiet is None or quiet != self._seen:
            self._seen = None
            self._numbers.clear()
            if quiet is not None and await self._is_received(quiet.positions):
                self._seen = quiet
            return False
        numbers = {one: report.number for one, report in beat.reports.items() if report is not None}
        if not self._numbers:
            self._numbers = numbers
            return False
        return all(numbers[one] >= self._numbers[one] + _LATER for one in quiet.drones)

    async def _is_received(self, positions: Mapping[int, str]) -> bool:
        last = await self._last_ids([*positions])
        return all(order_of(last.get(one, "0-0")) <= order_of(at) for one, at in positions.items())


def _quiet(beat: Beat) -> _Quiet | None:
    """The state of a hive in which nothing happens; None if something does."""
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
    # A shard on its way from one drone to another is in one of the two, or in neither.
    if reported != beat.owners or positions.keys() != reported.keys():
        return None
    return _Quiet(drones, reported, positions)
