"""Hints: what others say of documents that have changed since their last visit, such as a sitemap.

A hint is followed by a visit of its own, of which nothing is known but that the URL was fetched
before: to look that up would be a search among all URLs. What it finds waits in the host records,
by the URL's fingerprint, until the URL is due: its entry takes that over in place of a visit, and
the hint is judged, so that those of a host that is mostly wrong are hardly followed any more.

What is lost by a crash is a hint, or a visit that could have been left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from webcrawl.frontier import decode, encode
from webcrawl.revisit.history import (
    CHANGED,
    OF_DOCUMENT,
    History,
    decode_history,
    encode_history,
    history_of,
)
from webcrawl.seen.fingerprint import fingerprint, hexadecimal
from webcrawl.signals import UNCHANGED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from webcrawl.frontier import Entry, Frontier
    from webcrawl.hosts.records import HostRecords
    from webcrawl.revisit.visits import Visits

# Hints of a host that are followed before the first of them is judged.
_OPEN: Final = 64


class Hints:
    """The hints of one shard.

    *knows* tells whether a URL with a fingerprint was submitted before, by a few reads of 8 kB.
    """

    def __init__(
        self,
        *,
        records: HostRecords,
        frontier: Frontier,
        visits: Visits,
        knows: Callable[[int], bool],
        clock: Callable[[], float],
    ) -> None:
        self._records = records
        self._frontier = frontier
        self._visits = visits
        self._knows = knows
        self._clock = clock
        self._counts = dict.fromkeys(("followed", "right", "wrong"), 0)

    def follow(self, entry: Entry, name: int) -> bool:
        """The document of *entry*, whose URL was submitted as *name* if it ever was, has changed:
        it is visited, if its host's hints are worth it. False for a new URL."""
        record = self._records.get(entry.host)
        followed, judged, right = record.hints or (0, 0, 0)
        if followed - judged >= (_OPEN + right if 2 * right >= judged else 1):
            return True
        if not self._knows(name):
            return False
        record.hints = [followed + 1, judged, right]
        self._records.put(record)
        self._counts["followed"] += 1
        history = encode_history(History(hinted_at=int(self._clock())))
        self._frontier.push([encode(replace(entry, history=history))])
        return True

    def visited(self, entry: Entry, known: History, found: str) -> None:
        """The visit of *entry* for a hint has *found* something, and *known* is known of its
        document now."""
        if found in (CHANGED, UNCHANGED):
            row = replace(known, at=int(self._clock()))
            self._records.hints.put(_name(entry), encode_history(row))
        else:
            self._judge(entry, None)

    def take_over(self, batch: Sequence[bytes]) -> list[bytes]:
        """Those of *batch*, encoded entries that are due, that are to be visited; the others are
        due again, by what a hint has brought since their last visit."""
        left = []
        for data in batch:
            entry = decode(data)
            name = _name(entry)
            row, known = self._records.hints.get(name), history_of(entry)
            if not row or known is None:
                left.append(data)
                continue
            self._records.hints.put(name, b"")
            since = decode_history(row)
            if since.at <= known.at:
                self._judge(entry, None)
                left.append(data)
                continue
            is_same = since.content in (0, known.content) or (
                since.text != 0 and (since.text, since.links) == (known.text, known.links)
            )
            self._judge(entry, not is_same)
            found = UNCHANGED if is_same else CHANGED
            if since.content:
                document = {field: getattr(since, field) for field in OF_DOCUMENT}
                known = replace(known, **document)
            due = self._visits.after_hint(entry, known, found, at=since.at)
            if due is not None:
                self._frontier.due.push(encode(due[0]), due[1])
        return left

    def _judge(self, entry: Entry, is_right: bool | None) -> None:
        """A hint that was followed was right or not; None: that is not known."""
        record = self._records.get(entry.host)
        followed, judged, right = record.hints or (0, 0, 0)
        if followed <= judged:  # it was of another kind
            return
        if is_right is None:
            record.hints = [followed - 1, judged, right]
        else:
            record.hints = [followed, judged + 1, right + is_right]
            self._counts["right" if is_right else "wrong"] += 1
        self._records.put(record)

    def stats(self) -> dict[str, int]:
        """Under their names in the crawl's statistics."""
        return {f"hints/{name}": count for name, count in self._counts.items()}


def _name(entry: Entry) -> str:
    return hexadecimal(fingerprint(entry.url))
