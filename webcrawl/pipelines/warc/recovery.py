"""Recovery of WARC files that a killed process left: the length of their whole records.

Called by ``WarcWriter`` when it opens. The file is walked gzip member by gzip member, and each is
decompressed: a member is one record, which is whole if the member's CRC and length are right.
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
# What records.py begins each record with; a page's own gzip body may be stored as it is.
_HEAD = re.compile(rb"WARC/1\.1\r\nWARC-Type: ([a-z]+)\r\n")
_HEAD_BYTES = 64


def whole_length(path: Path) -> tuple[int, int]:
    """Bytes of *path* up to the end of its last whole set of records, and the number of sets.

    A set ends with its metadata record. (0, 0) if not even the warcinfo is whole. Memory is bounded
    whatever the size of the records; about 8 s per GB of small records, less of large ones.
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
    """(offset after it, WARC-Type) of each record, until the first that is not whole."""
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
            except isal_zlib.error:  # type: ignore[misc]  # isal's stub takes it for an instance
                return
            pending = member.unused_data
            end += len(data) - len(pending)
        record = _HEAD.match(head)
        if record is None:
            return
        yield end, record[1]
