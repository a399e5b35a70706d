"""Write-back cache of one kind of facts: the newest are in memory, all of them on disk.

Facts are objects in memory, and are encoded when they are written. The one held for longest leaves
memory first: to note each use would cost a page's two dozen reads more than the few that are read
from disk again. For one thread; another one
writes what it is handed: every second the news, which it logs, and from time to time a batch, which
it stores. A fact is in up to four places: ``_held`` (least recently used first), ``_changed`` (put
since the last news were taken), ``_dirty`` (encoded since the last batch was taken) and
``_writing`` (that batch). Invariants: what is not known to be stored is in one of the last three,
which evict nothing; what is not known to be logged is in ``_changed`` or ``_unlogged``.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from webcrawl.hosts.records.database import Database

T = TypeVar("T")


class Codec(NamedTuple, Generic[T]):
    """The bytes of facts on disk. *decode* gets key and file, too, for CorruptRecordError."""

    encode: Callable[[T], bytes]
    decode: Callable[[bytes, str, Path], T]


#: Facts that are bytes.
BYTES: Codec[bytes] = Codec(bytes, lambda data, _key, _file: data)


class FactCache(Generic[T]):
    """The facts of one *kind* in *database*, by their keys.

    *size* bounds the number of facts in memory that are on disk, *max_bytes* the bytes of those
    that are bytes.
    """

    def __init__(
        self, *, database: Database, kind: int, codec: Codec[T], size: int, max_bytes: int = 1 << 62
    ) -> None:
        self.kind = kind
        self.reads = 0
        self._database = database
        self._encode, self._decode = codec
        self._size = size
        self._max_bytes = max_bytes
        self._held: OrderedDict[str, T] = OrderedDict()
        #: The value of a key if it is held in memory, None if not: a first look for ``get``.
        self.held = self._held.get
        self._bytes = 0
        self._changed: dict[str, T] = {}
        self._dirty: dict[str, bytes] = {}
        self._writing: Mapping[str, bytes] = {}
        self._unlogged: dict[str, bytes] = {}

    def resize(self, size: int, max_bytes: int = 1 << 62) -> None:
        """Change its bounds; what is too much goes with the next fact that is held."""
        self._size, self._max_bytes = size, max_bytes

    def __len__(self) -> int:
        """Facts held in memory; those that wait to be written are perhaps held twice."""
        return len(self._held)

    @property
    def size_bytes(self) -> int:
        """Bytes of the facts held in memory that are bytes, without keys and bookkeeping."""
        return self._bytes

    @property
    def unsaved_count(self) -> int:
        """Facts that are not known to be on disk."""
        return len(self._unlogged) + len(self._changed)

    @property
    def is_stored(self) -> bool:
        """Whether there is nothing for another batch."""
        return not (self._changed or self._dirty)

    def get(self, key: str) -> T | None:
        """The last value put for *key*, None without one; to be put after a change, and not kept:
        another one may evict it. At most one look-up on disk. CorruptRecordError, OSError."""
        value = self._held.get(key)
        if value is not None:
            return value
        value = self.unstored(key)
        if value is None:
            if not self._database.may_hold(self.kind, key):
                return None
            self.reads += 1
            data = self._database.read(self.kind, key)
            if data is None:
                return None
            value = self._decode(data, key, self._database.file)
        self.hold(key, value)
        return value

    def in_memory(self, key: str) -> T | None:
        """The value of *key*, if there is one as an object."""
        value = self._held.get(key)
        return self._changed.get(key) if value is None else value

    def unstored(self, key: str) -> T | None:
        """The value of *key*, if it is not known to be stored."""
        value = self._changed.get(key)
        if value is None:
            data = self._dirty.get(key)
            if data is None:
                data = self._writing.get(key)
            if data is not None:
                value = self._decode(data, key, self._database.file)
        return value

    def put(self, key: str, value: T) -> None:
        """Replace the value of *key*. On disk, as it is by then, with the next news."""
        self._changed[key] = value
        if self._size and self._held.get(key) is not value:
            self.hold(key, value)

    def hold(self, key: str, value: T) -> None:
        """Keep *value* in memory, the one of a key without a value included, which will be asked
        for again soon. It is written only when it is put."""
        held = self._held
        self._bytes += _bytes_of(value) - _bytes_of(held.pop(key, None))
        held[key] = value
        while len(held) > self._size or self._bytes > self._max_bytes:
            self._bytes -= _bytes_of(held.popitem(last=False)[1])

    def restore(self, key: str, data: bytes) -> None:
        """Take up *data* that the log has for *key*."""
        self._dirty[key] = data

    def unsaved(self) -> Iterator[tuple[str, bytes]]:
        """The facts that a crash would lose, the older value of a key before the newer one."""
        yield from self._unlogged.items()
        for key, value in self._changed.items():
            yield key, self._encode(value)

    def written(self) -> list[Path]:
        """The files to fsync so that all saved facts survive a power failure."""
        return self._database.written()

    # --- facts on their way to the disk

    def take_news(self) -> Mapping[str, bytes]:
        """The facts to log now; the caller must not change them. Once until they are saved."""
        news = {key: self._encode(value) for key, value in self._changed.items()}
        self._changed.clear()
        self._dirty |= news
        self._unlogged |= news
        return self._unlogged

    def take_batch(self) -> Mapping[str, bytes]:
        """The facts to store now; as ``take_news``."""
        assert not self._writing, "a batch is being written"
        self._writing, self._dirty = self._dirty, {}
        return self._writing

    def saved(self) -> None:
        """Note that what was taken is on disk."""
        self._unlogged, self._writing = {}, {}

    def failed(self) -> None:
        """Note that what was taken is not on disk, or only in part: it is taken again."""
        self._dirty = {**self._writing, **self._dirty}
        self._writing = {}


def _bytes_of(value: object) -> int:
    return len(value) if isinstance(value, bytes) else 0
