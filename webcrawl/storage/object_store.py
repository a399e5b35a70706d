"""Object stores: named objects in a local directory, or in a bucket of S3, Google Cloud or Azure.

Every store promises this: once ``write``, ``create`` or ``move`` has returned, all readers find the
complete object. In a directory it also survives a power failure. Names must pass ``is_plain``: all
calls except ``move`` reject other names, because names may come from a file in the store, or from
Redis.

In a directory, webcrawl syncs what it writes. Files on the same file system are stored and
retrieved as hard links. Only the owner can read the files that ``write`` and ``create`` make. In a
bucket, obstore makes each object completely or not at all. An object that refers to others is
written last.

``create`` lets the first caller win: in a directory with link(2), in a bucket with a conditional
request (If-None-Match or ifGenerationMatch). Servers that imitate S3 must know If-None-Match.

All calls block, so make them in threads. They raise ObjectStoreError and, if documented,
FileNotFoundError.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from obstore.store import AzureStore, GCSStore, S3Store

_LOCAL = {"file", "local"}
# Class of obstore's client by the scheme of a URL.
_CLIENTS = {
    **dict.fromkeys(("s3", "s3a"), "S3Store"),
    **dict.fromkeys(("gs", "gcs"), "GCSStore"),
    **dict.fromkeys(("az", "abfs", "abfss"), "AzureStore"),
}
# Options of s3fs, gcsfs and adlfs, which webcrawl used until 0.4, with those of obstore.
_RENAMED = {
    "S3Store": {
        "anon": "skip_signature",
        "client_kwargs": "endpoint and region",
        "config_kwargs": "client_options",
        "key": "access_key_id",
        "profile": "access_key_id and secret_access_key",
        "secret": "secret_access_key",
        "use_ssl": "an endpoint that begins with http:// or https://",
    },
    "GCSStore": {"token": "service_account_path"},
    "AzureStore": {
        "account_host": "endpoint",
        "anon": "skip_signature",
        "connection_string": "account_name and account_key",
    },
}
# A request may take this long: 16 MB at 1 Mbit/s. http is for an endpoint that is named so.
_CLIENT_OPTIONS = {"allow_http": True, "timeout": "130s"}
# A store that refuses connections is given up after about three seconds.
_RETRIES: Any = {"max_retries": 5, "backoff": {"max_backoff": timedelta(seconds=2)}}
# With these an upload takes about 40 MB of memory.
_UPLOAD: Any = {"chunk_size": 1 << 23, "max_concurrency": 4}
_COPIES_AT_ONCE = 8
_MAX_REASON = 200
_MAX_NAME = 255
# When files are moved out of a directory, this file in it says where they are.
_MOVED = "MOVED"
_PLAIN = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*")
# Where exceptions of obstore have an error of the system, or the code of the service's answer.
_CAUSE = re.compile(r'(?:Os|Custom) \{[^}]*(?:message|error): "([^"]+)"|<Code>(\w+)</Code>')


def is_plain(name: str) -> bool:
    """Return whether *name* is a relative path of letters, digits, ``_``, dots and dashes.

    Each part must begin with a letter, digit or ``_``, so the path cannot leave its root.

    >>> [is_plain(name) for name in ("shards/00/1-a.json", "a/../b", "/a", "a//b", ".a", "")]
    [True, False, False, False, False, False]
    """
    return len(name) <= _MAX_NAME and _PLAIN.fullmatch(name) is not None


class ObjectStore:
    """The object store at *url*, which may also be the name of a directory.

    The directory may be mounted and shared by many machines. The client of a bucket gets *options*;
    others are in its environment. The constructor reads and creates nothing. It raises
    ObjectStoreError if the URL or the options are invalid. Error messages name *setting*. A
    *folder* is the part of a name before its last ``/``.
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
        # The bucket, if the store is not local, and the path to which names are appended.
        self._bucket: Any = None
        scheme, separator, location = url.partition("://")
        if not separator or scheme in _LOCAL:
            self.directory = Path(location if separator else url).absolute()
            self._root = str(self.directory)
            self.name = self._root
            return
        _, _, self._root = location.rstrip("/").partition("/")
        if scheme not in _CLIENTS:
            raise ObjectStoreError(
                f"{setting} {self.name} must be a directory, or a URL of S3 (s3://), Google Cloud "
                "Storage (gs://) or Azure (az://, abfs://)"
            )
        renamed = _RENAMED[_CLIENTS[scheme]]
        for old in sorted(renamed.keys() & (options or {})):
            raise ObjectStoreError(f"{setting}_OPTIONS: instead of {old}, use {renamed[old]}")
        with self._translating_errors():
            self._bucket = _bucket_of(scheme, location.partition("/")[0], options or {})

    def write(self, name: str, data: bytes) -> None:
        """Store *data* as the object *name*, replacing any existing object."""
        with self._translating_errors(may_be_gone=False):
            if self.directory is None:
                self._bucket.put(self._path(name), data, use_multipart=False)
            else:
                # Several processes may write the same name at the same time.
                write_atomic(self._durable_path(name), data, aside=_unique_suffix(), is_secret=True)

    def create(self, name: str, data: bytes) -> None:
        """Store *data* as the object *name*, unless that object already exists."""
        with self._translating_errors(may_be_gone=False):
            if self.directory is None:
                self._create_in_bucket(name, data)
                return
            path = self._durable_path(name)
            temporary = path.with_name(path.name + _unique_suffix())
            write_atomic(temporary, data, is_secret=True)
            try:
                with suppress(FileExistsError):
                    os.link(temporary, path)
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
        target = self._below_root(name)
        with self._translating_errors(may_be_gone=False):
            if self.directory is None:
                self._bucket.put(target, path, **_UPLOAD)
                stored_size = self._bucket.head(target)["size"]
            else:
                _copy(path, Path(target))
                stored_size = Path(target).stat().st_size
            # The file is deleted below, so check that all of it was stored.
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
        path = self._path(name)
        with self._translating_errors():
            if self.directory is None:
                return self._read_from_bucket(path, start, size)
            with Path(path).open("rb") as file:
                file.seek(start)
                return file.read(-1 if size is None else size)

    def names(self, folder: str) -> set[str]:
        """Return the names of the objects in *folder*, without the folder; it need not exist."""
        path = self._path(folder)
        with self._translating_errors(), suppress(FileNotFoundError):
            if self.directory is not None:
                return {each.name for each in Path(path).iterdir()}
            found = self._bucket.list_with_delimiter(path)
            paths = [*found["common_prefixes"], *(each["path"] for each in found["objects"])]
            return {each.rstrip("/").rpartition("/")[2] for each in paths}
        return set()

    def delete(self, names: Iterable[str]) -> None:
        """Delete the objects *names*; missing ones are ignored."""
        with self._translating_errors():
            for name in names:
                with suppress(FileNotFoundError):
                    if self.directory is None:
                        self._bucket.delete(self._path(name))
                    else:
                        Path(self._path(name)).unlink()

    def copy(self, names: Mapping[str, str]) -> None:
        """Copy each object named by a key of *names* to the name that is its value.

        The store itself makes the copies if possible. Raises FileNotFoundError.
        """
        if self.directory is None:
            paths = [*map(self._path, names)], [*map(self._path, names.values())]
            with self._translating_errors(), ThreadPoolExecutor(_COPIES_AT_ONCE) as pool:
                list(pool.map(self._bucket.copy, *paths))
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
        return self._below_root(name)

    def _below_root(self, name: str) -> str:
        return f"{self._root}/{name}" if self._root else name

    def _durable_path(self, name: str) -> Path:
        """Return the path of the object *name*, after making and syncing its directory."""
        path = Path(self._path(name))
        sync_paths(make_directory(path.parent))
        return path

    def _create_in_bucket(self, name: str, data: bytes) -> None:
        """Store *data* as the object *name*, unless that object already exists."""
        from obstore.exceptions import AlreadyExistsError  # noqa: PLC0415  # only for buckets

        with suppress(AlreadyExistsError):
            self._bucket.put(self._path(name), data, mode="create")

    def _read_from_bucket(self, path: str, start: int, size: int | None) -> bytes:
        """Return a part of the object *path*, or all of it, as ``read`` does."""
        if size is None:
            return bytes(self._bucket.get(path).bytes())[start:]
        try:
            return bytes(self._bucket.get_range(path, start=start, length=size))
        except FileNotFoundError:
            raise
        except Exception:
            # Services refuse a range that begins at the end or behind it.
            if self._bucket.head(path)["size"] > start:
                raise
            return b""

    @contextmanager
    def _translating_errors(self, *, may_be_gone: bool = True) -> Iterator[None]:
        """Turn exceptions of the store into ObjectStoreError with one sentence.

        If the object *may_be_gone*, FileNotFoundError is passed on as it is.
        """
        try:
            yield
        except ObjectStoreError:
            raise
        except Exception as error:  # obstore raises its own exceptions
            if isinstance(error, FileNotFoundError) and may_be_gone:
                raise
            reason = getattr(error, "strerror", None) or _reason_in(masked_error(error, self._url))
            raise StoreAwayError(
                f"{self._setting} {self.name} cannot be used: {reason or type(error).__name__}"
            ) from error


def _bucket_of(
    scheme: str, name: str, options: Mapping[str, Any]
) -> S3Store | GCSStore | AzureStore:
    """Return the client of the bucket or container *name*; of Azure also CONTAINER@ACCOUNT..."""
    import obstore.store  # noqa: PLC0415  # only for buckets

    arguments = {"retry_config": _RETRIES, **options}
    arguments["client_options"] = _CLIENT_OPTIONS | dict(options.get("client_options", {}))
    container, _, account = name.partition("@")
    if account:
        arguments["account_name"] = account.partition(".")[0]
    bucket: S3Store | GCSStore | AzureStore
    bucket = getattr(obstore.store, _CLIENTS[scheme])(container, **arguments)
    return bucket


def _reason_in(text: str) -> str:
    """Return the reason in the *text* of an exception, which has many lines if obstore wrote it."""
    if cause := _CAUSE.search(text):
        return cause[1] or cause[2]
    return text.partition("\n")[0].rpartition(" - ")[2][:_MAX_REASON]


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
