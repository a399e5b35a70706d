"""Atomic publication of files: write aside, fsync, rename, fsync the directory.

All functions block on the disk: call them from a thread when the file is large.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_COPIED_BYTES: Final = 1 << 20


def write_atomic(path: Path, data: bytes, *, aside: str = ".tmp") -> None:
    """Replace *path* by *data*: after a crash or power loss it has its old content or the new.

    On OSError before the rename the old content stays and what was written aside, under the name of
    *path* with that end, is deleted.
    """
    with _replacing(path, aside) as fd:
        write_all(fd, data)


def unshare(path: Path) -> None:
    """Put a copy in the place of the file *path*, so that its other names keep what they have
    whatever is written here. Durable; after a crash or power loss *path* is the one or the other.

    On OSError nothing was changed.
    """
    with _replacing(path, ".tmp") as fd, path.open("rb", buffering=0) as file:
        while data := file.read(_COPIED_BYTES):
            write_all(fd, data)


@contextmanager
def _replacing(path: Path, aside: str) -> Iterator[int]:
    """A new file beside *path*, open for writing, which takes its place if all goes well."""
    aside_path = path.with_name(path.name + aside)
    fd = os.open(aside_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        try:
            yield fd
            os.fsync(fd)
        finally:
            os.close(fd)
        aside_path.replace(path)
    except OSError:
        aside_path.unlink(missing_ok=True)
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
