"""``scrapy bench`` on Scrapy's own scheduler, against its server on this machine."""

from scrapy.commands import bench

from webcrawl.commands import on_scrapys_scheduler

Command = on_scrapys_scheduler(bench.Command, __name__, ALLOW_PRIVATE_ADDRESSES=True)
