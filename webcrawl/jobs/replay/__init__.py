"""Replay: stored pages through the processing modules again, without a network.

The life of a stored page::

    WARC file      ─► records ─► Page ─► links ─► processing modules (item pipelines)
    LARM directory ─► lines   ─►      sources.py    spider.py
             warc_reader.py, larm_reader.py

``warc_reader`` makes a Page of a ``response`` or ``resource`` record and of the ``request`` and
``metadata`` records that name it, ``larm_reader`` of a line of store.log. ``spider`` is an ordinary
Scrapy spider that yields these Pages as items, so processing modules run as in a crawl, with
signals, stats and concurrency, but without the Mercator scheduler and a job directory.

A Page lacks what was not stored: the rank of its host. FTP directories and Gopher menus have the
body as it came over the wire, with the links that were found in the crawl.

Invariants:

1. Nothing is contacted, and no file is changed.
2. Memory is bounded by the pages in process, whatever the size of the files.
3. A damaged file gives all pages before the damage, and an error with its name and offset.
"""
