"""``scrapy check`` on Scrapy's own scheduler."""

from scrapy.commands import check

from webcrawl.commands import on_scrapys_scheduler

Command = on_scrapys_scheduler(check.Command, __name__)
