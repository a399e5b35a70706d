"""Host counters: pages, bytes and linking domains, per registered domain.

These are Mischel's "domain records". They change with each URL and each page, so changed counters
are kept as objects (fact_cache.py). Invariant: the number of linking domains never decreases, and
recording the same link again changes nothing.

The linking domains are stored in 32 bytes. The first fifteen are a list of 16-bit keyed hashes,
which is nearly exact (two of fifteen have the same hash in 0.2 % of cases). With the sixteenth, the
list becomes a bitmap, in which each domain sets the bit given by the low byte of its hash. The
number of domains is then estimated from the bits that are still 0 (linear counting, Whang,
Vander-Zanden and Taylor 1990). The standard error is 7 % at 500 domains, and smaller for fewer. Two
standard errors are added, so that an estimate does not hold a domain back; the largest result is
1,925. The key is drawn at random for each job, so that nobody can choose domain names that set
different bits.

Links are stored separately from the counters. Pages link to many more domains than the crawl
fetches from, so a link neither reads nor writes a counter. Links are merged into a counter in
memory when it is decoded, and on disk when a batch is stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from xxhash import xxh3_64_intdigest

from webcrawl.configuration.decoding import UndecodableError, msgpack_decoder
from webcrawl.hosts.records.database import DOMAINS, LINKS, Database
from webcrawl.hosts.records.fact_cache import BYTES, Codec, FactCache
from webcrawl.randomness import generator
from webcrawl.storage.record_log import CorruptRecordError

_BITS = 256
_SIZE = _BITS // 8
_EMPTY = bytes(_SIZE)
# Size of a hash in the list, and maximum length of the list. It is always shorter than the bitmap.
_HASH_BYTES = 2
_MAX_LISTED = _SIZE // _HASH_BYTES - 1


def _estimated_domains(ones: int) -> int:
    """Return an upper estimate of the number of domains that have set *ones* bits.

    If all bits are set, the result is the same as for one bit less.
    """
    # The estimate of linear counting is load * _BITS, and this is its standard error.
    load = math.log(_BITS / (_BITS - ones or 1))
    error = math.sqrt(_BITS * (math.exp(load) - load - 1))
    return max(_MAX_LISTED + 1, math.ceil(_BITS * load + 2 * error))


_ESTIMATES = [_estimated_domains(ones) for ones in range(_BITS + 1)]
# Maximum number of domains whose counters are read with one statement.
_MERGED_AT_ONCE = 2048
# The key for the state of the job in the cache. It cannot be a domain.
_JOB_STATE_KEY = "*"
# Counters in memory, 0.4 kB each.
_COUNTERS = 1 << 14


class HostCounter(msgspec.Struct, array_like=True, gc=False):
    """The counts of one domain.

    pages: number of URLs whose download was started.
    received: total size of their bodies, in bytes.
    admitted: number of URLs admitted since the round *round* (hosts/budgets/reputation.py).
    unproven: the same for URLs of origins that may never respond.
    parts: those of *pages* that were foreign, or subresources of rendered pages.
    requested: number of subresources of any host that pages of the domain have requested.
    foreign: number of foreign URLs admitted since that round.
    linking: the list of linking domains or, if it has 32 bytes, the bitmap.

    Fields are only added at the end, with a default.
    """

    pages: int = 0
    received: int = 0
    admitted: int = 0
    round: int = 0
    linking: bytes = b""
    unproven: int = 0
    parts: int = 0
    requested: int = 0
    foreign: int = 0

    @property
    def in_degree(self) -> int:
        """Return how many domains link to this one: exact up to 15, estimated above. 0.3 us."""
        linking = self.linking
        if len(linking) < _SIZE:
            return len(linking) // _HASH_BYTES
        return _ESTIMATES[int.from_bytes(linking).bit_count()]


class _JobState(msgspec.Struct, array_like=True):
    """The state of the job that is stored with the counters.

    key: the key of the hashes.
    round: the round of the reputation budgets.
    counted_since: the round since which admitted URLs are counted; None for the same round.
    """

    key: int
    round: int = 0
    counted_since: int | None = None


_encode = msgspec.msgpack.Encoder().encode
_NEW = _encode(HostCounter())
_decode_counter = msgpack_decoder(HostCounter)
_decode_state = msgpack_decoder(_JobState)


def _decode(data: bytes, name: str, file: Path) -> HostCounter | _JobState:
    """Decode the counter of *name*, or the state of the job. Raises CorruptRecordError."""
    try:
        return _decode_state(data) if name == _JOB_STATE_KEY else _decode_counter(data)
    except UndecodableError as error:
        raise CorruptRecordError(file, 0, f"invalid counter of {name!r} ({error})") from error


class HostCounters:
    """The counters in *database*, some of which are in memory.

    Not thread-safe. ``find`` raises like ``FactCache.get``.
    """

    def __init__(self, *, database: Database) -> None:
        self._file = database.file
        # Links to be merged into the counters' ``linking``, by domain. Only those that are not
        # stored yet are in memory.
        self._links = FactCache(database=database, kind=LINKS, codec=BYTES, size=0)
        codec: Codec[HostCounter | _JobState] = Codec(_encode, self._decode)
        self._counters = FactCache(database=database, kind=DOMAINS, codec=codec, size=_COUNTERS)
        self.caches = (self._counters, self._links)
        #: Set how many counters are kept in memory; excess ones are evicted as others are added.
        self.resize = self._counters.resize
        self._use_state(_JobState(0))
        # Whether the state is stored, or in the cache and will be.
        self._is_state_cached = False
        #: Number of new links between domains that this process has recorded. A link that was
        #: merged into a counter since may be counted again.
        self.linked = 0

    def open(self) -> None:
        """Read the job's state from the open database, or start with a random key."""
        stored = self._counters.get(_JOB_STATE_KEY)
        self._is_state_cached = isinstance(stored, _JobState)
        new = _JobState(generator("domains").getrandbits(64))
        self._use_state(stored if isinstance(stored, _JobState) else new)

    def _use_state(self, state: _JobState) -> None:
        self._state = state
        #: The round of the reputation budgets.
        self.current_round = state.round
        since = state.counted_since
        #: The round since which admitted URLs count. Counts from another round are not valid.
        self.counted_since = state.round if since is None else since

    def begin_round(self, number: int, *, counted_since: int) -> None:
        """Start the round *number*, and store it and the round since which admitted URLs count."""
        self._state.round = number
        self._state.counted_since = counted_since
        self._use_state(self._state)
        self._put_state()

    def find(self, name: str) -> HostCounter:
        """Return the counter of the domain *name*, or a new one. Raises like ``FactCache.get``."""
        counter = self._counters.cached(name) or self._counters.get(name)
        if not isinstance(counter, HostCounter):
            counter = self.create(name)
            self._counters.hold(name, counter)
        return counter

    def create(self, name: str) -> HostCounter:
        """Return a new counter for the domain *name*, which has none yet."""
        return HostCounter(linking=self._links.unstored_value(name) or b"")

    def put(self, name: str, counter: HostCounter) -> None:
        """Store the changed *counter* of the domain *name*."""
        if not self._is_state_cached:
            # Hashes are useless without their key, so the key is stored first.
            self._put_state()
        self._counters.put(name, counter)

    def link(self, source: str, targets: Iterable[str]) -> None:
        """Record that a page of the domain *source* links to pages of the domains *targets*.

        Takes 0.2 us for a target that is in memory and has *source* already, 0.5 us for a new link.
        """
        if not self._is_state_cached:
            self._put_state()

        # The keyed hash of *source*, 16 bits.
        digest = (xxh3_64_intdigest(source.encode(), self._state.key) & 0xFFFF).to_bytes(
            _HASH_BYTES
        )

        for target in targets:
            if target == source:
                continue
            # If the counter is on disk, it is not read: its links are merged when it is decoded.
            cached = self._counters.in_memory(target)
            counter = cached if isinstance(cached, HostCounter) else None
            before = (
                self._links.unstored_value(target) or b"" if counter is None else counter.linking
            )
            linking = _with_hash(before, digest)
            if linking is not before:
                if counter is not None:
                    counter.linking = linking
                self._links.put(target, linking)
                self.linked += 1

    def with_unstored(self, name: str, linking: bytes) -> bytes:
        """Return *linking*, with the links that are not merged into the counter of *name* yet."""
        return _merged_linking(self._links.unstored_value(name) or b"", linking)

    def _decode(self, data: bytes, name: str, file: Path) -> HostCounter | _JobState:
        """Decode a counter or the state of the job, and merge links into the counter."""
        counter = _decode(data, name, file)
        if isinstance(counter, HostCounter):
            counter.linking = _merged_linking(
                counter.linking, self._links.unstored_value(name) or b""
            )
        return counter

    def merge_links(
        self,
        counters: Mapping[str, bytes],
        links: Mapping[str, bytes],
        read_stored: Callable[[list[str]], Mapping[str, bytes]],
    ) -> Iterator[tuple[str, bytes]]:
        """Merge *links* into *counters*; yield (domain, encoded counter), sorted by domain.

        *read_stored* reads the encoded counters of domains that are only in *links*. May be called
        from any thread.
        """
        file = self._file
        names = sorted({**counters, **links})
        for start in range(0, len(names), _MERGED_AT_ONCE):
            group = names[start : start + _MERGED_AT_ONCE]
            on_disk = read_stored([name for name in group if name not in counters])
            for name in group:
                data = counters.get(name) or on_disk.get(name) or _NEW
                if name in links:
                    # Never the job's state, because no page links to it.
                    counter: Any = _decode(data, name, file)
                    counter.linking = _merged_linking(counter.linking, links[name])
                    data = _encode(counter)
                yield name, data

    def _put_state(self) -> None:
        self._is_state_cached = True
        self._counters.put(_JOB_STATE_KEY, self._state)


def _merged_linking(first: bytes, second: bytes) -> bytes:
    """Return the union of two lists or bitmaps of linking domains."""
    if len(first) == len(second) == _SIZE:
        return (int.from_bytes(first) | int.from_bytes(second)).to_bytes(_SIZE)
    # Only one is a bitmap, or none: the hashes of a list are added to the other one.
    if len(second) == _SIZE:
        first, second = second, first
    for start in range(0, len(second), _HASH_BYTES):
        first = _with_hash(first, second[start : start + _HASH_BYTES])
    return first


def _with_hash(linking: bytes, domain_hash: bytes) -> bytes:
    """Add *domain_hash* to the list or bitmap *linking*; return the same object if it is there."""
    if len(linking) < _SIZE:
        index = linking.find(domain_hash)
        while index > 0 and index % _HASH_BYTES:  # a match across two hashes does not count
            index = linking.find(domain_hash, index + 1)
        if index >= 0:
            return linking
        if len(linking) < _MAX_LISTED * _HASH_BYTES:
            return linking + domain_hash

        # The list is full: convert it to a bitmap.
        hashes = linking
        linking = _EMPTY
        for start in range(0, len(hashes), _HASH_BYTES):
            linking = _with_hash(linking, hashes[start : start + _HASH_BYTES])

    # The low byte of the hash is the number of the bit.
    byte = domain_hash[1] >> 3
    mask = 1 << (domain_hash[1] & 7)
    if linking[byte] & mask:
        return linking
    return linking[:byte] + bytes((linking[byte] | mask,)) + linking[byte + 1 :]
