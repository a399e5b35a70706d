"""The frontier's snapshot: the part of its state that is not in its files.

Made and taken up by the frontier, published by its caller. The invariants: all times are
epoch seconds and all entries are encoded, so that a snapshot means the same to every process; and
it is of one moment, though what is long in it is encoded in pieces while the frontier goes on.
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

# 6, of webcrawl 0.1: nothing is forgotten. 7: frames of queues are not compressed. 8: nothing is
# due.
VERSION = 9
_FIRST_VERSION = 6

# Bytes of a piece. A piece of the shortest queues takes 3 ms (2026-11, development machine).
_PIECE = 1 << 18
_encoder = msgspec.msgpack.Encoder()

#: Days in which a URL was answered that counts as fresh.
FRESH_DAYS = 7
_DAY = 86_400.0


class Series(NamedTuple):
    """*length* *members* of a snapshot, of one moment, to be taken while the frontier goes on.

    Not any more when a later snapshot has begun: RuntimeError.
    """

    length: int
    members: Iterable[object]


class QueueSnapshot(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A back-end queue on disk. Times are epoch seconds; *contact* is 0 unless in process.

    *number* is that of the overflow, 0 without one. With *visits* it is a further part of a host's
    queue on disk, and comes after the first one: visits, and what is to be the last.
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

    After ``kill -9`` those of the last snapshot, but *finished*, *requeued* and *crawl* are as the
    done log has them. *crawl* are by their names in the crawl's stats: contacts, and what came of
    them. *answered* has, by day since the epoch, how many URLs were answered on it for the last
    time, of the last seven days that there are.
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
        """A URL was answered *at* epoch seconds, and *before* that; 0.0 for never."""
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
        """*number* contacts have ended."""
        self._count("contacts", number)

    def ended(self, record: Finish) -> None:
        """An entry is done as *record* says."""
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
    """As msgpack array. What is missing at the end has its default: a new frontier.

    *segment* is the done log's that begins with the snapshot, *limit* is n. *remembered* are
    resting hosts without a queue and resting shared clocks, with ready_at and min_rest, as far as
    they are not in the files of the rest store. *finished* are the keys of finished entries that
    will be met again (finished.py). *shared* are the shared clocks that are held, since when.
    *parked* are the queues of what waits for a reason, by reason, *due* those of what waits for a
    time, by that. Contacts until
    *forgotten* may be on no record, so all hosts rest until *quiet*.
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
    forgotten: Seconds = 0.0
    due: dict[str, FifoSnapshot] = {}


def encode_snapshot(state: FrontierSnapshot, series: Mapping[str, Series]) -> Iterator[bytes]:
    """*state* with the *series* in place of its members of those names, in pieces.

    What *state* itself has is encoded before this returns, each piece when it is taken.
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
    """The head of a msgpack array; its *length* members follow."""
    return b"\xdd" + length.to_bytes(4, "big")


class _Version(msgspec.Struct, array_like=True):
    """The start of every snapshot, readable whatever follows."""

    version: int


_decode_version = msgpack_decoder(_Version)
_decode = msgpack_decoder(FrontierSnapshot)


def decode_snapshot(data: bytes) -> FrontierSnapshot:
    """NewerFormatError; UndecodableError when *data* is not a snapshot."""
    version = _decode_version(data).version
    if version > VERSION:
        raise NewerFormatError("the frontier's snapshot", version, VERSION)
    if version < _FIRST_VERSION:
        raise UndecodableError("it is of before webcrawl 0.1, and not read any more")
    state = _decode(data)
    if version == _FIRST_VERSION:
        state = msgspec.structs.replace(state, forgotten=state.quiet)
    return state
