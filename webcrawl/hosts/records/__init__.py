"""Host records: facts about every host that the crawl ever met, on disk (Mercator, section 3.3).

The life of a fact
==================

::

    put(record)  put_robots(origin, data)  rests.put                   reactor thread
         |
    FactCache         as objects in memory, least recently used out first   fact_cache.py
         |
    flush()           what is new goes to the executor, which logs it; when the log is full, all
         |            that was logged, to be stored in rows of its own      host_records.py
    Database          one SQLite file, WAL                                  database.py

    get(host)         the cache's memory, then what is on its way to the disk, then the disk, if it
                      may be there

Each kind of facts has a cache of its own over the one file: host records (host_record.py),
robots.txt as the robots room packs it, the rests of hosts that the frontier has no room for in
memory, counters of domains, and the links that are to be merged
into them (host_counters.py).

Invariants
==========

1. ``get`` returns what was put, from the moment ``put`` returns, wherever it is: in memory, on its
   way to the disk, or on disk. Of one in memory it returns the object itself.
2. What has not reached the disk never leaves memory; not after a failed write either.
3. Memory: the bounds of each cache, plus what is logged, which has a bound, and what was put since
   the last ``flush``.
4. Only a lookup by primary key runs in the caller's thread; all writing is done in the executor,
   one batch at a time, on a connection of its own.
5. ``kill -9`` loses what was put since the last flush that ended, never more, and leaves a sound
   file: SQLite's write-ahead log. A power failure loses what was not synced.

Readers beside the process use records_reader.py, which changes nothing.

Times are epoch seconds.
"""

from webcrawl.hosts.records.host_record import HostRecord
from webcrawl.hosts.records.host_records import HostRecords

__all__ = ["HostRecord", "HostRecords"]
