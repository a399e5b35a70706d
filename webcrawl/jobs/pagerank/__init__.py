"""Ranks hosts or pages by the link graph of a crawl: ``scrapy pagerank``.

::

    graph/edges ─► LinkTables   each pair of hosts, with its number of links, in DuckDB
                     ▼
                   Ranking      PageRank and degrees, by power iteration
                     ▼
                   results      Parquet tables, and rank,host lines for RANKS_FILE or as seeds

The code is in link_tables.py.

The crawl may be running. A pair of hosts counts once, even if it has many links, so that a host
cannot raise another by linking to it repeatedly. Links from a host to itself and links with
``nofollow`` do not count.
"""
