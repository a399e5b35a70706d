"""Inbox: how far one shard has read its stream.

A part of the shard, so its position is saved with what came before it. What is in the stream up to
a published position may go. The IDs of a stream mean something in one incarnation of Redis' data
only (see sender.py): in another one the stream is read from its beginning, and what comes twice the
eliminator knows.

A crawl that is limited to the sites of its seeds refuses links before it knows all of them. After
Redis has lost something links may overtake seeds. So until a shard knows all of its seeds it passes
everything else over, and then begins again where it was.

What does not belong to the shard is refused and counted: its frontier would fetch it by rules and
records that another shard has.

Its snapshot, in msgpack::

    snapshot := [version, incarnation, position, knows all seeds]
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from webcrawl.configuration.decoding import UndecodableError, msgpack_decoder
from webcrawl.crawl.links.link_intake import LinkBatch
from webcrawl.hive.bus.messages import EntryMessage, LinkedHosts, MessageError, SeedsSent, decode
from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError, unpack_many
from webcrawl.urls import host_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from webcrawl.crawl.shard.shard import Shard
    from webcrawl.hive.bus.messages import Message

_VERSION = 1
#: The stats that count what is refused: no message; of another shard.
GARBAGE = "hive/garbage"
FOREIGN = "hive/foreign"
#: The position before all entries of a stream.
START = "0-0"


class _InboxSnapshot(msgspec.Struct, array_like=True, frozen=True):
    """The place up to which all is in the shard."""

    version: int = _VERSION
    incarnation: str = ""
    position: str = START
    knows_all_seeds: bool = False


_decode = msgpack_decoder(_InboxSnapshot)


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Inbox:
    """The inbox of *shard*, on *path* for messages of errors. Belongs to the reactor's thread.

    *number_of* gives the number of a host's shard.
    """

    shard: Shard
    path: Path
    number_of: Callable[[str], int]
    incarnation: str = ""
    #: The ID of the stream's last entry that is in the shard with all before it.
    position: str = START
    #: That of the last one that was read: ``position``, unless the shard waits for seeds.
    cursor: str = START
    knows_all_seeds: bool = False
    is_open: bool = False
    _passed_over: bool = False  # something behind ``position``
    _prepared: _InboxSnapshot = field(default_factory=_InboxSnapshot)

    def open(self, saved: bytes | None) -> None:
        """Take up the state *saved*. CorruptRecordError, NewerFormatError."""
        state = _InboxSnapshot()
        if saved is not None:
            try:
                state = _decode(saved)
            except UndecodableError as error:
                raise CorruptRecordError(self.path, 0, f"its snapshot: {error}") from error
            if state.version > _VERSION:
                raise NewerFormatError(self.path, state.version, _VERSION)
        self._prepared = state
        self.incarnation, self.position = state.incarnation, state.position
        self.cursor = self.position
        self.knows_all_seeds = state.knows_all_seeds
        self.is_open = True

    def close(self) -> None:
        """Nothing is taken in any more. Idempotent."""
        self.is_open = False

    def snapshot(self) -> bytes:
        """Its state."""
        self._prepared = _InboxSnapshot(
            _VERSION, self.incarnation, self.position, self.knows_all_seeds
        )
        return msgspec.msgpack.encode(self._prepared)

    def written(self) -> list[Path]:
        """It has no files."""
        return []

    def forget(self) -> None:
        """It has no files."""

    def prepared(self, incarnation: str) -> str:
        """The position in the last snapshot if that is of *incarnation*, else START. To be
        acknowledged when that snapshot was published."""
        state = self._prepared
        return state.position if state.incarnation == incarnation else START

    def begin(self, incarnation: str) -> None:
        """The stream is read in *incarnation* from now on."""
        if self.incarnation != incarnation:
            self.incarnation, self.position = incarnation, START
        self.cursor = self.position
        self._passed_over = False

    @property
    def is_full(self) -> bool:
        """Whether nothing should be taken in now."""
        return self.shard.eliminator.is_full

    def take_in(self, entries: Sequence[tuple[str, bytes]]) -> tuple[int, Mapping[str, list[str]]]:
        """Take in *entries* of the stream, the next ones after ``cursor``, with their IDs.

        Returns the number of links, and what was refused, by its stat: of garbage why it is no
        message, of foreign things the hosts.

        Durable when it returns, or from the checkpoint on that saves the position. On OSError and
        FatalError, as ``LinkSink.submit`` raises them, the position stays, and they may come again.
        """
        links: list[LinkBatch] = []
        refused: dict[str, list[str]] = {GARBAGE: [], FOREIGN: []}
        count = 0
        cursor, position, passed_over = self.cursor, self.position, self._passed_over
        self.cursor, self._passed_over = position, False  # unless all is taken in
        for stream_id, packed in entries:
            begins_again = False
            for whole in _messages(packed, refused[GARBAGE]):
                message = self._accepted(whole, refused)
                if message is None:
                    continue
                if isinstance(message, LinkBatch) and message.seeds is not None:
                    self.shard.submit(message)
                    count += len(message.links)
                elif isinstance(message, SeedsSent):
                    self.knows_all_seeds = True
                    self.shard.seeds_are_known()
                    # What was passed over is to be read now.
                    begins_again |= passed_over
                    passed_over = False
                elif self.shard.settings.needs_all_seeds and not self.knows_all_seeds:
                    passed_over = True
                elif isinstance(message, LinkBatch):
                    links.append(message)
                    count += len(message.links)
                elif isinstance(message, LinkedHosts):
                    for domain, hosts in message.hosts.items():
                        self.shard.intake.note_linked(domain, hosts)
                else:
                    self.shard.enqueue(message.entry, message.name)
            if begins_again:
                cursor = position
                break
            cursor = stream_id
            if not passed_over:
                position = stream_id
        self.shard.intake.submit_all(links)
        self.cursor, self.position, self._passed_over = cursor, position, passed_over
        return count, refused

    def _accepted(self, message: Message, refused: Mapping[str, list[str]]) -> Message | None:
        """The part of *message* that is the shard's and may be kept, None without; *refused* gets
        the rest."""
        match message:
            case LinkBatch(hosts=hosts, seeds=seeds):
                at = self._own(hosts, refused)
                if seeds is not None:
                    return message.only(at, self._own(seeds.hosts, refused))
                return message if len(at) == len(hosts) else message.only(at)
            case LinkedHosts(linked):
                return LinkedHosts(
                    {
                        domain: [hosts[i] for i in own]
                        for domain, hosts in linked.items()
                        if (own := self._own(hosts, refused))
                    }
                )
            case EntryMessage(entry):
                return message if self._own((host_of(entry.url),), refused) else None
        return message

    def _own(self, hosts: Sequence[str], refused: Mapping[str, list[str]]) -> list[int]:
        """The indexes of those of *hosts* that are the shard's."""
        number, number_of = self.shard.number, self.number_of
        at = [i for i, host in enumerate(hosts) if number_of(host) == number]
        if len(at) < len(hosts):
            refused[FOREIGN] += [host for host in hosts if number_of(host) != number]
        return at


def _messages(packed: bytes, garbage: list[str]) -> Iterator[Message]:
    """The messages in an entry; *garbage* gets what is said of things that are none."""
    try:
        messages = unpack_many(packed)
    except ValueError as error:
        garbage.append(str(error))
        return
    for data in messages:
        try:
            yield decode(data)
        except MessageError as error:
            garbage.append(str(error))
