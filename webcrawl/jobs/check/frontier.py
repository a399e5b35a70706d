"""Checks the frontier's files: the queues in its snapshot, and the done log written since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.frontier.done_log import done_log_files, records_in
from webcrawl.frontier.entry import decode
from webcrawl.frontier.overflow import overflow_path
from webcrawl.frontier.snapshot import FrontierSnapshot, decode_snapshot
from webcrawl.storage.fifo import FifoSnapshot, length_of, read_fifo
from webcrawl.storage.record_log import CorruptRecordError, unpack_many
from webcrawl.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from webcrawl.jobs.check.findings import Findings

_DONE_LOG_LOST = (
    "pages finished then may be fetched again; retries postponed then and pauses of hosts "
    "contacted then are lost"
)
_IGNORED = "it is ignored"


def check_frontier(path: Path, snapshot: bytes, findings: Findings) -> None:
    """Check the files in the directory *path* of the frontier in *snapshot*."""
    state = decode_snapshot(snapshot)
    for name, queue_path, fifo in _queues_on_disk(path, state):
        _check_queue(name, queue_path, fifo, findings)
    _check_done_log(path / "done", state.segment, findings)


def _queues_on_disk(
    path: Path, state: FrontierSnapshot
) -> Iterator[tuple[str, Path, FifoSnapshot]]:
    """Yield all queues in *state* that may have files; *path* is the frontier's directory.

    Each is its name in the report, its directory, and its snapshot.
    """
    for number, fifo in enumerate(state.levels, start=1):
        yield f"level {number}", path / "front" / f"{number:02d}", fifo
    for reason, fifo in state.parked.items():
        yield f"URLs parked for {reason}", path / "parked" / reason, fifo
    for name, fifo in state.due.items():  # a name is "due_" and the hour since the epoch
        yield f"URLs that are {name.replace('_', ' in hour ')}", path / "due" / name, fifo
    for queue in state.queues:
        if queue.overflow is not None:
            overflow = overflow_path(path / "back", queue.number)
            yield f"host {queue.host}", overflow, queue.overflow


def _check_queue(name: str, path: Path, fifo: FifoSnapshot, findings: Findings) -> None:
    """Check the files of the queue *name* in *path*, and add what is damaged to *findings*."""
    damaged: list[CorruptRecordError] = []
    readable = 0
    length = length_of(fifo)
    for packed in read_fifo(path, fifo, damaged.append):
        findings.on_progress(len(packed))
        try:
            items = unpack_many(packed)
            for item in items:
                decode(item)
        except ValueError as error:
            damaged.append(CorruptRecordError(path, 0, str(error)))
        else:
            readable += len(items)

    # Damage may be anywhere in a queue, so its consequence is known only now.
    missing = length - readable
    if missing and not damaged:
        problem = f"{readable:,} entries instead of {length:,}"
        damaged.append(CorruptRecordError(path, 0, problem))
    consequence = f"{missing:,} of {counted(length, 'URL')} waiting in {name} cannot be read"
    for damage in damaged:
        findings.add(damage.path, damage.offset, damage.why, consequence)


def _check_done_log(path: Path, first: int, findings: Findings) -> None:
    """Check the segments of the done log at *path*; *first* is the first one after the snapshot."""
    files = done_log_files(path, first)
    if not files:
        findings.add(path / f"{first:08d}.log", 0, "the file is gone", _DONE_LOG_LOST)
    for file in files:
        findings.records(file, _DONE_LOG_LOST, records_in)
    # The segments in *files* follow each other without a gap; others are not read by a crawl.
    for file in sorted(path.glob("*.log")):
        if file not in files and int(file.stem) > first:
            findings.add_since(file, 0, "a segment before this one is missing", _IGNORED)
