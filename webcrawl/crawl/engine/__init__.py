"""Engine: where the crawl touches Scrapy's engine.

Private attributes of Scrapy are read in _engine.py and _fast_path.py only, behind a check at the
start that they are what they were; without them pages go Scrapy's own way, and are slower.
`MicroBatch` lets pages that come together be worked on together. `CrawlStop` ends the crawl on an
error of the disk, with the exit code that a supervisor needs.
"""
