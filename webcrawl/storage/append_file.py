"""Append file: after an error it ends where it ended before, so it has only complete appends."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from webcrawl.storage.atomic import write_all

if TYPE_CHECKING:
    from pathlib import Path


class AppendFile:
    """The file *path*, created if it does not exist. Not thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self.size = os.fstat(self._fd).st_size

    def append(self, data: bytes) -> None:
        """Append *data* with one write, so that it survives ``kill -9``.

        On an OSError nothing was appended, unless the file cannot be cut back either.
        """
        try:
            write_all(self._fd, data)
        except BaseException:
            self.cut(self.size)
            raise
        self.size += len(data)

    def cut(self, size: int) -> None:
        """Cut the file to *size*. Raises OSError."""
        os.ftruncate(self._fd, size)
        self.size = size

    def close(self) -> None:
        """Close without fsync."""
        os.close(self._fd)
