"""Succession: the next process in a job directory becomes the same drone, with its leases.

``DRONE`` in the job directory names the drone of the last process, which has ended, because the
directory is locked. A copy of the directory has another inode, and after a reboot or on another
machine the boot ID differs. Then the leases must expire first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.crawl.job.state_directory import boot_id
from webcrawl.storage.atomic import write_atomic

if TYPE_CHECKING:
    from pathlib import Path

_FILE = "DRONE"


def last_drone(job: Path) -> str:
    """Return the last drone of the job directory *job*, or "" if its leases must expire first."""
    try:
        place, _, drone = (job / _FILE).read_text("utf-8").rpartition(" ")
    except (OSError, UnicodeDecodeError):
        return ""
    return drone if place == _place(job) and boot_id() else ""


def note_drone(job: Path, drone: str) -> None:
    """Record *drone*, a name without spaces, as the last one of *job*. Raises OSError."""
    write_atomic(job / _FILE, f"{_place(job)} {drone}".encode())


def _place(job: Path) -> str:
    return f"{boot_id()} {job.stat().st_ino}"
