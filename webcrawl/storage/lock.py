"""Locks of directories and of growing files: advisory ones that die with their holder."""

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
    """The error of a lock that another process holds; *holder* is the text in the lock file."""

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(f"{path} is held by {holder}")
        self.holder = holder


class DirectoryLock:
    """A lock by ``flock`` on a file. The kernel frees it when the process ends, however it ends."""

    def __init__(self, *, path: Path) -> None:
        self._path = path
        self._fd = -1

    def acquire(self) -> None:
        """Take the lock and write our process number into the file, or raise LockedError.

        Any other OSError, of a full disk for instance, leaves the lock free.
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
        """Free the lock; the file stays. Without the lock this does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


@contextmanager
def work_directory(path: Path, *, of: str) -> Iterator[Path]:
    """The directory *path*, for one process at a time; deleted if all goes well, else it stays for
    the next one. FatalError if another one has it; *of* says what is done in it. OSError."""
    path.mkdir(parents=True, exist_ok=True)
    lock = DirectoryLock(path=path / "lock")
    try:
        lock.acquire()
    except LockedError as error:
        raise FatalError(f"{of} by {error.holder}: wait for it.") from error
    try:
        yield path
        shutil.rmtree(path)
    finally:
        lock.release()


def create_locked(path: Path) -> int | None:
    """A descriptor of the new file *path*, locked; None if another process has the name."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
    except FileExistsError:
        return None
    return _locked(path, fd)


def lock_existing(path: Path) -> int | None:
    """A descriptor of *path*, locked; None if another process has the file, or has ended it."""
    try:
        fd = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return None
    return _locked(path, fd)


def _locked(path: Path, fd: int) -> int | None:
    """*fd* with a lock, or None, closed, if another process was quicker to lock or end *path*."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.stat().st_ino == os.fstat(fd).st_ino:
            return fd
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        os.close(fd)
        raise
    os.close(fd)
    return None
