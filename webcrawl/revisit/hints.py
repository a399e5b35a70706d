"""Hints: reports by another source, such as a sitemap, that a document has changed.

A hint leads to a separate visit of the URL. All that is known then is that the URL was fetched
before, because finding its history would mean searching all URLs. The result is stored in the host
records under the URL's fingerprint. When the URL is due, the result replaces its regular visit. At
that point, or at the next hint for the URL, it becomes known whether the hint was right. If most
hints of a host are wrong, few of its hints are followed. A host gets at most as many visits because
of hints as it had URLs come due. What other domains say about it is counted apart. After a hint for
a URL was followed, no other hint for the URL is followed within REVISIT_MIN_SECS.

A crash can lose a hint, or cause an unnecessary visit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from webcrawl.clock import TimeSource
from webcrawl.configuration.decoding import msgpack_decoder
from webcrawl.frontier import Entry, Frontier, decode, encode
from webcrawl.frontier.entry import FOREIGN
from webcrawl.hosts.records import HostRecord, HostRecords
from webcrawl.revisit.history import (
    CHANGED,
    History,
    encode_history,
    history_of,
)
from webcrawl.revisit.visit import Visit
from webcrawl.revisit.visits import Visits
from webcrawl.seen.fingerprint import fingerprint, hexadecimal
from webcrawl.signals import UNCHANGED

# Number of a host's hints that may be followed before its first URL is due, and the maximum number
# that may be followed later.
_INITIAL_ALLOWANCE = 64
_MAX_ALLOWANCE = 1024
# Positions of the numbers in ``HostRecord.hints``, see ``_counts_of``.
_FOLLOWED, _JUDGED, _RIGHT, _ALLOWANCE = range(4)


class _HintResult(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Result of the last visit of a URL because of a hint.

    *is_judged* tells whether it was counted as right or wrong already, *is_foreign* whether another
    domain gave the hint.
    """

    document: History
    is_judged: bool
    is_foreign: bool = False


_encode = msgspec.msgpack.Encoder().encode
_decode = msgpack_decoder(_HintResult)


@dataclass(kw_only=True, eq=False)
class Hints:
    """Follows the hints for the URLs of one shard.

    *knows* returns whether a URL with a fingerprint was submitted before; it reads a few blocks of
    8 kB.
    """

    records: HostRecords
    frontier: Frontier
    visits: Visits
    knows: Callable[[int], bool]
    clock: TimeSource
    _counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("followed", "right", "wrong"), 0), init=False
    )

    def follow(self, entry: Entry, fp: int) -> None:
        """Follow a hint that the document of *entry* has changed: queue a visit if worthwhile.

        It is not worthwhile if the URL is new, was visited for a hint very recently, or if most
        hints of its host are wrong. *fp* is the fingerprint with which the URL is submitted.
        """
        is_foreign = entry.foreign == FOREIGN
        record = self.records.get(_account(entry.host, is_foreign=is_foreign))
        now = int(self.clock())
        followed, judged, right, allowance = _counts_of(record)
        # If most hints were wrong, one more is followed only when all others have been judged.
        if not allowance or (2 * right < judged < followed):
            return

        last = self._stored_result(entry) or _HintResult(History(), is_judged=False)
        history = replace(last.document, hinted_at=now)
        is_too_soon = now - last.document.hinted_at < self.visits.shortest
        if is_too_soon or not self.knows(fp):
            return

        record.hints = [followed + 1, judged, right, allowance - 1]
        self.records.put(record)
        self._counts["followed"] += 1
        self._store(entry, _HintResult(history, last.is_judged, is_foreign))
        self.frontier.push([encode(replace(entry, history=encode_history(history)))])

    def note_visit(self, entry: Entry, visit: Visit) -> None:
        """Record the result of *visit*, which was made because of a hint.

        A visit without a useful response does not show whether the hint was right.
        """
        before = visit.before
        change = visit.change
        last = self._stored_result(entry)
        is_foreign = entry.foreign == FOREIGN
        if change not in (CHANGED, UNCHANGED):
            self._judge(entry.host, is_foreign=is_foreign, is_right=None)
            return

        # If the earlier document is known, this hint can be judged now. Otherwise it is judged when
        # the URL is due.
        is_judged = bool(before and before.content)
        if is_judged and last is not None:
            self._judge(entry.host, is_foreign=is_foreign, is_right=change == CHANGED)
            is_judged = last.is_judged  # an earlier hint may still have to be judged
        document = replace(visit.after, at=int(self.clock()))
        self._store(entry, _HintResult(document, is_judged, is_foreign))

    def select_visits(self, batch: Sequence[bytes]) -> list[bytes]:
        """Return the entries of *batch* that must be visited. All of them are encoded and due.

        The other entries were visited because of a hint since their last regular visit. The result
        of that visit is used, and the entries are scheduled again.
        """
        to_visit = []
        for data in batch:
            entry = decode(data)
            self._raise_allowance(entry.host)
            if not self._use_result(entry):
                to_visit.append(data)
        return to_visit

    def _raise_allowance(self, host: str) -> None:
        """Let one more hint of *host* be followed, because one of its URLs has come due.

        And one more that another domain gives.
        """
        for is_foreign in (False, True):
            record = self.records.get(_account(host, is_foreign=is_foreign))
            if record.hints:
                counts = _counts_of(record)
                counts[_ALLOWANCE] = min(counts[_ALLOWANCE] + 1, _MAX_ALLOWANCE)
                record.hints = counts
                self.records.put(record)

    def _use_result(self, entry: Entry) -> bool:
        """Use the result of a visit because of a hint as that of the regular visit of *entry*.

        Judges the hint and schedules the next visit. Returns False if there was no such visit since
        the last regular one, so that *entry* must be visited.
        """
        result = self._stored_result(entry)
        history = history_of(entry)
        if result is None or history is None:
            return False

        # From now on, only the time of the last hint is needed, to limit further hints.
        latest = result.document
        times = History(at=latest.at, hinted_at=latest.hinted_at)
        self._store(entry, _HintResult(times, is_judged=True))
        if latest.at <= history.at:
            if latest.at and not result.is_judged:
                self._judge(entry.host, is_foreign=result.is_foreign, is_right=None)
            return False

        # The document is the same if its bytes are, or else if its text and links are known and
        # are. Without a fingerprint, the visit found it unchanged.
        is_same = history.holds_document and (
            latest.content in (0, history.content)
            or (latest.text, latest.links) == (history.text, history.links) != (0, 0)
        )
        if not result.is_judged:
            self._judge(entry.host, is_foreign=result.is_foreign, is_right=not is_same)

        change = UNCHANGED if is_same else CHANGED
        if latest.content:
            history = history.with_document(latest)
        self.frontier.counts.answer(history.at, latest.at)
        later, due_at = self.visits.after(entry, history, change, latest.at)
        self.frontier.due.push(encode(later), due_at)
        return True

    def _stored_result(self, entry: Entry) -> _HintResult | None:
        data = self.records.hints.get(_key_of(entry))
        return _decode(data) if data else None

    def _store(self, entry: Entry, result: _HintResult) -> None:
        self.records.hints.put(_key_of(entry), _encode(result))

    def _judge(self, host: str, *, is_foreign: bool, is_right: bool | None) -> None:
        """Count a hint that was followed as right or wrong; None if that cannot be known."""
        record = self.records.get(_account(host, is_foreign=is_foreign))
        counts = _counts_of(record)
        if counts[_FOLLOWED] <= counts[_JUDGED]:  # the hint was not counted as followed
            return

        if is_right is None:
            counts[_FOLLOWED] -= 1
        else:
            counts[_JUDGED] += 1
            counts[_RIGHT] += is_right
            self._counts["right" if is_right else "wrong"] += 1

        record.hints = counts
        self.records.put(record)

    def stats(self) -> dict[str, int]:
        """Return the counters, keyed by their names in the crawl's stats."""
        return {f"hints/{name}": count for name, count in self._counts.items()}


def _counts_of(record: HostRecord) -> list[int]:
    """Return the numbers of hints followed, judged, right, and that may still be followed now."""
    return record.hints + [0, 0, 0, _INITIAL_ALLOWANCE][len(record.hints) :]


def _account(host: str, *, is_foreign: bool) -> str:
    """Return the name of the record that counts hints about *host*, by its own domain or others."""
    return f"{host}!" if is_foreign else host


def _key_of(entry: Entry) -> str:
    """Return the key of *entry* among the stored results."""
    return hexadecimal(fingerprint(entry.url))
