"""Atomic replacement of files: write a new file, fsync, rename, fsync the directory.

All functions block on the disk: call them in a thread if the file is large.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_OWNER_ONLY = 0o600


def write_atomic(path: Path, data: bytes, *, aside: str = ".tmp", is_secret: bool = False) -> None:
    """Replace the content of the file *path* with *data*, completely or not at all.

    This also holds after a crash or power failure. The new file is first written under the name
    with the suffix *aside*. If the data *is_secret*, only the owner of the file can read it. On an
    error the file stays as it was.
    """
    with replacement(path, aside=aside) as new, new.open("wb", buffering=0) as file:
        if is_secret:
            os.fchmod(file.fileno(), _OWNER_ONLY)
        write_all(file.fileno(), data)


def restrict(path: Path) -> bool:
    """Make the file *path* readable only by its owner; return whether others could read it.

    Nothing is changed if the file belongs to another user.
    """
    is_open = bool(path.stat().st_mode & ~_OWNER_ONLY & 0o777)
    if is_open:
        with suppress(PermissionError):
            path.chmod(_OWNER_ONLY)
    return is_open


def unshare(path: Path) -> None:
    """Replace the file *path* with a copy, so that changing it leaves its other hard links alone.

    After a crash or power failure *path* is the old file or the copy. On an OSError nothing was
    changed.
    """
    with replacement(path) as new:
        shutil.copyfile(path, new)


@contextmanager
def replacement(path: Path, *, aside: str = ".tmp") -> Iterator[Path]:
    """Yield the path of a new file next to *path*, named with the suffix *aside*.

    On success the new file is fsynced and replaces *path*. On an error it is deleted, and *path*
    stays as it was.
    """
    new = path.with_name(path.name + aside)
    try:
        yield new
        sync_path(new)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    sync_path(path.parent)


class OpenFile:
    """Owner of the open file with the descriptor ``_fd``, which is -1 once it is closed."""

    _fd = -1

    def close(self) -> None:
        """Close the file without fsync. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def write_all(fd: int, data: bytes) -> None:
    """Write all of *data* to the descriptor *fd*.

    ``os.write`` alone may write only a part of it, when the disk is full or a signal arrives.
    """
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, memoryview(data)[written:])


def sync_path(path: Path) -> None:
    """fsync the file or directory *path*, if it exists."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_paths(paths: Iterable[Path]) -> None:
    """fsync each of *paths* once: first the files, then the directories with their names."""
    unique = dict.fromkeys(paths)
    for path in sorted(unique, key=lambda path: path.is_dir()):
        sync_path(path)


def make_directory(path: Path) -> list[Path]:
    """Make the directory *path* and its parents; return the directories that got a new entry."""
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        directory.mkdir(exist_ok=True)
    return [directory.parent for directory in missing]


def remove_new(path: Path, before: frozenset[str] | None) -> None:
    """Remove all entries of the directory *path* that are not among the names *before*.

    If *before* is None, the directory did not exist before, and is removed as well. Entries that
    cannot be removed are left.
    """
    with suppress(OSError):
        for entry in path.iterdir():
            if before is not None and entry.name in before:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink()
        if before is None:
            path.rmdir()
