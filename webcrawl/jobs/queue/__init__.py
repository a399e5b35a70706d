"""Builds the next segment of seeds from stored pages (offline mode).

Mischel's second kind of crawler downloads the URLs of a segment and follows no links. The queue
builder then reads the stored pages and makes the next segment::

    WARC files, LARM directories ─► pages ─► links ─► eliminator ─► new-N.txt ─► segment-N.txt
                 replay/sources.py    crawl/links/submission.py   seen/      queue_directory.py

A queue is a directory::

    state/              a job without a crawl: eliminator, content-seen test, domains of the seeds
    new-NNNNNN.txt      URLs for the next segment, unsorted: domain, URL and rank, tab-separated
    segment-NNNNNN.txt  a seed list, sorted by registered domain; ``.tmp`` until it is complete
    remainder-*.txt     URLs handed back by crawls, for the next segment; ``taken-`` while read

Links are filtered, compared and tested by the same code as in a crawl, but in a separate job. Its
checkpoint records the offset up to which each source was read.

Invariants:

1. Each URL is in only one segment, except URLs that were handed back and, after a power failure,
   URLs of an incomplete segment.
2. No segment has URLs that were crawled already: before links are read, the URLs of all pages in
   all sources are marked as seen.
3. A segment under its final name is complete. If the process dies, the next run continues from the
   last checkpoint; sorting removes URLs that were added twice.
4. Memory is bounded by MEMORY_BUDGET, for any number of pages and links.
"""
