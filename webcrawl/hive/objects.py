"""Object stores: named bytes in a directory of this machine, or at any URL that fsspec reaches.

The promise of both: what ``write`` and ``create`` returned for is there, whole, for all who look,
and in a directory it survives a power failure. Names are paths with ``/``, relative to the store.

A directory is written to by webcrawl itself, as fsspec neither syncs nor links; files of the same
file system go in and out as hard links. At a URL an object store (S3, Google, Azure) makes each
object at once or not at all. Other protocols may leave half of one when the process dies: no name
that somebody goes by is written before all that it stands for.

``create``, of which the first one wins: in a directory by link(2), at a URL by
``pipe_file(mode="create")``, which s3fs and gcsfs make conditional requests (If-None-Match,
ifGenerationMatch). Where a protocol has nothing of the kind fsspec looks first and then writes: of
two at one moment both may believe to have won, so a hive there is begun with one drone.

All calls block: for threads. Besides FileNotFoundError they raise HiveStoreError.
"""

from __future__ import annotations

import os
import re
import secrets
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import fsspec

from webcrawl.errors import HiveStoreError
from webcrawl.storage.atomic import make_directory, sync_path, sync_paths, write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_LOCAL: Final = {"file", "local"}
_MAX_REASON: Final = 200


class Objects(Protocol):
    """One store. *folder* is all of a name before its last ``/``."""

    #: The URL without credentials, for people.
    name: str

    def write(self, name: str, data: bytes) -> None:
        """Make or replace an object."""

    def create(self, name: str, data: bytes) -> None:
        """Make an object if there is none of that name."""

    def read(self, name: str, start: int = 0, size: int | None = None) -> bytes:
        """*size* bytes, or all, from *start* on; fewer where the object ends. FileNotFoundError."""

    def names(self, folder: str) -> set[str]:
        """The last parts of the names in *folder*; none if it is not there."""

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; one that is not there is no error."""

    def copy(self, names: Mapping[str, str]) -> None:
        """Give objects further names, without their bytes coming here if the store can do that.
        FileNotFoundError."""

    def settle(self, folder: str) -> None:
        """Return when what was linked into *folder* survives a power failure."""

    def link_in(self, path: Path, name: str) -> int:
        """Make the file *path* an object by a hard link; the number of its inode. 0 if the store
        cannot have links to it. FileNotFoundError if the file is not there."""

    def link_out(self, name: str, path: Path) -> bool:
        """The other way; whether that could be done. FileNotFoundError if there is no object."""


def open_objects(url: str) -> Objects:
    """The store at *url*, or in the directory of that name; nothing is read or made yet."""
    scheme, mark, rest = url.partition("://")
    if not mark or scheme in _LOCAL:
        return LocalObjects(Path(rest if mark else url).absolute())
    return RemoteObjects(url)


def without_credentials(url: str) -> str:
    """*url* as it may be shown: without user, password and parameters.

    >>> without_credentials("sftp://me:secret@a.test/crawl?key=1")
    'sftp://a.test/crawl'
    """
    return re.sub(r"://[^/@]*@", "://", url.partition("?")[0])


def damaged(store: str, name: str, why: str) -> HiveStoreError:
    """The error of an object *name*, without which the *store* is of no use."""
    return HiveStoreError(f"HIVE_STORE {store}: {name} is damaged: {why}")


class _Translating:
    """Turns what a store raises into HiveStoreError, with one sentence."""

    def __init__(self, url: str) -> None:
        self.name = without_credentials(url)
        self._url = url

    @contextmanager
    def __call__(self, *, may_be_gone: bool = True) -> Iterator[None]:
        try:
            yield
        except HiveStoreError:
            raise
        except Exception as error:  # of whatever client library
            if may_be_gone and isinstance(error, FileNotFoundError):
                raise
            raise self.error(error) from error

    def error(self, error: Exception) -> HiveStoreError:
        """What to tell of *error*."""
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        reason = without_credentials(reason.replace(self._url, self.name).partition("\n")[0])
        return HiveStoreError(f"HIVE_STORE {self.name} cannot be used: {reason[:_MAX_REASON]}")


class LocalObjects:
    """A directory of this machine, also a mounted one that many machines share."""

    def __init__(self, root: Path) -> None:
        self.name = str(root)
        self._root = root
        self._translated = _Translating(self.name)

    def write(self, name: str, data: bytes) -> None:
        """As ``Objects.write``."""
        with self._translated(may_be_gone=False):
            # Many processes may write one name at once.
            write_atomic(self._place(name), data, aside=_aside())

    def create(self, name: str, data: bytes) -> None:
        """As ``Objects.create``."""
        with self._translated(may_be_gone=False):
            place = self._place(name)
            aside = place.with_name(place.name + _aside())
            write_atomic(aside, data)
            try:
                with suppress(FileExistsError):
                    os.link(aside, place)
            finally:
                aside.unlink()
            sync_path(place.parent)

    def read(self, name: str, start: int = 0, size: int | None = None) -> bytes:
        """As ``Objects.read``."""
        with self._translated(), (self._root / name).open("rb", buffering=0) as file:
            file.seek(start)
            wanted = os.fstat(file.fileno()).st_size - start if size is None else size
            pieces = []
            while wanted > 0 and (piece := file.read(wanted)):
                pieces.append(piece)
                wanted -= len(piece)
            return b"".join(pieces)

    def names(self, folder: str) -> set[str]:
        """As ``Objects.names``."""
        with self._translated():
            try:
                found = os.listdir(self._root / folder)  # noqa: PTH208  # as storage/fifo.py
            except FileNotFoundError:
                return set()
            return set(found)

    def delete(self, names: Iterable[str]) -> None:
        """As ``Objects.delete``."""
        with self._translated():
            for name in names:
                (self._root / name).unlink(missing_ok=True)

    def copy(self, names: Mapping[str, str]) -> None:
        """As ``Objects.copy``."""
        for old, new in names.items():
            if not self.link_in(self._root / old, new):
                self.write(new, self.read(old))

    def settle(self, folder: str) -> None:
        """As ``Objects.settle``."""
        with self._translated():
            sync_path(self._root / folder)

    def link_in(self, path: Path, name: str) -> int:
        """As ``Objects.link_in``."""
        with self._translated(may_be_gone=False):
            place = self._place(name)
        with self._translated():
            if not _link(path, place):
                return 0
            return place.stat().st_ino

    def link_out(self, name: str, path: Path) -> bool:
        """As ``Objects.link_out``."""
        with self._translated():
            return _link(self._root / name, path)

    def _place(self, name: str) -> Path:
        """The file *name*, with a durable directory around it."""
        place = self._root / name
        sync_paths(make_directory(place.parent))
        return place


def _aside() -> str:
    """The end of a name that nobody else writes to."""
    return f".{secrets.token_hex(4)}.tmp"


def _link(old: Path, new: Path) -> bool:
    try:
        os.link(old, new)
    except FileNotFoundError:
        raise
    except OSError:  # another file system, or one that has no links
        return False
    return True


class RemoteObjects:
    """A store that fsspec reaches; its package (s3fs, gcsfs, adlfs ...) has to be installed."""

    def __init__(self, url: str) -> None:
        self._translated = _Translating(url)
        self.name = self._translated.name
        self._fs: Any
        with self._translated():
            self._fs, self._root = fsspec.url_to_fs(url)

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    def write(self, name: str, data: bytes) -> None:
        """As ``Objects.write``."""
        with self._translated(may_be_gone=False):
            self._pipe(name, data)

    def create(self, name: str, data: bytes) -> None:
        """As ``Objects.create``."""
        with self._translated(may_be_gone=False), suppress(FileExistsError):
            self._pipe(name, data, mode="create")

    def _pipe(self, name: str, data: bytes, **options: str) -> None:
        path = self._path(name)
        try:
            self._fs.pipe_file(path, data, **options)
        except FileNotFoundError:  # a protocol that has directories
            self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._fs.pipe_file(path, data, **options)

    def read(self, name: str, start: int = 0, size: int | None = None) -> bytes:
        """As ``Objects.read``."""
        with self._translated():
            if not start and size is None:
                return bytes(self._fs.cat_file(self._path(name)))
            end = None if size is None else start + size
            return bytes(self._fs.cat_file(self._path(name), start=start, end=end))

    def names(self, folder: str) -> set[str]:
        """As ``Objects.names``."""
        with self._translated():
            path = self._path(folder)
            self._fs.invalidate_cache(path)
            try:
                found = self._fs.ls(path, detail=False)
            except FileNotFoundError:
                return set()
            return {one.rstrip("/").rpartition("/")[2] for one in found}

    def delete(self, names: Iterable[str]) -> None:
        """As ``Objects.delete``."""
        with self._translated():
            for name in names:
                with suppress(FileNotFoundError):
                    self._fs.rm_file(self._path(name))

    def copy(self, names: Mapping[str, str]) -> None:
        """As ``Objects.copy``."""
        with self._translated():
            self._fs.copy([*map(self._path, names)], [*map(self._path, names.values())])

    def settle(self, folder: str) -> None:
        """As ``Objects.settle``: nothing is linked here."""

    def link_in(self, path: Path, name: str) -> int:  # noqa: ARG002  # as the other
        """As ``Objects.link_in``: never."""
        return 0

    def link_out(self, name: str, path: Path) -> bool:  # noqa: ARG002  # as the other
        """As ``Objects.link_out``: never."""
        return False
