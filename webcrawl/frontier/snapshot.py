"""The frontier's snapshot: the part of its state that is not in its files.

Made and taken up by the frontier, stored by whoever publishes it. The invariant: all times are
epoch seconds and all entries are encoded, so that a snapshot means the same to every process.
"""

from __future__ import annotations

import msgspec

from webcrawl.frontier.back_queue import QueueSnapshot  # noqa: TC001 - msgspec reads the annotation
from webcrawl.storage.fifo import FifoSnapshot  # noqa: TC001 - msgspec reads the annotation
from webcrawl.storage.records import NewerFormatError

# 1: no shared clocks, and all rests in the snapshot. 2: nothing is parked.
VERSION = 3


class Counts(msgspec.Struct):
    """What happened since the crawl began, as of the last snapshot after a ``kill -9``."""

    pushed: int = 0
    requeued: int = 0
    moved: int = 0
    popped: int = 0
    put_back: int = 0
    finished: int = 0
    skipped: int = 0
    expired: int = 0
    refused: int = 0
    held: int = 0
    admitted: int = 0


class FrontierSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """As msgpack array. What is missing at the end has its default: a new frontier.

    *segment* is the done log's that begins with the snapshot, *limit* is n. *remembered* are
    resting hosts without a queue and resting shared clocks, with ready_at and least, as far as
    they are not in the files of the rest store. *finished* are the keys of finished entries that
    will be met again (finished.py). *shared* are the shared clocks that are held, since when.
    *parked* are the queues of what waits for a reason, by reason.
    """

    version: int = VERSION
    saved_at: float = 0.0
    segment: int = 1
    levels: list[FifoSnapshot] = []
    queues: list[QueueSnapshot] = []
    limit: int = 1
    leased: list[bytes] = []
    remembered: list[tuple[str, float, float]] = []
    finished: bytes = b""
    counts: Counts = msgspec.field(default_factory=Counts)
    shared: list[tuple[str, float]] = []
    parked: dict[str, FifoSnapshot] = {}


class _Version(msgspec.Struct, array_like=True):
    """The start of every snapshot, readable whatever follows."""

    version: int


def decode_snapshot(data: bytes) -> FrontierSnapshot:
    """Raises NewerFormatError, or msgspec.DecodeError when *data* is no snapshot."""
    version = msgspec.msgpack.decode(data, type=_Version).version
    if version > VERSION:
        raise NewerFormatError(
            f"the frontier's snapshot has format {version}, this webcrawl reads up to {VERSION}: "
            "use the newer webcrawl that wrote it"
        )
    return msgspec.msgpack.decode(data, type=FrontierSnapshot)
