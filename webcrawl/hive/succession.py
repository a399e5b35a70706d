"""Succession: the next process on a job directory takes over the leases of the last one.

``drone.json`` in the job directory names the drone of the last process. The directory is locked, so
that process has ended. A copy of the directory has another inode, and after a reboot or on another
machine the boot's ID differs: then the leases have to end by themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

import msgspec

from webcrawl.crawl.state_directory import boot_id
from webcrawl.storage.atomic import write_atomic

if TYPE_CHECKING:
    from pathlib import Path

_FILE: Final = "drone.json"


class Successor(msgspec.Struct, frozen=True):
    """The *drone* that used the job directory with the number *inode* in the boot *boot*."""

    drone: str
    boot: str
    inode: int

    @classmethod
    def of(cls, job: Path, drone: str) -> Self:
        """That of *drone*, in this boot."""
        return cls(drone, boot_id(), job.stat().st_ino)

    def former(self, job: Path) -> str:
        """The drone that used the directory *job* before this one, "" if its leases must end."""
        try:
            found = msgspec.json.decode((job / _FILE).read_bytes(), type=Successor)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return ""
        is_same = self.boot and (found.boot, found.inode) == (self.boot, self.inode)
        return found.drone if is_same else ""

    def write(self, job: Path) -> None:
        """It has used the directory *job* last. OSError."""
        write_atomic(job / _FILE, msgspec.json.encode(self))
