"""The frontier's snapshot: the part of its state that is not in its files.

Created and restored by the frontier, published by its caller. The invariants: all times are epoch
seconds and all entries are encoded, so that a snapshot means the same to every process. It shows
the state at a single time, although long parts are encoded in pieces while the frontier keeps
working.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from webcrawl.configuration.decoding import Seconds, UndecodableError, msgpack_decoder
from webcrawl.frontier.done_log import Finish
from webcrawl.storage.fifo import FifoSnapshot
from webcrawl.storage.record_log import NewerFormatError

# Version 6 (webcrawl 0.1) has no *unlogged_until*, 7 no compressed frames of queues, 8 no *due*,
# 9 (webcrawl 0.4) no *asker*.
VERSION = 10
_FIRST_VERSION = 6

# Size of a piece in bytes. A piece full of the shortest queues takes 3 ms to encode (2026-11,
# development machine).
_PIECE = 1 << 18
_encoder = msgspec.msgpack.Encoder()

# A URL counts as fresh if it was answered within this many days.
_FRESH_DAYS = 7
_DAY = 86_400.0


class Series(NamedTuple):
    """A long part of a snapshot: an array of *length* members, which are encoded later.

    *members* yields them as they were when the snapshot began. It raises RuntimeError once a later
    snapshot has begun.
    """

    length: int
    members: Iterable[object]


class QueueSnapshot(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Saved state of a back-end queue. Times are epoch seconds.

    *contact* is when the current contact began, 0 if the host is not in process. *min_rest* is in
    seconds. *number* is the number of the overflow, 0 if there is none. With *visits* this is a
    further part of a host's queue, which comes after the first part: foreign pages that the domain
    *asker* asks for or, if that is None, first visits and then the URLs to be fetched last.
    """

    host: str
    ready_at: Seconds
    contact: Seconds
    min_rest: Seconds
    items: list[bytes]
    number: int
    overflow: FifoSnapshot | None
    visits: bool = False
    asker: str | None = None


class FrontierCounts(msgspec.Struct):
    """Counts of events since the crawl began.

    After ``kill -9`` they are those of the last snapshot, except for *finished*, *requeued* and
    *crawl*, which include the done log. *crawl* counts contacts and their results by stats key; it
    lacks at most the contacts that were under way, and the last 64 that had ended.
    *answered* maps a day since the epoch to the number of URLs that were last answered on that day,
    for the latest seven days.
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
        """Count a URL that was answered at *at*; its previous answer came at *before*.

        Both are epoch seconds; *before* is 0.0 if the URL was never answered before. Counts since
        the last checkpoint are missing after ``kill -9``, for a week at most.
        """
        today = int(at // _DAY)
        earlier = int(before // _DAY)
        if before and earlier in self.answered:
            self.answered[earlier] -= 1

        # A new day takes the place of the oldest one.
        if today not in self.answered:
            self.answered[today] = 0
            while len(self.answered) > _FRESH_DAYS:
                del self.answered[min(self.answered)]
        # After a clock was set back, *at* may be before all days that are kept.
        if today in self.answered:
            self.answered[today] += 1

    def count_fresh(self, now: float) -> int:
        """Return the number of URLs that were last answered in the seven days before *now*."""
        since = now // _DAY - _FRESH_DAYS
        return sum([count for day, count in self.answered.items() if day > since])

    def count_contacts(self, number: int) -> None:
        """Count *number* contacts that have ended."""
        if number:
            self._count("contacts", number)

    def count_end(self, record: Finish) -> None:
        """Count a finished entry, with the results in *record*."""
        self.finished += 1
        if record.received:
            self._count("fetch/bytes", record.received)
        if record.is_duplicate:
            self._count("content/duplicates", 1)
        if record.outcome:
            self._count(f"outcome/{record.outcome}", 1)
        if record.visit:
            self._count(f"visits/{record.visit}", 1)

    def uncount_outcome(self, outcome: str) -> None:
        """Subtract one from the count of *outcome*, as a URL that had it is tried again."""
        self._count(f"outcome/{outcome}", -1)

    def _count(self, name: str, number: int) -> None:
        self.crawl[name] = self.crawl.get(name, 0) + number


class FrontierSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """The saved state of a frontier, as a msgpack array.

    Fields missing at the end have their defaults, which are those of a new frontier.

    - *segment* is the number of the done log's segment that begins with the snapshot; *limit* is n.
    - *remembered* lists resting hosts without a queue and resting shared clocks, with ready_at and
      min_rest, unless they are in the files of the rest store.
    - *finished* contains the keys of finished entries that will appear again (finished.py).
    - *shared* lists the shared clocks that are held, and since when.
    - *parked* contains the queues of parked entries by reason, *due* those of visits by due time.
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
    """Encode *state* in pieces; *series* replaces those of its fields that it names.

    The other fields of *state* are encoded before this returns. Each piece of a series is encoded
    when it is requested.
    """
    encoded = {
        name: _encoder.encode(getattr(state, name))
        for name in FrontierSnapshot.__struct_fields__
        if name not in series
    }
    return _pieces(encoded, series)


def _pieces(encoded: Mapping[str, bytes], series: Mapping[str, Series]) -> Iterator[bytes]:
    """Yield the snapshot, from its *encoded* fields and its *series*, in pieces."""
    names = FrontierSnapshot.__struct_fields__
    piece = bytearray(_array_of(len(names)))
    for name in names:
        if name in encoded:
            piece += encoded[name]
            continue

        # A long part: a piece is complete when it is large enough.
        length, members = series[name]
        piece += _array_of(length)
        for member in members:
            _encoder.encode_into(member, piece, -1)
            if len(piece) >= _PIECE:
                yield bytes(piece)
                piece.clear()
    yield bytes(piece)


def _array_of(length: int) -> bytes:
    """Return the header of a msgpack array with *length* members; the members follow."""
    return b"\xdd" + length.to_bytes(4, "big")


class _Version(msgspec.Struct, array_like=True):
    """The first field of a snapshot, which is the same in all versions."""

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
    # In version 6, *quiet* was the only such time.
    if version == _FIRST_VERSION:
        state = msgspec.structs.replace(state, unlogged_until=state.quiet)
    return state
