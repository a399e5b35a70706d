"""Checkpoint store of a hive (HIVE_STORE), from which any drone can continue any shard.

In the store::

    hive.json                            facts about the whole hive
    suffixes-<hash>.dat                  its public suffix list
    alive/<drone>                        the last heartbeat of a drone that cannot reach Redis: its
                                         time, and the shards that it holds
    commands/<number>-<hash>             a lasting command (control/hive.py)
    commands/<number>-<hash>.txt         what scrapy purge has excluded
    bodies/<time>-<digest>               a large message about a subresource, until it is read or
                                         this time has come (bus/large_bodies.py)
    shards/NN/                           checkpoints of shard NN, see checkpoint_files.py

A checkpoint is written after all of its objects. The newest checkpoint is the one with the highest
token, and of these the one with the highest sequence. Objects of shards never change. Two
invariants:

* A checkpoint names only objects with its own token. The next holder of a shard gives the objects
  new names with its first checkpoint: by links in a directory, by copies within an object store.
* A publication deletes only objects with its own token or an older one.

So a drone that has lost its lease without knowing it cannot hide or damage a checkpoint of the next
holder, no matter how long and at which step it was suspended.

Each publication uploads what is new: bytes appended to files, new files, and the changes of host
records since they were last copied, or sometimes another copy of them. The last two checkpoints
stay, so a fetch has the time between two checkpoints. If an object is deleted meanwhile, the fetch
starts over with the newer checkpoint. Objects of which more than half is no longer needed are not
used again. So the store is at most about twice as large as the shards.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from xxhash import xxh3_64_hexdigest, xxh3_128_hexdigest

from webcrawl.clock import wall_time
from webcrawl.configuration.decoding import UndecodableError, converter, json_decoder
from webcrawl.errors import ObjectStoreError, StoreAwayError
from webcrawl.hive.store.checkpoint_files import (
    FORMAT,
    LocalRecord,
    Published,
    checkpoint_name,
    checkpoints_in,
    folder_of,
    has_good_seal,
    seal,
    token_of,
)
from webcrawl.hive.store.download import Download
from webcrawl.hive.store.upload import HOSTS, SupersededError, Upload, live_files
from webcrawl.hosts.records.database import Database
from webcrawl.storage.atomic import restrict, sync_path
from webcrawl.storage.numbered import NumberedObjects
from webcrawl.storage.object_store import ObjectStore

# How many times to try a fetch, if objects are deleted meanwhile.
_MAX_TRIES = 10
# Size limit of a JSON file: a shard has thousands of files, with a few hundred bytes of JSON each.
_MAX_JSON = 1 << 28
_HIVE = "hive.json"
_BODIES = "bodies"
# Size limit of a body: senders leave out those of more than 5 MB (render/remote.py).
_MAX_BODY = 1 << 23
# In epoch seconds.
_FAR_FUTURE = 1e10
_Decoded = TypeVar("_Decoded")
_decode = json_decoder(dict[str, Any])


class HiveFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a hive. Only ``format`` and ``settings`` ever change.

    shards: HIVE_SHARDS.
    politeness_key: POLITENESS_KEY.
    born: identifies the Redis data in which the hive was created.
    suffixes: the name of the object with the public suffix list; ``enter`` fills it in.
    seed: the hash seed of all jobs of the hive (hash_seed.py); 0 if an earlier version created it
        (before 2026-11-24).
    settings: those of the drone that joined last (compared_settings.py); {} if an earlier version
        wrote them (before 2026-11-29).
    """

    format: int = FORMAT
    shards: int
    politeness_key: str
    born: str = ""
    suffixes: str = ""
    seed: Annotated[int, msgspec.Meta(ge=0)] = 0
    settings: dict[str, str] = {}


_as_facts = converter(HiveFacts)
_as_published = converter(Published)


class CheckpointStore:
    """Store of checkpoints at *url*: a directory or the URL of a bucket.

    The constructor raises ObjectStoreError if the URL is invalid. All methods block, so call them
    in threads, one at a time for each shard. They raise ObjectStoreError if the store cannot be
    used, and OSError if the shard's own disk fails.
    """

    def __init__(self, *, url: str) -> None:
        self._objects = ObjectStore(url)
        # When to look for bodies that were not read in their time.
        self._sweep_at = 0.0

    # --- the hive

    def enter(self, facts: HiveFacts, suffixes: str, *, may_be_new: bool = True) -> HiveFacts:
        """Return the facts about the hive, as its first drone wrote them.

        If the store is empty, the hive is new: then *facts* and the public suffix list *suffixes*
        are written first. Raises ObjectStoreError if the store is empty without *may_be_new*.
        """
        data = suffixes.encode("utf-8")
        if not may_be_new:
            self._check_not_empty()
        stored_facts = self._read_facts()
        # Several drones may find the store empty at the same time. Only one creates the facts, and
        # all of them use those that are there afterwards.
        if stored_facts is None:
            name = _suffixes_name(data)
            self._objects.write(name, data)
            facts = msgspec.structs.replace(facts, format=FORMAT, suffixes=name)
            self._objects.create(_HIVE, seal(facts))
            stored_facts = self._read_facts()
        if stored_facts is None:
            raise ObjectStoreError(f"HIVE_STORE {self._objects.name} loses what is written to it")

        # Earlier versions wrote files that other users can read. The first one tells that they did.
        directory = self._objects.directory
        if directory is not None and restrict(directory / _HIVE):
            for path in directory.glob("shards/*/*"):
                restrict(path)
        return stored_facts

    def replace_facts(self, facts: HiveFacts) -> None:
        """Replace the facts about the hive, those of ``enter`` with other settings."""
        self._objects.write(_HIVE, seal(facts))

    def _read_facts(self) -> HiveFacts | None:
        """Read the facts about the hive, or return None if the store is empty."""
        try:
            data = self._objects.read(_HIVE, 0, _MAX_JSON)
        except FileNotFoundError:
            return None
        return self._decode_sealed(_HIVE, data, _as_facts)

    def suffixes(self, facts: HiveFacts) -> str:
        """Return the hive's public suffix list. *facts* must come from ``enter``."""
        name = facts.suffixes
        try:
            data = self._objects.read(name)
        except FileNotFoundError as error:
            raise self._objects.damage_error(name, "the public suffix list is missing") from error
        if name != _suffixes_name(data):
            raise self._objects.damage_error(name, "checksum mismatch")
        return data.decode("utf-8")

    # --- heartbeats

    def beat(self, drone: str, shards: Iterable[int]) -> None:
        """Write a heartbeat of *drone*, so that others see without Redis that it holds *shards*."""
        self._check_not_empty()
        # The time, and not a count: it is never the last one of an earlier process.
        text = " ".join(map(str, (wall_time(), *shards)))
        self._objects.write(f"alive/{drone}", text.encode())

    def heartbeats(self) -> dict[str, str]:
        """Return the last heartbeat of each drone that has written one: its time and shards."""
        self._check_not_empty()
        beats = {}
        for drone in self._objects.names("alive"):
            with suppress(FileNotFoundError):
                beats[drone] = self._objects.read(f"alive/{drone}").decode("ascii", "replace")
        return beats

    def end_beats(self, drone: str) -> None:
        """Delete the heartbeat of *drone*, which has ended or can reach Redis again."""
        self._objects.delete([f"alive/{drone}"])

    @property
    def commands(self) -> NumberedObjects:
        """The lasting commands to the hive, and with the suffix ".txt" what was purged from it."""
        self._check_not_empty()
        return NumberedObjects(self._objects, "commands", wall_time)

    # --- bodies of subresources

    def put_body(self, body: bytes, secs: float) -> str:
        """Store *body* for *secs*, and return its name.

        The first call, and then one in *secs*, deletes the bodies whose time is over. As bodies are
        deleted when they are read, only those of drones that were killed are left to be listed.
        """
        time = wall_time()
        if self._sweep_at <= time:
            self._sweep_at = time + secs
            self.delete_bodies(before=time)
        name = f"{time + secs:015.3f}-{xxh3_128_hexdigest(body)}"
        self._objects.write(f"{_BODIES}/{name}", body)
        return name

    def delete_bodies(self, *, before: float = _FAR_FUTURE) -> None:
        """Delete the bodies whose time was over *before*."""
        names = self._objects.names(_BODIES)
        expired = [name for name in names if name.partition("-")[0] < f"{before:015.3f}"]
        self._objects.delete(f"{_BODIES}/{name}" for name in expired)

    def take_body(self, name: str) -> bytes:
        """Read the body *name*, and delete it. Raises FileNotFoundError.

        Raises ObjectStoreError if it is damaged.
        """
        body = self._objects.read(f"{_BODIES}/{name}", 0, _MAX_BODY)
        self._objects.delete([f"{_BODIES}/{name}"])
        if not name.endswith(xxh3_128_hexdigest(body)):
            raise self._objects.damage_error(name, "checksum mismatch")
        return body

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

        Returns its sequence number. If this fails, the checkpoint before it stays the newest.

        The shard may continue meanwhile, but must not make its next checkpoint, because no file of
        the live state may be deleted. *is_valid* returns whether the lease is still valid. Raises
        SupersededError if it is not, if there is a newer checkpoint, or if *directory* was moved.
        Raises CorruptRecordError if a file is damaged.

        token: the token of the shard's lease.
        released: whether the shard is given up with nothing in process.
        hosts: the database with the shard's host records.
        """
        # If the directory is moved, the shard was given up; another one may then have its path.
        inode = _inode(directory)

        def may_continue() -> bool:
            return is_valid() and _inode(directory) == inode

        object_names = self._object_names(shard)
        existing = checkpoints_in(object_names)
        state = live_files(directory)
        key = (token, state.sequence)
        if existing and existing[-1] > key:
            newer = existing[-1][0]
            raise SupersededError(
                f"Not published: shard {shard} has a newer checkpoint, of token {newer}", newer
            )

        upload = Upload(self._objects, shard, token, may_continue)
        record = self._reusable_record(directory, set(state.lasting), object_names, upload)
        files = upload.publish_files(directory, state.lasting, record.files)
        files |= upload.publish_hosts(directory, record.files, hosts)
        # Files that the next checkpoint will not have are put into packs of their own.
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

        # The local record is written before the checkpoint. After a crash in between, the next
        # process can tell that its directory continues that checkpoint.
        checkpoints = [*(old for old in record.checkpoints if old in existing), key]
        record = msgspec.structs.replace(
            record, token=token, checkpoints=checkpoints, files=files, packs=packs
        )
        upload.check()
        record.write(directory)
        self._check_not_empty()
        upload.check()  # immediately before the write, as the step before may have taken long
        self._objects.write(checkpoint_name(shard, key), seal(published))
        with suppress(ObjectStoreError):  # if this fails, the next publication deletes them
            self._delete_unneeded(published, object_names)
        return state.sequence

    def _reusable_record(
        self, directory: Path, lasting: set[str], names: set[str], upload: Upload
    ) -> LocalRecord:
        """Return the record of *directory*, with only the pieces that can be used again.

        These are pieces of the files *lasting* and of host records, if they are in the store, which
        has the objects *names*, and in packs of which at least half is needed. Their objects get
        names with the token of the lease.
        """
        record = LocalRecord.read(directory)
        host_files = {name for name in record.files if name.startswith(f"{HOSTS}/")}
        record.files = {
            name: record.files[name] for name in record.files.keys() & (lasting | host_files)
        }

        # Only the leading pieces of a file can be used again, up to the first one that is gone.
        used_bytes: Counter[str] = Counter()
        for file in record.files.values():
            file.pieces = list(takewhile(lambda piece: piece.name in names, file.pieces))
            for piece in file.pieces:
                used_bytes[piece.name] += piece.size

        # A pack of which more than half is no longer needed is not used again.
        wasted = {name for name, size in record.packs.items() if 2 * used_bytes[name] < size}
        for file in record.files.values():
            file.pieces = list(takewhile(lambda piece: piece.name not in wasted, file.pieces))

        # Objects of an earlier lease are renamed, so that its holder cannot delete them.
        new_names = upload.rename(
            {piece.name for file in record.files.values() for piece in file.pieces}
        )
        for file in record.files.values():
            file.pieces = [
                msgspec.structs.replace(piece, name=new_names[piece.name])
                for piece in takewhile(lambda piece: piece.name in new_names, file.pieces)
            ]
        record.packs = {
            new_names[name]: size for name, size in record.packs.items() if name in new_names
        }
        return record

    def _delete_unneeded(self, published: Published, names: set[str]) -> None:
        """Delete the objects that neither *published* nor the checkpoint before it needs.

        *names* are all objects of the shard. Those with a newer token are not deleted.
        """
        shard = published.shard
        kept = {published.key}
        needed = published.objects
        # The previous checkpoint stays, as another drone may be fetching it.
        if older_keys := [key for key in checkpoints_in(names) if key < published.key]:
            previous = self._read_checkpoint(shard, older_keys[-1])
            if previous is None:
                return  # it is incomplete, so the objects that it needs are not known
            kept.add(previous.key)
            needed |= previous.objects
        needed |= {checkpoint_name(shard, key).rpartition("/")[2] for key in kept}

        unneeded = [name for name in names - needed if token_of(name) <= published.token]
        # Checkpoints are deleted before their objects.
        unneeded.sort(key=lambda name: not name.endswith(".json"))  # False, which is 0, comes first
        self._objects.delete(f"{folder_of(shard)}/{name}" for name in unneeded)

    # --- fetching

    def find_newest(self, shard: int) -> Published | None:
        """Return the newest checkpoint of *shard*, or None if it was never published."""
        # A checkpoint that was listed may be deleted before it is read. Then there is a newer one.
        for _ in range(_MAX_TRIES):
            checkpoints = checkpoints_in(self._object_names(shard))
            for key in reversed(checkpoints):
                if (checkpoint := self._read_checkpoint(shard, key)) is not None:
                    return checkpoint
            if not checkpoints:
                return None
        raise ObjectStoreError(
            f"HIVE_STORE {self._objects.name} has checkpoints of shard {shard} that cannot be read"
        )

    def _object_names(self, shard: int) -> set[str]:
        """Return the names of the objects of *shard*. ObjectStoreError if the store is empty."""
        self._check_not_empty()
        return self._objects.names(folder_of(shard))

    def _check_not_empty(self) -> None:
        """Raise ObjectStoreError if the store is empty, such as when it is not mounted.

        If an empty store were taken for the store of a new hive, shards would start over, and
        heartbeats would be written where no drone reads them.
        """
        if self._read_facts() is None:
            raise StoreAwayError(
                f"HIVE_STORE {self._objects.name} has no {_HIVE}: it is not mounted, or was emptied"
            )

    def _read_checkpoint(self, shard: int, key: tuple[int, int]) -> Published | None:
        """Read the checkpoint *key* of *shard*. Returns None if it is missing or incomplete."""
        name = checkpoint_name(shard, key)
        try:
            data = self._objects.read(name, 0, _MAX_JSON)
        except FileNotFoundError:
            return None
        # Without a seal, it is complete only if an earlier version wrote it.
        if has_good_seal(data) is None and not data.endswith(b"}"):
            return None
        checkpoint = self._decode_sealed(name, data, _as_published)
        if (checkpoint.shard, checkpoint.key) != (shard, key):
            raise self._objects.damage_error(name, "it contains another checkpoint")
        return checkpoint

    def fetch(
        self,
        published: Published,
        directory: Path,
        *,
        token: int,
        before: int,
        acknowledged: tuple[int, int] = (0, 0),
    ) -> Published | None:
        """Fetch the newest checkpoint of a shard into *directory*, to be used under *token*.

        Returns the checkpoint, or None if the directory already had it, with later logs.

        If the directory was last used under the token *before* and continues the newest checkpoint,
        it is kept as it is, because no other drone has held the shard since. Otherwise it is
        replaced atomically, and synced to disk.

        published: the newest checkpoint known.
        before: the token of the lease before.
        acknowledged: the key of a checkpoint with links that are stored nowhere else. Raises
            ObjectStoreError if only older checkpoints are left.
        """
        # The download, and the directory that it replaces. Both are deleted after a crash.
        new_path, old_path = (
            directory.with_name(directory.name + end) for end in (".tmp", ".old.tmp")
        )
        for _ in range(_MAX_TRIES):
            for path in (new_path, old_path):
                if path.exists():
                    shutil.rmtree(path)

            record = LocalRecord.read(directory)
            if record.token == before and max(published.key, acknowledged) in record.checkpoints:
                record.token = token
                record.write(directory)
                return None

            if published.key < acknowledged:
                lost_name = checkpoint_name(published.shard, acknowledged)
                raise ObjectStoreError(
                    f"HIVE_STORE {self._objects.name} has lost {lost_name}, and with it links that "
                    "are stored nowhere else: restore it, or give up these links "
                    "(docs/howto/several-machines.md)"
                )

            try:
                Download(self._objects, published).fetch(new_path, token)
            except FileNotFoundError as error:
                # The holder has published a newer checkpoint, and deleted objects of this one.
                newer = self.find_newest(published.shard)
                if newer is None or newer == published:
                    name = checkpoint_name(published.shard, published.key)
                    raise self._objects.damage_error(
                        name, "one of its objects is missing"
                    ) from error
                published = newer
            else:
                if directory.exists():
                    directory.rename(old_path)
                new_path.rename(directory)
                sync_path(directory.parent)
                if old_path.exists():
                    shutil.rmtree(old_path)
                return published
        raise ObjectStoreError(
            f"HIVE_STORE {self._objects.name}: checkpoints of shard {published.shard} are deleted "
            "faster than they can be fetched"
        )

    # --- what is in the store

    def _decode_sealed(
        self, name: str, data: bytes, convert: Callable[[Any], _Decoded]
    ) -> _Decoded:
        """Decode *data*, the sealed JSON of the object *name*, with *convert*.

        Raises ObjectStoreError if it is damaged or from a newer version.
        """
        is_seal_good = has_good_seal(data)  # None if there is no seal, as in format 1
        if is_seal_good is False:
            raise self._objects.damage_error(name, "checksum mismatch")
        try:
            content = _decode(data)
            if content["format"] > FORMAT and is_seal_good:
                raise ObjectStoreError(
                    f"HIVE_STORE {self._objects.name}: {name} has format {content['format']}, but "
                    f"this webcrawl reads only up to {FORMAT}: use the newer webcrawl that wrote it"
                )
            if content["format"] != 1 and not is_seal_good:
                raise self._objects.damage_error(name, "it has no checksum")
            return convert(content)
        except (UndecodableError, TypeError, KeyError) as error:
            raise self._objects.damage_error(name, str(error)) from error


def _inode(directory: Path) -> int:
    """Return the inode number of *directory*, or 0 if it does not exist."""
    try:
        return directory.stat().st_ino
    except FileNotFoundError:
        return 0


def _suffixes_name(data: bytes) -> str:
    """Return the name of the object with the public suffix list *data*."""
    return f"suffixes-{xxh3_64_hexdigest(data)}.dat"
