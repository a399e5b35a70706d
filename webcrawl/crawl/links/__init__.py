"""Links on their way into the crawl: from a document to the batch that is submitted.

::

    document --> PageIntake        the content-seen test, then its links
                     |             by PageLinks, within the time that ReadingWatch allows
                 LinkSubmitter     normalized, checked by the URL filters, fingerprinted
                     |
                 LinkBatch         one for each page
                     |
                 LinkSink          a shard, or what forwards to shards of other processes
                     |
                 LinkIntake        the target's side: scope by seeds, ranks, reputation

A page's links are durable before its URL is finished. Redirects, canonical URLs and sitemaps named
by robots.txt take the same path.
"""
