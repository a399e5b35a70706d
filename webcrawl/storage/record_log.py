"""Record log: an append-only file of framed records, the basic format of the crawl's state.

Used by the frontier's queues and done log, the eliminator's URL log and the snapshots. Invariant:
either a record can be read completely and its checksum matches, or it belongs to the torn tail.

Format, little-endian::

    file   := header frame*
    header := magic "WCLG" | version u16 | flags u16 (0)
    frame  := length u32 | crc32 u32 (zlib, of the magic and the payload) | payload

A crash can only tear the frame that was being written; a power failure can tear everything after
the last fsync. A reader that knows how far the file was synced (``end``, from a manifest) treats
damage before it as corruption. Without an ``end`` the log ends at the first bad frame. A power
failure often leaves zeros in blocks that were never synced. The checksum therefore includes the
magic, so that eight zero bytes are not a valid empty record. A header that ends early or in zeros
was never synced.
"""

from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Self

import msgspec
from isal import isal_zlib

from webcrawl.configuration.decoding import UndecodableError, msgpack_decoder
from webcrawl.storage.atomic import OpenFile, unshare, write_all

MAGIC = b"WCLG"
# Version 1 (until webcrawl 0.3) has no compressed records of the URL log, and its packed items are
# not msgpack.
VERSION = 2
HEADER = struct.Struct("<4sHH")
HEADER_SIZE = HEADER.size
FRAME = struct.Struct("<II")
_HEADER_BYTES = HEADER.pack(MAGIC, VERSION, 0)
# ISA-L's CRC takes a thirtieth of the time of zlib's for the links of a page.
_CRC_START = isal_zlib.crc32(MAGIC)
# Writers never make larger frames. A larger length is a sign of damage, and must not make the
# reader allocate that much memory.
MAX_PAYLOAD = 1 << 28
_READ_BYTES = 1 << 18
# The largest payload before it is compressed, for the same reason.
_MAX_UNCOMPRESSED = 1 << 30
# Added to the number of packed items. In files of version 1 the number is smaller.
_MSGPACK = 1 << 31


class CorruptRecordError(Exception):
    """A record of *path* at the byte *offset* is damaged or missing; *why* is the reason."""

    def __init__(self, path: Path, offset: int, why: str) -> None:
        super().__init__(f"{path}: damaged at byte {offset}: {why}")
        self.path = path
        self.offset = offset
        self.why = why


#: The exceptions that parts of a crawl raise for a broken or damaged disk.
DISK_ERRORS = (OSError, CorruptRecordError)


class NewerFormatError(Exception):
    """A later version of webcrawl wrote *what*, in format *found*; nothing was changed.

    *known* is the newest format that this version can read.
    """

    def __init__(self, what: object, found: int, known: int) -> None:
        super().__init__(
            f"{what} has format {found}, this webcrawl reads up to {known}: "
            "use the newer webcrawl that wrote it, or another JOBDIR"
        )


class RecordLog(OpenFile):
    """The writer of one record log. Not thread-safe."""

    def __init__(self, *, path: Path, fd: int, size: int) -> None:
        self.path = path
        self.size = size
        self._fd = fd

    @classmethod
    def open(cls, path: Path, *, size: int | None = None, shares: bool = False) -> Self:
        """Open *path* for appending, and create it if necessary.

        With *size*, from a manifest, the file is truncated to that size. Without *size*, the file
        is read, and a torn tail is cut off. If other hard links to the file exist, for example in a
        checkpoint, it is copied first, so that they keep their content. With *shares* it is not
        copied, and the appended data also appears under the other names.

        Raises CorruptRecordError if the file is shorter than *size* or is not a record log, and
        NewerFormatError if a later webcrawl wrote it. In both cases nothing is changed. With a
        *size* of 0 any file is overwritten.
        """
        if size is None:
            # The last good record ends where the torn tail begins.
            records = read_records(path) if path.exists() else iter(())
            size = max((offset for offset, _ in records), default=HEADER_SIZE)

        # If the file must already contain records, a missing one is an error.
        create_flag = 0 if size > HEADER_SIZE else os.O_CREAT
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | create_flag, 0o644)
        except FileNotFoundError:
            if create_flag:
                raise
            raise CorruptRecordError(path, 0, f"{size} bytes expected") from None

        status = os.fstat(fd)
        if status.st_nlink > 1 and not shares:
            os.close(fd)
            unshare(path)
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)

        file_size = status.st_size
        if size > max(file_size, HEADER_SIZE):
            os.close(fd)
            raise CorruptRecordError(path, file_size, f"{size} bytes expected")

        try:
            if size == HEADER_SIZE and os.pread(fd, HEADER_SIZE, 0) == _HEADER_BYTES:
                # The header is not rewritten, so that the file has one at all times.
                os.ftruncate(fd, HEADER_SIZE)
            elif size <= HEADER_SIZE:  # nothing in the file is kept, not even its header
                os.ftruncate(fd, 0)
                write_all(fd, _HEADER_BYTES)
                size = HEADER_SIZE
            else:
                header = os.pread(fd, HEADER_SIZE, 0)
                check_header(path, header)
                if file_size > size:
                    os.ftruncate(fd, size)
                if header != _HEADER_BYTES:  # records of this version may follow
                    os.pwrite(fd, _HEADER_BYTES, 0)
            os.lseek(fd, size, os.SEEK_SET)
        except BaseException:
            os.close(fd)
            raise
        return cls(path=path, fd=fd, size=size)

    def append(self, payload: bytes) -> int:
        """Append one record with one write and return the offset after it.

        From then on the record survives ``kill -9``, and after ``sync()`` also a power failure. On
        an OSError (disk full) the incomplete frame is cut off again, so the log stays usable.
        Raises ValueError for more than MAX_PAYLOAD bytes, which readers reject.
        """
        length = len(payload)
        if length > MAX_PAYLOAD:
            raise ValueError(f"a record has {length} bytes; the limit is {MAX_PAYLOAD}")
        data = FRAME.pack(length, isal_zlib.crc32(payload, _CRC_START)) + payload
        try:
            write_all(self._fd, data)
        except BaseException:
            # Seek first: if truncating fails as well, the next append overwrites the torn frame.
            os.lseek(self._fd, self.size, os.SEEK_SET)
            os.ftruncate(self._fd, self.size)
            raise
        self.size += len(data)
        return self.size

    def sync(self) -> None:
        """fsync the file; blocks for milliseconds to seconds."""
        os.fsync(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_records(
    path: Path,
    *,
    start: int = HEADER_SIZE,
    end: int | None = None,
    buffering: int = _READ_BYTES,
) -> Generator[tuple[int, bytes], None, None]:
    """Yield ``(offset after the frame, payload)`` for each record of *path* from byte *start* on.

    With *end*, the records up to that offset must exist: damage before *end*, or a missing file,
    raises CorruptRecordError, and nothing after *end* is read. Without *end*, reading stops at the
    first bad frame. In both cases a file with another header raises CorruptRecordError, and a file
    of a later version raises NewerFormatError.
    """
    try:
        opened = path.open("rb", buffering=buffering)
    except FileNotFoundError:
        if end is None:
            raise
        raise CorruptRecordError(path, 0, "the file is gone") from None
    with opened as file:
        header = file.read(HEADER_SIZE)
        if end is None and _is_torn(header):  # a new file that was never synced has no records
            return
        check_header(path, header)
        file.seek(start)
        offset = start
        while end is None or offset < end:
            try:
                payload = read_payload(file)
            except ValueError as error:
                if end is None:
                    return
                raise CorruptRecordError(path, offset, str(error)) from None
            offset += FRAME.size + len(payload)
            if end is not None and offset > end:
                raise CorruptRecordError(path, offset, f"a record crosses the known end {end}")
            yield offset, payload


def read_payload(file: BinaryIO) -> bytes:
    """Read the next frame of *file* and return its payload.

    Raises ValueError, with the reason, if there is no valid frame.
    """
    frame = file.read(FRAME.size)
    if len(frame) < FRAME.size:
        raise ValueError("the file ends within a frame" if frame else "the file ends here")
    length, crc = FRAME.unpack(frame)
    if length > MAX_PAYLOAD:
        raise ValueError(f"impossible record length {length}")
    payload = file.read(length)
    if len(payload) < length:
        raise ValueError("the file ends within a record")
    if isal_zlib.crc32(payload, _CRC_START) != crc:
        raise ValueError("checksum mismatch")
    return payload


def read_record(path: Path, offset: int, end: int) -> tuple[int, bytes]:
    """Return ``(offset after the frame, payload)`` of the record of *path* at *offset*.

    Reads only this record, without a buffer. Raises CorruptRecordError if there is no good record
    at *offset*, or if it does not end by *end*.
    """
    for record in read_records(path, start=offset, end=end, buffering=0):
        return record
    raise CorruptRecordError(path, offset, "no record here")


def _is_torn(header: bytes) -> bool:
    """Return whether *header* was written only in part: its last bytes are missing or zeros."""
    return header != _HEADER_BYTES and _HEADER_BYTES.startswith(header.rstrip(b"\0"))


def check_header(path: Path, header: bytes) -> None:
    """Raise CorruptRecordError if *header* is not that of a record log.

    Raises NewerFormatError if a later version of webcrawl wrote the file *path*.
    """
    magic, version, _ = HEADER.unpack(header.ljust(HEADER_SIZE, b"\0"))
    if magic != MAGIC or not version:
        raise CorruptRecordError(path, 0, "not a record log header")
    if version > VERSION:
        raise NewerFormatError(path, version, VERSION)


def header_fields(
    path: Path, header: bytes, layout: struct.Struct, magic: bytes, newest: int, *, what: str
) -> list[Any]:
    """Return the fields of *header* that follow *magic*, version and flags.

    *header* is a *layout*, followed by the crc32 of it. Raises CorruptRecordError, which says
    *what* kind of file the header belongs to, and NewerFormatError for a version after *newest*.
    """
    size = layout.size
    if len(header) < size + 4 or not header.startswith(magic):
        raise CorruptRecordError(path, 0, f"not a {what} header")
    _, version, _, *fields = layout.unpack_from(header)
    if version > newest:
        raise NewerFormatError(path, version, newest)
    if isal_zlib.crc32(header[:size]) != int.from_bytes(header[size:], "little"):
        raise CorruptRecordError(path, 0, f"the {what} header is damaged")
    return fields


_encode_items = msgspec.msgpack.Encoder().encode
_decode_items = msgpack_decoder(list[bytes])


def pack_many(items: Sequence[bytes]) -> bytes:
    """Pack *items* into one payload: ``2^31 + count u32``, and a msgpack array of byte strings."""
    return (_MSGPACK + len(items)).to_bytes(4, "little") + _encode_items(items)


def unpack_many(payload: bytes) -> list[bytes]:
    """Return the items in a *payload* made by ``pack_many``, also by that of webcrawl 0.3.

    That one made ``count u32 | length u32 * count | bytes``. Raises ValueError for other bytes.
    """
    try:
        (count,) = struct.unpack_from("<I", payload)
        if count >= _MSGPACK:
            items = _decode_items(memoryview(payload)[4:])
            if len(items) != count - _MSGPACK:
                raise ValueError("not packed items: the count is wrong")
            return items
        lengths = struct.unpack_from(f"<{count}I", payload, 4)
    except (UndecodableError, struct.error) as error:
        raise ValueError(f"not packed items: {error}") from error
    bounds = [*itertools.accumulate(lengths, initial=4 + 4 * count)]
    if bounds[-1] != len(payload):
        raise ValueError("not packed items: the lengths do not add up")
    return [payload[start:end] for start, end in itertools.pairwise(bounds)]


def compress(payload: bytes, level: int) -> bytes:
    """Compress *payload* with ISA-L's *level* of zlib's format.

    Raises ValueError for more bytes than ``decompress`` returns.
    """
    if len(payload) > _MAX_UNCOMPRESSED:
        raise ValueError(f"a record has {len(payload)} bytes; the limit is {_MAX_UNCOMPRESSED}")
    return isal_zlib.compress(payload, level)


def decompress(data: bytes) -> bytes:
    """Return the payload that ``compress`` was given. Raises ValueError for other bytes."""
    reader = isal_zlib.decompressobj()
    try:
        payload = reader.decompress(data, _MAX_UNCOMPRESSED)
    except isal_zlib.error as error:  # type: ignore[misc]  # isal's stub says it is an instance
        raise ValueError(f"not packed items: {error}") from error
    if not reader.eof or reader.unused_data:
        raise ValueError("not packed items: the compressed data does not end with the record")
    return payload


def unpack(path: Path, offset: int, payload: bytes) -> list[bytes]:
    """Return the items in *payload*, the record of *path* at *offset*.

    Raises CorruptRecordError if ``pack_many`` did not make it.
    """
    try:
        return unpack_many(payload)
    except ValueError as error:
        raise CorruptRecordError(path, offset, str(error)) from error


def count_packed(payload: bytes) -> int:
    """Return the number of items in *payload*, made by ``pack_many``.

    Raises ValueError if *payload* is too short for that.
    """
    if len(payload) < 4:
        raise ValueError("not packed items: no count")
    return int.from_bytes(payload[:4], "little") % _MSGPACK
