"""Robots record: the last answer for an origin's robots.txt and its last file, as packed bytes.

Times are epoch seconds. Bytes that are damaged or of another version count as unknown, and the
robots.txt is fetched again.
"""

from __future__ import annotations

import struct
import zlib
from functools import lru_cache

import msgspec
from isal import isal_zlib

from webcrawl.configuration.decoding import Seconds, UndecodableError, msgpack_decoder
from webcrawl.hosts.robots.grammar import MAX_BYTES
from webcrawl.hosts.robots.rules import is_file, is_unreachable

# packed := msgpack array [version, status, fetched_at, failing_for, file_at, file]
#   version      1; another one is not read
#   status       of the last answer, nil if there was no answer
#   fetched_at   time of the last answer or failure, epoch seconds
#   failing_for  seconds for which every try has failed, 0 if the last one succeeded
#   file_at      when the file was received, epoch seconds, 0 if there is none
#   file         zlib stream of the last robots.txt, its first 500 KiB; nil if the last answer
#                that was not a failure had none
# Fields may be added at the end; readers skip unknown ones.
VERSION = 1

# A level of ISA-L. 500 KiB of rules take 1.7 ms; zlib's level 1 takes 4.7 ms.
_LEVEL = 1
# Shorter files are stored uncompressed. Compression would save nothing, and takes 25 us in a crawl,
# as its memory is no longer in the processor's caches.
_WORTH_BYTES = 128
#: Files that many hosts have in common are at most this long. The given number of them are cached,
#: so that they are parsed and compressed only once.
COMMON_BYTES = 1024
COMMON_FILES = 256


class RobotsRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The last answer for an origin's robots.txt, and its last file; *file* is not compressed."""

    version: int
    status: int | None
    fetched_at: Seconds
    failing_for: Seconds = 0.0
    file_at: Seconds = 0.0
    file: bytes | None = None

    @property
    def failing(self) -> bool:
        """Return whether the last try failed."""
        return is_unreachable(self.status)


def record_after(
    earlier: RobotsRecord | None, status: int | None, body: bytes, *, now: float, longest_gap: float
) -> RobotsRecord:
    """Return the new record after an answer with *status* and *body* at *now*.

    *earlier* is the previous record. It is only used if this is a failure: then its file is kept.
    The time from one failure to the next is added to the time of failing, but at most *longest_gap*
    seconds. A crawl that was stopped for a month, or whose clock was set, has not seen the host
    failing for that long.
    """
    if is_file(status):
        return RobotsRecord(VERSION, status, now, file_at=now, file=body[:MAX_BYTES])
    if earlier is None or not is_unreachable(status):
        return RobotsRecord(VERSION, status, now)
    failing_for = earlier.failing_for
    if earlier.failing:
        failing_for += min(max(0.0, now - earlier.fetched_at), longest_gap)
    return msgspec.structs.replace(earlier, status=status, fetched_at=now, failing_for=failing_for)


def _deflate(file: bytes) -> bytes:
    """Return *file* as a zlib stream, compressed if that is worth the time."""
    if len(file) >= _WORTH_BYTES:
        return isal_zlib.compress(file, _LEVEL)

    # A zlib stream of one block that is not compressed (RFC 1950, RFC 1951 section 3.2.4).
    header = b"\x78\x01" + struct.pack("<BHH", 1, len(file), len(file) ^ 0xFFFF)
    return b"".join((header, file, struct.pack(">I", zlib.adler32(file))))


_deflate_common = lru_cache(maxsize=COMMON_FILES)(_deflate)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgpack_decoder(RobotsRecord)


def pack(entry: RobotsRecord) -> bytes:
    """Encode *entry* for the store."""
    if entry.file is not None:
        deflated = _deflate if len(entry.file) > COMMON_BYTES else _deflate_common
        entry = msgspec.structs.replace(entry, file=deflated(entry.file))
    return _encode(entry)


def unpack(data: bytes | None) -> RobotsRecord | None:
    """Decode a record that `pack` encoded; return None if *data* is None, damaged or too new."""
    if data is None:
        return None
    try:
        entry = _decode(data)
        if entry.file is not None:
            entry = msgspec.structs.replace(entry, file=_inflate(entry.file))
    except (UndecodableError, zlib.error):
        return None
    return entry if entry.version == VERSION else None


def _inflate(stream: bytes) -> bytes:
    """Return the file in the zlib *stream*; raise zlib.error if it is damaged or too long."""
    inflater = zlib.decompressobj()
    file = inflater.decompress(stream, MAX_BYTES)
    # At the limit the end of the stream may not have been checked yet.
    if not inflater.eof and (inflater.decompress(inflater.unconsumed_tail, 1) or not inflater.eof):
        raise zlib.error("the stream does not end")
    return file
