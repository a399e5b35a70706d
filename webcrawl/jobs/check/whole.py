"""Checks a whole job, part by part."""

from __future__ import annotations

import mmap
from shlex import quote
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from webcrawl.crawl.job.jobdir import read_shard, shards_of
from webcrawl.crawl.job.kept_checkpoints import DIRECTORY, find_kept
from webcrawl.crawl.job.state_directory import SavedState, read_state, shard_path
from webcrawl.errors import FatalError
from webcrawl.hive.launch.job_directories import is_of_hive, lost_shards
from webcrawl.jobs.check.files import check_hosts, check_logs, check_outbox, check_table
from webcrawl.jobs.check.findings import CUT, NO_SNAPSHOT, Finding, Findings
from webcrawl.jobs.check.frontier import check_frontier
from webcrawl.jobs.check.seen import check_content, check_seen
from webcrawl.jobs.inspect.job_view import process_of
from webcrawl.pipelines.warc.recovery import whole_records
from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError
from webcrawl.wording import COMMAND

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


# Functions that check the parts of a shard.
_CHECKS = {
    "frontier": check_frontier,
    "seen": check_seen,
    "content": check_content,
    "ranks": check_table,
    "domains": check_table,
    "outbox": check_outbox,
}
# Parts without which there is no crawl.
_NEEDED = ("frontier", "seen")
_JOB_LOST = "the crawl cannot be resumed: its counts and its position in the seeds are lost"
_SHARD_LOST = "the crawl cannot be resumed: its queues cannot be distinguished from leftovers"
_SHARD_MOVED = "if it moved to another drone, that drone crawls its hosts; otherwise it is lost"
_CHECKPOINT_LOST = "the crawl itself is not affected, but this older checkpoint cannot be used"
_NOT_READ = "it is not read"
_WARC_DIRECTORIES = ("warc", "critical")
#: Directory in which ``scrapy job restore`` keeps the files that it replaces.
DAMAGED = "damaged"
# Parts that a crawl does not read.
_UNREAD_PARTS = frozenset({"logs", "warc", DIRECTORY})
#: What to do with a damaged job if it belongs to a hive, or has no sound checkpoint.
OF_HIVE = (
    "the checkpoints of a hive are in its HIVE_STORE; delete the directory of the damaged drone "
    "and start the hive again"
)
NO_CHECKPOINT = (
    "no kept checkpoint is sound: restore JOBDIR from your own backup, or start a new crawl, with "
    f"the waiting URLs if they can still be read by {COMMAND} frontier JOBDIR --export FILE"
)


class CheckReport(msgspec.Struct, frozen=True):
    """Result of checking a job.

    checkpoint: the number of the job's current state, or 0 if it cannot be read.
    parts: the number of damaged places in each part.
    damage, notes: the first thousand of each; *damage_count* and *note_count* count all.
    advice: what to do, if the crawl needs the damaged files.
    """

    jobdir: str
    checkpoint: int
    written_at: str
    parts: dict[str, int]
    damage_count: int
    damage: list[Finding]
    note_count: int
    notes: list[Finding]
    advice: str = ""


def check_job(
    jobdir: Path,
    *,
    warc: bool,
    kept: bool = False,
    on_progress: Callable[[int], object] = lambda _: None,
) -> CheckReport:
    """Check the job in *jobdir*; with *warc* also its WARC files, with *kept* older checkpoints.

    Nothing is changed. *on_progress* is called with the number of bytes read. Raises FatalError
    with one sentence if there is no job, if a process uses it, if a later webcrawl wrote it, or if
    it cannot be read at all.
    """
    process = process_of(jobdir)
    if process is not None:
        raise FatalError(
            f"JOBDIR {jobdir} is in use by process {process}: wait until it ends, or check a copy."
        )
    findings = Findings(jobdir=jobdir, on_progress=on_progress)
    try:
        own_state = _check_parts(jobdir, findings, warc=warc)
        is_crawl_damaged = any(
            damaged for part, damaged in findings.parts.items() if part not in _UNREAD_PARTS
        )

        sound: CheckReport | None = None
        for path in find_kept(jobdir) if kept else ():  # each has the form of a job
            findings.begin(DIRECTORY)
            older = check_job(path, warc=False, on_progress=on_progress)
            for finding in older.damage:
                findings.add(path / finding.file, finding.offset, finding.what, _CHECKPOINT_LOST)
            if not older.damage_count:
                sound = older  # in the end the newest one, as that comes last
    except NewerFormatError as error:
        raise FatalError(f"{error}.") from error
    except OSError as error:
        raise FatalError(
            f"JOBDIR {jobdir} cannot be read: {error.strerror} ({error.filename})."
        ) from error
    return CheckReport(
        jobdir=str(jobdir),
        checkpoint=own_state.sequence if own_state else 0,
        written_at=own_state.written_at if own_state else "",
        parts=findings.parts,
        damage_count=findings.damage_count,
        damage=findings.damage,
        note_count=findings.note_count,
        notes=findings.notes,
        advice=_advice(jobdir, sound) if is_crawl_damaged and kept else "",
    )


def _advice(jobdir: Path, sound: CheckReport | None) -> str:
    """Say how to restore the damaged job; *sound* is its newest sound checkpoint, if any."""
    if is_of_hive(jobdir):
        return OF_HIVE
    if sound is None:
        return NO_CHECKPOINT
    return (
        f"to restore checkpoint {sound.checkpoint} of {sound.written_at}, the newest sound one: "
        f"{COMMAND} job restore {quote(str(jobdir))}"
    )


def _check_parts(jobdir: Path, findings: Findings, *, warc: bool) -> SavedState | None:
    """Check all parts of the job, and return its own state; None if that is damaged."""
    findings.begin("checkpoint")
    own_state = _check_own_state(jobdir, findings)
    is_trusted = own_state is None or own_state.trusted
    try:
        lost_names = lost_shards([jobdir])[jobdir]
    except CorruptRecordError:  # already added above
        lost_names = set()
    for name in shards_of(jobdir, own_state):
        if name in lost_names:
            findings.note(shard_path(jobdir, name), 0, "another drone has the shard", _NOT_READ)
            continue

        findings.begin("checkpoint")
        state = _check_shard_state(jobdir, name, own_state, findings)
        path = shard_path(jobdir, name)
        # Whether the machine has stayed up since the shard's state was saved, or else the job's.
        findings.trusted = is_trusted if state is None else state.trusted
        for part, check in _CHECKS.items():
            if state is not None and part in state.snapshots:
                findings.begin(part)
                with findings.catch_errors(path / part, NO_SNAPSHOT):
                    check(path / part, state.snapshots[part], findings)
        findings.begin("hosts")
        check_hosts(path / "hosts", findings)

    findings.begin("logs")
    findings.trusted = is_trusted
    check_logs(jobdir, findings)
    if warc:
        findings.begin("warc")
        patterns = (f"{name}/*.warc.gz{end}" for name in _WARC_DIRECTORIES for end in ("", ".open"))
        for file in sorted(file for pattern in patterns for file in jobdir.glob(pattern)):
            check_warc(file, findings)
    return own_state


def _check_own_state(jobdir: Path, findings: Findings) -> SavedState | None:
    """Check the job's own current state and return it; None if it is damaged.

    Raises FatalError if there is no job.
    """
    try:
        own_state = read_state(jobdir)
    except CorruptRecordError as error:
        findings.add(error.path, error.offset, error.why, _JOB_LOST)
        return None

    if own_state is None:
        # A job whose first state was never published has no CURRENT, which is not damage.
        manifests = {path.name for path in jobdir.glob("manifest-*.json")}
        if manifests <= {"manifest-000001.json"}:
            raise FatalError(f"There is no crawl in JOBDIR {jobdir}: name another directory.")
        findings.add(jobdir / "CURRENT", 0, "the file is gone", _JOB_LOST)
        return None
    saved_names = set(own_state.facts.get("shards", ()))
    for name in sorted(saved_names.difference(shards_of(jobdir, own_state))):
        findings.note(shard_path(jobdir, name), 0, "the shard is missing", _SHARD_MOVED)
    return own_state


def _check_shard_state(
    jobdir: Path, name: str, own_state: SavedState | None, findings: Findings
) -> SavedState | None:
    """Check the current state of the shard *name* and return it; None if it is damaged."""
    path = shard_path(jobdir, name)
    state: SavedState | None = None
    with findings.catch_errors(path, _SHARD_LOST):
        state = read_shard(jobdir, name, own_state)
        for part in _NEEDED:
            if state is not None and part not in state.snapshots:
                findings.add(path / "CURRENT", 0, f"its checkpoint has no part {part}", _SHARD_LOST)
    return state


_PAGES_LOST = "the stored pages from there on cannot be read, up to the next good record"
_GZIP_MAGIC = b"\x1f\x8b\x08"


def check_warc(path: Path, findings: Findings) -> None:
    """Check the WARC file *path*. After a damaged record, search for the next readable one."""
    size = path.stat().st_size
    start = 0
    with path.open("rb") as file:
        while (damage_start := _end_of_records(file, start)) < size:
            start = _next_record(file, damage_start + 1, size)
            problem = f"{start - damage_start:,} bytes are not a complete record"
            # The end of a file that a crawl was still writing is not damage.
            if start == size and path.suffix == ".open":
                findings.note(path, damage_start, problem, CUT)
            else:
                findings.add(path, damage_start, problem, _PAGES_LOST)
    findings.on_progress(size)


def _end_of_records(file: BinaryIO, start: int) -> int:
    """Return the end of the complete records that follow each other in *file* from *start* on."""
    file.seek(start)
    return start + max((length for length, *_ in whole_records(file)), default=0)


def _next_record(file: BinaryIO, start: int, size: int) -> int:
    """Return the offset of the next complete record from *start* on, or *size* if there is none.

    *size* is that of *file*.
    """
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        while (start := data.find(_GZIP_MAGIC, start)) >= 0:
            file.seek(start)
            if next(whole_records(file), None) is not None:
                return start
            start += 1
    return size
