"""Directory with saved state: CURRENT, manifest and snapshot.

A job directory is such a directory, and so is each of its shards (jobdir.py). On disk::

    CURRENT  manifest-NNNNNN.json    see storage/manifest.py
    snapshot-NNNNNN.log              record log: name of a part, its snapshot, name, snapshot, ...;
                                     a large snapshot is in pieces, each after the name

The files of the parts are in directories next to them. A crash at any moment leaves the last
published state, and the parts' own logs, which are replayed from it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec

from webcrawl.clock import wall_time
from webcrawl.configuration.decoding import Count, UndecodableError, converter
from webcrawl.storage.atomic import restrict, sync_path, sync_paths
from webcrawl.storage.manifest import ManifestStore
from webcrawl.storage.record_log import MAX_PAYLOAD, CorruptRecordError, RecordLog, read_records
from webcrawl.wording import iso_time

#: Directory of a job's shards, within its own.
SHARDS = "shards"
#: Log of warnings and errors (extensions/repeated_lines.py).
WARNINGS = "logs/warnings.jsonl"
#: Log of the starts and ends of runs, relative to the job directory.
RUNS = "logs/runs.jsonl"
#: The directory in which ``scrapy hive`` makes the job directories of its drones.
DRONES = "drones"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_SNAPSHOTS = "snapshot-*.log"
#: Pattern of all manifests of a directory.
MANIFESTS = "manifest-*.json"


class Part(Protocol):
    """A part whose state is saved in checkpoints.

    ``snapshot`` returns its present state, in pieces if that takes long. ``written`` returns the
    files to fsync: those that a snapshot names and that were written since the last call.
    ``forget`` deletes files that only snapshots before the latest named.
    """

    def snapshot(self) -> bytes | Iterator[bytes]: ...
    def written(self) -> list[Path]: ...
    def forget(self) -> None: ...


class _SnapshotFile(msgspec.Struct, frozen=True):
    """Name of the snapshot file, and its length in bytes."""

    file: str
    bytes: Count


class _Manifest(msgspec.Struct, frozen=True):
    """Content of a manifest, as ``publish`` writes it."""

    boot_id: str
    snapshot: _SnapshotFile
    facts: dict[str, Any] = {}
    sequence: int = 0
    written_at: str = ""


_as_manifest = converter(_Manifest)


@dataclass(slots=True, frozen=True)
class SavedState:
    """The current state of a directory, as read from disk.

    *written_at* is a time in UTC such as ``2026-11-20T10:15:00Z``. *boot_id* identifies the boot
    in which the state was written. *snapshots* has those of the parts, by name.
    """

    sequence: int
    written_at: str
    boot_id: str
    facts: Mapping[str, Any]
    snapshots: Mapping[str, bytes]

    @property
    def trusted(self) -> bool:
        """Return whether the machine has not rebooted since (see ``StateDirectory.rebooted``)."""
        return bool(self.boot_id) and self.boot_id == boot_id()


@dataclass(slots=True)
class PreparedState:
    """The state of all parts of a directory at one moment, not on disk yet.

    *snapshots* has the pieces of each part's snapshot, by name. *paths* are to be fsynced before
    the state is published. *size* is the length of the snapshot file, once it is written.
    """

    snapshots: dict[str, Iterable[bytes]]
    paths: list[Path]
    facts: Mapping[str, Any]
    size: int = 0

    def gather(self) -> Iterator[None]:
        """Encode the snapshots, one piece per step, in the thread of the parts.

        ``StateDirectory.write`` encodes the pieces that are not encoded by then.
        """
        for name, pieces in self.snapshots.items():
            encoded = []
            for piece in pieces:  # a part encodes each piece when it is requested
                encoded.append(piece)
                yield
            self.snapshots[name] = encoded


def shard_name(number: int) -> str:
    """Return the name of shard *number*, which has at least two digits."""
    return f"{number:02d}"


def shard_path(jobdir: Path, name: str) -> Path:
    """Return the directory of the shard *name* of the job in *jobdir*."""
    return jobdir / SHARDS / name


def shard_names(jobdir: Path) -> list[str]:
    """Return the names of the shards that have a directory in *jobdir*, in order."""
    directories = (jobdir / SHARDS).glob("[0-9][0-9]*/")
    return sorted(path.name for path in directories if path.name.isdecimal())


def boot_id() -> str:
    """Return the ID of this boot of the operating system.

    Returns "" if the system has none; then every resume is treated as one after a reboot.
    """
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def read_state(path: Path) -> SavedState | None:
    """Return the current state of the directory *path*; None if it never had one.

    Takes no lock and changes nothing on disk. Raises NewerFormatError and CorruptRecordError, the
    latter also if a newer state replaces this one meanwhile.
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
    """Return the snapshots of the parts, by name, from the first *size* bytes of *file*."""
    records = [record for _, record in read_records(file, end=size)]
    if len(records) % 2:
        raise CorruptRecordError(file, size, "a name without a snapshot")
    pieces: dict[str, list[bytes]] = {}
    for name, piece in zip(records[::2], records[1::2], strict=True):
        pieces.setdefault(name.decode("utf-8"), []).append(piece)
    return {name: b"".join(parts) for name, parts in pieces.items()}


class StateDirectory:
    """The directory *path* in which the state of several parts is saved.

    *boot* is the ID of the present boot of the machine.
    """

    def __init__(self, *, path: Path, boot: str) -> None:
        self.path = path
        self._boot = boot
        self._manifests = ManifestStore(path=path)
        # Parts whose snapshots are taken, by name, and saved snapshots of parts that are not
        # attached.
        self._parts: dict[str, Part] = {}
        self._snapshots: dict[str, bytes] = {}
        # Paths to be fsynced. They stay here after a failed checkpoint, for the next one.
        self._unsynced: list[Path] = []
        #: Whether the directory had a saved state, from which the crawl continues.
        self.resumed = False
        #: Whether the job has dropped this directory, so that nothing is published any more.
        self.is_dropped = False
        #: Facts in the current manifest, for people and for resuming; copied to the next one.
        self.facts: Mapping[str, Any] = {}
        #: Returns facts that are new in each manifest, when its snapshots are taken.
        self.present_facts: Callable[[], Mapping[str, Any]] = dict
        #: Whether the machine may have gone down since the current state was saved, or another
        #: machine has saved it. Data that was written but not fsynced may be lost, so an entry in
        #: the logs does not prove that a page is finished.
        self.rebooted = False

    def begin(self) -> None:
        """Create the directory, which has no saved state.

        All directories above the parts are fsynced with the first state, even those that exist: a
        killed process may have created them.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        # Directories of the same file system that can be opened, as fsync requires.
        device = self.path.stat().st_dev
        above = [
            path
            for path in self.path.absolute().parents
            if path.stat().st_dev == device and os.access(path, os.R_OK)
        ]
        self._unsynced = [*above, self.path, *self.path.glob("*/")]

    def resume_from(self, state: SavedState) -> None:
        """Continue from *state*, the current one on disk, and delete leftover files of others."""
        self.facts = state.facts
        self._snapshots = dict(state.snapshots)
        self.number_after(state.sequence)
        # The process that saved the state may have died before its last fsync. After a power
        # failure CURRENT must not name files that are deleted here or by the parts.
        sync_path(self.path)
        for path in self.path.glob(MANIFESTS):  # older versions let other users read them
            restrict(path)
        self._delete_snapshots(keep=state.sequence)
        self.resumed = True
        self.rebooted = not self._boot or state.boot_id != self._boot

    def number_after(self, sequence: int) -> None:
        """Number the next state above *sequence*, as that number may have been used already."""
        self._manifests.continue_after(sequence)

    @property
    def is_to_be_saved(self) -> bool:
        """Return whether the next checkpoint must save this directory.

        It must if a part is attached, or if the current state is not in this directory yet.
        """
        return bool(self._parts) or not (self.path / "CURRENT").exists()

    def saved_snapshot(self, name: str) -> bytes | None:
        """Return the saved snapshot with which to open the part *name*; None if it is new."""
        return self._snapshots.get(name)

    def keep(self, name: str, saved: bytes) -> None:
        """Include *saved* unchanged in checkpoints, as the snapshot of the part *name*."""
        self._snapshots[name] = saved

    def attach(self, name: str, part: Part) -> None:
        """Include *part* in checkpoints as *name*, and drop its saved snapshot from memory.

        The snapshot may have hundreds of megabytes. The saved snapshot of a part that is never
        attached is copied to each checkpoint.
        """
        self._parts[name] = part
        self._snapshots.pop(name, None)

    def prepare(self) -> PreparedState:
        """Take a snapshot of each part, in the thread of the parts."""
        # Parts that were not attached keep their saved snapshots.
        snapshots: dict[str, Iterable[bytes]] = {
            name: _split(saved) for name, saved in self._snapshots.items()
        }
        for name, part in self._parts.items():
            saved = part.snapshot()
            snapshots[name] = _split(saved) if isinstance(saved, bytes) else saved
            self._unsynced += part.written()
        facts = {**self.facts, **self.present_facts()}
        return PreparedState(snapshots, list(self._unsynced), facts)

    def write(self, prepared: PreparedState) -> None:
        """Write all of *prepared* except the manifest, and fsync it. Blocks."""
        with RecordLog.open(self._snapshot_path(self._manifests.next_sequence()), size=0) as log:
            # The pieces are not joined: for hundreds of megabytes that would hold up all threads.
            for name, pieces in prepared.snapshots.items():
                for piece in pieces:
                    log.append(name.encode("utf-8"))
                    log.append(piece)
            log.sync()
            prepared.size = log.size
        sync_paths(prepared.paths)

    def publish(self, prepared: PreparedState) -> None:
        """Make *prepared*, which ``write`` has written, the current state. Blocks.

        After an OSError the previous state stays current.
        """
        sequence = self._manifests.next_sequence()
        # This fsyncs the directory, and so the name of the snapshot file, before CURRENT changes.
        self._manifests.publish(
            {
                "written_at": iso_time(wall_time()),
                "boot_id": self._boot,
                "snapshot": {"file": self._snapshot_path(sequence).name, "bytes": prepared.size},
                "facts": dict(prepared.facts),
            }
        )
        self._delete_snapshots(keep=sequence)

    def forget(self) -> None:
        """Let every part delete the files that the published state does not name."""
        self._unsynced.clear()
        for part in self._parts.values():
            part.forget()

    def _snapshot_path(self, sequence: int) -> Path:
        return self.path / f"snapshot-{sequence:06d}.log"

    def _delete_snapshots(self, *, keep: int) -> None:
        for path in self.path.glob(_SNAPSHOTS):
            if path != self._snapshot_path(keep):
                path.unlink()


def _split(saved: bytes) -> list[bytes]:
    """Split *saved* into pieces that are small enough for records."""
    return [
        saved[start : start + MAX_PAYLOAD] for start in range(0, max(len(saved), 1), MAX_PAYLOAD)
    ]
