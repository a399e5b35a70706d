"""The exceptions that end a crawl, and the sentences for a disk in trouble.

With such a disk nothing is wrong with what the user gave, and the same command goes on when it has
room or is mended: exit code 3. A directory that cannot be used for another reason is unusable
input.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class FatalError(ValueError):
    """The crawl cannot start or go on, and the user can mend it.

    The text is one sentence that says what is wrong and what to do next. ``scrapy crawl`` prints
    it and exits with 2. It is a ValueError so that a bad setting found by any component, which
    raises plain ValueError as Scrapy's own do, is shown the same way.
    """


class StoreError(OSError):
    """Pages cannot be stored any more. Raised by a processing module, it ends the crawl: the
    page's URL goes back to the frontier, and the same command goes on when the disk is mended."""


class DiskError(FatalError):
    """As FatalError, but nothing is wrong with the input: the disk is full or broken to begin with.
    ``scrapy crawl`` exits with 3."""


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
