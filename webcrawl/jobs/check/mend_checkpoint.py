"""Repair of CURRENT, manifest and snapshot, which name the live states of a job and its shards.

There are two ways back:

1. A manifest and its snapshot are sound: CURRENT names them again.
2. The crawl goes back to the newest checkpoint that was kept and is sound, or else to the newest
   one that can be read, which is mended then. Files are copied, as a kept checkpoint never changes.
   What is fetched again finds its links again. If it is only the job's own state that cannot be
   read, the shards stay: seeds are submitted again, and are known.

All shards go back together: what one has finished since may have links in another.

Dying between any two lines leaves what was found, or a job whose own state, and then whose files
below ``shards``, are those of the kept checkpoint, or are put aside. Then the next repair goes back
again.
"""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from webcrawl.crawl.job.jobdir import read_checkpoint, read_shard, shards_of
from webcrawl.crawl.job.kept_checkpoints import kept_in
from webcrawl.crawl.job.state_directory import (
    SHARDS,
    PreparedState,
    StateDirectory,
    read_state,
    shard_path,
)
from webcrawl.errors import FatalError
from webcrawl.frontier.snapshot import decode_snapshot
from webcrawl.hosts.records.database import FILE
from webcrawl.jobs.check.mend_frontier import forgetting
from webcrawl.jobs.check.mending import DAMAGED
from webcrawl.jobs.check.whole import NEEDED, check_job
from webcrawl.jobs.inspect.info_log import ends
from webcrawl.storage.atomic import make_directory, sync_path, sync_paths, write_atomic
from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from webcrawl.crawl.job.jobdir import Checkpoint
    from webcrawl.crawl.job.state_directory import SavedState
    from webcrawl.jobs.check.mending import Mending

_NUMBER: Final = re.compile(r"(?:manifest|snapshot)-(\d{6,})\.(?:json|log)")
_COPY: Final = f"{SHARDS}.tmp"
_ASIDE: Final = f"{SHARDS}-??"
_UNREADABLE: Final = (CorruptRecordError, NewerFormatError, OSError, msgspec.DecodeError)


def live_number(path: Path) -> int:
    """The largest number that a state of the directory *path* may have had."""
    names = [one.name for one in path.iterdir()]
    with suppress(OSError):
        names.append((path / "CURRENT").read_bytes().decode("ascii", "replace").strip())
    found = [int(match[1]) for name in names if (match := _NUMBER.fullmatch(name))]
    return max([0, *found, *(int(kept.name) for kept in kept_in(path))])


def mend_checkpoint(mending: Mending) -> bool:
    """Whether all live states can be read now. If not, nothing was changed but what a repair that
    died had begun. Raises OSError."""
    jobdir = mending.jobdir
    _take_back(jobdir)
    numbers = {
        path: _readable_number(path, () if path == jobdir else NEEDED)
        for path in unreadable_states(jobdir)
    }
    kept = None
    if None in numbers.values():
        kept = _kept(jobdir)
        if kept is None:
            return False
    for path, number in numbers.items():
        _put_aside(mending, path)
        if number is not None:
            write_atomic(path / "CURRENT", f"manifest-{number:06d}.json\n".encode())
    if kept is not None:
        own_only = {path for path, number in numbers.items() if number is None} == {jobdir}
        _go_back(mending, *kept, own_only=own_only)
    return True


def unreadable_states(jobdir: Path) -> list[Path]:
    """The directories of the job and its shards whose live state cannot be read, or lacks a part
    without which there is no crawl."""
    found = []
    try:
        own = read_state(jobdir)
    except _UNREADABLE:
        own = None
    for name in shards_of(jobdir, own):
        try:
            state = read_shard(jobdir, name, own)
            if state is not None:
                _check(state, NEEDED)
            elif own is None:
                found.append(shard_path(jobdir, name))
        except _UNREADABLE:
            found.append(shard_path(jobdir, name))
    return found if own is not None else [jobdir, *found]


def _check(state: SavedState, parts: tuple[str, ...]) -> None:
    """Raise msgspec.DecodeError if one of *parts* of *state* is missing or none."""
    for part in parts:
        if part not in state.snapshots:
            raise msgspec.DecodeError("a part is missing")
        msgspec.msgpack.decode(state.snapshots[part])


def _readable_number(path: Path, parts: tuple[str, ...]) -> int | None:
    """The number of the newest state of the directory *path* that can be read and has *parts*."""
    found = [_NUMBER.fullmatch(file.name) for file in path.glob("manifest-*.json")]
    for number in sorted((int(match[1]) for match in found if match), reverse=True):
        with suppress(*_UNREADABLE):
            state = read_state(path, sequence=number)
            if state is not None:
                _check(state, parts)
                return number
    return None


def _kept(jobdir: Path) -> tuple[Path, Checkpoint] | None:
    """The checkpoint to go back to, and where it is."""
    candidates: list[tuple[Path, Checkpoint]] = []
    for path in reversed(kept_in(jobdir)):
        with suppress(*_UNREADABLE):
            checkpoint = read_checkpoint(path)
            if checkpoint is not None and not unreadable_states(path):
                candidates.append((path, checkpoint))
    sound = (one for one in candidates if _is_sound(one[0]))
    return next(sound, candidates[0] if candidates else None)


def _is_sound(jobdir: Path) -> bool:
    try:
        return not check_job(jobdir, warc=False).damage_count
    except FatalError:
        return False


def _put_aside(mending: Mending, path: Path) -> None:
    for pattern in ("CURRENT", "manifest-*.json", "snapshot-*.log"):
        for file in path.glob(pattern):
            mending.put_aside(file)


# Going back


def _go_back(mending: Mending, kept: Path, checkpoint: Checkpoint, *, own_only: bool) -> None:
    """The job's own state first: it may be older than that of the shards, and never newer."""
    jobdir = mending.jobdir
    _put_aside(mending, jobdir)
    facts = {**checkpoint.own.facts, "shards": list(checkpoint.shards)}
    publish_state(jobdir, checkpoint.own, checkpoint.own.snapshots, facts=facts)
    told = f"goes back to the checkpoint of {checkpoint.own.written_at}: "
    if own_only:
        mending.lost(f"the job {told}seeds read since then are read again")
        return
    _put_in_place(mending, kept, checkpoint)
    since = _seconds(checkpoint.own)
    count = sum(end.at >= since for end in ends(jobdir))
    mending.lost(f"{told}URLs finished since then are fetched again: {count:,}")


def publish_state(
    path: Path,
    state: SavedState,
    snapshots: Mapping[str, bytes],
    *,
    paths: list[Path] | None = None,
    facts: Mapping[str, object] | None = None,
) -> None:
    """Make *snapshots* the live state of the directory *path*, where *state* was, which may have
    been before a reboot; *paths* are fsynced before."""
    directory = StateDirectory(path=path, boot=state.boot_id)
    directory.number_after(live_number(path))
    prepared = PreparedState.of(snapshots, paths or [], state.facts if facts is None else facts)
    directory.write(prepared)
    directory.publish(prepared)


def _put_in_place(mending: Mending, kept: Path, checkpoint: Checkpoint) -> None:
    """The shards of *kept* take the place of those of the crawl, which are put aside. The newer
    host records stay: they are no part of a checkpoint."""
    jobdir = mending.jobdir
    state, copy = jobdir / SHARDS, jobdir / _COPY
    shutil.rmtree(copy, ignore_errors=True)
    try:
        shutil.copytree(kept / SHARDS, copy)
        for name, saved in checkpoint.shards.items():
            hosts = shard_path(jobdir, name) / "hosts"
            if (hosts / FILE).exists():
                shutil.rmtree(copy / name / "hosts", ignore_errors=True)
                shutil.copytree(hosts, copy / name / "hosts")
            frontier = decode_snapshot(saved.snapshots["frontier"])
            encoded = msgspec.msgpack.encode(forgetting(frontier, mending))
            forgotten = {**saved.snapshots, "frontier": encoded}
            publish_state(copy / name, saved, forgotten)
        sync_paths([copy, *copy.rglob("*")])
    except OSError:
        shutil.rmtree(copy, ignore_errors=True)
        raise
    if state.exists():
        aside = mending.aside
        made = make_directory(aside)
        state.rename(aside / f"{SHARDS}-{len([*aside.glob(_ASIDE)]) + 1:02d}")
        sync_paths([aside, *made, jobdir])
    copy.rename(state)
    sync_path(jobdir)


def _take_back(jobdir: Path) -> None:
    """A repair died between two names: the files of the crawl are its files again."""
    state = jobdir / SHARDS
    places = sorted((jobdir / DAMAGED).glob(f"*/{_ASIDE}"))
    if places and not state.exists():
        places[-1].rename(state)
        sync_paths([jobdir, places[-1].parent])


def _seconds(state: SavedState) -> float:
    """When it was written, epoch seconds; 0 if it does not say."""
    try:
        return datetime.fromisoformat(state.written_at).timestamp()
    except ValueError:
        return 0.0
