"""Object stores: named bytes in a directory of this machine, or at any URL that fsspec reaches.

The promise of all: what ``write``, ``create`` and ``move`` returned for is there, whole, for all
who look, and in a directory it survives a power failure. Names are as ``is_plain`` has them: each
call but ``move`` refuses other ones, which may come from a file in the store, or from Redis.

A directory is written to by webcrawl itself, as fsspec neither syncs nor links; files of the same
file system go in and out as hard links, and what ``write`` and ``create`` make only its owner can
read. At a URL an object store (S3, Google, Azure) makes each object at once or not at all. Other
protocols may leave half of one when the process dies: no name that somebody goes by is written
before all that it stands for.

``create``, of which the first one wins: in a directory by link(2), at a URL by
``pipe_file(mode="create")``, which s3fs and gcsfs make conditional requests (If-None-Match,
ifGenerationMatch). Where a client has nothing of the kind, as obstore, it is looked for first and
then written: of two at one moment both may believe to have won, so a hive there is begun with one
drone.

All calls block: for threads. Besides FileNotFoundError they raise ObjectStoreError.
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec

from webcrawl.configuration.secrets import masked_error, masked_url
from webcrawl.errors import ObjectStoreError
from webcrawl.randomness import random_hex
from webcrawl.storage.atomic import (
    make_directory,
    replacing,
    sync_path,
    sync_paths,
    write_atomic,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

_LOCAL = {"file", "local"}
_MAX_REASON = 200
_MAX_NAME = 255
# In a directory whose files were moved: where to.
_MOVED = "MOVED"
# Of a file 32 MB are in memory, and once more while they are sent; s3fs would take 500.
_IN_PARTS = {"chunksize": 1 << 23, "max_concurrency": 4}
_PLAIN = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*")


def is_plain(name: str) -> bool:
    """Whether *name* is a relative path that leads nowhere else: words, dots and dashes, each part
    of it beginning with a word.

    >>> [is_plain(name) for name in ("shards/00/1-a.json", "a/../b", "/a", "a//b", ".a", "")]
    [True, False, False, False, False, False]
    """
    return len(name) <= _MAX_NAME and _PLAIN.fullmatch(name) is not None


class ObjectStore:
    """The store at *url*, or in the directory of that name.

    The directory may be a mounted one that many machines share; for a URL fsspec's package (s3fs,
    gcsfs, adlfs ...) has to be installed, which gets *options*. Nothing is read or made yet.
    *setting* is what errors name. A *folder* is all of a name before its last ``/``.
    """

    def __init__(
        self, url: str, *, setting: str = "HIVE_STORE", options: Mapping[str, Any] | None = None
    ) -> None:
        self._url = url
        #: The URL without credentials, for people.
        self.name = masked_url(url)
        #: Where it is on this machine, if it is.
        self.directory: Path | None = None
        self._setting = setting
        self._fs: Any
        scheme, mark, rest = url.partition("://")
        if not mark or scheme in _LOCAL:
            self.directory = Path(rest if mark else url).absolute()
            self.name = str(self.directory)
            self._fs, self._root = fsspec.filesystem("file"), self.name
        else:
            with self._translated():
                self._fs, self._root = fsspec.url_to_fs(url, **(options or {}))
        self._parts = _IN_PARTS if scheme in {"s3", "s3a"} else {}

    def write(self, name: str, data: bytes) -> None:
        """Make or replace an object."""
        with self._translated(may_be_gone=False):
            if self.directory is None:
                self._pipe(name, data)
            else:
                # Many processes may write one name at once.
                write_atomic(self._place(name), data, aside=_aside(), is_secret=True)

    def create(self, name: str, data: bytes) -> None:
        """Make an object if there is none of that name."""
        with self._translated(may_be_gone=False), suppress(FileExistsError):
            if self.directory is None:
                self._create(name, data)
                return
            place = self._place(name)
            aside = place.with_name(place.name + _aside())
            write_atomic(aside, data, is_secret=True)
            try:
                os.link(aside, place)
            finally:
                aside.unlink()
                sync_path(place.parent)

    def move(self, path: Path, name: str) -> int:
        """Store the file *path*, however large, in place of what has that *name*, which the caller
        answers for; delete it and leave a note of that; its size. FileNotFoundError if there is no
        such file."""
        size, place = path.stat().st_size, f"{self._root.rstrip('/')}/{name}"
        with self._translated(may_be_gone=False):
            if self.directory is None:
                self._make(place, lambda: self._fs.put_file(str(path), place, **self._parts))
                self._fs.invalidate_cache(place.rpartition("/")[0])
            else:
                _copy(path, Path(place))
            stored = self._fs.info(place)["size"]
            if stored != size:
                raise OSError(f"it has {stored} of the {size} bytes of {name}")
        note = path.with_name(_MOVED)
        if not note.exists():
            note.write_text(f"{self.name}\n", encoding="utf-8")
        path.unlink()
        return size

    def read(self, name: str, start: int = 0, size: int | None = None) -> bytes:
        """*size* bytes, or all, from *start* on; fewer where the object ends. FileNotFoundError."""
        # Both ends or none: obstore takes no other range.
        part = {} if size is None else {"start": start, "end": start + size}
        with self._translated():
            return bytes(self._fs.cat_file(self._path(name), **part))

    def names(self, folder: str) -> set[str]:
        """The last parts of the names in *folder*; none if it is not there."""
        path = self._path(folder)
        with self._translated(), suppress(FileNotFoundError):
            self._fs.invalidate_cache(path)
            found = self._fs.ls(path, detail=False)
            return {one.rstrip("/").rpartition("/")[2] for one in found}
        return set()

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; one that is not there is no error."""
        with self._translated():
            for name in names:
                with suppress(FileNotFoundError):
                    self._fs.rm_file(self._path(name))

    def copy(self, names: Mapping[str, str]) -> None:
        """Give objects further names, without their bytes coming here if the store can do that.
        FileNotFoundError."""
        if self.directory is None:
            with self._translated():
                self._fs.copy([*map(self._path, names)], [*map(self._path, names.values())])
            return
        for old, new in names.items():
            if not self.link_in(Path(self._path(old)), new):
                self.write(new, self.read(old))

    def settle(self, folder: str) -> None:
        """Return when what was linked into *folder* survives a power failure."""
        if self.directory is not None:
            with self._translated():
                sync_path(Path(self._path(folder)))

    def link_in(self, path: Path, name: str) -> int:
        """Make the file *path* an object by a hard link; the number of its inode. 0 if the store
        cannot have links to it. FileNotFoundError if the file is not there."""
        if self.directory is None:
            return 0
        with self._translated(may_be_gone=False):
            place = self._place(name)
        with self._translated():
            return place.stat().st_ino if _link(path, place) else 0

    def link_out(self, name: str, path: Path) -> bool:
        """The other way; whether that could be done. FileNotFoundError if there is no object."""
        with self._translated():
            return self.directory is not None and _link(Path(self._path(name)), path)

    def damaged(self, name: str, why: str) -> ObjectStoreError:
        """The error of an object *name*, without which the store is of no use."""
        return ObjectStoreError(f"{self._setting} {self.name}: {name} is damaged: {why}")

    def _path(self, name: str) -> str:
        if not is_plain(name):
            raise ObjectStoreError(
                f"{self._setting} {self.name}: {name[:80]!r} is no name of an object"
            )
        return f"{self._root.rstrip('/')}/{name}"

    def _place(self, name: str) -> Path:
        """The file *name*, with a durable directory around it."""
        place = Path(self._path(name))
        sync_paths(make_directory(place.parent))
        return place

    def _create(self, name: str, data: bytes) -> None:
        # obstore writes without asking; s3fs has an error of its own for what is there.
        if self._is_there(name):
            return
        try:
            self._pipe(name, data, mode="create")
        except Exception:
            if not self._is_there(name):
                raise

    def _is_there(self, name: str) -> bool:
        path = self._path(name)
        self._fs.invalidate_cache(path)
        return bool(self._fs.exists(path))

    def _pipe(self, name: str, data: bytes, **options: str) -> None:
        path = self._path(name)
        self._make(path, lambda: self._fs.pipe_file(path, data, **options))

    def _make(self, path: str, make: Callable[[], object]) -> None:
        try:
            make()
        except FileNotFoundError:  # a protocol that has directories
            self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            make()

    @contextmanager
    def _translated(self, *, may_be_gone: bool = True) -> Iterator[None]:
        """Turns what a store raises into ObjectStoreError, with one sentence."""
        try:
            yield
        except ObjectStoreError:
            raise
        except Exception as error:  # of whatever client library
            if isinstance(error, FileNotFoundError) and may_be_gone:
                raise
            reason = getattr(error, "strerror", None) or masked_error(error, self._url)
            reason = (reason or type(error).__name__).partition("\n")[0]
            raise ObjectStoreError(
                f"{self._setting} {self.name} cannot be used: {reason[:_MAX_REASON]}"
            ) from error


def moved(directories: Iterable[Path]) -> Iterator[str]:
    """A sentence for each of *directories* from which files were moved."""
    for directory in directories:
        note = directory / _MOVED
        if note.is_file():
            where = note.read_text(encoding="utf-8", errors="replace").strip()
            yield f"files of {directory} were moved to {where} (OUTPUT_STORE) and are left out."


def _aside() -> str:
    """The end of a name that nobody else writes to."""
    return f".{random_hex('objects', 4)}.tmp"


def _link(old: Path, new: Path) -> bool:
    try:
        os.link(old, new)
    except FileNotFoundError:
        raise
    except OSError:  # another file system, or one that has no links
        return False
    return True


def _copy(path: Path, place: Path) -> None:
    """Copy the file *path* to *place*, which has all of it, or what it had."""
    if place.exists() and place.samefile(path):
        raise OSError("a file cannot be moved to where it is")
    sync_paths(make_directory(place.parent))
    with replacing(place) as aside:
        shutil.copyfile(path, aside)
