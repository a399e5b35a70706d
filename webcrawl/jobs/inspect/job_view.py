"""Job view: the parts of a job, read-only, and queries that survive a checkpoint meanwhile.

``ask`` reads the files of a job, whatever process runs it.
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
from webcrawl.frontier.view import FrontierView
from webcrawl.hive.launch.job_directories import jobdirs_of, lost_shards
from webcrawl.hosts.records.records_reader import RecordsReader
from webcrawl.seen.seen_view import SeenView
from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError
from webcrawl.urls.hash_seed import use_seed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

T = TypeVar("T")

_LOCKS = "/proc/locks"
# How often a question is asked again because a checkpoint was published meanwhile.
_TRIES = 10


class ShardView:
    """One shard, read-only, in the directory *path* as of *state*.

    Its parts are opened when they are asked for, and closed by the owner of *stack*.
    """

    def __init__(self, *, path: Path, state: SavedState, stack: ExitStack) -> None:
        self.path = path
        self.state = state
        self._stack = stack
        self.frontier = FrontierView(
            path=path / "frontier", snapshot=self._saved("frontier"), trust_done=state.trusted
        )

    def _saved(self, name: str) -> bytes:
        try:
            return self.state.snapshots[name]
        except KeyError:
            raise CorruptRecordError(self.path / "CURRENT", 0, f"no part '{name}'") from None

    @functools.cached_property
    def seen(self) -> SeenView:
        """The eliminator."""
        view = SeenView(path=self.path / "seen", snapshot=self._saved("seen"))
        self._stack.callback(view.close)
        return view

    @functools.cached_property
    def records(self) -> RecordsReader:
        """The host records."""
        return self._stack.enter_context(RecordsReader(path=self.path / "hosts"))

    def table(self, name: str) -> HostRanks:
        """The table of the seeds' ``ranks`` or ``domains``; reads it, a fifth of a second for a
        million."""
        table = HostRanks(path=self.path / name)
        table.load(self.state.snapshots.get(name))
        return table

    def knows(self, host: str) -> bool:
        """Whether *host*, a politeness key, was contacted or has a queue."""
        times = self.frontier.times(host)
        has_own_rest = times.ready_at > self.frontier.quiet
        return bool(times.length or has_own_rest or times.contact) or (
            self.records.record(host) is not None
        )


class JobView(NamedTuple):
    """The crawl in *path*, whose job directories are *jobdirs*, as their last checkpoints have it.

    *own* is the state of the job, of a hive that of the drone whose checkpoint is the oldest.
    """

    path: Path
    jobdirs: Sequence[Path]
    own: SavedState
    shards: list[ShardView]

    def shard_of(self, host: str) -> ShardView:
        """The shard that knows *host*, a politeness key; any if none does."""
        return next((shard for shard in self.shards if shard.knows(host)), self.shards[0])

    @property
    def politeness_key(self) -> str:
        """POLITENESS_KEY of the crawl."""
        return str(self.shards[0].state.facts.get("politeness_key", "host"))


@contextlib.contextmanager
def viewed(path: Path, jobdirs: Sequence[Path]) -> Iterator[JobView]:
    """The view, whose files are closed at the end. FatalError if there is no checkpoint; raises as
    ``read_checkpoint``."""
    states: dict[Path, SavedState] = {}
    owns: list[SavedState] = []
    for jobdir, lost in lost_shards(jobdirs).items():
        checkpoint = read_checkpoint(jobdir, without=lost)
        if checkpoint is not None and (checkpoint.shards or not lost):
            owns.append(checkpoint.own)
            states |= {shard_path(jobdir, name): one for name, one in checkpoint.shards.items()}
    if not owns:
        raise FatalError(f"The crawl in JOBDIR {path} has no checkpoint yet.")
    if not states:
        raise CorruptRecordError(path / SHARDS, 0, "there is no shard")
    own = min(owns, key=lambda own: own.written_at)
    use_suffix_list_of(own)
    use_seed(seed_of(own))
    with ExitStack() as stack:
        shards = [ShardView(path=one, state=states[one], stack=stack) for one in states]
        yield JobView(path, jobdirs, own, shards)


def ask(jobdir: Path, question: Callable[[JobView], T]) -> T:
    """The result of *question* about the crawl in *jobdir*. It is called again if a checkpoint was
    published meanwhile, so it must only read.

    FatalError with one sentence if there is no crawl, or its files are damaged.
    """
    for _ in range(_TRIES):
        jobdirs = jobdirs_of(jobdir)
        live = _live(jobdirs)
        try:
            with viewed(jobdir, jobdirs) as view:
                answer = question(view)
        except (CorruptRecordError, UndecodableError, OSError) as error:
            if _live(jobdirs) == live:
                raise FatalError(
                    f"The crawl in JOBDIR {jobdir} cannot be read: {error}."
                ) from error
        except NewerFormatError as error:
            raise FatalError(f"{error}.") from error
        else:
            # Files may have gone and come again under the same name.
            if _live(jobdirs) == live:
                return answer
    raise FatalError(
        f"The crawl in JOBDIR {jobdir} makes checkpoints faster than it can be looked at: make "
        "CHECKPOINT_INTERVAL_SECS longer, or stop it first."
    )


def _live(jobdirs: Sequence[Path]) -> list[bytes]:
    """The names of the live manifests of the jobs and their shards; empty where there is none."""
    shards = [shard_path(jobdir, name) for jobdir in jobdirs for name in shard_names(jobdir)]
    return [_content(path / "CURRENT") for path in (*jobdirs, *shards)]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def running(jobdirs: Iterable[Path]) -> list[int]:
    """The numbers of the processes that hold the locks of *jobdirs*."""
    return [number for jobdir in jobdirs if (number := process_of(jobdir)) is not None]


def process_of(jobdir: Path) -> int | None:
    """The number of the process that holds the lock of *jobdir*; None when none does. The
    lock is not touched: a crawl that starts just now must get it."""
    try:
        status = (jobdir / "LOCK").stat()
    except OSError:
        return None
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        locks = Path(_LOCKS).read_text("ascii")
    except OSError:
        return _holder(jobdir)
    # 1: FLOCK  ADVISORY  WRITE 708 08:01:13112 0 EOF
    found = re.search(rf": FLOCK +\S+ +\S+ +(-?\d+) {device} ", locks)
    return int(found[1]) if found else None


def _holder(jobdir: Path) -> int | None:
    """Without /proc/locks: the process that was the last to take the lock, if it lives."""
    with contextlib.suppress(OSError, ValueError):
        number = int((jobdir / "LOCK").read_text("ascii").split()[-1])
        os.kill(number, 0)
        return number
    return None
