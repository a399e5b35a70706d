"""Conversion of the pickled Requests of a stopped hive, whose drones read none: ``--convert``.

Each shard is fetched from HIVE_STORE, converted, and published as a newer checkpoint. Its queues
stay as they are: the frontier's snapshot gets the Requests in their new form, as if they had been
in process, and the keys of the old ones, which then hides these like finished URLs. An outbox gets
copies of its messages with Requests; the pickled ones are sent too, and refused.
"""

from __future__ import annotations

import shutil
from contextlib import closing
from pickle import loads
from typing import TYPE_CHECKING, Final

import msgspec

from webcrawl.crawl.job.state_directory import read_state
from webcrawl.crawl.lease.plain_requests import NotPlainError, to_plain
from webcrawl.errors import FatalError, ObjectStoreError
from webcrawl.frontier import Entry, encode
from webcrawl.frontier.entry import decode, key
from webcrawl.frontier.snapshot import decode_snapshot
from webcrawl.frontier.view import FrontierView
from webcrawl.hive.bus.messages import EntryMessage, encode_entry
from webcrawl.hive.bus.messages import decode as decode_message
from webcrawl.hive.bus.outbox import Outbox
from webcrawl.hive.store.store import CheckpointStore, HiveFacts
from webcrawl.hosts.records.database import Database
from webcrawl.jobs.check.mend_checkpoint import publish_state
from webcrawl.seen.seen_view import SeenView
from webcrawl.storage.record_log import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from webcrawl.crawl.lease.pickled_requests import PickledRequests
    from webcrawl.hive.store.checkpoint_files import Published

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
        self._counts = Converted()

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
        except (CorruptRecordError, ObjectStoreError, msgspec.DecodeError, OSError) as error:
            raise FatalError(f"The hive cannot be converted: {error}.") from error
        finally:
            shutil.rmtree(self._aside, ignore_errors=True)
        return self._counts

    def _convert(self, published: Published) -> None:
        path, token = self._aside / "shard", published.token
        self._store.fetch(published, path, token=token, before=0)
        state = read_state(path)
        assert state is not None, "the checkpoint has it"
        frontier = self._frontier(path, state.snapshots)
        outbox, written = self._outbox(path / "outbox", state.snapshots["outbox"])
        snapshots = {**state.snapshots, "frontier": frontier, "outbox": outbox}
        if snapshots == state.snapshots:
            return
        publish_state(path, state, snapshots, paths=written)
        hosts = Database(path=path / "hosts")
        hosts.open()
        with closing(hosts):
            self._store.publish(
                path,
                shard=published.shard,
                token=token,
                drone=published.drone,
                released=True,
                hosts=hosts,
            )

    def _frontier(self, path: Path, snapshots: Mapping[str, bytes]) -> bytes:
        """The new snapshot of the frontier of the shard in *path*; the same if nothing changes."""
        saved = snapshots["frontier"]
        view = FrontierView(path=path / "frontier", snapshot=saved, trust_done=False)
        finished = view.finished_keys()
        waiting = [one.entry for one in view.entries(finished)]
        with closing(SeenView(path=path / "seen", snapshot=snapshots["seen"])) as seen:
            undecided = [decode(one.payload) for one in seen.undecided() if one.payload]
        waiting += [entry for entry in undecided if not finished.hides_entry(entry)]
        renewed = self._renewed(waiting)
        if not renewed:
            return saved
        finished = view.finished_keys()  # those that were met have gone
        finished.add_all(key(old) for old, _ in renewed)
        state = decode_snapshot(saved)
        leased = [*state.leased, *(encode(new) for _, new in renewed)]
        return msgspec.msgpack.encode(
            msgspec.structs.replace(state, finished=finished.to_bytes(), leased=leased)
        )

    def _outbox(self, path: Path, saved: bytes) -> tuple[bytes, list[Path]]:
        """The snapshot of the outbox with copies of its messages that have pickled Requests, and
        the files that were written; *saved* if there are none."""
        with closing(Outbox(path=path)) as outbox:
            outbox.open(saved)
            copies: list[tuple[int, bytes, tuple[()]]] = []
            while batch := outbox.take(_TAKE_BYTES):
                for one in batch:
                    outbox.delivered(one, "0-0")
                    message = decode_message(one.payload)
                    if isinstance(message, EntryMessage):
                        for _, new in self._renewed([message.entry]):
                            copies.append((one.target, encode_entry(new, message.name), ()))
            if not copies:
                return saved, []
            outbox.append_all(copies)
            return outbox.snapshot(), outbox.written()

    def _renewed(self, entries: Iterable[Entry]) -> list[tuple[Entry, Entry]]:
        """Those of *entries* with pickled Requests, and what takes their places."""
        renewed = []
        for entry in entries:
            if not entry.extra.startswith(_PICKLE):
                continue
            try:
                parts = loads(entry.extra)  # noqa: S301  # the owner of the hive asks for it
                try:
                    extra = to_plain(parts, None)
                except NotPlainError as why:
                    extra = self._pickled.dump(parts, why)
            except Exception:  # noqa: BLE001  # whatever the code raises that a pickle names
                self._counts.left += 1
                continue
            self._counts.converted += 1
            renewed.append((entry, msgspec.structs.replace(entry, extra=extra)))
        return renewed
