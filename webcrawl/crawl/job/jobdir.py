"""The job directory: its lock, its saved states and its checkpoints.

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
    publish()  any thread: write and fsync the snapshots of all shards and of the job, and all files
               that they name; then publish the manifests, that of the job last
    forget()   reactor thread: delete files that only older snapshots named

A crash between two of these steps leaves some shards with the new state, and others and the job
with the previous one. Nothing is missing then: the logs of all shards were fsynced first, so a link
from a page that one shard has finished is in the log of another. The job's own state is never newer
than its shards': seeds may be submitted again, and are then already known.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

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
from webcrawl.wording import COMMAND

# Names that identify a job directory. LOCK is created first, and survives a power failure.
_JOB_NAMES = frozenset({"LOCK", "CURRENT", SHARDS})
# Names allowed in a new job directory: the file system or the program that starts the crawl, such
# as scrapy hive, may create them.
_IGNORED_NAMES = frozenset({"lost+found", "logs"})


@dataclass(slots=True, frozen=True)
class Checkpoint:
    """The current checkpoint of a job on disk.

    *own* is the state of the job itself, *shards* has those of its shards by name.
    """

    own: SavedState
    shards: Mapping[str, SavedState]


@dataclass(slots=True, frozen=True)
class PreparedCheckpoint:
    """The state of a job at one moment, not on disk yet: *states* of the shards, then its own."""

    states: list[tuple[StateDirectory, PreparedState]]

    def gather(self) -> Iterator[None]:
        """Encode every state in small steps, as ``PreparedState.gather`` does for one."""
        for _, state in self.states:
            yield from state.gather()


def read_checkpoint(jobdir: Path, *, without: Collection[str] = ()) -> Checkpoint | None:
    """Return the current checkpoint of the job in *jobdir*; None if it has none.

    *without* has the names of shards to leave out. Takes no lock and changes nothing on disk.
    Raises NewerFormatError and CorruptRecordError, the latter also if a newer checkpoint replaces
    this one meanwhile.
    """
    own, shards = _read(jobdir, lambda name: name not in without)
    return None if own is None else Checkpoint(own, shards)


def _read(
    jobdir: Path, is_wanted: Callable[[str], bool]
) -> tuple[SavedState | None, dict[str, SavedState]]:
    """Return the current state of the job in *jobdir*, and those of its shards, by name.

    Shards for whose names *is_wanted* returns False are left out.
    """
    own = read_state(jobdir)
    names = filter(is_wanted, shards_of(jobdir, own))
    states = {name: read_shard(jobdir, name, own) for name in names}
    return own, {name: state for name, state in states.items() if state is not None}


def seed_of(state: SavedState) -> int:
    """Return the hash seed in *state*, of a job or shard; 0 for jobs from before 2026-11-24."""
    return int(state.facts.get("seed", 0))


def shards_of(jobdir: Path, own: SavedState | None) -> list[str]:
    """Return the names of the shards of the job in *jobdir*; *own* is its own state on disk.

    A shard that has no directory was moved away. If the directory of all shards is missing, it was
    lost, and the names of all shards are returned.
    """
    names = set(shard_names(jobdir))
    if own is not None and not (jobdir / SHARDS).is_dir():
        names.update(own.facts.get("shards", ()))
    return sorted(names)


def read_shard(jobdir: Path, name: str, own: SavedState | None) -> SavedState | None:
    """Return the current state of the shard *name* of the job in *jobdir*; None if it has none yet.

    *own* is the job's own state on disk. Raises the errors of ``read_state``.
    """
    path = shard_path(jobdir, name)
    state = read_state(path)
    if state is None and own is not None and name in own.facts.get("shards", ()):
        raise CorruptRecordError(path / "CURRENT", 0, "the file is gone")
    return state


def resume_error(error: Exception, jobdir: Path) -> FatalError:
    """Return the FatalError that says that *error* keeps the crawl in *jobdir* from opening."""
    sentence = f"The crawl in JOBDIR {jobdir} cannot be resumed: {error}"
    if isinstance(error, CorruptRecordError):
        sentence += f"; run {COMMAND} job check {quote(str(jobdir))} to see what can be done"
    return refusal(error, jobdir, f"{sentence}.")


class Job:
    """One JOBDIR, in *path*.

    ``open`` and ``publish`` block on the disk. ``adopt`` and ``drop`` add and remove shards while
    the job is open.
    """

    def __init__(
        self,
        *,
        path: Path,
        kept: KeptCheckpoints | None = None,
        allowed_names: Collection[str] = (),
        only: Collection[str] | None = None,
        draw_seed: Callable[[], int] = new_seed,
    ) -> None:
        """Create it without touching the disk; *kept* manages its older checkpoints.

        *allowed_names* has the names that a new directory may already contain. *only* has the names
        of the shards to load, or is None for all that exist. *draw_seed* returns the seed of a new
        job (hash_seed.py), which all its manifests contain.
        """
        self.path = path
        self._only = None if only is None else frozenset(only)
        self._allowed = frozenset(allowed_names)
        self.kept = kept or KeptCheckpoints(path=path)
        self._lock = DirectoryLock(path=path / "LOCK")
        self._boot = boot_id()
        self._draw_seed = draw_seed
        #: The hash seed; 0 until the job is open.
        self.seed = 0
        # Content of the directory when this run locked it; None until then.
        self._content_before: frozenset[str] | None = None
        # Whether this run has created the directory.
        self._is_new_directory = False
        #: State of the job itself: totals, seed cursor, public suffix list.
        self.own = StateDirectory(path=path, boot=self._boot)
        self._shards: dict[str, StateDirectory] = {}
        # Held while states are published. Until it is released, files of a shard that was dropped
        # meanwhile may still be written.
        self._publish_lock = threading.Lock()
        # States that the last checkpoint has published, until ``forget`` deletes their old files.
        self._published: list[StateDirectory] = []

    def open(self, **crawl: str) -> None:
        """Lock the directory, and load the current state of the job (``own``) and its shards.

        *crawl* are facts that must be those of the saved crawl, such as its spider.
        Raises FatalError with one sentence for a directory that is not such a job, is in use or is
        damaged, and then changes nothing. Raises DiskError if the disk is full or broken.
        """
        self._refuse_foreign_directory()
        self.lock()
        try:
            self._delete_unused_state()
            self._load(crawl)
            self.kept.open()
        except FatalError:
            self._lock.release()
            raise
        except (CorruptRecordError, NewerFormatError, OSError) as error:
            self._lock.release()
            raise resume_error(error, self.path) from error

    def _refuse_foreign_directory(self) -> None:
        """Raise FatalError if the directory is not a job directory and contains other files."""
        with contextlib.suppress(OSError):  # missing, or refused by ``lock``
            names = {path.name for path in self.path.iterdir()} - self._allowed - _IGNORED_NAMES
            if names and names.isdisjoint(_JOB_NAMES):
                hive = f"; to continue a hive, use {COMMAND} hive" if "drones" in names else ""
                raise FatalError(
                    f"JOBDIR {self.path} contains other things, such as {min(names)}: choose an "
                    f"empty or new directory{hive}."
                )

    def lock(self) -> None:
        """Lock the directory, even if it is not a job's. Raises FatalError like ``open``."""
        refuse_kept(self.path)
        try:
            is_new = not self.path.exists()
            self.path.mkdir(parents=True, exist_ok=True)
            content_before = frozenset(path.name for path in self.path.iterdir())
            self._lock.acquire()
            self._content_before = content_before
            self._is_new_directory = is_new
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

    def _delete_unused_state(self) -> None:
        """Delete the saved state if its crawl has contacted no host, so that it starts over.

        CURRENT is deleted last, as a crash may come in between.
        """
        own = read_state(self.path)
        if own is not None and own.facts.get("starts_over"):
            for name in shard_names(self.path):
                shutil.rmtree(shard_path(self.path, name))
            (self.path / "CURRENT").unlink()

    def _load(self, crawl: Mapping[str, str]) -> None:
        """Load the saved states of the job and its shards, and use its hash seed.

        Raises FatalError if the facts in *crawl* are not those of the job.
        """
        own, shards = _read(self.path, lambda name: self._only is None or name in self._only)
        # The job itself has no state if only its shards were moved here. They have the same seed.
        saved = [state for state in (own, *shards.values()) if state is not None]
        self.use_hash_seed(seed_of(saved[0]) if saved else self._draw_seed())

        if own is None:
            self.own.begin()
        else:
            for name, value in crawl.items():
                # A job of an earlier version may lack the fact.
                if (saved_value := own.facts.get(name) or value) != value:
                    raise FatalError(
                        f"JOBDIR {self.path} holds a crawl of the {name} {saved_value}, "
                        f"not of {value or 'none'}: choose another one with -s JOBDIR=DIR."
                    )
            self.own.resume_from(own)

        # Other users must not read the manifests of kept checkpoints either.
        for parent in ("", f"{SHARDS}/*/"):
            for path in self.path.glob(f"{DIRECTORY}/*/{parent}{MANIFESTS}"):
                restrict(path)

        for name, state in shards.items():
            self._shards[name] = self._new_shard_state(name)
            self._shards[name].resume_from(state)

    def use_hash_seed(self, seed: int) -> None:
        """Set the hash seed of the job and of this process."""
        self.seed = seed
        use_seed(seed)

    def _new_shard_state(self, name: str) -> StateDirectory:
        return StateDirectory(path=shard_path(self.path, name), boot=self._boot)

    @property
    def shards(self) -> list[str]:
        """Return the sorted names of the shards that were loaded or created."""
        return sorted(self._shards)

    def shard(self, name: str) -> StateDirectory:
        """Return the state directory of the shard *name*; a new one if the shard has none."""
        if name not in self._shards:
            self._shards[name] = self._new_shard_state(name)
            self._shards[name].begin()
        return self._shards[name]

    def adopt(self, name: str) -> StateDirectory:
        """Add the shard *name*, whose directory came from elsewhere or is new, to the open job.

        Call it after ``settle`` if the shard was dropped before. Blocks. Raises the errors of
        ``read_state``.
        """
        state = read_state(shard_path(self.path, name))
        adopted = self._new_shard_state(name)
        if state is None:
            adopted.begin()
        else:
            adopted.resume_from(state)
        self._shards[name] = adopted
        return adopted

    def drop(self, name: str) -> None:
        """Remove the shard *name* from the job. Returns immediately.

        Its state is not published any more, and its directory may be moved or deleted after
        ``settle``.
        """
        self.kept.copy_hosts.pop(name, None)
        state = self._shards.pop(name, None)
        if state is not None:
            state.is_dropped = True

    def settle(self) -> None:
        """Wait until nothing writes to dropped shards any more. Blocks."""
        with self._publish_lock:
            pass

    def delete(self, name: str) -> None:
        """Delete the directory of the shard *name*, which was dropped and closed.

        Blocks; files that cannot be deleted are left.
        """
        with self._publish_lock:
            shutil.rmtree(shard_path(self.path, name), ignore_errors=True)

    @property
    def is_behind(self) -> bool:
        """Return whether the job or a shard has no state saved since the machine booted."""
        states = [self.own, *self._shards.values()]
        return any(not state.resumed or state.rebooted for state in states)

    def prepare(self, facts: Mapping[str, Any]) -> PreparedCheckpoint:
        """Take snapshots of all parts; *facts* go into the job's manifest for people to read."""
        self.own.facts = {**facts, "shards": self.shards, "seed": self.seed}
        # An older job has data only in its own snapshot (see ``totals.of_older_job``), which must
        # not be replaced before the shards have saved it.
        states = [state for _, state in sorted(self._shards.items()) if state.is_to_be_saved]
        return PreparedCheckpoint([(state, state.prepare()) for state in (*states, self.own)])

    def publish(self, prepared: PreparedCheckpoint) -> None:
        """Make *prepared* the current checkpoint.

        After an OSError some shards may have their new state, and the others and the job their
        previous one. May run in another thread only after ``gather``.
        """
        for _ in prepared.gather():  # does nothing if all is encoded already
            pass
        with self._publish_lock:
            # All states are written before the first one is published. The job's own is the last.
            for step in (StateDirectory.write, StateDirectory.publish):
                for state, prepared_state in prepared.states:
                    _run_unless_dropped(state, lambda: step(state, prepared_state))  # noqa: B023  # called immediately
        self._published = [state for state, _ in prepared.states]
        self.kept.become_ordinary()

    def forget(self) -> None:
        """Let every part delete the files that the published checkpoint does not name.

        To be called after ``publish``, before the next ``prepare``.
        """
        for _ in self.forget_in_steps():
            pass

    def forget_in_steps(self) -> Iterator[None]:
        """Delete files as ``forget`` does, one shard per step, because deleting files is slow."""
        published = self._published
        self._published = []
        for state in published:
            if not state.is_dropped:
                state.forget()
            yield

    def close(self) -> None:
        """Unlock the directory. The parts must be closed by their owner."""
        self._lock.release()

    def discard(self) -> None:
        """Remove everything that was added to the directory after this run had locked it.

        Also removes the directory if this run created it. Removes nothing if another process has
        locked it since. Blocks; files that cannot be removed are left.
        """
        if self._content_before is None:
            return
        with contextlib.suppress(LockedError, OSError):
            self._lock.acquire()
            # None: nothing was there before, so the directory itself is removed as well.
            remove_new(self.path, None if self._is_new_directory else self._content_before)
        self._lock.release()


def _run_unless_dropped(state: StateDirectory, step: Callable[[], None]) -> None:
    """Call *step*, and ignore its errors if the shard with *state* was dropped meanwhile.

    Does nothing if the shard was dropped before.
    """
    if state.is_dropped:
        return
    try:
        step()
    except (OSError, CorruptRecordError):
        if not state.is_dropped:
            raise
