"""Recovery of WARC files that a killed process left: the length of their whole records.

Called by ``WarcWriter`` when it opens. The file is read one gzip member at a time, and each is
decompressed. A member is one record; it is complete if the member's CRC and length are right.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from isal import isal_zlib

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

_CHUNK = 1 << 16
_GZIP_FORMAT = 31
# How records.py begins each record. The gzip body of a page may be stored as it is, but is not one.
_HEAD = re.compile(rb"WARC/1\.1\r\nWARC-Type: ([a-z]+)\r\n")
_HEAD_BYTES = 64


def whole_length(path: Path) -> tuple[int, int]:
    """Return the length of *path* up to the end of its last whole set of records, and their number.

    A set ends with its metadata record. (0, 0) if not even the warcinfo record is complete. Memory
    is bounded whatever the size of the records. Takes about 8 s per GB of small records, less for
    large ones.
    """
    length = sets = 0
    with path.open("rb") as file:
        for end, kind in whole_records(file):
            if kind == b"warcinfo" and length == 0:
                length = end
            elif kind == b"metadata":
                length = end
                sets += 1
    return length, sets


def whole_records(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield (offset of its end, WARC-Type) of each record, until the first incomplete one."""
    end = 0
    pending = b""
    while True:
        member = isal_zlib.decompressobj(_GZIP_FORMAT)
        head = b""
        while not member.eof:
            data = pending or file.read(_CHUNK)
            if not data:
                return
            try:
                head += member.decompress(data)[: _HEAD_BYTES - len(head)]
            except isal_zlib.error:  # type: ignore[misc]  # isal's stub says it is an instance
                return
            pending = member.unused_data
            end += len(data) - len(pending)
        record = _HEAD.match(head)
        if record is None:
            return
        yield end, record[1]
