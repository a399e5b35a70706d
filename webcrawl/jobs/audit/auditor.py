"""Auditor: compares every contact with the one before it of the same politeness key.

Contacts come in the order of their starts. Of each key a few numbers are kept, two contacts and the
ends of the requests under way: memory grows with the number of keys, not of lines.
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
    """A contact that began before the delay after an earlier one was over. Microseconds."""

    key: str
    before: LoggedRequest
    after: LoggedRequest
    gap: int  # from the end of the one to the start of the other; negative: both at once
    due: int


class Agreement(NamedTuple):
    """Terms that a host's owner has agreed to, see HOSTS_POLICY_FILE.

    *delay* in seconds is due beside the others, or in their place if the owner *allows* that. As
    many requests as it has *parts* may be under way, each followed by as many delays.
    """

    delay: float | None = None
    allows: bool = False
    parts: int = 1


class RequiredDelays(NamedTuple):
    """Delays due after contacts: *min_delay* in seconds, or by host what its owner agreed to."""

    min_delay: float
    agreement: Callable[[str], Agreement] = lambda _: Agreement()

    def after(self, contact: LoggedRequest) -> int:
        """The delay that is due after *contact*, in microseconds."""
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
    smallest: int | None = None  # gap; None as long as there was one contact only
    concurrency: int = 0  # the most requests under way at once
    due: int = 0  # the longest delay that was due
    violations: int = 0
    free_at: int = 0  # when the delays of all contacts so far are over
    ends: list[int] = field(default_factory=list)  # a heap: of the requests under way


class Auditor:
    """Counts contacts and violations, and keeps the *keep* worst violations.

    *key* gives the politeness key of a contact. Contacts come sorted by start. One that comes too
    late for that is judged if it overlaps the last one of its key; otherwise it is counted in
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
        self.first: int | None = None  # the first beginning and the last end
        self.last = 0
        # A heap, the least bad first: how much of the pause was missing, a number to break ties.
        self._worst: list[tuple[int, int, Violation]] = []

    def add(self, contact: LoggedRequest) -> None:
        """Judge *contact*. O(log of the requests under way)."""
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
        """The key of the part of a host that is free first. With equal delays no other choice has
        fewer violations, so it need not be the one that the crawler took."""
        parts = self._delays.agreement(host).parts
        if parts == 1 or key != host:
            return key
        keys = [f"{host}#{part}" for part in range(parts)]
        return min(keys, key=lambda key: self.keys[key].free_at if key in self.keys else 0)

    def worst(self) -> list[Violation]:
        """The violations that were kept, the worst first, equally bad ones in their order."""
        return [violation for *_, violation in sorted(self._worst, reverse=True)]

    @property
    def concurrency(self) -> int:
        """The most requests of one key under way at once."""
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
        # Of equally bad ones the earlier are kept.
        heappush(self._worst, (missing, -self.violations, violation))
        if len(self._worst) > self._keep:
            heappop(self._worst)

    def _enter(self, record: KeyRecord, contact: LoggedRequest) -> None:
        """Make *contact* the one that the next is compared with."""
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
