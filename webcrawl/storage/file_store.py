"""File stores: whole files in a directory, or at any URL that fsspec reaches.

Under a file's name there is all of it or nothing: a directory gets it by rename, an object store
(S3, Google, Azure) makes an object at once. Other protocols may have half of it until ``put`` has
returned. All calls block: for threads.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import fsspec

from webcrawl.storage.atomic import make_directory, sync_path, sync_paths

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# In a directory whose files were moved: where to.
_MOVED: Final = "MOVED"
_LOCAL: Final = {"file", "local"}
_MAX_REASON: Final = 200
# Of a file 32 MB are in memory, and once more while they are sent; s3fs would take 500.
_IN_PARTS: Final = {"chunksize": 1 << 23, "max_concurrency": 4}


class FileStore:
    """The store at *url*, or in the directory of that name; *options* are for fsspec.

    Nothing is contacted or made yet. Raises what fsspec does for a protocol that it does not know,
    whose package is not installed, or that has no such options.
    """

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        #: Where it is on this machine, if it is.
        self.directory: Path | None = None
        self._fs: Any = None
        self._url = url
        scheme, mark, rest = url.partition("://")
        if not mark or scheme in _LOCAL:
            self.directory = Path(rest if mark else url).absolute()
            #: Its place, without user, password and parameters.
            self.name = str(self.directory)
        else:
            self._fs, self._root = fsspec.url_to_fs(url, **options)
            self._parts = _IN_PARTS if scheme in {"s3", "s3a"} else {}
            self.name = re.sub(r"://[^/@]*@", "://", url.partition("?")[0])

    def put(self, path: Path, name: str) -> int:
        """Store the file *path* as *name*, which may have slashes, in place of what has that name;
        its size. It is there when this returns, in a directory also after a power failure.

        OSError with one clause; FileNotFoundError if there is no such file.
        """
        size = path.stat().st_size
        try:
            if self.directory is not None:
                stored = _put(path, self.directory / name)
            else:
                stored = self._put_there(path, f"{self._root.rstrip('/')}/{name}")
        except Exception as error:  # of whatever client library
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            reason = reason.replace(self._url, self.name).partition("\n")[0]
            raise OSError(reason[:_MAX_REASON]) from error
        if stored != size:
            raise OSError(f"it has {stored} of the {size} bytes of {name}")
        return size

    def move(self, path: Path, name: str) -> int:
        """``put``, delete *path*, and leave a note of it; the size."""
        size = self.put(path, name)
        note = path.with_name(_MOVED)
        if not note.exists():
            note.write_text(f"{self.name}\n", encoding="utf-8")
        path.unlink()
        return size

    def _put_there(self, path: Path, place: str) -> int:
        try:
            self._fs.put_file(str(path), place, **self._parts)
        except FileNotFoundError:  # a protocol that has directories
            self._fs.makedirs(place.rpartition("/")[0], exist_ok=True)
            self._fs.put_file(str(path), place, **self._parts)
        self._fs.invalidate_cache(place.rpartition("/")[0])
        return int(self._fs.info(place)["size"])


def moved(directories: Iterable[Path]) -> Iterator[str]:
    """A sentence for each of *directories* from which files were moved."""
    for directory in directories:
        note = directory / _MOVED
        if note.is_file():
            where = note.read_text(encoding="utf-8", errors="replace").strip()
            yield f"files of {directory} were moved to {where} (OUTPUT_STORE) and are left out."


def _put(path: Path, place: Path) -> int:
    if place.exists() and place.samefile(path):
        raise OSError("a file cannot be moved to where it is")
    sync_paths(make_directory(place.parent))
    aside = place.with_name(f"{place.name}.tmp")
    try:
        shutil.copyfile(path, aside)
        sync_path(aside)
        size = aside.stat().st_size
        if size == path.stat().st_size:
            aside.replace(place)
            sync_path(place.parent)
    finally:
        aside.unlink(missing_ok=True)
    return size
