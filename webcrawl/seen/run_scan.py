"""Reader of possibly damaged runs: reads every block and reports whether it is damaged.

Used to check a job. The crawl itself stops when it meets damage (runs.py).
"""

from __future__ import annotations

import os
import zlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from webcrawl.seen.runs import BLOCK, BLOCK_BYTES, DATA_AT, HEADER, read_header
from webcrawl.storage.record_log import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_WORD = np.dtype("<u8")


class Block(NamedTuple):
    """A block of a run, or the header or index of the run if that is damaged.

    It begins at byte *offset* and has *size* bytes. *damage* describes its damage; it is empty if
    there is none.
    """

    offset: int
    size: int
    damage: str


def scan_run(path: Path, *, count: int) -> Iterator[Block]:
    """Yield the blocks of the run *path*, which must have *count* fingerprints.

    Raises NewerFormatError if a later webcrawl wrote the run, and OSError.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        yield Block(0, 0, "the file is missing")
        return
    with file:
        yield from _scan(path, file.fileno(), count)


def _scan(path: Path, fd: int, count: int) -> Iterator[Block]:
    """Yield the blocks of the run *path*, which is open as *fd*: the checks of ``scan_run``."""
    blocks = -(-count // BLOCK)
    index_at = DATA_AT + blocks * BLOCK_BYTES
    index = os.pread(fd, blocks * 16, index_at)
    index_crc = None
    try:
        actual_count, index_crc = read_header(path, os.pread(fd, HEADER.size + 4, 0))
        if actual_count != count:
            yield Block(8, DATA_AT, f"holds {actual_count} fingerprints, {count} expected")
            index_crc = None
    except CorruptRecordError as error:
        yield Block(0, DATA_AT, error.why)
    if len(index) < blocks * 16 or (index_crc is not None and zlib.crc32(index) != index_crc):
        yield Block(index_at, len(index), "the index is damaged or cut off")

    words = np.frombuffer(index.ljust(blocks * 16, b"\0"), _WORD)
    fences, checksums = words[:blocks], words[blocks:]
    last_fp = -1
    for block in range(blocks):
        offset = DATA_AT + block * BLOCK_BYTES
        data = os.pread(fd, BLOCK_BYTES, offset)
        fps = np.frombuffer(data[: len(data) // 8 * 8], _WORD)
        sum_matches = len(fps) == BLOCK and int(fps.sum()) == int(checksums[block])
        fps = fps[: count - block * BLOCK]
        if not len(fps):
            yield Block(offset, BLOCK_BYTES, "the block is missing")
        elif (
            not sum_matches
            or not last_fp < int(fps[0]) == int(fences[block])
            or not (fps[1:] > fps[:-1]).all()
        ):
            yield Block(offset, BLOCK_BYTES, "checksum mismatch in the block")
        else:
            yield Block(offset, BLOCK_BYTES, "")
            last_fp = int(fps[-1])
