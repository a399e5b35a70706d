"""Validators (ETag, Last-Modified), sent back to a host while they are useful and truthful.

One visit in ten does without them, chosen by a hash of its entry. A host's validators are dropped
for good in three cases:

- Eight unchanged documents were sent in full before the first 304.
- A changed document has the same validators as before (only the text counts if they are weak).
- Three changes were found, all by visits without validators: the host answers 304 to everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from webcrawl.frontier.entry import key
from webcrawl.revisit.history import CHANGED
from webcrawl.signals import UNCHANGED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webcrawl.frontier import Entry
    from webcrawl.hosts.records import HostRecords
    from webcrawl.revisit.history import History
    from webcrawl.revisit.visit import Answer

_NOT_MODIFIED = 304
# Unchanged documents that a host sends whole before its validators are dropped.
_TRIES = 8
# Changes found only without validators. One of a thousand honest hosts has as many by chance.
_HIDDEN = 3
_ONE_IN = 10


def conditions(entry: Entry, known: History, records: HostRecords) -> dict[str, str]:
    """Return the conditional fields of the request for *entry*, whose document is *known*.

    There are none if it should be sent in full whether it has changed or not.
    """
    is_whole = key(entry) % _ONE_IN == 0 or _are_dropped(records.get(entry.host).validators)
    return {} if is_whole else known.headers()


def keep_useful(
    known: History,
    records: HostRecords,
    entry: Entry,
    *,
    before: History | None,
    answer: Answer,
) -> History:
    """Return *known*, without validators if those of the host of *entry* are useless.

    That depends on the last *answer* and on what was known *before* it.
    """
    record = records.get(entry.host)
    if before is not None and before.headers() and not _are_dropped(record.validators):
        useful, useless, hidden = (*record.validators, 0, 0, 0)[:3]
        is_whole, is_lie = not conditions(entry, before, records), False
        name = "etag" if before.etag else "modified"
        if answer.change == UNCHANGED and not (is_whole or useful):
            useful += answer.status == _NOT_MODIFIED
            useless += answer.status != _NOT_MODIFIED
        elif answer.change == CHANGED and answer.validators.get(name) == getattr(before, name):
            is_lie = bool(before.text or before.etag.startswith('"'))
        elif answer.change == CHANGED:
            hidden = hidden + 1 if is_whole else -_ONE_IN
            is_lie = hidden == _HIDDEN
        record.validators = [0, _TRIES] if is_lie else [useful, useless, hidden]
        records.put(record)
    return replace(known, etag="", modified="") if _are_dropped(record.validators) else known


def _are_dropped(counts: Sequence[int]) -> bool:
    """Return whether *counts*, of a host's record, say that its validators were dropped."""
    return bool(counts) and not counts[0] and counts[1] >= _TRIES
