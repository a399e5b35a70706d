"""Host counters: pages, bytes and linking domains, per registered domain.

These are Mischel's "domain records". They change with each URL and each page, so changed ones are
held as objects (fact_cache.py). Invariant: the number of linking domains never falls, and noting
the same link again changes nothing.

The linking domains are kept in 32 bytes. The first fifteen are a list of 16-bit keyed hashes, which
is nearly exact (two of fifteen have the same hash in 0.2 % of cases). With one more, they become a
bitmap, in which each domain sets the bit of the low byte of its hash. Their number is then
estimated from the bits that are still 0 (linear counting, Whang, Vander-Zanden and Taylor 1990).
The standard error is 7 % at 500 domains, and smaller for fewer. Two such errors are added, so that
no domain waits because of an estimate; 1,925 is the largest result. The key is drawn at random for
each job, so that nobody can choose domain names that set different bits.

Links are noted separately from the counters. Pages link to more domains than are fetched from, so
their counters are not read, nor each one written, for a link. Links are merged into a counter when
it is decoded here, and on disk when a batch is stored.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec
from xxhash import xxh3_64_intdigest

from webcrawl.configuration.decoding import UndecodableError, msgpack_decoder
from webcrawl.hosts.records.database import DOMAINS, LINKS
from webcrawl.hosts.records.fact_cache import BYTES, Codec, FactCache
from webcrawl.randomness import generator
from webcrawl.storage.record_log import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from webcrawl.hosts.records.database import Database

_BITS = 256
_SIZE = _BITS // 8
_EMPTY = bytes(_SIZE)
# Bytes of a hash in the list. The list is always shorter than the bitmap.
_HASH = 2
_LISTED = _SIZE // _HASH - 1


def _estimated_domains(ones: int) -> int:
    """Return an upper estimate of the domains that set *ones* bits.

    If all bits are set, one is taken as unset.
    """
    load = math.log(_BITS / (_BITS - ones or 1))
    error = math.sqrt(_BITS * (math.exp(load) - load - 1))
    return max(_LISTED + 1, math.ceil(_BITS * load + 2 * error))


_DOMAINS_BY_BITS = [_estimated_domains(ones) for ones in range(_BITS + 1)]
# Domains whose counters are read by one statement.
_MERGED_AT_ONCE = 2048
# The cache's key for the state of the job, which cannot be a domain.
_JOB_STATE_KEY = "*"


class HostCounter(msgspec.Struct, array_like=True, gc=False):
    """The counts of one domain.

    *pages* are URLs whose download was begun, *received* the bytes of their bodies. *admitted*
    counts URLs admitted since the round *round*, *unproven* those of origins that may never answer
    (hosts/budgets/reputation.py). *linking* is the list or, if it has 32 bytes, the bitmap. Fields
    are only ever added at the end, with a default.
    """

    pages: int = 0
    received: int = 0
    admitted: int = 0
    round: int = 0
    linking: bytes = b""
    unproven: int = 0

    @property
    def in_degree(self) -> int:
        """Number of other domains that link here: exact up to 15, estimated above that. 0.3 us."""
        linking = self.linking
        if len(linking) < _SIZE:
            return len(linking) // _HASH
        return _DOMAINS_BY_BITS[int.from_bytes(linking).bit_count()]


class _JobState(msgspec.Struct, array_like=True):
    """The state of the job that is stored with the counters.

    It has the key of the hashes, the round of the reputation budgets, and the round since which
    admitted URLs are counted (None: the same).
    """

    key: int
    round: int = 0
    counted_since: int | None = None


_encode = msgspec.msgpack.Encoder().encode
_NEW = _encode(HostCounter())
_decode_counter = msgpack_decoder(HostCounter)
_decode_state = msgpack_decoder(_JobState)


def _decode(data: bytes, name: str, file: Path) -> HostCounter | _JobState:
    try:
        return _decode_state(data) if name == _JOB_STATE_KEY else _decode_counter(data)
    except UndecodableError as error:
        raise CorruptRecordError(file, 0, f"invalid counter of {name!r} ({error})") from error


class HostCounters:
    """The counters in *database*; *size* of them are in memory (0.4 kB each).

    Not thread-safe. ``find`` raises like ``FactCache.get``.
    """

    def __init__(self, *, database: Database, size: int) -> None:
        self._file = database.file
        # By domain, the links to be merged into its ``linking``.
        self._links = FactCache(database=database, kind=LINKS, codec=BYTES, size=0)
        codec: Codec[HostCounter | _JobState] = Codec(_encode, self._decoded)
        self._counters = FactCache(database=database, kind=DOMAINS, codec=codec, size=size)
        self.caches = (self._counters, self._links)
        #: Set how many are kept in memory; excess ones leave when others are found.
        self.resize = self._counters.resize
        self._use_state(_JobState(0))
        # Whether the state is in the cache.
        self._is_state_cached = False
        self.linked = 0
        """Number of links between domains that this process did not have in memory. One that was
        merged since may count again."""

    def open(self) -> None:
        """Read the key of the job from the open database, or draw one."""
        found = self._counters.get(_JOB_STATE_KEY)
        self._is_state_cached = isinstance(found, _JobState)
        new = _JobState(generator("domains").getrandbits(64))
        self._use_state(found if isinstance(found, _JobState) else new)

    def _use_state(self, state: _JobState) -> None:
        self._state = state
        #: The round of the reputation budgets.
        self.current_round, since = state.round, state.counted_since
        #: The round since which ``HostCounter.admitted`` counts; that of another round is void.
        self.counted_since = state.round if since is None else since

    def begin_round(self, number: int, *, counted_since: int) -> None:
        """Store the round, and the round since which admitted URLs count."""
        self._state.round, self._state.counted_since = number, counted_since
        self._use_state(self._state)
        self._put_state()

    def find(self, name: str) -> HostCounter:
        """Return the counter of *name*, or a new one. Raises like ``FactCache.get``."""
        counter = self._counters.cached(name) or self._counters.get(name)
        if not isinstance(counter, HostCounter):
            counter = self.new(name)
            self._counters.hold(name, counter)
        return counter

    def new(self, name: str) -> HostCounter:
        """Return a new counter for *name*, which has none yet."""
        return HostCounter(linking=self._links.unstored(name) or b"")

    def put(self, name: str, counter: HostCounter) -> None:
        """Store the counter of *name*, which was changed."""
        if not self._is_state_cached:
            # Bits are useless without the key that chose them, so the key is stored first.
            self._put_state()
        self._counters.put(name, counter)

    def link(self, source: str, targets: Iterable[str]) -> None:
        """Note that a page of the domain *source* links to pages of the domains *targets*.

        Takes 0.2 us for each target that is in memory and has *source* already, 0.5 us for a new
        link.
        """
        if not self._is_state_cached:
            self._put_state()
        mark = (xxh3_64_intdigest(source.encode(), self._state.key) & 0xFFFF).to_bytes(_HASH)
        for target in targets:
            if target == source:
                continue
            found = self._counters.in_memory(target)
            counter = found if isinstance(found, HostCounter) else None
            known = self._links.unstored(target) or b"" if counter is None else counter.linking
            linking = _with_mark(known, mark)
            if linking is not known:
                if counter is not None:
                    counter.linking = linking
                self._links.put(target, linking)
                self.linked += 1

    def with_unstored(self, name: str, linking: bytes) -> bytes:
        """Return *linking* plus the links still to be merged into the counter of *name*."""
        return _union(self._links.unstored(name) or b"", linking)

    def _decoded(self, data: bytes, name: str, file: Path) -> HostCounter | _JobState:
        counter = _decode(data, name, file)
        if isinstance(counter, HostCounter):
            counter.linking = _union(counter.linking, self._links.unstored(name) or b"")
        return counter

    def merged(
        self,
        counters: Mapping[str, bytes],
        links: Mapping[str, bytes],
        stored: Callable[[list[str]], Mapping[str, bytes]],
    ) -> Iterator[tuple[str, bytes]]:
        """Merge *links* into a batch of *counters* and yield the results in order.

        *stored* reads the counters of those domains that are only in *links*. For any thread.
        """
        file, names = self._file, sorted({**counters, **links})
        for start in range(0, len(names), _MERGED_AT_ONCE):
            group = names[start : start + _MERGED_AT_ONCE]
            on_disk = stored([name for name in group if name not in counters])
            for name in group:
                data = counters.get(name) or on_disk.get(name) or _NEW
                if name in links:
                    counter = _decode(data, name, file)
                    assert isinstance(counter, HostCounter), "no page links to it"
                    counter.linking = _union(counter.linking, links[name])
                    data = _encode(counter)
                yield name, data

    def _put_state(self) -> None:
        self._is_state_cached = True
        self._counters.put(_JOB_STATE_KEY, self._state)


def _union(one: bytes, other: bytes) -> bytes:
    """Return the linking domains of both."""
    if len(one) == len(other) == _SIZE:
        return (int.from_bytes(one) | int.from_bytes(other)).to_bytes(_SIZE)
    if len(other) == _SIZE:
        one, other = other, one
    for at in range(0, len(other), _HASH):
        one = _with_mark(one, other[at : at + _HASH])
    return one


def _with_mark(linking: bytes, mark: bytes) -> bytes:
    """Return *linking* with *mark* added; the same object if it has it already."""
    if len(linking) < _SIZE:
        at = linking.find(mark)
        while at > 0 and at % _HASH:  # a match across two hashes does not count
            at = linking.find(mark, at + 1)
        if at >= 0:
            return linking
        if len(linking) < _LISTED * _HASH:
            return linking + mark
        marks, linking = linking, _EMPTY
        for at in range(0, len(marks), _HASH):
            linking = _with_mark(linking, marks[at : at + _HASH])
    place, mask = mark[1] >> 3, 1 << (mark[1] & 7)
    if linking[place] & mask:
        return linking
    return linking[:place] + bytes((linking[place] | mask,)) + linking[place + 1 :]
