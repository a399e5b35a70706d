"""Object stores: named bytes in a local directory, or at any URL that fsspec supports.

The promise of all of them: when ``write``, ``create`` or ``move`` has returned, the object is
there, complete, for all readers. In a directory it also survives a power failure. Names must be as
in ``is_plain``: all calls except ``move`` reject others, as names may come from a file in the
store, or from Redis.

webcrawl itself writes to a directory, as fsspec neither syncs nor links. Files of the same file
system are stored and retrieved as hard links. Only their owner can read what ``write`` and
``create`` make. At a URL, an object store (S3, Google, Azure) makes each object completely or not
at all. Other protocols may leave an incomplete object when the process dies. So a name on which
others rely is written only after everything it refers to.

``create`` lets the first caller win. In a directory it uses link(2), at a URL
``pipe_file(mode="create")``, which s3fs and gcsfs turn into conditional requests (If-None-Match,
ifGenerationMatch). Clients without such requests, such as obstore, check for the object and then
write it. Two processes may then both believe to have won, so start a hive on such a store with one
drone.

All calls block, so use threads. Apart from FileNotFoundError they raise ObjectStoreError.
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
# The file in a directory whose files were moved that says where they are.
_MOVED = "MOVED"
# Holds 32 MB of a file in memory, and 32 MB more while sending; the default of s3fs would take 500.
_IN_PARTS = {"chunksize": 1 << 23, "max_concurrency": 4}
_PLAIN = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*")


def is_plain(name: str) -> bool:
    """Return whether *name* is a relative path of words, dots and dashes that stays below its root.

    Each part of it begins with a word.

    >>> [is_plain(name) for name in ("shards/00/1-a.json", "a/../b", "/a", "a//b", ".a", "")]
    [True, False, False, False, False, False]
    """
    return len(name) <= _MAX_NAME and _PLAIN.fullmatch(name) is not None


class ObjectStore:
    """The store at *url*, which may also be the name of a directory.

    The directory may be mounted and shared by many machines. A URL needs the package of fsspec
    (s3fs, gcsfs, adlfs ...), which gets *options*. Nothing is read or made yet. Errors name
    *setting*. A *folder* is the part of a name before its last ``/``.
    """

    def __init__(
        self, url: str, *, setting: str = "HIVE_STORE", options: Mapping[str, Any] | None = None
    ) -> None:
        self._url = url
        #: The URL without credentials, to be shown.
        self.name = masked_url(url)
        #: The directory, if the store is a local one.
        self.directory: Path | None = None
        self._setting = setting
        self._fs: Any
        scheme, mark, rest = url.partition("://")
        if not mark or scheme in _LOCAL:
            self.directory = Path(rest if mark else url).absolute()
            self.name = str(self.directory)
            self._fs, self._root = fsspec.filesystem("file"), self.name
        else:
            with self._translating_errors():
                self._fs, self._root = fsspec.url_to_fs(url, **(options or {}))
        self._parts = _IN_PARTS if scheme in {"s3", "s3a"} else {}

    def write(self, name: str, data: bytes) -> None:
        """Make or replace an object."""
        with self._translating_errors(may_be_gone=False):
            if self.directory is None:
                self._pipe(name, data)
            else:
                # Several processes may write the same name at the same time.
                write_atomic(self._durable_path(name), data, aside=_unique_suffix(), is_secret=True)

    def create(self, name: str, data: bytes) -> None:
        """Make an object if there is none with that name."""
        with self._translating_errors(may_be_gone=False), suppress(FileExistsError):
            if self.directory is None:
                self._create(name, data)
                return
            place = self._durable_path(name)
            aside = place.with_name(place.name + _unique_suffix())
            write_atomic(aside, data, is_secret=True)
            try:
                os.link(aside, place)
            finally:
                aside.unlink()
                sync_path(place.parent)

    def move(self, path: Path, name: str) -> int:
        """Store the file *path* as *name*, delete it, leave a note of that, and return its size.

        The file may be of any size. An object with that *name* is replaced; the caller must have
        checked the name. Raises FileNotFoundError if there is no such file.
        """
        size, place = path.stat().st_size, f"{self._root.rstrip('/')}/{name}"
        with self._translating_errors(may_be_gone=False):
            if self.directory is None:
                self._make(place, lambda: self._fs.put_file(str(path), place, **self._parts))
                self._fs.invalidate_cache(place.rpartition("/")[0])
            else:
                _copy(path, Path(place))
            stored = self._fs.info(place)["size"]
            if stored != size:
                raise OSError(f"only {stored} of the {size} bytes of {name} were stored")
        note = path.with_name(_MOVED)
        if not note.exists():
            note.write_text(f"{self.name}\n", encoding="utf-8")
        path.unlink()
        return size

    def read(self, name: str, start: int = 0, size: int | None = None) -> bytes:
        """Return *size* bytes, or all, from *start* on; fewer at the end.

        Raises FileNotFoundError.
        """
        # Both ends or none, as obstore does not accept other ranges.
        part = {} if size is None else {"start": start, "end": start + size}
        with self._translating_errors():
            return bytes(self._fs.cat_file(self._path(name), **part))

    def names(self, folder: str) -> set[str]:
        """Return the last parts of the names in *folder*; none if it does not exist."""
        path = self._path(folder)
        with self._translating_errors(), suppress(FileNotFoundError):
            self._fs.invalidate_cache(path)
            found = self._fs.ls(path, detail=False)
            return {name.rstrip("/").rpartition("/")[2] for name in found}
        return set()

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; missing ones are ignored."""
        with self._translating_errors():
            for name in names:
                with suppress(FileNotFoundError):
                    self._fs.rm_file(self._path(name))

    def copy(self, names: Mapping[str, str]) -> None:
        """Copy objects from the keys to the values of *names*, within the store if possible.

        Raises FileNotFoundError.
        """
        if self.directory is None:
            with self._translating_errors():
                self._fs.copy([*map(self._path, names)], [*map(self._path, names.values())])
            return
        for old, new in names.items():
            if not self.link_in(Path(self._path(old)), new):
                self.write(new, self.read(old))

    def settle(self, folder: str) -> None:
        """Return when what was linked into *folder* survives a power failure."""
        if self.directory is not None:
            with self._translating_errors():
                sync_path(Path(self._path(folder)))

    def link_in(self, path: Path, name: str) -> int:
        """Make the file *path* an object by a hard link; return the number of its inode.

        0 if the store cannot have links to it. Raises FileNotFoundError if the file does not exist.
        """
        if self.directory is None:
            return 0
        with self._translating_errors(may_be_gone=False):
            place = self._durable_path(name)
        with self._translating_errors():
            return place.stat().st_ino if _link(path, place) else 0

    def link_out(self, name: str, path: Path) -> bool:
        """Link the object *name* to the file *path*; return whether that was possible.

        Raises FileNotFoundError if the object does not exist.
        """
        with self._translating_errors():
            return self.directory is not None and _link(Path(self._path(name)), path)

    def damaged(self, name: str, why: str) -> ObjectStoreError:
        """Return the error for a damaged object *name*, without which the store cannot be used."""
        return ObjectStoreError(f"{self._setting} {self.name}: {name} is damaged: {why}")

    def _path(self, name: str) -> str:
        if not is_plain(name):
            raise ObjectStoreError(
                f"{self._setting} {self.name}: {name[:80]!r} is not a valid object name"
            )
        return f"{self._root.rstrip('/')}/{name}"

    def _durable_path(self, name: str) -> Path:
        """Return the file *name*, whose directory is made durable."""
        place = Path(self._path(name))
        sync_paths(make_directory(place.parent))
        return place

    def _create(self, name: str, data: bytes) -> None:
        # obstore overwrites without checking; s3fs raises an error of its own for existing objects.
        if self._exists(name):
            return
        try:
            self._pipe(name, data, mode="create")
        except Exception:
            if not self._exists(name):
                raise

    def _exists(self, name: str) -> bool:
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
    def _translating_errors(self, *, may_be_gone: bool = True) -> Iterator[None]:
        """Turn exceptions of a store into ObjectStoreError, with one sentence."""
        try:
            yield
        except ObjectStoreError:
            raise
        except Exception as error:  # each client library has its own
            if isinstance(error, FileNotFoundError) and may_be_gone:
                raise
            reason = getattr(error, "strerror", None) or masked_error(error, self._url)
            reason = (reason or type(error).__name__).partition("\n")[0]
            raise ObjectStoreError(
                f"{self._setting} {self.name} cannot be used: {reason[:_MAX_REASON]}"
            ) from error


def moved(directories: Iterable[Path]) -> Iterator[str]:
    """Yield a sentence for each of *directories* from which files were moved."""
    for directory in directories:
        note = directory / _MOVED
        if note.is_file():
            where = note.read_text(encoding="utf-8", errors="replace").strip()
            yield f"files of {directory} were moved to {where} (OUTPUT_STORE) and are not included."


def _unique_suffix() -> str:
    """Return a suffix for names that no other process writes to."""
    return f".{random_hex('objects', 4)}.tmp"


def _link(old: Path, new: Path) -> bool:
    try:
        os.link(old, new)
    except FileNotFoundError:
        raise
    except OSError:  # another file system, or one without links
        return False
    return True


def _copy(path: Path, place: Path) -> None:
    """Copy the file *path* to *place*, which then has all of it, or else its old content."""
    if place.exists() and place.samefile(path):
        raise OSError("a file cannot be moved to where it already is")
    sync_paths(make_directory(place.parent))
    with replacing(place) as aside:
        shutil.copyfile(path, aside)
