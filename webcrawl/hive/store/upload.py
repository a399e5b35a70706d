"""Uploads a shard, file by file, while the shard continues to work.

The format of a file tells whether it can still change. These files never change: runs and filters,
whose header is written last; a numbered record log when there is a next one, because only the
highest is appended to; and the snapshot. Other files may be appended to at any time. They are
copied up to their current end, which is beyond the part that the live state uses. Files that the
store already has are recognized by inode, size and modification time, or, if they have grown, by
the checksums of their pieces.
"""

from __future__ import annotations

import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import file_digest
from io import BufferedReader, FileIO
from itertools import count
from pathlib import Path
from typing import BinaryIO, NamedTuple

from xxhash import xxh3_128

from webcrawl.hive.store.checkpoint_files import KnownFile, Piece, folder_of, token_of
from webcrawl.hosts.records.database import FILE, Changes, Database
from webcrawl.randomness import random_hex
from webcrawl.seen import bloom_file, runs
from webcrawl.storage import record_log
from webcrawl.storage.atomic import make_directory
from webcrawl.storage.manifest import ManifestStore
from webcrawl.storage.object_store import ObjectStore, is_plain
from webcrawl.storage.record_log import CorruptRecordError

#: Directory of the host records. They are modified in place, so they are copied and never linked.
HOSTS = "hosts"
#: The size limit of a pack.
PACK_BYTES = 16 << 20
_HOSTS_FILE = f"{HOSTS}/{FILE}"
# The log of requests made and pages finished since the checkpoint. It is published without its
# records, because the links of these pages are not in the store (as in kept_checkpoints.py).
_DONE_LOG = str(Path("frontier", "done"))
_TEMPORARY_SUFFIX = ".tmp"
_COPY_DIRECTORY = f"publish{_TEMPORARY_SUFFIX}"
_WRITTEN_ONCE = {runs.MAGIC, bloom_file.MAGIC}
_UNFINISHED_MAGIC = bytes(4)
_NUMBERED = re.compile(r"(.*?)(\d+)(\.\w+)")
# A file that has more pieces than this is uploaded again as a whole.
_MAX_PIECES = 64


class SupersededError(Exception):
    """Raised if a drone that publishes a shard no longer holds it; nothing was published.

    *token* is that of a newer checkpoint, or 0 if none is known.
    """

    def __init__(self, message: str, token: int = 0) -> None:
        super().__init__(message)
        self.token = token


class ShardFiles(NamedTuple):
    """The files of the live state of a shard, without the host records.

    sequence: the number of the state.
    lasting: the names of files that later states may also have.
    passing: the names of files that only this state has; they never change.
    """

    sequence: int
    lasting: list[str]
    passing: list[str]


def live_files(directory: Path) -> ShardFiles:
    """Return the files of the live state of the shard in *directory*.

    Raises CorruptRecordError if there is no live state, or NewerFormatError.
    """
    manifest = ManifestStore(path=directory).load()
    if manifest is None:
        raise CorruptRecordError(directory / "CURRENT", 0, "the file is gone")
    sequence = manifest["sequence"]
    passing = ["CURRENT", f"manifest-{sequence:06d}.json", manifest["snapshot"]["file"]]
    lasting: list[str] = []
    for folder, subfolders, files in os.walk(directory):
        relative_folder = os.path.relpath(folder, directory)
        # Host records are published separately. The files of the state that are in the directory
        # itself are those in *passing*.
        if relative_folder == HOSTS or relative_folder.endswith(_TEMPORARY_SUFFIX):
            subfolders.clear()
        elif relative_folder != ".":
            paths = (
                f"{relative_folder}/{name}"
                for name in files
                if not name.endswith(_TEMPORARY_SUFFIX)
            )
            lasting += filter(is_plain, paths)  # files of a shard always have plain names
    return ShardFiles(sequence, sorted(lasting), passing)


@dataclass(eq=False)
class Upload:
    """Uploads files of *shard* as objects whose names begin with *token*.

    Bytes of many files are combined into packs. *may_continue* returns whether the lease is still
    valid.
    """

    objects: ObjectStore
    shard: int
    token: int
    may_continue: Callable[[], bool]
    #: The sizes of the written packs in bytes, by name.
    packs: dict[str, int] = field(default_factory=dict)
    _random: str = field(default_factory=lambda: random_hex("uploads"))
    _object_numbers: Iterator[int] = field(default_factory=count)
    # The contents of the next pack.
    _packed: list[bytes] = field(default_factory=list)
    _packed_size: int = 0

    def __post_init__(self) -> None:
        self._shard_folder = folder_of(self.shard)
        self._pack_name = self._new_name()

    def check(self) -> None:
        """Raise SupersededError if the lease is not valid any more."""
        if not self.may_continue():
            raise SupersededError(f"Not published: the lease of {self._shard_folder} has expired")

    def _new_name(self) -> str:
        """Return a new name for an object."""
        return f"{self.token}-{self._random}-{next(self._object_numbers)}"

    def rename(self, names: set[str]) -> dict[str, str]:
        """Return the names with this upload's token under which the objects *names* can be used.

        Objects with other tokens are copied to new names. If one of them is gone, all of them are
        left out.
        """
        unchanged = {name: name for name in names if token_of(name) == self.token}
        copied = {name: self._new_name() for name in names - unchanged.keys()}
        try:
            self.objects.copy(
                {
                    f"{self._shard_folder}/{old_name}": f"{self._shard_folder}/{new_name}"
                    for old_name, new_name in copied.items()
                }
            )
        except FileNotFoundError:
            return unchanged
        return unchanged | copied

    def publish_files(
        self, directory: Path, names: Iterable[str], known_files: Mapping[str, KnownFile] | None
    ) -> dict[str, KnownFile]:
        """Publish the files *names* in *directory*, and return their records.

        *known_files* has the records of files that the store already has. If it is None, all files
        are new and never change. Files that were deleted meanwhile are left out, because the live
        state does not need them.
        """
        published = {}
        for name in names:
            if known_files is None:
                published[name] = self._publish_file(directory / name, None, "whole")
            else:
                # ``_publish_file`` finds out whether other files can still change.
                kind = "emptied" if name.startswith(_DONE_LOG) else ""
                published[name] = self._publish_file(directory / name, known_files.get(name), kind)
        return {name: file for name, file in published.items() if file is not None}

    def publish_hosts(
        self, directory: Path, known_files: Mapping[str, KnownFile], database: Database
    ) -> dict[str, KnownFile]:
        """Publish the host records in *directory*, whose database is *database*.

        Uploads the changes since the last copy, or another copy if the changes are larger than it.
        *known_files* has the records of files that the store already has.
        """
        copy = known_files.get(_HOSTS_FILE)
        changes = database.changes  # None before the first copy, and if there were too many
        # The copy in the store can be used again if its changes are recorded, follow that copy, and
        # are not larger than it.
        if not (
            changes is not None
            and _changes_file(changes) in known_files
            and copy is not None
            and copy.is_complete
            and changes.log.size <= copy.size
        ):
            copy = self._publish_copy(directory, database)
            changes = database.changes

        files = {_HOSTS_FILE: copy}
        if changes is not None:
            name = _changes_file(changes)
            file = self._publish_file(changes.log.path, known_files.get(name), "growing")
            if file is None:
                raise FileNotFoundError(changes.log.path)
            files[name] = file
        return files

    def _publish_copy(self, directory: Path, database: Database) -> KnownFile:
        """Publish a copy of the host records in *database*, and track their changes from now on."""
        copy_directory = directory / _COPY_DIRECTORY
        if copy_directory.exists():
            shutil.rmtree(copy_directory)
        make_directory(copy_directory)
        try:
            database.copy_to(copy_directory, self.may_continue, track_changes=True)
            self.check()  # the copy may have ended early
            file = self._publish_file(copy_directory / FILE, None, "whole")
            if file is None:
                raise FileNotFoundError(f"{copy_directory} was deleted while it was uploaded")
            return file
        finally:
            shutil.rmtree(copy_directory)

    def _publish_file(
        self, path: Path, known_file: KnownFile | None, kind: str
    ) -> KnownFile | None:
        """Publish the file *path*. Returns None if it was deleted meanwhile or is unfinished.

        *known_file* is its record if the store already has it. *kind* is that of ``_kind_of``,
        ``emptied`` for a record log that is published without its records, or "" if it is not known
        yet.
        """
        # While the file is open, its inode cannot be reused.
        with suppress(FileNotFoundError), path.open("rb", buffering=0) as file:
            stat = os.fstat(file.fileno())
            if (
                known_file is not None
                and known_file.is_complete
                and known_file == KnownFile.of(stat, known_file.pieces)
            ):
                return known_file

            kind = kind or _kind_of(path, file)
            if kind == "unfinished":
                return None
            if kind == "whole":
                name = self._new_name()
                inode = self.objects.link_in(path, f"{self._shard_folder}/{name}")
                if inode == stat.st_ino:
                    return KnownFile.of(stat, [Piece(name, 0, stat.st_size, digest_of(file))])
                if inode:  # another file was linked, because it has the path now
                    self.objects.delete([f"{self._shard_folder}/{name}"])
                    return None

            # Only what was appended is new. The done log is published as just its header.
            pieces = [] if known_file is None else _unchanged_pieces(file, known_file.pieces)
            if len(pieces) >= _MAX_PIECES:
                pieces = []
            known_size = sum(piece.size for piece in pieces)
            file.seek(known_size)
            size = record_log.HEADER_SIZE if kind == "emptied" else stat.st_size
            return KnownFile.of(stat, [*pieces, *self._pack(file, size - known_size)])
        return None

    def _pack(self, file: BinaryIO, size: int) -> Iterator[Piece]:
        """Add up to *size* further bytes of *file* to packs, and yield the pieces."""
        while size > 0:
            if self._packed_size >= PACK_BYTES:
                self.flush()
            data = file.read(min(size, PACK_BYTES - self._packed_size))
            if not data:
                return
            yield Piece(self._pack_name, self._packed_size, len(data), zlib.crc32(data))
            self._packed.append(data)
            self._packed_size += len(data)
            size -= len(data)

    def flush(self) -> None:
        """Write the current pack as an object, and begin the next pack."""
        if self._packed:
            self.check()
            self.objects.write(f"{self._shard_folder}/{self._pack_name}", b"".join(self._packed))
            self.packs[self._pack_name] = self._packed_size
            self._pack_name = self._new_name()
            self._packed = []
            self._packed_size = 0


def _changes_file(changes: Changes) -> str:
    """Return the name of the file with *changes* of host records."""
    return f"{HOSTS}/{changes.name}"


def digest_of(file: BufferedReader | FileIO) -> str:
    """Return the XXH3-128 of *file*, in hex. Takes 0.1 s for a gigabyte in the page cache."""
    file.seek(0)
    return file_digest(file, xxh3_128).hexdigest()


def _kind_of(path: Path, file: BinaryIO) -> str:
    """Return the kind of the open *file* at *path*.

    The kind is ``whole`` if the file never changes any more, ``unfinished`` if it is not yet part
    of any state, and otherwise ``growing``.
    """
    magic = os.pread(file.fileno(), 4, 0)
    if magic == _UNFINISHED_MAGIC:
        return "unfinished"
    if magic in _WRITTEN_ONCE:
        return "whole"
    match = _NUMBERED.fullmatch(path.name)
    if magic == record_log.MAGIC and match is not None:
        prefix, number, suffix = match.groups()
        following = f"{prefix}{int(number) + 1:0{len(number)}d}{suffix}"
        if path.with_name(following).exists():
            return "whole"
    return "growing"


def _unchanged_pieces(file: BinaryIO, pieces: list[Piece]) -> list[Piece]:
    """Return the leading *pieces* whose content *file* still begins with."""
    file.seek(0)
    for number, piece in enumerate(pieces):
        # A file that was a whole object has changed, because otherwise it is not read here.
        if piece.is_file or zlib.crc32(file.read(piece.size)) != piece.checksum:
            return pieces[:number]
    return pieces
