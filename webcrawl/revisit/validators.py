"""Validators (ETag, Last-Modified), sent back to a host as long as they are useful and truthful.

One visit in ten does not use them, chosen by a hash of its entry. A host's validators are no longer
used in three cases:

- The host sent eight unchanged documents in full before its first 304 response.
- A changed document has the same validators as before. If they are weak, only a changed text
  counts.
- Three changes were found, all by visits without validators: the host always responds with 304.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from webcrawl.frontier.entry import key
from webcrawl.revisit.history import CHANGED, History
from webcrawl.signals import UNCHANGED

if TYPE_CHECKING:
    from webcrawl.frontier import Entry
    from webcrawl.hosts.records import HostRecords
    from webcrawl.revisit.visit import Answer

_NOT_MODIFIED = 304
# Number of unchanged documents that a host may send in full before its validators are dropped.
_TRIES = 8
# Validators are dropped after this many changes, all found without validators. That happens by
# chance to one of a thousand honest hosts.
_MAX_HIDDEN = 3
# One of this many visits does not use validators.
_ONE_IN = 10


def conditional_headers(entry: Entry, history: History, records: HostRecords) -> dict[str, str]:
    """Return the conditional header fields of a request for *entry* with this *history*.

    There are none if the document should be sent in full even if it has not changed.
    """
    is_unconditional = key(entry) % _ONE_IN == 0 or _are_dropped(records.get(entry.host).validators)
    return {} if is_unconditional else history.headers()


def without_useless_validators(
    history: History,
    records: HostRecords,
    entry: Entry,
    *,
    before: History | None,
    answer: Answer,
) -> History:
    """Return *history*, without its validators if those of the host of *entry* are useless.

    The decision is updated from the last *answer* and the history *before* it.
    """
    record = records.get(entry.host)
    if before is not None and before.headers() and not _are_dropped(record.validators):
        is_unconditional = not conditional_headers(entry, before, records)
        record.validators = _counts_after(
            record.validators, before, answer, is_unconditional=is_unconditional
        )
        records.put(record)

    return replace(history, etag="", modified="") if _are_dropped(record.validators) else history


def _counts_after(
    counts: Sequence[int], before: History, answer: Answer, *, is_unconditional: bool
) -> list[int]:
    """Return the *counts* about a host's validators after *answer* to a repeat visit.

    They are the numbers of 304 responses, of unchanged documents sent in full, and of hidden
    changes: those that were found without validators. *before* is the history before the visit,
    and *is_unconditional* says that its request had no validators.
    """
    useful, useless, hidden = (*counts, 0, 0, 0)[:3]
    is_wrong = False
    name = "etag" if before.etag else "modified"
    if answer.change == UNCHANGED and not (is_unconditional or useful):
        useful += answer.status == _NOT_MODIFIED
        useless += answer.status != _NOT_MODIFIED
    elif answer.change == CHANGED and answer.validators.get(name) == getattr(before, name):
        # With a weak validator, other bytes are no error, but another text is. Texts were compared
        # only if the fingerprint of the earlier one is known.
        is_wrong = bool(before.text or before.etag.startswith('"'))
    elif answer.change == CHANGED:
        # A change found by a conditional request shows that the host responds truthfully, so that
        # many more hidden ones are needed before it counts as wrong.
        hidden = hidden + 1 if is_unconditional else -_ONE_IN
        is_wrong = hidden == _MAX_HIDDEN
    # Wrong validators are dropped like useless ones: by counts that have reached the limit.
    return [0, _TRIES] if is_wrong else [useful, useless, hidden]


def _are_dropped(counts: Sequence[int]) -> bool:
    """Return whether a host's validators are no longer used, from the *counts* in its record."""
    return bool(counts) and not counts[0] and counts[1] >= _TRIES
