"""URL trace: the fingerprints of all links of a crawl, in the order of their submission.

Broder, Najork and Wiener logged the links in front of Mercator's host splitter, to replay them into
caches. The trace is a record log; the next ``open`` cuts off an incomplete last record. A record
has up to 2^12 links, or the links of one second. Little-endian::

    payload := magic "URLT" | count u32 | at f64 | fingerprint u64 * count | leaves
             | magic "URLT" | 0 u32 | 0 f64 | seed u64    the first one, since 2026-11-24
    at      := when the first link was submitted, epoch seconds
    leaves  := a bit for each link, lowest first, padded to bytes; for its meaning see ``add``

It takes 8.13 bytes per link, limited only by the disk. A process that dies loses the links of the
last second. Links of pages that are fetched again are recorded twice.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from webcrawl.errors import FatalError, require_file
from webcrawl.storage.record_log import (
    HEADER_SIZE,
    CorruptRecordError,
    NewerFormatError,
    RecordLog,
    read_records,
)
from webcrawl.urls.hash_seed import seed_in_use

_HEAD = struct.Struct("<4sId")
_MAGIC = b"URLT"
_MAX_LINKS = 1 << 12
_MAX_SECS = 1.0
# The largest trace that is read: 2^28 links and more.
_MAX_BYTES = 9 << 28


class UrlTrace:
    """Writes the trace *path*; usable between ``open`` and ``close``."""

    def __init__(self, *, path: Path) -> None:
        self.path = path
        # The links that were not written yet, one byte for each that says whether it leaves (see
        # ``add``), and when the first of them was submitted.
        self._fps = array("Q")
        self._leaves = bytearray()
        self._at = 0.0

    def open(self) -> None:
        """Open the file and continue after its last record. Blocks to read it.

        Raises FatalError if it cannot be written or is not a trace.
        """
        try:
            if self.path.exists():
                # Each record of a trace begins with _MAGIC; ``flush`` writes them. A log without a
                # record may become a trace.
                first_record = next((record for _, record in read_records(self.path)), None)
                if first_record is not None and not first_record.startswith(_MAGIC):
                    raise FatalError(f"{self.path} is not a URL trace: name a new file.")
            self._log = RecordLog.open(self.path)
        except (OSError, CorruptRecordError, NewerFormatError) as error:
            raise FatalError(f"The URL trace cannot be written: {error}.") from error

    def add(self, fps: Sequence[int], leaves: Iterable[int], at: float) -> None:
        """Add the links *fps* of a page, submitted *at* epoch seconds.

        *leaves* says for each link whether it leaves the page's host, or in a hive its shard.
        Raises OSError if the disk is full; then the links of the last second are lost.
        """
        if not self._fps:
            self._at = at
        self._fps.extend(fps)
        self._leaves.extend(leaves)
        if len(self._fps) >= _MAX_LINKS or at - self._at > _MAX_SECS:
            self.flush()

    def flush(self) -> None:
        """Write the links added so far, which then survive ``kill -9``.

        Raises OSError like ``add``.
        """
        fps = self._fps
        leaves = self._leaves
        if fps:
            # A new trace begins with the record that has the hash seed.
            if self._log.size <= HEADER_SIZE:
                self._log.append(_HEAD.pack(_MAGIC, 0, 0.0) + seed_in_use().to_bytes(8, "little"))
            # Emptied first, so that links that cannot be written are lost and do not pile up.
            self._fps = array("Q")
            self._leaves = bytearray()
            bits = np.packbits(np.frombuffer(leaves, dtype=np.uint8), bitorder="little")
            head = _HEAD.pack(_MAGIC, len(fps), self._at)
            self._log.append(head + fps.tobytes() + bits.tobytes())

    def close(self) -> None:
        """Write the remaining links and close the file."""
        with closing(self._log):
            self.flush()


class Trace(NamedTuple):
    """A trace in memory.

    *fps* are the fingerprints, *leaves* says for each link whether it leaves (see ``add``), *begun*
    and *ended* are the times of the first and last record, and *seed* is the hash seed of the
    fingerprints (hash_seed.py).
    """

    fps: NDArray[np.uint64]
    leaves: NDArray[np.bool_]
    begun: float
    ended: float
    seed: int = 0


def read_trace(path: Path) -> Trace:
    """Read the trace *path*: 9 bytes of memory per link, twice that while reading.

    Raises FatalError if it is not a trace, has no links, or is larger than 2.4 GB.
    """
    fps: list[NDArray[np.uint64]] = []
    leaves: list[NDArray[np.bool_]] = []
    times: list[float] = []
    seed = 0
    try:
        if require_file(path).st_size > _MAX_BYTES:
            raise FatalError(f"The URL trace {path} is larger than 2.4 GB: name a smaller one.")
        for _, payload in read_records(path):
            magic, count, at = _HEAD.unpack_from(payload)
            if magic != _MAGIC:
                raise FatalError(f"{path} is not a URL trace: name one that URL_TRACE wrote.")
            # A record without links has the hash seed.
            if not count:
                seed = int.from_bytes(payload[_HEAD.size :], "little")
                continue
            fps.append(np.frombuffer(payload, dtype="<u8", count=count, offset=_HEAD.size))
            bits = np.frombuffer(payload, dtype=np.uint8, offset=_HEAD.size + 8 * count)
            leaves.append(np.unpackbits(bits, count=count, bitorder="little").view(np.bool_))
            times.append(at)
    except (OSError, CorruptRecordError, NewerFormatError) as error:
        raise FatalError(f"The URL trace cannot be read: {error}.") from error
    except (struct.error, ValueError) as error:
        raise FatalError(f"{path} is not a URL trace: {error}.") from error
    if not times:
        raise FatalError(f"The URL trace {path} has no links: name another one.")
    return Trace(np.concatenate(fps), np.concatenate(leaves), times[0], times[-1], seed)


def most_popular(fps: NDArray[np.uint64], limit: int) -> list[int]:
    """Return at most *limit* of the distinct *fps*, the most frequent first.

    Equally frequent fingerprints are in the order of their first occurrence. So the most popular
    ones of a trace that was written from this result are the same, in the same order.
    """
    unique: Any = np.unique(fps, return_index=True, return_counts=True)
    distinct, first_index, counts = unique
    # The last key, the frequency, is the main one.
    distinct = distinct[np.lexsort((first_index, -counts))[:limit]]
    return [int(fp) for fp in distinct]


def write_trace(path: Path, fps: Sequence[int]) -> None:
    """Write a trace of *fps* to *path*, replacing an existing file. The seed is the one in use.

    Raises OSError.
    """
    path.unlink(missing_ok=True)
    trace = UrlTrace(path=path)
    trace.open()
    with closing(trace):
        for start in range(0, len(fps), _MAX_LINKS):
            batch = fps[start : start + _MAX_LINKS]
            trace.add(batch, bytes(len(batch)), 0.0)
