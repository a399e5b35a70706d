"""The frontier's snapshot: the part of its state that is not in its files.

Created and restored by the frontier, published by its caller. The invariants: all times are epoch
seconds and all entries are encoded, so that a snapshot means the same to every process. It shows
one moment, although long parts are encoded in pieces while the frontier keeps working.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from webcrawl.configuration.decoding import Seconds, UndecodableError, msgpack_decoder
from webcrawl.storage.fifo import FifoSnapshot  # noqa: TC001 - msgspec reads the annotation
from webcrawl.storage.record_log import NewerFormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from webcrawl.frontier.done_log import Finish

# Version 6 (webcrawl 0.1) has no *unlogged_until*, 7 no compressed frames of queues, 8 no *due*.
VERSION = 9
_FIRST_VERSION = 6

# Size of a piece in bytes. Encoding one of the shortest queues takes 3 ms (2026-11, development
# machine).
_PIECE = 1 << 18
_encoder = msgspec.msgpack.Encoder()

#: A URL counts as fresh if it was answered within this many days.
FRESH_DAYS = 7
_DAY = 86_400.0


class Series(NamedTuple):
    """A long part of a snapshot: *length* *members* as of one moment, encoded later.

    Iterating raises RuntimeError once a later snapshot has begun.
    """

    length: int
    members: Iterable[object]


class QueueSnapshot(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A back-end queue on disk. Times are epoch seconds; *contact* is 0 unless in process.

    *number* is that of the overflow, 0 if there is none. With *visits* it is a further part of a
    host's queue and comes after the first one: visits, or the URLs to be fetched last.
    """

    host: str
    ready_at: Seconds
    contact: Seconds
    min_rest: Seconds
    items: list[bytes]
    number: int
    overflow: FifoSnapshot | None
    visits: bool = False


class FrontierCounts(msgspec.Struct):
    """Counts of events since the crawl began.

    After ``kill -9`` they are those of the last snapshot, except for *finished*, *requeued* and
    *crawl*, which include the done log. *crawl* has contacts and their results by stats key.
    *answered* has the number of URLs last answered on a day, by day since the epoch, for the latest
    seven days.
    """

    pushed: int = 0
    requeued: int = 0
    moved: int = 0
    popped: int = 0
    put_back: int = 0
    finished: int = 0
    skipped: int = 0
    expired: int = 0
    refused: int = 0
    held: int = 0
    admitted: int = 0
    crawl: dict[str, int] = {}
    answered: dict[int, int] = {}

    def answer(self, before: float, at: float) -> None:
        """Count a URL that was answered *at* epoch seconds, and *before* that; 0.0 for never."""
        today, earlier = int(at // _DAY), int(before // _DAY)
        if before and earlier in self.answered:
            self.answered[earlier] -= 1
        if today not in self.answered:
            self.answered[today] = 0
            while len(self.answered) > FRESH_DAYS:
                del self.answered[min(self.answered)]
        if today in self.answered:  # it may be that of an earlier visit
            self.answered[today] += 1

    def contacted(self, number: int = 1) -> None:
        """Count *number* contacts that have ended."""
        self._count("contacts", number)

    def count_end(self, record: Finish) -> None:
        """Count an entry that is finished as *record* says."""
        self.finished += 1
        self._count("fetch/bytes", record.received)
        self._count("content/duplicates", record.is_duplicate)
        if record.outcome:
            self._count(f"outcome/{record.outcome}", 1)
        if record.visit:
            self._count(f"visits/{record.visit}", 1)

    def reopened(self, outcome: str) -> None:
        """Stop counting an end with *outcome*, whose URL is tried again."""
        self._count(f"outcome/{outcome}", -1)

    def _count(self, name: str, number: int) -> None:
        if number:
            self.crawl[name] = self.crawl.get(name, 0) + number


class FrontierSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """The state, as a msgpack array. Fields missing at the end have their defaults: a new frontier.

    - *segment* is the number of the done log's segment that begins with the snapshot; *limit* is n.
    - *remembered* are resting hosts without a queue and resting shared clocks, with ready_at and
      min_rest, if they are not in the files of the rest store.
    - *finished* are the keys of finished entries that will appear again (finished.py).
    - *shared* are the shared clocks that are held, and since when.
    - *parked* are the queues of parked entries by reason, *due* those of visits by due time.
    - Contacts until *unlogged_until* may be missing from the log, so all hosts rest until
      *quiet*.
    """

    version: int = VERSION
    saved_at: Seconds = 0.0
    segment: int = 1
    levels: list[FifoSnapshot] = []
    queues: list[QueueSnapshot] = []
    limit: int = 1
    leased: list[bytes] = []
    remembered: list[tuple[str, Seconds, Seconds]] = []
    finished: bytes = b""
    counts: FrontierCounts = msgspec.field(default_factory=FrontierCounts)
    shared: list[tuple[str, Seconds]] = []
    parked: dict[str, FifoSnapshot] = {}
    quiet: Seconds = 0.0
    unlogged_until: Seconds = 0.0
    due: dict[str, FifoSnapshot] = {}


def encode_snapshot(state: FrontierSnapshot, series: Mapping[str, Series]) -> Iterator[bytes]:
    """Encode *state* in pieces, with *series* in place of its fields of those names.

    The fields of *state* are encoded before this returns, each piece of a series when it is taken.
    """
    encoded = {
        name: _encoder.encode(getattr(state, name))
        for name in FrontierSnapshot.__struct_fields__
        if name not in series
    }
    return _pieces(encoded, series)


def _pieces(encoded: Mapping[str, bytes], series: Mapping[str, Series]) -> Iterator[bytes]:
    names = FrontierSnapshot.__struct_fields__
    piece = bytearray(_array_of(len(names)))
    for name in names:
        if name in encoded:
            piece += encoded[name]
            continue
        length, members = series[name]
        piece += _array_of(length)
        for member in members:
            _encoder.encode_into(member, piece, -1)
            if len(piece) >= _PIECE:
                yield bytes(piece)
                piece.clear()
    yield bytes(piece)


def _array_of(length: int) -> bytes:
    """Return the head of a msgpack array; its *length* members follow."""
    return b"\xdd" + length.to_bytes(4, "big")


class _Version(msgspec.Struct, array_like=True):
    """The start of every snapshot, which any version can read."""

    version: int


_decode_version = msgpack_decoder(_Version)
_decode = msgpack_decoder(FrontierSnapshot)


def decode_snapshot(data: bytes) -> FrontierSnapshot:
    """Decode a snapshot. Raises NewerFormatError, or UndecodableError if *data* is not one."""
    version = _decode_version(data).version
    if version > VERSION:
        raise NewerFormatError("the frontier's snapshot", version, VERSION)
    if version < _FIRST_VERSION:
        raise UndecodableError("it was written before webcrawl 0.1 and can no longer be read")
    state = _decode(data)
    if version == _FIRST_VERSION:
        state = msgspec.structs.replace(state, unlogged_until=state.quiet)
    return state
