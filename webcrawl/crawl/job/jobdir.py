"""The job directory: its lock, its live states, its checkpoints.

On disk::

    LOCK                            see storage/lock.py
    CURRENT  manifest  snapshot     state_directory.py: totals, seed cursor, public suffix list
    shards/NN/                      a shard: everything known about some hosts
    shards/NN/CURRENT  manifest  snapshot        frontier, eliminator, content-seen test, seeds
    shards/NN/{frontier,seen,content,...}        the files of these parts, and hosts/ (SQLite)
    checkpoints/NNNNNN/...          older checkpoints, see kept_checkpoints.py
    reading  poison.json            see reading.py

A checkpoint has three steps, one checkpoint at a time::

    prepare()  reactor thread: take a snapshot of every part without reading files; large ones are
               encoded afterwards, in pieces, while the crawl continues
    publish()  any thread: write and fsync the snapshots of all shards and of the job, with all
               files that they name; then publish the manifests, the job's last
    forget()   reactor thread: delete files that only older snapshots named

A crash between two of these steps leaves some shards with the new state, and others and the job
with the previous one. Nothing is missing then: the logs of all shards were fsynced first, so a link
from a page that one shard has finished is in the log of another. The job's own state is never newer
than its shards': seeds may be submitted again, and are then already known.
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


# Names that identify a job directory. LOCK is made first, and no power failure takes it away.
_JOB_NAMES = frozenset({"LOCK", "CURRENT", SHARDS})
# Names allowed in a new job directory: from the file system, and from what starts the crawl, such
# as scrapy hive.
_IGNORED_NAMES = frozenset({"lost+found", "logs"})


@dataclasses.dataclass(slots=True, frozen=True)
class Checkpoint:
    """The current checkpoint of a job on disk.

    It has the job's *own* state, and those of its *shards* by name.
    """

    own: SavedState
    shards: Mapping[str, SavedState]


@dataclasses.dataclass(slots=True, frozen=True)
class PreparedCheckpoint:
    """The state of a job at one moment, not on disk yet: its shards first, its own last."""

    states: list[tuple[StateDirectory, PreparedState]]

    def gather(self) -> Iterator[None]:
        """Encode every state, as ``PreparedState.gather``."""
        for _, state in self.states:
            yield from state.gather()


def read_checkpoint(jobdir: Path, *, without: Collection[str] = ()) -> Checkpoint | None:
    """Return the current checkpoint of the job in *jobdir*; None if it has none.

    *without* names shards to leave out. Takes no lock and changes nothing on disk. Raises
    NewerFormatError, and CorruptRecordError, also when a newer checkpoint replaces it meanwhile.
    """
    own, shards = _read(jobdir, lambda name: name not in without)
    return None if own is None else Checkpoint(own, shards)


def _read(
    jobdir: Path, is_wanted: Callable[[str], bool]
) -> tuple[SavedState | None, dict[str, SavedState]]:
    """Return the current state of the job, and those of its wanted shards by name."""
    own = read_state(jobdir)
    names = filter(is_wanted, shards_of(jobdir, own))
    states = {name: read_shard(jobdir, name, own) for name in names}
    return own, {name: state for name, state in states.items() if state is not None}


def seed_of(state: SavedState) -> int:
    """Return the hash seed of the job with *state*, its own or a shard's; 0 before 2026-11-24."""
    return int(state.facts.get("seed", 0))


def shards_of(jobdir: Path, own: SavedState | None) -> list[str]:
    """Return the names of the shards of the job in *jobdir*, whose own state on disk is *own*.

    A shard without a directory was moved away. If no shard has one, their directory is lost, and
    all are named.
    """
    names = set(shard_names(jobdir))
    if own is not None and not (jobdir / SHARDS).is_dir():
        names.update(own.facts.get("shards", ()))
    return sorted(names)


def read_shard(jobdir: Path, name: str, own: SavedState | None) -> SavedState | None:
    """Return the current state of the shard *name* of the job in *jobdir*, None if it has none yet.

    *own* is the job's own state on disk. Raises as ``read_state``.
    """
    path = shard_path(jobdir, name)
    state = read_state(path)
    if state is None and own is not None and name in own.facts.get("shards", ()):
        raise CorruptRecordError(path / "CURRENT", 0, "the file is gone")
    return state


def resume_error(error: Exception, jobdir: Path) -> FatalError:
    """Return the error for a crawl in *jobdir* that cannot be opened because of *error*."""
    sentence = f"The crawl in JOBDIR {jobdir} cannot be resumed: {error}"
    if isinstance(error, CorruptRecordError):
        sentence += f"; run scrapy job check {jobdir} to see what can be done"
    return refusal(error, jobdir, f"{sentence}.")


class Job:
    """One JOBDIR.

    ``open`` and ``publish`` block on the disk. *kept* are its older checkpoints. *beside* are names
    that a new one may already contain. *only* are the names of the shards to load, None for all
    that exist; others can be added with ``adopt`` and removed with ``drop`` while it is open.
    *draw_seed* gives the seed of a new job (hash_seed.py), which all its manifests contain.
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
        # Content of the directory when this run locked it; None until then.
        self._content_before: frozenset[str] | None = None
        self._made_directory = False
        #: State of the job itself: totals, seed cursor, public suffix list.
        self.own = StateDirectory(path=path, boot=self._boot)
        self._shards: dict[str, StateDirectory] = {}
        # Held while states are published: until it is released, a shard dropped meanwhile may still
        # be written to.
        self._publishing = threading.Lock()
        self._published: list[StateDirectory] = []

    def open(self, *, spider: str = "") -> None:
        """Lock the directory and load the current state of the job, ``own``, and of all its shards.

        *spider* is the name of the spider whose crawl it must be; empty: any spider's. Raises
        FatalError with one sentence for a directory that is not such a job, is in use or is
        damaged, and then changes nothing. Raises DiskError if the disk is full or broken.
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
            raise resume_error(error, self.path) from error

    def _refuse_others(self) -> None:
        """Raise FatalError if the directory was never a job's and contains other things."""
        with contextlib.suppress(OSError):  # it is missing, or ``lock`` will refuse it
            names = {path.name for path in self.path.iterdir()} - self._beside - _IGNORED_NAMES
            if names and names.isdisjoint(_JOB_NAMES):
                hive = "; to continue a hive, use scrapy hive" if "drones" in names else ""
                raise FatalError(
                    f"JOBDIR {self.path} contains other things, such as {min(names)}: choose an "
                    f"empty or new directory{hive}."
                )

    def lock(self) -> None:
        """Lock the directory, whatever it contains. Raises FatalError as ``open``."""
        refuse_kept(self.path)
        try:
            is_made = not self.path.exists()
            self.path.mkdir(parents=True, exist_ok=True)
            before = frozenset(path.name for path in self.path.iterdir())
            self._lock.acquire()
            self._content_before, self._made_directory = before, is_made
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
            self.own.resume_from(own)
        for above in ("", f"{SHARDS}/*/"):
            for path in self.path.glob(f"{DIRECTORY}/*/{above}{MANIFESTS}"):
                restrict(path)
        for name, state in shards.items():
            self._shards[name] = self._state_of(name)
            self._shards[name].resume_from(state)

    def use(self, seed: int) -> None:
        """Set the hash seed of the job and of this process."""
        self.seed = seed
        use_seed(seed)

    def _state_of(self, name: str) -> StateDirectory:
        return StateDirectory(path=shard_path(self.path, name), boot=self._boot)

    @property
    def shards(self) -> list[str]:
        """Return the names of the shards that have a saved state or were asked for."""
        return sorted(self._shards)

    def shard(self, name: str) -> StateDirectory:
        """Return the saved state of the shard *name*; a new one if there is none."""
        if name not in self._shards:
            self._shards[name] = self._state_of(name)
            self._shards[name].begin()
        return self._shards[name]

    def adopt(self, name: str) -> StateDirectory:
        """Add the shard *name*, whose directory came from elsewhere or is new, to the open job.

        Call it after ``settle`` if the shard was dropped before. Blocks. Raises as ``read_state``.
        """
        assert name not in self._shards, name
        state = read_state(shard_path(self.path, name))
        adopted = self._state_of(name)
        if state is None:
            adopted.begin()
        else:
            adopted.resume_from(state)
        self._shards[name] = adopted
        return adopted

    def drop(self, name: str) -> None:
        """Remove the shard *name* from the job. Returns immediately.

        No state of it is published from now on, and its directory may be moved or deleted after
        ``settle``.
        """
        self.kept.copied.pop(name, None)
        state = self._shards.pop(name, None)
        if state is not None:
            state.is_dropped = True

    def settle(self) -> None:
        """Return when nothing writes to the dropped shards any more. Blocks."""
        with self._publishing:
            pass

    def delete(self, name: str) -> None:
        """Delete the directory of the shard *name*, which was dropped and closed.

        Blocks; files that cannot be deleted are left.
        """
        with self._publishing:
            shutil.rmtree(shard_path(self.path, name), ignore_errors=True)

    @property
    def is_behind(self) -> bool:
        """Return whether the job or a shard has no state saved since the machine booted."""
        states = [self.own, *self._shards.values()]
        return any(not state.resumed or state.rebooted for state in states)

    def prepare(self, facts: Mapping[str, Any]) -> PreparedCheckpoint:
        """Take the snapshots; *facts* are put into the job's manifest for people to read."""
        self.own.facts = {**facts, "shards": self.shards, "seed": self.seed}
        # Data that is only in the job's own snapshot would be lost: see ``_of_older_job``.
        states = [state for _, state in sorted(self._shards.items()) if state.is_to_be_saved]
        return PreparedCheckpoint([(state, state.prepare()) for state in (*states, self.own)])

    def publish(self, prepared: PreparedCheckpoint) -> None:
        """Make *prepared* the current checkpoint.

        On OSError some shards may have their new state, and the others and the job their previous
        one. May run in another thread only after ``gather``.
        """
        for _ in prepared.gather():
            pass
        with self._publishing:
            for step in (StateDirectory.write, StateDirectory.publish):
                for state, to_save in prepared.states:
                    _unless_dropped(state, lambda: step(state, to_save))  # noqa: B023  # at once
        self._published = [state for state, _ in prepared.states]
        self.kept.become_ordinary()

    def forget(self) -> None:
        """Let every part delete what the published checkpoint does not name.

        To be called after ``publish``, before the next ``prepare``.
        """
        for _ in self.forgetting():
            pass

    def forgetting(self) -> Iterator[None]:
        """Do ``forget``, one shard for each step: deleting files takes a file system a while."""
        published, self._published = self._published, []
        for state in published:
            if not state.is_dropped:
                state.forget()
            yield

    def close(self) -> None:
        """Release the lock of the directory. The parts are closed by their owner."""
        self._lock.release()

    def discard(self) -> None:
        """Remove what was added to the directory after this run had locked it.

        Removes the directory, too, if this run made it, and nothing if another process has it now.
        Blocks; files that cannot be removed are left.
        """
        if self._content_before is None:
            return
        with contextlib.suppress(LockedError, OSError):
            self._lock.acquire()
            remove_new(self.path, None if self._made_directory else self._content_before)
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
