"""Upload of a shard, file by file, while the shard continues to work.

Their formats tell which files never change any more: runs and filters, whose header is written
last; a numbered record log when there is a next one, because only the highest is appended to; the
snapshot. Other files may be appended to at any time. They are copied up to their current end, which
is after the part that the live state names. Files that the store already has are recognized by
inode, size and modification time, or, if they have grown, by the checksums of their pieces.
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

#: Directory of the host records, which are modified in place: copied, never linked.
HOSTS = "hosts"
_COPIED = f"{HOSTS}/{FILE}"
# The log of requests and finished pages since the checkpoint is published without its records,
# because the links of these pages are not in the store (as in kept_checkpoints.py).
_DONE_LOG = str(Path("frontier", "done"))
_ASIDE = ".tmp"
_COPY = f"publish{_ASIDE}"
_WRITTEN_ONCE = {runs.MAGIC, bloom_file.MAGIC}
_UNFINISHED = bytes(4)
_NUMBERED = re.compile(r"(.*?)(\d+)(\.\w+)")
# A file with more pieces is uploaded again as a whole.
_MAX_PIECES = 64


class SupersededError(Exception):
    """Error of a publication by a drone that no longer holds the shard; nothing was published."""


class ShardFiles(NamedTuple):
    """Live state of a shard's directory, without the host records.

    sequence: its number.
    lasting: names of files that later states may also have.
    passing: names of files that only this state has; they never change.
    """

    sequence: int
    lasting: list[str]
    passing: list[str]


def live_files(directory: Path) -> ShardFiles:
    """Return the files of the shard in *directory*.

    Raises CorruptRecordError if it has no live state, and NewerFormatError.
    """
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
            lasting += filter(is_plain, names)  # the parts of a shard have only plain names
    return ShardFiles(sequence, sorted(lasting), passing)


@dataclass(eq=False, repr=False)
class Upload:
    """Upload of *shard*: makes objects with names of *token*, while *may_continue* is true.

    Bytes of many files are combined into packs of at most *pack_bytes*.
    """

    objects: ObjectStore
    shard: int
    token: int
    pack_bytes: int
    may_continue: Callable[[], bool]
    #: The sizes of the packs, by name.
    packs: dict[str, int] = field(default_factory=dict)
    _random: str = field(default_factory=lambda: random_hex("uploads"))
    _numbers: Iterator[int] = field(default_factory=count)
    # The bytes for the next pack.
    _packed: list[bytes] = field(default_factory=list)
    _packed_size: int = 0

    def __post_init__(self) -> None:
        self._folder = folder_of(self.shard)
        self._pack_name = self._new_name()

    def check(self) -> None:
        """Raise SupersededError if the lease is not valid any more."""
        if not self.may_continue():
            raise SupersededError(f"Not published: the lease of {self._folder} has expired")

    def _new_name(self) -> str:
        return f"{self.token}-{self._random}-{next(self._numbers)}"

    def rename(self, names: set[str]) -> dict[str, str]:
        """Return the names under which the objects *names* can be used.

        Objects of other tokens are copied to new names; if one of them is gone, all are left out.
        """
        own = {name: name for name in names if token_of(name) == self.token}
        new = {name: self._new_name() for name in names - own.keys()}
        try:
            self.objects.copy(
                {f"{self._folder}/{a}": f"{self._folder}/{b}" for a, b in new.items()}
            )
        except FileNotFoundError:
            return own
        return own | new

    def publish_files(
        self, directory: Path, names: Iterable[str], known: Mapping[str, KnownFile] | None
    ) -> dict[str, KnownFile]:
        """Publish the files *names* of *directory*, and return their records.

        *known* are those that the store already has; None for new files that never change. Files
        that were deleted meanwhile are left out: the live state does not name them.
        """
        found = {}
        for name in names:
            if known is None:
                found[name] = self._file(directory / name, None, "whole")
            else:
                kind = "emptied" if name.startswith(_DONE_LOG) else ""
                found[name] = self._file(directory / name, known.get(name), kind)
        return {name: file for name, file in found.items() if file is not None}

    def publish_hosts(
        self, directory: Path, known: Mapping[str, KnownFile], database: Database
    ) -> dict[str, KnownFile]:
        """Publish the host records of *directory*, which are in *database*.

        Uploads the changes since the last copy, or another copy if the changes are larger.
        """
        copied, changes = known.get(_COPIED), database.changes
        if not (
            changes is not None
            and _place_of(changes) in known
            and copied is not None
            and copied.is_complete
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
            database.copy_to(aside, self.may_continue, track_changes=True)
            self.check()  # the copy may have ended early
            file = self._file(aside / FILE, None, "whole")
            assert file is not None, "no other process uses the directory"
            return file
        finally:
            shutil.rmtree(aside)

    def _file(self, path: Path, known: KnownFile | None, kind: str) -> KnownFile | None:
        """Publish one file; return None if it was deleted meanwhile or is unfinished.

        *kind* is that of ``_kind_of``, ``emptied`` for a record log without its records, or "" if
        it is not known yet.
        """
        # While the file is open, its inode cannot be reused.
        with suppress(FileNotFoundError), path.open("rb", buffering=0) as file:
            stat = os.fstat(file.fileno())
            if known is not None and known.is_complete and known.is_unchanged(stat):
                return known
            kind = kind or _kind_of(path, file)
            if kind == "unfinished":
                return None
            if kind == "whole":
                name = self._new_name()
                inode = self.objects.link_in(path, f"{self._folder}/{name}")
                if inode == stat.st_ino:
                    return KnownFile.of(stat, [Piece(name, 0, stat.st_size, digest_of(file))])
                if inode:  # another file has the name now
                    self.objects.delete([f"{self._folder}/{name}"])
                    return None
            pieces = [] if known is None else _unchanged_pieces(file, known.pieces)
            if len(pieces) >= _MAX_PIECES:
                pieces = []
            end = sum(piece.size for piece in pieces)
            file.seek(end)
            size = record_log.HEADER_SIZE if kind == "emptied" else stat.st_size
            return KnownFile.of(stat, [*pieces, *self._pack(file, size - end)])
        return None

    def _pack(self, file: BinaryIO, size: int) -> Iterator[Piece]:
        """Pack the next *size* bytes of *file*, or fewer if it ends, and yield their pieces."""
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
        """Write the packed bytes as an object and begin the next pack."""
        if self._packed:
            self.check()
            self.objects.write(f"{self._folder}/{self._pack_name}", b"".join(self._packed))
            self.packs[self._pack_name] = self._packed_size
            self._pack_name, self._packed, self._packed_size = self._new_name(), [], 0


def _place_of(changes: Changes) -> str:
    return f"{HOSTS}/{changes.name}"


def digest_of(file: BufferedReader | FileIO) -> str:
    """Return the XXH3-128 of *file*, in hex. Takes 0.1 s for a gigabyte in memory."""
    file.seek(0)
    return file_digest(file, xxh3_128).hexdigest()


def _kind_of(path: Path, file: BinaryIO) -> str:
    """Return the kind of the open *file* at *path*.

    It is ``whole`` if it never changes any more, ``unfinished`` if no checkpoint can name it, else
    ``growing``.
    """
    magic = os.pread(file.fileno(), 4, 0)
    if magic == _UNFINISHED:
        return "unfinished"
    if magic in _WRITTEN_ONCE:
        return "whole"
    match = _NUMBERED.fullmatch(path.name)
    if magic == record_log.MAGIC and match is not None:
        before, number, suffix = match.groups()
        following = f"{before}{int(number) + 1:0{len(number)}d}{suffix}"
        if path.with_name(following).exists():
            return "whole"
    return "growing"


def _unchanged_pieces(file: BinaryIO, pieces: list[Piece]) -> list[Piece]:
    """Return the leading *pieces* that *file* still begins with."""
    file.seek(0)
    for number, piece in enumerate(pieces):
        # A file that was an object itself has changed, or it would not be read here.
        if piece.is_file or zlib.crc32(file.read(piece.size)) != piece.checksum:
            return pieces[:number]
    return pieces
