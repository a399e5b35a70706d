"""A spider that relies on what Scrapy does by default. Run by test_as_in_scrapy.py, with stock
Scrapy and in this project; it knows nothing of either."""

import json
from pathlib import Path

from scrapy import Request
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule


class StockSpider(CrawlSpider):
    """Follows all links from *url*, and records what its callbacks and errbacks get."""

    name = "stock"
    allowed_domains = ["127.0.0.1"]  # noqa: RUF012  # as Scrapy's docs have it
    rules = [Rule(LinkExtractor(), callback="page", follow=True)]  # noqa: RUF012  # as Scrapy's docs have it
    custom_settings = {  # noqa: RUF012  # as Scrapy's docs have it
        "DEPTH_LIMIT": 2,
        "HTTPAUTH_USER": "me",
        "HTTPAUTH_PASS": "secret",
        "HTTPAUTH_DOMAIN": None,
        "RETRY_TIMES": 0,
        "ROBOTSTXT_OBEY": True,
        "DOWNLOAD_DELAY": 0.2,
        "DOWNLOAD_DELAY_JITTER": 0,
    }

    async def start(self):
        if not hasattr(self, "url"):
            return  # the second run goes on from the job directory
        yield Request(self.url)
        for url in self.failing.split():
            meta = {"allow_offsite": True, "dont_merge_cookies": True}
            yield Request(url, callback=self.page, errback=self.failed, meta=meta)

    def note(self, **facts):
        with Path(self.record).open("a") as record:
            record.write(json.dumps(facts) + "\n")

    def parse_start_url(self, response):
        return self.page(response)

    def page(self, response):
        self.note(url=response.url, status=response.status, depth=response.meta["depth"])
        yield {"url": response.url}

    def failed(self, failure):
        error = next(c for c in type(failure.value).__mro__ if c.__module__.startswith("scrapy."))
        self.note(url=failure.request.url, error=error.__name__)
