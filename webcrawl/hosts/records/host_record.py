"""Host record: the facts about one host, and their bytes on disk.

Invariant: fields are only ever added at the end with a default, and fields of a later version are
skipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from webcrawl.configuration.decoding import Seconds, UndecodableError, msgpack_decoder
from webcrawl.storage.record_log import CorruptRecordError

if TYPE_CHECKING:
    from pathlib import Path


# A page may name 65,535 ports; hosts answer on one or two.
_MOST_PROVEN = 16


class WallShape(msgspec.Struct, array_like=True, gc=False):
    """The shape of pages that may stand in other pages' place (hosts/politeness/walls.py).

    *fingerprint* is 32 bits of it, *outcome* what such a page is once *urls* has three: the marks
    of each, in 34 bits, at most fourteen.
    """

    fingerprint: int
    outcome: str
    urls: list[list[int]] = []


class HostRecord(msgspec.Struct, array_like=True, gc=False):
    """The record of one host, or of one of its origins (scheme, host, port) that has failed.

    Times are epoch seconds. *took* has the last downloads in seconds, the newest last. *failures*
    counts contacts in a row that failed, of the origin, or of any one of the host; *failed_with* is
    the outcome of the last one, *failed_alike* how many in a row had it, *penalty_until* the end of
    the time in which it is left alone. An origin that backs off alone rests until *ready_at*.
    *addresses* hold until *addresses_until*; *lookups_failed* counts failures of the name servers
    since the last contact. *pages* counts downloads, *fresh* pages of new content, *fruitless*
    answers with none. *answered* is the origin that answered last, "" once it has failed. The last
    contact was over at *ended_at*, and had taken *lasted* seconds. *begun* counts URLs whose
    download was begun, *received* bytes of their bodies (hosts/budgets/quotas.py). *proven* are
    origins of the host that have answered, without its name; the first 16 of them. *walled* counts
    answers by WALLS of net/walls.py, *walls* are the last shapes that may be walls, *samples* the
    outlines of the last pages, in 32 bits each, with a text from them; *outlines* were without. The
    rest of the host is doubled *slowed* times. *hints* counts those that were followed, that were
    judged, that were right, and how many may be followed now; *validators* the answers of 304 to
    conditional requests, and the whole ones though the document was as before, until the first 304,
    and the changes that only other requests have found, see revisit/validators.py.
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
        name = self._short(origin)
        if name not in self.proven and len(self.proven) < _MOST_PROVEN:
            self.proven.append(name)

    def is_unproven(self, origin: str) -> bool:
        """Whether *origin* of this host has never answered, but another one has."""
        return bool(self.proven) and self._short(origin) not in self.proven

    def _short(self, origin: str) -> str:
        return origin.replace(self.host, "", 1)


#: The bytes of a record on disk: 0.4 us for 100 bytes, and 0.8 us to decode them.
encode = msgspec.msgpack.Encoder().encode
_decode = msgpack_decoder(HostRecord)


def decode(data: bytes, host: str, file: Path) -> HostRecord:
    """The record of ``encode``. CorruptRecordError, which names *host* and *file*, for other
    bytes."""
    try:
        return _decode(data)
    except UndecodableError as error:
        raise CorruptRecordError(file, 0, f"no record of {host!r} ({error})") from error
