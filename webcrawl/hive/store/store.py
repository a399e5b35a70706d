"""Checkpoint store of a hive (HIVE_STORE), from which any drone can continue any shard.

In the store::

    hive.json                            facts of the whole hive
    suffixes-<hash>.dat                  its public suffix list
    alive/<drone>                        a counter of a drone that cannot reach Redis
    shards/NN/                           checkpoints of shard NN, see checkpoint_files.py

A checkpoint is written after all of its objects. The newest is the one with the highest token, then
the highest sequence. Objects never change. Two invariants of the tokens:

* A checkpoint names only objects with its own token. The next holder of a shard gives the objects
  new names with its first checkpoint: links in a directory, copies within an object store.
* A publication deletes only objects with its own token or an older one.

So a drone that has lost its lease without knowing it cannot hide or break a checkpoint of the next
holder, however long and at whatever step it was suspended.

Each publication uploads what is new: bytes appended to files, new files, and the changes of host
records since their last copy, or sometimes another copy. The last two checkpoints stay, so a fetch
has the time between two of them. If an object is deleted meanwhile, the fetch starts over with the
newer checkpoint. Objects of which more than half is no longer needed are not used again. So the
store has at most about twice the size of the shards.
"""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import suppress
from itertools import count, takewhile
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import msgspec
from xxhash import xxh3_64_hexdigest

from webcrawl.clock import wall_time
from webcrawl.configuration.decoding import UndecodableError, converter, json_decoder
from webcrawl.errors import ObjectStoreError
from webcrawl.hive.store.checkpoint_files import (
    FORMAT,
    LocalRecord,
    Published,
    checkpoint_name,
    checkpoints_in,
    folder_of,
    has_good_seal,
    sealed,
    token_of,
)
from webcrawl.hive.store.download import Download
from webcrawl.hive.store.upload import HOSTS, SupersededError, Upload, live_files
from webcrawl.storage.atomic import restrict, sync_path
from webcrawl.storage.object_store import ObjectStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from webcrawl.hosts.records.database import Database

_PACK_BYTES = 16 << 20
# How often a fetch starts over because its objects were deleted meanwhile.
_TRIES = 10
# Limit of JSON: a shard has thousands of files, each with a few hundred bytes there.
_MAX_JSON = 1 << 28
_HIVE = "hive.json"
_Found = TypeVar("_Found")
_decode = json_decoder(dict[str, Any])


class HiveFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of a hive that never change.

    shards: HIVE_SHARDS.
    politeness_key: POLITENESS_KEY.
    born: identifies the Redis data in which the hive was begun.
    suffixes: the object with the public suffix list; ``enter`` fills it in.
    seed: the hash seed of all jobs of the hive (hash_seed.py); 0 if an earlier version began it
    (before 2026-11-24).
    """

    format: int = FORMAT
    shards: int
    politeness_key: str
    born: str = ""
    suffixes: str = ""
    seed: Annotated[int, msgspec.Meta(ge=0)] = 0


_as_facts, _as_published = converter(HiveFacts), converter(Published)


class Fetched(NamedTuple):
    """Checkpoint in a directory; *in_place* if the directory already had it, with later logs."""

    published: Published
    in_place: bool


class CheckpointStore:
    """Store at *url*: a directory, or a URL that fsspec can reach.

    All calls block, so use threads, one at a time for each shard. They raise ObjectStoreError if
    the store cannot be used, and OSError for the shard's own disk.
    """

    def __init__(self, *, url: str, pack_bytes: int = _PACK_BYTES) -> None:
        self._objects = ObjectStore(url)
        self._pack_bytes = pack_bytes
        self._beats = count(1)

    # --- the hive

    def enter(self, facts: HiveFacts, suffixes: str, *, may_be_new: bool = True) -> HiveFacts:
        """Return the facts of the hive as the first drone wrote them.

        For a new hive, write *facts* and the list *suffixes* first. Raises ObjectStoreError if the
        hive is new although it must not be.
        """
        data = suffixes.encode("utf-8")
        if not may_be_new:
            self._check()
        known = self._facts()
        if known is None:
            name = _suffixes_name(data)
            self._objects.write(name, data)
            facts = msgspec.structs.replace(facts, format=FORMAT, suffixes=name)
            self._objects.create(_HIVE, sealed(facts))
            known = self._facts()
        if known is None:
            raise ObjectStoreError(f"HIVE_STORE {self._objects.name} loses what is written to it")
        directory = self._objects.directory
        if directory is not None and restrict(directory / _HIVE):  # from an earlier version
            for path in directory.glob("shards/*/*"):
                restrict(path)
        return known

    def _facts(self) -> HiveFacts | None:
        try:
            data = self._objects.read(_HIVE, 0, _MAX_JSON)
        except FileNotFoundError:
            return None
        return self._decoded(_HIVE, data, _as_facts)

    def suffixes(self, facts: HiveFacts) -> str:
        """Return the public suffix list of the hive with *facts*, which ``enter`` returned."""
        name = facts.suffixes
        try:
            data = self._objects.read(name)
        except FileNotFoundError as error:
            raise self._objects.damaged(name, "the public suffix list is missing") from error
        if name != _suffixes_name(data):
            raise self._objects.damaged(name, "checksum mismatch")
        return data.decode("utf-8")

    def beat(self, drone: str) -> None:
        """Write a heartbeat of *drone*, for drones that cannot see it in Redis."""
        self._check()
        self._objects.write(f"alive/{drone}", b"%d" % next(self._beats))

    def alive(self, drones: Iterable[str]) -> dict[str, str]:
        """Return the current heartbeat counter of each of *drones* that has one."""
        found = {}
        for drone in drones:
            with suppress(FileNotFoundError):
                found[drone] = self._objects.read(f"alive/{drone}").decode("ascii", "replace")
        return found

    def end_beats(self, drone: str) -> None:
        """Delete the heartbeat of *drone*, which has ended or is seen in Redis again."""
        self._objects.delete([f"alive/{drone}"])

    # --- publishing

    def publish(
        self,
        directory: Path,
        *,
        shard: int,
        token: int,
        drone: str,
        released: bool,
        hosts: Database,
        is_valid: Callable[[], bool] = lambda: True,
    ) -> int:
        """Publish the live state in *directory* as the newest checkpoint of *shard*.

        Returns its sequence number. If it fails, the one before stays the newest.

        The shard may continue meanwhile, except for its next checkpoint, because no file of the
        live state may be deleted. *is_valid* returns False when the lease is not valid any more.
        Raises SupersededError then, if there is a newer checkpoint, or if *directory* was replaced;
        also CorruptRecordError.
        """
        inode = _inode(directory)

        def may_continue() -> bool:
            return is_valid() and _inode(directory) == inode

        names = self._names(shard)
        older = checkpoints_in(names)
        state = live_files(directory)
        key = (token, state.sequence)
        if older and older[-1] > key:
            raise SupersededError(
                f"Not published: shard {shard} has a newer checkpoint, of token {older[-1][0]}"
            )
        upload = Upload(
            self._objects, shard, token, pack_bytes=self._pack_bytes, may_continue=may_continue
        )
        record = self._reusable_record(directory, set(state.lasting), names, upload)
        files = upload.publish_files(directory, state.lasting, record.files)
        files |= upload.publish_hosts(directory, record.files, hosts)
        # Files that the next checkpoint will not have go into separate packs.
        upload.flush()
        files |= upload.publish_files(directory, state.passing, None)
        upload.flush()
        self._objects.sync_folder(folder_of(shard))
        published = Published(
            format=FORMAT,
            shard=shard,
            token=token,
            sequence=state.sequence,
            drone=drone,
            released=released,
            written_at=wall_time(),
            files={name: file.pieces for name, file in files.items()},
            packs={},
        )
        sizes = record.packs | upload.packs
        packs = {name: sizes[name] for name in published.objects if name in sizes}
        published = msgspec.structs.replace(published, packs=packs)
        # Written before the checkpoint, so that after a crash in between the process recognizes it.
        checkpoints = [*(old for old in record.checkpoints if old in older), key]
        record = msgspec.structs.replace(
            record, token=token, checkpoints=checkpoints, files=files, packs=packs
        )
        upload.check()
        record.write(directory)
        upload.check()
        self._objects.write(checkpoint_name(shard, key), sealed(published))
        with suppress(ObjectStoreError):  # it is published; the next publication deletes them
            self._delete_older(published, names)
        return state.sequence

    def _reusable_record(
        self, directory: Path, lasting: set[str], names: set[str], upload: Upload
    ) -> LocalRecord:
        """Return the record of the files *lasting* in *directory*, and of host records.

        It has the pieces that can be used again: those that are in the store (*names*), and in
        packs that are mostly needed. They get names with the lease's own token.
        """
        record = LocalRecord.read(directory)
        hosts = {name for name in record.files if name.startswith(f"{HOSTS}/")}
        record.files = {
            name: record.files[name] for name in record.files.keys() & (lasting | hosts)
        }
        used: Counter[str] = Counter()
        for file in record.files.values():
            file.pieces = list(takewhile(lambda piece: piece.name in names, file.pieces))
            for piece in file.pieces:
                used[piece.name] += piece.size
        wasted = {name for name, size in record.packs.items() if 2 * used[name] < size}
        for file in record.files.values():
            file.pieces = list(takewhile(lambda piece: piece.name not in wasted, file.pieces))
        new = upload.rename({piece.name for file in record.files.values() for piece in file.pieces})
        for file in record.files.values():
            file.pieces = [
                msgspec.structs.replace(piece, name=new[piece.name])
                for piece in takewhile(lambda piece: piece.name in new, file.pieces)
            ]
        record.packs = {new[name]: size for name, size in record.packs.items() if name in new}
        return record

    def _delete_older(self, published: Published, names: set[str]) -> None:
        """Delete objects that neither *published* nor the checkpoint before it needs.

        *names* are the objects of the shard; those with a newer token stay.
        """
        shard = published.shard
        kept = {published.key}
        needed = published.objects
        if older := [key for key in checkpoints_in(names) if key < published.key]:
            before = self._read(shard, older[-1])
            if before is None:
                return
            kept.add(before.key)
            needed |= before.objects
        needed |= {checkpoint_name(shard, key).rpartition("/")[2] for key in kept}
        gone = [name for name in names - needed if token_of(name) <= published.token]
        # Checkpoints are deleted before their objects.
        gone.sort(key=lambda name: not name.endswith(".json"))
        self._objects.delete(f"{folder_of(shard)}/{name}" for name in gone)

    # --- fetching

    def newest(self, shard: int) -> Published | None:
        """Return the newest checkpoint of *shard*, or None if there was never one."""
        for _ in range(_TRIES):
            checkpoints = checkpoints_in(self._names(shard))
            for key in reversed(checkpoints):
                if (found := self._read(shard, key)) is not None:
                    return found
            if not checkpoints:
                return None
        raise ObjectStoreError(
            f"HIVE_STORE {self._objects.name} has checkpoints of shard {shard} that cannot be read"
        )

    def _names(self, shard: int) -> set[str]:
        """Return the names of the objects of *shard*."""
        names = self._objects.names(folder_of(shard))
        if not checkpoints_in(names):
            self._check()
        return names

    def _check(self) -> None:
        """Raise ObjectStoreError if the store is empty, such as a directory that is not mounted.

        If it passed for the store of a new hive, shards would start over, and heartbeats would be
        written where no drone reads them.
        """
        if self._facts() is None:
            raise ObjectStoreError(
                f"HIVE_STORE {self._objects.name} has no {_HIVE}: it is not mounted, or was emptied"
            )

    def _read(self, shard: int, key: tuple[int, int]) -> Published | None:
        """Return the checkpoint *key*, or None if it is missing or incomplete."""
        name = checkpoint_name(shard, key)
        try:
            data = self._objects.read(name, 0, _MAX_JSON)
        except FileNotFoundError:
            return None
        if has_good_seal(data) is None and not data.endswith(b"}"):
            return None
        found = self._decoded(name, data, _as_published)
        if (found.shard, found.key) != (shard, key):
            raise self._objects.damaged(name, "it has another checkpoint")
        return found

    def fetch(
        self,
        published: Published,
        directory: Path,
        *,
        token: int,
        before: int,
        acknowledged: tuple[int, int] = (0, 0),
    ) -> Fetched:
        """Fetch the newest checkpoint of a shard into *directory*, to be used under *token*.

        *published* is the newest one known. *before* is the token of the lease before. If the
        directory was used under that token and continues the newest checkpoint, it is kept as it
        is, because no other drone has held the shard since. Otherwise it is replaced atomically,
        synced.

        *acknowledged* is the key of a checkpoint with links that are nowhere else. Raises
        ObjectStoreError if only older ones are left.
        """
        aside, old = (directory.with_name(directory.name + end) for end in (".tmp", ".old.tmp"))
        for _ in range(_TRIES):
            for path in (aside, old):
                if path.exists():
                    shutil.rmtree(path)
            record = LocalRecord.read(directory)
            if record.token == before and max(published.key, acknowledged) in record.checkpoints:
                record.token = token
                record.write(directory)
                return Fetched(published, in_place=True)
            if published.key < acknowledged:
                lost = checkpoint_name(published.shard, acknowledged)
                raise ObjectStoreError(
                    f"HIVE_STORE {self._objects.name} has lost {lost}, and with it links that are "
                    "stored nowhere else: restore it, or give up these links "
                    "(docs/howto/several-machines.md)"
                )
            try:
                Download(self._objects, published, self._pack_bytes).fetch(aside, token)
            except FileNotFoundError as error:
                newer = self.newest(published.shard)
                if newer is None or newer == published:
                    name = checkpoint_name(published.shard, published.key)
                    raise self._objects.damaged(name, "one of its objects is missing") from error
                published = newer
            else:
                if directory.exists():
                    directory.rename(old)
                aside.rename(directory)
                sync_path(directory.parent)
                if old.exists():
                    shutil.rmtree(old)
                return Fetched(published, in_place=False)
        raise ObjectStoreError(
            f"HIVE_STORE {self._objects.name}: checkpoints of shard {published.shard} are deleted "
            "faster than they can be fetched"
        )

    # --- what is in the store

    def _decoded(self, name: str, data: bytes, converted: Callable[[Any], _Found]) -> _Found:
        is_good = has_good_seal(data)
        if is_good is False:
            raise self._objects.damaged(name, "checksum mismatch")
        try:
            found = _decode(data)
            if found["format"] > FORMAT and is_good:
                raise ObjectStoreError(
                    f"HIVE_STORE {self._objects.name}: {name} has format {found['format']}, but "
                    f"this webcrawl reads only up to {FORMAT}: use the newer webcrawl that wrote it"
                )
            if found["format"] != 1 and not is_good:
                raise self._objects.damaged(name, "it has no checksum")
            return converted(found)
        except (UndecodableError, TypeError, KeyError) as error:
            raise self._objects.damaged(name, str(error)) from error


def _inode(directory: Path) -> int:
    """Return the inode number of *directory*, or 0 if it does not exist."""
    try:
        return directory.stat().st_ino
    except FileNotFoundError:
        return 0


def _suffixes_name(data: bytes) -> str:
    return f"suffixes-{xxh3_64_hexdigest(data)}.dat"
