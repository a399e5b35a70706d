"""Decisions of the queen: shares and moves of shards, supply, reputation round, end of the crawl.

The queen is the drone that holds the queen's lease (membership.py); otherwise it is a drone like
any other. Its decisions here depend only on the reports of all drones, so the next queen makes the
same ones. When all drones make a checkpoint is decided in drone.py.

The crawl has ended when nothing waits in any shard and no message is on its way. This is detected
in three steps, after Mattern's double counting ("Algorithms for distributed termination detection",
1987, section 4). First, all shards have holders, and all drones are idle. Second, the last message
of each stream has been received. Third, all drones have reported again after that, with the same
counts and leases. If a message were on its way at the second step, it would be in an outbox, so its
drone would not be idle; or in a stream, and not received; or a count would change by the third
step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import NamedTuple

from webcrawl.frontier import Supply
from webcrawl.hive.membership.membership import Beat, Owner
from webcrawl.hive.membership.report import Report

# Up to this many drones can start a hive together without handing over a shard.
_EXPECTED_DRONES = 8
# A drone hands over every second of its shards, or only one: there are at most 4096.
_HALF = 2
_ONE = 4096
# After this many new reports, a drone has certainly reported after the second step.
_LATER_REPORTS = 2


class _QuietState(NamedTuple):
    """State of an idle hive, which stays the same while nothing happens.

    drones: the number of batches that each drone has sent and received.
    positions: by shard, the ID up to which it has read its stream.
    """

    drones: Mapping[str, int]
    owners: Mapping[int, Owner]
    positions: Mapping[int, str]


def share_of(shards: int, drones: int, *, is_new: bool = False) -> int:
    """Return how many shards each of *drones* should hold at most, so that all shards are held.

    If the hive *is_new*, other drones are about to join. Then a drone gets no more shards than it
    will keep.
    """
    share = -(-shards // max(drones, 1))  # rounded up
    return min(share, max(1, shards // _EXPECTED_DRONES)) if is_new else share


def moves_of(beat: Beat) -> str:
    """Return which drones hand over shards to which others, as ``HiveState.moves``.

    A drone whose hosts do not wait for it takes a shard from one whose hosts do. A drone without
    waiting URLs takes half. A drone without shards takes them from any other. Drones that have
    claimed a shard within the time of a lease, or are about to, take no part, so that no shard
    moves twice.
    """
    held = Counter(owner.drone for owner in beat.owners.values())
    since = (beat.now - beat.state.lease_secs) * 1e6  # tokens are times in microseconds
    # The waiting hosts, shards and waiting URLs of each drone that takes part.
    loads = {
        drone: (report.figures.ready, held[drone], report.figures.waiting)
        for drone, report in beat.reports.items()
        if report
        and not report.waits
        and len(report.leases) == held[drone]
        and max(report.leases.values(), default=0) < since
    }
    drones = sorted(loads, key=loads.__getitem__)
    givers = [drone for drone in reversed(drones) if held[drone] > 1]
    takers = [drone for drone in drones if not loads[drone][0]]
    return " ".join(
        f"{giver} {taker} {_ONE if loads[taker][2] else _HALF}"
        for giver, taker in zip(givers, takers, strict=False)
        if loads[giver][0] or not held[taker]
    )


def supply_of(reports: Collection[Report]) -> tuple[Supply, int, int]:
    """Return the hive's supply, its reputation round, and the round since which URLs are counted.

    The supply is the lowest in *reports*, but only if all drones are in the same round. So a shard
    does not begin a round because of reports from the round before.
    """
    current = max((report.round for report in reports), default=0)
    since = max((report.counted_since for report in reports), default=0)
    if any(report.round != current for report in reports):
        return Supply.SOON, current, since
    return min((Supply(report.supply) for report in reports), default=Supply.NONE), current, since


def busiest_of(reports: Mapping[str, Report | None]) -> str:
    """Return the name of the drone with the most waiting URLs if others are idle, else ""."""
    readable = {name: report for name, report in reports.items() if report is not None}
    waiting_urls = {
        report.figures.name or name: report.figures.waiting
        for name, report in readable.items()
        if not report.idle
    }
    if len(waiting_urls) == len(readable):
        return ""
    return max(waiting_urls, key=waiting_urls.__getitem__, default="")


class EndDetection:
    """Detects the end of the crawl.

    *has_unread* returns whether any shard has messages after the positions of all, by shard.

    The state of the detection is lost with the queen; the next queen starts over.
    """

    def __init__(self, has_unread: Callable[[Mapping[int, str]], Awaitable[bool]]) -> None:
        self._has_unread = has_unread
        # The state in which the first two steps were done; None if they were not.
        self._last_quiet: _QuietState | None = None
        # The number of each drone's report at the heartbeat after the second step.
        self._report_numbers: dict[str, int] = {}

    async def look(self, beat: Beat) -> bool:
        """Return whether the crawl has ended, given *beat*, the queen's last heartbeat.

        Must be called with each heartbeat. Raises one of UNREACHABLE.
        """
        # Steps one and two begin again whenever something has happened.
        quiet_state = _quiet_state(beat)
        if quiet_state is None or quiet_state != self._last_quiet:
            self._last_quiet = None
            self._report_numbers.clear()
            if quiet_state is not None and not await self._has_unread(quiet_state.positions):
                self._last_quiet = quiet_state
            return False
        # Step three: wait for later reports of all drones, in the same state.
        numbers = {
            drone: report.number for drone, report in beat.reports.items() if report is not None
        }
        if not self._report_numbers:
            self._report_numbers = numbers
            return False
        return all(
            numbers[drone] >= self._report_numbers[drone] + _LATER_REPORTS
            for drone in quiet_state.drones
        )


def _quiet_state(beat: Beat) -> _QuietState | None:
    """Return the state of the hive in *beat* if all shards are held and idle, else None."""
    if len(beat.owners) < beat.state.shards:
        return None
    # What the holders report, to be compared with the owners in Redis.
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
    # While a shard is being handed over, owners and reports differ.
    if reported != beat.owners or positions.keys() != reported.keys():
        return None
    return _QuietState(drones, reported, positions)
