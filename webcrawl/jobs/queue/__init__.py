"""Queue builder, which makes the next segment of seeds from stored pages (offline mode).

This is Mischel's second kind of crawler: it downloads the URLs of a segment and follows no links.
This program then reads the stored pages and makes the next segment::

    WARC files, LARM directories ─► pages ─► links ─► eliminator ─► new-N.txt ─► segment-N.txt
                 replay/sources.py    crawl/links/submission.py   seen/      queue_directory.py

A queue is a directory::

    state/              a job without a crawl: eliminator, content-seen test, domains of the seeds
    new-NNNNNN.txt      URLs of the next segment as found: domain, URL and rank, tab-separated
    segment-NNNNNN.txt  a seed list, sorted by registered domain; ``.tmp`` until it is complete
    remainder-*.txt     URLs handed back by crawls, for the next segment; ``taken-`` while read

Links are filtered, compared and tested as in a crawl, by the same parts, but in a separate job. Its
checkpoint has the offset up to which each source was read.

Invariants:

1. Each URL is in one segment, except those that were handed back and, after a power failure, those
   of an incomplete segment.
2. URLs that were crawled are in no segment: before links are read, all URLs of all sources are
   marked as seen.
3. A segment under its final name is complete. If the process dies, the next run continues from the
   last checkpoint; sorting removes URLs that are added twice.
4. Memory is bounded by MEMORY_BUDGET, for any number of pages and links.
"""
