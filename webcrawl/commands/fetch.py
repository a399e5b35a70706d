"""``scrapy fetch`` on Scrapy's own scheduler."""

from scrapy.commands import fetch

from webcrawl.commands import on_scrapys_scheduler

Command = on_scrapys_scheduler(fetch.Command, __name__)
