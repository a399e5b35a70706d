"""Finds the complete records in WARC files that a killed process left behind.

Used by ``WarcWriter`` when it opens. The file is read and decompressed one gzip member at a time.
Each member is one record, which is complete if the member's CRC and length are right.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO

from isal import isal_zlib

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_CHUNK = 1 << 16
_GZIP_FORMAT = 31
# The beginning of each record that records.py makes. A page with a gzip body may contain other gzip
# members, which are not records.
_RECORD_START = re.compile(rb"WARC/1\.1\r\nWARC-Type: ([a-z]+)\r\n")
_START_BYTES = 64


def whole_length(path: Path) -> tuple[int, int]:
    """Return the length of *path* up to its last complete set of records, and the number of sets.

    A set has the records of one page and ends with its metadata record. Returns (0, 0) if not even
    the warcinfo record is complete.
    Memory is bounded for records of every size. Takes about 8 s per GB of small records,
    less for large ones.
    """
    length = 0
    sets = 0
    with path.open("rb") as file:
        for end, kind, _ in whole_records(file):
            if kind == b"warcinfo" and length == 0:  # the file's first record is a set of its own
                length = end
            elif kind == b"metadata":
                length = end
                sets += 1
    return length, sets


def whole_records(
    file: BinaryIO, *, start_bytes: int = _START_BYTES
) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield end offset, WARC-Type and beginning of each record, up to the first incomplete one.

    *file* is a WARC file whose records are gzip members. The offset is that in *file*, and the
    beginning has at most *start_bytes*, decompressed.
    """
    end = 0
    pending = b""  # bytes that were read but belong to the next member
    while True:
        member = isal_zlib.decompressobj(_GZIP_FORMAT)
        start = b""
        while not member.eof:
            data = pending or file.read(_CHUNK)
            if not data:
                return
            try:
                start += member.decompress(data)[: start_bytes - len(start)]
            except isal_zlib.error:  # type: ignore[misc]  # isal's stub says it is an instance
                return
            pending = member.unused_data
            end += len(data) - len(pending)
        match = _RECORD_START.match(start)
        if match is None:
            return
        yield end, match[1], start
