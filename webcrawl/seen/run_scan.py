"""Reader of damaged runs, block by block: what of them can still be believed.

Used to check and mend a job; the crawl itself stops at damage (runs.py). The invariant: the
words that are yielded go on increasing, over all blocks. In a block that does not add up the words
are kept that lie between those of its neighbours: one that was damaged within these bounds stands
for no URL anybody will ever meet, and to forget the others would fetch a thousand pages again.
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

    from numpy.typing import NDArray

    from webcrawl.seen.runs import Fingerprints

_WORD = np.dtype("<u8")
_NO_WORDS: Fingerprints = np.empty(0, _WORD)


class Block(NamedTuple):
    """A block of a run, with its damage.

    It is at byte *offset* and *size* bytes long. *words* are its fingerprints, as far as they can
    be believed, and *wrong* the damage, empty if there is none.
    """

    offset: int
    size: int
    words: Fingerprints
    wrong: str


def scan_run(path: Path, *, count: int) -> Iterator[Block]:
    """The pieces of the run *path*, which must hold *count* fingerprints.

    Raises NewerFormatError when a later webcrawl wrote it, OSError.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        yield Block(0, 0, _NO_WORDS, "the file is missing")
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
            what = f"holds {found} fingerprints, {count} expected"
            yield Block(8, DATA_AT, _NO_WORDS, what)
            crc = None
    except CorruptRecordError as error:
        yield Block(0, DATA_AT, _NO_WORDS, error.why)
    if len(index) < blocks * 16 or (crc is not None and zlib.crc32(index) != crc):
        yield Block(index_at, len(index), _NO_WORDS, "the index is damaged or cut off")
    words = np.frombuffer(index.ljust(blocks * 16, b"\0"), _WORD)
    fences, sums = words[:blocks], words[blocks:]
    last = -1
    following = _block(fd, 0)
    for number in range(blocks):
        held, following = following, _block(fd, number + 1) if number + 1 < blocks else _NO_WORDS
        offset = DATA_AT + number * BLOCK_BYTES
        adds_up = len(held) == BLOCK and int(held.sum()) == int(sums[number])
        held = held[: count - number * BLOCK]
        wrong = ""
        if not adds_up or not _goes_on(held, last) or int(held[0]) != int(fences[number]):
            wrong = "the block does not add up" if len(held) else "the block is missing"
            held = _between(held, last, int(following[0]) if len(following) else None)
        yield Block(offset, BLOCK_BYTES, held, wrong)
        if len(held):
            last = int(held[-1])


def _block(fd: int, number: int) -> Fingerprints:
    """The words of a block, fewer where the file ends within it."""
    data = os.pread(fd, BLOCK_BYTES, DATA_AT + number * BLOCK_BYTES)
    return np.frombuffer(data[: len(data) // 8 * 8], _WORD)


def _goes_on(words: Fingerprints, last: int) -> bool:
    return int(words[0]) > last and bool((words[1:] > words[:-1]).all())


def _between(words: Fingerprints, last: int, bound: int | None) -> Fingerprints:
    """Of *words* those above *last* and below *bound*, in order. A bound that is not above *last*
    is damaged itself."""
    fits: NDArray[np.bool_] = np.ones(len(words), np.bool_)
    if last >= 0:
        fits &= words > np.uint64(last)
    if bound is not None and bound > last:
        fits &= words < np.uint64(bound)
    return np.unique(words[fits])
