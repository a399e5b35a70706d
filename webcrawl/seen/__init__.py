"""Seen before or not: the duplicate URL eliminator, and the content-seen test.

The life of a submitted URL (Mercator, section 3.2 and figure 4)::

    page's links ─► fingerprint ─► cache ─► T ─► U       submit(): the crawl's thread, one write
                    (64 bits)     2^16    2^21   │       hit in cache or T: nothing more to do
                                           │     │
                        T full, or merge() ▼     ▼
                                          T'     U'      the next T and U take over at once
                                           │     │
                       sort, look up in F  ▼     │       worker thread
              runs of F ◄───── new ones ── *     │
                                 │ marks         │
                                 ▼               ▼
                    take() ◄──── marked payloads in order      crawl's thread, in slices

F is not one file but sorted *runs* in levels (levels.py): a merge adds a run, and runs of like
size are compacted into one, so a fingerprint is rewritten a number of times that grows with the
logarithm of their count. Looking T' up reads the blocks that it falls into, all of F when T' is
full, which is one sequential pass at the speed of the page cache or of the disk.

What holds at all times:

1. Each submitted URL comes out of ``take`` exactly once, and only submitted ones do, in the order
   in which each was first submitted. (Not with Bloom: it loses a few, see bloom.py.)
2. When ``submit`` returns, the page's links survive ``kill -9``. When it raises, nothing of the
   page was taken in. It drops nothing and never waits.
3. A snapshot names a run only when all its payloads have been taken, that is, are in the
   frontier's snapshot of the same moment. Until then it names the stretch of U instead and the
   place in it up to which was taken; merging the stretch again marks the same payloads.
4. A file is deleted when a snapshot that does not name it was published, or at the next open.
5. What is read is checked; damage in what a snapshot names is raised with path and offset
   (CorruptRecordError), and never makes a seen URL new.
6. The crawl's thread owns all state. The worker is handed what it needs and its result is taken
   up by the next call, so there are no locks; heavy steps release the interpreter lock.

If the process dies: runs that the snapshot does not name are deleted; U is read from the place
that the snapshot names to its end, the torn tail is cut, and what it holds is submitted again.

Modules: fingerprint (URL to 64 bits); eliminator (URL log, stretches of it, and a set: what the
scheduler calls); disk_set with caches (of what is popular or recent), table (T), runs (one sorted
run), levels (F) and compaction; bloom and bloom_file (Nielsen's set); url_log (U), drain (what is
to be taken of U), background (the worker), snapshots (what a checkpoint keeps); content (the
content-seen test: the same runs under a test that answers at once); seen_view and run_scan (for
readers beside the process); url_trace (what came, to compare caches).
"""

from webcrawl.seen.bloom import BloomEliminator
from webcrawl.seen.content import ContentSeen
from webcrawl.seen.eliminator import DiskEliminator, Eliminator

__all__ = ["BloomEliminator", "ContentSeen", "DiskEliminator", "Eliminator"]
