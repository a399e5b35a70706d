"""Atomic replacement of files: write a new file, fsync, rename, fsync the directory.

All functions block on the disk: call them in a thread if the file is large.
"""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_OWNER_ONLY = 0o600


def write_atomic(path: Path, data: bytes, *, aside: str = ".tmp", is_secret: bool = False) -> None:
    """Replace *path* by *data*: after a crash or power failure it has its old content or the new.

    Other rules as in ``replacing``. A secret can only be read by its owner.
    """
    with replacing(path, aside=aside) as new, new.open("wb", buffering=0) as file:
        if is_secret:
            os.fchmod(file.fileno(), _OWNER_ONLY)
        write_all(file.fileno(), data)


def restrict(path: Path) -> bool:
    """Let only the owner read the file *path*, if that is us; return whether others could."""
    is_open = bool(path.stat().st_mode & ~_OWNER_ONLY & 0o777)
    if is_open:
        with suppress(PermissionError):
            path.chmod(_OWNER_ONLY)
    return is_open


def unshare(path: Path) -> None:
    """Replace the file *path* by a copy, so that its other names keep their content.

    Durable: after a crash or power failure *path* is one or the other. On an OSError nothing was
    changed.
    """
    with replacing(path) as new:
        shutil.copyfile(path, new)


@contextmanager
def replacing(path: Path, *, aside: str = ".tmp") -> Iterator[Path]:
    """Yield the name of a new file next to *path*, with the suffix *aside*.

    On success it is fsynced and replaces *path*. On an error it is deleted, and *path* stays as it
    was.
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


def write_all(fd: int, data: bytes) -> None:
    """Write all of *data*: ``os.write`` may stop early at a full disk or a signal."""
    done = os.write(fd, data)
    while done < len(data):
        done += os.write(fd, memoryview(data)[done:])


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
    """fsync each of *paths* once, files before directories, so that contents come before names."""
    unique = dict.fromkeys(paths)
    for path in sorted(unique, key=lambda path: path.is_dir()):
        sync_path(path)


def make_directory(path: Path) -> list[Path]:
    """Make *path* with its parents; return the directories in which an entry was added."""
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        directory.mkdir(exist_ok=True)
    return [directory.parent for directory in missing]


def remove_new(path: Path, before: frozenset[str] | None) -> None:
    """Remove what was added to the directory *path* since it had the names *before*.

    If *before* is None, the directory did not exist, and is removed, too. What cannot be removed is
    left.
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
