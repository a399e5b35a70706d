"""Subresources of one host that wait, and the turns in which they are handed out.

A page that is rendered may ask for hundreds of URLs of any host, and must not keep that host from
its own pages. So subresources wait in queues of their own, one for each registered domain whose
pages have asked for them. In each of them, what was asked for first is first. While pages of the
host wait, at most every other contact is with a subresource, and at most every fourth one with a
subresource that pages of another domain have asked for. These domains take turns.

A turn ends with a contact. So entries that are put back, dropped or refused use up no turn.

The queues are in no snapshot. After a restart the renderer asks again for what its pages wait for.
Up to 32 entries of each queue are in memory, the others on disk (overflow.py).
"""

from __future__ import annotations

from webcrawl.frontier.entry import Entry, encode
from webcrawl.frontier.overflow import Overflows
from webcrawl.storage.fifo import DiskFifo
from webcrawl.urls.registered_domain import domain_of, registered_domain

# While pages wait, the first and the third of four turns are theirs in any case.
_TURNS = 4
_OWN_TURN = 1
_FOREIGN_TURN = 3


class Subresources:
    """Queues of the waiting subresources of *host*, which are *overflows*. Not thread-safe."""

    def __init__(self, host: str, overflows: Overflows) -> None:
        self._domain = registered_domain(host)
        self._overflows = overflows
        # By the domain that asks; the domain whose turn is next is the first.
        self._queues: dict[str, DiskFifo] = {}
        # The current turn, from 0 to 3; see the constants.
        self._turn = 0
        #: Whether the last entry that left the host's queue, a page or not, was not put back.
        self.is_turn_given = False

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def __bool__(self) -> bool:
        return bool(self._queues)

    def push(self, entry: Entry, *, ahead: bool = False) -> None:
        """Add *entry* to the queue of the domain that asks for it; *ahead* of the others there."""
        domain = domain_of(entry.via)
        queue = self._queues.get(domain)
        if queue is None:
            queue = self._overflows.take()
            self._queues[domain] = queue
        (queue.push_front if ahead else queue.push)(encode(entry))

    def pop(self, *, may_wait: bool) -> bytes | None:
        """Remove and return the next entry. It *may_wait* if pages do: None if it is their turn."""
        domain = self._next_domain(may_wait=may_wait)
        if domain is None:
            return None
        queue = self._queues.pop(domain)
        data = queue.pop()
        if queue:
            self._queues[domain] = queue  # as the last one: the other domains come first
        else:
            self._overflows.retire(queue)
        return data

    def _next_domain(self, *, may_wait: bool) -> str | None:
        """Return the domain whose subresource is next, or None if it is the turn of a page.

        In the foreign turn, the host's own domain may take the place of others. If no page waits,
        all other turns are open to both, first to the own domain.
        """
        own = self._domain if self._domain in self._queues else None
        foreign = next((domain for domain in self._queues if domain != own), None)
        if self._turn == _FOREIGN_TURN:
            return own if foreign is None else foreign
        if may_wait:
            return own if self._turn == _OWN_TURN else None
        return foreign if own is None else own

    def note_contact(self) -> None:
        """End the turn if the entry that it was given to was contacted."""
        self._turn = (self._turn + self.is_turn_given) % _TURNS
        self.is_turn_given = False
