"""Succession: the next process on a job directory is the same drone, with its leases.

``DRONE`` in the job directory names the drone of the last process. The directory is locked, so
that process has ended. A copy of the directory has another inode, and after a reboot or on another
machine the boot's ID differs: then the leases have to end by themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.crawl.job.state_directory import boot_id
from webcrawl.storage.atomic import write_atomic

if TYPE_CHECKING:
    from pathlib import Path

_FILE = "DRONE"


def last_drone(job: Path) -> str:
    """The drone that used the job directory *job* last, "" if its leases have to end."""
    try:
        place, _, drone = (job / _FILE).read_text("utf-8").rpartition(" ")
    except (OSError, UnicodeDecodeError):
        return ""
    return drone if place == _place(job) and boot_id() else ""


def note_drone(job: Path, drone: str) -> None:
    """From now on *drone*, a name without spaces, is the last one of *job*. OSError."""
    write_atomic(job / _FILE, f"{_place(job)} {drone}".encode())


def _place(job: Path) -> str:
    return f"{boot_id()} {job.stat().st_ino}"
