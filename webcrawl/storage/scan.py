"""Scan of damaged record logs: every good record, and the gaps between them.

For checking a job; the crawl itself stops at damage (record_log.py). Invariant: each byte of a file
from *start* on is in exactly one of the pieces, in order, and the payload of a ``FoundRecord`` has
a matching checksum.

After damage the next good record is usually where the damaged one ends. If none is there, every
byte is tried. Text cannot be mistaken for a length field, as four bytes of text are a number beyond
``MAX_PAYLOAD``. Among fingerprints one in 4,000 may be, which costs the checksum of a megabyte.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np
from isal import isal_zlib

from webcrawl.storage.fifo import SEGMENT_END, TO_SEGMENT_END, segments_of
from webcrawl.storage.record_log import (
    FRAME,
    HEADER_SIZE,
    MAGIC,
    MAX_PAYLOAD,
    CorruptRecordError,
    check_header,
    read_payload,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from webcrawl.storage.fifo import FifoSnapshot

_CRC_START = isal_zlib.crc32(MAGIC)
_READ_BYTES = 1 << 20
_PAGE = 4096
# After damage only records up to _MAX_FOUND are found again, as no queue or log writes larger ones.
# One that is larger than _MAX_ALONE is accepted only if another one, or the end, follows it.
_MAX_FOUND = 1 << 24
_MAX_ALONE = 1 << 20
# At least this many zeros at the end, on a separate page, are typical of a power failure.
_LOST_ZEROS = 16


class FoundRecord(NamedTuple):
    """A good record from byte *start* to byte *end*."""

    start: int
    end: int
    payload: bytes


class Gap(NamedTuple):
    """An unreadable range from byte *start* to byte *end*.

    *is_torn*: whether it is the end of the file and looks like a record that was being written when
    the process or the machine died.
    """

    start: int
    end: int
    why: str
    is_torn: bool


def scan_records(
    path: Path, *, start: int = HEADER_SIZE, end: int | None = None
) -> Iterator[FoundRecord | Gap]:
    """Yield the records and gaps of *path* from byte *start* to *end*, or to the end of the file.

    With *end* the log cannot have a torn end. A missing file is one gap. Raises OSError, and
    NewerFormatError if a later webcrawl wrote it.
    """
    try:
        opened = path.open("rb", buffering=0)
    except FileNotFoundError:
        yield Gap(start, max(start, end or 0), "the file is gone", is_torn=False)
        return
    with opened as file:
        yield from _Scan(path, file, end).pieces(start)


class _Scan:
    """The state of one scan."""

    def __init__(self, path: Path, file: BinaryIO, end: int | None) -> None:
        self._path = path
        self._file = file
        self._fd = file.fileno()
        self._size = os.fstat(self._fd).st_size
        self._end = end
        self._limit = self._size if end is None else min(end, self._size)

    def pieces(self, start: int) -> Iterator[FoundRecord | Gap]:
        header = os.pread(self._fd, HEADER_SIZE, 0)
        if self._end is None and not header.strip(b"\0"):
            if header:
                yield Gap(0, self._size, "the file ends within its header", is_torn=True)
            return
        try:
            check_header(self._path, header)
        except CorruptRecordError as error:
            is_torn = self._end is None and len(header) < HEADER_SIZE
            yield Gap(0, min(HEADER_SIZE, self._size), error.why, is_torn=is_torn)
        offset = start
        while offset < self._limit:
            frame = self._frame(offset)
            if isinstance(frame, FoundRecord):
                yield frame
                offset = frame.end
                continue
            found = self._next_frame(offset)
            if found is None:
                break
            yield Gap(offset, found, frame, is_torn=False)
            offset = found
        if offset < self._limit or (self._end is not None and offset < self._end):
            yield self._last_gap(offset)

    def _frame(self, offset: int) -> FoundRecord | str:
        """Return the record at *offset*, or why there is none."""
        self._file.seek(offset)
        try:
            payload = read_payload(self._file)
        except ValueError as error:
            return str(error)
        end = offset + FRAME.size + len(payload)
        if end > self._limit:
            return "the file ends within a record"
        return FoundRecord(offset, end, payload)

    def _next_frame(self, bad: int) -> int | None:
        """Return the offset of the next good record after the bad one at *bad*."""
        head = os.pread(self._fd, FRAME.size, bad)
        if len(head) == FRAME.size:
            at: int = bad + FRAME.size + FRAME.unpack(head)[0]
            if at < self._limit and isinstance(self._frame(at), FoundRecord):
                return at
        at = bad + 1  # the length itself is damaged
        while at + FRAME.size <= self._limit:
            data = os.pread(self._fd, _READ_BYTES + FRAME.size - 1, at)
            for offset in self._candidates(data, at):
                if self._is_plausible(offset) and isinstance(self._frame(offset), FoundRecord):
                    return offset
            at += _READ_BYTES
        return None

    def _candidates(self, data: bytes, at: int) -> list[int]:
        """Return the offsets in *data*, read at byte *at*, where a record that fits may begin."""
        raw = np.frombuffer(data, np.uint8).astype(np.uint32)
        if len(raw) < FRAME.size:
            return []
        words = raw[:-3] | raw[1:-2] << 8 | raw[2:-1] << 16 | raw[3:] << 24
        lengths, sums = words[:-4], words[4:]
        offsets = at + np.arange(len(lengths))
        room = np.minimum(self._limit - offsets - FRAME.size, _MAX_FOUND)
        # Zeros are not a record, and there may be megabytes of them.
        fits = (lengths <= room) & ((lengths > 0) | (sums == _CRC_START))
        found: list[int] = offsets[fits].tolist()
        return found

    def _is_plausible(self, offset: int) -> bool:
        """Return whether the possible record at *offset* is worth reading."""
        length, _ = FRAME.unpack(os.pread(self._fd, FRAME.size, offset))
        end = offset + FRAME.size + length
        if length <= _MAX_ALONE or end == self._limit:
            return True
        following = os.pread(self._fd, FRAME.size, end)
        return len(following) == FRAME.size and FRAME.unpack(following)[0] <= MAX_PAYLOAD

    def _last_gap(self, offset: int) -> Gap:
        """Return the rest of the file after the last record."""
        if self._end is not None:
            why = self._frame(offset)
            what = why if isinstance(why, str) and offset < self._limit else "the file ends here"
            return Gap(offset, self._end, what, is_torn=False)
        is_torn, why = self._is_torn(offset)
        return Gap(offset, self._size, why, is_torn=is_torn)

    def _is_torn(self, offset: int) -> tuple[bool, str]:
        why = self._frame(offset)
        assert isinstance(why, str)
        left = self._size - offset
        page = (self._size - 1) // _PAGE * _PAGE
        lost = os.pread(self._fd, _PAGE, max(page, offset))
        if not any(lost) and (page <= offset or len(lost) >= _LOST_ZEROS):
            return True, why
        if left < FRAME.size:
            return True, why
        length, crc = FRAME.unpack(os.pread(self._fd, FRAME.size, offset))
        if length > MAX_PAYLOAD or length <= left - FRAME.size:
            return False, why
        if left <= _MAX_FOUND:
            payload = os.pread(self._fd, left, offset + FRAME.size)
            if isal_zlib.crc32(payload, _CRC_START) == crc:
                return False, "damaged record length"
        return True, why


def scan_fifo(path: Path, snapshot: FifoSnapshot) -> Iterator[tuple[Path, FoundRecord | Gap]]:
    """Yield the records and gaps of the queue at *path* as of *snapshot*, with their files.

    Only items on disk are included. Each record has many items (``unpack_frame``).
    """
    for file, start, end in segments_of(path, snapshot):
        at, has_ended = start, end != TO_SEGMENT_END
        for piece in scan_records(file, start=start, end=end if has_ended else None):
            at = piece.end
            if isinstance(piece, Gap):
                yield file, piece._replace(is_torn=False)
            elif piece.payload == SEGMENT_END:
                has_ended = True
                break
            else:
                yield file, piece
        if not has_ended:
            yield file, Gap(at, at, "the record that ends the segment is missing", is_torn=False)
