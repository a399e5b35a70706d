"""What the seed list says about hosts, for the prioritizer: the rank of each.

Filled by the seed reader, asked once for each link that leads to another host. The invariant: the
rank of a host is the best (smallest) it was ever added with, or 0 when it is not known.

In memory the hosts are an open-addressing table of 12 bytes a slot, at most half full: fingerprint
u64 (xxh3 of the name, 0 stands for an empty slot) and rank u32. A dict would take 100 bytes a
host. Two hosts with one fingerprint share a rank: among a million hosts the odds of one such pair
are 1 to 37 million, and it costs nothing but a place in the queue. The home of a fingerprint is
given by its highest bits, so a table in the order of its slots is nearly a sorted one, and a new
table is made of sorted fingerprints by numpy at once: slot = max(home, slot before + 1).

On disk::

    ranks.log   record log (storage/records.py); one record for each batch that brought news:
                (fingerprint u64 | rank u32) *, little-endian; of two for one host the later holds

The log is only ever appended to, so a snapshot is its size. Recovery takes all records before that
and, as ``kill -9`` loses nothing, the good ones after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
from xxhash import xxh3_64_intdigest

from webcrawl.storage.atomic import make_directory
from webcrawl.storage.records import HEADER_SIZE, CorruptRecordError, RecordLog, read_records

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    Pairs = np.ndarray[tuple[int], np.dtype[np.void]]

PAIR = np.dtype([("fingerprint", "<u8"), ("rank", "<u4")])
assert PAIR.itemsize == 12
_MAX_RANK = 0xFFFF_FFFF
# Slots, as powers of two: a table begins with 12 kB and doubles when it is half full, so that a
# small crawl pays little. From 65,536 hosts on it has its full size at once, 24 MB for 2**20
# hosts: to make a larger one of half a million hosts would hold the reactor for 0.13 s.
_FIRST_BITS = 10
_DOUBLES_TO_BITS = 17


class RanksSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """The log is vouched for up to this size."""

    size_bytes: int


class HostRanks:
    """The ranks, kept for at most *capacity* hosts: who comes later is of the lowest class anyway.

    Not thread-safe. A durable part: snapshot, written and forget as in crawl/jobdir.py.
    """

    def __init__(self, *, path: Path, capacity: int = 1 << 20) -> None:
        self._path = path
        self._file = log_of(path)
        self._capacity = capacity
        self._full_bits = (2 * capacity - 1).bit_length()
        self._written: set[Path] = set()
        self._log: RecordLog | None = None
        self._build(np.empty(0, PAIR))

    def load(self, snapshot: bytes | None) -> None:
        """As ``open``, for who only asks: nothing on disk is changed."""
        if snapshot is not None:
            self._load(snapshot)

    def _load(self, snapshot: bytes) -> int:
        """Build the table; returns the offset after the last record."""
        pairs, end = self._read(msgspec.msgpack.decode(snapshot, type=RanksSnapshot).size_bytes)
        self._build(pairs)
        return end

    def open(self, snapshot: bytes | None) -> None:
        """Take up the state of *snapshot* and what was added after it; None begins anew.

        Blocks, a million hosts take a fifth of a second. Raises CorruptRecordError when the log
        is damaged before the snapshot's end.
        """
        self._written.update(make_directory(self._path))
        self._written.update((self._path, self._file))
        end = HEADER_SIZE
        if snapshot is None:
            self._file.unlink(missing_ok=True)
        else:
            end = self._load(snapshot)
        self._log = RecordLog.open(self._file, size=end)

    def __len__(self) -> int:
        """How many hosts are known."""
        return self._count

    def rank(self, host: str) -> int:
        """The rank of *host* in the seed list, 1 is the first; 0 when it is not known."""
        return self._find(_fingerprint(host))

    def add_many(self, pairs: Sequence[tuple[str, int]]) -> None:
        """Add hosts with their ranks; the better rank of a host holds, and rank 0 says nothing.

        One write, none when there is no news; it survives ``kill -9`` from here on. On OSError
        (disk full) nothing was added.
        """
        room = self._capacity - self._count
        news: dict[int, int] = {}
        for host, rank in pairs:
            if rank <= 0:
                continue
            fingerprint = _fingerprint(host)
            known = news.get(fingerprint) or self._find(fingerprint)
            if known:
                if rank >= known:
                    continue
            elif room:
                room -= 1
            else:
                continue
            news[fingerprint] = min(rank, _MAX_RANK)
        if news:
            packed = np.empty(len(news), PAIR)
            packed["fingerprint"] = list(news)
            packed["rank"] = list(news.values())
            self._opened().append(packed.tobytes())
            self._written.add(self._file)
            self._insert(packed)

    def snapshot(self) -> bytes:
        """A few bytes, whatever the number of hosts."""
        return msgspec.msgpack.encode(RanksSnapshot(self._opened().size))

    def written(self) -> list[Path]:
        """What was written since the last call, to be fsynced before a snapshot is published."""
        paths = [*self._written]
        self._written.clear()
        return paths

    def forget(self) -> None:
        """Nothing to do: no file is ever superseded."""

    def close(self) -> None:
        """Close the log. Everything added is in it."""
        if self._log is not None:
            self._log.close()

    def check(self) -> list[str]:
        """Compare the table with the log; empty means sound. Reads the log, as ``open`` does."""
        try:
            logged, _ = self._read(self._opened().size)
        except CorruptRecordError as error:
            return [str(error)]
        problems = []
        kept = self._kept(logged)
        if len(kept) != self._count:
            problems.append(f"{self._file}: {len(kept)} hosts, {self._count} in memory")
        for fingerprint, rank in kept.tolist():
            if self._find(fingerprint) != rank:
                problems.append(f"{self._file}: rank {rank} of {fingerprint:016x} is not in memory")
        return problems

    def _opened(self) -> RecordLog:
        assert self._log is not None, "used before open"
        return self._log

    def _read(self, end: int) -> tuple[Pairs, int]:
        """All pairs in the log, vouched for up to *end*, and the offset after the last of them."""
        payloads: list[bytes] = []
        for records in (read_records(self._file, end=end), read_records(self._file, start=end)):
            for offset, payload in records:
                if len(payload) % PAIR.itemsize:
                    raise CorruptRecordError(self._file, offset, "not pairs of host and rank")
                payloads.append(payload)
                end = offset
        return np.frombuffer(b"".join(payloads), PAIR), end

    def _find(self, fingerprint: int) -> int:
        slot = fingerprint >> self._shift
        keys = self._keys
        while key := keys[slot]:
            if key == fingerprint:
                return self._ranks[slot]
            slot = (slot + 1) & self._mask
        return 0

    def _insert(self, pairs: Pairs) -> None:
        """Put *pairs* into the table, over what is there; a larger table is made if need be."""
        keys, ranks, mask = self._keys, self._ranks, self._mask
        if len(keys) < 1 << self._full_bits and 2 * (self._count + len(pairs)) > len(keys):
            used = np.flatnonzero(keys)
            known = np.empty(len(used), PAIR)
            known["fingerprint"] = np.asarray(keys)[used]
            known["rank"] = np.asarray(ranks)[used]
            self._build(np.concatenate((known, pairs)))
            return
        for fingerprint, rank in pairs.tolist():
            slot = fingerprint >> self._shift
            while keys[slot] not in {0, fingerprint}:
                slot = (slot + 1) & mask
            self._count += not keys[slot]
            keys[slot] = fingerprint
            ranks[slot] = rank

    def _build(self, pairs: Pairs) -> None:
        """Make the table of *pairs*, of which the later holds where two are for one host."""
        pairs = self._kept(pairs)
        bits = max(_FIRST_BITS, (2 * len(pairs) - 1).bit_length())
        if bits > _DOUBLES_TO_BITS:
            bits = self._full_bits
        size = 1 << bits
        keys, ranks = np.zeros(size, np.uint64), np.zeros(size, np.uint32)
        index = np.arange(len(pairs))
        home = (pairs["fingerprint"] >> np.uint64(64 - bits)).astype(np.int64)
        slots = np.maximum.accumulate(home - index) + index
        inside = slots < size
        keys[slots[inside]] = pairs["fingerprint"][inside]
        ranks[slots[inside]] = pairs["rank"][inside]
        # A memoryview gives a Python int twice as fast as an array does.
        self._keys, self._ranks = keys.data, ranks.data
        self._shift, self._mask = 64 - bits, size - 1
        self._count = int(np.count_nonzero(inside))
        self._insert(pairs[~inside])  # the few that go around the end of the table

    def _kept(self, pairs: Pairs) -> Pairs:
        """*pairs* sorted by fingerprint, of each the last; the best if they are too many, as
        they are when the capacity was larger when the log was written."""
        pairs = pairs[np.argsort(pairs["fingerprint"], kind="stable")]
        is_last = np.ones(len(pairs), np.bool_)
        is_last[:-1] = pairs["fingerprint"][1:] != pairs["fingerprint"][:-1]
        pairs = pairs[is_last]
        if len(pairs) > self._capacity:
            best = np.argpartition(pairs["rank"], self._capacity)[: self._capacity]
            pairs = pairs[np.sort(best)]
        return pairs


def log_of(path: Path) -> Path:
    """The log of the table in the directory *path*."""
    return path / "ranks.log"


def _fingerprint(host: str) -> int:
    return xxh3_64_intdigest(host.encode()) or 1
