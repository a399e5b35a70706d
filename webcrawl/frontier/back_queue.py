"""A back-end queue: the waiting URLs of one host.

Made, routed to and dropped by the back end only. The invariant: the entries in ``items`` come
before all entries in ``body``, and a body is never empty.

Most hosts have a handful of URLs waiting, so a queue is a short list. The few with thousands
(Mercator's design is flooded by them) spill everything beyond ``INLINE`` entries into a DiskFifo
of their own, which again keeps only its head and tail in memory.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import msgspec

from webcrawl.storage.fifo import FifoSnapshot  # noqa: TC001 - msgspec reads the annotation

if TYPE_CHECKING:
    from collections.abc import Callable

    from webcrawl.frontier.domain_share import Domain
    from webcrawl.storage.fifo import DiskFifo

# Entries kept in the list. With the head and tail of the body (bodies.py) no host holds more than
# 48 entries, about 6 kB, in memory.
INLINE = 16


class State(enum.Enum):
    """Where a back-end queue is; Heritrix's words."""

    READY = "ready"  # in line to be handed out
    SNOOZED = "snoozed"  # in the heap until its ready_at
    IN_PROCESS = "in process"  # handed out: in neither
    HELD = "held"  # ready, but its domain has its share of the workers: in neither


class QueueSnapshot(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A back-end queue on disk. Times are epoch seconds; *contact* is 0 unless in process.

    *number* is that of the body's directory, 0 without a body.
    """

    host: str
    ready_at: float
    contact: float
    least: float
    items: list[bytes]
    number: int
    body: FifoSnapshot | None


class BackQueue:
    """FIFO of one host's encoded entries, with the host's politeness state. Not thread-safe."""

    __slots__ = (
        "body",
        "contact",
        "domain",
        "host",
        "is_far",
        "items",
        "journaled",
        "least",
        "ready_at",
        "saved",
        "state",
    )

    def __init__(
        self, host: str, domain: Domain, ready_at: float, least: float, saved: int
    ) -> None:
        self.host = host
        self.domain = domain
        # From when the host may be contacted, epoch seconds.
        self.ready_at = ready_at
        # When the present contact began, while in process.
        self.contact = 0.0
        # Whether the last rest was so long that nobody should wait for the host, see Supply.
        self.is_far = False
        # The last rest that was asked for explicitly (robots.txt, Retry-After), in seconds.
        self.least = least
        # The segment of the done log that holds the contact which is about to begin.
        self.journaled = 0
        # The last snapshot that has this queue as it was then, or was begun before it was made.
        self.saved = saved
        self.state = State.READY
        # A list, not a deque: an empty deque takes 600 bytes, and pop(0) of 16 costs nothing.
        self.items: list[bytes] = []
        self.body: DiskFifo | None = None

    def __len__(self) -> int:
        return len(self.items) + (0 if self.body is None else len(self.body))

    def __bool__(self) -> bool:
        return bool(self.items) or self.body is not None

    def push(self, data: bytes, new_body: Callable[[], DiskFifo]) -> None:
        """Append *data*; *new_body* is called to make a body when the list is full."""
        if self.body is None:
            if len(self.items) < INLINE:
                self.items.append(data)
                return
            self.body = new_body()
        self.body.push(data)

    def pop_body(self) -> bytes:
        """Remove and return the oldest entry when ``items`` is empty; the body may now be empty
        (see ``drained``)."""
        assert self.body is not None, f"the queue of {self.host} is empty"
        return self.body.pop()

    def drained(self) -> DiskFifo | None:
        """Take away the body if it is empty: it is then the caller's to retire."""
        body = self.body
        if body is None or len(body):
            return None
        self.body = None
        return body
