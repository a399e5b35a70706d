"""The format of published checkpoints in the store, and the local record of them.

In the store, one folder for each shard::

    shards/NN/<token>-<sequence>.json    checkpoint: ``Published`` as sealed JSON
    shards/NN/<token>-<random>-<n>       object

A file of a checkpoint is a sequence of *pieces*, each a byte range of an object. The new parts of
many files since the last checkpoint are combined into one object, a *pack*, of at most a few
megabytes. A file that will never change may be stored as an object of its own, by a hard link.

Sealed JSON ends with the member "digest": the XXH3-128 of all bytes before it, in hex. It protects
against damage, but not against people who can write to the store. Format 1 (before 2026-11-24) has
no digest, and no checksums of objects that are whole files. Before format 3, host records are only
a copy, without later changes (hosts/records/database.py). Before format 4, record logs have
version 1 (storage/record_log.py). Before format 5, heartbeats do not name shards, and drones of a
Redis that could fail over also claimed their shards in the folder ``claims``.

In a shard's directory::

    published.json    which of its files are in the store (``LocalRecord``); may be deleted
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec
from xxhash import xxh3_128_hexdigest

from webcrawl.configuration.decoding import Count, Seconds, UndecodableError, json_decoder
from webcrawl.storage.atomic import write_atomic

#: Format version of ``Published`` and other JSON files in the store.
FORMAT = 5
#: File name of the local record in a shard's directory.
RECORD = "published.json"
_CHECKPOINT = re.compile(r"(0|[1-9][0-9]{0,18})-(0|[1-9][0-9]{0,18})\.json")
# Matches names of objects and checkpoints, also of partly written ones; group 1 is the token.
_NAME_WITH_TOKEN = re.compile(r"([0-9]{1,19})-[0-9a-f-]+(\.\w+)*")
_SEAL = b',"digest":"'
# A generous limit: real files are a thousand times smaller.
_ByteCount = Annotated[int, msgspec.Meta(ge=0, le=1 << 42)]


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """Part of a file: *size* bytes of the object *name*, from byte *start* on.

    *checksum* is the CRC-32 (zlib) of these bytes. If the object is the whole file, it is the
    XXH3-128 in hex, or None in format 1.
    """

    name: str
    start: _ByteCount
    size: _ByteCount
    checksum: int | str | None

    @property
    def is_file(self) -> bool:
        """Whether the object is the whole file."""
        return not isinstance(self.checksum, int)


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint of a shard in the store.

    token: the token of the lease under which it was made.
    sequence: the number of the state in the shard's directory; it grows under one token.
    released: whether the shard was given up with nothing in process.
    written_at: epoch seconds, by the clock of the machine that wrote it.
    files: the pieces of each file in the shard's directory; a file without pieces is empty.
    packs: the sizes of packs in bytes, by object name.
    """

    format: Count
    shard: Count
    token: Count
    sequence: Count
    drone: str
    released: bool
    written_at: Seconds
    files: dict[str, list[Piece]]
    packs: dict[str, _ByteCount]

    @property
    def key(self) -> tuple[int, int]:
        """Sort key among the checkpoints of one shard: token and sequence."""
        return self.token, self.sequence

    @property
    def objects(self) -> set[str]:
        """Names of all objects that the checkpoint needs."""
        return {piece.name for pieces in self.files.values() for piece in pieces}


class KnownFile(msgspec.Struct, array_like=True):
    """A file as it was when it was published or fetched.

    If its inode, size and modification time are the same, it has not changed.
    """

    inode: int
    size: int
    mtime_ns: int
    pieces: list[Piece]

    @classmethod
    def of(cls, stat: os.stat_result, pieces: list[Piece]) -> KnownFile:
        """Build the record of a file from its *stat* and *pieces*."""
        return cls(stat.st_ino, stat.st_size, stat.st_mtime_ns, pieces)

    @property
    def is_complete(self) -> bool:
        """Whether the pieces cover the whole file and all have checksums."""
        has_all = sum(piece.size for piece in self.pieces) == self.size
        return has_all and all(piece.checksum is not None for piece in self.pieces)


class LocalRecord(msgspec.Struct, kw_only=True):
    """Record of which files of a shard's directory are in the store.

    token: the token of the lease under which the directory was last used.
    checkpoints: the (token, sequence) of checkpoints that the directory continues: the last one
        published or fetched, and one that was about to be published.
    files: the files that are in the store, by name.
    packs: the sizes of packs in bytes, by object name.
    """

    token: int = 0
    checkpoints: list[tuple[int, int]] = []
    files: dict[str, KnownFile] = {}
    packs: dict[str, int] = {}

    @classmethod
    def read(cls, directory: Path) -> LocalRecord:
        """Read the record of *directory*. Returns an empty one if it cannot be read."""
        try:
            return _decode_record((directory / RECORD).read_bytes())
        except (OSError, UndecodableError):
            return cls()

    def write(self, directory: Path) -> None:
        """Write the record to *directory*. Raises OSError."""
        write_atomic(directory / RECORD, msgspec.json.encode(self))


_decode_record = json_decoder(LocalRecord)


def seal(facts: msgspec.Struct) -> bytes:
    """Encode *facts* as sealed JSON."""
    body = msgspec.json.encode(facts)[:-1]
    return b'%b%b%b"}' % (body, _SEAL, xxh3_128_hexdigest(body).encode())


def has_good_seal(data: bytes) -> bool | None:
    """Return whether the seal of *data* is correct; None if the seal is missing or incomplete."""
    body, seal, digest = data.rpartition(_SEAL)
    expected_digest = b'%b"}' % xxh3_128_hexdigest(body).encode()
    return digest == expected_digest if seal and len(digest) >= len(expected_digest) else None


def folder_of(shard: int) -> str:
    """Return the path of the folder of *shard* in the store."""
    return f"shards/{shard:02d}"


def checkpoint_name(shard: int, key: tuple[int, int]) -> str:
    """Return the path in the store of the checkpoint *key*, a (token, sequence), of *shard*."""
    return f"{folder_of(shard)}/{key[0]}-{key[1]}.json"


def checkpoints_in(names: Iterable[str]) -> list[tuple[int, int]]:
    """Return the (token, sequence) of each checkpoint among *names*, the newest last."""
    matches = map(_CHECKPOINT.fullmatch, names)
    return sorted((int(match[1]), int(match[2])) for match in matches if match)


def token_of(name: str) -> float:
    """Return the token in the name of a checkpoint or object; infinity for other names."""
    match = _NAME_WITH_TOKEN.fullmatch(name)
    return int(match[1]) if match else math.inf
