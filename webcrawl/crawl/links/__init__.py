"""Links on their way into the crawl: found in a document, filtered, submitted as one batch.

::

    document --> PageIntake        runs the content-seen test, then finds the links with PageLinks,
                     |             within the time that ReadingWatch allows
                 LinkSubmitter     normalizes links, applies the URL filters, adds fingerprints
                     |
                 LinkBatch         holds the links of one page
                     |
                 LinkSink          is a shard, or forwards to shards of other processes
                     |
                 LinkIntake        works in the target's shard: scope by seeds, ranks, reputation

A page's links are on disk before its URL is finished. Redirects, canonical URLs and sitemaps named
by robots.txt take the same path.
"""
