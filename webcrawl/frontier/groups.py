"""Groups of entries that differ only in the paths of their URLs: links of a page to one origin.

The gates judge a group at a time (admission.py). Groups are found in the encoded entries: they are
equal before the path of the URL and after the URL.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from webcrawl.frontier.entry import Entry, decode
from webcrawl.urls.registered_domain import registered_domain

# An encoded entry begins with its type, and then a string, the URL: the type of the string with or
# before its length, the URL up to the path, and its path, which is ASCII. The next field is no
# ASCII, as it begins with the type of a string.
_SHARED = re.compile(
    rb".(?:[\xa0-\xbf]|\xd9.|\xda..|\xdb....)([^/]*//[^/]*/)[\0-\x7f]*(.*)", re.DOTALL
)
# The type of a string with a length of one byte.
_STR_8 = 0xD9


class Group(NamedTuple):
    """A group in a batch of entries.

    first: the first entry.
    indexes: the indexes of all of them in the batch, ascending.
    """

    first: Entry
    indexes: list[int]


def groups_of(batch: Sequence[bytes]) -> list[Group]:
    """Return the groups of the encoded entries in *batch*.

    URLs of the same registered domain may take room from each other. So the groups of a domain
    follow each other: an entry after one of another group starts a new group.
    """
    groups: list[Group] = []
    by_shared: dict[tuple[bytes, bytes], Group] = {}
    last_of: dict[str, Group] = {}
    # What the entries of the last group share, and their indexes.
    server = b""
    fields = b""
    indexes: list[int] = []
    for index, data in enumerate(batch):
        # A quick test, because most entries are of the same group as the one before.
        if data[1] == _STR_8 and data.startswith(server, 3) and data[3 + data[2] :] == fields:
            indexes.append(index)
            continue
        server, fields = shared_of(data)
        group = by_shared.get((server, fields))
        if group is None or last_of[registered_domain(group.first.host)] is not group:
            group = Group(decode(data), [])
            groups.append(group)
            by_shared[server, fields] = group
            last_of[registered_domain(group.first.host)] = group
        indexes = group.indexes
        indexes.append(index)
    return groups


def shared_of(data: bytes) -> tuple[bytes, bytes]:
    """Return what the encoded entry *data* shares with the others of its group.

    That is the start of its URL, up to the path, and the fields that follow the URL.
    """
    match = _SHARED.fullmatch(data)
    return (match[1], match[2]) if match else (data, b"")
