"""Repair of the frontier: queues and done log without their unreadable records.

What is left of a queue is written into new segments behind the old ones, so that the snapshot that
is live until then stays good.
"""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from webcrawl.frontier.done_log import records_in
from webcrawl.frontier.snapshot import VERSION, decode_snapshot
from webcrawl.jobs.check.frontier import check_done_log, check_queue, good_items, kept_queues
from webcrawl.storage.atomic import make_directory
from webcrawl.storage.fifo import DiskFifo, FifoSnapshot, length_of, segment_file
from webcrawl.storage.record_log import HEADER_SIZE, RecordLog
from webcrawl.wording import counted

if TYPE_CHECKING:
    from pathlib import Path

    from webcrawl.frontier.snapshot import FrontierSnapshot, QueueSnapshot
    from webcrawl.jobs.check.frontier import Kept
    from webcrawl.jobs.check.mending import Mending

_LOST: Final = "what {} bytes told of finished pages, retries and contacts"


def mend_frontier(path: Path, snapshot: bytes, mending: Mending) -> bytes:
    """The snapshot to publish for the frontier in *path*; *snapshot* itself if it is sound.

    When the done log was damaged, every host rests, as when it was last contacted may be lost.
    """
    state = decode_snapshot(snapshot)
    mended = {
        queue.name: _mend_queue(queue, mending)
        for queue in kept_queues(path, state)
        if mending.damaged_by(partial(check_queue, queue))
    }
    if mended:
        state = _with_queues(path, state, mended)
    done = path / "done"
    damaged = mending.damaged_by(partial(check_done_log, done, state.segment))
    if damaged:
        segment = _mend_done_log(done, state, mending, damaged)
        state = forgetting(msgspec.structs.replace(state, segment=segment), mending)
    return msgspec.msgpack.encode(state) if mended or damaged else snapshot


def forgetting(state: FrontierSnapshot, mending: Mending) -> FrontierSnapshot:
    """*state* with contacts until now that may be on no record."""
    # Whatever is said of a clock that was set back meanwhile, see ``FrontierParts.take_up``.
    at = max(mending.clock(), state.saved_at)
    return msgspec.structs.replace(state, version=VERSION, forgotten=at)


def _with_queues(
    path: Path, state: FrontierSnapshot, mended: dict[str, FifoSnapshot]
) -> FrontierSnapshot:
    """*state* with the queues *mended*, by their names, replaced; empty ones are left out."""
    fifos = iter([mended.get(kept.name, kept.fifo) for kept in kept_queues(path, state)])
    return msgspec.structs.replace(
        state,
        levels=[next(fifos) for _ in state.levels],
        parked={word: fifo for word in state.parked if length_of(fifo := next(fifos))},
        due={name: fifo for name in state.due if length_of(fifo := next(fifos))},
        queues=[
            queue if queue.overflow is None else _with_overflow(queue, next(fifos))
            for queue in state.queues
        ],
    )


def _with_overflow(queue: QueueSnapshot, fifo: FifoSnapshot) -> QueueSnapshot:
    if not length_of(fifo):
        return msgspec.structs.replace(queue, overflow=None, number=0)
    return msgspec.structs.replace(queue, overflow=fifo)


def _mend_queue(queue: Kept, mending: Mending) -> FifoSnapshot:
    first = queue.fifo.tail_segment + 1
    aside = mending.aside / "queue.tmp"
    shutil.rmtree(aside, ignore_errors=True)
    mended = DiskFifo(path=aside)
    mended.open(FifoSnapshot([], [], first, HEADER_SIZE, first, 0, 0))
    mended.push_many(queue.fifo.head)
    for _, items in good_items(queue, lambda damage: mending.put_aside(damage[0])):
        mended.push_many(items)
    mended.push_many(queue.fifo.tail)
    length = length_of(queue.fifo)
    mending.lost(
        f"{length - len(mended):,} of {counted(length, 'URL')} that waited in {queue.name}"
    )
    mending.written += [*make_directory(queue.path), queue.path]
    for file in aside.glob("*.log"):
        mending.written.append(file.rename(queue.path / file.name))
    shutil.rmtree(aside, ignore_errors=True)
    old = range(queue.fifo.head_segment, first)
    mending.superseded += [segment_file(queue.path, number) for number in old]
    return mended.snapshot()


def _mend_done_log(
    path: Path, state: FrontierSnapshot, mending: Mending, damaged: set[Path]
) -> int:
    """Write what can be read of the log into a new segment; returns its number."""
    files = sorted(file for file in path.glob("*.log") if int(file.stem) >= state.segment)
    number = max([state.segment, *(int(file.stem) for file in files)]) + 1
    mending.written += [*make_directory(path), path]
    new = path / f"{number:08d}.log"
    with RecordLog.open(new, size=0) as log:
        for file in files:
            if file in damaged:
                mending.put_aside(file)
            for record in mending.records(file, _LOST, records_in):
                log.append(record.payload)
    mending.written.append(new)
    mending.superseded += files
    return number
