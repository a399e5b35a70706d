"""A spider that yields the headings of one site's pages."""

from urllib.parse import urlsplit

from scrapy import Spider


class Headings(Spider):
    name = "headings"

    def __init__(self, site, **options):
        super().__init__(**options)
        self.start_urls = [site]
        self.allowed_domains = [urlsplit(site).hostname]

    def parse(self, response):
        for heading in response.css("h1, h2"):
            text = "".join(heading.css("::text").getall()).strip()
            yield {"url": response.url, "level": heading.root.tag, "text": text}
        yield from response.follow_all(css="a")
