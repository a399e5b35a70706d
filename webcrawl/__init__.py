"""webcrawl: a Mercator-style web crawler built on Scrapy."""
