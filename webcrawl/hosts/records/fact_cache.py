"""Write-back cache of one kind of fact: recent facts are in memory, all of them on disk.

Facts are objects in memory, and are encoded when they are written. The oldest facts in memory are
evicted first (FIFO). With LRU, the two dozen reads of each page would have to be recorded, which
costs more than reading a few facts from disk again.

The cache is used by one thread. Another thread writes: every second the changes, which it logs, and
from time to time a batch, which it stores. A fact may be in up to four places: ``_cached`` (in the
order of eviction), ``_changed`` (put since the last changes were taken), ``_dirty`` (encoded since
the last batch was taken) and ``_writing`` (that batch). Invariants: a fact that may not be stored
yet is in one of the last three, from which nothing is evicted. A fact that may not be logged yet is
in ``_changed`` or ``_unlogged``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from webcrawl.hosts.records.database import Database

T = TypeVar("T")


class Codec(NamedTuple, Generic[T]):
    """Encoding of facts on disk. ``decode`` also takes the key and the file, to name in errors."""

    encode: Callable[[T], bytes]
    decode: Callable[[bytes, str, Path], T]


#: Codec of facts that are bytes.
BYTES: Codec[bytes] = Codec(bytes, lambda data, _key, _file: data)


class FactCache(Generic[T]):
    """The facts of one *kind* in *database*, by key.

    *size* limits the number of facts in ``_cached``. *max_bytes* limits their total size, but only
    counts facts that are bytes.
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
        self._cached: OrderedDict[str, T] = OrderedDict()
        #: Return the value of a key if it is in ``_cached``, else None; faster than ``get``.
        self.cached = self._cached.get
        #: Total size of the facts in ``_cached`` that are bytes, without keys and overhead.
        self.size_bytes = 0
        # The module's docstring explains these.
        self._changed: dict[str, T] = {}
        self._dirty: dict[str, bytes] = {}
        self._writing: Mapping[str, bytes] = {}
        self._unlogged: dict[str, bytes] = {}

    def resize(self, size: int, max_bytes: int = 1 << 62) -> None:
        """Change the limits; excess facts are evicted when the next fact is added."""
        self._size = size
        self._max_bytes = max_bytes

    def __len__(self) -> int:
        """Return the number of facts in memory, whether they are on disk or not."""
        return len(self._cached)

    @property
    def unsaved_count(self) -> int:
        """Return the number of facts that may not be on disk yet."""
        return len(self._unlogged) + len(self._changed)

    @property
    def is_stored(self) -> bool:
        """Return whether all facts are stored, or in the batch being written."""
        return not (self._changed or self._dirty)

    def get(self, key: str) -> T | None:
        """Return the last value put for *key*, or None.

        A caller that changes the value must put it, and must not keep a reference, because the
        value may be evicted. Makes at most one look-up on disk. Raises CorruptRecordError, OSError.
        """
        value = self._cached.get(key)
        if value is not None:
            return value
        value = self.unstored_value(key)
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
        """Return the value of *key* if it is in memory as an object; None otherwise."""
        value = self._cached.get(key)
        return self._changed.get(key) if value is None else value

    def unstored_value(self, key: str) -> T | None:
        """Return the value of *key* if it might not have been stored yet; otherwise None."""
        value = self._changed.get(key)
        if value is None:
            data = self._dirty.get(key)
            if data is None:
                data = self._writing.get(key)
            if data is not None:
                value = self._decode(data, key, self._database.file)
        return value

    def put(self, key: str, value: T) -> None:
        """Set the value of *key*. The next flush writes the state that it has at that time."""
        self._changed[key] = value
        if self._size and self._cached.get(key) is not value:
            self.hold(key, value)

    def hold(self, key: str, value: T) -> None:
        """Keep *value* in memory, because it will be needed again soon.

        The key need not have a value on disk. The value is written only if ``put`` is called.
        """
        cached = self._cached
        self.size_bytes += _bytes_of(value) - _bytes_of(cached.pop(key, None))
        cached[key] = value
        while len(cached) > self._size or self.size_bytes > self._max_bytes:
            self.size_bytes -= _bytes_of(cached.popitem(last=False)[1])

    def restore(self, key: str, data: bytes) -> None:
        """Restore *data*, the encoded value of *key* that was read from the log."""
        self._dirty[key] = data

    def unsaved_items(self) -> Iterator[tuple[str, bytes]]:
        """Yield (key, value) of facts that a crash would lose; older values of a key come first."""
        yield from self._unlogged.items()
        for key, value in self._changed.items():
            yield key, self._encode(value)

    def written(self) -> list[Path]:
        """Return the files to fsync so that all saved facts survive a power failure."""
        return self._database.written()

    # --- facts on their way to the disk

    def take_unlogged(self) -> Mapping[str, bytes]:
        """Return the facts to log now, which the caller must not change.

        To be called again only after ``note_saved`` or ``note_failed``.
        """
        changes = {key: self._encode(value) for key, value in self._changed.items()}
        self._changed.clear()
        self._dirty |= changes
        self._unlogged |= changes
        return self._unlogged

    def take_batch(self) -> Mapping[str, bytes]:
        """Return the facts to store now. See ``take_unlogged``."""
        self._writing = self._dirty
        self._dirty = {}
        return self._writing

    def note_saved(self) -> None:
        """Record that the facts that were taken are on disk."""
        self._unlogged = {}
        self._writing = {}

    def note_failed(self) -> None:
        """Record that not all facts that were taken are on disk, so that they are taken again."""
        # Where both have a key, the value in ``_dirty`` is newer.
        self._dirty = {**self._writing, **self._dirty}
        self._writing = {}


def _bytes_of(value: object) -> int:
    """Return the size of *value* if it is bytes; 0 otherwise."""
    return len(value) if isinstance(value, bytes) else 0
