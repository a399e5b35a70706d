"""Append-only file from which incomplete writes are removed after an error."""

from __future__ import annotations

import os
from pathlib import Path

from webcrawl.storage.atomic import OpenFile, write_all


class AppendFile(OpenFile):
    """Writer that appends to the file *path*, creating it if necessary. Not thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self.size = os.fstat(self._fd).st_size

    def append(self, data: bytes) -> None:
        """Append *data* with one write, so that it survives ``kill -9``.

        On an OSError nothing was appended, unless the file could not be truncated either.
        """
        try:
            write_all(self._fd, data)
        except BaseException:
            self.cut(self.size)
            raise
        self.size += len(data)

    def cut(self, size: int) -> None:
        """Truncate the file to *size* bytes. Raises OSError."""
        os.ftruncate(self._fd, size)
        self.size = size
