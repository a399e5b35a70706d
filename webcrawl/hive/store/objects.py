"""Object stores: named bytes in a directory of this machine, or at any URL that fsspec reaches.

The promise of all: what ``write`` and ``create`` returned for is there, whole, for all who look,
and in a directory it survives a power failure. Names are as ``is_plain`` has them: each
call refuses other ones, which may come from a file in the store, or from Redis.

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
from typing import TYPE_CHECKING, Any, Final

import fsspec

from webcrawl.errors import HiveStoreError
from webcrawl.storage.atomic import make_directory, sync_path, sync_paths, write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_LOCAL: Final = {"file", "local"}
_MAX_REASON: Final = 200
_MAX_NAME: Final = 255
_PLAIN: Final = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*")


def without_credentials(url: str) -> str:
    """*url* as it may be shown: without user, password and parameters.

    >>> without_credentials("sftp://me:secret@a.test/crawl?key=1")
    'sftp://a.test/crawl'
    """
    return re.sub(r"://[^/@]*@", "://", url.partition("?")[0])


def is_plain(name: str) -> bool:
    """Whether *name* is a relative path that leads nowhere else: words, dots and dashes, each part
    of it beginning with a word.

    >>> [is_plain(name) for name in ("shards/00/1-a.json", "a/../b", "/a", "a//b", ".a", "")]
    [True, False, False, False, False, False]
    """
    return len(name) <= _MAX_NAME and _PLAIN.fullmatch(name) is not None


class Objects:
    """The store at *url*, or in the directory of that name.

    The directory may be a mounted one that many machines share; for a URL fsspec's package (s3fs,
    gcsfs, adlfs ...) has to be installed. Nothing is read or made yet. *folder* is all of a name
    before its last ``/``.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        #: The URL without credentials, for people.
        self.name = without_credentials(url)
        self._directory: Path | None = None
        self._fs: Any
        scheme, mark, rest = url.partition("://")
        if not mark or scheme in _LOCAL:
            self._directory = Path(rest if mark else url).absolute()
            self.name = str(self._directory)
            self._fs, self._root = fsspec.filesystem("file"), self.name
        else:
            with self._translated():
                self._fs, self._root = fsspec.url_to_fs(url)

    def write(self, name: str, data: bytes) -> None:
        """Make or replace an object."""
        with self._translated(may_be_gone=False):
            if self._directory is None:
                self._pipe(name, data)
            else:
                # Many processes may write one name at once.
                write_atomic(self._place(name), data, aside=_aside())

    def create(self, name: str, data: bytes) -> None:
        """Make an object if there is none of that name."""
        with self._translated(may_be_gone=False), suppress(FileExistsError):
            if self._directory is None:
                self._pipe(name, data, mode="create")
                return
            place = self._place(name)
            aside = place.with_name(place.name + _aside())
            write_atomic(aside, data)
            try:
                os.link(aside, place)
            finally:
                aside.unlink()
                sync_path(place.parent)

    def read(self, name: str, start: int = 0, size: int | None = None) -> bytes:
        """*size* bytes, or all, from *start* on; fewer where the object ends. FileNotFoundError."""
        end = None if size is None else start + size
        with self._translated():
            return bytes(self._fs.cat_file(self._path(name), start=start or None, end=end))

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
        if self._directory is None:
            with self._translated():
                self._fs.copy([*map(self._path, names)], [*map(self._path, names.values())])
            return
        for old, new in names.items():
            if not self.link_in(Path(self._path(old)), new):
                self.write(new, self.read(old))

    def settle(self, folder: str) -> None:
        """Return when what was linked into *folder* survives a power failure."""
        if self._directory is not None:
            with self._translated():
                sync_path(Path(self._path(folder)))

    def link_in(self, path: Path, name: str) -> int:
        """Make the file *path* an object by a hard link; the number of its inode. 0 if the store
        cannot have links to it. FileNotFoundError if the file is not there."""
        if self._directory is None:
            return 0
        with self._translated(may_be_gone=False):
            place = self._place(name)
        with self._translated():
            return place.stat().st_ino if _link(path, place) else 0

    def link_out(self, name: str, path: Path) -> bool:
        """The other way; whether that could be done. FileNotFoundError if there is no object."""
        with self._translated():
            return self._directory is not None and _link(Path(self._path(name)), path)

    def damaged(self, name: str, why: str) -> HiveStoreError:
        """The error of an object *name*, without which the store is of no use."""
        return HiveStoreError(f"HIVE_STORE {self.name}: {name} is damaged: {why}")

    def _path(self, name: str) -> str:
        if not is_plain(name):
            raise HiveStoreError(f"HIVE_STORE {self.name}: {name[:80]!r} is no name of an object")
        return f"{self._root.rstrip('/')}/{name}"

    def _place(self, name: str) -> Path:
        """The file *name*, with a durable directory around it."""
        place = Path(self._path(name))
        sync_paths(make_directory(place.parent))
        return place

    def _pipe(self, name: str, data: bytes, **options: str) -> None:
        path = self._path(name)
        try:
            self._fs.pipe_file(path, data, **options)
        except FileNotFoundError:  # a protocol that has directories
            self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._fs.pipe_file(path, data, **options)

    @contextmanager
    def _translated(self, *, may_be_gone: bool = True) -> Iterator[None]:
        """Turns what a store raises into HiveStoreError, with one sentence."""
        try:
            yield
        except HiveStoreError:
            raise
        except Exception as error:  # of whatever client library
            if isinstance(error, FileNotFoundError) and may_be_gone:
                raise
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            reason = without_credentials(reason.replace(self._url, self.name).partition("\n")[0])
            raise HiveStoreError(
                f"HIVE_STORE {self.name} cannot be used: {reason[:_MAX_REASON]}"
            ) from error


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
