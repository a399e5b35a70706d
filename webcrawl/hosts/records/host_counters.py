"""Host counters: pages, bytes and linking domains, per registered domain or per host.

Mischel's "domain records". They change with each URL and each page, so changed ones are held
decoded and go to their cache with the next flush only. Invariant: the number of linking domains
never falls, and the same link noted again changes nothing.

The linking domains are kept in 32 bytes. The first fifteen are a list of 16-bit keyed hashes, which
is exact (two of fifteen are taken for one in 0.2 % of cases). With one more, all become a bitmap:
each domain sets the bit of the low byte of its hash, and their number is estimated from the bits
that are still 0 (linear counting, Whang, Vander-Zanden and Taylor 1990). Its standard error is 7 %
at 500 domains, less below. Two such errors are added, so that no domain waits because of an
estimate; 1,925 is the largest result. The key is drawn for each job, so that names of domains that
set different bits cannot be chosen.
"""

from __future__ import annotations

import math
import secrets
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import msgspec
from xxhash import xxh3_64_intdigest

from webcrawl.storage.record_log import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webcrawl.hosts.records.key_value_cache import KeyValueCache

_BITS: Final = 256
_SIZE: Final = _BITS // 8
_EMPTY: Final = bytes(_SIZE)
# Bytes of a hash in the list, which is always shorter than the bitmap.
_HASH: Final = 2
_LISTED: Final = _SIZE // _HASH - 1


def _domains_behind(ones: int) -> int:
    """The number of domains that set so many bits at most: as if one bit were left for all."""
    load = math.log(_BITS / (_BITS - ones or 1))
    error = math.sqrt(_BITS * (math.exp(load) - load - 1))
    return max(_LISTED + 1, math.ceil(_BITS * load + 2 * error))


_LINKING: Final = [_domains_behind(ones) for ones in range(_BITS + 1)]
# The cache's key for the state of the job; no domain has such a name.
_ALL: Final = "*"


class HostCounter(msgspec.Struct, array_like=True, gc=False):
    """The counts of one domain or host.

    *pages* are URLs whose download was begun, *received* bytes of bodies. *admitted* counts URLs
    let in since the round *round* (hosts/budgets/reputation.py). *linking* is the list or, if it
    has 32 bytes, the bitmap. Fields are only ever added at the end, with a default.
    """

    pages: int = 0
    received: int = 0
    admitted: int = 0
    round: int = 0
    linking: bytes = b""

    @property
    def in_degree(self) -> int:
        """The number of other domains that link here: exact up to 15, an estimate from there. 0.3
        us."""
        linking = self.linking
        if len(linking) < _SIZE:
            return len(linking) // _HASH
        return _LINKING[int.from_bytes(linking).bit_count()]


class _All(msgspec.Struct, array_like=True):
    """The state of the job that is stored beside the counters.

    The key of the hashes, the round of the reputation budgets, and the round since which admitted
    URLs are counted (None: the same).
    """

    key: int
    round: int = 0
    counted_since: int | None = None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(HostCounter).decode


class HostCounters:
    """The counters in one *cache*, of which *held* are in memory, decoded (0.4 kB each).

    Not thread-safe. ``find`` and ``link`` raise what the cache raises: CorruptRecordError, OSError.
    """

    def __init__(self, *, cache: KeyValueCache, held: int) -> None:
        self._cache = cache
        self._size = held
        self._held: OrderedDict[str, HostCounter] = OrderedDict()
        self._changed: set[str] = set()
        self._all = _All(0)
        # Whether that is in the cache.
        self._is_known = False
        self.linked = 0
        """Links between domains that were not known before, in this process."""

    def resize(self, held: int) -> None:
        """Keep *held* in memory; what is too much goes with the next ones that are found."""
        self._size = held

    def open(self) -> None:
        """Take up the key of the job from the open cache, or draw one."""
        data = self._cache.get(_ALL)
        self._is_known = data is not None
        if data is None:
            self._all = _All(secrets.randbits(64))
        else:
            try:
                self._all = msgspec.msgpack.decode(data, type=_All)
            except msgspec.DecodeError as error:
                raise self._damaged(_ALL, error) from error

    @property
    def current_round(self) -> int:
        """The round of the reputation budgets."""
        return self._all.round

    @property
    def counted_since(self) -> int:
        """The round since which ``HostCounter.admitted`` counts; with any other it means
        nothing."""
        since = self._all.counted_since
        return self._all.round if since is None else since

    def begin_round(self, number: int, *, counted_since: int) -> None:
        """Store the round, and the round since which admitted URLs count."""
        self._all.round, self._all.counted_since = number, counted_since
        self._changed.add(_ALL)

    def find(self, name: str) -> HostCounter:
        """The counter of *name*, a new one if there is none. After a change call ``changed``.

        0.1 us if it is held, otherwise as ``KeyValueCache.get``. Not to be kept: another ``find``
        may evict it.
        """
        held = self._held
        counter = held.get(name)
        if counter is not None:
            held.move_to_end(name)
            return counter
        data = self._cache.get(name)
        try:
            counter = HostCounter() if data is None else _decode(data)
        except msgspec.DecodeError as error:
            raise self._damaged(name, error) from error
        held[name] = counter
        while len(held) > self._size:
            old, evicted = held.popitem(last=False)
            if old in self._changed:
                self._changed.discard(old)
                self._put(old, evicted)
        return counter

    def changed(self, name: str) -> None:
        """Note that the counter last found for *name* was changed."""
        self._changed.add(name)

    def link(self, source: str, targets: Iterable[str]) -> None:
        """Note that a page of the domain *source* links to pages of the domains *targets*.

        0.2 us for each counter that is held and has *source* already, 0.5 us for a new link.
        """
        mark = (xxh3_64_intdigest(source.encode(), self._all.key) & 0xFFFF).to_bytes(_HASH)
        for target in targets:
            if target == source:
                continue
            counter = self.find(target)
            linking = _with(counter.linking, mark)
            if linking is not counter.linking:
                counter.linking = linking
                self._changed.add(target)
                self.linked += 1

    def settle(self) -> None:
        """Put changed counters into the cache: they are written with its next batch."""
        for name in self._changed:
            if name != _ALL:
                self._put(name, self._held[name])
        if _ALL in self._changed:
            self._cache.put(_ALL, _encode(self._all))
        self._changed.clear()

    def _put(self, name: str, counter: HostCounter) -> None:
        if not self._is_known:
            # Bits without the key that chose them would be worth nothing: it goes first.
            self._is_known = True
            self._cache.put(_ALL, _encode(self._all))
        self._cache.put(name, _encode(counter))

    def _damaged(self, name: str, error: msgspec.DecodeError) -> CorruptRecordError:
        return CorruptRecordError(self._cache.file, 0, f"no tally of {name!r} ({error})")


def _with(linking: bytes, mark: bytes) -> bytes:
    """*linking* and *mark*; the same object if that was in it."""
    if len(linking) < _SIZE:
        at = linking.find(mark)
        while at > 0 and at % _HASH:  # across two of them
            at = linking.find(mark, at + 1)
        if at >= 0:
            return linking
        if len(linking) < _LISTED * _HASH:
            return linking + mark
        marks, linking = linking, _EMPTY
        for at in range(0, len(marks), _HASH):
            linking = _with(linking, marks[at : at + _HASH])
    place, mask = mark[1] >> 3, 1 << (mark[1] & 7)
    if linking[place] & mask:
        return linking
    return linking[:place] + bytes((linking[place] | mask,)) + linking[place + 1 :]
