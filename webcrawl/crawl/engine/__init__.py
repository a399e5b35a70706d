"""Engine: all code that works with Scrapy's engine.

Only _engine.py and _fast_path.py use private attributes of Scrapy. A check at the start makes sure
that these have not changed; otherwise pages take Scrapy's own path, which is slower. `MicroBatch`
makes pages that arrive together go through each stage together. `CrawlStop` ends the crawl on a
disk error, with the exit code that a supervisor needs.
"""
