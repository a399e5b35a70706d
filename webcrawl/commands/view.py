"""``scrapy view`` on Scrapy's own scheduler."""

from scrapy.commands import view

from webcrawl.commands import on_scrapys_scheduler

Command = on_scrapys_scheduler(view.Command, __name__)
