"""Older checkpoints of a crawl, each a job directory of its own, whose copies can be resumed.

Made after a checkpoint was published, at an interval. On disk::

    checkpoints/NNNNNN/         what JOBDIR was when checkpoint NNNNNN was published: its pointer,
                                manifest and snapshot, and its shards with all their files
    checkpoints/NNNNNN/KEPT     says that the files here may be those of a crawl
    checkpoints/NNNNNN.tmp/     one that is being made or deleted; disposable

The files are hard links, which cost no space before the crawl deletes its own names for them; what
is written in place is copied. The invariant: no byte that a snapshot names is ever written over,
neither by the crawl, which only appends behind it, nor by a resumed one: a directory that still
shares files is refused. Bytes appended since mean what they mean after ``kill -9``. Only the
frontier's done log begins anew: it would tell of finished pages whose links are not here.
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

    # Copies what a part has on disk into a directory; stops when it is told not to go on.
    Copy = Callable[[Path, Callable[[], bool]], None]

DIRECTORY = "checkpoints"
_MARK = "KEPT"
_NAME = re.compile(r"\d{6,}")
_ASIDE = ".tmp"
_DONE_LOG = "done"
_HOSTS = "hosts"


class KeptCheckpoints:
    """Those of the job in *path*: the last *count*, made at least *every* seconds apart.

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
        #: Host records, which are written in place, by the names of the shards; they need not
        #: agree with the rest to the moment, but not be older.
        self.copied: dict[str, Copy] = {}
        self._clock = clock
        self._is_hurried = False

    def open(self) -> None:
        """Delete what a process that died has left half made. Blocks."""
        for path in self._path.glob(f"*{_ASIDE}"):
            shutil.rmtree(path)

    @property
    def is_copy(self) -> bool:
        """Whether the job is a copy of a kept checkpoint and has none of its own yet: contacts that
        were made after it are on no record."""
        return (self._job / _MARK).exists()

    def make_own(self) -> None:
        """A checkpoint was published: a copy is a job like any other now."""
        if self.is_copy:
            (self._job / _MARK).unlink()
            sync_path(self._job)

    def give_way(self) -> None:
        """The crawl ends: what is being kept is given up within moments. From any thread."""
        self._is_hurried = True

    def keep(self) -> bool:
        """Keep the live checkpoint if it is time, and delete the oldest ones over *count*; whether
        it was kept.

        For a worker thread: takes 0.15 ms for each file, and 10 ms while other threads never wait
        (2026-11-20). Until it returns the next checkpoint must not be published. On OSError,
        CorruptRecordError nothing new is kept.
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
            # A job directory that was put back from a copy may come to this number again.
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
        """By way of a name that says that it is not whole."""
        aside = path.with_name(f"{path.name}.old{_ASIDE}")
        path.rename(aside)
        sync_path(self._path)  # before a file of it is gone
        shutil.rmtree(aside)

    def _is_due(self) -> bool:
        kept = kept_in(self._job)
        if not kept:
            return self._count > 0
        # A clock that was put back must not keep it from being made for years.
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
        """Give all files below *source* names below *target*; returns what is to be synced. Files
        that go meanwhile are none that the checkpoint names."""
        made: list[Path] = []
        for directory, names, files in os.walk(source):
            names[:] = [name for name in names if name != _HOSTS]
            place = target / os.path.relpath(directory, source)
            begins_anew = place.name == _DONE_LOG
            if files:
                made += [*make_directory(place), place]
            for file in files:
                if self._is_hurried:
                    return made
                if begins_anew:
                    RecordLog.open(place / file, size=0).close()
                    made.append(place / file)
                    continue
                with suppress(FileNotFoundError):
                    os.link(Path(directory) / file, place / file)
        return made


def kept_in(path: Path) -> list[Path]:
    """The kept checkpoints of the job in *path*, the oldest first; the name is the number."""
    found = [one for one in (path / DIRECTORY).glob("*/") if _NAME.fullmatch(one.name)]
    return sorted(found, key=lambda one: int(one.name))


def mark_as_copy(path: Path) -> None:
    """Mark the job in *path* as a kept checkpoint or a copy of one: see ``is_copy``."""
    write_atomic(path / _MARK, b"copy this directory and resume the copy\n")


def refuse_kept(path: Path) -> None:
    """Raise FatalError if the job directory *path* is a kept checkpoint, in its place or moved, and
    not a copy of one: to crawl there would write into the files of the crawl that made it."""
    if not (path / _MARK).exists():
        return
    in_place = path.parent.name == DIRECTORY and (path.parent.parent / "CURRENT").exists()
    files = (*path.glob("*"), *(path / SHARDS).rglob("*"))
    if in_place or any(file.is_file() and file.stat().st_nlink > 1 for file in files):
        raise FatalError(
            f"JOBDIR {path} is a kept checkpoint, which never changes: copy it with "
            f"cp -r {path} DIR, and go on in the copy with -s JOBDIR=DIR."
        )
