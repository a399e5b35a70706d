"""Published checkpoints: their form in the store, and what is noted of them here.

In the store, one folder for each shard::

    shards/NN/<token>-<sequence>.json    checkpoint: ``Published`` as sealed JSON
    shards/NN/<token>-<random>-<n>       object

A file of a checkpoint is a row of *pieces*, each a range of an object. What many files got since
the last checkpoint is put together into one object, a *pack*, of at most some megabytes; a file
that will never change may be an object of its own, by a hard link.

Sealed JSON ends with the member "digest": XXH3-128 of all bytes before it, in hex. It is against
damage, not against those who can write to the store. Format 1, of before 2026-11-24, has none, and
no checksums of objects that are files. Before format 3 host records have no changes beside their
copy (hosts/records/database.py).

In a shard's directory::

    published.json    what of it the store has, as which checkpoints: ``LocalRecord``; disposable
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Annotated

import msgspec
from xxhash import xxh3_128_hexdigest

from webcrawl.configuration.decoding import Count, Seconds, UndecodableError, json_decoder
from webcrawl.storage.atomic import write_atomic

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from pathlib import Path

#: Of ``Published``, and of what else is in the store as JSON.
FORMAT = 3
#: In a shard's directory.
RECORD = "published.json"
_CHECKPOINT = re.compile(r"(0|[1-9][0-9]{0,18})-(0|[1-9][0-9]{0,18})\.json")
# With objects and checkpoints, whole and half written.
_OF_TOKEN = re.compile(r"([0-9]{1,19})-[0-9a-f-]+(\.\w+)*")
_SEAL = b',"digest":"'
# A piece is at most a file; a thousand times of what there is.
_Bytes = Annotated[int, msgspec.Meta(ge=0, le=1 << 42)]


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """*size* bytes of a file: those of the object *name* from *start* on.

    *checksum* is their CRC-32 (zlib). Of an object that is the file itself it is XXH3-128 in hex,
    or None in format 1.
    """

    name: str
    start: _Bytes
    size: _Bytes
    checksum: int | str | None

    @property
    def is_file(self) -> bool:
        """Whether the object is the file itself."""
        return not isinstance(self.checksum, int)


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint of a shard in the store.

    token: of the lease under which it was made.
    sequence: the number of the state in the shard's directory; grows under one token.
    released: the shard was handed over: nothing of it was under way.
    written_at: epoch seconds, by the clock of the machine that wrote it.
    files: by their names in the shard's directory; a file without pieces is empty.
    packs: their sizes in bytes, by the names of the objects.
    """

    format: Count
    shard: Count
    token: Count
    sequence: Count
    drone: str
    released: bool
    written_at: Seconds
    files: dict[str, list[Piece]]
    packs: dict[str, _Bytes]

    @property
    def key(self) -> tuple[int, int]:
        """By which checkpoints of one shard are ordered."""
        return self.token, self.sequence

    @property
    def objects(self) -> set[str]:
        """The names of all objects that it needs."""
        return {piece.name for pieces in self.files.values() for piece in pieces}


class KnownFile(msgspec.Struct, array_like=True):
    """A file as it was when it was published or fetched.

    The same inode, size and time of change mean that it is the same still.
    """

    inode: int
    size: int
    mtime_ns: int
    pieces: list[Piece]

    @classmethod
    def of(cls, stat: os.stat_result, pieces: list[Piece]) -> KnownFile:
        """One of *pieces*."""
        return cls(stat.st_ino, stat.st_size, stat.st_mtime_ns, pieces)

    @property
    def is_here(self) -> bool:
        """Whether there are pieces of all of it, with checksums."""
        has_all = sum(piece.size for piece in self.pieces) == self.size
        return has_all and all(piece.checksum is not None for piece in self.pieces)

    def is_still(self, stat: os.stat_result) -> bool:
        """Whether *stat* is that of the same file, unchanged."""
        found = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
        return found == (self.inode, self.size, self.mtime_ns)


class LocalRecord(msgspec.Struct, kw_only=True):
    """Record in a shard's directory of its files in the store.

    token: of the lease under which the directory was last used.
    checkpoints: (token, sequence) of those that the directory has gone on from: the last that was
    published or fetched, and the one that was about to be.
    """

    token: int = 0
    checkpoints: list[tuple[int, int]] = []
    files: dict[str, KnownFile] = {}
    packs: dict[str, int] = {}

    @classmethod
    def read(cls, directory: Path) -> LocalRecord:
        """That of *directory*; an empty one if there is none that can be read."""
        try:
            return _decode_record((directory / RECORD).read_bytes())
        except (OSError, UndecodableError):
            return cls()

    def write(self, directory: Path) -> None:
        """Make it that of *directory*. OSError."""
        write_atomic(directory / RECORD, msgspec.json.encode(self))


_decode_record = json_decoder(LocalRecord)


def sealed(facts: msgspec.Struct) -> bytes:
    """*facts* as sealed JSON."""
    body = msgspec.json.encode(facts)[:-1]
    return b'%b%b%b"}' % (body, _SEAL, xxh3_128_hexdigest(body).encode())


def has_good_seal(data: bytes) -> bool | None:
    """Whether the seal of *data* is that of its bytes; None if it has none, or half of one."""
    body, seal, rest = data.rpartition(_SEAL)
    expected = b'%b"}' % xxh3_128_hexdigest(body).encode()
    return rest == expected if seal and len(rest) >= len(expected) else None


def folder_of(shard: int) -> str:
    """Where everything of *shard* is in the store."""
    return f"shards/{shard:02d}"


def checkpoint_name(shard: int, key: tuple[int, int]) -> str:
    """The name of the checkpoint (token, sequence) in the store."""
    return f"{folder_of(shard)}/{key[0]}-{key[1]}.json"


def checkpoints_in(names: Iterable[str]) -> list[tuple[int, int]]:
    """The (token, sequence) of the checkpoints among *names*, the newest last."""
    found = map(_CHECKPOINT.fullmatch, names)
    return sorted((int(one[1]), int(one[2])) for one in found if one is not None)


def token_of(name: str) -> float:
    """The token of a checkpoint or object; that of another thing is never too old."""
    found = _OF_TOKEN.fullmatch(name)
    return int(found[1]) if found else math.inf
