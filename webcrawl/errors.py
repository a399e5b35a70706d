"""Exceptions that end a crawl, and the messages for a full or broken disk.

If the disk is full or broken, the input is right: the same command continues once the disk has room
or is repaired. The exit code is 3. A directory that cannot be used for another reason is unusable
input: exit code 2.
"""

from __future__ import annotations

import errno
import re
import stat
import traceback
from importlib.util import find_spec
from os import stat_result
from pathlib import Path
from typing import TypeGuard


class FatalError(ValueError):
    """Raised when the crawl cannot start or continue, for a reason that the user can remove.

    The text is one sentence that says what is wrong and what to do next. ``scrapy crawl`` prints it
    and exits with 2. It is a ValueError because Scrapy's own components raise that for a bad
    setting: both are shown the same way. If the text quotes a sentence of another program, two
    stops in a row become one.
    """

    def __init__(self, text: str = "") -> None:
        super().__init__(re.sub(r"(?<=\w)\.\.(?!\S)", ".", text))


class StoreError(OSError):
    """Raised when a processing module cannot store any more pages; ends the crawl.

    The page's URL goes back to the frontier, and the same command continues once the disk is
    repaired. ``place``: the setting and the directory that the error is about, if that is not
    JOBDIR.
    """

    place: tuple[str, Path] | None = None


class RemoteStoreError(StoreError):
    """A StoreError about something other than a local disk.

    The text is one clause that names what failed.
    """


class ObjectStoreError(OSError):
    """Raised when HIVE_STORE or OUTPUT_STORE cannot be reached or has unexpected content.

    The text is one clause that names the store. The files on the crawl's own disk are intact.
    """


class StoreAwayError(ObjectStoreError):
    """An ObjectStoreError that may go away by itself: the store is not reachable or not mounted."""


class DiskError(FatalError):
    """A FatalError caused by a full or broken disk. ``scrapy crawl`` exits with 3."""


class UnreachableError(FatalError):
    """A FatalError that may go away by itself: Redis is away. ``scrapy crawl`` exits with 6."""


def require_file(path: Path) -> stat_result:
    """Return the status of *path*. Raises OSError unless it is a file that can be read."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):  # opening a named pipe would block
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    with path.open("rb"):
        return status


def read_file(path: Path, setting: str) -> bytes:
    """Return the content of *path*, the file of a *setting*. Raises FatalError."""
    try:
        require_file(path)
        return path.read_bytes()
    except OSError as error:
        raise FatalError(f"{setting} {path} cannot be read: {error.strerror}.") from error


def require_package(package: str, *, feature: str) -> None:
    """Raise FatalError unless *package* is installed.

    *package* is one of the extra "modules"; the error says that *feature* needs it.
    """
    if find_spec(package) is None:
        raise FatalError(
            f"{feature} needs {package}: make modules (or pip install 'webcrawl[modules]')."
        )


def is_disk_full(error: BaseException) -> bool:
    """Return whether *error* means a full disk, a used-up quota or a file over ``ulimit -f``."""
    return isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def is_disk_failing(error: BaseException) -> bool:
    """Return whether *error* means that the disk is full or broken."""
    return is_disk_full(error) or (isinstance(error, OSError) and error.errno == errno.EIO)


def is_storage_lost(error: BaseException | None) -> TypeGuard[OSError]:
    """Return whether *error*, from a processing module, means that it can store no more pages."""
    return isinstance(error, StoreError) or (error is not None and is_disk_failing(error))


def module_of(
    error: BaseException, method: str = "process_item", name: str = "self"
) -> object | None:
    """Return the processing module whose *method* raised *error*, or raised its cause.

    The local variable *name* of that method holds the module.
    """
    cause: BaseException | None = error
    while cause is not None:
        for frame, _ in traceback.walk_tb(cause.__traceback__):
            if frame.f_code.co_name == method and name in frame.f_locals:
                module: object = frame.f_locals[name]
                return module
        cause = cause.__cause__
    return None


def path_of(module: object | None) -> str:
    """Return the import path of the class of *module*; "unknown" for None."""
    cls = type(module)
    return "unknown" if module is None else f"{cls.__module__}.{cls.__qualname__}"


def disk_message(error: OSError, directory: Path, *, name: str = "JOBDIR") -> str:
    """Return the message for the user about *error*, raised by the disk of *directory*.

    *name* is the setting that chose the directory. A StoreError may name another setting and
    directory.
    """
    if isinstance(error, StoreError) and error.place is not None:
        name, directory = error.place
    if isinstance(error, (ObjectStoreError, RemoteStoreError)):
        return f"{error}: fix that and run the same command again; nothing is lost."
    if is_disk_full(error):
        return (
            f"The disk of {name} {directory} is full: free some space and run the same command "
            "again; nothing is lost."
        )
    return (
        f"{name} {directory} cannot be written ({error}): fix that and run the same command "
        "again; nothing is lost."
    )


def refusal(
    error: Exception, directory: Path, otherwise: str, *, name: str = "JOBDIR"
) -> FatalError:
    """Return the FatalError to raise because *error* keeps a crawl in *directory* from starting.

    *otherwise* is its message if the disk is not the cause. *name* is the setting that chose the
    directory.
    """
    if isinstance(error, OSError) and is_disk_failing(error):
        return DiskError(disk_message(error, directory, name=name))
    return FatalError(otherwise)
