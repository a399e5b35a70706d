"""Counting of the URLs that a command would take, in the files of the last checkpoint.

The counters of host records tell what was begun, not what waits, and the queues in memory say
nothing of what is on disk (docs/decisions.md, 2026-11-26). A million URLs take a fifth of a second,
in a thread. Each shard has its part of _MOST_SECS, half of it for what its eliminator has not yet
decided; the rest of its queues is taken to be alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from webcrawl.clock import now
from webcrawl.crawl.job.jobdir import read_checkpoint
from webcrawl.crawl.job.state_directory import shard_path
from webcrawl.frontier import decode
from webcrawl.frontier.view import FrontierView, Where
from webcrawl.seen.seen_view import SeenView
from webcrawl.storage.record_log import count_packed, unpacked
from webcrawl.urls import host_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from webcrawl.crawl.job.state_directory import SavedState

_MOST_SECS: Final = 5.0


def waiting_in(jobdir: Path, host: str, *, covers: Callable[[str], bool], parked: str = "") -> int:
    """About how many URLs wait in the job, or are parked for the reason *parked*, with hosts that
    *covers* takes: those at or below *host*, all if it is empty. Blocks. CorruptRecordError,
    OSError when a checkpoint was made meanwhile."""
    checkpoint = read_checkpoint(jobdir)
    shards = checkpoint.shards if checkpoint else {}
    count = _Count(host.encode(), covers, secs=_MOST_SECS / 2 / max(1, len(shards)))
    return sum(
        count.in_shard(shard_path(jobdir, name), state, parked) for name, state in shards.items()
    )


class _Count:
    """Counts entries with *name* in them, whose host *covers* takes, for *secs* in one place."""

    def __init__(self, name: bytes, covers: Callable[[str], bool], *, secs: float) -> None:
        self._name = name
        self._covers = covers
        self._secs = secs

    def in_shard(self, path: Path, state: SavedState, parked: str) -> int:
        snapshots = state.snapshots
        frontier = FrontierView(
            path=path / "frontier", snapshot=snapshots["frontier"], trust_done=state.trusted
        )
        until = now() + self._secs
        total = looked = found = 0
        for queue in frontier.queues():
            if parked and (queue.where, queue.name) != (Where.PARKED, parked):
                continue
            total += queue.length
            for piece in queue.pieces():
                if now() > until:
                    break
                looked += count_packed(piece)
                if self._name in piece:
                    found += sum(map(self._takes, unpacked(path, 0, piece)))
        found = round(found * total / max(1, looked))
        return found if parked else found + self._undecided(path, snapshots["seen"])

    def _undecided(self, path: Path, snapshot: bytes) -> int:
        seen = SeenView(path=path / "seen", snapshot=snapshot)
        until = now() + self._secs
        found = 0
        try:
            for one in seen.undecided():
                found += self._takes(one.payload)
                if now() > until:
                    break
        finally:
            seen.close()
        return found

    def _takes(self, data: bytes) -> bool:
        return self._name in data and bool(data) and self._covers(host_of(decode(data).url))
