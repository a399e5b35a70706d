"""Making a damaged job sound: what can be read is kept, the rest is named and put aside.

The order of steps makes dying between any two of them harmless: damaged files get a second name
below ``damaged/``; what is left of them is written into new files; a checkpoint that names these is
published; the old names go. Files that no checkpoint names, but have one name for good (host
records, tables, logs), are replaced one by one before.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from webcrawl.check.checkpoint import NEEDED
from webcrawl.check.mend_files import mend_hosts, mend_logs, mend_table
from webcrawl.check.mend_frontier import mend_frontier
from webcrawl.check.mend_seen import mend_content, mend_seen
from webcrawl.check.mending import Loss, Mending
from webcrawl.check.whole import Report, check_job
from webcrawl.errors import FatalError
from webcrawl.job import Job, PreparedCheckpoint, boot_id, in_pieces, read_checkpoint
from webcrawl.kept import refuse_kept
from webcrawl.steady_wall import SteadyWall
from webcrawl.storage.atomic import write_atomic
from webcrawl.storage.records import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from webcrawl.job import Checkpoint

_SHARD: Final = "shards/00"
_TABLES: Final = ("ranks", "domains")
# How long hosts rest whose last contact may be unknown.
_REST_SECS: Final = 60.0


class Repair(msgspec.Struct, frozen=True):
    """*found* before and what is *left* after it; *lost* is what could not be saved, and *aside*
    the directory with the damaged files, empty if there was none to keep."""

    found: Report
    left: Report
    lost: list[Loss]
    aside: str


def repair_job(
    jobdir: Path,
    *,
    warc: bool,
    told: Callable[[int], object] = lambda _: None,
    rest_secs: float = _REST_SECS,
) -> Repair:
    """Check the job in *jobdir* and mend what is damaged; *warc* and *told* as in ``check_job``.

    Stored pages are not mended. A manifest or snapshot that cannot be read is not either: nothing
    is changed then. Raises FatalError as ``check_job``, and when the disk is full.
    """
    refuse_kept(jobdir)
    found = check_job(jobdir, warc=warc, told=told)
    if not found.damage_count:
        return Repair(found, found, [], "")
    checkpoint = read_checkpoint(jobdir) if found.checkpoint else _find_checkpoint(jobdir)
    if checkpoint is None or any(name not in checkpoint.snapshots for name in NEEDED):
        return Repair(found, found, [], "")
    mending = Mending(jobdir=jobdir, number=checkpoint.sequence, told=told)
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
    left = check_job(jobdir, warc=warc, told=told)
    aside = str(mending.aside) if mending.aside.exists() else ""
    return Repair(found, left, mending.losses, aside)


def _find_checkpoint(jobdir: Path) -> Checkpoint | None:
    """The newest checkpoint that can be read, after CURRENT was made to name it."""
    job = Job(path=jobdir)
    current = jobdir / "CURRENT"
    before = current.read_bytes() if current.exists() else None
    for manifest in sorted(jobdir.glob("manifest-*.json"), reverse=True):
        write_atomic(current, f"{manifest.name}\n".encode())
        try:
            job.open()
            return read_checkpoint(jobdir)
        except FatalError:
            continue
        finally:
            job.close()
    if before is None:
        current.unlink(missing_ok=True)
    else:
        write_atomic(current, before)
    return None


def _mend(job: Job, checkpoint: Checkpoint, mending: Mending, rest_secs: float) -> None:
    snapshots = dict(checkpoint.snapshots)
    shard, trusted = job.path / _SHARD, checkpoint.trusted
    wall = SteadyWall()
    if trusted and "clock_offset" in checkpoint.facts:
        wall.go_on(checkpoint.facts["clock_offset"])

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
            now=wall(),
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
        pieces: dict[str, Iterable[bytes]] = {
            name: in_pieces(saved) for name, saved in snapshots.items()
        }
        job.publish(PreparedCheckpoint(pieces, mending.written, checkpoint.facts))
        for file in mending.superseded:
            file.unlink(missing_ok=True)
