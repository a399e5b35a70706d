"""Older checkpoints of a crawl that are kept; a copy of one can be resumed like a JOBDIR.

Made at an interval, after a checkpoint was published. On disk::

    checkpoints/NNNNNN/         JOBDIR as it was when checkpoint NNNNNN was published: CURRENT,
                                manifest and snapshot, and the shards with all their files
    checkpoints/NNNNNN/KEPT     says that the crawl may still use the files here
    checkpoints/NNNNNN.tmp/     one that is being created or deleted; may be removed

The files are hard links, which take no space until the crawl deletes its own names for them. Files
that are overwritten in place are copied. The invariant: no byte that a snapshot names is ever
overwritten. The crawl only appends after it, and a resumed crawl never runs in a directory that
still shares files. Bytes that were appended later are treated as after ``kill -9``. Only the
frontier's done log starts empty, because it would report finished pages whose links are not here.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from webcrawl.clock import TimeSource, wall_time
from webcrawl.crawl.job.state_directory import SHARDS, shard_names, shard_path
from webcrawl.errors import FatalError
from webcrawl.storage.atomic import make_directory, sync_path, sync_paths, write_atomic
from webcrawl.storage.record_log import RecordLog

# Copies a part's files into a directory; stops when its second argument returns False.
Copy = Callable[[Path, Callable[[], bool]], None]

DIRECTORY = "checkpoints"
_MARKER = "KEPT"
_NUMBER = re.compile(r"\d{6,}")
_TEMPORARY_SUFFIX = ".tmp"
_DONE_LOG = "done"
_HOSTS = "hosts"


class KeptCheckpoints:
    """Keeps some of the last checkpoints of a job."""

    def __init__(
        self, *, path: Path, count: int = 0, every: float = 0.0, clock: TimeSource = wall_time
    ) -> None:
        """Keep the last *count* checkpoints of the job in *path*, at least *every* seconds apart.

        With a *count* of 0 none is kept, and with *every* 0 each one. *clock* returns epoch
        seconds.
        """
        self._job = path
        self._path = path / DIRECTORY
        self._count = count
        self._every = every
        #: For each open shard, by name, the function that copies its host records. They cannot be
        #: linked, because they are overwritten in place. They may be newer than the rest of the
        #: checkpoint, but not older.
        self.copy_hosts: dict[str, Copy] = {}
        self._clock = clock
        # Set from another thread: ``keep`` must stop as soon as possible.
        self._is_aborted = False

    def open(self) -> None:
        """Delete incomplete checkpoints, left by a process that died. Blocks."""
        for path in self._path.glob(f"*{_TEMPORARY_SUFFIX}"):
            shutil.rmtree(path)

    @property
    def is_copy(self) -> bool:
        """Return whether the job is a copy of a kept checkpoint, and has made none of its own yet.

        Then it has no record of contacts that the original crawl made after the kept checkpoint.
        """
        return (self._job / _MARKER).exists()

    def become_ordinary(self) -> None:
        """Turn a copy into an ordinary job, because it has published a checkpoint."""
        if self.is_copy:
            (self._job / _MARKER).unlink()
            sync_path(self._job)

    def abort_keeping(self) -> None:
        """Make ``keep``, if it is running, return soon, because the crawl is ending.

        May be called from any thread.
        """
        self._is_aborted = True

    def keep(self) -> bool:
        """Keep the current checkpoint if that is due, and delete the oldest ones over the maximum.

        Returns whether it was kept. To be called in a worker thread: takes 0.15 ms for each file,
        or 10 ms while other threads never wait (2026-11-20). The next checkpoint must not be
        published before this returns. After an OSError or CorruptRecordError no new one is kept.
        """
        if not self._is_due():
            return False

        current = (self._job / "CURRENT").read_text(encoding="ascii")
        name = current.strip().removeprefix("manifest-").removesuffix(".json")
        temporary = self._path / (name + _TEMPORARY_SUFFIX)

        try:
            self._make(temporary, name)
            if self._is_aborted:
                return False
            # A job directory restored from a copy may reach this number again.
            if (self._path / name).exists():
                self._delete(self._path / name)
            temporary.rename(self._path / name)
        finally:
            if temporary.exists():
                shutil.rmtree(temporary)

        sync_path(self._path)
        # All but the newest ones.
        for path in find_kept(self._job)[: -self._count]:
            self._delete(path)
        return True

    def _delete(self, path: Path) -> None:
        """Rename the checkpoint to .tmp, then delete it."""
        temporary = path.with_name(f"{path.name}.old{_TEMPORARY_SUFFIX}")
        path.rename(temporary)
        sync_path(self._path)  # before any of its files is gone
        shutil.rmtree(temporary)

    def _is_due(self) -> bool:
        """Return whether the current checkpoint is to be kept."""
        checkpoints = find_kept(self._job)
        if not checkpoints:
            return self._count > 0
        # A clock set back must not prevent checkpoints from being kept for years.
        age = self._clock() - checkpoints[-1].stat().st_mtime
        return self._count > 0 and not 0 <= age < self._every

    def _make(self, temporary: Path, name: str) -> None:
        """Create the checkpoint *name* in the directory *temporary*. Stops early if aborted."""
        to_sync = make_directory(temporary)
        for file in (f"manifest-{name}.json", f"snapshot-{name}.log"):
            os.link(self._job / file, temporary / file)
        for shard in shard_names(self._job):
            to_sync += self._link_tree(shard_path(self._job, shard), shard_path(temporary, shard))

        # A copy of the dict, because the reactor's thread may add and remove shards.
        for shard, copy in [*self.copy_hosts.items()]:
            hosts = shard_path(temporary, shard) / _HOSTS
            to_sync += make_directory(hosts)
            copy(hosts, lambda: not self._is_aborted)
            to_sync.append(hosts)

        mark_as_copy(temporary)
        write_atomic(temporary / "CURRENT", f"manifest-{name}.json\n".encode("ascii"))
        # The files' bytes were synced when the checkpoint was published.
        sync_paths(to_sync)

    def _link_tree(self, source: Path, target: Path) -> list[Path]:
        """Link all files below *source* into *target*; return the paths to be synced.

        Files may disappear meanwhile; the checkpoint does not name these.
        """
        to_sync: list[Path] = []
        for directory, subdirectories, files in os.walk(source):
            # ``os.walk`` skips what is removed here: host records are copied, not linked.
            subdirectories[:] = [name for name in subdirectories if name != _HOSTS]
            target_directory = target / os.path.relpath(directory, source)
            starts_empty = target_directory.name == _DONE_LOG
            if files:
                to_sync += [*make_directory(target_directory), target_directory]
            for file in files:
                if self._is_aborted:
                    return to_sync
                if starts_empty:  # its records are newer than the snapshot that is kept
                    RecordLog.open(target_directory / file, size=0).close()
                    to_sync.append(target_directory / file)
                    continue
                with suppress(FileNotFoundError):
                    os.link(Path(directory) / file, target_directory / file)
        return to_sync


def find_kept(path: Path) -> list[Path]:
    """Return the kept checkpoints of the job in *path*, the oldest first.

    The name of each is its number.
    """
    checkpoints = [
        checkpoint
        for checkpoint in (path / DIRECTORY).glob("*/")
        if _NUMBER.fullmatch(checkpoint.name)
    ]
    return sorted(checkpoints, key=lambda checkpoint: int(checkpoint.name))


def mark_as_copy(path: Path) -> None:
    """Mark the job in *path* as a kept checkpoint or a copy of one: see ``is_copy``."""
    write_atomic(path / _MARKER, b"copy this directory and resume the copy\n")


def refuse_kept(path: Path) -> None:
    """Raise FatalError if the job directory *path* is a kept checkpoint and not a copy of one.

    A kept checkpoint may also have been moved. A crawl in it would overwrite files of the crawl
    that made it, as hard links share them.
    """
    if not (path / _MARKER).exists():
        return
    in_place = path.parent.name == DIRECTORY and (path.parent.parent / "CURRENT").exists()
    files = (*path.glob("*"), *(path / SHARDS).rglob("*"))
    if in_place or any(file.is_file() and file.stat().st_nlink > 1 for file in files):
        raise FatalError(
            f"JOBDIR {path} is a kept checkpoint, which never changes: copy it with "
            f"cp -r {path} DIR, and continue in the copy with -s JOBDIR=DIR."
        )
