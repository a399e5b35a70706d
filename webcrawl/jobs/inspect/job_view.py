"""Read-only view of a job, which may be running in another process.

``ask`` runs a query on it, which also works if a checkpoint is made meanwhile.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from webcrawl.configuration.decoding import UndecodableError
from webcrawl.crawl.job.jobdir import read_checkpoint, seed_of
from webcrawl.crawl.job.state_directory import SHARDS, SavedState, shard_names, shard_path
from webcrawl.crawl.job.suffix_lists import use_suffix_list_of
from webcrawl.crawl.seeds.ranks import HostRanks
from webcrawl.errors import FatalError
from webcrawl.frontier.entry import decode
from webcrawl.frontier.view import FrontierView
from webcrawl.hive.launch.job_directories import jobdirs_of, lost_shards
from webcrawl.hosts.records.records_reader import RecordsReader
from webcrawl.seen.seen_view import SeenView
from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError
from webcrawl.urls.hash_seed import use_seed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from webcrawl.frontier import Entry
    from webcrawl.frontier.finished import FinishedKeys

T = TypeVar("T")

_LOCKS = "/proc/locks"
# How often a query is repeated because a checkpoint was published meanwhile.
_TRIES = 10


class ShardView:
    """Read-only view of the shard in the directory *path* as of *state*.

    Parts of the shard are opened when first used; the owner of *stack* closes them.
    """

    def __init__(self, *, path: Path, state: SavedState, stack: ExitStack) -> None:
        self.path = path
        self.state = state
        self._stack = stack
        self.frontier = FrontierView(
            path=path / "frontier",
            snapshot=self._read_snapshot("frontier"),
            trust_done=state.trusted,
        )

    def _read_snapshot(self, name: str) -> bytes:
        try:
            return self.state.snapshots[name]
        except KeyError:
            raise CorruptRecordError(self.path / "CURRENT", 0, f"no part '{name}'") from None

    @functools.cached_property
    def seen(self) -> SeenView:
        """Read-only view of the eliminator."""
        view = SeenView(path=self.path / "seen", snapshot=self._read_snapshot("seen"))
        self._stack.callback(view.close)
        return view

    def undecided_entries(
        self, finished: FinishedKeys, wanted: Collection[int] | None = None
    ) -> Iterator[Entry]:
        """Yield the entries that are in the eliminator, but not *finished*.

        If *wanted* is given, only entries with these fingerprints are returned.
        """
        for submitted in self.seen.undecided_entries(wanted):
            entry = decode(submitted.payload)
            if not finished.use_up_entry(entry):
                yield entry

    @functools.cached_property
    def records(self) -> RecordsReader:
        """Reader of the host records."""
        return self._stack.enter_context(RecordsReader(path=self.path / "hosts"))

    def table(self, name: str) -> HostRanks:
        """Read the seed table called *name*, which is ``ranks`` or ``domains``.

        Takes about 0.2 s per million rows.
        """
        table = HostRanks(path=self.path / name)
        table.load(self.state.snapshots.get(name))
        return table

    def is_known(self, host: str) -> bool:
        """Return whether the politeness key *host* was ever contacted or has a queue."""
        times = self.frontier.times(host)
        # Until ``quiet`` all hosts rest, even unknown ones.
        has_own_rest = times.ready_at > self.frontier.quiet
        return bool(times.length or has_own_rest or times.contact) or (
            self.records.record(host) is not None
        )


class JobView(NamedTuple):
    """Read-only view of a crawl as of its last checkpoint.

    *path* is the directory of the crawl, and *jobdirs* are its job directories. *own* is the state
    of the job; in a hive it is that of the drone with the oldest checkpoint.
    """

    path: Path
    jobdirs: Sequence[Path]
    own: SavedState
    shards: list[ShardView]

    def shard_of(self, host: str) -> ShardView:
        """Return the shard that knows the politeness key *host*, or any shard if none does."""
        return next((shard for shard in self.shards if shard.is_known(host)), self.shards[0])

    @property
    def politeness_key(self) -> str:
        """Value of POLITENESS_KEY in the crawl."""
        return str(self.shards[0].state.facts.get("politeness_key", "host"))


@contextlib.contextmanager
def open_view(path: Path, jobdirs: Sequence[Path]) -> Iterator[JobView]:
    """Open a view of the crawl in *path*, and close its files at the end of the block.

    *jobdirs* are its job directories. Raises FatalError if there is no checkpoint, and the errors
    of ``read_checkpoint``.
    """
    states: dict[Path, SavedState] = {}
    own_states: list[SavedState] = []
    for jobdir, lost in lost_shards(jobdirs).items():
        checkpoint = read_checkpoint(jobdir, without=lost)
        # A drone is left out if all its shards have moved to others.
        if checkpoint is not None and (checkpoint.shards or not lost):
            own_states.append(checkpoint.own)
            states |= {shard_path(jobdir, name): state for name, state in checkpoint.shards.items()}
    if not own_states:
        raise FatalError(f"The crawl in JOBDIR {path} has no checkpoint yet.")
    if not states:
        raise CorruptRecordError(path / SHARDS, 0, "there are no shards")

    own = min(own_states, key=lambda state: state.written_at)
    use_suffix_list_of(own)
    use_seed(seed_of(own))
    with ExitStack() as stack:
        shards = [
            ShardView(path=shard, state=state, stack=stack) for shard, state in states.items()
        ]
        yield JobView(path, jobdirs, own, shards)


def ask(jobdir: Path, question: Callable[[JobView], T]) -> T:
    """Return the result of *question* about the crawl in *jobdir*.

    *question* is called again if a checkpoint was published meanwhile, so it must only read. Raises
    FatalError with one sentence if there is no crawl, or if its files are damaged.
    """
    for _ in range(_TRIES):
        jobdirs = jobdirs_of(jobdir)
        manifests = live_manifests(jobdirs)
        try:
            with open_view(jobdir, jobdirs) as view:
                answer = question(view)
        except (CorruptRecordError, UndecodableError, OSError) as error:
            # Otherwise the files were replaced by those of a new checkpoint: try again.
            if live_manifests(jobdirs) == manifests:
                raise FatalError(
                    f"The crawl in JOBDIR {jobdir} cannot be read: {error}."
                ) from error
        except NewerFormatError as error:
            raise FatalError(f"{error}.") from error
        else:
            # The answer is only right if no file was deleted or replaced while it was read.
            if live_manifests(jobdirs) == manifests:
                return answer
    raise FatalError(
        f"The crawl in JOBDIR {jobdir} makes checkpoints faster than it can be read: increase "
        "CHECKPOINT_INTERVAL_SECS, or stop the crawl first."
    )


def live_manifests(jobdirs: Sequence[Path]) -> list[bytes]:
    """Return the name of the live manifest of each job and shard; "" for one that has none."""
    shards = [shard_path(jobdir, name) for jobdir in jobdirs for name in shard_names(jobdir)]
    return [_content(path / "CURRENT") for path in (*jobdirs, *shards)]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def running(jobdirs: Iterable[Path]) -> list[int]:
    """Return the IDs of the processes that hold the locks of *jobdirs*."""
    return [pid for jobdir in jobdirs if (pid := process_of(jobdir)) is not None]


def process_of(jobdir: Path) -> int | None:
    """Return the ID of the process that holds the lock of *jobdir*, or None.

    The lock is not touched, so that a crawl that is just starting can get it.
    """
    try:
        status = (jobdir / "LOCK").stat()
    except OSError:
        return None
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        locks = Path(_LOCKS).read_text("ascii")
    except OSError:
        return _holder(jobdir)
    # A line of the file: 1: FLOCK  ADVISORY  WRITE 708 08:01:13112 0 EOF
    match = re.search(rf": FLOCK +\S+ +\S+ +(-?\d+) {device} ", locks)
    return int(match[1]) if match else None


def _holder(jobdir: Path) -> int | None:
    """Return the ID of the process that took the lock of *jobdir* last, if it is still alive.

    Used on systems without /proc/locks.
    """
    with contextlib.suppress(OSError, ValueError):
        pid = int((jobdir / "LOCK").read_text("ascii").split()[-1])
        os.kill(pid, 0)  # raises OSError if there is no such process
        return pid
    return None
