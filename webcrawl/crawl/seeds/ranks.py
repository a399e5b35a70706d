"""Ranks of hosts in the seed list, for the prioritizer.

They are added when seeds are read; ``rank`` is called for each link to another host. Invariant: the
rank of a host is the best (smallest) with which it was ever added, or 0 if it is unknown.

In memory there are a sorted array of fingerprints (xxh3 of the name, 64 bits) and an array of
ranks: 12 bytes per host, where a dict takes 100. A dict has the newest hosts, which are merged into
the arrays from time to time. Two hosts with the same fingerprint share a rank. Among a million
hosts the odds of one such pair are 1 to 37 million, and it costs one host its place in the queue.

On disk::

    ranks.log   record log (storage/record_log.py), with one record for each batch with a new host:
                (fingerprint u64 | rank u32) *, little-endian; the last pair of a host counts

The log is append-only, so a snapshot is just its size. Recovery reads all records before that, and
the valid ones after it, because a process killed by ``kill -9`` loses no records.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable
from pathlib import Path

import msgspec
import numpy as np
from xxhash import xxh3_64_intdigest

from webcrawl.configuration.decoding import Count, msgpack_decoder
from webcrawl.storage.atomic import make_directory
from webcrawl.storage.record_log import HEADER_SIZE, CorruptRecordError, RecordLog, read_records

Pairs = np.ndarray[tuple[int], np.dtype[np.void]]

PAIR = np.dtype([("fingerprint", "<u8"), ("rank", "<u4")])
_MAX_RANK = 0xFFFF_FFFF
# Maximum number of hosts in the dict: 4 MB. Merging them with a million others takes 20 ms.
_MAX_RECENT = 1 << 15


class RanksSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """The size of the log at a checkpoint."""

    size_bytes: Count


decode_ranks = msgpack_decoder(RanksSnapshot)


class HostRanks:
    """The ranks of the first *capacity* hosts at most.

    Hosts ranked after those would be in the lowest class anyway.

    Not thread-safe. A part that checkpoints save; for the methods see crawl/job/jobdir.py.
    """

    def __init__(self, *, path: Path, capacity: int = 1 << 20) -> None:
        self._path = path
        self._file = log_of(path)
        self.capacity = capacity
        # Maximum number of the newest hosts, which are not in the sorted arrays yet.
        self._max_recent = _MAX_RECENT
        # Files and directories to be fsynced with the next checkpoint.
        self._written: set[Path] = set()
        # None until ``open``; a table that was only loaded has no log.
        self._log: RecordLog | None = None
        self._set_arrays(np.empty(0, np.uint64), np.empty(0, np.uint32))

    def resize(self, recent: int) -> None:
        """Keep at most *recent* of the newest hosts outside the arrays."""
        self._max_recent = recent

    def load(self, snapshot: bytes | None) -> int:
        """Read the ranks of *snapshot*, and return the offset after the last record.

        Changes nothing on disk, so the ranks can only be looked up.
        """
        if snapshot is None:
            return HEADER_SIZE
        pairs, end = self._read(decode_ranks(snapshot).size_bytes)
        pairs = _last_of_each(pairs)
        self._set_arrays(pairs["fingerprint"].astype(np.uint64), pairs["rank"].astype(np.uint32))
        return end

    def open(self, snapshot: bytes | None) -> None:
        """Restore the ranks of *snapshot* and those added after it; None starts empty.

        Blocks: reading a million hosts takes 0.2 s. Raises CorruptRecordError if the log is
        damaged before the snapshot's end.
        """
        self._written.update(make_directory(self._path))
        self._written.update((self._path, self._file))
        if snapshot is None:
            self._file.unlink(missing_ok=True)
        self._log = RecordLog.open(self._file, size=self.load(snapshot))

    def __len__(self) -> int:
        """Return the number of hosts."""
        return len(self._fingerprints) + len(self._recent)

    def rank(self, host: str) -> int:
        """Return the rank of *host* in the seed list; 1 is the first, 0 means unknown."""
        fingerprint = _fingerprint(host)
        merged = self._fingerprints
        index = bisect_left(merged, fingerprint)
        if index < len(merged) and merged[index] == fingerprint:
            return self._ranks[index]
        return self._recent.get(fingerprint, 0)

    def add_many(self, pairs: Iterable[tuple[str, int]]) -> None:
        """Add *pairs* of host and rank; the better rank of a host counts, and rank 0 is ignored.

        Makes one write, or none if all are known. The ranks then survive ``kill -9``. Raises
        OSError if the disk is full; then nothing was added.
        """
        best_ranks: dict[int, int] = {}
        for host, rank in pairs:
            if rank > 0:
                fingerprint = _fingerprint(host)
                best_ranks[fingerprint] = min(rank, best_ranks.get(fingerprint, _MAX_RANK))

        new_ranks = self._better_than_known(best_ranks)
        if not new_ranks:
            return
        packed = np.empty(len(new_ranks), PAIR)
        packed["fingerprint"] = list(new_ranks)
        packed["rank"] = list(new_ranks.values())
        self._open_log().append(packed.tobytes())
        self._written.add(self._file)

        for (fingerprint, rank), index in zip(
            new_ranks.items(), self._indexes(new_ranks), strict=True
        ):
            if index < 0:  # the host is not in the arrays
                self._recent[fingerprint] = rank
            else:
                self._ranks[index] = rank
        if len(self._recent) > self._max_recent:
            self._merge()

    def _better_than_known(self, ranks: dict[int, int]) -> dict[int, int]:
        """Return those of *ranks*, by fingerprint, that are better than the ranks known so far.

        New hosts have no rank yet; they are left out when the table is full.
        """
        free_places = self.capacity - len(self)
        better: dict[int, int] = {}
        for (fingerprint, rank), index in zip(ranks.items(), self._indexes(ranks), strict=True):
            known_rank = self._recent.get(fingerprint, 0) if index < 0 else self._ranks[index]
            is_new = not known_rank
            if rank < known_rank or (is_new and free_places > 0):
                better[fingerprint] = rank
                free_places -= is_new
        return better

    def snapshot(self) -> bytes:
        """Return the snapshot: a few bytes, however many hosts there are."""
        return msgspec.msgpack.encode(RanksSnapshot(self._open_log().size))

    def written(self) -> list[Path]:
        """Return files written since the last call, to be fsynced before publishing."""
        paths = [*self._written]
        self._written.clear()
        return paths

    def forget(self) -> None:
        """Do nothing, because no file is ever replaced by a new one."""

    def close(self) -> None:
        """Close the log. All added ranks are in it already."""
        if self._log is not None:
            self._log.close()

    def _open_log(self) -> RecordLog:
        """Return the log, which must be open."""
        return self._log  # type: ignore[return-value]  # only used while it is open

    def _read(self, end: int) -> tuple[Pairs, int]:
        """Return all pairs in the log, and the offset after the last one.

        Raises CorruptRecordError unless the log is valid up to *end*.
        """
        payloads: list[bytes] = []
        # Records up to *end* must be valid. Those after it are read as far as they are.
        for records in (read_records(self._file, end=end), read_records(self._file, start=end)):
            for offset, payload in records:
                if len(payload) % PAIR.itemsize:
                    raise CorruptRecordError(self._file, offset, "not pairs of host and rank")
                payloads.append(payload)
                end = offset
        return np.frombuffer(b"".join(payloads), PAIR), end

    def _indexes(self, fingerprints: Collection[int]) -> list[int]:
        """Return the index of each of *fingerprints* in the arrays; -1 if it is not there."""
        known = np.asarray(self._fingerprints)
        if not len(known):
            return [-1] * len(fingerprints)
        wanted = np.fromiter(fingerprints, np.uint64, len(fingerprints))
        positions = known.searchsorted(wanted)
        indexes: list[int] = np.where(
            known.take(positions, mode="clip") == wanted, positions, -1
        ).tolist()
        return indexes

    def _merge(self) -> None:
        """Merge the newest hosts into the arrays."""
        fingerprints = np.fromiter(self._recent, np.uint64)
        ranks = np.fromiter(self._recent.values(), np.uint32)
        order = np.argsort(fingerprints)
        positions = np.searchsorted(np.asarray(self._fingerprints), fingerprints[order])
        self._set_arrays(
            np.insert(self._fingerprints, positions, fingerprints[order]),
            np.insert(self._ranks, positions, ranks[order]),
        )

    def _set_arrays(
        self,
        fingerprints: np.ndarray[tuple[int], np.dtype[np.uint64]],
        ranks: np.ndarray[tuple[int], np.dtype[np.uint32]],
    ) -> None:
        # Reading an item of a memoryview returns an int, in half the time of an array's.
        self._fingerprints = fingerprints.data
        self._ranks = ranks.data
        self._recent: dict[int, int] = {}


def _last_of_each(pairs: Pairs) -> Pairs:
    """Return *pairs* sorted by fingerprint, with only the last pair of each fingerprint."""
    pairs = pairs[np.argsort(pairs["fingerprint"], kind="stable")]
    is_last = np.ones(len(pairs), np.bool_)
    is_last[:-1] = pairs["fingerprint"][1:] != pairs["fingerprint"][:-1]
    return pairs[is_last]


def log_of(path: Path) -> Path:
    """Return the path of the log of the table in the directory *path*."""
    return path / "ranks.log"


def _fingerprint(host: str) -> int:
    return xxh3_64_intdigest(host.encode())
