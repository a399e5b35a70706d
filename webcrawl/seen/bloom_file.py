"""File of a saved Bloom filter, written by a worker thread while the filter is in use.

Used by the Bloom eliminator. The invariant: a file that ``read_filter`` accepts contains at least
the bits that were set when ``write_filter`` was called. It may contain bits set later, too.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pybloom_live import BloomFilter

from webcrawl.storage.record_log import CorruptRecordError, header_fields

# file   := header size* sample* filter*                                        little-endian
# header := magic "WCBF" | version u16 | flags u16 (0) | filters u32 | samples u32 | lost u64
#           | expected f64 | body_crc u32 | header_crc u32
#           written last, so that an unfinished file has no magic. crc32 is zlib's; header_crc
#           covers the 36 bytes before it, body_crc everything after the header.
# size   := u64, bytes of one filter        sample := u64, a fingerprint
# filter := as pybloom_live's BloomFilter.tofile writes it
# A file that no snapshot names can be deleted.
MAGIC = b"WCBF"
VERSION = 1
HEADER = struct.Struct("<4sHHIIQdI")
_READ_BYTES = 1 << 20
_FILTER_HEADER = struct.calcsize(BloomFilter.FILE_FMT)


@dataclass(slots=True, frozen=True)
class SavedFilter:
    """Contents of a filter file. *filters* may be in use while they are written.

    The other fields are those of ``LossMeter``.
    """

    filters: Sequence[BloomFilter]
    sample: array[int]
    lost: int
    expected: float


class _ChecksummingFile:
    """File wrapper that computes a checksum of the data written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self.crc = 0
        self._file = file

    def write(self, data: bytes) -> int:
        self.crc = zlib.crc32(data, self.crc)
        return self._file.write(data)


def write_filter(path: Path, saved: SavedFilter) -> None:
    """Write *saved* to *path*, without fsync. Blocks; leaves no file if it fails."""
    try:
        with path.open("wb") as file:
            # The header and its 4-byte checksum are written last.
            file.seek(HEADER.size + 4)
            body = _ChecksummingFile(file)
            # The number of bytes that ``tofile`` writes for each filter: its header and its bits,
            # rounded up to whole bytes.
            sizes = [
                _FILTER_HEADER + -(-bloom_filter.num_bits // 8) for bloom_filter in saved.filters
            ]
            body.write(struct.pack(f"<{len(sizes)}Q", *sizes))
            body.write(saved.sample.tobytes())
            for bloom_filter in saved.filters:
                bloom_filter.tofile(body)
            header = HEADER.pack(
                MAGIC,
                VERSION,
                0,  # flags
                len(sizes),
                len(saved.sample),
                saved.lost,
                saved.expected,
                body.crc,
            )
            file.seek(0)
            file.write(header + zlib.crc32(header).to_bytes(4, "little"))
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def read_filter(path: Path) -> SavedFilter:
    """Read the filters that ``write_filter`` wrote. Blocks.

    Raises CorruptRecordError if anything is damaged or missing, NewerFormatError if a later
    webcrawl wrote the file.
    """
    try:
        with path.open("rb") as file:
            return _read_file(path, file)
    except FileNotFoundError:
        raise CorruptRecordError(path, 0, "the file is missing") from None


def _read_file(path: Path, file: BinaryIO) -> SavedFilter:
    """Check and decode *file*, which was opened at *path*."""
    header = file.read(HEADER.size + 4)  # with its checksum
    filter_count, sample_count, lost, expected, body_crc = header_fields(
        path, header, HEADER, MAGIC, VERSION, what="filter"
    )

    # Check everything first, because pybloom_live would use damaged data as a size.
    crc = 0
    while data := file.read(_READ_BYTES):
        crc = zlib.crc32(data, crc)
    if crc != body_crc:
        raise CorruptRecordError(path, HEADER.size + 4, "checksum mismatch")

    file.seek(HEADER.size + 4)
    sizes = struct.unpack(f"<{filter_count}Q", file.read(8 * filter_count))
    sample = array("Q", file.read(8 * sample_count))
    return SavedFilter([BloomFilter.fromfile(file, n) for n in sizes], sample, lost, expected)
