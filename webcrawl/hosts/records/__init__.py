"""Host records: what the crawl knows of every host it ever met (Mercator, section 3.3).

The life of a fact
==================

::

    put(record)  put_robots(origin, data)  rests.put, traps.put        reactor thread
         |
    Shelf             the newest in memory, least recently used out first   shelf.py
         |
    flush()           what is new goes to the executor as one batch         records.py
         |
    Database          one SQLite file, WAL                                  database.py

    get(host)         the shelf's memory, then what is on its way to the disk, then the disk

Four kinds of facts are kept, each on a shelf of its own in the one file: host records (record.py),
robots.txt as the robots room packs it, the rests of hosts that the frontier has no room for in
memory, and the patterns among whose pages traps are looked for, as the traps room packs them.
Mercator kept "a fixed-sized cache" of 2^18 robots rules and forgot the rest; here what leaves
memory stays on disk.

Invariants
==========

1. What was put is what is got, from the moment ``put`` returns, wherever it is: in memory, on its
   way to the disk, or on disk.
2. What has not reached the disk never leaves memory; not after a failed write either.
3. Memory: the bounds of each shelf, plus what was put since the last ``flush``.
4. Only a lookup by primary key runs in the caller's thread; all writing is done in the executor,
   one batch at a time, on a connection of its own.
5. ``kill -9`` loses what was put since the last flush that ended, never more, and leaves a sound
   file: SQLite's write-ahead log. A power failure loses what was not synced.

Readers beside the process use reader.py, which changes nothing.

The room imports only storage and errors. Times are epoch seconds, as they are stored.
"""

from webcrawl.hosts.records.host_records import HostRecords
from webcrawl.hosts.records.record import HostRecord

__all__ = ["HostRecord", "HostRecords"]
