"""Succession: the next process in a job directory becomes the same drone, with its leases.

The file ``DRONE`` in the job directory names the drone of the last process. That process has ended,
because the new one has locked the directory. A copy of the directory has another inode, and after a
reboot or on another machine the boot ID differs. In these cases the leases must expire first.
"""

from __future__ import annotations

from pathlib import Path

from webcrawl.crawl.job.state_directory import boot_id
from webcrawl.storage.atomic import write_atomic

_FILE = "DRONE"


def last_drone(job: Path) -> str:
    """Return the name of the last drone in the job directory *job*.

    Returns "" if there was none, or if its leases must expire first.
    """
    try:
        directory_id, _, drone = (job / _FILE).read_text("utf-8").rpartition(" ")
    except (OSError, UnicodeDecodeError):
        return ""
    return drone if directory_id == _directory_id(job) and boot_id() else ""


def had_drone(job: Path) -> bool:
    """Return whether a drone has ever joined its hive from the job directory *job*."""
    return (job / _FILE).exists()


def record_drone(job: Path, drone: str) -> None:
    """Record *drone*, a name without spaces, as the last drone in *job*. Raises OSError."""
    write_atomic(job / _FILE, f"{_directory_id(job)} {drone}".encode())


def _directory_id(job: Path) -> str:
    """Return an ID of the directory *job* that a copy of it, or another boot, does not have."""
    return f"{boot_id()} {job.stat().st_ino}"
