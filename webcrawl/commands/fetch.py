"""Fetch a URL on Scrapy's own scheduler.

Examples:
  scrapy fetch https://example.org/ > page.html
  scrapy fetch --headers --nolog https://example.org/
"""

from scrapy.commands import fetch

from webcrawl.commands import scrapy_tool

Command = scrapy_tool(fetch.Command, __name__)
