"""URL cache laboratory: replays traces of crawls into caches of each policy and size.

After Broder, Najork and Wiener, "Efficient URL Caching for World Wide Web Crawling". Modules:
trace_files (readable formats), properties (the output of ``scrapy urltrace``), replay (the
policies), laboratory (hits by policy and size), measurements (their file), figures, graph_crawl
(the trace of a simulated crawl of a link graph).
"""
