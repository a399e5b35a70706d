"""Conversion of the pickled Requests of a stopped hive, whose drones read none: ``--convert``.

Each shard is fetched from HIVE_STORE, converted, and published as a newer checkpoint. Its queues
stay as they are: the frontier's snapshot gets the Requests in their new form, as if they had been
in process, and the keys of the old ones, which then hides these like finished URLs. An outbox gets
copies of its messages with Requests; the pickled ones are sent too, and refused.
"""

from __future__ import annotations

import shutil
from pickle import loads
from typing import TYPE_CHECKING, Final

import msgspec

from webcrawl.crawl.plain_requests import NotPlainError, to_plain
from webcrawl.crawl.state_directory import read_state
from webcrawl.errors import FatalError, HiveStoreError
from webcrawl.frontier import Entry, encode
from webcrawl.frontier.entry import decode, key
from webcrawl.frontier.finished import FinishedKeys
from webcrawl.frontier.snapshot import decode_snapshot
from webcrawl.frontier.view import FrontierView
from webcrawl.hive.messages import EntryMessage, MessageError, encode_entry
from webcrawl.hive.messages import decode as decode_message
from webcrawl.hive.outbox import Outbox
from webcrawl.hive.store import CheckpointStore, HiveFacts
from webcrawl.hosts.records.database import Database
from webcrawl.jobs.check.mend_checkpoint import publish_state
from webcrawl.seen.seen_view import SeenView
from webcrawl.storage.record_log import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from webcrawl.crawl.pickled_requests import PickledRequests
    from webcrawl.hive.checkpoint_files import Published

# Begins every pickle of these; no other form of a Request does.
_PICKLE: Final = b"\x80"
_TAKE_BYTES: Final = 1 << 20


class Converted(msgspec.Struct):
    """Counts of a conversion: Requests *converted*, and those *left*, which have no other form."""

    converted: int = 0
    left: int = 0


class Conversion:
    """Conversion of the hive in the store at *url*, by way of the directory *aside*.

    What has no plain form is signed by *pickled*, if that can.
    """

    def __init__(self, *, url: str, aside: Path, pickled: PickledRequests) -> None:
        self._store = CheckpointStore(url=url)
        self._aside = aside
        self._pickled = pickled
        self.counts = Converted()

    def run(self) -> Converted:
        """Convert all shards. FatalError with one sentence if the hive is not stopped, or damaged.
        Dying in the middle leaves some shards for the next time."""
        store = self._store
        try:
            facts = store.found(HiveFacts(shards=0, politeness_key=""), "", may_be_new=False)
            found = [one for n in range(facts.shards) if (one := store.newest(n)) is not None]
            if held := [one.shard for one in found if not one.released]:
                raise FatalError(
                    f"The shard {held[0]} of this hive was not given back: let the webcrawl that "
                    "wrote it go on and stop it with `scrapy hive stop`, then convert."
                )
            for one in found:
                self._convert(one)
        except (CorruptRecordError, HiveStoreError, msgspec.DecodeError, OSError) as error:
            raise FatalError(f"The hive cannot be converted: {error}.") from error
        finally:
            shutil.rmtree(self._aside, ignore_errors=True)
        return self.counts

    def _convert(self, published: Published) -> None:
        path, number, token = self._aside / "shard", published.shard, published.token
        self._store.fetch(published, path, token=token, before=0)
        state = read_state(path)
        assert state is not None, "the checkpoint has it"
        snapshots, written = self._converted(path, state.snapshots)
        if snapshots == state.snapshots:
            return
        publish_state(path, state, snapshots, paths=written)
        self._store.publish(
            path,
            shard=number,
            token=token,
            drone=published.drone,
            released=True,
            copy_hosts=Database(path=path / "hosts").copy_to,
        )

    def _converted(
        self, path: Path, snapshots: Mapping[str, bytes]
    ) -> tuple[dict[str, bytes], list[Path]]:
        """The new *snapshots* of the shard in *path*, and the files that were written."""
        new = dict(snapshots)
        written: list[Path] = []
        if saved := snapshots.get("outbox"):
            new["outbox"], written = self._outbox(path / "outbox", saved)
        found = [*self._waiting(path, snapshots)]
        if found:
            state = decode_snapshot(snapshots["frontier"])
            hidden = FinishedKeys()
            hidden.add_bytes(state.finished)
            hidden.add_all(name for name, _ in found)
            leased = [*state.leased, *(encode(entry) for _, entry in found)]
            state = msgspec.structs.replace(state, finished=hidden.to_bytes(), leased=leased)
            new["frontier"] = msgspec.msgpack.encode(state)
        return new, written

    def _waiting(self, path: Path, snapshots: Mapping[str, bytes]) -> Iterator[tuple[int, Entry]]:
        """The keys of the pickled Requests of a shard, with their entries in the new form."""
        frontier = FrontierView(
            path=path / "frontier", snapshot=snapshots["frontier"], trust_done=False
        )
        finished = frontier.finished_keys()
        for found in frontier.entries(finished):
            yield from self._renewed(found.entry)
        seen = SeenView(path=path / "seen", snapshot=snapshots["seen"])
        try:
            for one in seen.undecided():
                if one.payload and not finished.hides_entry(entry := decode(one.payload)):
                    yield from self._renewed(entry)
        finally:
            seen.close()

    def _outbox(self, path: Path, saved: bytes) -> tuple[bytes, list[Path]]:
        """The snapshot of the outbox with copies of its messages that have pickled Requests, and
        the files that were written; *saved* if there are none."""
        outbox = Outbox(path=path)
        outbox.open(saved)
        try:
            copies: list[tuple[int, bytes, tuple[()]]] = []
            while batch := outbox.take(_TAKE_BYTES):
                for one in batch:
                    outbox.delivered(one, "0-0")
                    copies += [(one.target, data, ()) for data in self._copies(one.payload)]
            if not copies:
                return saved, []
            outbox.append_all(copies)
            return outbox.snapshot(), outbox.written()
        finally:
            outbox.close()

    def _copies(self, payload: bytes) -> Iterator[bytes]:
        try:
            message = decode_message(payload)
        except MessageError:
            return
        if isinstance(message, EntryMessage):
            for _, entry in self._renewed(message.entry):
                yield encode_entry(entry, message.name)

    def _renewed(self, entry: Entry) -> Iterator[tuple[int, Entry]]:
        """The key of *entry* and what takes its place; nothing if it stays."""
        if not entry.extra.startswith(_PICKLE):
            return
        try:
            parts = loads(entry.extra)  # noqa: S301  # the owner of the hive asks for it
            try:
                extra = to_plain(parts, None)
            except NotPlainError as why:
                extra = self._pickled.dump(parts, why)
        except Exception:  # noqa: BLE001  # whatever the code raises that a pickle names
            self.counts.left += 1
            return
        self.counts.converted += 1
        yield key(entry), msgspec.structs.replace(entry, extra=extra)
