"""Compares every contact with the previous one of the same politeness key.

Contacts must be in the order of their starts. For each key, a few numbers, two contacts and the
ends of the requests under way are kept. So memory grows with the number of keys, not of lines.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from webcrawl.jobs.audit.log_line import MICRO, LoggedRequest

if TYPE_CHECKING:
    from collections.abc import Callable


class Violation(NamedTuple):
    """A contact that began too early after another one. Times are in microseconds."""

    key: str
    before: LoggedRequest
    after: LoggedRequest
    gap: int  # from the end of `before` to the start of `after`; negative if they overlap
    due: int  # the required delay


class Agreement(NamedTuple):
    """What the owner of a host has agreed to; see HOSTS_POLICY_FILE.

    delay: the required delay in seconds, if it is longer than the general one.
    allows: whether *delay* replaces the general delay even if it is shorter.
    parts: how many requests may be under way at the same time. After each, this many delays must
        pass.
    """

    delay: float | None = None
    allows: bool = False
    parts: int = 1


class RequiredDelays(NamedTuple):
    """The delay required after a contact: *min_delay* in seconds, or the owner's agreement.

    *agreement* returns the agreement for a host.
    """

    min_delay: float
    agreement: Callable[[str], Agreement] = lambda _: Agreement()

    def after(self, contact: LoggedRequest) -> int:
        """Return the delay required after *contact*, in microseconds."""
        due = self.min_delay
        agreed = self.agreement(contact.host)
        if agreed.delay is not None:
            due = agreed.delay if agreed.allows else max(due, agreed.delay)
        # The parts take turns, so each one waits for as many delays as there are parts.
        return round(due * MICRO) * agreed.parts


@dataclass(slots=True)
class KeyRecord:
    """Contacts, gaps and violations of one politeness key. Times are in microseconds."""

    holder: LoggedRequest  # the contact whose delay ends at free_at
    last_start: int
    last_end: int
    contacts: int = 0
    smallest: int | None = None  # the smallest gap; None until there is a second contact
    concurrency: int = 0  # the largest number of requests under way at the same time
    due: int = 0  # the longest delay that was required
    violations: int = 0
    free_at: int = 0  # when the delays of all contacts so far have passed
    ends: list[int] = field(default_factory=list)  # a heap: the ends of requests under way


class Auditor:
    """Counts contacts and violations, and keeps the *keep* worst violations.

    *key* returns the politeness key of a contact. Contacts must be added in the order of their
    starts. A contact that is out of order is checked if it overlaps the last one of its key;
    otherwise it is only counted in ``unjudged``.
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
        self.first: int | None = None  # the earliest start; None before the first contact
        self.last = 0  # the latest end
        # A heap, the least bad violation first: the missing part of the delay, a number that breaks
        # ties, and the violation.
        self._worst: list[tuple[int, int, Violation]] = []

    def add(self, contact: LoggedRequest) -> None:
        """Check *contact* and record it. Takes O(log n) for n requests under way."""
        key = self._key_of_part(self._key(contact), contact.host)
        record = self.keys.get(key)
        if record is None:
            record = KeyRecord(contact, contact.start, contact.end)
            self.keys[key] = record

        self.contacts += 1
        self.last = max(self.last, contact.end)
        if self.first is None or contact.start < self.first:
            self.first = contact.start
        record.contacts += 1
        if record.contacts > 1:
            # It is out of order and ends before the last one starts, so they cannot be compared.
            if contact.start < record.last_start and contact.end <= record.last_start:
                self.unjudged += 1
                return
            gap = contact.start - record.last_end
            if record.smallest is None or gap < record.smallest:
                record.smallest = gap

            missing = record.free_at - contact.start
            if missing > 0:
                self._add_violation(key, record, contact, missing)
        self._update_record(record, contact)

    def _key_of_part(self, key: str, host: str) -> str:
        """Return the key of the part of *host* that is free first, or *key* if it has one part.

        The log does not say which part the crawler used. As all parts have the same delay, no other
        choice gives fewer violations.
        """
        parts = self._delays.agreement(host).parts
        if parts == 1 or key != host:  # domains and addresses are not divided
            return key
        keys = [f"{host}#{part}" for part in range(parts)]
        return min(keys, key=lambda key: self.keys[key].free_at if key in self.keys else 0)

    def worst_violations(self) -> list[Violation]:
        """Return the kept violations, the worst first; equally bad ones in the order of time."""
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

    def _add_violation(
        self, key: str, record: KeyRecord, contact: LoggedRequest, missing: int
    ) -> None:
        """Record that *contact* came too early, by *missing* microseconds."""
        self.violations += 1
        record.violations += 1
        before = record.holder
        due = record.free_at - before.end
        violation = Violation(key, before, contact, contact.start - before.end, due)
        # Of equally bad violations, the earlier ones are kept.
        heappush(self._worst, (missing, -self.violations, violation))
        if len(self._worst) > self._keep:
            heappop(self._worst)

    def _update_record(self, record: KeyRecord, contact: LoggedRequest) -> None:
        """Update *record* with *contact*, so that the next contact is compared with it."""
        due = self._delays.after(contact)
        record.due = max(record.due, due)
        if contact.end + due >= record.free_at:
            record.free_at = contact.end + due
            record.holder = contact
        record.last_start = max(record.last_start, contact.start)
        record.last_end = max(record.last_end, contact.end)

        # What remains in the heap are the requests under way.
        ends = record.ends
        while ends and ends[0] <= contact.start:
            heappop(ends)
        heappush(ends, contact.end)
        record.concurrency = max(record.concurrency, len(ends))
