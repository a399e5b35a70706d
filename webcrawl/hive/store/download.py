"""Downloads the files of a checkpoint into a directory.

A file that is a whole object becomes a hard link to it if possible. Other files are assembled from
their pieces. All checksums are verified. Each object is read once, and several objects are read in
parallel.
"""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePath
from typing import TypeVar

from webcrawl.errors import ObjectStoreError
from webcrawl.hive.store import upload
from webcrawl.hive.store.checkpoint_files import (
    KnownFile,
    LocalRecord,
    Piece,
    Published,
    checkpoint_name,
    folder_of,
)
from webcrawl.hive.store.upload import HOSTS, digest_of
from webcrawl.storage.atomic import make_directory, sync_path
from webcrawl.storage.object_store import ObjectStore, is_plain

# How many objects are read in parallel. Each takes as much memory as a pack.
_WORKERS = 4
_Item = TypeVar("_Item")


class Download:
    """Download of the checkpoint *published*."""

    def __init__(self, objects: ObjectStore, published: Published) -> None:
        self._objects = objects
        self._published = published
        self._checkpoint = checkpoint_name(published.shard, published.key)

    def fetch(self, directory: Path, token: int) -> None:
        """Download into *directory*, which must not exist, to be used under *token*.

        All files are synced to disk. Raises FileNotFoundError if an object is gone. After an error,
        the directory does not exist.
        """
        published = self._published
        new_directories = make_directory(directory)
        try:
            files = self._assemble(directory)
            record = LocalRecord(
                token=token,
                checkpoints=[published.key],
                files=files,
                packs=published.packs,
            )
            record.write(directory)
            folders = [*new_directories, *(path for path in directory.rglob("*") if path.is_dir())]
            _in_parallel(sync_path, [*(directory / name for name in files), *folders])
        except BaseException:
            shutil.rmtree(directory)
            raise

    def _assemble(self, directory: Path) -> dict[str, KnownFile]:
        """Write the files of the checkpoint into *directory*, and return their records."""
        published = self._published
        folder = folder_of(published.shard)
        # By object, where its pieces belong: the path of the file, and the offset in it.
        by_object: dict[str, list[tuple[Path, int, Piece]]] = {}
        whole_files: list[tuple[str, Path, Piece]] = []
        for name, pieces in published.files.items():
            path = directory / self._check_name(name, pieces)
            make_directory(path.parent)
            if pieces and pieces[0].is_file:
                whole_files.append((f"{folder}/{pieces[0].name}", path, pieces[0]))
                continue
            # The pieces are written to the empty file later, object by object.
            path.touch()
            offset = 0
            for piece in pieces:
                by_object.setdefault(piece.name, []).append((path, offset, piece))
                offset += piece.size

        _in_parallel(self._fetch_file, whole_files)
        _in_parallel(lambda name: self._write_parts(f"{folder}/{name}", by_object[name]), by_object)
        return {
            name: KnownFile.of((directory / name).stat(), pieces)
            for name, pieces in published.files.items()
        }

    def _check_name(self, name: str, pieces: list[Piece]) -> str:
        """Return *name*, the path of a file in the shard's directory, if it is valid.

        Raises ObjectStoreError if the path leads out of the directory or into another file, or if
        *pieces* cannot form a file.
        """
        parents = {str(path) for path in PurePath(name).parents}
        if not is_plain(name) or not parents.isdisjoint(self._published.files):
            raise self._objects.damage_error(self._checkpoint, f"it names the file {name[:80]!r}")
        if len(pieces) > 1 and any(piece.is_file for piece in pieces):
            raise self._objects.damage_error(self._checkpoint, f"{name} has two objects")
        return name

    def _fetch_file(self, whole_file: tuple[str, Path, Piece]) -> None:
        """Link or copy an object that is a whole file, given its name, its path and its piece."""
        name, path, piece = whole_file
        # Host records are modified in place, so they are copied, never linked.
        if path.parent.name == HOSTS or not self._objects.link_out(name, path):
            offset = 0
            path.touch()
            # The object may be larger than a pack, so it is read in parts.
            while data := self._objects.read(name, offset, upload.PACK_BYTES):
                _write_at(path, offset, data)
                offset += len(data)
        with path.open("rb", buffering=0) as file:
            is_good = os.fstat(file.fileno()).st_size == piece.size and (
                piece.checksum is None or digest_of(file) == piece.checksum
            )
        if not is_good:
            raise self._damage_error(name, path, 0, piece)

    def _write_parts(self, name: str, targets: list[tuple[Path, int, Piece]]) -> None:
        """Write the pieces of the object *name* to their files; *targets* has paths and offsets."""
        # The object may have more bytes, of which this checkpoint needs none.
        end = max(piece.start + piece.size for _, _, piece in targets)
        data = memoryview(self._objects.read(name, 0, end))
        for path, offset, piece in targets:
            content = data[piece.start : piece.start + piece.size]
            if len(content) != piece.size or zlib.crc32(content) != piece.checksum:
                raise self._damage_error(name, path, offset, piece)
            _write_at(path, offset, content)

    def _damage_error(self, name: str, path: Path, offset: int, piece: Piece) -> ObjectStoreError:
        """Return the error for a damaged *piece* of the object *name*, for the file *path*."""
        return self._objects.damage_error(
            name,
            f"checksum mismatch from byte {piece.start} to {piece.start + piece.size}, which is "
            f"the content of {path.parent.name}/{path.name} from byte {offset} on",
        )


def _in_parallel(work: Callable[[_Item], None], items: Iterable[_Item]) -> None:
    """Call *work* with each of *items*, several at a time. Raises its first exception."""
    with ThreadPoolExecutor(_WORKERS) as pool:
        for _ in pool.map(work, items):
            pass


def _write_at(path: Path, offset: int, data: bytes | memoryview) -> None:
    """Write *data* to the existing file *path*, at *offset*."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)
