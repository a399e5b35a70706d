"""Contacts in the order of their beginnings; logs have them in the order of their ends.

Between the logs and the auditor. The invariant: at most *window* contacts are held, whatever the
log. What it assumes: no request was still under way when *window* later ones had been logged. At
a thousand requests a second that is two minutes for the default window; a contact that breaks it
is noticed by the auditor, which finds it older than what it has seen of its key.
"""

from __future__ import annotations

from heapq import heappop, heappush, heappushpop
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from webcrawl.jobs.audit.lines import Contact

WINDOW: Final = 1 << 17
"""Contacts held at once: about 60 MB. Logs of up to so many lines may be in any order."""


def by_start(contacts: Iterable[Contact], *, window: int = WINDOW) -> Iterator[Contact]:
    """*contacts* sorted by start, then by end, then as they came."""
    heap: list[tuple[int, int, int, Contact]] = []
    for number, contact in enumerate(contacts):
        entry = (contact.start, contact.end, number, contact)
        if len(heap) < window:
            heappush(heap, entry)
        else:
            yield heappushpop(heap, entry)[3]
    while heap:
        yield heappop(heap)[3]
