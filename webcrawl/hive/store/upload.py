"""Upload: one publication of a shard, file by file, while the shard goes on.

Which files never change any more is told by their formats: runs and filters, whose header is
written last; a numbered record log when there is a next one, as only the highest is appended to;
the snapshot. Others may be appended to at any time, and are copied as far as they go when they are
read: what the live state names of them was on disk before. What is in the store already is found by
inode, size and time of change, or, of a file that has grown, by the checksums of its pieces.
"""

from __future__ import annotations

import os
import re
import shutil
import zlib
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import file_digest
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from xxhash import xxh3_128

from webcrawl.hive.store.checkpoint_files import KnownFile, Piece, folder_of, token_of
from webcrawl.hosts.records.database import FILE
from webcrawl.randomness import random_hex
from webcrawl.seen import bloom_file, runs
from webcrawl.storage import record_log
from webcrawl.storage.atomic import make_directory
from webcrawl.storage.manifest import ManifestStore
from webcrawl.storage.object_store import is_plain
from webcrawl.storage.record_log import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from io import BufferedReader, FileIO

    from webcrawl.hosts.records.database import Changes, Database
    from webcrawl.storage.object_store import ObjectStore

#: Host records, which are written in place: copied, never linked.
HOSTS = "hosts"
_COPIED = f"{HOSTS}/{FILE}"
# Contacts and finished pages since the checkpoint: it would tell of pages whose links are not in
# the store, and is published without its records (as kept_checkpoints.py).
_DONE_LOG = str(Path("frontier", "done"))
_ASIDE = ".tmp"
_COPY = f"publish{_ASIDE}"
_WRITTEN_ONCE = {runs.MAGIC, bloom_file.MAGIC}
_UNFINISHED = bytes(4)
_NUMBERED = re.compile(r"(.*?)(\d+)(\.\w+)")
# A file of more pieces is uploaded anew.
_MAX_PIECES = 64


class SupersededError(Exception):
    """The error of a publication by a drone that holds the shard no more; nothing came of it."""


class ShardFiles(NamedTuple):
    """The live state of a shard's directory.

    sequence: its number. lasting: the names of files that later states may have, too; passing: of
    those that are of this one, and never change. Without the host records.
    """

    sequence: int
    lasting: list[str]
    passing: list[str]


def live_files(directory: Path) -> ShardFiles:
    """The files of the shard in *directory*. CorruptRecordError if it has no live state;
    NewerFormatError."""
    manifest = ManifestStore(path=directory).load()
    if manifest is None:
        raise CorruptRecordError(directory / "CURRENT", 0, "the file is gone")
    sequence = manifest["sequence"]
    passing = ["CURRENT", f"manifest-{sequence:06d}.json", manifest["snapshot"]["file"]]
    lasting: list[str] = []
    for place, folders, files in os.walk(directory):
        inside = os.path.relpath(place, directory)
        if inside == HOSTS or inside.endswith(_ASIDE):
            folders.clear()
        elif inside != ".":
            names = (f"{inside}/{name}" for name in files if not name.endswith(_ASIDE))
            lasting += filter(is_plain, names)  # no part has others
    return ShardFiles(sequence, sorted(lasting), passing)


@dataclass(eq=False, repr=False)
class Upload:
    """One publication of *shard*: makes objects under names of *token*, while *go_on*.

    Bytes of many files are put together into packs of at most *pack_bytes*.
    """

    objects: ObjectStore
    shard: int
    token: int
    pack_bytes: int
    go_on: Callable[[], bool]
    #: The sizes of the packs that were made.
    packs: dict[str, int] = field(default_factory=dict)
    _random: str = field(default_factory=lambda: random_hex("uploads"))
    _numbers: Iterator[int] = field(default_factory=count)
    # What is put together into the next object.
    _packed: list[bytes] = field(default_factory=list)
    _packed_size: int = 0

    def __post_init__(self) -> None:
        self._folder = folder_of(self.shard)
        self._pack_name = self._new_name()

    def check(self) -> None:
        """SupersededError when the lease is not good any more."""
        if not self.go_on():
            raise SupersededError(f"The lease of {self._folder} has ended: nothing published")

    def _new_name(self) -> str:
        return f"{self.token}-{self._random}-{next(self._numbers)}"

    def renamed(self, names: set[str]) -> dict[str, str]:
        """The names under which the objects *names* may be used: their own, or new ones of the
        token. Without those of other tokens if one of them is not there any more."""
        own = {name: name for name in names if token_of(name) == self.token}
        new = {name: self._new_name() for name in names - own.keys()}
        try:
            self.objects.copy(
                {f"{self._folder}/{a}": f"{self._folder}/{b}" for a, b in new.items()}
            )
        except FileNotFoundError:
            return own
        return own | new

    def files(
        self, directory: Path, names: Iterable[str], known: Mapping[str, KnownFile] | None
    ) -> dict[str, KnownFile]:
        """Publish the files *names* of *directory*, of which *known* are in the store already; None
        for files that are new and never change. Without those that went meanwhile: no live state
        names them."""
        found = {}
        for name in names:
            if known is None:
                found[name] = self._file(directory / name, None, "whole")
            else:
                kind = "emptied" if name.startswith(_DONE_LOG) else ""
                found[name] = self._file(directory / name, known.get(name), kind)
        return {name: file for name, file in found.items() if file is not None}

    def hosts(
        self, directory: Path, known: Mapping[str, KnownFile], database: Database
    ) -> dict[str, KnownFile]:
        """Publish the host records of *directory*, which are in *database*: what was logged since
        they were copied, or another copy when that is more than the copy has."""
        copied, changes = known.get(_COPIED), database.changes
        if not (
            changes is not None
            and _place_of(changes) in known
            and copied is not None
            and copied.is_here
            and changes.log.size <= copied.size
        ):
            copied, changes = self._copied(directory, database), database.changes
        files = {_COPIED: copied}
        if changes is not None:
            place = _place_of(changes)
            file = self._file(changes.log.path, known.get(place), "growing")
            if file is None:
                raise FileNotFoundError(changes.log.path)
            files[place] = file
        return files

    def _copied(self, directory: Path, database: Database) -> KnownFile:
        aside = directory / _COPY
        if aside.exists():
            shutil.rmtree(aside)
        make_directory(aside)
        try:
            database.copy_to(aside, self.go_on, keeps_track=True)
            self.check()  # a copy that ended early is none
            file = self._file(aside / FILE, None, "whole")
            assert file is not None, "nobody else has the directory"
            return file
        finally:
            shutil.rmtree(aside)

    def _file(self, path: Path, known: KnownFile | None, kind: str) -> KnownFile | None:
        """Publish one file; None if it went meanwhile, or no live state can name it. *kind* is as
        of ``_kind_of``, ``emptied`` for a record log without its records, or not known yet."""
        # While the file is open its inode cannot be another's.
        with suppress(FileNotFoundError), path.open("rb", buffering=0) as file:
            stat = os.fstat(file.fileno())
            if known is not None and known.is_here and known.is_still(stat):
                return known
            kind = kind or _kind_of(path, file)
            if kind == "unfinished":
                return None
            if kind == "whole":
                name = self._new_name()
                inode = self.objects.link_in(path, f"{self._folder}/{name}")
                if inode == stat.st_ino:
                    return KnownFile.of(stat, [Piece(name, 0, stat.st_size, digest_of(file))])
                if inode:  # another file has its name since
                    self.objects.delete([f"{self._folder}/{name}"])
                    return None
            pieces = [] if known is None else _same_so_far(file, known.pieces)
            if len(pieces) >= _MAX_PIECES:
                pieces = []
            end = sum(piece.size for piece in pieces)
            file.seek(end)
            size = record_log.HEADER_SIZE if kind == "emptied" else stat.st_size
            return KnownFile.of(stat, [*pieces, *self._pack(file, size - end)])
        return None

    def _pack(self, file: BinaryIO, size: int) -> Iterator[Piece]:
        """The pieces of the next *size* bytes of *file*, fewer if it ends."""
        while size > 0:
            if self._packed_size >= self.pack_bytes:
                self.flush()
            data = file.read(min(size, self.pack_bytes - self._packed_size))
            if not data:
                return
            yield Piece(self._pack_name, self._packed_size, len(data), zlib.crc32(data))
            self._packed.append(data)
            self._packed_size += len(data)
            size -= len(data)

    def flush(self) -> None:
        """Make an object of what was packed since the last one."""
        if self._packed:
            self.check()
            self.objects.write(f"{self._folder}/{self._pack_name}", b"".join(self._packed))
            self.packs[self._pack_name] = self._packed_size
            self._pack_name, self._packed, self._packed_size = self._new_name(), [], 0


def _place_of(changes: Changes) -> str:
    return f"{HOSTS}/{changes.name}"


def digest_of(file: BufferedReader | FileIO) -> str:
    """The XXH3-128 of all of *file*, in hex: 0.1 s for a gigabyte in memory."""
    file.seek(0)
    return file_digest(file, xxh3_128).hexdigest()


def _kind_of(path: Path, file: BinaryIO) -> str:
    """Of the open *file*, found at *path*: ``whole`` if it never changes any more, ``unfinished``
    if no checkpoint can name it, else ``growing``."""
    magic = os.pread(file.fileno(), 4, 0)
    if magic == _UNFINISHED:
        return "unfinished"
    if magic in _WRITTEN_ONCE:
        return "whole"
    found = _NUMBERED.fullmatch(path.name)
    if magic == record_log.MAGIC and found is not None:
        before, number, suffix = found.groups()
        following = f"{before}{int(number) + 1:0{len(number)}d}{suffix}"
        if path.with_name(following).exists():
            return "whole"
    return "growing"


def _same_so_far(file: BinaryIO, pieces: list[Piece]) -> list[Piece]:
    """As many of *pieces*, from the first on, as *file* still begins with."""
    file.seek(0)
    for number, piece in enumerate(pieces):
        # A file that was an object itself has changed since.
        if piece.is_file or zlib.crc32(file.read(piece.size)) != piece.checksum:
            return pieces[:number]
    return pieces
