"""Host records: facts about every host that the crawl ever met, on disk (Mercator, section 3.3).

The life of a fact
==================

::

    put(record)  put_robots(origin, data)  rests.put                   reactor thread
         |
    FactCache         objects in memory; the oldest are evicted first       fact_cache.py
         |
    flush()           the executor logs new facts; when the log is full, it stores all logged
         |            facts in rows of their own                            host_records.py
    Database          one SQLite file, WAL                                  database.py

    get(host)         looks in the cache's memory, then in writes under way, then on disk if the
                      fact may be there

Each kind of fact has a cache of its own over the single file:

- host records (host_record.py)
- robots.txt, as packed by the robots package
- rests of hosts that the frontier has no room for in memory
- counters of domains, and the links to be merged into them (host_counters.py)
- results of hints (revisit/hints.py)

Invariants
==========

1. ``get`` returns the value as soon as ``put`` has returned, whether it is in memory, being
   written, or on disk. If it is in memory, ``get`` returns the same object.
2. A fact never leaves memory before it is on disk, not even after a failed write.
3. Memory is bounded by the limits of each cache, plus the log, which has a limit, and the facts put
   since the last ``flush``.
4. Only a lookup by primary key runs in the caller's thread; all writing is done in the executor,
   one batch at a time, on a connection of its own.
5. ``kill -9`` loses only facts put since the last completed flush, and leaves a sound file, thanks
   to SQLite's write-ahead log. A power failure loses data that was not synced.

Other processes use records_reader.py, which changes nothing.

Times are epoch seconds.
"""

from webcrawl.hosts.records.host_record import HostRecord
from webcrawl.hosts.records.host_records import HostRecords

__all__ = ["HostRecord", "HostRecords"]
