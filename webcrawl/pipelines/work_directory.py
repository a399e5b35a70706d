"""Work directory: the files that one process needs for an output, until the output is complete."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from webcrawl.errors import FatalError
from webcrawl.storage.lock import DirectoryLock, LockedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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
