"""Advisory locks on directories; the kernel releases them with the process."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from webcrawl.storage.atomic import OpenFile


class LockedError(Exception):
    """Another process holds the lock; *holder* is the text in the lock file."""

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(f"{path} is held by {holder}")
        self.holder = holder


class DirectoryLock(OpenFile):
    """A lock that uses ``flock`` on the file *path*.

    The kernel releases it when the process ends, however it ends.
    """

    def __init__(self, *, path: Path) -> None:
        self._path = path

    def acquire(self) -> None:
        """Take the lock and write our process ID into the file.

        Raises LockedError if another process holds the lock. After any other OSError, for example
        because the disk is full, the lock is free.
        """
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.read(fd, 100).decode("ascii", "replace").strip()
                raise LockedError(self._path, holder or "another process") from None
            os.ftruncate(fd, 0)
            os.write(fd, f"process {os.getpid()}\n".encode("ascii"))
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd

    # Keeps the file. Does nothing if the lock is not held.
    release = OpenFile.close
