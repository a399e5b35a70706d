"""``scrapy shell`` on Scrapy's own scheduler."""

from __future__ import annotations

from scrapy.commands import shell

from webcrawl.commands import on_scrapys_scheduler

Command = on_scrapys_scheduler(shell.Command, __name__)
