"""``scrapy parse`` on Scrapy's own scheduler."""

from scrapy.commands import parse

from webcrawl.commands import on_scrapys_scheduler

Command = on_scrapys_scheduler(parse.Command, __name__)
