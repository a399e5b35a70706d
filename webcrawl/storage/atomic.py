"""Atomic publication of files: write aside, fsync, rename, fsync the directory.

All functions block on the disk: call them from a thread when the file is large.
"""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_OWNERS = 0o600


def write_atomic(path: Path, data: bytes, *, aside: str = ".tmp", is_secret: bool = False) -> None:
    """Replace *path* by *data*: after a crash or power loss it has its old content or the new. As
    ``replacing``. Only its owner can read a secret."""
    with replacing(path, aside=aside) as beside, beside.open("wb", buffering=0) as file:
        if is_secret:
            os.fchmod(file.fileno(), _OWNERS)
        write_all(file.fileno(), data)


def restrict(path: Path) -> bool:
    """Have only the owner of the file *path* read it, if that is us; whether others could."""
    is_open = bool(path.stat().st_mode & ~_OWNERS & 0o777)
    if is_open:
        with suppress(PermissionError):
            path.chmod(_OWNERS)
    return is_open


def unshare(path: Path) -> None:
    """Put a copy in the place of the file *path*, so that its other names keep what they have
    whatever is written here. Durable; after a crash or power loss *path* is the one or the other.

    On OSError nothing was changed.
    """
    with replacing(path) as beside:
        shutil.copyfile(path, beside)


@contextmanager
def replacing(path: Path, *, aside: str = ".tmp") -> Iterator[Path]:
    """The name of a new file beside *path*, with the end *aside*. If all goes well it is fsynced
    and takes the place of *path*; on an error it is deleted, and *path* stays as it was."""
    beside = path.with_name(path.name + aside)
    try:
        yield beside
        sync_path(beside)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync_path(path.parent)


def write_all(fd: int, data: bytes) -> None:
    """Write every byte of *data*: ``os.write`` may stop early at a full disk or a signal."""
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
    """fsync each of *paths* once, files before directories: no name before its bytes."""
    unique = dict.fromkeys(paths)
    for path in sorted(unique, key=lambda path: path.is_dir()):
        sync_path(path)


def make_directory(path: Path) -> list[Path]:
    """Make *path* with its parents; returns the directories that got a new name in them."""
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        directory.mkdir(exist_ok=True)
    return [directory.parent for directory in missing]


def remove_new(path: Path, before: frozenset[str] | None) -> None:
    """Remove what came into the directory *path* since it had the names *before*, and the directory
    if that is None, as it was not there. What cannot be removed is left."""
    with suppress(OSError):
        for one in path.iterdir():
            if before is not None and one.name in before:
                continue
            if one.is_dir() and not one.is_symlink():
                shutil.rmtree(one, ignore_errors=True)
            else:
                one.unlink()
        if before is None:
            path.rmdir()
