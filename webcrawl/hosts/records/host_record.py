"""Host record: the facts about one host, and their bytes on disk.

Invariant: fields are only ever added at the end with a default, and fields of a later version are
skipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from webcrawl.storage.record_log import CorruptRecordError

if TYPE_CHECKING:
    from pathlib import Path


class HostRecord(msgspec.Struct, array_like=True):
    """The record of one host, or of one of its origins (scheme, host, port) that has failed.

    A new one has the defaults.

    *took* are the times of the last downloads in seconds, the newest last; *failures* counts
    contacts in a row that failed, of the origin, or of any one of the host; *ready_at* is when it
    may be contacted again and *addresses_until* until when *addresses* hold, *penalty_until* until
    when nothing is asked of what has failed too often, epoch seconds; *pages* counts all downloads,
    *lookups_failed* the look-ups since the last contact for which the name servers failed; *fresh*
    counts pages of new content, *fruitless* answers with none; *failed_with* is the outcome of the
    last of the *failures*, *failed_alike* how many of them in a row had it; *answered* is the
    origin that answered last, "" once it has failed.
    """

    host: str
    took: list[float] = []
    failures: int = 0
    ready_at: float = 0.0
    pages: int = 0
    addresses: list[str] = []
    addresses_until: float = 0.0
    penalty_until: float = 0.0
    lookups_failed: int = 0
    fresh: int = 0
    fruitless: int = 0
    failed_with: str = ""
    failed_alike: int = 0
    answered: str = ""


#: The bytes of a record on disk: 0.4 us for 100 bytes, and 0.8 us to decode them.
encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(HostRecord).decode


def decode(data: bytes, host: str, file: Path) -> HostRecord:
    """The record of ``encode``. CorruptRecordError, which names *host* and *file*, for other
    bytes."""
    try:
        return _decode(data)
    except msgspec.DecodeError as error:
        raise CorruptRecordError(file, 0, f"no record of {host!r} ({error})") from error
