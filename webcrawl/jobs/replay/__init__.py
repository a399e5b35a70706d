"""Replays stored pages through the processing modules, without a network.

The life of a stored page::

    WARC file      ─► records ─► Page ─► links ─► processing modules (item pipelines)
    LARM directory ─► lines   ─►      sources.py    spider.py
             warc_reader.py, larm_reader.py

``warc_reader`` makes a Page from a ``response`` or ``resource`` record and from the ``request`` and
``metadata`` records that refer to it. ``larm_reader`` makes a Page from a line of store.log.
``spider`` is an ordinary Scrapy spider that passes these Pages on as items. So processing modules
run as in a crawl, with signals, stats and concurrency, but without the Mercator scheduler and
without a job directory.

A Page lacks what was not stored: the rank of its host. The Pages of FTP directories and Gopher
menus have the body as it was received, and the links that were found in the crawl.

Invariants:

1. No host is contacted, and no file is changed.
2. Memory is bounded by the pages in process, for files of any size.
3. From a damaged file, all pages before the damage are read. The error names the file and offset.
"""
