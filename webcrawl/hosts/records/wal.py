"""Check of SQLite's write-ahead log, which SQLite would cut without a message.

SQLite takes the log to end at the first frame with a wrong checksum. That is right for the frame
that a killed process was writing; but it drops everything that was committed after a frame that was
damaged later. So the checksums are computed here once more.

Format (https://www.sqlite.org/fileformat2.html#the_write_ahead_log), big-endian::

    log    := header frame*
    header := magic u32 | version u32 | page size u32 | checkpoint u32 | salt u64 | checksum u64
    frame  := page number u32 | size after a commit u32 | salt u64 | checksum u64 | page

A checksum is of all before it, the headers' other fields and the pages. Frames with another salt
are left over from an earlier round. The shared-memory file beside the log has the number of
committed frames, until the log is opened again.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

_HEADER = struct.Struct(">IIII8sII")
_FRAME = struct.Struct(">II8sII")
_LITTLE, _BIG = 0x377F0682, 0x377F0683
_MASK = 0xFFFF_FFFF
# The index's header, in the machine's own order: ..., isInit at 12, mxFrame at 16, salt at 32; a
# copy of it follows.
_INDEX_BYTES = 48


class WalDamage(NamedTuple):
    """Damage of the log, from byte *offset* on."""

    offset: int
    what: str


def wal_damage(file: Path) -> WalDamage | None:
    """The damage of the write-ahead log of the database *file*; None if there is none, or only a
    torn end."""
    try:
        fd = os.open(file.with_name(file.name + "-wal"), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return _damage(fd, file.with_name(file.name + "-shm"))
    finally:
        os.close(fd)


def _damage(fd: int, index: Path) -> WalDamage | None:
    header = os.pread(fd, _HEADER.size, 0)
    if len(header) < _HEADER.size:
        return None
    magic, _, page_size, _, salt, *sums = _HEADER.unpack(header)
    order = ">u4" if magic == _BIG else "<u4"
    committed = _committed(index, salt)
    found = _add_up(header[:24], (0, 0), order)
    if magic not in (_LITTLE, _BIG) or found != tuple(sums) or not 512 <= page_size <= 65_536:
        # Nothing is committed before the header is whole.
        return WalDamage(0, "the header does not add up") if any(header) else None
    size = _FRAME.size + page_size
    at, whole, goes_on = _HEADER.size, 0, False
    bad = 0  # where the first frame is that does not add up, if there is one
    before = {found}  # sums of which one has to be those before the next frame
    while not goes_on and len(frame := os.pread(fd, size, at)) == size:
        _, commits, frame_salt, *sums = _FRAME.unpack_from(frame)
        following = {_sums_after(frame, one, order) for one in before}
        before = {(sums[0], sums[1])}
        if frame_salt == salt and before <= following:
            whole += not bad
            goes_on = bad > 0 and commits > 0
        elif not bad:
            bad = at
            before |= following
        at += size
    # What a process that died had begun may follow, overwritten in part, but no whole commit of it.
    if goes_on or whole < committed:
        return WalDamage(bad or at, "a page that was committed does not add up")
    return None


def _committed(index: Path, salt: bytes) -> int:
    """The number of committed frames, 0 if unknown."""
    try:
        with index.open("rb") as file:
            data = file.read(2 * _INDEX_BYTES)
    except FileNotFoundError:
        return 0
    one, other = data[:_INDEX_BYTES], data[_INDEX_BYTES:]
    if len(one) < _INDEX_BYTES or one != other or not one[12] or one[32:40] != salt:
        return 0
    return int.from_bytes(one[16:20], "little")


def _sums_after(frame: bytes, before: tuple[int, int], order: str) -> tuple[int, int]:
    return _add_up(frame[_FRAME.size :], _add_up(frame[:8], before, order), order)


def _add_up(data: bytes, sums: tuple[int, int], order: str) -> tuple[int, int]:
    first, second = sums
    words = np.frombuffer(data, order).tolist()
    for one, other in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & _MASK
        second = (second + other + first) & _MASK
    return first, second
