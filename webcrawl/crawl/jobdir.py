"""The job directory: who may use it, which state is live, how a checkpoint is made.

The scheduler owns one Job and gives it the durable parts of the crawl (frontier, eliminator,
content-seen test, seed cursor). On disk::

    LOCK  CURRENT  manifest-NNNNNN.json      see storage/lock.py, storage/manifest.py
    snapshot-NNNNNN.log                      record log: part name, snapshot, part name, ...;
                                             a large snapshot in pieces, each after the name
    shards/00/...                            the files of the parts
    checkpoints/NNNNNN/...                   older checkpoints, see kept_checkpoints.py
    reading  poison.json                     see reading.py

A checkpoint has three steps, so that the reactor waits only for the first::

    prepare()  reactor thread: snapshot of every part as it is now, no file is read; what takes
               long to encode is encoded afterwards, in pieces, while the crawl goes on
    publish()  any thread: snapshot file written, everything fsynced, manifest published
    forget()   reactor thread: files that only older snapshots named are deleted

Now and then a checkpoint is kept (kept_checkpoints.py) before the next one is published.

Dying between any two lines of this leaves the last published checkpoint, and the parts' own
logs, which are replayed from it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import msgspec

from webcrawl.clock import wall_time
from webcrawl.crawl.kept_checkpoints import make_own, refuse_kept
from webcrawl.errors import FatalError, refusal
from webcrawl.storage.atomic import sync_path, sync_paths
from webcrawl.storage.lock import DirectoryLock, LockedError
from webcrawl.storage.manifest import ManifestStore
from webcrawl.storage.record_log import (
    MAX_PAYLOAD,
    CorruptRecordError,
    NewerFormatError,
    RecordLog,
    read_records,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from webcrawl.crawl.kept_checkpoints import KeptCheckpoints

# What shows that a directory is a job's; and what a power failure may leave of one.
_MARKS: Final = frozenset({"LOCK", "CURRENT"})
_OWN: Final = re.compile(
    r"(shards|checkpoints|logs|seeds|warc|stats\.json|traps\.txt|CURRENT|(manifest|snapshot)-\d+)"
    r"(\.\w+)?|lost\+found"
)
_SHARDS: Final = "shards"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Part(Protocol):
    """Something with state that a checkpoint saves; the methods are described in jobdir.py."""

    def snapshot(self) -> bytes | Iterator[bytes]: ...
    def written(self) -> list[Path]: ...
    def forget(self) -> None: ...


class _SnapshotFile(msgspec.Struct, frozen=True):
    file: str
    bytes: int


class _LiveCheckpoint(msgspec.Struct, frozen=True):
    """What is read of the manifest that ``publish`` wrote."""

    boot_id: str
    snapshot: _SnapshotFile
    facts: dict[str, Any] = {}
    sequence: int = 0
    written_at: str = ""


@dataclasses.dataclass(slots=True, frozen=True)
class Checkpoint:
    """A live checkpoint, as others than the owner of the directory see it.

    *written_at* is UTC as ``2026-11-20T10:15:00Z``, *snapshots* are those of the parts by their
    names. *trusted* is false when the machine may have gone down since: see ``Job.rebooted``.
    """

    sequence: int
    written_at: str
    facts: Mapping[str, Any]
    snapshots: Mapping[str, bytes]
    trusted: bool


@dataclasses.dataclass(slots=True, frozen=True)
class PreparedCheckpoint:
    """The state of all parts at one moment, not on disk yet; that of each in pieces."""

    snapshots: dict[str, Iterable[bytes]]
    paths: list[Path]
    facts: Mapping[str, Any]

    @classmethod
    def of(
        cls, snapshots: Mapping[str, bytes], paths: list[Path], facts: Mapping[str, Any]
    ) -> Self:
        """One whose snapshots are encoded already."""
        pieces: dict[str, Iterable[bytes]] = {
            name: _in_pieces(saved) for name, saved in snapshots.items()
        }
        return cls(pieces, paths, facts)

    def gather(self) -> Iterator[None]:
        """Take the pieces that are still to be encoded, one for each step, in the thread of the
        parts. What is not taken by then, ``publish`` takes."""
        for name, pieces in self.snapshots.items():
            gathered = []
            for piece in pieces:
                gathered.append(piece)
                yield
            self.snapshots[name] = gathered


def shard_path(jobdir: Path, name: str) -> Path:
    """The directory of the shard *name*, two digits, of the job in *jobdir*."""
    return jobdir / _SHARDS / name


def boot_id() -> str:
    """Names this run of the operating system; empty where the system does not tell, and then
    every resume counts as one after a reboot."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def read_checkpoint(path: Path, *, sequence: int = 0) -> Checkpoint | None:
    """The live checkpoint of the JOBDIR *path*, None when there never was one; with a *sequence*
    the one of that number. Takes no lock and changes nothing on disk.

    Raises CorruptRecordError, also when a newer checkpoint takes its place meanwhile, and
    NewerFormatError.
    """
    live = _live_checkpoint(path, ManifestStore(path=path), sequence)
    if live is None:
        return None
    return Checkpoint(
        sequence=live.sequence,
        written_at=live.written_at,
        facts=live.facts,
        snapshots=_read_snapshots(path, live),
        trusted=bool(live.boot_id) and live.boot_id == boot_id(),
    )


def _live_checkpoint(
    path: Path, manifests: ManifestStore, sequence: int = 0
) -> _LiveCheckpoint | None:
    manifest = manifests.read(sequence) if sequence else manifests.load()
    if manifest is None:
        return None
    try:
        return msgspec.convert(manifest, _LiveCheckpoint)
    except msgspec.ValidationError as error:
        raise CorruptRecordError(path / "CURRENT", 0, f"its manifest: {error}") from error


def _read_snapshots(path: Path, live: _LiveCheckpoint) -> dict[str, bytes]:
    """The snapshots of all parts by their names."""
    return read_snapshots(path / live.snapshot.file, live.snapshot.bytes)


def read_snapshots(file: Path, size: int) -> dict[str, bytes]:
    """What the first *size* bytes of the snapshot file *file* hold, by part. Raises
    CorruptRecordError, NewerFormatError."""
    records = [record for _, record in read_records(file, end=size)]
    if len(records) % 2:
        raise CorruptRecordError(file, size, "a name without a snapshot")
    pieces: dict[str, list[bytes]] = {}
    for name, piece in zip(records[::2], records[1::2], strict=True):
        pieces.setdefault(name.decode("utf-8"), []).append(piece)
    return {name: b"".join(found) for name, found in pieces.items()}


class ShardState:
    """The saved state of one shard of a job: its parts by their own names."""

    def __init__(self, *, job: Job, name: str) -> None:
        self._job = job
        self._prefix = f"{_SHARDS}/{name}/"
        self.path = shard_path(job.path, name)
        self.facts = job.facts
        self.resumed = job.resumed
        self.rebooted = job.rebooted

    def saved(self, name: str) -> bytes | None:
        """As ``Job.saved``."""
        return self._job.saved(self._prefix + name)

    def attach(self, name: str, part: Part) -> None:
        """As ``Job.attach``."""
        self._job.attach(self._prefix + name, part)


class Job:
    """One JOBDIR. ``open``, ``publish`` and ``keep`` block on the disk. *kept* are its older
    checkpoints; None: nobody asks for any. *beside* are names that a new one may have in it."""

    def __init__(
        self,
        *,
        path: Path,
        read_boot_id: Callable[[], str] = boot_id,
        kept: KeptCheckpoints | None = None,
        beside: Collection[str] = (),
    ) -> None:
        self.path = path
        self._beside = frozenset(beside)
        self._kept = kept
        self._lock = DirectoryLock(path=path / "LOCK")
        self._manifests = ManifestStore(path=path)
        self._boot_id = read_boot_id()
        self._parts: dict[str, Part] = {}
        self._snapshots: dict[str, bytes] = {}
        # Kept over a checkpoint that failed: its files still wait for their fsync.
        self._unsynced: list[Path] = []
        self._prepared: PreparedCheckpoint | None = None
        self._published: PreparedCheckpoint | None = None
        self.resumed = False
        # What the live checkpoint says for people to read; empty for a new crawl.
        self.facts: Mapping[str, Any] = {}
        # True when the machine may have gone down since the last checkpoint: what was written but
        # not fsynced may be gone, so the logs' word that a page is finished cannot be taken.
        self.rebooted = False

    def open(self, *, spider: str = "") -> None:
        """Lock the directory and load the live snapshots, to be asked for with ``saved``.

        *spider* is the name of the spider whose crawl it must be, as the facts of its checkpoints
        have it; empty: anyone's. Raises FatalError with one sentence when the directory cannot be
        used, has other things in it, is in use, holds the crawl of another spider, was written by a
        later webcrawl, is a kept checkpoint, or its live one is damaged; nothing is changed then.
        DiskError if the disk is full or broken.
        """
        self._refuse_others()
        self._acquire()
        try:
            self._load(spider)
            make_own(self.path)
            if self._kept is not None:
                self._kept.open()
        except FatalError:
            self._lock.release()
            raise
        except (CorruptRecordError, NewerFormatError, OSError) as error:
            self._lock.release()
            sentence = f"The crawl in JOBDIR {self.path} cannot be resumed: {error}."
            raise refusal(error, self.path, sentence) from error

    def open_damaged(self, *, after: int) -> None:
        """Lock the directory, whatever is in it, to ``publish`` a checkpoint whose number comes
        after *after*. FatalError as ``open``, where it is not for damage."""
        self._acquire()
        self._manifests.go_on_after(after)

    def _refuse_others(self) -> None:
        """FatalError if the directory was never a job's, and has other things in it."""
        with contextlib.suppress(OSError):  # it is not there, or is refused when it is locked
            names = {path.name for path in self.path.iterdir()} - self._beside
            others = sorted(name for name in names if not _OWN.fullmatch(name))
            if others and names.isdisjoint(_MARKS):
                raise FatalError(
                    f"JOBDIR {self.path} has other things in it, such as {others[0]}: name an "
                    "empty directory, or one that is not there."
                )

    def _acquire(self) -> None:
        refuse_kept(self.path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
        except LockedError as error:
            raise FatalError(
                f"JOBDIR {self.path} is in use by {error.holder}: "
                "wait for it to end, or choose another JOBDIR."
            ) from error
        except OSError as error:
            sentence = (
                f"JOBDIR {self.path} cannot be used: {error.strerror}; choose another JOBDIR."
            )
            raise refusal(error, self.path, sentence) from error

    def _load(self, spider: str) -> None:
        live = _live_checkpoint(self.path, self._manifests)
        if live is None:
            self._unsynced = self._directories()
            return
        self.facts = live.facts
        owner = live.facts.get("spider", spider)
        if spider and owner != spider:
            raise FatalError(
                f"JOBDIR {self.path} holds a crawl of the spider {owner}, not of {spider}: choose "
                "another one with -s JOBDIR=DIR."
            )
        self._snapshots = _read_snapshots(self.path, live)
        # Whoever published it may have died before the last fsync. After a power failure CURRENT
        # must not be found to name what we and the parts are about to delete.
        sync_path(self.path)
        self._delete_snapshots(keep=self.path / live.snapshot.file)
        self.resumed = True
        self.rebooted = not self._boot_id or live.boot_id != self._boot_id

    def _directories(self) -> list[Path]:
        """Those on the way to the parts: before its first checkpoint nobody has made sure of their
        names, and a process that was killed may have made them."""
        device = self.path.stat().st_dev
        above = [
            path
            for path in self.path.absolute().parents
            if path.stat().st_dev == device and os.access(path, os.R_OK)
        ]
        return [*above, self.path, *self.path.glob("*/"), *self.path.glob("*/*/")]

    def shard(self, name: str) -> ShardState:
        """The saved state of the shard *name*, two digits; a new one if there is none. The job is
        open."""
        return ShardState(job=self, name=name)

    def saved(self, name: str) -> bytes | None:
        """The snapshot of part *name* to open it with; None when it is new."""
        return self._snapshots.get(name)

    def attach(self, name: str, part: Part) -> None:
        """From now on checkpoints include *part*, and ``saved`` has it no more: hundreds of
        megabytes, perhaps. A saved part that is never attached stays in the checkpoints as it was
        saved."""
        self._parts[name] = part
        self._snapshots.pop(name, None)

    def prepare(self, facts: Mapping[str, Any]) -> PreparedCheckpoint:
        """Take the snapshots; *facts* are put into the manifest for people to read."""
        snapshots: dict[str, Iterable[bytes]] = {
            name: _in_pieces(saved) for name, saved in self._snapshots.items()
        }
        for name, part in self._parts.items():
            saved = part.snapshot()
            snapshots[name] = _in_pieces(saved) if isinstance(saved, bytes) else saved
            self._unsynced += part.written()
        self._prepared = PreparedCheckpoint(snapshots, list(self._unsynced), facts)
        return self._prepared

    def publish(self, prepared: PreparedCheckpoint) -> None:
        """Make *prepared* the live checkpoint. On OSError the previous one stays live.

        One call at a time. In another thread than the parts' only when it was gathered.
        """
        for _ in prepared.gather():
            pass
        sequence = self._manifests.next_sequence()
        path = self.path / f"snapshot-{sequence:06d}.log"
        with RecordLog.open(path, size=0) as log:
            # Piece by piece: to put hundreds of megabytes together would hold up all threads.
            for name, pieces in prepared.snapshots.items():
                for piece in pieces:
                    log.append_all((name.encode("utf-8"), piece))
            log.sync()
        sync_paths(prepared.paths)
        # The name of the snapshot file is synced with that of the manifest, before CURRENT is.
        self._manifests.publish(
            {
                "written_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(wall_time())),
                "boot_id": self._boot_id,
                "snapshot": {"file": path.name, "bytes": log.size},
                "facts": dict(prepared.facts),
            }
        )
        self._published = prepared
        self._delete_snapshots(keep=path)

    def forget(self) -> None:
        """After ``publish``: let every part delete what the published checkpoint does not name.

        The parts go by their latest snapshot. So when a later checkpoint than the published one
        has been prepared nothing is deleted, until ``forget`` is called after that one's publish.
        """
        if self._published is not self._prepared:
            return
        self._unsynced.clear()
        self._prepared = self._published = None
        for part in self._parts.values():
            part.forget()

    def keep(self) -> bool:
        """After ``publish``, in any thread: keep what was published if one is to be kept now;
        whether it was. See ``KeptCheckpoints.keep``."""
        return self._kept is not None and self._kept.keep({*self._snapshots, *self._parts})

    def give_way(self) -> None:
        """The crawl ends: nothing is kept from now on."""
        if self._kept is not None:
            self._kept.give_way()

    def close(self) -> None:
        """Give the directory free. The parts are closed by their owner."""
        self._lock.release()

    def _delete_snapshots(self, *, keep: Path) -> None:
        for path in self.path.glob("snapshot-*.log"):
            if path != keep:
                path.unlink()


def _in_pieces(saved: bytes) -> list[bytes]:
    """*saved* in pieces that can be records."""
    return [
        saved[start : start + MAX_PAYLOAD] for start in range(0, max(len(saved), 1), MAX_PAYLOAD)
    ]
