"""Reader of damaged runs: reads every block and reports whether it is damaged.

Used to check a job; the crawl itself stops at damage (runs.py).
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
    """A block of a run, or its header or index if damaged.

    It begins at byte *offset* and has *size* bytes; *damage* describes its damage, empty if none.
    """

    offset: int
    size: int
    damage: str


def scan_run(path: Path, *, count: int) -> Iterator[Block]:
    """Yield the blocks of the run *path*, which must have *count* fingerprints.

    Raises NewerFormatError if a later webcrawl wrote it, OSError.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        yield Block(0, 0, "the file is missing")
        return
    with file:
        yield from _scan(path, file.fileno(), count)


def _scan(path: Path, fd: int, count: int) -> Iterator[Block]:
    blocks = -(-count // BLOCK)
    index_at = DATA_AT + blocks * BLOCK_BYTES
    index = os.pread(fd, blocks * 16, index_at)
    crc = None
    try:
        found, crc = read_header(path, os.pread(fd, HEADER.size + 4, 0))
        if found != count:
            yield Block(8, DATA_AT, f"holds {found} fingerprints, {count} expected")
            crc = None
    except CorruptRecordError as error:
        yield Block(0, DATA_AT, error.why)
    if len(index) < blocks * 16 or (crc is not None and zlib.crc32(index) != crc):
        yield Block(index_at, len(index), "the index is damaged or cut off")
    words = np.frombuffer(index.ljust(blocks * 16, b"\0"), _WORD)
    fences, sums = words[:blocks], words[blocks:]
    last = -1
    for number in range(blocks):
        offset = DATA_AT + number * BLOCK_BYTES
        data = os.pread(fd, BLOCK_BYTES, offset)
        held = np.frombuffer(data[: len(data) // 8 * 8], _WORD)
        adds_up = len(held) == BLOCK and int(held.sum()) == int(sums[number])
        held = held[: count - number * BLOCK]
        if not len(held):
            yield Block(offset, BLOCK_BYTES, "the block is missing")
        elif (
            not adds_up
            or not last < int(held[0]) == int(fences[number])
            or not (held[1:] > held[:-1]).all()
        ):
            yield Block(offset, BLOCK_BYTES, "checksum mismatch in the block")
        else:
            yield Block(offset, BLOCK_BYTES, "")
            last = int(held[-1])
