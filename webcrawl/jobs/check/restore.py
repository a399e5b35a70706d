"""Restores a kept checkpoint: ``scrapy job restore``.

The job's own state and its shards, including the host records, are replaced by a copy of the kept
checkpoint. Everything else in the job directory stays. The replaced files are moved to
``damaged/``.

If the process dies at any moment, ``restore`` can be run again. The steps, in order:

1. The shards of the kept checkpoint are copied to ``shards.tmp``.
2. The job's own state is copied to ``damaged/``, and the state of the kept checkpoint is published.
   The job's state may be older than the shards, but never newer.
3. The damaged shards are moved to ``damaged/``. Without shards, no crawl can be resumed.
4. The job is marked as a copy of a kept checkpoint. The copied shards are moved into place.
"""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from webcrawl.crawl.job.jobdir import Job
from webcrawl.crawl.job.kept_checkpoints import DIRECTORY, find_kept, mark_as_copy
from webcrawl.crawl.job.state_directory import SHARDS, StateDirectory, read_state
from webcrawl.errors import FatalError
from webcrawl.hive.launch.job_directories import is_of_hive, jobdirs_of
from webcrawl.jobs.check.whole import DAMAGED, OF_HIVE, CheckReport, check_job
from webcrawl.storage.atomic import make_directory, sync_path, sync_paths

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_NUMBER = re.compile(r"\d{6,}")
_STATE_FILES = ("CURRENT", "manifest-*.json", "snapshot-*.log")


class Restored(msgspec.Struct, frozen=True):
    """Result of a restore: the number of the *checkpoint*, and when it was written.

    If there was no sound checkpoint, the number is 0 and nothing was changed. *aside* is the
    directory with the replaced files.
    """

    jobdir: str
    checkpoint: int = 0
    written_at: str = ""
    aside: str = ""


def candidates(jobdir: Path, number: int | None) -> list[Path]:
    """Return the kept checkpoints of the job in *jobdir*, the newest first.

    With a *number*, only that checkpoint is returned. Raises FatalError with one sentence if there
    is no job, if it belongs to a hive, or if it has no such checkpoint.
    """
    jobdirs_of(jobdir)  # raises FatalError if there is no job
    if is_of_hive(jobdir):
        raise FatalError(f"JOBDIR {jobdir}: {OF_HIVE}.")
    kept = find_kept(jobdir)[::-1]
    if number is None:
        return kept
    if matching := [path for path in kept if int(path.name) == number]:
        return matching
    names = ", ".join(path.name for path in kept) or "none"
    raise FatalError(f"{jobdir / DIRECTORY} has no checkpoint {number}; it has: {names}.")


def restore_job(
    jobdir: Path, kept: list[Path], *, on_progress: Callable[[int], object] = lambda _: None
) -> Restored:
    """Restore the first sound checkpoint in *kept*, which is the result of ``candidates``.

    *on_progress* is called with the number of bytes read. Raises FatalError with one sentence if
    the job is in use by a process, or if the disk is full or broken.
    """
    job = Job(path=jobdir)
    job.lock()
    try:
        for path in kept:
            report = _check_sound(path, on_progress)
            if report is not None:
                backup = _replace_state(jobdir, path, on_progress)
                return Restored(str(jobdir), int(path.name), report.written_at, str(backup))
    except OSError as error:
        raise FatalError(
            f"JOBDIR {jobdir} was not restored ({error.strerror}). Fix that and run the same "
            "command again."
        ) from error
    finally:
        job.close()
    return Restored(str(jobdir))


def _check_sound(kept: Path, on_progress: Callable[[int], object]) -> CheckReport | None:
    """Check the checkpoint *kept*. Returns the report if it is sound, otherwise None."""
    with suppress(FatalError):  # the checkpoint cannot be read
        report = check_job(kept, warc=False, on_progress=on_progress)
        if not report.damage_count:
            return report
    return None


def _replace_state(jobdir: Path, kept: Path, on_progress: Callable[[int], object]) -> Path:
    """Replace the job's state with a copy of *kept*; return the directory of the replaced files.

    The order of the steps is explained at the top of the module.
    """
    state = read_state(kept)
    copied_shards = jobdir / f"{SHARDS}.tmp"
    shards = jobdir / SHARDS
    assert state is not None, "it was checked"
    # Step 1: copy the shards. The copy of an earlier run that died is incomplete.
    shutil.rmtree(copied_shards, ignore_errors=True)
    try:
        _copy_synced(kept / SHARDS, copied_shards, on_progress)
    except OSError:
        shutil.rmtree(copied_shards, ignore_errors=True)
        raise

    # No number is used twice, not even the number of a later kept checkpoint.
    used_names = [
        *find_kept(jobdir),
        *jobdir.glob("manifest-*.json"),
        *jobdir.glob("snapshot-*.log"),
    ]
    last_number = max(int(match[0]) for path in used_names if (match := _NUMBER.search(path.name)))

    # Step 2: copy the job's own state aside, and publish the one of *kept* in its place.
    backup = jobdir / DAMAGED / f"{last_number + 1:06d}"
    new_directories = make_directory(backup)
    for path in [path for name in _STATE_FILES for path in jobdir.glob(name)]:
        shutil.copyfile(path, backup / path.name)
    sync_paths([backup, *backup.iterdir(), *new_directories])

    own_state = StateDirectory(path=jobdir, boot=state.boot_id)
    own_state.number_after(last_number)
    own_state.facts = state.facts
    for name, saved in state.snapshots.items():
        own_state.keep(name, saved)
    prepared = own_state.prepare()
    own_state.write(prepared)
    own_state.publish(prepared)

    # Steps 3 and 4: move the damaged shards aside, and the copied ones into their place.
    if shards.exists():  # they are gone if an earlier run died after this
        shards.rename(backup / SHARDS)
        sync_paths([backup, jobdir])
    mark_as_copy(jobdir)
    copied_shards.rename(shards)
    sync_path(jobdir)
    return backup


def _copy_synced(source: Path, target: Path, on_progress: Callable[[int], object]) -> None:
    """Copy the directory *source* to *target*, and sync the copy to disk.

    Unlike ``shutil.copytree``, this stops at the first error.
    """
    target.mkdir()
    for path in sorted(source.rglob("*")):
        copy = target / path.relative_to(source)
        if path.is_dir():
            copy.mkdir()
        else:
            shutil.copyfile(path, copy)
            on_progress(copy.stat().st_size)
    sync_paths([target, *target.rglob("*")])
