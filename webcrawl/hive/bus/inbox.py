"""Inbox: the position up to which one shard has read its stream.

The inbox is part of the shard, so its position is saved together with the messages up to it. Stream
entries up to a published position may be deleted. The IDs of a stream are valid only in one
incarnation of the data in Redis (see sender.py). In another incarnation, the stream is read from
its beginning, and the eliminator discards duplicates.

A crawl that is limited to the sites of its seeds would refuse links that arrive before the seeds.
After Redis has lost data, that may happen. So until such a shard knows all of its seeds, it skips
all other messages, and then reads them again.

Messages for other shards are refused and counted, because only the other shard has the rules and
records of those hosts.

The snapshot of an inbox, in msgpack::

    snapshot := [version, incarnation, position, knows all seeds]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from webcrawl.configuration.decoding import UndecodableError, msgpack_decoder
from webcrawl.crawl.links.link_intake import LinkBatch
from webcrawl.crawl.shard.shard import Shard
from webcrawl.hive.bus.messages import (
    EntryMessage,
    LinkedHosts,
    Message,
    SeedsSent,
    SubresourceMessage,
    decode,
)
from webcrawl.hive.bus.snapshots import VERSION, Snapshot, parse_snapshot
from webcrawl.storage.record_log import unpack_many
from webcrawl.urls import host_of

#: The stats that count refused messages: invalid ones, and those for another shard.
GARBAGE = "hive/garbage"
FOREIGN = "hive/foreign"
#: The position before all entries of a stream.
START = "0-0"


class _InboxSnapshot(Snapshot, frozen=True):
    """Saved state: all messages up to *position* are in the shard."""

    incarnation: str = ""
    position: str = START
    knows_all_seeds: bool = False


_NOTHING = _InboxSnapshot(VERSION)  # the state before all messages
_decode = msgpack_decoder(_InboxSnapshot)


@dataclass(slots=True, kw_only=True, eq=False)
class Inbox:
    """Inbox of *shard*, to be used only in the reactor's thread.

    *path* is for error messages. *number_of* returns the number of the shard to which a host
    belongs. *on_subresource* is called with each message about a subresource.
    """

    shard: Shard
    path: Path
    number_of: Callable[[str], int]
    on_subresource: Callable[[SubresourceMessage], object] = lambda _: None
    incarnation: str = ""
    #: The ID of a stream entry; all entries up to it are in the shard.
    position: str = START
    #: The ID of the last entry read; equals ``position`` unless the shard waits for seeds.
    cursor: str = START
    knows_all_seeds: bool = False
    is_open: bool = False
    _has_skipped: bool = False  # whether messages after ``position`` were skipped
    _snapshot: _InboxSnapshot = _NOTHING

    def open(self, saved: bytes | None) -> None:
        """Restore the snapshot *saved*, if given. Raises CorruptRecordError or NewerFormatError."""
        state = _NOTHING if saved is None else parse_snapshot(_decode, saved, self.path)
        self._snapshot = state
        self.incarnation = state.incarnation
        self.position = state.position
        self.cursor = self.position
        self.knows_all_seeds = state.knows_all_seeds
        self.is_open = True

    def close(self) -> None:
        """Accept no more messages. Idempotent."""
        self.is_open = False

    def snapshot(self) -> bytes:
        """Return the current state, to be saved with a checkpoint."""
        self._snapshot = _InboxSnapshot(
            VERSION, self.incarnation, self.position, self.knows_all_seeds
        )
        return msgspec.msgpack.encode(self._snapshot)

    def written(self) -> list[Path]:
        """Return no paths, because an inbox has no files."""
        return []

    def forget(self) -> None:
        """Do nothing, because an inbox has no files."""

    def saved_position(self, incarnation: str) -> str:
        """Return the position in the last snapshot.

        The result is START if that snapshot belongs to a different *incarnation*. The position is
        acknowledged when the snapshot has been published.
        """
        state = self._snapshot
        return state.position if state.incarnation == incarnation else START

    def begin(self, incarnation: str) -> None:
        """Read the stream from the saved position, or from its beginning in a new *incarnation*."""
        if self.incarnation != incarnation:
            self.incarnation = incarnation
            self.position = START
        self.cursor = self.position
        self._has_skipped = False

    @property
    def is_full(self) -> bool:
        """Whether the shard cannot accept messages at the moment."""
        return self.shard.eliminator.is_full

    def take_in(self, entries: Sequence[tuple[str, bytes]]) -> tuple[int, Mapping[str, list[str]]]:
        """Accept the next *entries* of the stream after ``cursor``, each an ID and its messages.

        Returns the number of links, and what was refused, by stat: the errors of invalid messages,
        and the hosts of messages for other shards.

        When this returns, the entries are durable, or will be with the checkpoint that saves the
        position. After an OSError or FatalError of ``LinkSink.submit`` the position is unchanged,
        so the entries are read again.
        """
        links: list[LinkBatch] = []
        refused: dict[str, list[str]] = {GARBAGE: [], FOREIGN: []}
        link_count = 0
        cursor = self.cursor
        position = self.position
        has_skipped = self._has_skipped
        # The attributes get the new values at the end. If an error is raised before, they say that
        # all entries after the position must be read again.
        self.cursor = position
        self._has_skipped = False
        for stream_id, packed_messages in entries:
            should_reread = False
            for received in _decode_messages(packed_messages, refused[GARBAGE]):
                message = self._accept(received, refused)
                if message is None:
                    continue

                # Seeds and their end are always read. Other messages may have to wait for them.
                if isinstance(message, LinkBatch) and message.seeds is not None:
                    self.shard.submit(message)
                    link_count += len(message.links)
                elif isinstance(message, SeedsSent):
                    self.knows_all_seeds = True
                    self.shard.feeder.has_all_seeds = True
                    # Messages that were skipped until now can be read.
                    should_reread |= has_skipped
                    has_skipped = False
                elif self.shard.settings.needs_all_seeds and not self.knows_all_seeds:
                    has_skipped = True
                elif isinstance(message, LinkBatch):
                    links.append(message)
                    link_count += len(message.links)
                else:
                    self._process(message)

            # The next read begins with the first skipped entry.
            if should_reread:
                cursor = position
                break
            cursor = stream_id
            # The position stays before the first skipped entry.
            if not has_skipped:
                position = stream_id

        self.shard.intake.submit_all(links)
        self.cursor = cursor
        self.position = position
        self._has_skipped = has_skipped
        return link_count, refused

    def _process(self, message: LinkedHosts | EntryMessage | SubresourceMessage) -> None:
        """Pass *message* on to the shard or, about a subresource, to ``on_subresource``."""
        match message:
            case LinkedHosts(linked):
                for domain, hosts in linked.items():
                    self.shard.intake.note_linked(domain, hosts)
            case EntryMessage(entry, name):
                self.shard.enqueue(entry, name)
            case SubresourceMessage():
                self.on_subresource(message)

    def _accept(self, message: Message, refused: Mapping[str, list[str]]) -> Message | None:
        """Return the part of *message* that is for this shard, or None.

        Hosts of other shards are added to *refused*.
        """
        match message:
            case LinkBatch(hosts=hosts, seeds=seeds):
                own_indexes = self._own_indexes(hosts, refused)
                if seeds is not None:
                    return message.select(own_indexes, self._own_indexes(seeds.hosts, refused))
                return message if len(own_indexes) == len(hosts) else message.select(own_indexes)
            case LinkedHosts(linked):
                return LinkedHosts(
                    {
                        domain: [hosts[index] for index in indexes]
                        for domain, hosts in linked.items()
                        if (indexes := self._own_indexes(hosts, refused))
                    }
                )
            case EntryMessage(entry):
                return message if self._own_indexes((host_of(entry.url),), refused) else None
            case SubresourceMessage(url):
                return message if self._own_indexes((host_of(url),), refused) else None
        return message

    def _own_indexes(self, hosts: Sequence[str], refused: Mapping[str, list[str]]) -> list[int]:
        """Return the indexes of the *hosts* of this shard; add all other hosts to *refused*."""
        number = self.shard.number
        number_of = self.number_of
        own_indexes = [index for index, host in enumerate(hosts) if number_of(host) == number]
        if len(own_indexes) < len(hosts):
            refused[FOREIGN] += [host for host in hosts if number_of(host) != number]
        return own_indexes


def _decode_messages(packed: bytes, garbage: list[str]) -> Iterator[Message]:
    """Yield the messages in *packed*, an entry; add the errors of invalid ones to *garbage*."""
    try:
        messages = unpack_many(packed)
    except ValueError as error:
        garbage.append(str(error))
        return
    for data in messages:
        try:
            yield decode(data)
        except UndecodableError as error:
            garbage.append(str(error))
