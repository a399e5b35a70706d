"""The job directory: its lock, its live states, its checkpoints.

On disk::

    LOCK                            see storage/lock.py
    CURRENT  manifest  snapshot     state_directory.py: totals, seed cursor, public suffix list
    shards/NN/                      a shard: all that is known of some hosts
    shards/NN/CURRENT  manifest  snapshot        frontier, eliminator, content-seen test, seeds
    shards/NN/{frontier,seen,content,...}        the files of these parts, and hosts/ (SQLite)
    checkpoints/NNNNNN/...          older checkpoints, see kept_checkpoints.py
    reading  poison.json            see reading.py

A checkpoint has three steps, one checkpoint at a time::

    prepare()  reactor thread: snapshot of every part, no file is read; what takes long is encoded
               afterwards, in pieces, while the crawl goes on
    publish()  any thread: snapshots of all shards and of the job are written and fsynced with all
               that they name, then the manifests are published, the job's last
    forget()   reactor thread: files that only older snapshots named are deleted

Dying between two lines of this leaves some shards with the new state, and others and the job with
the one before. Nothing is missing then: the logs of all shards were fsynced first, so a link from a
page that one shard has finished is in the log of another. The job's own state is never newer than
its shards: seeds may be submitted again, and are known by then.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import threading
from typing import TYPE_CHECKING, Any

from webcrawl.crawl.job.kept_checkpoints import DIRECTORY, KeptCheckpoints, refuse_kept
from webcrawl.crawl.job.state_directory import (
    MANIFESTS,
    SHARDS,
    PreparedState,
    SavedState,
    StateDirectory,
    boot_id,
    read_state,
    shard_names,
    shard_path,
)
from webcrawl.errors import FatalError, refusal
from webcrawl.storage.atomic import remove_new, restrict, sync_path
from webcrawl.storage.lock import DirectoryLock, LockedError
from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError
from webcrawl.urls.hash_seed import new_seed, use_seed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path


# What shows that a directory is a job's. The first of it, LOCK, no power failure takes away.
_MARKS = frozenset({"LOCK", "CURRENT", SHARDS})
# What a new one may have: of the file system, and of who starts the crawl, as scrapy hive does.
_NOBODYS = frozenset({"lost+found", "logs"})


@dataclasses.dataclass(slots=True, frozen=True)
class Checkpoint:
    """The live checkpoint of a job on disk: its *own* state, and its *shards*' by their names."""

    own: SavedState
    shards: Mapping[str, SavedState]


@dataclasses.dataclass(slots=True, frozen=True)
class PreparedCheckpoint:
    """The state of a job at one moment, not on disk yet: its shards first, its own last."""

    states: list[tuple[StateDirectory, PreparedState]]

    def gather(self) -> Iterator[None]:
        """As ``PreparedState.gather``, of each."""
        for _, state in self.states:
            yield from state.gather()


def read_checkpoint(jobdir: Path, *, without: Collection[str] = ()) -> Checkpoint | None:
    """The live checkpoint of the job in *jobdir*, *without* some of its shards; None when there
    never was one. Takes no lock and changes nothing on disk.

    Raises CorruptRecordError, also when a newer checkpoint takes its place meanwhile, and
    NewerFormatError.
    """
    own, shards = _read(jobdir, lambda name: name not in without)
    return None if own is None else Checkpoint(own, shards)


def _read(
    jobdir: Path, is_wanted: Callable[[str], bool]
) -> tuple[SavedState | None, dict[str, SavedState]]:
    """The live state of the job, and that of each shard that has one and *is_wanted*, by name."""
    own = read_state(jobdir)
    names = filter(is_wanted, shards_of(jobdir, own))
    states = {name: read_shard(jobdir, name, own) for name in names}
    return own, {name: state for name, state in states.items() if state is not None}


def seed_of(state: SavedState) -> int:
    """The seed of the job with *state*, its own or a shard's: 0 if it is of before 2026-11-24."""
    return int(state.facts.get("seed", 0))


def shards_of(jobdir: Path, own: SavedState | None) -> list[str]:
    """The names of the shards of the job in *jobdir*, whose own state on disk is *own*. A shard
    that is not there was moved away; if none is, their directory is lost, and all are named."""
    names = set(shard_names(jobdir))
    if own is not None and not (jobdir / SHARDS).is_dir():
        names.update(own.facts.get("shards", ()))
    return sorted(names)


def read_shard(jobdir: Path, name: str, own: SavedState | None) -> SavedState | None:
    """The live state of the shard *name* of the job in *jobdir*, whose own state on disk is *own*;
    None for a shard that has none yet. Raises as ``read_state``."""
    path = shard_path(jobdir, name)
    state = read_state(path)
    if state is None and own is not None and name in own.facts.get("shards", ()):
        raise CorruptRecordError(path / "CURRENT", 0, "the file is gone")
    return state


def unopened(error: Exception, jobdir: Path) -> FatalError:
    """The sentence for a crawl in *jobdir* that cannot be opened."""
    sentence = f"The crawl in JOBDIR {jobdir} cannot be resumed: {error}"
    if isinstance(error, CorruptRecordError):
        sentence += f"; scrapy job check {jobdir} says how to go on"
    return refusal(error, jobdir, f"{sentence}.")


class Job:
    """One JOBDIR.

    ``open`` and ``publish`` block on the disk. *kept* are its older checkpoints. *beside* are names
    that a new one may have in it. *only* are the names of the shards to be loaded, None: all that
    are there; others may be taken in by ``adopt`` and given up by ``drop`` while it is open.
    *draw_seed* gives the seed of a new one (hash_seed.py), which all its manifests have.
    """

    def __init__(
        self,
        *,
        path: Path,
        read_boot_id: Callable[[], str] = boot_id,
        kept: KeptCheckpoints | None = None,
        beside: Collection[str] = (),
        only: Collection[str] | None = None,
        draw_seed: Callable[[], int] = new_seed,
    ) -> None:
        self.path = path
        self._only = None if only is None else frozenset(only)
        self._beside = frozenset(beside)
        self.kept = kept or KeptCheckpoints(path=path)
        self._lock = DirectoryLock(path=path / "LOCK")
        self._boot = read_boot_id()
        self._draw_seed = draw_seed
        self.seed = 0
        # What was in the directory when this run locked it; None until then.
        self._before: frozenset[str] | None = None
        self._is_made = False
        #: The state of the job itself: totals, seed cursor, public suffix list.
        self.own = StateDirectory(path=path, boot=self._boot)
        self._shards: dict[str, StateDirectory] = {}
        # Held while states are published: a shard that was dropped meanwhile is written to until
        # it is released.
        self._publishing = threading.Lock()
        self._published: list[StateDirectory] = []

    def open(self, *, spider: str = "") -> None:
        """Lock the directory and load the live state of the job, ``own``, and of all its shards.

        *spider* is the name of the spider whose crawl it must be; empty: anyone's. Raises
        FatalError with one sentence for a directory that is not such a job, is in use or damaged,
        and changes nothing then. DiskError if the disk is full or broken.
        """
        self._refuse_others()
        self.lock()
        try:
            self._load(spider)
            self.kept.open()
        except FatalError:
            self._lock.release()
            raise
        except (CorruptRecordError, NewerFormatError, OSError) as error:
            self._lock.release()
            raise unopened(error, self.path) from error

    def _refuse_others(self) -> None:
        """FatalError if the directory was never a job's, and has other things in it."""
        with contextlib.suppress(OSError):  # it is not there, or is refused when it is locked
            names = {path.name for path in self.path.iterdir()} - self._beside - _NOBODYS
            if names and names.isdisjoint(_MARKS):
                hive = "; a hive goes on by scrapy hive" if "drones" in names else ""
                raise FatalError(
                    f"JOBDIR {self.path} has other things in it, such as {min(names)}: name an "
                    f"empty directory, or one that is not there{hive}."
                )

    def lock(self) -> None:
        """Lock the directory, whatever is in it. Raises FatalError as ``open``."""
        refuse_kept(self.path)
        try:
            is_made = not self.path.exists()
            self.path.mkdir(parents=True, exist_ok=True)
            before = frozenset(path.name for path in self.path.iterdir())
            self._lock.acquire()
            self._before, self._is_made = before, is_made
            sync_path(self.path)
        except LockedError as error:
            raise FatalError(
                f"JOBDIR {self.path} is in use by {error.holder}: "
                "wait for it to end, or choose another JOBDIR."
            ) from error
        except OSError as error:
            sentence = (
                f"JOBDIR {self.path} cannot be used: {error.strerror}; choose another JOBDIR."
            )
            raise refusal(error, self.path, sentence) from error

    def _load(self, spider: str) -> None:
        own, shards = _read(self.path, lambda name: self._only is None or name in self._only)
        # A shard may have been moved here.
        saved = [state for state in (own, *shards.values()) if state is not None]
        self.use(seed_of(saved[0]) if saved else self._draw_seed())
        if own is None:
            self.own.begin()
        else:
            owner = own.facts.get("spider", spider)
            if spider and owner != spider:
                raise FatalError(
                    f"JOBDIR {self.path} holds a crawl of the spider {owner}, not of {spider}: "
                    "choose another one with -s JOBDIR=DIR."
                )
            self.own.go_on(own)
        for above in ("", f"{SHARDS}/*/"):
            for path in self.path.glob(f"{DIRECTORY}/*/{above}{MANIFESTS}"):
                restrict(path)
        for name, state in shards.items():
            self._shards[name] = self._state_of(name)
            self._shards[name].go_on(state)

    def use(self, seed: int) -> None:
        """Hash by *seed* from now on, and keep it."""
        self.seed = seed
        use_seed(seed)

    def _state_of(self, name: str) -> StateDirectory:
        return StateDirectory(path=shard_path(self.path, name), boot=self._boot)

    @property
    def shards(self) -> list[str]:
        """The names of the shards that have a saved state or were asked for."""
        return sorted(self._shards)

    def shard(self, name: str) -> StateDirectory:
        """The saved state of the shard *name*; a new one if there is none."""
        if name not in self._shards:
            self._shards[name] = self._state_of(name)
            self._shards[name].begin()
        return self._shards[name]

    def adopt(self, name: str) -> StateDirectory:
        """Take in the shard *name*, whose directory came from elsewhere or is new, while the job is
        open; after ``settle`` if it was dropped before. Blocks. Raises as ``read_state``."""
        assert name not in self._shards, name
        state = read_state(shard_path(self.path, name))
        adopted = self._state_of(name)
        if state is None:
            adopted.begin()
        else:
            adopted.go_on(state)
        self._shards[name] = adopted
        return adopted

    def drop(self, name: str) -> None:
        """The shard *name* is no part of the job any more: no state of it is published from now on,
        and its directory may be moved or deleted after ``settle``. Returns at once."""
        self.kept.copied.pop(name, None)
        state = self._shards.pop(name, None)
        if state is not None:
            state.is_dropped = True

    def settle(self) -> None:
        """Return when nothing is written any more to the shards that were dropped. Blocks."""
        with self._publishing:
            pass

    def delete(self, name: str) -> None:
        """Delete the directory of the shard *name*, which was dropped and is closed. Blocks; what
        cannot be deleted is left."""
        with self._publishing:
            shutil.rmtree(shard_path(self.path, name), ignore_errors=True)

    @property
    def is_behind(self) -> bool:
        """Whether the job or a shard has no state that was saved since the machine was started."""
        states = [self.own, *self._shards.values()]
        return any(not state.resumed or state.rebooted for state in states)

    def prepare(self, facts: Mapping[str, Any]) -> PreparedCheckpoint:
        """Take the snapshots; *facts* are put into the job's manifest for people to read."""
        self.own.facts = {**facts, "shards": self.shards, "seed": self.seed}
        # What is only in the job's own snapshot would be lost: see ``_of_older_job``.
        states = [state for _, state in sorted(self._shards.items()) if state.is_to_be_saved]
        return PreparedCheckpoint([(state, state.prepare()) for state in (*states, self.own)])

    def publish(self, prepared: PreparedCheckpoint) -> None:
        """Make *prepared* the live checkpoint. On OSError some shards may have their new state, and
        the others and the job have their previous one. In another thread only when gathered."""
        for _ in prepared.gather():
            pass
        with self._publishing:
            for step in (StateDirectory.write, StateDirectory.publish):
                for state, to_save in prepared.states:
                    _unless_dropped(state, lambda: step(state, to_save))  # noqa: B023  # at once
        self._published = [state for state, _ in prepared.states]
        self.kept.make_own()

    def forget(self) -> None:
        """After ``publish``, before the next ``prepare``: let every part delete what the published
        checkpoint does not name."""
        for _ in self.forgetting():
            pass

    def forgetting(self) -> Iterator[None]:
        """As ``forget``, one shard for each step: deleting files takes a file system a while."""
        published, self._published = self._published, []
        for state in published:
            if not state.is_dropped:
                state.forget()
            yield

    def close(self) -> None:
        """Give the directory free. The parts are closed by their owner."""
        self._lock.release()

    def discard(self) -> None:
        """Remove what came into the directory after this run had locked it, and the directory if
        this run made it; nothing if another process has it now. Blocks; what cannot be removed is
        left."""
        if self._before is None:
            return
        with contextlib.suppress(LockedError, OSError):
            self._lock.acquire()
            remove_new(self.path, None if self._is_made else self._before)
        self._lock.release()


def _unless_dropped(state: StateDirectory, step: Callable[[], None]) -> None:
    """Do *step*, unless the shard with *state* was dropped before or meanwhile."""
    if state.is_dropped:
        return
    try:
        step()
    except (OSError, CorruptRecordError):
        if not state.is_dropped:
            raise
