"""Note of a finished URL in the frontier's done log: what a restart has to know of its page.

Written with the URL's finish (completion.py) and read when the log is replayed (shard.py).
Format, little-endian; of a page without content that counts there is no note::

    note := version u8 (1), content u64, fields of later versions
    note := content u64                                            before version 1

Later versions add fields at the end, and are never eight bytes long.
"""

from __future__ import annotations

import struct
from typing import Final

from webcrawl.storage.record_log import NewerFormatError

_VERSION: Final = 1
_NOTE: Final = struct.Struct("<BQ")
_OLD_SIZE: Final = 8


def encode_note(content: int) -> bytes:
    """*content* is the fingerprint of the page's document, 0 for none that counts as seen."""
    return _NOTE.pack(_VERSION, content) if content else b""


def content_of(note: bytes) -> int:
    """The fingerprint in *note*, 0 without. Raises NewerFormatError, struct.error."""
    if len(note) in {0, _OLD_SIZE}:
        return int.from_bytes(note, "little")
    version, content = _NOTE.unpack_from(note)
    if version > _VERSION:
        raise NewerFormatError(
            f"the done log's notes have format {version}, this webcrawl reads up to {_VERSION}: "
            "use the newer webcrawl that wrote them"
        )
    return int(content)
