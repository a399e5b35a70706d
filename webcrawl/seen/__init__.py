"""Tests for what was seen before: the duplicate URL eliminator and the content-seen test.

The life of a submitted URL (Mercator, section 3.2 and figure 4)::

    page's links ─► fingerprint ─► cache ─► T ─► U       submit(): the crawl's thread, one write
                    (64 bits)     2^16    2^21   │       a hit in cache or T ends here
                                           │     │
                        T full, or merge() ▼     ▼
                                          T'     U'      a new T and U take over immediately
                                           │     │
                       sort, look up in F  ▼     │       worker thread
              runs of F ◄───── new ones ── *     │
                                 │ marks         │
                                 ▼               ▼
                    take() ◄──── marked payloads in order      crawl's thread, in slices

F is not one file but several sorted *runs* in levels (levels.py). A merge adds a run, and runs of
similar size are compacted into one, so the number of times that a fingerprint is rewritten grows
with the logarithm of their count. Looking up T' reads only the blocks that may have its
fingerprints. When T' is full these are all of F: one sequential pass at the speed of the page cache
or the disk.

Invariants:

1. ``take`` returns each submitted URL exactly once, and only submitted ones, in the order in which
   they were first submitted. (A Bloom filter loses a few, see bloom.py.)
2. When ``submit`` returns, the page's links survive ``kill -9``. If it raises, none of them was
   added. It drops nothing and never waits.
3. A snapshot names a run only when all its payloads have been taken, which means that they are in
   the frontier's snapshot of the same moment. Until then it names the section of U instead, and how
   far that was taken; merging the section again marks the same payloads.
4. A file is deleted when a snapshot that does not name it was published, or at the next open.
5. All data read is checked. Damage in files that a snapshot names is raised with path and offset
   (CorruptRecordError), and never makes a seen URL new.
6. The crawl's thread owns all state. The worker is given what it needs, and the next call installs
   its result, so there are no locks. Heavy steps release the interpreter lock.

If the process dies, runs that the snapshot does not name are deleted. U is read from the position
in the snapshot to its end, without the torn tail, and its URLs are submitted again.

Modules:

- fingerprint: from a URL to 64 bits
- eliminator: the interface for the scheduler, made of a URL log, its sections and a set
- disk_set, with caches (popular or recent fingerprints), table (T), runs (one sorted run), levels
  (F) and compaction
- bloom and bloom_file: Nielsen's set
- url_log (U), drain (reads new URLs from U), background (the worker), snapshots
- content: the content-seen test, which uses the same runs but answers immediately
- seen_view: for other processes
- url_trace: a log of all links, for comparing caches
"""

from webcrawl.seen.bloom import BloomEliminator
from webcrawl.seen.eliminator import Eliminator
