"""Conversion of the pickled Requests in a stopped job, for a hive that reads none: ``--convert``.

The queues stay as they are. For each pickled Request that waits the done log gets one in its new
form, to be queued by the next start, and the frontier's snapshot the key of the old one, which then
hides it, as that of a finished URL does. An outbox gets copies of its messages with Requests; the
pickled ones are sent too, and refused.
"""

from __future__ import annotations

from pickle import loads
from typing import TYPE_CHECKING, Final

import msgspec

from webcrawl.crawl.jobdir import Job, read_checkpoint
from webcrawl.crawl.plain_requests import NotPlainError, to_plain
from webcrawl.crawl.state_directory import shard_path
from webcrawl.errors import FatalError
from webcrawl.frontier import Entry, encode
from webcrawl.frontier.done_log import Requeue, done_log_files
from webcrawl.frontier.entry import decode, key
from webcrawl.frontier.finished import FinishedKeys
from webcrawl.frontier.snapshot import decode_snapshot
from webcrawl.frontier.view import FrontierView
from webcrawl.hive.messages import EntryMessage, MessageError, encode_entry
from webcrawl.hive.messages import decode as decode_message
from webcrawl.hive.outbox import Outbox
from webcrawl.jobs.check.mend_checkpoint import publish_state
from webcrawl.seen.seen_view import SeenView
from webcrawl.storage.atomic import make_directory
from webcrawl.storage.record_log import CorruptRecordError, RecordLog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from webcrawl.crawl.pickled_requests import PickledRequests
    from webcrawl.crawl.state_directory import SavedState

# Begins every pickle of these; no other form of a Request does.
_PICKLE: Final = b"\x80"
_TAKE_BYTES: Final = 1 << 20


class Converted(msgspec.Struct):
    """Counts of a conversion: Requests *converted*, and those *left*, which have no other form."""

    converted: int = 0
    left: int = 0


class Conversion:
    """Converts jobs one after the other; signs by *pickled* what has no plain form, if that can."""

    def __init__(self, pickled: PickledRequests) -> None:
        self._pickled = pickled
        self.counts = Converted()

    def convert(self, jobdir: Path) -> None:
        """Convert the job in *jobdir*. FatalError with one sentence if it is in use or damaged."""
        job = Job(path=jobdir)
        job.lock()
        try:
            checkpoint = read_checkpoint(jobdir)
            if checkpoint is None:
                raise FatalError(f"There is no crawl in JOBDIR {jobdir}: name another one.")
            for name, state in checkpoint.shards.items():
                self._convert_shard(shard_path(jobdir, name), state)
        except (CorruptRecordError, msgspec.DecodeError, OSError) as error:
            raise FatalError(
                f"JOBDIR {jobdir} cannot be converted ({error}): `scrapy job check --repair` it."
            ) from error
        finally:
            job.close()

    def _convert_shard(self, path: Path, state: SavedState) -> None:
        written: list[Path] = []
        if saved := state.snapshots.get("outbox"):
            written += self._convert_outbox(path / "outbox", saved)
        snapshot = decode_snapshot(state.snapshots["frontier"])
        found = [*self._waiting(path, state)]
        if not (found or written):
            return
        done = path / "frontier" / "done"
        number = snapshot.segment + len(done_log_files(done, snapshot.segment))
        new = done / f"{number:08d}.log"
        made = make_directory(done)
        with RecordLog.open(new, size=0) as log:
            for _, entry in found:
                log.append(msgspec.msgpack.encode([Requeue(encode(entry))]))
        hidden = FinishedKeys()
        hidden.add_bytes(snapshot.finished)
        hidden.add_all(name for name, _ in found)
        snapshot = msgspec.structs.replace(snapshot, finished=hidden.to_bytes())
        snapshots = {**state.snapshots, "frontier": msgspec.msgpack.encode(snapshot)}
        publish_state(path, state, snapshots, paths=[*written, new, done, *made])

    def _waiting(self, path: Path, state: SavedState) -> Iterator[tuple[int, Entry]]:
        """The keys of the pickled Requests of a shard, with their entries in the new form."""
        frontier = FrontierView(
            path=path / "frontier", snapshot=state.snapshots["frontier"], trust_done=state.trusted
        )
        finished = frontier.finished_keys()
        for found in frontier.entries(finished):
            yield from self._converted(found.entry)
        seen = SeenView(path=path / "seen", snapshot=state.snapshots["seen"])
        try:
            for one in seen.undecided():
                if one.payload and not finished.hides_entry(entry := decode(one.payload)):
                    yield from self._converted(entry)
        finally:
            seen.close()

    def _converted(self, entry: Entry) -> Iterator[tuple[int, Entry]]:
        """The key of *entry* and what takes its place; nothing if it stays."""
        if not entry.extra.startswith(_PICKLE):
            return
        try:
            parts = loads(entry.extra)  # noqa: S301  # the owner of the job asks for it
            try:
                extra = to_plain(parts, None)
            except NotPlainError as why:
                extra = self._pickled.dump(parts, why)
        except Exception:  # noqa: BLE001  # whatever the code raises that a pickle names
            self.counts.left += 1
            return
        self.counts.converted += 1
        yield key(entry), msgspec.structs.replace(entry, extra=extra)

    def _convert_outbox(self, path: Path, saved: bytes) -> list[Path]:
        """Append copies of the messages with pickled Requests; the files that were written."""
        outbox = Outbox(path=path)
        outbox.open(saved)
        try:
            copies: list[tuple[int, bytes, tuple[()]]] = []
            while batch := outbox.take(_TAKE_BYTES):
                for one in batch:
                    outbox.delivered(one, "0-0")
                    copies += [(one.target, data, ()) for data in self._copies(one.payload)]
            if copies:
                outbox.append_all(copies)
            return outbox.written() if copies else []
        finally:
            outbox.close()

    def _copies(self, payload: bytes) -> Iterator[bytes]:
        try:
            message = decode_message(payload)
        except MessageError:
            return
        if isinstance(message, EntryMessage):
            for _, entry in self._converted(message.entry):
                yield encode_entry(entry, message.name)
