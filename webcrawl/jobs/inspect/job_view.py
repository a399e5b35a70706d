"""Job view: the parts of a job, read-only, and queries that survive a checkpoint meanwhile."""

from __future__ import annotations

import contextlib
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self, TypeVar

from webcrawl.crawl.jobdir import read_checkpoint
from webcrawl.crawl.seeds.ranks import HostRanks
from webcrawl.crawl.suffix_lists import use_suffix_list_of
from webcrawl.errors import FatalError
from webcrawl.frontier.view import FrontierView
from webcrawl.hosts.records.records_reader import RecordsReader
from webcrawl.seen.seen_view import SeenView
from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from webcrawl.crawl.jobdir import Checkpoint

T = TypeVar("T")

_LOCKS = "/proc/locks"
# How often a question is asked again because a checkpoint was published meanwhile.
_TRIES = 10
_SHARD = "shards/00"
# Of the tables of the seeds, as the crawl makes them (crawl/builder.py).
_SEEDS = 1 << 20


class JobView:
    """The crawl in *jobdir* as of *checkpoint*. A context manager, which closes the files."""

    def __init__(self, *, jobdir: Path, checkpoint: Checkpoint) -> None:
        self.jobdir = jobdir
        self.checkpoint = checkpoint
        self.shard = jobdir / _SHARD
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            self._stack.close()
            raise
        return self

    def _open(self) -> None:
        use_suffix_list_of(self.checkpoint)
        snapshots = self.checkpoint.snapshots
        try:
            frontier, seen = (snapshots[f"{_SHARD}/{name}"] for name in ("frontier", "seen"))
        except KeyError as error:
            raise CorruptRecordError(self.jobdir / "CURRENT", 0, f"no part {error}") from None
        self.frontier = FrontierView(
            path=self.shard / "frontier", snapshot=frontier, trust_done=self.checkpoint.trusted
        )
        self.seen = SeenView(path=self.shard / "seen", snapshot=seen)
        self._stack.callback(self.seen.close)
        self.records = self._stack.enter_context(RecordsReader(path=self.shard / "hosts"))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def table(self, name: str) -> HostRanks:
        """The table of the seeds' ``ranks`` or ``domains``; reads it, a fifth of a second for a
        million."""
        table = HostRanks(path=self.shard / name, capacity=_SEEDS)
        table.load(self.checkpoint.snapshots.get(f"{_SHARD}/{name}"))
        return table

    @property
    def politeness_key(self) -> str:
        """POLITENESS_KEY of the crawl."""
        return str(self.checkpoint.facts.get("politeness_key", "host"))


def ask(jobdir: Path, question: Callable[[JobView], T]) -> T:
    """The result of *question* about the crawl in *jobdir*. It is called again if a checkpoint was
    published meanwhile, so it must only read.

    FatalError with one sentence if there is no crawl, or its files are damaged.
    """
    for _ in range(_TRIES):
        live = _live(jobdir)
        try:
            checkpoint = read_checkpoint(jobdir)
            if checkpoint is None:
                raise FatalError(
                    f"There is no crawl in JOBDIR {jobdir}: name another one with -s JOBDIR=DIR."
                )
            with JobView(jobdir=jobdir, checkpoint=checkpoint) as view:
                answer = question(view)
        except (CorruptRecordError, OSError) as error:
            if _live(jobdir) == live:
                raise FatalError(
                    f"The crawl in JOBDIR {jobdir} cannot be read: {error}."
                ) from error
        except NewerFormatError as error:
            raise FatalError(f"{error}.") from error
        else:
            # Files may have gone and come again under the same name.
            if _live(jobdir) == live:
                return answer
    raise FatalError(
        f"The crawl in JOBDIR {jobdir} makes checkpoints faster than it can be looked at: make "
        "CHECKPOINT_INTERVAL_SECS longer, or stop it first."
    )


def _live(jobdir: Path) -> bytes:
    """The name of the live checkpoint's manifest; empty if there is none."""
    try:
        return (jobdir / "CURRENT").read_bytes()
    except OSError:
        return b""


def process_of(jobdir: Path) -> int | None:
    """The number of the process that holds the lock of *jobdir*; None when none does. The
    lock is not touched: a crawl that starts just now must get it."""
    try:
        status = (jobdir / "LOCK").stat()
    except OSError:
        return None
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        with open(_LOCKS, encoding="ascii") as locks:  # noqa: PTH123  # no file like others
            for line in locks:
                # 1: FLOCK  ADVISORY  WRITE 708 08:01:13112 0 EOF
                fields = line.split()
                if len(fields) > 5 and fields[1] == "FLOCK" and fields[5] == device:
                    return int(fields[4])
    except OSError:
        return _holder(jobdir)
    return None


def _holder(jobdir: Path) -> int | None:
    """Without /proc/locks: the process that was the last to take the lock, if it lives."""
    with contextlib.suppress(OSError, ValueError):
        number = int((jobdir / "LOCK").read_text("ascii").split()[-1])
        os.kill(number, 0)
        return number
    return None
