"""Download of a checkpoint's files into a directory.

A file that is an object itself becomes a hard link if possible; other files are assembled from
their pieces. All checksums are compared. Each object is read once; several are read in parallel.
"""

from __future__ import annotations

import logging
import os
import shutil
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePath
from typing import TYPE_CHECKING, TypeVar

from webcrawl.hive.store.checkpoint_files import KnownFile, LocalRecord, checkpoint_name, folder_of
from webcrawl.hive.store.upload import HOSTS, digest_of
from webcrawl.storage.atomic import make_directory, sync_path
from webcrawl.storage.object_store import is_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from webcrawl.errors import ObjectStoreError
    from webcrawl.hive.store.checkpoint_files import Piece, Published
    from webcrawl.storage.object_store import ObjectStore

logger = logging.getLogger(__name__)

# How many objects are read in parallel; each takes the memory of a pack.
_WORKERS = 4
_Given = TypeVar("_Given")


class Download:
    """Download of *published*; objects larger than packs are read in steps of *step_bytes*."""

    def __init__(self, objects: ObjectStore, published: Published, step_bytes: int) -> None:
        self._objects = objects
        self._published = published
        self._step_bytes = step_bytes
        self._checkpoint = checkpoint_name(published.shard, published.key)

    def fetch(self, aside: Path, token: int) -> None:
        """Download into the new directory *aside*, synced, to be used under *token*.

        Raises FileNotFoundError if an object is gone. After an error the directory does not exist.
        """
        published = self._published
        made = make_directory(aside)
        try:
            files = self._assemble(aside)
            record = LocalRecord(
                token=token,
                checkpoints=[published.key],
                files=files,
                packs=published.packs,
            )
            record.write(aside)
            folders = [*made, *(path for path in aside.rglob("*") if path.is_dir())]
            _in_parallel(sync_path, [*(aside / name for name in files), *folders])
        except BaseException:
            shutil.rmtree(aside)
            raise

    def _assemble(self, aside: Path) -> dict[str, KnownFile]:
        """Write the files into the directory *aside* and return their records."""
        published = self._published
        folder = folder_of(published.shard)
        places: dict[str, list[tuple[Path, int, Piece]]] = {}
        whole: list[tuple[str, Path, Piece]] = []
        for name, pieces in published.files.items():
            path = aside / self._checked(name, pieces)
            make_directory(path.parent)
            if pieces and pieces[0].is_file:
                whole.append((f"{folder}/{pieces[0].name}", path, pieces[0]))
                continue
            path.touch()
            end = 0
            for piece in pieces:
                places.setdefault(piece.name, []).append((path, end, piece))
                end += piece.size
        if unchecked := sum(piece.checksum is None for _, _, piece in whole):
            logger.warning(
                "%d of %d files of the checkpoint %s are from an earlier version and have no "
                "checksums: damage in them cannot be detected",
                *(unchecked, len(published.files), self._checkpoint),
            )
        _in_parallel(self._fetch_file, whole)
        _in_parallel(lambda name: self._fill(f"{folder}/{name}", places[name]), places)
        return {
            name: KnownFile.of((aside / name).stat(), pieces)
            for name, pieces in published.files.items()
        }

    def _checked(self, name: str, pieces: list[Piece]) -> str:
        """Return *name*, the path of a file relative to the shard's directory, if it is valid.

        Raises ObjectStoreError for a name that leads outside or into another file, and for
        *pieces* that cannot form a file.
        """
        above = {str(path) for path in PurePath(name).parents}
        if not is_plain(name) or not above.isdisjoint(self._published.files):
            raise self._objects.damaged(self._checkpoint, f"it names the file {name[:80]!r}")
        if len(pieces) > 1 and any(piece.is_file for piece in pieces):
            raise self._objects.damaged(self._checkpoint, f"{name} has two objects")
        return name

    def _fetch_file(self, whole: tuple[str, Path, Piece]) -> None:
        """Link or copy an object that is a whole file to its path."""
        name, path, piece = whole
        # Host records are modified in place, so they are never linked.
        if path.parent.name == HOSTS or not self._objects.link_out(name, path):
            offset = 0
            path.touch()
            while data := self._objects.read(name, offset, self._step_bytes):
                _write_at(path, offset, data)
                offset += len(data)
        with path.open("rb", buffering=0) as file:
            is_good = os.fstat(file.fileno()).st_size == piece.size and (
                piece.checksum is None or digest_of(file) == piece.checksum
            )
        if not is_good:
            raise self._damaged(name, path, 0, piece)

    def _fill(self, name: str, places: list[tuple[Path, int, Piece]]) -> None:
        """Write the parts of the object *name* to the files and offsets in *places*."""
        end = max(piece.start + piece.size for _, _, piece in places)
        data = memoryview(self._objects.read(name, 0, end))
        for path, offset, piece in places:
            part = data[piece.start : piece.start + piece.size]
            if len(part) != piece.size or zlib.crc32(part) != piece.checksum:
                raise self._damaged(name, path, offset, piece)
            _write_at(path, offset, part)

    def _damaged(self, name: str, path: Path, offset: int, piece: Piece) -> ObjectStoreError:
        """Return the error for a damaged *piece* of the object *name*."""
        return self._objects.damaged(
            name,
            f"checksum mismatch between bytes {piece.start} and {piece.start + piece.size}, which "
            f"belong to {path.parent.name}/{path.name} from byte {offset} on",
        )


def _in_parallel(work: Callable[[_Given], None], items: Iterable[_Given]) -> None:
    """Call *work* for all *items*, several at a time."""
    with ThreadPoolExecutor(_WORKERS) as pool:
        for _ in pool.map(work, items):
            pass


def _write_at(path: Path, offset: int, data: bytes | memoryview) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)
