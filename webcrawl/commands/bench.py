"""Measure Scrapy's own speed against its test server on this machine.

Examples:
  scrapy bench
  scrapy bench -s CLOSESPIDER_TIMEOUT=30
"""

from scrapy.commands import bench

from webcrawl.commands import scrapy_tool

Command = scrapy_tool(bench.Command, __name__, ALLOW_PRIVATE_ADDRESSES=True)
