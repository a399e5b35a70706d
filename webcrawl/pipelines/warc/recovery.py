"""Recovery of WARC files that a killed process left: the length of their whole records.

Called by ``WarcWriter`` when it opens. The file is walked gzip member by gzip member, and each is
decompressed, so that its CRC, its length and its record's length have all been checked: no
validator refuses as torn what is accepted here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from isal import isal_zlib

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

_CHUNK: Final = 1 << 16
_HEAD_MAX: Final = 1 << 16
_GZIP_FORMAT: Final = 31
_TERMINATOR: Final = b"\r\n\r\n"
_TYPE: Final = re.compile(rb"\r\nWARC-Type: ([a-z]+)\r\n")
_LENGTH: Final = re.compile(rb"\r\nContent-Length: (\d+)\Z")


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
    start = 0
    pending = b""
    while True:
        member = isal_zlib.decompressobj(_GZIP_FORMAT)
        record = _RecordReader()
        consumed = 0
        while not member.eof:
            data = pending or file.read(_CHUNK)
            pending = b""
            if not data:
                return
            try:
                record.feed(member.decompress(data))
            except isal_zlib.error:  # type: ignore[misc]  # isal's stub takes it for an instance
                return
            pending = member.unused_data
            consumed += len(data) - len(pending)
        kind = record.kind()
        if kind is None:
            return
        start += consumed
        yield start, kind


class _RecordReader:
    """Check of one record, fed in pieces."""

    def __init__(self) -> None:
        self._head = b""
        self._complete = False
        self._block_bytes = 0
        self._tail = b""

    def feed(self, data: bytes) -> None:
        if not self._complete:
            self._head += data
            head, found, data = self._head.partition(_TERMINATOR)
            if not found:
                # What has no end of its head by now is no record: keep the memory bounded.
                self._head = self._head[: _HEAD_MAX + len(_TERMINATOR)]
                return
            self._head = head
            self._complete = True
        self._block_bytes += len(data)
        self._tail = (self._tail + data)[-len(_TERMINATOR) :]

    def kind(self) -> bytes | None:
        """WARC-Type of the record, None if it is not whole."""
        kind = _TYPE.search(self._head)
        length = _LENGTH.search(self._head)
        if not self._complete or kind is None or length is None:
            return None
        if not self._head.startswith(b"WARC/1.") or self._tail != _TERMINATOR:
            return None
        if self._block_bytes != int(length[1]) + len(_TERMINATOR):
            return None
        return kind[1]
