"""Download: the files of a checkpoint, brought into a directory.

A file that is an object itself becomes a hard link, if that can be; the others are put together
from their pieces, whose checksums are compared. Each object is read once, some at a time.
"""

from __future__ import annotations

import os
import shutil
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar

from webcrawl.errors import HiveStoreError
from webcrawl.hive.checkpoint_files import KnownFile, LocalRecord, checkpoint_name, folder_of
from webcrawl.hive.upload import HOSTS
from webcrawl.storage.atomic import make_directory, sync_path, write_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from webcrawl.hive.checkpoint_files import Piece, Published
    from webcrawl.hive.objects import Objects

# Objects that are read at once, a pack of each in memory.
_WORKERS: Final = 4
_Given = TypeVar("_Given")


class Download:
    """The files of *published*; objects larger than packs are read by *step_bytes*."""

    def __init__(self, objects: Objects, published: Published, step_bytes: int) -> None:
        self._objects = objects
        self._published = published
        self._step_bytes = step_bytes

    def bring(self, aside: Path, token: int) -> None:
        """Make the directory *aside*, synced, to be used under *token*. FileNotFoundError if an
        object is gone. When it fails there is no such directory."""
        published = self._published
        made = make_directory(aside)
        try:
            files = self._assemble(aside)
            record = LocalRecord(
                token=token,
                checkpoints=[published.key],
                files=files,
                packs=published.packs,
                fetched=True,
            )
            record.write(aside)
            folders = [*made, *(path for path in aside.rglob("*") if path.is_dir())]
            _at_once(sync_path, [*(aside / name for name in files), *folders])
        except BaseException:
            shutil.rmtree(aside)
            raise

    def _assemble(self, aside: Path) -> dict[str, KnownFile]:
        """Make the files in the directory *aside*; what is known of them then."""
        published = self._published
        folder = folder_of(published.shard)
        places: dict[str, list[tuple[Path, int, Piece]]] = {}
        for name, pieces in published.files.items():
            path = aside / _checked(name)
            make_directory(path.parent)
            is_linked = len(pieces) == 1 and pieces[0].crc is None
            # Host records are written in place.
            may_link = is_linked and not name.startswith(f"{HOSTS}/")
            if may_link and self._objects.link_out(f"{folder}/{pieces[0].name}", path):
                continue
            path.touch()
            end = 0
            for piece in pieces:
                places.setdefault(piece.name, []).append((path, end, piece))
                end += piece.size
        _at_once(lambda name: self._fill(f"{folder}/{name}", places[name]), places)
        known = {}
        for name, pieces in published.files.items():
            stat = (aside / name).stat()
            if stat.st_size != sum(piece.size for piece in pieces):
                raise self._objects.damaged(checkpoint_name(published.shard, published.key), name)
            known[name] = KnownFile.of(stat, pieces)
        return known

    def _fill(self, name: str, places: list[tuple[Path, int, Piece]]) -> None:
        """Write what the object *name* has for the files of *places*, at their offsets."""
        if places[0][2].crc is None:
            self._copy_out(name, places[0][0])
            return
        data = memoryview(self._objects.read(name))
        for path, offset, piece in places:
            part = data[piece.start : piece.start + piece.size]
            if len(part) != piece.size or zlib.crc32(part) != piece.crc:
                raise self._objects.damaged(name, "checksum mismatch")
            _write_at(path, offset, part)

    def _copy_out(self, name: str, path: Path) -> None:
        offset = 0
        while data := self._objects.read(name, offset, self._step_bytes):
            _write_at(path, offset, data)
            offset += len(data)


def _at_once(work: Callable[[_Given], None], items: Iterable[_Given]) -> None:
    """Do *work* for all *items*, some at a time."""
    with ThreadPoolExecutor(_WORKERS) as pool:
        for _ in pool.map(work, items):
            pass


def _write_at(path: Path, offset: int, data: bytes | memoryview) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.lseek(fd, offset, os.SEEK_SET)
        write_all(fd, bytes(data))
    finally:
        os.close(fd)


def _checked(name: str) -> str:
    """*name*, the relative path of a file in a shard's directory. HiveStoreError for another."""
    if name.startswith("/") or ".." in name.split("/"):
        raise HiveStoreError(f"a checkpoint names the file {name[:80]!r}")
    return name
