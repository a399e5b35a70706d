"""The URL cache laboratory: traces of crawls, replayed into caches of any policy and size.

After Broder, Najork and Wiener, "Efficient URL Caching for World Wide Web Crawling". Modules:
requests (a trace as numbers), properties (what ``scrapy urltrace`` prints),
graph_crawl (the trace of a simulated crawl of a link graph).
"""
