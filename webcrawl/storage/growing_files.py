"""Growing files: files with a temporary name until they are complete.

    <prefix>-<time>-<serial><growing>    locked by the process that writes it
    <prefix>-<time>-<serial><whole>      complete

The name has the time when the file was started, in UTC with milliseconds. A growing file without a
lock was left by a process that died. Several processes may share a directory.
"""

from __future__ import annotations

import errno
import os
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from webcrawl.clock import TimeSource, wall_time
from webcrawl.storage.atomic import make_directory, sync_paths
from webcrawl.storage.lock import create_locked, lock_existing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_WHOLE = re.compile(r".+-\d{17}-\d{5,}(?:\.(?!open\b)\w+)+")


class GrowingFiles:
    """Names and locks of the growing files in *directory*. Not thread-safe, except for ``whole``.

    *suffixes* are those of growing files and of complete ones.
    """

    def __init__(
        self,
        *,
        directory: Path,
        prefix: str,
        suffixes: tuple[str, str],
        clock: TimeSource = wall_time,
    ) -> None:
        self._directory = directory
        self._prefix = prefix
        self._growing, self._whole = suffixes
        self._clock = clock
        self._serial = 0

    def open(self) -> Iterator[tuple[Path, int]]:
        """Make the directory, and yield the files that dead processes left, oldest first.

        Each comes with its lock, a file descriptor that the caller must close. Raises OSError if
        nothing can be written there.
        """
        # The parent, too: the process that made the directory may have died before syncing it.
        sync_paths([*make_directory(self._directory), self._directory.parent])
        if not self._directory.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(self._directory))
        if not os.access(self._directory, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "Permission denied", str(self._directory))
        for path in sorted(self._directory.glob(f"*{self._growing}")):
            fd = lock_existing(path)
            if fd is not None:
                yield path, fd

    def begin(self) -> tuple[Path, int]:
        """Create a growing file; return it with a descriptor that appends to it and holds its lock.

        Raises OSError.
        """
        while True:
            moment = datetime.fromtimestamp(self._clock(), UTC).strftime("%Y%m%d%H%M%S%f")[:17]
            path = self._directory / f"{self._prefix}-{moment}-{self._serial:05d}{self._growing}"
            self._serial += 1
            if not self.whole(path).exists() and (fd := create_locked(path)) is not None:
                return path, fd

    def whole(self, growing: Path) -> Path:
        """Return the path of *growing* when it is complete."""
        return growing.with_name(growing.name.removesuffix(self._growing) + self._whole)


def is_whole(path: Path) -> bool:
    """Return whether *path* is, by its name, a growing file that is complete."""
    return _WHOLE.fullmatch(path.name) is not None
