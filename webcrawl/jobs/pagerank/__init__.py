"""Ranks of hosts, or of pages, from the link graph of a crawl: ``scrapy pagerank``.

::

    graph/edges ─► LinkTables   each pair of hosts once, with its links; streamed into DuckDB
                     ▼
                   Ranking      PageRank and degrees, by power iteration
                     ▼
                   results      Parquet tables, and rank,host lines for RANKS_FILE or as seeds

All of it is in link_tables.py.

The crawl may be running. A pair of hosts counts once, however many links it has, so that a host
cannot raise another by linking to it again; links of a host to itself and links with ``nofollow``
do not count.
"""
