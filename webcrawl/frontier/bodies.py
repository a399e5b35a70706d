"""The directories of the back-end queues that spill to disk.

The back end takes a body when a queue overflows and retires it when it has drained. The
invariant: a directory is used again only when no published snapshot names what was in it.

Directory: ``<path>/<nn>/<number>/``, each a DiskFifo. Bodies are numbered, not named by host, and
their directories are never removed but used again: on ext4 an rmdir took 2.5 ms (2026-11,
development machine), which adds up to seconds when thousands of hosts run out of URLs between two
checkpoints. So there are as many directories as there ever were spilled queues at one time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.storage.fifo import DiskFifo

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from webcrawl.storage.fifo import FifoSnapshot

# Entries per frame. A spilled queue holds up to two frames in memory, and so in every snapshot:
# larger frames would make those larger, smaller ones every disk access less useful.
CHUNK = 16
# A back-end queue is short compared with a front-end queue: give disk space back early.
SEGMENT_BYTES = 1 << 20
# Deleting a file takes 0.01 to 1 ms. What one ``forget`` leaves is emptied by the next, or when a
# queue needs a body.
_EMPTIED_PER_CALL = 100


class Bodies:
    """Makes, retires and reuses the bodies below *path*. Not thread-safe."""

    def __init__(self, *, path: Path) -> None:
        self.path = path
        self._made = 0
        self._free: list[int] = []
        # Drained since the last snapshot; before it; and named by no published snapshot.
        self._drained: list[DiskFifo] = []
        self._doomed: list[DiskFifo] = []
        self._forgotten: list[DiskFifo] = []
        # Shared by all bodies: a checkpoint must not take the longer the more of them there are.
        self._written: set[Path] = set()
        self._used_up: set[DiskFifo] = set()

    def open(self, kept: Mapping[int, FifoSnapshot]) -> dict[int, DiskFifo]:
        """The bodies that the snapshot has *kept*, by number; all others are emptied.

        Raises CorruptRecordError when a file that one of them needs is damaged.
        """
        bodies = {}
        for number, snapshot in kept.items():
            body = self._body(number)
            body.open(snapshot)
            bodies[number] = body
        found = {int(path.name) for path in self.path.glob("*/*")}
        for number in found - bodies.keys():
            self._body(number).open(None)
            self._free.append(number)
        self._made = max([0, *bodies, *found])
        return bodies

    def take(self) -> DiskFifo:
        """An empty body. Nothing is written before it holds more than two frames."""
        if not self._free:
            self._empty_forgotten(1)
        if self._free:
            return self._body(self._free.pop())
        self._made += 1
        return self._body(self._made)

    def retire(self, body: DiskFifo) -> None:
        """*body* has drained; the last snapshot may still need its files."""
        self._used_up.discard(body)
        self._drained.append(body)

    def seal(self) -> None:
        """A snapshot is being made: it names no body that was retired before."""
        self._doomed += self._drained
        self._drained = []

    def forget(self) -> None:
        """The last snapshot was published: what was retired before it may be emptied."""
        self._forgotten += self._doomed
        self._doomed = []
        self._used_up -= {body for body in self._used_up if not body.forget()}
        self._empty_forgotten(_EMPTIED_PER_CALL)

    def _empty_forgotten(self, limit: int) -> None:
        while limit and self._forgotten:
            body = self._forgotten.pop()
            body.open(None)
            self._free.append(number_of(body))
            limit -= 1

    def written(self) -> list[Path]:
        """See ``Frontier.written``: of all bodies, also those that were retired."""
        written = [*self._written]
        self._written.clear()
        return written

    def _body(self, number: int) -> DiskFifo:
        path = body_path(self.path, number)
        return DiskFifo(
            path=path,
            chunk=CHUNK,
            segment_bytes=SEGMENT_BYTES,
            written=self._written,
            used_up=self._used_up,
        )


def number_of(body: DiskFifo) -> int:
    """The number that names *body* in a snapshot."""
    return int(body.path.name)


def body_path(path: Path, number: int) -> Path:
    """The directory of body *number* below *path*."""
    return path / f"{number % 256:02x}/{number:08d}"
