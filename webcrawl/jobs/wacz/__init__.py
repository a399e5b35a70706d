"""WACZ and CDXJ: the stored pages of a crawl for replay tools (pywb, ReplayWeb.page).

The life of an index::

    WARC file ─► captures, pages ─► lines of it ─► sorted: CDXJ index ─► WACZ
        captures.py                 result.py      storage/sorting.py    package.py

A CDXJ index has a line for each document that can be shown, sorted by its URL (as SURT) and time. A
WACZ (version 1.1.1) is a ZIP file of WARC files, their index, a list of pages with titles, and the
hashes of all of these.

Invariants:

1. Under the name that the user gave there is the whole result, or what was there before.
2. What was read of a WARC file is kept beside the result until that is there, so the same command
   goes on where it was stopped.
3. Memory is bounded, whatever the size of the crawl.
"""
