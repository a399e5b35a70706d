"""Trap record: the patterns of a host, and their bytes in the store.

Invariant: fields are only ever added at the end with a default, and fields of a later version are
skipped.
"""

from __future__ import annotations

import msgspec


class PatternRecord(msgspec.Struct, array_like=True):
    """One pattern and its counts.

    *fresh* and *seen* count its recent documents with new content, and with content seen before,
    since the first of the latter. It is parked until *parked_until*, epoch seconds, 0: free.
    *times* counts how often in a row it was parked.
    """

    pattern: str
    fresh: int = 0
    seen: int = 0
    parked_until: float = 0.0
    times: int = 0


class HostPatterns(msgspec.Struct, array_like=True):
    """The patterns of one host, by name; the one that has waited longest for a page first."""

    patterns: list[PatternRecord] = []

    def find(self, pattern: str) -> PatternRecord | None:
        """The record of *pattern*, if there is one."""
        for record in self.patterns:
            if record.pattern == pattern:
                return record
        return None


class TrapCounts(msgspec.Struct, array_like=True):
    """Counts over all hosts.

    Patterns that are *parked* now; how often one was parked, and tried again, since the crawl
    began.
    """

    parked: int = 0
    learned: int = 0
    tried_again: int = 0


#: The bytes of ``HostPatterns`` or ``TrapCounts`` in the store.
encode = msgspec.msgpack.Encoder().encode
#: Their inverses. msgspec.DecodeError for other bytes.
decode = msgspec.msgpack.Decoder(HostPatterns).decode
decode_counts = msgspec.msgpack.Decoder(TrapCounts).decode
