"""`FrontierParts`: the parts of a frontier, saved and restored together.

Created and used by the frontier, which moves URLs between the parts and journals these moves. This
module does what concerns all parts: it makes the snapshot, restores the parts from a snapshot and
the done log, and lists the files to sync and to delete. The invariant: data that is neither named
by a published snapshot nor written to the done log since can be deleted.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from webcrawl.frontier.back_end import BackEnd
from webcrawl.frontier.delay_policy import cut_off
from webcrawl.frontier.domain_share import DomainShares
from webcrawl.frontier.done_log import DoneLog, read_done_log
from webcrawl.frontier.due import DueQueues
from webcrawl.frontier.entry import decode, encode
from webcrawl.frontier.finished import FinishedKeys
from webcrawl.frontier.front_end import MercatorFrontEnd
from webcrawl.frontier.leases import LeaseTable
from webcrawl.frontier.parked import Parked
from webcrawl.frontier.recovery import replay, restore_rests
from webcrawl.frontier.rests import HostClocks
from webcrawl.frontier.shared import SharedClocks
from webcrawl.frontier.snapshot import FrontierSnapshot, decode_snapshot, encode_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from webcrawl.clock import TimeSource
    from webcrawl.frontier.back_end import FrontierSizes
    from webcrawl.frontier.delay_policy import DelayPolicy
    from webcrawl.frontier.front_end import FrontEnd
    from webcrawl.frontier.prioritizer import Prioritizer
    from webcrawl.frontier.recovery import Replay
    from webcrawl.frontier.rests import RestStore
    from webcrawl.frontier.selector import Selector

# A host is far off if more than this lies between two contacts: seconds, or a multiple of the
# shortest rest, whichever is longer.
_SOON_SECS = 10.0
_SOON_RESTS = 1.5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FrontierPolicies:
    """Replaceable policies: which URL is next, and how long a host rests.

    *front_end* is called with path, prioritizer and selector, and returns the front end.

    *parts_of* returns the number of a host's parts, which may change (host_parts.py). *goes_last*
    returns whether, at present, all other URLs of the host should be fetched before the given URL.

    A host rests at least *cut_off_rest* seconds after a contact that was cut off, as its server may
    still be answering. It rests at least *unlogged_rest* seconds after a contact that may be
    missing from the log.
    """

    prioritizer: Prioritizer
    selector: Selector
    delay: DelayPolicy
    cut_off_rest: float = 0.0
    unlogged_rest: float = 0.0
    front_end: Callable[..., FrontEnd] = MercatorFrontEnd
    parts_of: Callable[[str], int] = lambda _: 1
    goes_last: Callable[[str], bool] = lambda _: False


class FrontierParts:
    """The parts of the frontier in the directory *path*. The arguments are those of `Frontier`."""

    def __init__(
        self,
        *,
        path: Path,
        clock: TimeSource,
        policies: FrontierPolicies,
        sizes: FrontierSizes,
        rests: RestStore | None,
        shares: DomainShares | None,
    ) -> None:
        self._path = path
        self._clock = clock
        self._policies = policies
        delay = policies.delay
        self.soon = max(_SOON_SECS, _SOON_RESTS * cut_off(delay, 0.0))

        self.front = policies.front_end(
            path=path / "front", prioritizer=policies.prioritizer, selector=policies.selector
        )
        self.log = DoneLog(path=path / "done")
        clocks = HostClocks(clock=clock, limit=sizes.remembered, store=rests)
        self.back = BackEnd(
            path=path / "back",
            clock=clock,
            remembered=clocks,
            sizes=sizes,
            soon=self.soon,
            shares=shares or DomainShares(),
            parts_of=policies.parts_of,
            goes_last=policies.goes_last,
        )
        self.shared = SharedClocks(clock=clock, log=self.log, rests=clocks, delay=delay)
        self.finished = FinishedKeys()
        self.parked = Parked(path=path / "parked", front=self.front, finished=self.finished)
        self.due = DueQueues(
            path=path / "due", front=self.front, finished=self.finished, clock=clock
        )
        self.leases = LeaseTable()

        #: Contacts until this time, epoch seconds, may be missing from the done log.
        self.unlogged_until = 0.0
        # When the parts of an earlier process were restored; 0.0 if nothing was in its log.
        self.resumed = 0.0
        self._durable = (self.front, self.back.overflows, self.parked, self.due, self.log)
        # Directories that existed before this process. A killed process may have created them
        # without syncing their names.
        self._inherited: list[Path] = []

    def restore(self, snapshot: bytes | None, *, unlogged_until: float) -> Replay:
        """Restore all parts from *snapshot*, and return the events journaled after it.

        The rests of hosts that follow from these events are applied here; the caller applies the
        other events. See ``Frontier.open``.
        """
        state = FrontierSnapshot() if snapshot is None else decode_snapshot(snapshot)
        back = self.back
        if self._path.exists():
            self._inherited = [self._path.parent, self._path, *self._path.glob("*/")]
            self._inherited += self._path.glob("back/*/")

        self.log.open(state.segment)
        self.front.open(state.levels)
        self.parked.open(state.parked, counts=state.counts)
        self.due.open(state.due)
        back.limit = min(max(back.limit, state.limit), back.ceiling)
        back.open(state.queues)
        self.finished.counts = state.counts
        self.finished.add_bytes(state.finished)
        for data in reversed(state.leased):
            back.push_front(decode(data))

        replayed = replay(read_done_log(self.log.path, state.segment), since=state)
        now = self._clock()
        # The clock may have been set back while the machine was down.
        self.resumed = now if replayed.last_at else 0.0
        self.unlogged_until = unlogged_until = max(min(state.unlogged_until, now), unlogged_until)
        # Rests are journaled, so that they are not computed again if this process dies soon, too.
        self.log.write(
            *restore_rests(
                back,
                state,
                replayed,
                now=now,
                policies=self._policies,
                unlogged_until=unlogged_until,
            )
        )
        return replayed

    def snapshot(self) -> Iterator[bytes]:
        """Return the current state in pieces; see ``Frontier.snapshot``."""
        segment = self.log.rotate()
        back = self.back
        state = FrontierSnapshot(
            saved_at=self._clock(),
            segment=segment,
            levels=self.front.snapshot(),
            limit=back.limit,
            leased=[encode(lease.entry) for lease in self.leases.entries],
            finished=self.finished.to_bytes(),
            counts=self.finished.counts,
            shared=[*self.shared.claims],
            parked=self.parked.snapshot(),
            quiet=back.remembered.quiet_until,
            unlogged_until=self.unlogged_until,
            due=self.due.snapshot(),
        )
        return encode_snapshot(state, {"queues": back.snapshot(), "remembered": back.rests()})

    def written(self) -> list[Path]:
        """Return files and directories to fsync; see ``Frontier.written``."""
        inherited, self._inherited = self._inherited, []
        written = [path for part in self._durable for path in part.written()]
        return [*inherited, *written, *self.back.remembered.written()]

    def forget(self) -> None:
        """Delete files that only older snapshots name; see ``Frontier.forget``."""
        for part in self._durable:
            part.forget()
