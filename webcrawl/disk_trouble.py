"""Whether the disk is in trouble, and what to tell the user then, with exit code 3.

Nothing is wrong with what the user gave, and the same command goes on when the disk has room or is
mended; a directory that cannot be used for another reason is unusable input.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from webcrawl.errors import DiskError, FatalError

if TYPE_CHECKING:
    from pathlib import Path


def is_disk_full(error: BaseException) -> bool:
    """Whether *error* says that the disk, or our share of it (quota, ulimit -f), is full."""
    return isinstance(error, OSError) and error.errno in {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
    }


def is_disk_failing(error: BaseException) -> bool:
    """Whether *error* says that the disk is full or broken."""
    return is_disk_full(error) or (isinstance(error, OSError) and error.errno == errno.EIO)


def explained(error: OSError, directory: Path, *, name: str = "JOBDIR") -> str:
    """The sentence for *error*, which was met in *directory*; *name* is that of its setting."""
    if is_disk_full(error):
        return (
            f"The disk of {name} {directory} is full: make room and run the same command again; "
            "nothing is lost."
        )
    return (
        f"{name} {directory} cannot be written ({error}): mend that and run the same command "
        "again; nothing is lost."
    )


def refusal(
    error: Exception, directory: Path, otherwise: str, *, name: str = "JOBDIR"
) -> FatalError:
    """What to raise when *error* keeps a crawl in *directory* from beginning; *otherwise* is the
    sentence if it is not the disk's fault."""
    if isinstance(error, OSError) and is_disk_failing(error):
        return DiskError(explained(error, directory, name=name))
    return FatalError(otherwise)
