"""Parse a page with a spider on Scrapy's own scheduler.

Examples:
  scrapy parse --spider=web https://example.org/
  scrapy parse --spider=web --nolinks https://example.org/
"""

from scrapy.commands import parse

from webcrawl.commands import scrapy_tool

Command = scrapy_tool(parse.Command, __name__)
