"""URL cache laboratory: replays URL traces of crawls into caches of each policy and size.

After Broder, Najork and Wiener, "Efficient URL Caching for World Wide Web Crawling". The modules:
trace_files reads traces, properties computes the output of ``scrapy urltrace``, replay has the
policies, laboratory counts hits by policy and size, measurements stores these counts, figures draws
them, and graph_crawl makes a trace by simulating the crawl of a link graph.
"""
