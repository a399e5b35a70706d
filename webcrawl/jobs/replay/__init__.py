"""Stored pages through processing modules again, without asking anybody for them.

The life of a stored page::

    WARC file ─► records ─► Page ─► links ─► processing modules (item pipelines)
              reader.py               crawl/link_extractor.py        spider.py

``reader`` makes a Page of a ``response`` or ``resource`` record and of the ``request`` and
``metadata`` records that name it, by this crawler or another one. ``spider`` is an ordinary Scrapy
spider that yields these Pages as items, so processing modules run as they do in a crawl: with
signals, stats and concurrency, but without a scheduler of ours and without a job directory.

What a Page lacks that was not stored: the rank of its host; and of FTP directories and Gopher menus
the body is what came over the wire, with the links that were found at the time.

Invariants:

1. Nothing is contacted, and no WARC file is changed.
2. Memory: the pages in process, however large the files are.
3. A damaged file gives all pages before the damage, and is told by name and offset.
"""

from webcrawl.jobs.replay.reader import DamagedWarcError, Stored, stored_pages
from webcrawl.jobs.replay.spider import ReplaySpider

__all__ = ["DamagedWarcError", "ReplaySpider", "Stored", "stored_pages"]
