"""Host record: the facts about one host, and their encoding on disk.

Invariant: fields are only ever added at the end, with a default, and fields of a later version are
skipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from webcrawl.configuration.decoding import Seconds, UndecodableError, msgpack_decoder
from webcrawl.storage.record_log import CorruptRecordError

if TYPE_CHECKING:
    from pathlib import Path


# A page may link to 65,535 ports, but hosts answer on one or two.
_MAX_PROVEN = 16


class WallShape(msgspec.Struct, array_like=True, gc=False):
    """The shape of pages that may have replaced the real ones (hosts/politeness/walls.py).

    *fingerprint* is 32 bits of the shape. *outcome* is the outcome of such pages once *urls* has
    three entries: the marks of each, in 34 bits, at most fourteen.
    """

    fingerprint: int
    outcome: str
    urls: list[list[int]] = []


class HostRecord(msgspec.Struct, array_like=True, gc=False):
    """The record of one host, or of one of its origins (scheme, host, port) that has failed.

    Times are epoch seconds, durations seconds.

    - *took* has the durations of the last downloads, newest last.
    - *failures* counts consecutive failed contacts of the origin, or of the host as a whole.
      *failed_with* is the outcome of the last one, *failed_alike* how many in a row had it.
    - *penalty_until* is the end of the time in which it is not contacted. An origin that backs off
      alone rests until *ready_at*.
    - *addresses* are valid until *addresses_until*; *lookups_failed* counts failures of the name
      servers since the last contact.
    - *pages* counts downloads, *fresh* pages of new content, *fruitless* answers without any.
    - *answered* is the origin that answered last, "" once it has failed. The last contact ended at
      *ended_at* and took *lasted*.
    - *begun* counts URLs whose download was begun, *received* the bytes of their bodies
      (hosts/budgets/quotas.py).
    - *proven* are the first 16 origins of the host that have answered, without its name.
    - *walled* counts answers by WALLS of net/walls.py, *walls* are the last shapes that may be
      walls. *samples* are the outlines of the last pages, in 32 bits each, with a text from them.
      *outlines*, of earlier versions, are without the text. The rest of the host is doubled
      *slowed* times.
    - *hints* counts hints that were followed, that were judged, that were right, and how many may
      be followed now.
    - *validators* counts 304 answers to conditional requests, full answers with an unchanged
      document until the first 304, and changes that only other requests found
      (revisit/validators.py).
    """

    host: str
    took: list[Seconds] = []
    failures: int = 0
    ready_at: Seconds = 0.0
    pages: int = 0
    addresses: list[str] = []
    addresses_until: Seconds = 0.0
    penalty_until: Seconds = 0.0
    lookups_failed: int = 0
    fresh: int = 0
    fruitless: int = 0
    failed_with: str = ""
    failed_alike: int = 0
    answered: str = ""
    ended_at: Seconds = 0.0
    lasted: Seconds = 0.0
    begun: int = 0
    received: int = 0
    proven: list[str] = []
    walled: list[int] = []
    walls: list[WallShape] = []
    outlines: bytes = b""
    slowed: int = 0
    hints: list[int] = []
    validators: list[int] = []
    samples: list[bytes] = []

    def prove(self, origin: str) -> None:
        """Note that *origin* of this host has answered."""
        name = self._without_host(origin)
        if name not in self.proven and len(self.proven) < _MAX_PROVEN:
            self.proven.append(name)

    def is_unproven(self, origin: str) -> bool:
        """Return whether *origin* of this host has never answered, although another one has."""
        return bool(self.proven) and self._without_host(origin) not in self.proven

    def _without_host(self, origin: str) -> str:
        return origin.replace(self.host, "", 1)


#: Encode a record for the disk: 0.4 us for 100 bytes, and 0.8 us to decode them.
encode = msgspec.msgpack.Encoder().encode
_decode = msgpack_decoder(HostRecord)


def decode(data: bytes, host: str, file: Path) -> HostRecord:
    """Decode the result of ``encode``.

    Raises CorruptRecordError, which names *host* and *file*, for other bytes.
    """
    try:
        return _decode(data)
    except UndecodableError as error:
        raise CorruptRecordError(file, 0, f"invalid record of {host!r} ({error})") from error
