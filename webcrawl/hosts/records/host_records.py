"""Host records of one shard: the facade over its facts on disk.

One owner thread (the reactor's) reads and puts; ``flush``, called every second, hands new
facts to the executor, which logs them; when the log is full it stores all that were logged. The
package's docstring has the invariants.
"""

from __future__ import annotations

import functools
import itertools
import logging
from typing import TYPE_CHECKING, Any

from webcrawl.hosts.records.database import (
    DOMAINS,
    HINTS,
    HOSTS,
    LINKS,
    RESTS,
    ROBOTS,
    Database,
)
from webcrawl.hosts.records.fact_cache import BYTES, Codec, FactCache
from webcrawl.hosts.records.host_counters import HostCounters
from webcrawl.hosts.records.host_record import HostRecord, decode, encode

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future
    from pathlib import Path

    from webcrawl.hosts.records.database import Batch

logger = logging.getLogger(__name__)

# Of one robots.txt, compressed, on the average.
_ROBOTS_BYTES = 200
# Rests are looked up once, when their host gets a queue: there is little to gain from memory.
_RESTS_HELD = 4096
# What hints have brought, looked up once.
_HINTS_HELD = 4096
# Counters of domains, 0.4 kB each.
_COUNTERS = 1 << 14


class HostRecords:
    """Everything known of hosts, in the directory *path*. Not thread-safe.

    *size* and *robots_size* bound the host records and the packed robots.txt in memory. *executor*
    runs the writes, one at a time, a few milliseconds each, a second when a batch is stored: it
    should have a thread free within a second, or a crash loses more than the last two or three.
    """

    def __init__(
        self,
        *,
        path: Path,
        size: int,
        robots_size: int,
        executor: Executor,
    ) -> None:
        self.database = database = Database(path=path)
        self._executor = executor
        self._hosts = FactCache(
            database=database, kind=HOSTS, codec=Codec(encode, decode), size=size
        )
        self._robots = FactCache(
            database=database,
            kind=ROBOTS,
            codec=BYTES,
            size=robots_size,
            max_bytes=robots_size * _ROBOTS_BYTES,
        )
        # What is kept of robots.txt, opaque here, by its origin.
        self.robots, self.put_robots = self._robots.get, self._robots.put
        # The rests that the frontier has no room for (frontier.rests.RestStore).
        self.rests = FactCache(database=database, kind=RESTS, codec=BYTES, size=_RESTS_HELD)
        # What hints have brought, by the URL's fingerprint; empty once its entry has it.
        self.hints = FactCache(database=database, kind=HINTS, codec=BYTES, size=_HINTS_HELD)
        # Counters of registered domains.
        self.domains = HostCounters(database=database, size=_COUNTERS)
        self._caches: tuple[FactCache[Any], ...] = (
            *(self._hosts, self._robots, self.rests, self.hints),
            *self.domains.caches,
        )
        self._future: Future[int] | None = None
        self._is_open = False
        self._written = 0
        self._failed = 0
        # What the last write failed with; None after one that did not.
        self.failure: OSError | None = None

    def resize(self, *, size: int, robots_size: int, counters: int, database_kib: int) -> None:
        """Change the numbers of records, packed robots.txt and counters in memory, and the pages of
        the file that SQLite keeps."""
        self._hosts.resize(size)
        self._robots.resize(robots_size, robots_size * _ROBOTS_BYTES)
        self.domains.resize(counters)
        self.database.resize(database_kib)

    def open(self) -> None:
        """Open the file, making it if need be. Blocks for milliseconds, 100 with a full log.
        CorruptRecordError, NewerFormatError, OSError; nothing is left open then."""
        self.database.open()
        caches = {cache.kind: cache for cache in self._caches}
        try:
            for kind, key, data in self.database.logged():
                if kind not in caches:
                    continue  # of an earlier version
                # Links of an earlier batch of the log may be there, too.
                newest = self.domains.with_unstored(key, data) if kind == LINKS else data
                caches[kind].restore(key, newest)
            self.domains.open()
        except BaseException:
            self.database.close()
            raise
        self._is_open = True

    def close(self) -> None:
        """Write all that is not on disk, in this thread, and close. Idempotent. On OSError what
        could not be written is lost with the process, and all is closed."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            self._settle(wait=True)
            if not all(cache.is_stored for cache in self._caches):
                self._write_now()
        finally:
            self.database.close()

    # --- facts

    def get(self, host: str) -> HostRecord:
        """The record of *host*, a new one if there is none; to be put after a change, and not kept.

        0.2 us from memory, 12 us from disk, 1 us for a host that is not there; while a write is
        under way 99 in 100 take less than 0.2 ms. CorruptRecordError, OSError.
        """
        record = self._hosts.held(host) or self._hosts.get(host)
        if record is None:
            record = HostRecord(host)
            self._hosts.hold(host, record)
        return record

    def put(self, record: HostRecord) -> None:
        """Keep *record*. On disk, as it is by then, with the next ``flush``."""
        self._hosts.put(record.host, record)

    # --- writing

    def flush(self) -> None:
        """Begin to write what is new, unless a write is under way. Never waits for the disk.

        ``failure`` is the error of the last write; what that could not write goes with this one.
        CorruptRecordError if the last one found the file damaged, RuntimeError if the executor is
        shut down; nothing is lost from memory.
        """
        self._settle(wait=False)
        if self._future is None and any(cache.unsaved_count for cache in self._caches):
            news = self._take_news()
            batch = self._take_batch() if self.database.log_is_full else None
            try:
                self._future = self._executor.submit(self._write, news, batch)
            except RuntimeError:
                self._not_saved()
                raise

    def _take_news(self) -> Batch:
        return {cache.kind: cache.take_news() for cache in self._caches}

    def _take_batch(self) -> Batch:
        return {cache.kind: cache.take_batch() for cache in self._caches}

    def _write(self, news: Batch, batch: Batch | None) -> int:
        # First of all, for the batch takes a second or two while the reactor is busy.
        self.database.log(news)
        return 0 if batch is None else self._store(batch)

    def _store(self, batch: Batch) -> int:
        counters, links = batch.pop(DOMAINS), batch.pop(LINKS)
        stored = functools.partial(self.database.read_many, DOMAINS)
        merged = self.domains.merged(counters, links, stored)
        # In the order of the table, so that rows of one page are written together.
        facts = ((kind, key, some[key]) for kind, some in batch.items() for key in sorted(some))
        domains = ((DOMAINS, name, data) for name, data in merged)
        written = self.database.write(itertools.chain(facts, domains))
        self.database.forget_log()
        return written

    def _write_now(self) -> None:
        self._take_news()
        try:
            self._written += self._store(self._take_batch())
        except BaseException:
            self._not_saved()
            raise
        self._saved()

    def _settle(self, *, wait: bool) -> None:
        """Take up the result of the write under way, if it has ended or with *wait*."""
        future = self._future
        if future is None or not (wait or future.done()):
            return
        self._future = None
        try:
            self._written += future.result()
        except BaseException as error:
            self._not_saved()
            if not isinstance(error, OSError):
                raise
            self._failed += 1
            if self.failure is None:
                logger.error(  # noqa: TRY400  # a traceback says no more than the sentence
                    "Host records could not be written (%s); they stay in memory", error
                )
            self.failure = error
        else:
            self._saved()

    def _saved(self) -> None:
        for cache in self._caches:
            cache.saved()
        self.failure = None

    def _not_saved(self) -> None:
        for cache in self._caches:
            cache.failed()

    # --- what it does

    def stats(self) -> dict[str, int]:
        """Counters and sizes under their names in the crawl's statistics."""
        return {
            "hosts/records/memory": len(self._hosts),
            "hosts/records/read": self._hosts.reads,
            "hosts/robots/memory": len(self._robots),
            "hosts/robots/bytes": self._robots.size_bytes,
            "hosts/robots/read": self._robots.reads,
            "hosts/rests/read": self.rests.reads,
            "hosts/unsaved": sum(cache.unsaved_count for cache in self._caches),
            "hosts/written": self._written,
            "hosts/writes/failed": self._failed,
        }
