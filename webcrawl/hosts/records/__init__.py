"""Host records: facts about every host that the crawl has found, on disk (Mercator, section 3.3).

The life of a fact
==================

::

    put(record)  put_robots(origin, data)  rests.put                   reactor thread
         |
    FactCache         objects in memory; the oldest are evicted first       fact_cache.py
         |
    flush()           has the executor log new facts; when the log is full, all logged facts
         |            are stored in rows of their own                       host_records.py
    Database          one SQLite file, WAL                                  database.py

    get(host)         searches the cache's memory, then the writes in progress, then the disk, if
                      the fact may be there

The facts are in a single file, and each kind has its own cache:

- host records (host_record.py)
- robots.txt, as packed by the robots package
- pauses of hosts that the frontier does not keep in memory
- counters of domains, and the links to be merged into them (host_counters.py)
- results of hints (revisit/hints.py)

Invariants
==========

1. As soon as ``put`` has returned, ``get`` returns the value, whether it is in memory, being
   written, or on disk. If it is in memory, ``get`` returns the same object.
2. A fact never leaves memory before it is on disk, not even after a failed write.
3. Memory is bounded: by the limits of each cache, the limit of the log, and the facts put since the
   last ``flush``.
4. Only look-ups by primary key run in the caller's thread; all writing is done in the executor, one
   batch at a time, over a separate connection.
5. ``kill -9`` loses only facts put since the last completed flush, and leaves a valid file, thanks
   to SQLite's write-ahead log. A power failure also loses data that was not synced.

Other processes use records_reader.py, which changes nothing.

Times are epoch seconds.
"""

from webcrawl.hosts.records.host_record import HostRecord
from webcrawl.hosts.records.host_records import HostRecords
