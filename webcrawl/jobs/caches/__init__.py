"""The URL cache laboratory: traces of crawls, replayed into caches of any policy and size.

After Broder, Najork and Wiener, "Efficient URL Caching for World Wide Web Crawling". Modules:
trace_files (what may be read), properties (what ``scrapy urltrace`` prints), replay (the policies),
laboratory (hits by policy and size), measurements (their file), figures, graph_crawl (the trace of
a simulated crawl of a link graph).
"""
