"""Check of all parts of a job, one after the other."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import msgspec

from webcrawl.crawl.kept_checkpoints import DIRECTORY
from webcrawl.errors import FatalError
from webcrawl.jobs.check.checkpoint import check_checkpoint
from webcrawl.jobs.check.findings import Finding, Findings
from webcrawl.jobs.check.frontier import check_frontier
from webcrawl.jobs.check.hosts import check_hosts
from webcrawl.jobs.check.logs import check_logs
from webcrawl.jobs.check.mending import DAMAGED
from webcrawl.jobs.check.seen import check_content, check_seen
from webcrawl.jobs.check.tables import check_table
from webcrawl.jobs.check.warc import check_warc, warc_files
from webcrawl.jobs.inspect.job_view import process_of
from webcrawl.storage.record_log import NewerFormatError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from webcrawl.crawl.jobdir import Checkpoint

_SHARD: Final = "shards/00"
_TABLES: Final = ("ranks", "domains")
_STORED: Final = ("warc", "critical")
# Older checkpoints are jobs of their own, and what a repair has put aside is damaged.
_NOT_READ: Final = (DIRECTORY, DAMAGED)


class Report(msgspec.Struct, frozen=True):
    """The result of a check.

    *parts* has the number of damaged places in each part; of *damage* and *notes* the first
    thousand are listed, *damage_count* and *note_count* count all of them. *checkpoint* is the
    number of the live one, 0 if it cannot be read.
    """

    jobdir: str
    checkpoint: int
    written_at: str
    parts: dict[str, int]
    damage_count: int
    damage: list[Finding]
    note_count: int
    notes: list[Finding]


def check_job(
    jobdir: Path, *, warc: bool, on_progress: Callable[[int], object] = lambda _: None
) -> Report:
    """Read all of the job in *jobdir*, its WARC files too with *warc*; *on_progress* is called with
    the number of bytes read. Changes nothing.

    FatalError with one sentence if there is no job, a process uses it, a later webcrawl wrote it,
    or it cannot be read at all.
    """
    process = process_of(jobdir)
    if process is not None:
        raise FatalError(
            f"JOBDIR {jobdir} is in use by process {process}: wait for it to end, or check a copy."
        )
    findings = Findings(jobdir=jobdir, on_progress=on_progress)
    try:
        checkpoint = _check(jobdir, findings, warc=warc)
    except NewerFormatError as error:
        raise FatalError(f"{error}.") from error
    except OSError as error:
        raise FatalError(
            f"JOBDIR {jobdir} cannot be read: {error.strerror} ({error.filename})."
        ) from error
    return Report(
        jobdir=str(jobdir),
        checkpoint=checkpoint.sequence if checkpoint else 0,
        written_at=checkpoint.written_at if checkpoint else "",
        parts=findings.parts,
        damage_count=findings.damage_count,
        damage=findings.damage,
        note_count=findings.note_count,
        notes=findings.notes,
    )


def _check(jobdir: Path, findings: Findings, *, warc: bool) -> Checkpoint | None:
    findings.begin("checkpoint")
    checkpoint = check_checkpoint(jobdir, findings)
    shard = jobdir / _SHARD
    if checkpoint is not None:
        _check_parts(shard, checkpoint, findings)
    findings.begin("hosts")
    trusted = checkpoint is None or checkpoint.trusted
    check_hosts(shard / "hosts", findings, trusted=trusted)
    findings.begin("logs")
    check_logs(jobdir, findings, trusted=trusted)
    if warc:
        findings.begin("warc")
        for name in _STORED:
            for file in warc_files(jobdir / name):
                check_warc(file, findings)
    return checkpoint


def _check_parts(shard: Path, checkpoint: Checkpoint, findings: Findings) -> None:
    """The parts that the checkpoint names."""
    trusted = checkpoint.trusted
    saved = {
        name: data
        for name in ("frontier", "seen", "content", *_TABLES)
        if (data := checkpoint.snapshots.get(f"{_SHARD}/{name}")) is not None
    }
    for name, data in saved.items():
        findings.begin(name)
        path = shard / name
        if name == "frontier":
            check_frontier(path, data, findings, trusted=trusted)
        elif name == "seen":
            check_seen(path, data, findings, trusted=trusted)
        elif name == "content":
            check_content(path, data, findings)
        else:
            check_table(path, data, findings, trusted=trusted)


def bytes_of(jobdir: Path, *, warc: bool) -> int:
    """About how many bytes a check reads."""
    total = 0
    for directory, names, files in os.walk(jobdir):
        left_out = _NOT_READ if warc else (*_NOT_READ, *_STORED)
        names[:] = [name for name in names if name not in left_out]
        for file in files:
            try:
                total += os.stat(os.path.join(directory, file)).st_size  # noqa: PTH116, PTH118
            except FileNotFoundError:
                continue
    return total
