"""Check spider contracts on Scrapy's own scheduler.

Examples:
  scrapy check
  scrapy check --list
"""

from scrapy.commands import check

from webcrawl.commands import scrapy_tool

Command = scrapy_tool(check.Command, __name__)
