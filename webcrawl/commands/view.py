"""Open a fetched page in a browser, on Scrapy's own scheduler.

Examples:
  scrapy view https://example.org/
  scrapy view --no-redirect https://example.org/
"""

from scrapy.commands import view

from webcrawl.commands import scrapy_tool

Command = scrapy_tool(view.Command, __name__)
