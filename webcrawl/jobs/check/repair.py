"""Repair of a damaged job: readable records are kept, the rest is listed and put aside.

First it is seen to that there is a live checkpoint (mend_checkpoint.py), then what that names is
mended. The order of steps makes dying between any two of them harmless: damaged files get a second
name below ``damaged/``; what is left of them is written into new files; a checkpoint that names
these is published; the old names go. Files that no checkpoint names, but have one name for good
(host records, tables, logs), are replaced one by one before.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from webcrawl.clock import Clock
from webcrawl.crawl.jobdir import Job, PreparedCheckpoint, boot_id, read_checkpoint
from webcrawl.crawl.kept_checkpoints import refuse_kept
from webcrawl.errors import FatalError
from webcrawl.jobs.check.mend_checkpoint import Damaged, live_number, mend_checkpoint, readable
from webcrawl.jobs.check.mend_files import mend_hosts, mend_logs, mend_table
from webcrawl.jobs.check.mend_frontier import mend_frontier
from webcrawl.jobs.check.mend_seen import mend_content, mend_seen
from webcrawl.jobs.check.mending import Loss, Mending
from webcrawl.jobs.check.whole import Report, check_job
from webcrawl.storage.record_log import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from webcrawl.crawl.jobdir import Checkpoint

_SHARD: Final = "shards/00"
_TABLES: Final = ("ranks", "domains")
# How long hosts rest whose last contact may be unknown.
_REST_SECS: Final = 60.0
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
    rest_secs: float = _REST_SECS,
) -> Repair:
    """Check the job in *jobdir* and repair what is damaged; *warc* and *on_progress* as in
    ``check_job``. If last contacts may have been forgotten, every host rests for *rest_secs*.

    Stored pages are not repaired. Without any checkpoint to go back to nothing is changed.
    FatalError as ``check_job``, and if the disk is full.
    """
    refuse_kept(jobdir)
    found = check_job(jobdir, warc=warc, on_progress=on_progress)
    if not found.damage_count:
        return Repair(found, found, [], [])
    begun = []
    checkpoint = readable(jobdir) if found.checkpoint else None
    if checkpoint is None:
        begun.append(Mending(jobdir=jobdir, number=live_number(jobdir), on_progress=on_progress))
        damaged = Damaged(jobdir, begun[0], Clock(), rest_secs, _is_sound)
        if not mend_checkpoint(damaged):
            return Repair(found, found, [], [], _NO_WAY)
        checkpoint = read_checkpoint(jobdir)
        assert checkpoint is not None, "it was just published"
    begun.append(Mending(jobdir=jobdir, number=checkpoint.sequence, on_progress=on_progress))
    _mend_parts(jobdir, checkpoint, begun[-1], rest_secs)
    left = check_job(jobdir, warc=warc, on_progress=on_progress)
    asides = [str(one.aside) for one in begun if one.aside.exists()]
    losses = [loss for one in begun for loss in one.losses]
    return Repair(found, left, losses, list(dict.fromkeys(asides)))


def _is_sound(jobdir: Path) -> bool:
    try:
        return not check_job(jobdir, warc=False).damage_count
    except FatalError:
        return False


def _mend_parts(jobdir: Path, checkpoint: Checkpoint, mending: Mending, rest_secs: float) -> None:
    # That the machine went down since must not be forgotten.
    job = Job(path=jobdir, read_boot_id=boot_id if checkpoint.trusted else lambda: "")
    job.open()
    try:
        _mend(job, checkpoint, mending, rest_secs)
    except (CorruptRecordError, OSError, msgspec.DecodeError) as error:
        raise FatalError(
            f"JOBDIR {jobdir} cannot be repaired ({error}): nothing that could be read is lost."
        ) from error
    finally:
        job.close()


def _mend(job: Job, checkpoint: Checkpoint, mending: Mending, rest_secs: float) -> None:
    snapshots = dict(checkpoint.snapshots)
    shard, trusted = job.path / _SHARD, checkpoint.trusted
    clock = Clock()
    if trusted and "clock_offset" in checkpoint.facts:
        clock.go_on(checkpoint.facts["clock_offset"])

    def mend(name: str, new: Callable[[bytes], bytes]) -> None:
        mending.begin(name)
        saved = snapshots.get(f"{_SHARD}/{name}")
        if saved is not None:
            snapshots[f"{_SHARD}/{name}"] = new(saved)

    mend(
        "frontier",
        lambda saved: mend_frontier(
            shard / "frontier",
            saved,
            mending,
            trusted=trusted,
            now=clock(),
            rest_secs=rest_secs,
        ),
    )
    mend("seen", lambda saved: mend_seen(shard / "seen", saved, mending, trusted=trusted))
    mend("content", lambda saved: mend_content(shard / "content", saved, mending))
    for name in _TABLES:
        table = partial(mend_table, shard / name, mending=mending, trusted=trusted)
        mend(name, table)
    mending.begin("hosts")
    mend_hosts(shard / "hosts", mending, trusted=trusted)
    mending.begin("logs")
    mend_logs(job.path, mending)
    if snapshots != checkpoint.snapshots:
        job.publish(PreparedCheckpoint.of(snapshots, mending.written, checkpoint.facts))
        for file in mending.superseded:
            file.unlink(missing_ok=True)
