"""Hints: changes of documents that another source reports, such as a sitemap.

A hint is followed by a separate visit, about which only one thing is known at first: that the URL
was fetched before. Looking up more would be a search among all URLs. The result waits in the host
records, by the URL's fingerprint, until the URL is due, and then replaces a visit. At that point,
or at the next hint for the URL, it is known whether the hint was right. Hints of a host that is
mostly wrong are hardly followed any more. A host has at most as many visits because of hints as
URLs of it have come due. No hint for a URL is followed within REVISIT_MIN_SECS of the last one.

A crash can lose a hint, or cause a visit that was not needed.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from webcrawl.configuration.decoding import msgpack_decoder
from webcrawl.frontier import decode, encode
from webcrawl.revisit.history import (
    CHANGED,
    History,
    encode_history,
    history_of,
)
from webcrawl.seen.fingerprint import fingerprint, hexadecimal
from webcrawl.signals import UNCHANGED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from webcrawl.clock import TimeSource
    from webcrawl.frontier import Entry, Frontier
    from webcrawl.hosts.records import HostRecord, HostRecords
    from webcrawl.revisit.visit import Visit
    from webcrawl.revisit.visits import Visits

# Hints of a host that may be followed before its first URL is due; the maximum that it accumulates.
_INITIAL, _MAX_LEFT = 64, 1024


class _Copy(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Result of the last visit because of a hint, and whether all such hints are judged."""

    document: History
    is_judged: bool


_encode = msgspec.msgpack.Encoder().encode
_decode = msgpack_decoder(_Copy)


@dataclasses.dataclass(kw_only=True, eq=False)
class Hints:
    """The hints of one shard.

    *knows* tells whether a URL with a fingerprint was submitted before, with a few reads of 8 kB.
    """

    records: HostRecords
    frontier: Frontier
    visits: Visits
    knows: Callable[[int], bool]
    clock: TimeSource
    _counts: dict[str, int] = dataclasses.field(
        default_factory=lambda: dict.fromkeys(("followed", "right", "wrong"), 0), init=False
    )

    def follow(self, entry: Entry, name: int) -> None:
        """Visit *entry*, whose document has changed according to a hint, if that is worthwhile.

        It is not if its host's hints are mostly wrong, or if the URL is new. *name* is the
        fingerprint with which the URL was submitted, if it ever was.
        """
        record, now = self.records.get(entry.host), int(self.clock())
        followed, judged, right, left = _counts_of(record)
        if not left or (2 * right < judged < followed):
            return
        copy = self._stored_copy(entry) or _Copy(History(), is_judged=False)
        history = replace(copy.document, hinted_at=now)
        is_too_soon = now - copy.document.hinted_at < self.visits.shortest
        if is_too_soon or not self.knows(name):
            return
        record.hints = [followed + 1, judged, right, left - 1]
        self.records.put(record)
        self._counts["followed"] += 1
        self._store(entry, history, is_judged=copy.is_judged)
        self.frontier.push([encode(replace(entry, history=encode_history(history)))])

    def note_visit(self, entry: Entry, visit: Visit) -> None:
        """Record the result of *visit*, which was made because of a hint."""
        before, change, copy = visit.before, visit.change, self._stored_copy(entry)
        if change not in (CHANGED, UNCHANGED):
            self._judge(entry, is_right=None)
            return
        is_judged = bool(before and before.content)
        if is_judged and copy is not None:
            self._judge(entry, is_right=change == CHANGED)
            is_judged = copy.is_judged
        self._store(entry, replace(visit.after, at=int(self.clock())), is_judged=is_judged)

    def select_visits(self, batch: Sequence[bytes]) -> list[bytes]:
        """Return the encoded entries of *batch*, which are due, that must be visited.

        For the others a hint has brought the result since their last visit, and they become due
        again.
        """
        to_visit = []
        for data in batch:
            entry = decode(data)
            record = self.records.get(entry.host)
            if record.hints:
                record.hints = counts = _counts_of(record)
                counts[3] = min(counts[3] + 1, _MAX_LEFT)
                self.records.put(record)
            copy, known = self._stored_copy(entry), history_of(entry)
            if copy is None or known is None:
                to_visit.append(data)
                continue
            latest = copy.document
            times = History(at=latest.at, hinted_at=latest.hinted_at)
            self._store(entry, times, is_judged=True)
            if latest.at <= known.at:
                if latest.at and not copy.is_judged:
                    self._judge(entry, is_right=None)
                to_visit.append(data)
                continue
            is_same = known.holds_document and (
                latest.content in (0, known.content)
                or (latest.text, latest.links) == (known.text, known.links) != (0, 0)
            )
            if not copy.is_judged:
                self._judge(entry, is_right=not is_same)
            found = UNCHANGED if is_same else CHANGED
            if latest.content:
                known = known.with_document(latest)
            self.frontier.count_answer(known.at, latest.at)
            later, at = self.visits.after(entry, known, found, latest.at)
            self.frontier.due.push(encode(later), at)
        return to_visit

    def _stored_copy(self, entry: Entry) -> _Copy | None:
        data = self.records.hints.get(_name(entry))
        return _decode(data) if data else None

    def _store(self, entry: Entry, document: History, *, is_judged: bool) -> None:
        self.records.hints.put(_name(entry), _encode(_Copy(document, is_judged)))

    def _judge(self, entry: Entry, *, is_right: bool | None) -> None:
        """Count whether a hint that was followed was right; None if that is unknown."""
        record = self.records.get(entry.host)
        counts = _counts_of(record)
        if counts[0] <= counts[1]:  # the hint was not counted as followed
            return
        if is_right is None:
            counts[0] -= 1
        else:
            counts[1] += 1
            counts[2] += is_right
            self._counts["right" if is_right else "wrong"] += 1
        record.hints = counts
        self.records.put(record)

    def stats(self) -> dict[str, int]:
        """Return the counters, by their names in the crawl's stats."""
        return {f"hints/{name}": count for name, count in self._counts.items()}


def _counts_of(record: HostRecord) -> list[int]:
    """Return the numbers of hints followed, judged and right, and how many may be followed now."""
    return record.hints + [0, 0, 0, _INITIAL][len(record.hints) :]


def _name(entry: Entry) -> str:
    return hexadecimal(fingerprint(entry.url))
