"""A spider of Scrapy's own kind, which knows nothing of hives: run by test_hive_spiders.py."""

from pathlib import Path

from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule


class LinkSpider(CrawlSpider):
    """Follows all links from the start URLs, which are the lines of the file *seeds*."""

    name = "links"
    rules = (Rule(LinkExtractor(), callback="parse_item", follow=True),)

    def __init__(self, *args, seeds, **kwargs):
        super().__init__(*args, **kwargs)
        self.start_urls = Path(seeds).read_text().split()

    def parse_item(self, response):
        """One item for each page."""
        return {"url": response.url}
