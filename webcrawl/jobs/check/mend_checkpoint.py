"""Repair of CURRENT, the manifest and the snapshot, which name the live state.

What can be done, the best first:

1. A manifest and its snapshot are sound: CURRENT names them again.
2. The snapshot is whole, or was kept: it is published again. Without its manifest it counts as one
   of before a reboot, and what was finished since is fetched again.
3. The crawl goes back, in its place, to the newest checkpoint that was kept and is sound, or else
   to the newest one that can be read, which is mended then. Files are copied, as a kept checkpoint
   never changes. What is fetched again finds its links again.

Parts of a damaged snapshot are not saved one by one: nearly all of it is the frontier's.

Dying between any two lines leaves what was found, or a job whose files below ``shards`` are those
of the kept checkpoint, or are put aside, and CURRENT still names what is damaged. Then the next
repair goes back again.
"""

from __future__ import annotations

import calendar
import re
import shutil
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from webcrawl.crawl.jobdir import (
    Checkpoint,
    Job,
    PreparedCheckpoint,
    boot_id,
    read_checkpoint,
    read_snapshots,
)
from webcrawl.crawl.kept_checkpoints import DIRECTORY, kept_in
from webcrawl.crawl.outcome_log import INFO_LOG
from webcrawl.errors import FatalError
from webcrawl.frontier.snapshot import decode_snapshot
from webcrawl.hosts.records.database import FILE
from webcrawl.jobs.check.checkpoint import NEEDED
from webcrawl.jobs.check.logs import MAX_LINE_BYTES
from webcrawl.jobs.check.mend_frontier import quieted
from webcrawl.storage.atomic import make_directory, sync_path, sync_paths, write_atomic
from webcrawl.storage.line_log import numbered
from webcrawl.storage.record_log import HEADER_SIZE, CorruptRecordError, NewerFormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from webcrawl.jobs.check.mending import Mending

_FRONTIER, _SEEN = NEEDED
_NUMBER: Final = re.compile(r"(?:manifest|snapshot)-(\d{6,})\.(?:json|log)")
_STATE: Final = "shards"
_COPY: Final = "shards.tmp"
# What a checkpoint says of its crawl that stays true of later ones.
_LASTING: Final = ("spider", "politeness_key", "knows_domains", "settings")
_UNREADABLE: Final = (CorruptRecordError, NewerFormatError, OSError, msgspec.DecodeError)


class Damaged(NamedTuple):
    """A job without a readable live checkpoint. *is_sound* checks a kept checkpoint."""

    jobdir: Path
    mending: Mending
    clock: Callable[[], float]
    rest_secs: float
    is_sound: Callable[[Path], bool]


def live_number(jobdir: Path) -> int:
    """The largest number that a checkpoint of the job in *jobdir* may have had."""
    names = [path.name for path in jobdir.iterdir()]
    with suppress(OSError):
        names.append((jobdir / "CURRENT").read_bytes().decode("ascii", "replace").strip())
    found = [int(match[1]) for name in names if (match := _NUMBER.fullmatch(name))]
    return max([0, *found, *(int(kept.name) for kept in kept_in(jobdir))])


def mend_checkpoint(damaged: Damaged) -> bool:
    """Whether there is a live checkpoint now. If not, nothing was changed but what a repair that
    died had begun. Raises FatalError, OSError."""
    jobdir = damaged.jobdir
    for number in reversed(_numbers(jobdir, "manifest-*.json")):
        if readable(jobdir, number) is not None:
            _name_again(damaged, number)
            return True
    _take_back(damaged)
    again = _whole(damaged)
    if again is not None:
        checkpoint, has_manifest = again
        _publish(damaged, checkpoint.snapshots, checkpoint.facts, trusted=checkpoint.trusted)
        if not has_manifest:
            count = _finished_since(jobdir, _seconds(checkpoint))
            damaged.mending.lost(
                "whether the machine was started anew since the checkpoint of "
                f"{checkpoint.written_at}: {count:,} URLs finished since then are fetched again"
            )
        return True
    kept = _kept(damaged)
    if kept is None:
        return False
    _go_back(damaged, *kept)
    return True


# What there is


def _numbers(jobdir: Path, pattern: str) -> list[int]:
    found = [_NUMBER.fullmatch(path.name) for path in jobdir.glob(pattern)]
    return sorted(int(match[1]) for match in found if match)


def readable(jobdir: Path, number: int = 0) -> Checkpoint | None:
    """The checkpoint of that number, or the live one, if it and the parts without which there is
    no crawl can be read."""
    try:
        checkpoint = read_checkpoint(jobdir, sequence=number)
        if checkpoint is not None:
            _check(checkpoint.snapshots)
    except _UNREADABLE:
        return None
    return checkpoint


def _check(snapshots: Mapping[str, bytes]) -> None:
    if any(name not in snapshots for name in NEEDED):
        raise msgspec.DecodeError("a part is missing")
    decode_snapshot(snapshots[_FRONTIER])
    msgspec.msgpack.decode(snapshots[_SEEN])


def _whole(damaged: Damaged) -> tuple[Checkpoint, bool] | None:
    """The checkpoint that was live, from what is left of it and from what was kept of it; and
    whether its manifest was.

    A file is proof of the number: those of older checkpoints go before the first of the files that
    they name. CURRENT is none, it may be damaged.
    """
    jobdir = damaged.jobdir
    if not (jobdir / _STATE).is_dir():
        return None
    numbers = _numbers(jobdir, "manifest-*.json") + _numbers(jobdir, "snapshot-*.log")
    for number in sorted({*numbers}, reverse=True):
        kept = jobdir / DIRECTORY / f"{number:06d}"
        if (checkpoint := readable(kept)) is not None:
            return checkpoint, True
        if (checkpoint := _from_snapshot(jobdir, number)) is not None:
            return checkpoint, False
    return None


def _from_snapshot(jobdir: Path, number: int) -> Checkpoint | None:
    """As if it had been written before a reboot, if the snapshot file is whole."""
    file = jobdir / f"snapshot-{number:06d}.log"
    try:
        status = file.stat()
        snapshots = read_snapshots(file, status.st_size)
        _check(snapshots)
    except _UNREADABLE:
        return None
    # It may end early where a record does. Every part that has files has a record.
    parts = {str(path.relative_to(jobdir)) for path in jobdir.glob(f"{_STATE}/*/*/")}
    if parts - {*snapshots, "shards/00/hosts"}:
        return None
    written_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(status.st_mtime))
    return Checkpoint(number, written_at, _lasting_facts(jobdir), snapshots, trusted=False)


def _lasting_facts(jobdir: Path) -> dict[str, Any]:
    """What any checkpoint of the crawl says of it."""
    for kept in reversed(kept_in(jobdir)):
        checkpoint = readable(kept)
        if checkpoint is not None:
            return {name: checkpoint.facts[name] for name in _LASTING if name in checkpoint.facts}
    table = jobdir / "shards/00/domains/ranks.log"
    return {"knows_domains": table.exists() and table.stat().st_size > HEADER_SIZE}


def _kept(damaged: Damaged) -> tuple[Path, Checkpoint] | None:
    """The checkpoint to go back to, and where it is."""
    candidates = [
        (path, checkpoint)
        for path in reversed(kept_in(damaged.jobdir))
        if (checkpoint := readable(path)) is not None
    ]
    sound = (one for one in candidates if damaged.is_sound(one[0]))
    return next(sound, candidates[0] if candidates else None)


# What is done about it


def _name_again(damaged: Damaged, number: int) -> None:
    job = Job(path=damaged.jobdir)
    job.open_damaged(after=number)
    try:
        _put_aside(damaged)
        write_atomic(damaged.jobdir / "CURRENT", f"manifest-{number:06d}.json\n".encode())
    finally:
        job.close()


def _publish(
    damaged: Damaged,
    snapshots: Mapping[str, bytes],
    facts: Mapping[str, Any],
    *,
    trusted: bool,
    place: Callable[[], list[Path]] = list,
) -> None:
    """Make *snapshots* the live checkpoint, after *place* has put their files where they belong;
    what is damaged is put aside before."""
    jobdir = damaged.jobdir
    job = Job(path=jobdir, read_boot_id=boot_id if trusted else lambda: "")
    job.open_damaged(after=live_number(jobdir))
    try:
        _put_aside(damaged)
        job.publish(PreparedCheckpoint.of(snapshots, place(), facts))
    except OSError as error:
        raise FatalError(
            f"JOBDIR {jobdir} cannot be repaired ({error}): nothing that could be read is lost."
        ) from error
    finally:
        job.close()


def _put_aside(damaged: Damaged) -> None:
    for pattern in ("CURRENT", "manifest-*.json", "snapshot-*.log"):
        for file in damaged.jobdir.glob(pattern):
            damaged.mending.put_aside(file)


def _go_back(damaged: Damaged, path: Path, checkpoint: Checkpoint) -> None:
    snapshots = dict(checkpoint.snapshots)
    state = quieted(decode_snapshot(snapshots[_FRONTIER]), damaged.clock(), damaged.rest_secs)
    snapshots[_FRONTIER] = msgspec.msgpack.encode(state)
    count = _finished_since(damaged.jobdir, _seconds(checkpoint))
    _publish(
        damaged,
        snapshots,
        checkpoint.facts,
        trusted=checkpoint.trusted,
        place=lambda: _put_in_place(damaged, path),
    )
    damaged.mending.lost(
        f"goes back to the checkpoint of {checkpoint.written_at}: {count:,} URLs finished since "
        "then are fetched again"
    )


def _put_in_place(damaged: Damaged, kept: Path) -> list[Path]:
    """The files of *kept* take the place of those of the crawl, which are put aside. The newer host
    records stay: they are no part of a checkpoint."""
    jobdir = damaged.jobdir
    state, copy = jobdir / _STATE, jobdir / _COPY
    shutil.rmtree(copy, ignore_errors=True)
    try:
        shutil.copytree(kept / _STATE, copy)
        if (state / "00/hosts" / FILE).exists():
            shutil.rmtree(copy / "00/hosts", ignore_errors=True)
            shutil.copytree(state / "00/hosts", copy / "00/hosts")
        made = [copy, *copy.rglob("*")]
        sync_paths(made)
    except OSError:
        shutil.rmtree(copy, ignore_errors=True)
        raise
    if state.exists():
        aside = damaged.mending.aside
        made = make_directory(aside)
        state.rename(_free(aside))
        sync_paths([aside, *made, jobdir])
    copy.rename(state)
    sync_path(jobdir)
    return [jobdir]


def _places(aside: Path) -> list[Path]:
    """Where the files of the crawl were put aside, the first one first: each repair that died had
    one."""
    return sorted(aside.glob(f"{_STATE}-??"))


def _free(aside: Path) -> Path:
    return aside / f"{_STATE}-{len(_places(aside)) + 1:02d}"


def _take_back(damaged: Damaged) -> None:
    """A repair died between two names: the files of the crawl are its files again."""
    places = _places(damaged.mending.aside)
    state = damaged.jobdir / _STATE
    if places and not state.exists():
        places[-1].rename(state)
        sync_paths([damaged.jobdir, damaged.mending.aside])


def _seconds(checkpoint: Checkpoint) -> float:
    """When it was written, epoch seconds; 0 if it does not say."""
    try:
        return calendar.timegm(time.strptime(checkpoint.written_at, "%Y-%m-%dT%H:%M:%SZ"))
    except ValueError:
        return 0.0


class _Line(msgspec.Struct):
    """A line of the log of outcomes, as far as it is counted."""

    at: float


_decode_line = msgspec.json.Decoder(_Line).decode


def _finished_since(jobdir: Path, since: float) -> int:
    """The URLs that the log of outcomes has from *since* on, epoch seconds. A million take a
    second. Lines that cannot be read do not count."""
    active = jobdir / INFO_LOG
    files = [*numbered(active), *([active] if active.exists() else [])]
    return sum(_lines_since(file, since) for file in files if file.stat().st_mtime >= since)


def _lines_since(path: Path, since: float) -> int:
    count = 0
    with path.open("rb") as file:
        while line := file.readline(MAX_LINE_BYTES):
            try:
                count += _decode_line(line).at >= since
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
    return count
