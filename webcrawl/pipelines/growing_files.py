"""Growing files: files that have a temporary name until they are complete.

    <prefix>-<time>-<serial><growing>    locked by the process that writes it
    <prefix>-<time>-<serial><whole>      complete

The name contains the time when the file was started, in UTC with milliseconds. A growing file that
is not locked was left behind by a process that died. Several processes may share a directory.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from webcrawl.storage.atomic import make_directory, sync_paths

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from webcrawl.clock import TimeSource

_COMPLETE_NAME = re.compile(r".+-\d{17}-\d{5,}(?:\.(?!open\b)\w+)+")


class GrowingFiles:
    """Creates and locks the growing files in *directory*.

    *suffixes* are the suffix of growing files and that of complete ones. Not thread-safe, except
    for ``complete_path``.
    """

    def __init__(
        self,
        *,
        directory: Path,
        prefix: str,
        suffixes: tuple[str, str],
        clock: TimeSource,
    ) -> None:
        """Prepare to create files in *directory*, which ``open`` makes.

        prefix: the beginning of their names; the time and a serial number follow.
        suffixes: the end of a name while the file grows, and when it is complete.
        clock: the time in epoch seconds.
        """
        self._directory = directory
        self._prefix = prefix
        self._growing_suffix, self._complete_suffix = suffixes
        self._clock = clock
        self._serial = 0  # number of the next file of this process

    def open(self) -> Iterator[tuple[Path, int]]:
        """Make the directory, and yield the files that dead processes left behind, oldest first.

        This is a generator: the directory is made when the caller asks for the first file. Each
        file comes with a locked descriptor, which the caller must close. Raises OSError if nothing
        can be written to the directory.
        """
        # Sync the parent as well: the process that made the directory may have died before doing
        # so.
        sync_paths([*make_directory(self._directory), self._directory.parent])
        # Fail now instead of at the first file.
        if not self._directory.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(self._directory))
        if not os.access(self._directory, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "Permission denied", str(self._directory))
        for path in sorted(self._directory.glob(f"*{self._growing_suffix}")):
            fd = lock_existing(path)
            if fd is not None:
                yield path, fd

    def begin(self) -> tuple[Path, int]:
        """Create a growing file; return its path and a locked descriptor that appends to it.

        Raises OSError.
        """
        while True:
            # The time to the millisecond, in 17 digits.
            started = datetime.fromtimestamp(self._clock(), UTC).strftime("%Y%m%d%H%M%S%f")[:17]
            name = f"{self._prefix}-{started}-{self._serial:05d}{self._growing_suffix}"
            path = self._directory / name
            self._serial += 1
            # Another process may have a file of this name, which is still growing or complete.
            if not self.complete_path(path).exists() and (fd := create_locked(path)) is not None:
                return path, fd

    def complete_path(self, growing: Path) -> Path:
        """Return the path that the file *growing* gets when it is complete."""
        return growing.with_name(
            growing.name.removesuffix(self._growing_suffix) + self._complete_suffix
        )


def is_complete_file(path: Path) -> bool:
    """Return whether *path* has the name of a growing file that is complete."""
    return _COMPLETE_NAME.fullmatch(path.name) is not None


def create_locked(path: Path) -> int | None:
    """Create and lock the file *path*; return its descriptor, or None if the file exists."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
    except FileExistsError:
        return None
    return _lock_open_file(path, fd)


def lock_existing(path: Path) -> int | None:
    """Lock the file *path* and return its descriptor.

    Returns None if another process has locked the file, or has completed and renamed it.
    """
    try:
        fd = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return None
    return _lock_open_file(path, fd)


def _lock_open_file(path: Path, fd: int) -> int | None:
    """Lock *fd*, a descriptor of the file *path*, and return it.

    If another process has locked the file, or has renamed it since it was opened, *fd* is closed
    and None is returned.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The inodes differ if the file was renamed and *path* now names another one.
        if path.stat().st_ino == os.fstat(fd).st_ino:
            return fd
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        os.close(fd)
        raise
    os.close(fd)
    return None
