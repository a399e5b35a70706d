"""Visit: the result of fetching a URL, and when to fetch it next. Decided once for each fetch.

It is used by the log of finished URLs, the frontier and the hints. It is decided when all facts
about the response are known: after the page was parsed, or when nothing was sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from webcrawl.frontier import Entry
from webcrawl.hosts.records import HostRecords
from webcrawl.revisit.history import FAILED, GONE, History, visit_result
from webcrawl.revisit.validators import without_useless_validators
from webcrawl.revisit.visits import Visits


class Answer(NamedTuple):
    """Facts about a response on which a visit depends.

    status: the HTTP status.
    change: UNCHANGED or CHANGED if the response is a document or says "not modified"; "" otherwise.
    has_same_bytes: whether the document has the same bytes as at the last visit.
    validators: the fields ``etag`` and ``modified`` of a History.
    copy: the document, as a History with the fields about it; None if there is no document.
    """

    status: int
    change: str
    has_same_bytes: bool
    validators: Mapping[str, str]
    copy: History | None


class Visit(NamedTuple):
    """Result of fetching a URL, and when the next visit is due.

    before: the history of the URL before the visit; None at the first fetch.
    change: UNCHANGED, CHANGED, MOVED, GONE or FAILED; "" for a document at its first fetch.
    after: the history of the URL after the visit.
    due: the entry of the next visit and when it is due, epoch seconds; None if there is none.
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
    """Return the visit of *entry* that ended with *outcome* at the epoch seconds *at*.

    *answer* is None if there was no response. *before* is the history before the visit. *records*
    count whether validators are useful. *visits* schedules the next visit; a visit because of a
    hint gets none, because its URL also has a regular visit.
    """
    change = visit_result(outcome)
    if before is not None:
        change = (answer.change if answer else None) or change or FAILED
        if outcome == "robots_denied" and before.is_denied(at):
            change = GONE

    # The log gets the validators as they were sent, the next visit only those that are useful.
    after = _history_after(before, answer)
    history = after
    due = None
    if answer is not None and (before is not None or visits is not None):
        history = without_useless_validators(after, records, entry, before=before, answer=answer)
    if visits is not None and not after.hinted_at:
        due = visits.next(entry, history, change, outcome=outcome, at=at)

    return Visit(before, change, after, due)


def _history_after(before: History | None, answer: Answer | None) -> History:
    """Return the history of a URL after *answer*, with the last copy of its document."""
    if before is None:
        return (answer and answer.copy) or History()
    if answer is None:
        return before
    if answer.has_same_bytes:  # the same document may come with newer validators
        sent = {name: value for name, value in answer.validators.items() if value}
        return replace(before, **sent)
    return before if answer.copy is None else before.with_document(answer.copy)
