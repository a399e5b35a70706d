"""Directory of saved state: CURRENT, manifest and snapshot.

A job directory is one, and so is each of its shards (jobdir.py). On disk::

    CURRENT  manifest-NNNNNN.json    see storage/manifest.py
    snapshot-NNNNNN.log              record log: part name, snapshot, part name, ...;
                                     a large snapshot in pieces, each after the name

The files of the parts are in directories beside. Dying at any moment leaves the last published
state, and the parts' own logs, which are replayed from it.
"""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from webcrawl.clock import wall_time
from webcrawl.configuration.decoding import Count, UndecodableError, converter
from webcrawl.storage.atomic import restrict, sync_path, sync_paths
from webcrawl.storage.manifest import ManifestStore
from webcrawl.storage.record_log import MAX_PAYLOAD, CorruptRecordError, RecordLog, read_records

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

#: Where the shards of a job are, within its directory.
SHARDS = "shards"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_SNAPSHOTS = "snapshot-*.log"
#: All manifests of a directory.
MANIFESTS = "manifest-*.json"


class Part(Protocol):
    """A part with state that a checkpoint saves.

    ``snapshot`` is its state now, in pieces if that takes long; ``written`` is what a snapshot
    names and was written since the last call, to be fsynced; ``forget`` deletes what only snapshots
    before the latest named.
    """

    def snapshot(self) -> bytes | Iterator[bytes]: ...
    def written(self) -> list[Path]: ...
    def forget(self) -> None: ...


class _SnapshotFile(msgspec.Struct, frozen=True):
    """The snapshot file of a manifest, and its length."""

    file: str
    bytes: Count


class _Manifest(msgspec.Struct, frozen=True):
    """A manifest that ``publish`` wrote."""

    boot_id: str
    snapshot: _SnapshotFile
    facts: dict[str, Any] = {}
    sequence: int = 0
    written_at: str = ""


_as_manifest = converter(_Manifest)


@dataclasses.dataclass(slots=True, frozen=True)
class SavedState:
    """The live state of a directory as it is on disk.

    *written_at* is UTC as ``2026-11-20T10:15:00Z``, *boot_id* names the boot in which it was
    written, *snapshots* are those of the parts by their names.
    """

    sequence: int
    written_at: str
    boot_id: str
    facts: Mapping[str, Any]
    snapshots: Mapping[str, bytes]

    @property
    def trusted(self) -> bool:
        """Whether the machine has not gone down since: see ``StateDirectory.rebooted``."""
        return bool(self.boot_id) and self.boot_id == boot_id()


@dataclasses.dataclass(slots=True)
class PreparedState:
    """The state of all parts of a directory at one moment, that of each in pieces.

    *paths* are to be fsynced first; *size* is that of its snapshot file when it is written.
    """

    snapshots: dict[str, Iterable[bytes]]
    paths: list[Path]
    facts: Mapping[str, Any]
    size: int = 0

    def gather(self) -> Iterator[None]:
        """Take the pieces that are still to be encoded, one for each step, in the thread of the
        parts. What is not taken by then, ``StateDirectory.write`` takes."""
        for name, pieces in self.snapshots.items():
            gathered = []
            for piece in pieces:
                gathered.append(piece)
                yield
            self.snapshots[name] = gathered


def shard_name(number: int) -> str:
    """The name of the shard *number*: two digits or more."""
    return f"{number:02d}"


def shard_path(jobdir: Path, name: str) -> Path:
    """The directory of the shard *name* of the job in *jobdir*."""
    return jobdir / SHARDS / name


def shard_names(jobdir: Path) -> list[str]:
    """The names of the shards that have a directory in *jobdir*, in order."""
    found = (jobdir / SHARDS).glob("[0-9][0-9]*/")
    return sorted(path.name for path in found if path.name.isdecimal())


def boot_id() -> str:
    """Names this run of the operating system; empty where the system does not tell, and then
    every resume counts as one after a reboot."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def date_of(at: float) -> str:
    """*at*, epoch seconds, as manifests have it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def read_state(path: Path) -> SavedState | None:
    """The live state of the directory *path*, None when there never was one. Takes no lock and
    changes nothing on disk.

    Raises CorruptRecordError, also when a newer state takes its place meanwhile, and
    NewerFormatError.
    """
    content = ManifestStore(path=path).load()
    if content is None:
        return None
    try:
        manifest = _as_manifest(content)
    except UndecodableError as error:
        raise CorruptRecordError(path / "CURRENT", 0, f"its manifest: {error}") from error
    return SavedState(
        sequence=manifest.sequence,
        written_at=manifest.written_at,
        boot_id=manifest.boot_id,
        facts=manifest.facts,
        snapshots=_read_snapshots(path / manifest.snapshot.file, manifest.snapshot.bytes),
    )


def _read_snapshots(file: Path, size: int) -> dict[str, bytes]:
    """The parts in the first *size* bytes of the snapshot *file*, by name."""
    records = [record for _, record in read_records(file, end=size)]
    if len(records) % 2:
        raise CorruptRecordError(file, size, "a name without a snapshot")
    pieces: dict[str, list[bytes]] = {}
    for name, piece in zip(records[::2], records[1::2], strict=True):
        pieces.setdefault(name.decode("utf-8"), []).append(piece)
    return {name: b"".join(found) for name, found in pieces.items()}


class StateDirectory:
    """The parts whose state is saved in *path*, in the boot *boot*."""

    def __init__(self, *, path: Path, boot: str) -> None:
        self.path = path
        self._boot = boot
        self._manifests = ManifestStore(path=path)
        self._parts: dict[str, Part] = {}
        self._snapshots: dict[str, bytes] = {}
        # Kept over a checkpoint that failed: its files still wait for their fsync.
        self._unsynced: list[Path] = []
        self.resumed = False
        #: Whether the job has given it up: nothing is published any more.
        self.is_dropped = False
        #: What the live state says for people, and for who resumes it; the next one will, too.
        self.facts: Mapping[str, Any] = {}
        #: True when the machine may have gone down since the live state was saved, or when that was
        #: on another machine: what was written but not fsynced may be gone, so the logs' word that
        #: a page is finished cannot be taken.
        self.rebooted = False

    def begin(self) -> None:
        """There is no saved state. A process that was killed may have made the directories: the
        names on the way to the parts wait for their fsync."""
        self.path.mkdir(parents=True, exist_ok=True)
        device = self.path.stat().st_dev
        above = [
            path
            for path in self.path.absolute().parents
            if path.stat().st_dev == device and os.access(path, os.R_OK)
        ]
        self._unsynced = [*above, self.path, *self.path.glob("*/")]

    def go_on(self, state: SavedState) -> None:
        """Go on from *state*, which is the live one; what is left of others is deleted."""
        self.facts = state.facts
        self._snapshots = dict(state.snapshots)
        self.number_after(state.sequence)
        # Its process may have died before the last fsync. After a power failure CURRENT must not be
        # found to name what is about to be deleted here and by the parts.
        sync_path(self.path)
        for path in self.path.glob(MANIFESTS):  # of an earlier version, or from elsewhere
            restrict(path)
        self._delete_snapshots(keep=state.sequence)
        self.resumed = True
        self.rebooted = not self._boot or state.boot_id != self._boot

    def number_after(self, sequence: int) -> None:
        """The state number *sequence* may have been used: the next one has a larger one."""
        self._manifests.go_on_after(sequence)

    @property
    def is_to_be_saved(self) -> bool:
        """Whether a part was attached, or the live state is not in this directory yet."""
        return bool(self._parts) or not (self.path / "CURRENT").exists()

    def saved(self, name: str) -> bytes | None:
        """The snapshot of part *name* to open it with; None when it is new."""
        return self._snapshots.get(name)

    def keep(self, name: str, saved: bytes) -> None:
        """From now on checkpoints include *saved* as the snapshot of part *name*."""
        self._snapshots[name] = saved

    def attach(self, name: str, part: Part) -> None:
        """From now on checkpoints include *part*, and ``saved`` has it no more: hundreds of
        megabytes, perhaps. A saved part that is never attached stays as it was saved."""
        self._parts[name] = part
        self._snapshots.pop(name, None)

    def prepare(self) -> PreparedState:
        """Take the snapshots, in the thread of the parts."""
        snapshots: dict[str, Iterable[bytes]] = {
            name: _in_pieces(saved) for name, saved in self._snapshots.items()
        }
        for name, part in self._parts.items():
            saved = part.snapshot()
            snapshots[name] = _in_pieces(saved) if isinstance(saved, bytes) else saved
            self._unsynced += part.written()
        return PreparedState(snapshots, list(self._unsynced), self.facts)

    def write(self, prepared: PreparedState) -> None:
        """Bring all of *prepared* to the disk but the manifest, fsynced. Blocks."""
        with RecordLog.open(self._snapshot(self._manifests.next_sequence()), size=0) as log:
            # Piece by piece: to put hundreds of megabytes together would hold up all threads.
            for name, pieces in prepared.snapshots.items():
                for piece in pieces:
                    log.append(name.encode("utf-8"))
                    log.append(piece)
            log.sync()
            prepared.size = log.size
        sync_paths(prepared.paths)

    def publish(self, prepared: PreparedState) -> None:
        """Make *prepared*, which was written, the live state. On OSError the previous one stays
        live. Blocks."""
        sequence = self._manifests.next_sequence()
        # The name of the snapshot file is synced with that of the manifest, before CURRENT is.
        self._manifests.publish(
            {
                "written_at": date_of(wall_time()),
                "boot_id": self._boot,
                "snapshot": {"file": self._snapshot(sequence).name, "bytes": prepared.size},
                "facts": dict(prepared.facts),
            }
        )
        self._delete_snapshots(keep=sequence)

    def forget(self) -> None:
        """Let every part delete what the published state does not name."""
        self._unsynced.clear()
        for part in self._parts.values():
            part.forget()

    def _snapshot(self, sequence: int) -> Path:
        return self.path / f"snapshot-{sequence:06d}.log"

    def _delete_snapshots(self, *, keep: int) -> None:
        for path in self.path.glob(_SNAPSHOTS):
            if path != self._snapshot(keep):
                path.unlink()


def _in_pieces(saved: bytes) -> list[bytes]:
    """*saved* in pieces that can be records."""
    return [
        saved[start : start + MAX_PAYLOAD] for start in range(0, max(len(saved), 1), MAX_PAYLOAD)
    ]
