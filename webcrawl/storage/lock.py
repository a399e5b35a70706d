"""Advisory locks of directories and of growing files, which end with their process."""

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
    """A lock by ``flock`` on a file.

    The kernel releases it when the process ends, however it ends.
    """

    def __init__(self, *, path: Path) -> None:
        self._path = path
        self._fd = -1

    def acquire(self) -> None:
        """Take the lock and write our process ID into the file, or raise LockedError.

        Any other OSError, for example of a full disk, leaves the lock free.
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
        """Release the lock; the file stays. Does nothing if it is not held."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


@contextmanager
def work_directory(path: Path, *, activity: str) -> Iterator[Path]:
    """Yield the directory *path*, for one process at a time; it is deleted on success.

    On failure it stays for the next run. Raises FatalError if another process has it; *activity*
    says what it is used for. Raises OSError.
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
    """Create the file *path*; return a locked descriptor, None if another process has the name."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
    except FileExistsError:
        return None
    return _locked(path, fd)


def lock_existing(path: Path) -> int | None:
    """Lock the file *path* and return a descriptor.

    None if another process has locked or finished it.
    """
    try:
        fd = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return None
    return _locked(path, fd)


def _locked(path: Path, fd: int) -> int | None:
    """Lock *fd* and return it; if another process was first to lock or finish *path*, close it.

    Returns None then.
    """
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
