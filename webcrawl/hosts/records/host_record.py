"""Host record: the facts about one host, and their encoding on disk.

Invariant: fields are only added at the end, with a default. Fields of a later version are skipped
when a record is decoded.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from webcrawl.configuration.decoding import Seconds, UndecodableError, msgpack_decoder
from webcrawl.storage.record_log import CorruptRecordError

# Maximum number of proven origins. A page may link to 65,535 ports, but hosts respond on one or
# two.
_MAX_PROVEN = 16


class WallShape(msgspec.Struct, array_like=True, gc=False):
    """Shape of pages that may be walls, in place of the real ones (hosts/politeness/walls.py).

    *fingerprint* has 32 bits of the shape. *urls* has one entry for each URL with such a page: at
    most fourteen marks of 34 bits. *outcome* is the outcome of such pages once *urls* has three
    entries.
    """

    fingerprint: int
    outcome: str
    urls: list[list[int]] = []


class RenderVerdict(msgspec.Struct, array_like=True, gc=False):
    """Evidence whether pages of a shape gain by rendering (render/candidates.py).

    *tried* of them were rendered, and *gained* had more text or links. It counts until *until*.
    """

    shape: int
    until: Seconds
    tried: int = 0
    gained: int = 0


class HostRecord(msgspec.Struct, array_like=True, gc=False):
    """The record of one host, or of one of its origins (scheme, host, port) that has failed.

    Times are epoch seconds, durations seconds.

    - *took* has the durations of the last downloads, newest last.
    - *failures* is the number of consecutive failed contacts of the origin, or of the host as a
      whole. *failed_with* is the outcome of the last one, *failed_alike* how often it occurred in a
      row.
    - Until *penalty_until*, the host is not contacted. An origin that backs off separately from its
      host pauses until *ready_at*.
    - *addresses* are valid until *addresses_until*. *lookups_failed* is the number of failed
      look-ups since the last contact.
    - *pages* is the number of downloads, *fresh* of pages with new content, *fruitless* of
      responses without new content.
    - *answered* is the origin that responded last, "" once it has failed. The last contact ended at
      *ended_at* and took *lasted*.
    - *begun* is the number of URLs whose download was started, *received* the total size of their
      bodies in bytes (hosts/budgets/quotas.py).
    - *proven* has the first 16 origins of the host that have responded, without the host's name.
    - *walled* has the number of responses for each of WALLS in net/walls.py, *walls* the last
      shapes that may be walls. *samples* has the outlines of the last pages, in 32 bits each, with
      a text from them. *outlines*, used by earlier versions, lack the text. The host's pause is
      doubled *slowed* times.
    - *hints* has the numbers of hints that were followed, that were judged, that were right, and
      that may still be followed.
    - *validators* has three numbers (revisit/validators.py): 304 responses to conditional requests,
      full responses with an unchanged document before the first 304, and changes that were only
      found by unconditional requests.
    - *rendered* has the verdicts about the last eight shapes of pages that were rendered.
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
    rendered: list[RenderVerdict] = []

    def prove(self, origin: str) -> None:
        """Record that *origin* of this host has responded."""
        name = self._without_host(origin)
        if name not in self.proven and len(self.proven) < _MAX_PROVEN:
            self.proven.append(name)

    def is_unproven(self, origin: str) -> bool:
        """Return whether *origin* of this host has never responded, although another one has."""
        return bool(self.proven) and self._without_host(origin) not in self.proven

    def _without_host(self, origin: str) -> str:
        return origin.replace(self.host, "", 1)


#: Encode a record for the disk: 0.4 us for 100 bytes, and 0.8 us to decode them.
encode = msgspec.msgpack.Encoder().encode
_decode = msgpack_decoder(HostRecord)


def decode(data: bytes, host: str, file: Path) -> HostRecord:
    """Decode *data*, a result of ``encode``.

    Raises CorruptRecordError for other bytes; *host* and *file* are named in its message.
    """
    try:
        return _decode(data)
    except UndecodableError as error:
        raise CorruptRecordError(file, 0, f"invalid record of {host!r} ({error})") from error
