"""Queue builder: from stored pages to the next segment of seeds (offline mode).

Mischel's other kind of crawler: it downloads what a segment lists and follows nothing; this program
reads what it stored and makes the next segment::

    WARC files, LARM directories ─► pages ─► links ─► eliminator ─► new-N.txt ─► segment-N.txt
                 replay/sources.py    crawl/links/submission.py   seen/      queue_directory.py

A queue is a directory::

    state/              a job without a crawl: eliminator, content-seen test, domains of the seeds
    new-NNNNNN.txt      URLs of the next segment, as they are found: domain, URL, rank, by tabs
    segment-NNNNNN.txt  a seed list, sorted by registered domain; ``.tmp`` until it is complete
    remainder-*.txt     what crawls handed back, for the next segment; ``taken-`` while it is read

The links are filtered, compared and tested as in a crawl, by the same parts on a job of its own,
whose checkpoint has the offset up to which each source was read.

Invariants:

1. Each URL is in one segment, but for those that were handed back and, after a power failure, those
   of a segment that was not complete.
2. What was crawled is in no segment: before links are read, all URLs of all sources are marked.
3. A segment under its final name is complete. If the process dies, the next run goes on from the
   last checkpoint; what it takes twice is sorted out with the segment.
4. Memory is bounded by MEMORY_BUDGET, whatever the number of pages and links.
"""
