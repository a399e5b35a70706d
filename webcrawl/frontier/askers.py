"""Queues of one host for what pages of certain domains ask of it, a queue for each domain.

*Foreign* pages are known only from pages of other domains. *Subresources* are what pages need to be
rendered, and may also be asked for by pages of the host's own domain. A page may name thousands of
URLs of any host, and must not keep that host from its own pages. So the domains that ask take turns
in what back_queue.py leaves to them. In each queue, what was asked for first is first.
"""

from __future__ import annotations

from webcrawl.frontier.overflow import Overflows
from webcrawl.storage.fifo import DiskFifo

# Domains with a queue of their own. All others share one, under this name.
_MAX_DOMAINS = 64
_OTHERS = ""
# Above this number of queues on disk, domains share a queue. They have up to 4 kB in memory.
_MAX_QUEUES = 1 << 13


class Askers:
    """Queues by domain, which are *overflows*. Not thread-safe. None of them is empty.

    Up to 32 entries of each queue are in memory, the others on disk (overflow.py).
    """

    def __init__(self, overflows: Overflows) -> None:
        self._overflows = overflows
        #: By the domain that asks. The domain whose turn is next is the first.
        self.queues: dict[str, DiskFifo] = {}

    def __len__(self) -> int:
        return sum(map(len, self.queues.values()))

    def __bool__(self) -> bool:
        return bool(self.queues)

    def push(self, domain: str, data: bytes, *, ahead: bool = False) -> None:
        """Add the encoded entry *data* to the queue of *domain*; *ahead* of the others there."""
        queues = self.queues
        if domain not in queues and (
            len(queues) >= _MAX_DOMAINS or self._overflows.in_use >= _MAX_QUEUES
        ):
            domain = _OTHERS
        if domain not in queues:
            queues[domain] = self._overflows.take()
        (queues[domain].push_front if ahead else queues[domain].push)(data)

    def pop(self, domain: str) -> bytes | None:
        """Remove and return the next entry of *domain*; None if there is none."""
        queue = self.queues.pop(domain, None)
        if queue is None:
            return None
        data = queue.pop()
        if queue:
            self.queues[domain] = queue  # as the last one: the other domains come first
        else:
            self._overflows.retire(queue)
        return data

    def pop_next(self, *, without: str | None = None) -> bytes | None:
        """Remove and return the entry whose turn it is, of any domain but *without*."""
        domain = next((domain for domain in self.queues if domain != without), None)
        return None if domain is None else self.pop(domain)
