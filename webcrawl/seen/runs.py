"""Sorted runs: immutable files of fingerprints in increasing order, Mercator's F in pieces.

Written by merges and compactions in a worker thread; read by both and, one block at a time, by the
crawl's own thread. The invariant: the blocks behind each answer of a ``Run`` were checked against
their sums, so damage is reported with its position and never turns a seen URL into a new one.

Blocks are read with ``preadv`` into a buffer of bounded size, not mapped: mapped pages count as the
process's memory, and a bad disk would kill it with a signal instead of an error.
"""

from __future__ import annotations

import os
import struct
import zlib
from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from webcrawl.storage.atomic import write_all
from webcrawl.storage.record_log import CorruptRecordError, header_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    Fingerprints: TypeAlias = NDArray[np.uint64]

# run    := header block* index                                                little-endian
# header := magic "WCRN" | version u16 | flags u16 (0) | count u64 | index_crc u32 | header_crc u32
#           padded with zeros to 4096 bytes, so that blocks are page-aligned; written last, so that
#           an unfinished run has no magic. crc32 is zlib's; header_crc covers the 20 bytes before.
# block  := fingerprint u64 * 1024, strictly increasing over the whole run; the last block is
#           filled up with its last fingerprint
# index  := fence u64 * blocks | sum u64 * blocks
#           fence = the block's first fingerprint; sum = that of its words modulo 2^64. A plain sum
#           finds every single damaged word, and a check of the order finds swapped words. numpy
#           sums up 10 GB/s, zlib's crc32 4 GB/s (2026-11-20).
#           Both stay in memory: 16 MB for a billion fingerprints.
# A run that no snapshot names can be deleted.
MAGIC = b"WCRN"
VERSION = 1
HEADER = struct.Struct("<4sHHQI")
assert HEADER.size == 20
DATA_AT = 4096
BLOCK = 1024
BLOCK_BYTES = BLOCK * 8

_WORD = np.dtype("<u8")
# One read of a dense look-up, 8 MB. Reads of 1 MB are as fast, but after each the worker has to
# take the interpreter lock again, for which it waits up to 5 ms while the crawl is busy.
READ_BLOCKS = 1024
# One write, 2 MB. The data is copied first, with the lock held.
_WRITE_WORDS = 1 << 18
# Two wanted blocks with fewer than this many between them are read together, as copying 16 blocks
# costs about as much as one more call.
_GAP = 16
# Runs up to this size stay in memory, 256 kB each. Then small merges, of which a young crawl makes
# many, read no file; every system call is a chance to lose the interpreter lock.
_SMALL_BLOCKS = 32
# Keys looked up together, which bounds the temporary arrays to about 5 MB.
_KEYS = 1 << 18


class Run:
    """A sorted run, open for reading. Reading is thread-safe; only the owner may close it."""

    def __init__(
        self, *, path: Path, fd: int, count: int, fences: Fingerprints, sums: Fingerprints
    ) -> None:
        self.path = path
        self.count = count
        self._fd = fd
        self._fences = fences
        self._sums = sums
        self._fence_words = fences.data
        self._words: Fingerprints | None = None
        if len(fences) <= _SMALL_BLOCKS:
            self._words = next(self.chunks(blocks=_SMALL_BLOCKS))

    @classmethod
    def open(cls, path: Path, *, count: int | None = None) -> Run:
        """Open *path*, which must have *count* fingerprints if that is known.

        Raises CorruptRecordError if header or index are damaged or the size is wrong (blocks are
        checked when they are read), NewerFormatError for a later version's file.
        """
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise CorruptRecordError(path, 0, "the file is missing") from None
        try:
            found, index_crc = read_header(path, os.pread(fd, HEADER.size + 4, 0))
            blocks = -(-found // BLOCK)
            index = os.pread(fd, blocks * 16, DATA_AT + blocks * BLOCK_BYTES)
            _check_open(path, found, count, index, index_crc)
            words = np.frombuffer(index, dtype=_WORD)
            return cls(path=path, fd=fd, count=found, fences=words[:blocks], sums=words[blocks:])
        except BaseException:
            os.close(fd)
            raise

    @property
    def size_bytes(self) -> int:
        """The file's length."""
        return DATA_AT + len(self._fences) * (BLOCK_BYTES + 16)

    def __contains__(self, fp: int) -> bool:
        """Return whether *fp* is in the run: one blocking read of 8 kB.

        Raises CorruptRecordError.
        """
        if self._words is not None:
            return _is_in(self._words.data, fp)
        block = bisect_right(self._fence_words, fp) - 1
        if block < 0:
            return False
        words = self._blocks(np.empty(BLOCK, dtype=_WORD), block, block + 1)
        return _is_in(words.data, fp)

    def find(self, keys: Fingerprints) -> NDArray[np.bool_]:
        """Return which of *keys* (increasing) are in the run. Raises CorruptRecordError.

        Reads only the blocks that may have a key, neighbouring ones together: a few keys cost a
        read each, many cost one pass over the file at the speed of the page cache.
        """
        found = np.zeros(len(keys), dtype=np.bool_)
        buffer = np.empty(READ_BLOCKS * BLOCK, dtype=_WORD)
        for start in range(0, len(keys), _KEYS):
            part = keys[start : start + _KEYS]
            if self._words is not None:
                found[start : start + _KEYS] = _search(self._words, part)
                continue
            block_of = np.searchsorted(self._fences, part, side="right") - 1
            begin = int(np.searchsorted(block_of, 0))
            cuts = np.flatnonzero(np.diff(block_of[begin:]) > _GAP) + begin + 1
            for low, high in pairwise([begin, *cuts.tolist(), len(part)]):
                at = low
                while at < high:
                    end, first, last = high, block_of.item(at), block_of.item(high - 1)
                    if last - first >= READ_BLOCKS:
                        last = first + READ_BLOCKS - 1
                        end = int(np.searchsorted(block_of, last, side="right"))
                    held = self._blocks(buffer, first, last + 1)
                    found[start + at : start + end] = _search(held, part[at:end])
                    at = end
        return found

    def _blocks(self, buffer: Fingerprints, start: int, end: int) -> Fingerprints:
        """Read the blocks from *start* to *end* into *buffer*, and check them."""
        self._read(buffer, start, end - start)
        held = buffer[: (end - start) * BLOCK]
        sums, expected = np.add.reduce(held.reshape(-1, BLOCK), axis=1), self._sums[start:end]
        # Comparing bytes keeps the interpreter lock, so there is no wait to get it back.
        if sums.tobytes() != expected.tobytes():
            bad = start + int(np.flatnonzero(sums != expected)[0])
            raise CorruptRecordError(
                self.path, DATA_AT + bad * BLOCK_BYTES, "checksum mismatch in the block"
            )
        return held

    def _read(self, buffer: Fingerprints, block: int, blocks: int) -> None:
        target = buffer.data.cast("B")[: blocks * BLOCK_BYTES]
        offset = DATA_AT + block * BLOCK_BYTES
        while target:
            got = os.preadv(self._fd, [target], offset)
            if not got:
                raise CorruptRecordError(self.path, offset, "the file ends within a block")
            target = target[got:]
            offset += got

    def chunks(self, *, blocks: int) -> Iterator[Fingerprints]:
        """Yield all fingerprints in order, at most *blocks* blocks at a time, as new arrays."""
        for start in range(0, len(self._fences), blocks):
            end = min(start + blocks, len(self._fences))
            held = self._blocks(np.empty((end - start) * BLOCK, dtype=_WORD), start, end)
            yield held[: self.count - start * BLOCK]

    def close(self) -> None:
        """Close the file. Calling it again does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _is_in(words: memoryview[int], fp: int) -> bool:
    at = bisect_left(words, fp)
    return at < len(words) and words[at] == fp


def _search(words: Fingerprints, keys: Fingerprints) -> NDArray[np.bool_]:
    """Return which of *keys* are in *words*, both increasing."""
    found: NDArray[np.bool_] = words.take(np.searchsorted(words, keys), mode="clip") == keys
    return found


def read_header(path: Path, header: bytes) -> tuple[int, int]:
    """Return ``(count, index_crc)`` from a run's first bytes.

    Raises CorruptRecordError, NewerFormatError.
    """
    count, index_crc = header_fields(path, header, HEADER, MAGIC, VERSION, what="run")
    return count, index_crc


def _check_open(path: Path, found: int, count: int | None, index: bytes, index_crc: int) -> None:
    if count is not None and found != count:
        raise CorruptRecordError(path, 8, f"holds {found} fingerprints, {count} expected")
    blocks = -(-found // BLOCK)
    if len(index) < blocks * 16 or zlib.crc32(index) != index_crc:
        index_at = DATA_AT + blocks * BLOCK_BYTES
        raise CorruptRecordError(path, index_at, "the index is damaged or cut off")


class RunWriter:
    """Writer of one run from increasing chunks. Not thread-safe.

    An unfinished file can be deleted.
    """

    def __init__(self, *, path: Path) -> None:
        self.path = path
        self.count = 0
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        os.lseek(self._fd, DATA_AT, os.SEEK_SET)
        self._partial = np.empty(0, dtype=_WORD)
        self._fences: list[Fingerprints] = []
        self._sums: list[Fingerprints] = []
        self._last = -1

    def append(self, chunk: Fingerprints) -> None:
        """Add *chunk*, which must continue to increase. Raises ValueError if it does not."""
        if not len(chunk):
            return
        if int(chunk[0]) <= self._last or not bool((chunk[1:] > chunk[:-1]).all()):
            raise ValueError(f"{self.path}: fingerprints are not strictly increasing")
        self._last = int(chunk[-1])
        self.count += len(chunk)
        if len(self._partial):
            chunk = np.concatenate((self._partial, chunk))
        whole = len(chunk) // BLOCK * BLOCK
        self._write(chunk[:whole])
        self._partial = chunk[whole:].copy()

    def _write(self, words: Fingerprints) -> None:
        blocks = words.reshape(-1, BLOCK)
        self._fences.append(blocks[:, 0].copy())
        self._sums.append(blocks.sum(axis=1))
        # In pieces, so that a full disk is noticed early; each write frees the interpreter lock.
        for start in range(0, len(words), _WRITE_WORDS):
            write_all(self._fd, words[start : start + _WRITE_WORDS].tobytes())

    def finish(self) -> Run:
        """Write index and header, without fsync; return the run, open for reading.

        There must be at least one fingerprint.
        """
        if len(self._partial):
            filler = np.full(BLOCK - len(self._partial), self._partial[-1], dtype=_WORD)
            self._write(np.concatenate((self._partial, filler)))
        fences, sums = np.concatenate(self._fences), np.concatenate(self._sums)
        index = fences.tobytes() + sums.tobytes()
        write_all(self._fd, index)
        header = HEADER.pack(MAGIC, VERSION, 0, self.count, zlib.crc32(index))
        header += zlib.crc32(header).to_bytes(4, "little")
        os.lseek(self._fd, 0, os.SEEK_SET)
        write_all(self._fd, header)
        fd, self._fd = self._fd, -1
        return Run(path=self.path, fd=fd, count=self.count, fences=fences, sums=sums)

    def abandon(self) -> None:
        """Close and delete the unfinished file."""
        self.close()
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close without finishing. Calling it again does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def write_run(path: Path, chunks: Iterable[Fingerprints]) -> Run:
    """Write *chunks* as a finished run at *path*; leave no file if anything fails."""
    writer = RunWriter(path=path)
    try:
        for chunk in chunks:
            writer.append(chunk)
        return writer.finish()
    except BaseException:
        writer.abandon()
        raise
