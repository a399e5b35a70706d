"""Sorted runs: immutable files of increasing fingerprints, which together are Mercator's F.

Written by merges and compactions in a worker thread; read by both and, one block at a time, by the
crawl's own thread. The invariant: before a ``Run`` answers, it checks the blocks it has read
against their checksums. So damage is reported with its position and never turns a seen URL into a
new one.

Blocks are read with ``preadv`` into a buffer of bounded size. They are not mapped, because mapped
pages count as the process's memory, and a bad disk would kill the process with a signal.
"""

from __future__ import annotations

import os
import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from webcrawl.storage.atomic import OpenFile, write_all
from webcrawl.storage.record_log import CorruptRecordError, header_fields

Fingerprints = NDArray[np.uint64]

# run    := header block* index                                                little-endian
# header := magic "WCRN" | version u16 | flags u16 (0) | count u64 | index_crc u32 | header_crc u32
#           padded with zeros to 4096 bytes, so that blocks are page-aligned; written last, so that
#           an unfinished run has no magic. crc32 is zlib's; header_crc covers the 20 bytes before.
# block  := fingerprint u64 * 1024, strictly increasing over the whole run; the last block is
#           filled up with its last fingerprint
# index  := fence u64 * blocks | sum u64 * blocks
#           fence = the block's first fingerprint; sum = the sum of its words modulo 2^64. A
#           plain sum finds any single damaged word, and a check of the order finds swapped words.
#           numpy adds up 10 GB/s, zlib's crc32 reads 4 GB/s (2026-11-20).
#           Both stay in memory: 16 MB for a billion fingerprints.
# A run that no snapshot names can be deleted.
MAGIC = b"WCRN"
VERSION = 1
HEADER = struct.Struct("<4sHHQI")
DATA_AT = 4096
BLOCK = 1024
BLOCK_BYTES = BLOCK * 8

_WORD = np.dtype("<u8")
# Size of one read in a dense look-up: 8 MB. Reads of 1 MB are as fast, but after each read the
# worker has to take the interpreter lock again, for which it waits up to 5 ms while the crawl is
# busy.
READ_BLOCKS = 1024
# Size of one write: 2 MB. The data is copied first, with the interpreter lock held.
_WRITE_WORDS = 1 << 18
# Two wanted blocks with fewer than this many blocks between them are read together, because copying
# 16 blocks takes about as long as another call.
_GAP = 16
# Runs up to this size stay in memory, 256 kB each. Then small merges, of which a young crawl makes
# many, read no file. In every system call another thread may take the interpreter lock.
_SMALL_BLOCKS = 32
# Number of keys looked up together, which bounds the temporary arrays to about 5 MB.
_KEYS = 1 << 18


class Run(OpenFile):
    """A sorted run, open for reading. Reading is thread-safe; only the owner may close it."""

    def __init__(
        self, *, path: Path, fd: int, count: int, fences: Fingerprints, sums: Fingerprints
    ) -> None:
        """Use the open file *fd* at *path*, with *count* fingerprints.

        *fences* has the first fingerprint of each block, *sums* the sum of each block's words.
        """
        self.path = path
        self.count = count
        self._fd = fd
        self._fences = fences
        self._sums = sums
        # The same fences as a memoryview, for ``bisect``.
        self._fence_words = fences.data
        # All fingerprints of a small run, which stay in memory; None for larger runs.
        self._words: Fingerprints | None = None
        if len(fences) <= _SMALL_BLOCKS:
            self._words = next(self.chunks(blocks=_SMALL_BLOCKS))

    @classmethod
    def open(cls, path: Path, *, count: int | None = None) -> Run:
        """Open *path*, which must have *count* fingerprints if that is known.

        Raises CorruptRecordError if the header or index is damaged or the count is wrong. Blocks
        are checked only when they are read. Raises NewerFormatError if a later webcrawl wrote the
        file.
        """
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise CorruptRecordError(path, 0, "the file is missing") from None
        try:
            # The header's own checksum follows it, in 4 bytes.
            actual_count, index_crc = read_header(path, os.pread(fd, HEADER.size + 4, 0))
            blocks = -(-actual_count // BLOCK)  # rounded up
            # The index has a fence and a sum of 8 bytes each for every block.
            index = os.pread(fd, blocks * 16, DATA_AT + blocks * BLOCK_BYTES)
            _check_open(path, actual_count, count, index, index_crc)
            words = np.frombuffer(index, dtype=_WORD)
            return cls(
                path=path, fd=fd, count=actual_count, fences=words[:blocks], sums=words[blocks:]
            )
        except BaseException:
            os.close(fd)
            raise

    @property
    def size_bytes(self) -> int:
        """Size of the file."""
        return DATA_AT + len(self._fences) * (BLOCK_BYTES + 16)

    def __contains__(self, fp: int) -> bool:
        """Return whether *fp* is in the run. Blocks for one read of 8 kB.

        Raises CorruptRecordError if the block is damaged.
        """
        if self._words is not None:
            return _contains(self._words.data, fp)
        # The last block that does not begin after *fp*.
        block = bisect_right(self._fence_words, fp) - 1
        if block < 0:
            return False
        words = self._checked_blocks(np.empty(BLOCK, dtype=_WORD), block, block + 1)
        return _contains(words.data, fp)

    def find(self, keys: Fingerprints) -> NDArray[np.bool_]:
        """Return for each of *keys*, which must increase, whether the run has it.

        Reads only the blocks that may have a key, and neighbouring ones together. So a few keys
        cost a read each; many keys cost one pass over the file at the speed of the page cache.
        Raises CorruptRecordError.
        """
        found = np.zeros(len(keys), dtype=np.bool_)
        buffer = np.empty(READ_BLOCKS * BLOCK, dtype=_WORD)
        for start in range(0, len(keys), _KEYS):
            batch = keys[start : start + _KEYS]
            if self._words is not None:
                found[start : start + _KEYS] = _search(self._words, batch)
                continue

            # For each key, the only block that may have it; -1 if it comes before the first block.
            block_of = np.searchsorted(self._fences, batch, side="right") - 1
            first_key = int(np.searchsorted(block_of, 0))
            # Split the keys into groups where many blocks between two keys are not wanted.
            gaps = np.flatnonzero(np.diff(block_of[first_key:]) > _GAP) + first_key + 1
            for group_start, group_end in pairwise([first_key, *gaps.tolist(), len(batch)]):
                # Read the blocks of a group together, at most READ_BLOCKS at a time.
                start_key = group_start
                while start_key < group_end:
                    end_key = group_end
                    first_block = block_of.item(start_key)
                    last_block = block_of.item(group_end - 1)
                    if last_block - first_block >= READ_BLOCKS:
                        last_block = first_block + READ_BLOCKS - 1
                        end_key = int(np.searchsorted(block_of, last_block, side="right"))
                    words = self._checked_blocks(buffer, first_block, last_block + 1)
                    found[start + start_key : start + end_key] = _search(
                        words, batch[start_key:end_key]
                    )
                    start_key = end_key
        return found

    def _checked_blocks(self, buffer: Fingerprints, start: int, end: int) -> Fingerprints:
        """Read the blocks from *start* up to *end* into *buffer*; check and return them."""
        self._read(buffer, start, end - start)
        words = buffer[: (end - start) * BLOCK]
        sums = np.add.reduce(words.reshape(-1, BLOCK), axis=1)
        expected = self._sums[start:end]
        # Comparing bytes keeps the interpreter lock, so the thread need not wait to get it back.
        if sums.tobytes() != expected.tobytes():
            bad_block = start + int(np.flatnonzero(sums != expected)[0])
            raise CorruptRecordError(
                self.path, DATA_AT + bad_block * BLOCK_BYTES, "checksum mismatch in the block"
            )
        return words

    def _read(self, buffer: Fingerprints, first: int, count: int) -> None:
        """Read *count* blocks, beginning with block *first*, into *buffer*."""
        target = buffer.data.cast("B")[: count * BLOCK_BYTES]
        offset = DATA_AT + first * BLOCK_BYTES
        while target:
            bytes_read = os.preadv(self._fd, [target], offset)
            if not bytes_read:
                raise CorruptRecordError(self.path, offset, "the file ends within a block")
            target = target[bytes_read:]
            offset += bytes_read

    def chunks(self, *, blocks: int) -> Iterator[Fingerprints]:
        """Yield all fingerprints in order, in new arrays of at most *blocks* blocks."""
        for start in range(0, len(self._fences), blocks):
            end = min(start + blocks, len(self._fences))
            words = self._checked_blocks(np.empty((end - start) * BLOCK, dtype=_WORD), start, end)
            # The last block is filled up with words that do not count.
            yield words[: self.count - start * BLOCK]


def _contains(words: memoryview[int], fp: int) -> bool:
    """Return whether *words*, which increase, contain *fp*."""
    index = bisect_left(words, fp)
    return index < len(words) and words[index] == fp


def _search(words: Fingerprints, keys: Fingerprints) -> NDArray[np.bool_]:
    """Return for each of *keys* whether *words* contain it; both must increase."""
    found: NDArray[np.bool_] = words.take(np.searchsorted(words, keys), mode="clip") == keys
    return found


def read_header(path: Path, header: bytes) -> tuple[int, int]:
    """Return the count of fingerprints and the checksum of the index from a run's *header*.

    Raises CorruptRecordError if it is damaged, NewerFormatError if a later webcrawl wrote it.
    """
    count, index_crc = header_fields(path, header, HEADER, MAGIC, VERSION, what="run")
    return count, index_crc


def _check_open(
    path: Path, actual_count: int, expected_count: int | None, index: bytes, index_crc: int
) -> None:
    """Raise CorruptRecordError if the index is damaged or the count is not the expected one."""
    if expected_count is not None and actual_count != expected_count:
        raise CorruptRecordError(
            path, 8, f"holds {actual_count} fingerprints, {expected_count} expected"
        )
    blocks = -(-actual_count // BLOCK)  # rounded up
    if len(index) < blocks * 16 or zlib.crc32(index) != index_crc:
        index_at = DATA_AT + blocks * BLOCK_BYTES
        raise CorruptRecordError(path, index_at, "the index is damaged or cut off")


class RunWriter(OpenFile):
    """Writes one run from chunks of increasing fingerprints. Not thread-safe.

    An unfinished file may be deleted.
    """

    def __init__(self, *, path: Path) -> None:
        self.path = path
        self.count = 0  # number of fingerprints appended
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        # ``finish`` writes the header, in front of the blocks.
        os.lseek(self._fd, DATA_AT, os.SEEK_SET)
        # The fingerprints appended last, which do not fill a block yet.
        self._partial = np.empty(0, dtype=_WORD)
        # The first word and the sum of each block written so far, in one array for each write.
        self._fences: list[Fingerprints] = []
        self._sums: list[Fingerprints] = []
        self._last = -1  # the last fingerprint appended; all are larger than -1

    def append(self, chunk: Fingerprints) -> None:
        """Add *chunk*. Raises ValueError if the fingerprints do not continue to increase."""
        if not len(chunk):
            return
        if int(chunk[0]) <= self._last or not bool((chunk[1:] > chunk[:-1]).all()):
            raise ValueError(f"{self.path}: fingerprints are not strictly increasing")
        self._last = int(chunk[-1])
        self.count += len(chunk)
        if len(self._partial):
            chunk = np.concatenate((self._partial, chunk))
        complete_words = len(chunk) // BLOCK * BLOCK
        self._write(chunk[:complete_words])
        self._partial = chunk[complete_words:].copy()

    def _write(self, words: Fingerprints) -> None:
        """Write *words*, which fill complete blocks, and remember their fences and sums."""
        blocks = words.reshape(-1, BLOCK)
        self._fences.append(blocks[:, 0].copy())
        self._sums.append(blocks.sum(axis=1))
        # Written in pieces, so that a full disk is noticed early. Each write releases the
        # interpreter lock.
        for start in range(0, len(words), _WRITE_WORDS):
            write_all(self._fd, words[start : start + _WRITE_WORDS].tobytes())

    def finish(self) -> Run:
        """Write the index and header, without fsync; return the run, open for reading.

        At least one fingerprint must have been appended.
        """
        # Fill up the last block with its last fingerprint.
        if len(self._partial):
            filler = np.full(BLOCK - len(self._partial), self._partial[-1], dtype=_WORD)
            self._write(np.concatenate((self._partial, filler)))

        fences = np.concatenate(self._fences)
        sums = np.concatenate(self._sums)
        index = fences.tobytes() + sums.tobytes()
        write_all(self._fd, index)

        # The header is written last, so that an unfinished run has no magic.
        header = HEADER.pack(MAGIC, VERSION, 0, self.count, zlib.crc32(index))
        header += zlib.crc32(header).to_bytes(4, "little")
        os.lseek(self._fd, 0, os.SEEK_SET)
        write_all(self._fd, header)
        # The file now belongs to the run, and ``close`` must not close it.
        fd = self._fd
        self._fd = -1
        return Run(path=self.path, fd=fd, count=self.count, fences=fences, sums=sums)

    def abandon(self) -> None:
        """Close and delete the unfinished file."""
        self.close()
        self.path.unlink(missing_ok=True)


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
