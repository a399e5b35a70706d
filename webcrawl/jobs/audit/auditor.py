"""Auditor that compares every contact with the previous one of the same politeness key.

Contacts must be in the order of their starts. For each key, a few numbers, two contacts and the
ends of the requests under way are kept: memory grows with the number of keys, not of lines.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from webcrawl.jobs.audit.log_line import MICRO

if TYPE_CHECKING:
    from collections.abc import Callable

    from webcrawl.jobs.audit.log_line import LoggedRequest


class Violation(NamedTuple):
    """Contact that began before the delay after an earlier one was over. Times in microseconds."""

    key: str
    before: LoggedRequest
    after: LoggedRequest
    gap: int  # from the end of `before` to the start of `after`; negative if they overlap
    due: int


class Agreement(NamedTuple):
    """Terms to which a host's owner has agreed, see HOSTS_POLICY_FILE.

    *delay* in seconds is required in addition to the general one, or replaces it if the owner
    *allows* that. As many requests as there are *parts* may be under way, and as many delays must
    pass after each.
    """

    delay: float | None = None
    allows: bool = False
    parts: int = 1


class RequiredDelays(NamedTuple):
    """Delays required after contacts: *min_delay* in seconds, or what a host's owner agreed to."""

    min_delay: float
    agreement: Callable[[str], Agreement] = lambda _: Agreement()

    def after(self, contact: LoggedRequest) -> int:
        """Return the delay required after *contact*, in microseconds."""
        due, agreed = self.min_delay, self.agreement(contact.host)
        if agreed.delay is not None:
            due = agreed.delay if agreed.allows else max(due, agreed.delay)
        return round(due * MICRO) * agreed.parts


@dataclass(slots=True)
class KeyRecord:
    """Contacts, gaps and violations of one politeness key. Times in microseconds."""

    holder: LoggedRequest  # the contact whose delay lasts until free_at
    last_start: int
    last_end: int
    contacts: int = 0
    smallest: int | None = None  # gap; None until there is a second contact
    concurrency: int = 0  # the largest number of requests under way at the same time
    due: int = 0  # the longest delay that was required
    violations: int = 0
    free_at: int = 0  # when the delays of all contacts so far are over
    ends: list[int] = field(default_factory=list)  # a heap: of the requests under way


class Auditor:
    """Counter of contacts and violations, which keeps the *keep* worst violations.

    *key* returns the politeness key of a contact. Contacts must be sorted by start. One that is out
    of order is checked if it overlaps the last one of its key; otherwise it is counted in
    ``unjudged``.
    """

    def __init__(
        self, *, key: Callable[[LoggedRequest], str], delays: RequiredDelays, keep: int
    ) -> None:
        self._key = key
        self._delays = delays
        self._keep = keep
        self.keys: dict[str, KeyRecord] = {}
        self.contacts = 0
        self.violations = 0
        self.unjudged = 0
        self.first: int | None = None  # the earliest start
        self.last = 0  # the latest end
        # A heap, the least bad first: missing part of the pause, a number to break ties, violation.
        self._worst: list[tuple[int, int, Violation]] = []

    def add(self, contact: LoggedRequest) -> None:
        """Check *contact*. O(log of the requests under way)."""
        key = self._part(self._key(contact), contact.host)
        record = self.keys.get(key)
        if record is None:
            record = self.keys[key] = KeyRecord(contact, contact.start, contact.end)
        self._note(contact)
        record.contacts += 1
        if record.contacts > 1:
            if contact.start < record.last_start and contact.end <= record.last_start:
                self.unjudged += 1
                return
            gap = contact.start - record.last_end
            if record.smallest is None or gap < record.smallest:
                record.smallest = gap
            missing = record.free_at - contact.start
            if missing > 0:
                self._violated(key, record, contact, missing)
        self._enter(record, contact)

    def _part(self, key: str, host: str) -> str:
        """Return the key of the part of a host that is free first.

        With equal delays no other choice gives fewer violations, so it does not matter which part
        the crawler used.
        """
        parts = self._delays.agreement(host).parts
        if parts == 1 or key != host:
            return key
        keys = [f"{host}#{part}" for part in range(parts)]
        return min(keys, key=lambda key: self.keys[key].free_at if key in self.keys else 0)

    def worst(self) -> list[Violation]:
        """Return the kept violations, the worst first, equally bad ones in the order of time."""
        return [violation for *_, violation in sorted(self._worst, reverse=True)]

    @property
    def concurrency(self) -> int:
        """The largest number of requests of one key under way at the same time."""
        return max((record.concurrency for record in self.keys.values()), default=0)

    @property
    def smallest(self) -> int | None:
        """The smallest gap of all keys, in microseconds; None if no key had two contacts."""
        gaps = (record.smallest for record in self.keys.values() if record.smallest is not None)
        return min(gaps, default=None)

    def _note(self, contact: LoggedRequest) -> None:
        self.contacts += 1
        self.last = max(self.last, contact.end)
        if self.first is None or contact.start < self.first:
            self.first = contact.start

    def _violated(self, key: str, record: KeyRecord, contact: LoggedRequest, missing: int) -> None:
        self.violations += 1
        record.violations += 1
        before = record.holder
        due = record.free_at - before.end
        violation = Violation(key, before, contact, contact.start - before.end, due)
        # Among equally bad ones, the earlier are kept.
        heappush(self._worst, (missing, -self.violations, violation))
        if len(self._worst) > self._keep:
            heappop(self._worst)

    def _enter(self, record: KeyRecord, contact: LoggedRequest) -> None:
        """Make *contact* the one with which the next is compared."""
        due = self._delays.after(contact)
        record.due = max(record.due, due)
        if contact.end + due >= record.free_at:
            record.free_at = contact.end + due
            record.holder = contact
        record.last_start = max(record.last_start, contact.start)
        record.last_end = max(record.last_end, contact.end)
        ends = record.ends
        while ends and ends[0] <= contact.start:
            heappop(ends)
        heappush(ends, contact.end)
        record.concurrency = max(record.concurrency, len(ends))
