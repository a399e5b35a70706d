"""Advisory locks on directories and on growing files; the kernel releases them with the process."""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from webcrawl.errors import FatalError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class LockedError(Exception):
    """Another process holds the lock; *holder* is the text in the lock file."""

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(f"{path} is held by {holder}")
        self.holder = holder


class DirectoryLock:
    """A lock that uses ``flock`` on the file *path*.

    The kernel releases it when the process ends, however it ends.
    """

    def __init__(self, *, path: Path) -> None:
        self._path = path
        self._fd = -1

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

    def release(self) -> None:
        """Release the lock but keep the file. Does nothing if the lock is not held."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


@contextmanager
def work_directory(path: Path, *, activity: str) -> Iterator[Path]:
    """Lock the directory *path* for one process, yield it, and delete it on success.

    On failure the directory stays for the next run. Raises FatalError if another process uses it;
    *activity* says what the directory is used for. Raises OSError.
    """
    path.mkdir(parents=True, exist_ok=True)
    lock = DirectoryLock(path=path / "lock")
    try:
        lock.acquire()
    except LockedError as error:
        raise FatalError(f"{activity} by {error.holder}: wait for it.") from error
    try:
        yield path
        shutil.rmtree(path)
    finally:
        lock.release()


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
