"""Older checkpoints of a crawl, each a job directory whose copies can be resumed.

Made at an interval, after a checkpoint was published. On disk::

    checkpoints/NNNNNN/         what JOBDIR was when checkpoint NNNNNN was published: its pointer,
                                manifest and snapshot, and its shards with all their files
    checkpoints/NNNNNN/KEPT     says that the files here may be those of a crawl
    checkpoints/NNNNNN.tmp/     one that is being made or deleted; disposable

The files are hard links, which take no space until the crawl deletes its own names for them. Files
that are written in place are copied. The invariant: no byte that a snapshot names is ever
overwritten. The crawl only appends after it, and a resumed crawl never runs in a directory that
still shares files. Bytes appended since mean the same as after ``kill -9``. Only the frontier's
done log starts empty: it would report finished pages whose links are not here.
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from webcrawl.clock import TimeSource, wall_time
from webcrawl.crawl.job.state_directory import SHARDS, shard_names, shard_path
from webcrawl.errors import FatalError
from webcrawl.storage.atomic import make_directory, sync_path, sync_paths, write_atomic
from webcrawl.storage.record_log import RecordLog

if TYPE_CHECKING:
    from collections.abc import Callable

    # Copies a part's files into a directory; stops when its second argument returns False.
    Copy = Callable[[Path, Callable[[], bool]], None]

DIRECTORY = "checkpoints"
_MARK = "KEPT"
_NAME = re.compile(r"\d{6,}")
_ASIDE = ".tmp"
_DONE_LOG = "done"
_HOSTS = "hosts"


class KeptCheckpoints:
    """The kept checkpoints of the job in *path*: the last *count*, at least *every* seconds apart.

    *clock* gives epoch seconds.
    """

    def __init__(
        self,
        *,
        path: Path,
        count: int = 0,
        every: float = 0.0,
        clock: TimeSource = wall_time,
    ) -> None:
        self._job = path
        self._path = path / DIRECTORY
        self._count = count
        self._every = every
        #: Functions that copy host records, which are written in place, by name of the shard. The
        #: records need not match the rest to the moment, but must not be older.
        self.copied: dict[str, Copy] = {}
        self._clock = clock
        self._is_hurried = False

    def open(self) -> None:
        """Delete what a process that died left half made. Blocks."""
        for path in self._path.glob(f"*{_ASIDE}"):
            shutil.rmtree(path)

    @property
    def is_copy(self) -> bool:
        """Return whether the job is a copy of a kept checkpoint, with no checkpoint of its own.

        Contacts made after the kept checkpoint are then not on record.
        """
        return (self._job / _MARK).exists()

    def become_ordinary(self) -> None:
        """Turn a copy into an ordinary job, because it has published a checkpoint."""
        if self.is_copy:
            (self._job / _MARK).unlink()
            sync_path(self._job)

    def abort_keeping(self) -> None:
        """Abort the checkpoint being kept within moments, because the crawl ends.

        From any thread.
        """
        self._is_hurried = True

    def keep(self) -> bool:
        """Keep the current checkpoint if it is time, and delete the oldest over *count*.

        Returns whether it was kept. For a worker thread: takes 0.15 ms for each file, and 10 ms
        while other threads never wait (2026-11-20). The next checkpoint must not be published until
        it returns. On OSError or CorruptRecordError nothing new is kept.
        """
        if not self._is_due():
            return False
        pointer = (self._job / "CURRENT").read_text(encoding="ascii")
        name = pointer.strip().removeprefix("manifest-").removesuffix(".json")
        aside = self._path / (name + _ASIDE)
        try:
            self._make(aside, name)
            if self._is_hurried:
                return False
            # A job directory restored from a copy may reach this number again.
            if (self._path / name).exists():
                self._delete(self._path / name)
            aside.rename(self._path / name)
        finally:
            if aside.exists():
                shutil.rmtree(aside)
        sync_path(self._path)
        for path in kept_in(self._job)[: -self._count]:
            self._delete(path)
        return True

    def _delete(self, path: Path) -> None:
        """Rename the checkpoint to .tmp, then delete it."""
        aside = path.with_name(f"{path.name}.old{_ASIDE}")
        path.rename(aside)
        sync_path(self._path)  # before any of its files is gone
        shutil.rmtree(aside)

    def _is_due(self) -> bool:
        kept = kept_in(self._job)
        if not kept:
            return self._count > 0
        # A clock set back must not prevent checkpoints from being kept for years.
        age = self._clock() - kept[-1].stat().st_mtime
        return self._count > 0 and not 0 <= age < self._every

    def _make(self, aside: Path, name: str) -> None:
        made = make_directory(aside)
        for file in (f"manifest-{name}.json", f"snapshot-{name}.log"):
            os.link(self._job / file, aside / file)
        for shard in shard_names(self._job):
            made += self._link_tree(shard_path(self._job, shard), shard_path(aside, shard))
        for shard, copy in [*self.copied.items()]:
            hosts = shard_path(aside, shard) / _HOSTS
            made += make_directory(hosts)
            copy(hosts, lambda: not self._is_hurried)
            made.append(hosts)
        mark_as_copy(aside)
        write_atomic(aside / "CURRENT", f"manifest-{name}.json\n".encode("ascii"))
        # The files' bytes were synced when the checkpoint was published.
        sync_paths(made)

    def _link_tree(self, source: Path, target: Path) -> list[Path]:
        """Link all files below *source* into *target*; return the paths to be synced.

        Files that disappear meanwhile are not named by the checkpoint.
        """
        made: list[Path] = []
        for directory, names, files in os.walk(source):
            names[:] = [name for name in names if name != _HOSTS]
            place = target / os.path.relpath(directory, source)
            starts_empty = place.name == _DONE_LOG
            if files:
                made += [*make_directory(place), place]
            for file in files:
                if self._is_hurried:
                    return made
                if starts_empty:
                    RecordLog.open(place / file, size=0).close()
                    made.append(place / file)
                    continue
                with suppress(FileNotFoundError):
                    os.link(Path(directory) / file, place / file)
        return made


def kept_in(path: Path) -> list[Path]:
    """Return the kept checkpoints of the job in *path*, the oldest first.

    The name is the number.
    """
    found = [one for one in (path / DIRECTORY).glob("*/") if _NAME.fullmatch(one.name)]
    return sorted(found, key=lambda one: int(one.name))


def mark_as_copy(path: Path) -> None:
    """Mark the job in *path* as a kept checkpoint or a copy of one: see ``is_copy``."""
    write_atomic(path / _MARK, b"copy this directory and resume the copy\n")


def refuse_kept(path: Path) -> None:
    """Raise FatalError if the job directory *path* is a kept checkpoint and not a copy of one.

    It may be in its place or moved. To crawl there would write into the files of the crawl that
    made it.
    """
    if not (path / _MARK).exists():
        return
    in_place = path.parent.name == DIRECTORY and (path.parent.parent / "CURRENT").exists()
    files = (*path.glob("*"), *(path / SHARDS).rglob("*"))
    if in_place or any(file.is_file() and file.stat().st_nlink > 1 for file in files):
        raise FatalError(
            f"JOBDIR {path} is a kept checkpoint, which never changes: copy it with "
            f"cp -r {path} DIR, and continue in the copy with -s JOBDIR=DIR."
        )
