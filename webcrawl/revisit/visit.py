"""Visit: the result of a fetch, on which the next one depends; decided once.

It is used by the log of finished URLs, the frontier and the hints. It is made when everything about
the answer is known: after its page was read, or when nothing was sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from webcrawl.revisit.history import FAILED, GONE, History, visited
from webcrawl.revisit.validators import keep_useful

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webcrawl.frontier import Entry
    from webcrawl.hosts.records import HostRecords
    from webcrawl.revisit.visits import Visits


class Answer(NamedTuple):
    """Facts of an answer that a visit depends on.

    status: its HTTP status. change: UNCHANGED or CHANGED if it is a document, or says that the
    document is the same; else "". is_same: the document has the same bytes as at the last visit.
    validators: the fields ``etag`` and ``modified`` of a History. copy: the document, as the fields
    of a History; None if there is none.
    """

    status: int
    change: str
    is_same: bool
    validators: Mapping[str, str]
    copy: History | None


class Visit(NamedTuple):
    """Result of a fetch of a URL, and when the next one is due.

    before: its history until then; None if it was not finished before. change: UNCHANGED, CHANGED,
    MOVED, GONE or FAILED; "" for a document at its first fetch. after: its history from now on.
    due: the entry of its next visit, and when that is due in epoch seconds; None if it has none.
    """

    before: History | None
    change: str
    after: History
    due: tuple[Entry, float] | None


def decide(
    entry: Entry,
    outcome: str,
    answer: Answer | None,
    *,
    before: History | None,
    at: float,
    records: HostRecords,
    visits: Visits | None,
) -> Visit:
    """Return the visit of *entry* that ended *at* epoch seconds with *outcome*.

    *answer* is None if there was none. *records* count whether validators are useful. *visits* sets
    the next visit. A visit because of a hint has none, as its URL is due separately.
    """
    change = visited(outcome)
    if before is not None:
        change = (answer and answer.change) or change or FAILED
        if outcome == "robots_denied" and before.is_denied(at):
            change = GONE
    after = _after(before, answer)
    known, due = after, None
    if answer is not None and (before is not None or visits is not None):
        known = keep_useful(after, records, entry, before=before, answer=answer)
    if visits is not None and not after.hinted_at:
        due = visits.next(entry, known, change, outcome=outcome, at=at)
    return Visit(before, change, after, due)


def _after(before: History | None, answer: Answer | None) -> History:
    if before is None:  # the other fields are those of a new history
        return (answer and answer.copy) or History()
    if answer is None:
        return before
    if answer.is_same:
        sent = {name: value for name, value in answer.validators.items() if value}
        return replace(before, **sent)
    return before if answer.copy is None else before.with_document(answer.copy)
