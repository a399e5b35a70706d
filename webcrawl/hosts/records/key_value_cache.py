"""Key-value cache over one kind of facts: the newest in memory, all of them on disk.

For one thread; another one writes what it is handed: every second the news, which it logs, and from
time to time a batch, which it stores. A fact is in up to three places: ``_held`` (least recently
used first), ``_dirty`` (put since the last batch was taken) and ``_writing`` (that batch).
Invariants: what is not known to be stored is in ``_dirty`` or ``_writing``, which evict nothing;
what is not known to be logged is in ``_news`` or ``_logging``, too.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from webcrawl.hosts.records.database import Database


class KeyValueCache:
    """A write-back cache of one kind of facts, str -> bytes.

    *size* and *max_bytes* bound the copies of facts that are on disk.
    """

    def __init__(self, *, database: Database, kind: int, size: int, max_bytes: int) -> None:
        self.kind = kind
        self.reads = 0
        self._database = database
        self._size = size
        self._max_bytes = max_bytes
        self._held: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._dirty: dict[str, bytes] = {}
        self._writing: Mapping[str, bytes] = {}
        self._news: dict[str, bytes] = {}
        self._logging: Mapping[str, bytes] = {}

    def resize(self, size: int, max_bytes: int) -> None:
        """Change its bounds; what is too much goes with the next fact that is held."""
        self._size, self._max_bytes = size, max_bytes

    @property
    def file(self) -> Path:
        """The file of the database."""
        return self._database.file

    def __len__(self) -> int:
        """Facts held in memory; those that wait to be written are perhaps held twice."""
        return len(self._held)

    @property
    def size_bytes(self) -> int:
        """Bytes of the facts held in memory, without keys and bookkeeping (0.3 kB each)."""
        return self._bytes

    @property
    def unsaved_count(self) -> int:
        """Facts that are not known to be on disk."""
        return len(self._news) + len(self._logging)

    @property
    def waiting_count(self) -> int:
        """Facts of the next batch."""
        return len(self._dirty)

    def waiting(self, key: str) -> bytes | None:
        """The value of *key*, if it is not known to be stored."""
        data = self._dirty.get(key)
        return self._writing.get(key) if data is None else data

    def get(self, key: str) -> bytes | None:
        """The last value put for *key*; None if there was none. At most one look-up on disk.
        CorruptRecordError, OSError."""
        data = self._held.get(key)
        if data is not None:
            self._held.move_to_end(key)
            return data
        data = self._dirty.get(key)
        if data is None:
            data = self._writing.get(key)
        if data is None:
            if not self._database.may_hold(self.kind, key):
                return None
            self.reads += 1
            data = self._database.read(self.kind, key)
            if data is None:
                return None
        if self._size:
            self._hold(key, data)
        return data

    def put(self, key: str, data: bytes) -> None:
        """Replace the value of *key*. In memory until the next batch is stored."""
        self._dirty[key] = self._news[key] = data
        if self._size:
            self._hold(key, data)

    def unsaved(self) -> Iterator[tuple[str, bytes]]:
        """The facts that a crash would lose, the older value of a key before the newer one."""
        return itertools.chain(self._logging.items(), self._news.items())

    def written(self) -> list[Path]:
        """The files to fsync so that all saved facts survive a power failure."""
        return self._database.written()

    def _hold(self, key: str, data: bytes) -> None:
        held = self._held
        before = held.pop(key, None)
        if before is not None:
            self._bytes -= len(before)
        held[key] = data
        self._bytes += len(data)
        while len(held) > self._size or self._bytes > self._max_bytes:
            _, evicted = held.popitem(last=False)
            self._bytes -= len(evicted)

    # --- facts on their way to the disk

    def take_news(self) -> Mapping[str, bytes]:
        """The facts to log now; the caller must not change them. Once until they are saved."""
        assert not self._logging, "news are being logged"
        self._logging, self._news = self._news, {}
        return self._logging

    def take_batch(self) -> Mapping[str, bytes]:
        """The facts to store now; as ``take_news``."""
        assert not self._writing, "a batch is being written"
        self._writing, self._dirty = self._dirty, {}
        return self._writing

    def saved(self) -> None:
        """Note that what was taken is on disk."""
        self._logging = self._writing = {}

    def failed(self) -> None:
        """Note that what was taken is not on disk, or only in part: it is taken again."""
        self._news = {**self._logging, **self._news}
        self._dirty = {**self._writing, **self._dirty}
        self.saved()

    def check(self, on_disk: Mapping[str, bytes]) -> list[str]:
        """Compare memory with all that is *on_disk*; empty means sound."""
        problems = []
        if self._bytes != sum(map(len, self._held.values())):
            problems.append(f"facts of kind {self.kind}: {self._bytes} bytes counted")
        for key, data in self._held.items():
            waiting = self.waiting(key)
            if (on_disk.get(key) if waiting is None else waiting) != data:
                problems.append(f"memory and disk differ about {key!r}")
        return problems
