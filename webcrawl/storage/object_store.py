"""Object stores: named objects in a local directory, or at any URL that fsspec supports.

Every store promises this: once ``write``, ``create`` or ``move`` has returned, all readers find the
complete object. In a directory it also survives a power failure. Names must pass ``is_plain``: all
calls except ``move`` reject other names, because names may come from a file in the store, or from
Redis.

In a directory, webcrawl writes the files itself, because fsspec neither syncs nor links. Files on
the same file system are stored and retrieved as hard links. Only the owner can read the files that
``write`` and ``create`` make. At a URL, an object store (S3, Google, Azure) makes each object
completely or not at all. Other protocols may leave an incomplete object when the process dies. An
object that refers to others is therefore written last.

``create`` lets the first caller win. In a directory it uses link(2), at a URL
``pipe_file(mode="create")``, which s3fs and gcsfs turn into conditional requests (If-None-Match,
ifGenerationMatch). Other clients, such as obstore, check for the object and then write it. Two
processes may then both believe that they were first, so start a hive on such a store with one
drone. ``has_exclusive_creation`` tells the two kinds apart by the client's package, because fsspec
does not: obstore accepts the mode and ignores it.

All calls block, so make them in threads. They raise ObjectStoreError and, if documented,
FileNotFoundError.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import fsspec

from webcrawl.configuration.secrets import masked_error, masked_url
from webcrawl.errors import ObjectStoreError, StoreAwayError
from webcrawl.randomness import random_hex
from webcrawl.storage.atomic import (
    make_directory,
    replacement,
    sync_path,
    sync_paths,
    write_atomic,
)

logger = logging.getLogger(__name__)

_LOCAL = {"file", "local"}
# URLs that later versions support, too.
_LASTING = {"s3", "s3a", "gs", "gcs", "az", "adl", "abfs", "abfss"}
# The packages whose clients create an object only if it does not exist.
_EXCLUSIVE = {"s3fs", "gcsfs"}
_MAX_REASON = 200
_MAX_NAME = 255
# When files are moved out of a directory, this file in it says where they are.
_MOVED = "MOVED"
# With these options an upload takes 32 MB of memory, and 32 MB more while sending; with the
# defaults of s3fs it would take 500 MB.
_MULTIPART_OPTIONS = {"chunksize": 1 << 23, "max_concurrency": 4}
_PLAIN = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*")


def is_plain(name: str) -> bool:
    """Return whether *name* is a relative path of letters, digits, ``_``, dots and dashes.

    Each part must begin with a letter, digit or ``_``, so the path cannot leave its root.

    >>> [is_plain(name) for name in ("shards/00/1-a.json", "a/../b", "/a", "a//b", ".a", "")]
    [True, False, False, False, False, False]
    """
    return len(name) <= _MAX_NAME and _PLAIN.fullmatch(name) is not None


class ObjectStore:
    """The object store at *url*, which may also be the name of a directory.

    The directory may be mounted and shared by many machines. A URL needs the matching fsspec
    package (s3fs, gcsfs, adlfs ...), which gets *options*. The constructor reads and creates
    nothing. Error messages name *setting*. A *folder* is the part of a name before its last ``/``.
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
        # The client of the store, and the path in it to which names are appended.
        self._fs: Any
        scheme, separator, location = url.partition("://")
        if not separator or scheme in _LOCAL:
            self.directory = Path(location if separator else url).absolute()
            self.name = str(self.directory)
            self._fs = fsspec.filesystem("file")
            self._root = self.name
        else:
            if scheme not in _LASTING:
                logger.warning(
                    "%s: webcrawl 0.5 will only support directories, S3, Google Cloud Storage and "
                    "Azure, not %s://",
                    setting,
                    scheme,
                )
            with self._translating_errors():
                self._fs, self._root = fsspec.url_to_fs(url, **(options or {}))
        self._upload_options = _MULTIPART_OPTIONS if scheme in {"s3", "s3a"} else {}

    @property
    def has_exclusive_creation(self) -> bool:
        """Return whether of two processes that ``create`` the same object only one succeeds."""
        package = type(self._fs).__module__.partition(".")[0]
        return self.directory is not None or package in _EXCLUSIVE

    def write(self, name: str, data: bytes) -> None:
        """Store *data* as the object *name*, replacing any existing object."""
        with self._translating_errors(may_be_gone=False):
            if self.directory is None:
                self._pipe(name, data)
            else:
                # Several processes may write the same name at the same time.
                write_atomic(self._durable_path(name), data, aside=_unique_suffix(), is_secret=True)

    def create(self, name: str, data: bytes) -> None:
        """Store *data* as the object *name*, unless that object already exists."""
        with self._translating_errors(may_be_gone=False), suppress(FileExistsError):
            if self.directory is None:
                self._create(name, data)
                return
            path = self._durable_path(name)
            temporary = path.with_name(path.name + _unique_suffix())
            write_atomic(temporary, data, is_secret=True)
            try:
                os.link(temporary, path)  # raises FileExistsError if the object exists
            finally:
                temporary.unlink()
                sync_path(path.parent)

    def move(self, path: Path, name: str) -> int:
        """Store the file *path* as the object *name*, then delete the file; return its size.

        The file may be of any size. A file ``MOVED`` next to it says where it went. An existing
        object *name* is replaced; the caller must have checked the name. Raises FileNotFoundError
        if *path* does not exist.
        """
        size = path.stat().st_size
        target = f"{self._root.rstrip('/')}/{name}"
        with self._translating_errors(may_be_gone=False):
            if self.directory is None:
                self._make(
                    target, lambda: self._fs.put_file(str(path), target, **self._upload_options)
                )
                self._fs.invalidate_cache(target.rpartition("/")[0])
            else:
                _copy(path, Path(target))
            # The file is deleted below, so check that all of it was stored.
            stored_size = self._fs.info(target)["size"]
            if stored_size != size:
                raise OSError(f"only {stored_size} of the {size} bytes of {name} were stored")

        note = path.with_name(_MOVED)
        if not note.exists():
            note.write_text(f"{self.name}\n", encoding="utf-8")
        path.unlink()
        return size

    def read(self, name: str, start: int = 0, size: int | None = None) -> bytes:
        """Return *size* bytes of the object *name* from byte *start* on.

        Without *size*, returns everything from there. Returns fewer bytes if the object ends
        before. Raises FileNotFoundError.
        """
        # obstore accepts a range only with both ends.
        byte_range = {} if size is None else {"start": start, "end": start + size}
        with self._translating_errors():
            return bytes(self._fs.cat_file(self._path(name), **byte_range))

    def names(self, folder: str) -> set[str]:
        """Return the names of the objects in *folder*, without the folder; it need not exist."""
        path = self._path(folder)
        with self._translating_errors(), suppress(FileNotFoundError):
            # Otherwise fsspec might not list objects that other processes have stored.
            self._fs.invalidate_cache(path)
            paths = self._fs.ls(path, detail=False)
            return {path.rstrip("/").rpartition("/")[2] for path in paths}
        return set()

    def delete(self, names: Iterable[str]) -> None:
        """Delete the objects *names*; missing ones are ignored."""
        with self._translating_errors():
            for name in names:
                with suppress(FileNotFoundError):
                    self._fs.rm_file(self._path(name))

    def copy(self, names: Mapping[str, str]) -> None:
        """Copy each object named by a key of *names* to the name that is its value.

        The store itself makes the copies if possible. Raises FileNotFoundError.
        """
        if self.directory is None:
            with self._translating_errors():
                self._fs.copy([*map(self._path, names)], [*map(self._path, names.values())])
            return
        for old, new in names.items():
            if not self.link_in(Path(self._path(old)), new):
                self.write(new, self.read(old))

    def sync_folder(self, folder: str) -> None:
        """Sync *folder*, so that all objects linked into it survive a power failure."""
        if self.directory is not None:
            with self._translating_errors():
                sync_path(Path(self._path(folder)))

    def link_in(self, path: Path, name: str) -> int:
        """Store the file *path* as the object *name* with a hard link; return its inode number.

        Returns 0 if the store cannot contain hard links to the file. Raises FileNotFoundError if
        *path* does not exist.
        """
        if self.directory is None:
            return 0
        # A missing directory of the store is an error; a missing *path* is FileNotFoundError.
        with self._translating_errors(may_be_gone=False):
            target = self._durable_path(name)
        with self._translating_errors():
            return target.stat().st_ino if _link(path, target) else 0

    def link_out(self, name: str, path: Path) -> bool:
        """Make the file *path* a hard link to the object *name*; return whether that was possible.

        Raises FileNotFoundError if the object does not exist.
        """
        with self._translating_errors():
            return self.directory is not None and _link(Path(self._path(name)), path)

    def damage_error(self, name: str, why: str) -> ObjectStoreError:
        """Return the error to raise if the object *name* is damaged; *why* is the reason."""
        return ObjectStoreError(f"{self._setting} {self.name}: {name} is damaged: {why}")

    def _path(self, name: str) -> str:
        """Return the path of the object *name*. Raises ObjectStoreError for an invalid name."""
        if not is_plain(name):
            raise ObjectStoreError(
                f"{self._setting} {self.name}: {name[:80]!r} is not a valid object name"
            )
        return f"{self._root.rstrip('/')}/{name}"

    def _durable_path(self, name: str) -> Path:
        """Return the path of the object *name*, after making and syncing its directory."""
        path = Path(self._path(name))
        sync_paths(make_directory(path.parent))
        return path

    def _create(self, name: str, data: bytes) -> None:
        """Store *data* at a URL as the object *name*, unless that object already exists."""
        # Checked before, because obstore would overwrite an existing object, and again after an
        # error, because s3fs raises its own kind of error if the object exists.
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
        """Write *data* to the object *name* with fsspec."""
        path = self._path(name)
        self._make(path, lambda: self._fs.pipe_file(path, data, **options))

    def _make(self, path: str, make: Callable[[], object]) -> None:
        """Call *make*, which writes the object at *path*; make its directory first if needed."""
        try:
            make()
        except FileNotFoundError:  # the protocol has directories
            self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            make()

    @contextmanager
    def _translating_errors(self, *, may_be_gone: bool = True) -> Iterator[None]:
        """Turn exceptions of the store into ObjectStoreError with one sentence.

        If the object *may_be_gone*, FileNotFoundError is passed on as it is.
        """
        try:
            yield
        except ObjectStoreError:
            raise
        except Exception as error:  # each client library raises its own exceptions
            if isinstance(error, FileNotFoundError) and may_be_gone:
                raise
            reason = getattr(error, "strerror", None) or masked_error(error, self._url)
            reason = (reason or type(error).__name__).partition("\n")[0]
            raise StoreAwayError(
                f"{self._setting} {self.name} cannot be used: {reason[:_MAX_REASON]}"
            ) from error


def moved_file_notices(directories: Iterable[Path]) -> Iterator[str]:
    """Yield a sentence for each of *directories* from which files were moved."""
    for directory in directories:
        note = directory / _MOVED
        if note.is_file():
            store = note.read_text(encoding="utf-8", errors="replace").strip()
            yield f"files of {directory} were moved to {store} (OUTPUT_STORE) and are not included."


def _unique_suffix() -> str:
    """Return a file name suffix that no other process uses."""
    return f".{random_hex('objects', 4)}.tmp"


def _link(old: Path, new: Path) -> bool:
    """Make *new* a hard link to the file *old*; return whether that was possible."""
    try:
        os.link(old, new)
    except FileNotFoundError:
        raise
    except OSError:  # on another file system, or on one without hard links
        return False
    return True


def _copy(path: Path, target: Path) -> None:
    """Copy the file *path* to *target*; on an error, *target* keeps its old content."""
    if target.exists() and target.samefile(path):
        raise OSError("a file cannot be moved to where it already is")
    sync_paths(make_directory(target.parent))
    with replacement(target) as temporary:
        shutil.copyfile(path, temporary)
