"""Scans damaged record logs for every good record and for the gaps between them.

Used to check a job; the crawl itself stops at damage (record_log.py). Invariant: each byte of a
file from *start* on is in exactly one of the records and gaps, which are yielded in order, and the
payload of a ``FoundRecord`` has a matching checksum.

After damage, the next good record usually begins where the damaged one ends. If it does not, every
byte offset is tried. Text cannot be mistaken for a length field, because four bytes of text are a
number beyond ``MAX_PAYLOAD``. One in 4,000 fingerprints may look like a length, which costs the
checksum of a megabyte.
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
# After damage, only records up to _MAX_FOUND bytes are searched for, because no queue or log writes
# larger ones. A record larger than _MAX_ALONE is accepted only if another record or the end
# follows.
_MAX_FOUND = 1 << 24
_MAX_ALONE = 1 << 20
# At least this many zeros at the end, on a page of their own, are typical of a power failure.
_LOST_ZEROS = 16


class FoundRecord(NamedTuple):
    """A good record from byte *start* to byte *end*."""

    start: int
    end: int
    payload: bytes


class Gap(NamedTuple):
    """An unreadable range from byte *start* to byte *end*.

    *is_torn* is true if the gap is the end of the file and looks like a record that was being
    written when the process or the machine died.
    """

    start: int
    end: int
    why: str
    is_torn: bool


def scan_records(
    path: Path, *, start: int = HEADER_SIZE, end: int | None = None
) -> Iterator[FoundRecord | Gap]:
    """Yield the records and gaps of *path* from byte *start* to *end*, or to the end of the file.

    If *end* is given, the log cannot have a torn end. A missing file is reported as one gap. Raises
    OSError, and NewerFormatError if a later webcrawl wrote it.
    """
    try:
        opened = path.open("rb", buffering=0)
    except FileNotFoundError:
        yield Gap(start, max(start, end or 0), "the file is gone", is_torn=False)
        return
    with opened as file:
        yield from _Scan(path, file, end).records_and_gaps(start)


class _Scan:
    """A scan of one *file*, opened from *path*, to byte *end* or to its end."""

    def __init__(self, path: Path, file: BinaryIO, end: int | None) -> None:
        self._path = path
        self._file = file
        self._fd = file.fileno()
        self._size = os.fstat(self._fd).st_size
        self._end = end
        self._limit = self._size if end is None else min(end, self._size)

    def records_and_gaps(self, start: int) -> Iterator[FoundRecord | Gap]:
        """Yield the records and gaps from byte *start* on, in order."""
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
            record = self._record_at(offset)
            if isinstance(record, FoundRecord):
                yield record
                offset = record.end
                continue
            next_offset = self._next_record(offset)
            if next_offset is None:
                break
            yield Gap(offset, next_offset, record, is_torn=False)
            offset = next_offset

        if offset < self._limit or (self._end is not None and offset < self._end):
            yield self._last_gap(offset)

    def _record_at(self, offset: int) -> FoundRecord | str:
        """Return the record at *offset*, or the reason why there is none."""
        self._file.seek(offset)
        try:
            payload = read_payload(self._file)
        except ValueError as error:
            return str(error)
        end = offset + FRAME.size + len(payload)
        if end > self._limit:
            return "the file ends within a record"
        return FoundRecord(offset, end, payload)

    def _next_record(self, bad_offset: int) -> int | None:
        """Return the offset of the next good record after the bad one at *bad_offset*."""
        frame_header = os.pread(self._fd, FRAME.size, bad_offset)
        if len(frame_header) == FRAME.size:
            frame_end: int = bad_offset + FRAME.size + FRAME.unpack(frame_header)[0]
            if frame_end < self._limit and isinstance(self._record_at(frame_end), FoundRecord):
                return frame_end

        # The length field itself is damaged, so try every byte.
        position = bad_offset + 1
        while position + FRAME.size <= self._limit:
            data = os.pread(self._fd, _READ_BYTES + FRAME.size - 1, position)
            for offset in self._candidates(data, position):
                if self._is_plausible(offset) and isinstance(self._record_at(offset), FoundRecord):
                    return offset
            position += _READ_BYTES
        return None

    def _candidates(self, data: bytes, position: int) -> list[int]:
        """Return the file offsets where a record that fits into the file may begin.

        Only offsets in *data*, which was read at byte *position*, are considered.
        """
        raw = np.frombuffer(data, np.uint8).astype(np.uint32)
        if len(raw) < FRAME.size:
            return []
        # The little-endian number of four bytes at each offset.
        words = raw[:-3] | raw[1:-2] << 8 | raw[2:-1] << 16 | raw[3:] << 24
        lengths, checksums = words[:-4], words[4:]
        offsets = position + np.arange(len(lengths))
        max_lengths = np.minimum(self._limit - offsets - FRAME.size, _MAX_FOUND)
        # Zeros are not a record, and there may be megabytes of them.
        may_begin = (lengths <= max_lengths) & ((lengths > 0) | (checksums == _CRC_START))
        candidates: list[int] = offsets[may_begin].tolist()
        return candidates

    def _is_plausible(self, offset: int) -> bool:
        """Return whether a record that may begin at *offset* is worth reading."""
        length, _ = FRAME.unpack(os.pread(self._fd, FRAME.size, offset))
        end = offset + FRAME.size + length
        if length <= _MAX_ALONE or end == self._limit:
            return True
        following = os.pread(self._fd, FRAME.size, end)
        return len(following) == FRAME.size and FRAME.unpack(following)[0] <= MAX_PAYLOAD

    def _last_gap(self, offset: int) -> Gap:
        """Return the gap from *offset*, where the last record ends, to the end of the file."""
        if self._end is not None:
            error = self._record_at(offset)
            why = error if isinstance(error, str) and offset < self._limit else "the file ends here"
            return Gap(offset, self._end, why, is_torn=False)
        is_torn, why = self._judge_end(offset)
        return Gap(offset, self._size, why, is_torn=is_torn)

    def _judge_end(self, offset: int) -> tuple[bool, str]:
        """Return whether the unreadable end from *offset* on is a torn record, and the error."""
        why = self._record_at(offset)
        assert isinstance(why, str)
        remaining = self._size - offset

        # After a power failure, the pages that were not synced are zeros.
        last_page = (self._size - 1) // _PAGE * _PAGE
        tail = os.pread(self._fd, _PAGE, max(last_page, offset))
        if not any(tail) and (last_page <= offset or len(tail) >= _LOST_ZEROS):
            return True, why

        if remaining < FRAME.size:
            return True, why
        length, crc = FRAME.unpack(os.pread(self._fd, FRAME.size, offset))
        if length > MAX_PAYLOAD or length <= remaining - FRAME.size:
            return False, why

        # If the checksum matches the bytes that are there, only the length is damaged.
        if remaining <= _MAX_FOUND:
            payload = os.pread(self._fd, remaining, offset + FRAME.size)
            if isal_zlib.crc32(payload, _CRC_START) == crc:
                return False, "damaged record length"
        return True, why


def scan_fifo(path: Path, snapshot: FifoSnapshot) -> Iterator[tuple[Path, FoundRecord | Gap]]:
    """Yield the records and gaps of the queue at *path* as of *snapshot*, with their files.

    Only items on disk are included. Each record contains many items (``unpack_frame``).
    """
    for file, start, end in segments_of(path, snapshot):
        # The end of a full segment is not known; its last record marks it.
        offset, has_ended = start, end != TO_SEGMENT_END
        for part in scan_records(file, start=start, end=end if has_ended else None):
            offset = part.end
            if isinstance(part, Gap):
                yield file, part._replace(is_torn=False)
            elif part.payload == SEGMENT_END:
                has_ended = True
                break
            else:
                yield file, part
        if not has_ended:
            yield (
                file,
                Gap(offset, offset, "the record that ends the segment is missing", is_torn=False),
            )
