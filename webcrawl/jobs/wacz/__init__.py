"""WACZ packages and CDXJ indexes of stored pages, for replay tools (pywb, ReplayWeb.page).

The life of an index::

    WARC file ─► captures, pages ─► lines of it ─► sorted: CDXJ index ─► WACZ
        captures.py                 result.py      pipelines/sorting.py  package.py

A CDXJ index has a line for each document that can be shown. The lines are sorted by URL (as SURT)
and time. A WACZ (version 1.1.1) is a ZIP file of WARC files, their index, a list of pages with
titles, and the hashes of all of these.

Invariants:

1. The file with the user's name is either complete or unchanged.
2. Data read from a WARC file is kept next to the result until the result is complete. If the
   command is stopped, running it again continues from there.
3. Memory is bounded for crawls of every size.
"""
