"""Checkpoint store of a hive: HIVE_STORE, from where any drone can go on with any shard.

In the store::

    hive.json                            what holds for the whole hive
    suffixes-<hash>.dat                  its public suffix list
    alive/<drone>                        a counter of a drone that cannot reach Redis
    shards/NN/                           checkpoints of shard NN, see checkpoint_files.py

A checkpoint is written when all its objects are, and the newest is that with the highest token,
then the highest sequence. Objects never change. The two invariants of the tokens:

* A checkpoint names only objects of its own token. Whoever goes on with a shard gives the objects
  new names with its first checkpoint: links in a directory, copies within an object store.
* Who publishes deletes only what is of its own token or an older one.

So a drone that has lost its lease and does not know it, however long it was stopped and at which
step, neither hides nor breaks a checkpoint of who holds the shard now.

Each publication uploads what is new: bytes appended to files, new files, and what was logged of
hosts since their records were copied, or sometimes another copy. The last two checkpoints stay, so
a fetch has the time between two of them; one that meets a deletion begins again with the newer
checkpoint. Objects of which more than half is not needed any more are not used again, and so the
store has at most about twice what the shards have.
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
# How often a fetch or a look begins again because what it found was deleted meanwhile.
_TRIES = 10
# Of JSON: a shard has thousands of files, each of a few hundred bytes here.
_MAX_JSON = 1 << 28
_HIVE = "hive.json"
_Found = TypeVar("_Found")
_decode = json_decoder(dict[str, Any])


class HiveFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of a hive that never change.

    shards: HIVE_SHARDS. politeness_key: POLITENESS_KEY. born: names the Redis in which the hive was
    begun. suffixes: the object that has the public suffix list; ``found`` fills it in. seed: that
    of all jobs of the hive (hash_seed.py), 0 if it was begun before 2026-11-24.
    """

    format: int = FORMAT
    shards: int
    politeness_key: str
    born: str = ""
    suffixes: str = ""
    seed: Annotated[int, msgspec.Meta(ge=0)] = 0


_as_facts, _as_published = converter(HiveFacts), converter(Published)


class Fetched(NamedTuple):
    """The checkpoint in a directory; *in_place*: it had that already, and its logs are good."""

    published: Published
    in_place: bool


class CheckpointStore:
    """The store at *url*: a directory, or what fsspec reaches.

    All calls block: for threads; of one shard one at a time. They raise ObjectStoreError with one
    sentence when the store cannot be used, OSError of the shard's own disk.
    """

    def __init__(self, *, url: str, pack_bytes: int = _PACK_BYTES) -> None:
        self._objects = ObjectStore(url)
        self._pack_bytes = pack_bytes
        self._beats = count(1)

    # --- the hive

    def found(self, facts: HiveFacts, suffixes: str, *, may_be_new: bool = True) -> HiveFacts:
        """The facts of the hive: *facts* and the list *suffixes* if it is a new one, else what the
        first drone has written. ObjectStoreError for a new one that may not be."""
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
            raise ObjectStoreError(f"HIVE_STORE {self._objects.name} does not keep what is written")
        directory = self._objects.directory
        if directory is not None and restrict(directory / _HIVE):  # of an earlier version
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
        """The public suffix list of the hive with *facts*, which ``found`` returned."""
        name = facts.suffixes
        try:
            data = self._objects.read(name)
        except FileNotFoundError as error:
            raise self._objects.damaged(name, "no public suffix list") from error
        if name != _suffixes_name(data):
            raise self._objects.damaged(name, "checksum mismatch")
        return data.decode("utf-8")

    def beat(self, drone: str) -> None:
        """Show that *drone* is alive, for who cannot see it in Redis."""
        self._check()
        self._objects.write(f"alive/{drone}", b"%d" % next(self._beats))

    def alive(self, drones: Iterable[str]) -> dict[str, str]:
        """The present counter of each of *drones* that has one."""
        found = {}
        for drone in drones:
            with suppress(FileNotFoundError):
                found[drone] = self._objects.read(f"alive/{drone}").decode("ascii", "replace")
        return found

    def gone(self, drone: str) -> None:
        """*drone* has ended, or is seen in Redis again."""
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
        go_on: Callable[[], bool] = lambda: True,
    ) -> int:
        """Make the live state in *directory* the newest checkpoint of *shard*; its sequence. When
        it fails the one before stays the newest.

        The shard may go on meanwhile, but for its next checkpoint: nothing that the live state
        names may be deleted. *go_on* is False when the lease is not good any more. Raises
        SupersededError then, when there is a newer checkpoint, and when another directory is in the
        place of *directory*; CorruptRecordError.
        """
        inode = _inode(directory)

        def is_good() -> bool:
            return go_on() and _inode(directory) == inode

        names = self._names(shard)
        older = checkpoints_in(names)
        state = live_files(directory)
        key = (token, state.sequence)
        if older and older[-1] > key:
            raise SupersededError(
                f"Shard {shard} has a newer checkpoint, of token {older[-1][0]}: nothing published"
            )
        upload = Upload(self._objects, shard, token, pack_bytes=self._pack_bytes, go_on=is_good)
        record = self._usable(directory, set(state.lasting), names, upload)
        files = upload.files(directory, state.lasting, record.files)
        files |= upload.hosts(directory, record.files, hosts)
        # What the next checkpoint will not have lies apart from what it will.
        upload.flush()
        files |= upload.files(directory, state.passing, None)
        upload.flush()
        self._objects.settle(folder_of(shard))
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
        # Before the checkpoint: a process that dies then must know it for its own.
        checkpoints = [*(one for one in record.checkpoints if one in older), key]
        record = msgspec.structs.replace(
            record, token=token, checkpoints=checkpoints, files=files, packs=packs
        )
        upload.check()
        record.write(directory)
        upload.check()
        self._objects.write(checkpoint_name(shard, key), sealed(published))
        with suppress(ObjectStoreError):  # it is published; the next time
            self._delete_older(published, names)
        return state.sequence

    def _usable(
        self, directory: Path, lasting: set[str], names: set[str], upload: Upload
    ) -> LocalRecord:
        """The record of the files *lasting* in *directory*, and of host records: the pieces that
        are among *names* and in packs that are worth it, under names of the lease's own token."""
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
        new = upload.renamed(
            {piece.name for file in record.files.values() for piece in file.pieces}
        )
        for file in record.files.values():
            file.pieces = [
                msgspec.structs.replace(piece, name=new[piece.name])
                for piece in takewhile(lambda piece: piece.name in new, file.pieces)
            ]
        record.packs = {new[name]: size for name, size in record.packs.items() if name in new}
        return record

    def _delete_older(self, published: Published, names: set[str]) -> None:
        """Delete what of *names* neither *published* nor the checkpoint before it needs, and is of
        no newer token."""
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
        # No checkpoint is there without its objects.
        gone.sort(key=lambda name: not name.endswith(".json"))
        self._objects.delete(f"{folder_of(shard)}/{name}" for name in gone)

    # --- fetching

    def newest(self, shard: int) -> Published | None:
        """The newest checkpoint of *shard*; None when there was never one."""
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
        """The names of the objects of *shard*."""
        names = self._objects.names(folder_of(shard))
        if not checkpoints_in(names):
            self._check()
        return names

    def _check(self) -> None:
        """ObjectStoreError for a directory that is not mounted. It must not pass for the store of a
        new hive, or shards would begin anew, and drones show themselves where nobody looks."""
        if self._facts() is None:
            raise ObjectStoreError(
                f"HIVE_STORE {self._objects.name} has no {_HIVE}: it is not mounted, or was emptied"
            )

    def _read(self, shard: int, key: tuple[int, int]) -> Published | None:
        """The checkpoint *key*; None when it is not there, or only its beginning."""
        name = checkpoint_name(shard, key)
        try:
            data = self._objects.read(name, 0, _MAX_JSON)
        except FileNotFoundError:
            return None
        if has_good_seal(data) is None and not data.endswith(b"}"):
            return None
        found = self._decoded(name, data, _as_published)
        if (found.shard, found.key) != (shard, key):
            raise self._objects.damaged(name, "it is another checkpoint")
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
        """Bring the newest checkpoint of a shard into *directory*, which has then nothing else and
        is used under *token*; *published* is the newest that is known.

        *before* is the token that the lease was taken over from. The directory is left as it is if
        it was used under that one and goes on from the newest checkpoint: nobody has held the shard
        since. Otherwise what was in it is deleted, and it appears at once, synced.

        *acknowledged* is the key of a checkpoint whose links are nowhere else any more:
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
                    "nowhere else: bring it back, or give them up (docs/hive.md)"
                )
            try:
                Download(self._objects, published, self._pack_bytes).bring(aside, token)
            except FileNotFoundError as error:
                newer = self.newest(published.shard)
                if newer is None or newer == published:
                    name = checkpoint_name(published.shard, published.key)
                    raise self._objects.damaged(name, "one of its objects is not there") from error
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
                    f"HIVE_STORE {self._objects.name}: {name} has format {found['format']}, this "
                    f"webcrawl reads up to {FORMAT}: use the newer webcrawl that wrote it"
                )
            if found["format"] != 1 and not is_good:
                raise self._objects.damaged(name, "it has no checksum")
            return converted(found)
        except (UndecodableError, TypeError, KeyError) as error:
            raise self._objects.damaged(name, str(error)) from error


def _inode(directory: Path) -> int:
    """The number of *directory*; 0 if it is not there."""
    try:
        return directory.stat().st_ino
    except FileNotFoundError:
        return 0


def _suffixes_name(data: bytes) -> str:
    return f"suffixes-{xxh3_64_hexdigest(data)}.dat"
