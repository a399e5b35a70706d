"""Repair of a damaged job: readable records are kept, the rest is listed and put aside.

First it is seen to that there is a live checkpoint (mend_checkpoint.py), then what that names is
mended. The order of steps makes dying between any two of them harmless: damaged files get a second
name below ``damaged/``; what is left of them is written into new files; a checkpoint that names
these is published; the old names go. Files that no checkpoint names, but have one name for good
(host records, tables, logs), are replaced one by one before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from webcrawl.clock import Clock
from webcrawl.crawl.job.jobdir import Job, read_checkpoint
from webcrawl.crawl.job.kept_checkpoints import refuse_kept
from webcrawl.crawl.job.state_directory import shard_path
from webcrawl.errors import FatalError
from webcrawl.jobs.check.mend_checkpoint import live_number, mend_checkpoint, publish_state
from webcrawl.jobs.check.mend_files import mend_hosts, mend_logs, mend_table
from webcrawl.jobs.check.mend_frontier import mend_frontier
from webcrawl.jobs.check.mend_seen import mend_content, mend_seen
from webcrawl.jobs.check.mending import Loss, Mending
from webcrawl.jobs.check.whole import Report, check_job
from webcrawl.storage.record_log import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from webcrawl.crawl.job.state_directory import SavedState

_MENDS: Final = {
    "frontier": mend_frontier,
    "seen": mend_seen,
    "content": mend_content,
    "ranks": mend_table,
    "domains": mend_table,
}
_NO_WAY: Final = (
    "no checkpoint can be read, and none was kept that can: put JOBDIR back from a copy, or begin "
    "the crawl anew in another one"
)


class Repair(msgspec.Struct, frozen=True):
    """The result of a repair.

    *found* before and what is *left* after it; *lost* is what could not be saved, and *asides* are
    the directories with the damaged files. *advice* is a sentence for a job that cannot be
    repaired.
    """

    found: Report
    left: Report
    lost: list[Loss]
    asides: list[str]
    advice: str = ""


def repair_job(
    jobdir: Path,
    *,
    warc: bool,
    on_progress: Callable[[int], object] = lambda _: None,
) -> Repair:
    """Check the job in *jobdir* and repair what is damaged; *warc* and *on_progress* as in
    ``check_job``. If last contacts may have been forgotten, every host rests before the next.

    Stored pages are not repaired. Without any checkpoint to go back to nothing is changed.
    FatalError as ``check_job``, and if the disk is full.
    """
    refuse_kept(jobdir)
    found = check_job(jobdir, warc=warc, on_progress=on_progress)
    if not found.damage_count:
        return Repair(found, found, [], [])
    mending = Mending(jobdir=jobdir, number=live_number(jobdir), on_progress=on_progress)
    job = Job(path=jobdir)
    job.lock()
    try:
        if not mend_checkpoint(mending):
            return Repair(found, found, [], [], _NO_WAY)
        checkpoint = read_checkpoint(jobdir)
        assert checkpoint is not None, "its states can be read now"
        for name, state in checkpoint.shards.items():
            _mend_shard(shard_path(jobdir, name), state, mending)
        mending.part = "logs"
        mend_logs(jobdir, mending)
    except (CorruptRecordError, OSError, msgspec.DecodeError) as error:
        raise FatalError(
            f"JOBDIR {jobdir} cannot be repaired ({error}): nothing that could be read is lost."
        ) from error
    finally:
        job.close()
    left = check_job(jobdir, warc=warc, on_progress=on_progress)
    asides = [str(mending.aside)] if mending.aside.exists() else []
    return Repair(found, left, mending.losses, asides)


def _mend_shard(shard: Path, state: SavedState, mending: Mending) -> None:
    snapshots = dict(state.snapshots)
    mending.trusted = state.trusted
    mending.clock = Clock()
    if state.trusted and "clock_offset" in state.facts:
        mending.clock.go_on(state.facts["clock_offset"])
    for part, mend in _MENDS.items():
        if part in snapshots:
            mending.part = part
            snapshots[part] = mend(shard / part, snapshots[part], mending)
    mending.part = "hosts"
    mend_hosts(shard / "hosts", mending)
    if snapshots != state.snapshots:
        publish_state(shard, state, snapshots, paths=mending.written)
        for file in mending.superseded:
            file.unlink(missing_ok=True)
