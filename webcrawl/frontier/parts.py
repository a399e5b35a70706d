"""`FrontierParts`: the parts of a frontier, saved and restored together.

Used by the frontier, which moves URLs between the parts and journals these moves. This
module does what concerns all parts: it makes the snapshot, restores the parts from a snapshot and
the done log, and lists the files to sync and to delete. The invariant: data that is neither named
by a published snapshot nor written to the done log since can be deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from webcrawl.clock import TimeSource
from webcrawl.frontier.back_end import BackEnd, FrontierSizes
from webcrawl.frontier.delay_policy import DelayPolicy, cut_off
from webcrawl.frontier.domain_share import DomainShares
from webcrawl.frontier.done_log import DoneLog, read_done_log
from webcrawl.frontier.due import DueQueues
from webcrawl.frontier.entry import decode, encode
from webcrawl.frontier.finished import FinishedKeys
from webcrawl.frontier.front_end import FrontEnd, MercatorFrontEnd
from webcrawl.frontier.leases import LeaseTable
from webcrawl.frontier.parked import Parked
from webcrawl.frontier.prioritizer import Prioritizer
from webcrawl.frontier.recovery import Replay, replay, restore_rests
from webcrawl.frontier.rests import HostClocks, RestStore
from webcrawl.frontier.selector import Selector
from webcrawl.frontier.shared import SharedClocks
from webcrawl.frontier.snapshot import FrontierSnapshot, decode_snapshot, encode_snapshot

# A host is far off if more than this lies between two contacts: seconds, or a multiple of the
# shortest rest, whichever is longer.
_SOON_SECS = 10.0
_SOON_RESTS = 1.5


@dataclass(frozen=True, kw_only=True)
class FrontierPolicies:
    """Replaceable policies: which URL is next, and how long a host rests.

    *front_end* is called with path, prioritizer and selector, and returns the front end.

    *parts_of* returns the number of a host's parts, which may change (host_parts.py).
    *should_go_last* returns whether, at present, all other URLs of the host should be fetched
    before the given URL.

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
    should_go_last: Callable[[str], bool] = lambda _: False


class FrontierParts:
    """The parts of a frontier in one directory. *clock* returns epoch seconds.

    *path* is the directory: it contains ``front/``, ``back/`` and ``done/``.

    *rests* stores the rest periods of hosts without a queue that do not fit in memory. It must be
    open as long as the frontier is; with None all of them are kept in memory. *shares* limits how
    many hosts of one registered domain are in process; None means no limit.
    """

    def __init__(
        self,
        *,
        path: Path,
        clock: TimeSource,
        policies: FrontierPolicies,
        sizes: FrontierSizes,
        rests: RestStore | None = None,
        shares: DomainShares | None = None,
    ) -> None:
        self._path = path
        self.clock = clock
        self.policies = policies
        self.slice_size = sizes.slice_size
        delay = policies.delay
        #: A host is far off if more than so many seconds lie between two contacts.
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
            should_go_last=policies.should_go_last,
        )
        self.shared = SharedClocks(clock=clock, log=self.log, rests=clocks, delay=delay)
        self.finished = FinishedKeys()
        #: The counters of the frontier, which its parts share.
        self.counts = self.finished.counts
        self.parked = Parked(
            path=path / "parked", front=self.front, finished=self.finished, counts=self.counts
        )
        self.due = DueQueues(
            path=path / "due", front=self.front, finished=self.finished, clock=clock
        )
        self.leases = LeaseTable(self)

        #: Contacts until this time, epoch seconds, may be missing from the done log.
        self.unlogged_until = 0.0
        # When the parts of an earlier process were restored; 0.0 if nothing was in its log.
        self.resumed = 0.0
        # The parts that write files.
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
        if self._path.exists():
            self._inherited = [self._path.parent, self._path, *self._path.glob("*/")]
            self._inherited += self._path.glob("back/*/")
        self._open(state)

        replayed = replay(read_done_log(self.log.path, state.segment), since=state)
        now = self.clock()
        self.resumed = now if replayed.last_at else 0.0
        # The clock may have been set back while the machine was down.
        self.unlogged_until = max(min(state.unlogged_until, now), unlogged_until)
        rests = restore_rests(self, state, replayed)
        # Rests are journaled, so that they are not computed again if this process dies soon, too.
        self.log.write(*rests)
        return replayed

    def _open(self, state: FrontierSnapshot) -> None:
        """Open all parts as they were when *state* was saved."""
        back = self.back
        self.log.open(state.segment)
        self.front.open(state.levels)
        self.parked.open(state.parked)
        self.due.open(state.due)
        back.open(state.queues, state.limit)
        # All parts refer to these counters, so they are filled, not replaced.
        for name, count in msgspec.structs.asdict(state.counts).items():
            setattr(self.counts, name, count)
        self.finished.add_bytes(state.finished)
        # In reverse order, so that the one that was leased first becomes the first of its queue.
        for data in reversed(state.leased):
            back.push_front(decode(data))

    def snapshot(self) -> Iterator[bytes]:
        """Return the current state in pieces, to be published; begin a new segment of the done log.

        The iterator must be used up before the next snapshot. Each piece is encoded when it is
        requested, in a few ms, while the frontier keeps working; see back_queue.py. This call
        itself takes 5 to 18 ms with 100,000 queues and 65,536 rests (2026-11, development machine).
        When it returns, all data that belongs in files is written, but not yet synced.
        """
        # A restart replays the events from here on, on top of this state.
        segment = self.log.rotate()
        back = self.back
        state = FrontierSnapshot(
            saved_at=self.clock(),
            segment=segment,
            levels=self.front.snapshot(),
            limit=back.limit,
            leased=[encode(lease.entry) for lease in self.leases.entries],
            finished=self.finished.to_bytes(),
            counts=self.counts,
            shared=[*self.shared.claims],
            parked=self.parked.snapshot(),
            quiet=back.remembered.quiet_until,
            unlogged_until=self.unlogged_until,
            due=self.due.snapshot(),
        )
        # Hosts that got a queue since their rest was stored are left out: it has newer times.
        rests = back.remembered.snapshot(without=back.table)
        return encode_snapshot(state, {"queues": back.snapshot(), "remembered": rests})

    def written(self) -> list[Path]:
        """Return files and directories to fsync before the last snapshot may be published."""
        inherited = self._inherited
        self._inherited = []
        written = [path for part in self._durable for path in part.written()]
        return [*inherited, *written, *self.back.remembered.written()]

    def forget(self) -> None:
        """Delete files that only older snapshots name, once the last snapshot is published."""
        for part in self._durable:
            part.forget()
