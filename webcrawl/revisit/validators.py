"""Validators: kept in the entries of a host that answers 304 to them, or was not tried often."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from webcrawl.hosts.records import HostRecords
    from webcrawl.revisit.history import History

_NOT_MODIFIED = 304
# Unchanged documents that a host sends whole before its validators are dropped.
_TRIES = 8


def keep_useful(
    known: History,
    records: HostRecords,
    host: str,
    *,
    before: History | None,
    is_same: bool,
    status: int,
) -> History:
    """*known* without validators if those of *host* are of no use. It was known *before* the last
    answer, with *status*, which says whether the document *is_same*."""
    record = records.get(host)
    useful, useless = record.validators or (0, 0)
    if is_same and not useful and before is not None and before.headers():
        useful += status == _NOT_MODIFIED
        useless += status != _NOT_MODIFIED
        record.validators = [useful, useless]
        records.put(record)
    return known if useful or useless < _TRIES else replace(known, etag="", modified="")
